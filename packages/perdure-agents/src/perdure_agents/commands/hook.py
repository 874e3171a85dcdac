"""`perdure hook HOST`: reads a host's event from stdin and answers in its shape. It never fails: exit code 0, always.

A host takes some exit codes for an order (2 blocks a compaction, a tool call, the end of a turn). So every error,
also one in the options or in perdure.toml, is one line on stderr.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from perdure.cli.options import CommandWithExamples, StoreOptions, writes_for_hosts
from perdure.errors import Error, Invalid
from perdure.model.display import visible

TIMEOUT_SECONDS = 10.0  # for the store: less than any host waits


class Hook(CommandWithExamples):
    """A command that ends well, whatever its options are."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the options; what is wrong with them is a note."""
        try:
            return super().make_context(*args, **kwargs)
        except click.exceptions.Exit:
            raise
        except (click.ClickException, Error) as error:
            _note(error)
            sys.exit(0)


@click.command(
    "hook",
    cls=Hook,
    examples=(
        "perdure hook claude-code < event.json",
        "perdure hook codex --part 2",
        "perdure hook generic --event Stop",
    ),
)
@click.argument("host")
@click.option(
    "--part", type=click.IntRange(1, 9), default=1, show_default=True, metavar="N", help="Of a boot: which part."
)
@click.option("--event", "event_name", default="", metavar="NAME", help="If the host does not say which event it is.")
@click.option("--session", envvar="PERDURE_SESSION", default="", metavar="NAME", help="Default: one for the workspace.")
@writes_for_hosts
def hook(options: StoreOptions, *, host: str, part: int, event_name: str, session: str) -> None:
    """Answer one hook of HOST (claude-code, codex, cursor, gemini, opencode, generic). Its event comes on stdin.

    A new or compacted context gets its boot; a transcript is read into the store, each turn once; edits and commands become
    events. `perdure install --for HOST` writes the configuration. The exit code is always 0; stderr says what went wrong.
    """
    from perdure_agents.hosts.catalog import HOSTS, answer  # noqa: PLC0415 - help must not load this

    known_host = HOSTS.get(host)
    text, name = "", event_name
    try:
        text, name = _respond(options, known_host, part, event_name, session) if known_host is not None else ("", "")
    except Exception as error:  # noqa: BLE001 - the host must not stop because of us
        _note(error)
    if known_host is None:
        _note(Invalid(f"unknown host {host[:40]!r}", path="host", hint=f"one of {', '.join(HOSTS)}"))
    else:
        output = answer(known_host, name, text)
        click.echo(output if isinstance(output, str) else json.dumps(output), nl=output != "")


def _respond(options: StoreOptions, host: Any, part: int, event_name: str, session: str) -> tuple[str, str]:
    import perdure  # noqa: PLC0415 - help must not load the stores
    from perdure_agents.hosts.events import STDIN_MAX_BYTES, read_event  # noqa: PLC0415 - as above
    from perdure_agents.hosts.hook_answers import respond  # noqa: PLC0415
    from perdure_agents.hosts.workspace import made_folder, workspace_of  # noqa: PLC0415

    data = b"" if sys.stdin.isatty() else sys.stdin.buffer.read(STDIN_MAX_BYTES + 1)
    event = read_event(data, Path.cwd())
    event = event._replace(name=event_name or event.name)
    made_folder(options.store)
    with perdure.open(options.store, actor=options.actor, tenant=options.tenant, timeout=TIMEOUT_SECONDS) as store:
        return respond(store, host, event, workspace_of(event.folder, session), part), event.name


def _note(error: Exception) -> None:
    if isinstance(error, click.ClickException):
        text = error.format_message().removesuffix(".")
    else:
        text = str(error) if isinstance(error, Error) else f"{type(error).__name__}: {error}"
    click.echo(f"perdure hook: {visible(' '.join(text.split()))[:500]}; the host continues without it", err=True)

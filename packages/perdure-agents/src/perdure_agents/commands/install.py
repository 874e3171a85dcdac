"""`perdure install`: the configuration of a coding agent's host: shown first, then written, checked, and taken back on demand."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perdure.cli.doctor import HOST_COLUMNS
from perdure.cli.options import command, json_option, log_options, user_store_option
from perdure.cli.output import note, say_json
from perdure.cli.tables import say_table
from perdure.errors import Refused

if TYPE_CHECKING:
    from perdure_agents.hosts.plans import InstallOptions

NAMES = ("claude-code", "codex", "cursor", "gemini", "opencode", "generic")


@command(
    "install",
    "perdure install --for claude-code",
    "perdure install --for codex --dry-run",
    "perdure install --for claude-code --undo",
)
@click.option("--for", "host_name", type=click.Choice(NAMES), required=True, help="Which host.")
@click.option("--undo", is_flag=True, help="Put every file back as it was.")
@click.option("--dry-run", is_flag=True, help="Only show the difference.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--root", default=".", metavar="DIR", help="The workspace. Default: the repository around this folder.")
@user_store_option
@json_option
@log_options
def install(
    *, host_name: str, undo: bool, dry_run: bool, yes: bool, root: str, store: str, as_json: bool
) -> None:  # fmt: skip
    """Configure a coding agent's host, in the files of this workspace, to start `perdure mcp` and call `perdure hook`.

    Shows the difference, asks, writes, and checks that it works. Every other entry stays. A second install changes nothing;
    --undo restores every byte, and in a file that somebody changed since, removes only our entries.
    """
    from perdure_agents.hosts import host_checks, installation  # noqa: PLC0415 - help must not load this
    from perdure_agents.hosts.catalog import HOSTS  # noqa: PLC0415 - as above
    from perdure_agents.hosts.workspace import workspace_of  # noqa: PLC0415

    host, place, home = HOSTS[host_name], workspace_of(Path(root)).root, Path.home()
    changes = (
        installation.undoing(host, place, home) if undo else installation.planned(host, place, _install_options(store))
    )
    changes = [change for change in changes if change.before != change.after]
    if not as_json:
        for change in changes:
            click.echo(change.diff)
        if not changes:
            note("no difference")
    if not dry_run and changes:
        _confirm(yes=yes or as_json)
    if not dry_run:
        installation.undo(host, place, home) if undo else installation.install(host, place, changes, home)
    findings = [] if dry_run or undo else host_checks.examine(place, home, host_name)
    if as_json:
        files = [{"path": change.path, "diff": change.diff} for change in changes]
        say_json(
            {
                "host": host_name,
                "root": str(place),
                "changes": files,
                "findings": [finding._asdict() for finding in findings],
            }
        )
    elif findings:
        say_table(HOST_COLUMNS, findings)
    sys.exit(1 if any(finding.severity == "error" for finding in findings) else 0)


def _install_options(store: str) -> InstallOptions:
    from perdure.stores import url  # noqa: PLC0415
    from perdure_agents.hosts.plans import InstallOptions  # noqa: PLC0415 - as above

    program = shutil.which("perdure")
    ours = Path(sys.argv[0]).resolve()
    command = (
        ("perdure",) if program is not None and Path(program).resolve() == ours else (sys.executable, "-m", "perdure")
    )
    if url.without_password(store) != store:
        note("the store's URL has a password, which is not written down: set PERDURE_STORE where the host is started")
        return InstallOptions(command, "", str(Path.home()))
    path = url.parse(store).path
    scheme = store.partition("://")[0]
    return InstallOptions(command, store if path is None else f"{scheme}:///{path.resolve()}", str(Path.home()))


def _confirm(*, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise Refused("there is no terminal to ask on", path="yes", hint="--yes writes it, --dry-run only shows it")
    click.confirm("Write this?", abort=True, err=True)

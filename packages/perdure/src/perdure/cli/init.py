"""`perdure init`: writes `perdure.toml` for a scenario, and makes the store that it names. `settings` reads the file back."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from perdure.cli.options import command, json_option, log_options
from perdure.cli.output import note, say_facts, say_json
from perdure.cli.settings import FILE
from perdure.errors import Conflict, Error, Invalid, Refused, Unavailable
from perdure.model.limits import LEASE_TTL_SECONDS

WAIT_SECONDS = 5.0
SQLITE, SERVER = "sqlite:///agent.db", "postgresql://perdure@localhost/perdure"
OBJECTS = f"{SERVER}?artifacts=s3://perdure-artifacts"
# scenario -> store; of a worker its processes, the runs in each and its grace; what a person does next
SCENARIOS = {
    "local": (SQLITE, 1, 10, "5s", "perdure backup, to another disk; perdure doctor says when it is outgrown"),
    "team": (SERVER, 2, 10, "10s", "perdure worker MODULE on every machine; perdure asks shows what people are asked"),
    "throughput": (SERVER, 8, 200, "10s", "perdure workers --watch shows what waits, and for whom"),
    "platform": (OBJECTS, 4, 50, "30s", "programs and workers name a tenant: perdure.open(url, tenant=…)"),
    "compliance": (OBJECTS, 2, 10, "30s", "perdure anchor daily, kept elsewhere; perdure verify --anchor FILE"),
}
TEXT = """\
# Perdure, {scenario}. Read by the perdure commands that run in this folder.
# An option wins over the environment, and the environment over this file.
# Next: {advice}.

# Where the state is (--store, PERDURE_STORE). No password here: it belongs into ~/.pgpass or PGPASSWORD.
store = {store}
# Whose state it is, where several share a store (--tenant, PERDURE_TENANT).
{tenant}
# The name that the log gives to each writer (--actor, PERDURE_ACTOR); without it, your login.
# actor = "me"

[worker]
# Processes of one `perdure worker`; a process that dies takes no other with it.
processes = {processes}
# Runs at once in each process.
concurrency = {concurrency}
# Without a sign of life for so long, a worker of another machine has lost its runs.
lease = "{lease}s"
# How long runs may continue after SIGTERM, before they are given back.
grace = "{grace}"
"""


def text_of(scenario: str, url: str) -> str:
    """The file, as it is written. A platform names its tenants itself."""
    _, processes, concurrency, grace, advice = SCENARIOS[scenario]
    return TEXT.format(
        scenario=scenario, store=json.dumps(url), tenant="# " * (scenario == "platform") + 'tenant = "default"', grace=grace,
        processes=processes, concurrency=concurrency, lease=LEASE_TTL_SECONDS, advice=advice,
    )  # fmt: skip


@command("init", "perdure init", "perdure init --scenario team --store postgresql://me@host/agents --dry-run")
@click.option("--scenario", type=click.Choice([*SCENARIOS]), default="local", show_default=True,
              help="The purpose; perdure advise says which fits.")  # fmt: skip
@click.option("--store", metavar="URL", help="Which store, instead of the scenario's own.")
@click.option("--dry-run", is_flag=True, help="Only show what would be written.")
@click.option("--force", is_flag=True, help="Replace the file if there is one; a store is never replaced.")
@json_option
@log_options
def init(*, scenario: str, store: str | None, dry_run: bool, force: bool, as_json: bool) -> None:
    """Write perdure.toml into this folder, and make the store that it names.

    Other commands in this folder read the file; options and the environment take precedence. If a server does not answer yet,
    the file is written all the same, and `perdure doctor` says what is missing. If a file or folder cannot be a store, that is
    an error, and nothing is written.
    """
    url = store or SCENARIOS[scenario][0]
    _check(url)
    text = text_of(scenario, url)
    if dry_run:
        say_json({"file": FILE, "text": text, "written": False}) if as_json else click.echo(text, nl=False)
        return
    with written(Path.cwd() / FILE, text, force=force):
        trouble = _make(url)
    if as_json:
        say_json({"file": FILE, "scenario": scenario, "store": url, "reachable": not trouble, "trouble": trouble})
        return
    say_facts({"file": FILE, "scenario": scenario, "store": url})
    note(f"the store does not answer yet: {trouble}" if trouble else "the store is there; doctor looks after it")
    if os.environ.get("PERDURE_STORE"):
        note("PERDURE_STORE is set, and wins over this file")


def _check(url: str) -> None:
    from perdure.stores.url import parse, without_password  # noqa: PLC0415 - help must not load the stores

    if not parse(url).lasts:
        raise Invalid("a store in memory is gone when the command ends", path="store", hint=SQLITE)
    if without_password(url) != url:
        hint = "~/.pgpass, PGPASSWORD or PERDURE_STORE"
        raise Invalid(f"a password does not belong into {FILE}", path="store", hint=hint)


@contextmanager
def written(path: Path, text: str, *, force: bool) -> Iterator[None]:
    """Write the file, whole or not at all, once what is done meanwhile went well. Conflict when there is one already."""
    hint = "--force replaces it; --dry-run shows what would be written"
    exists = Conflict(f"{path.name} exists already", path="init", hint=hint)
    if not force and (path.exists() or path.is_symlink()):
        raise exists
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        try:
            with partial.open("x", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            hint = "run it in a folder that may be written, or name the store with --store or PERDURE_STORE"
            raise Refused(str(error.strerror), path=str(path), hint=hint) from error
        yield
        try:
            partial.replace(path) if force else path.hardlink_to(partial)
        except FileExistsError:
            raise exists from None
    finally:
        with suppress(OSError):  # it could not be made, or has its name
            partial.unlink()


def _make(url: str) -> str:
    """Make the store, or open the one that is there; why a server could not be reached, in words."""
    import perdure  # noqa: PLC0415 - as above
    from perdure.stores.url import parse  # noqa: PLC0415 - as above

    try:
        perdure.open(url, timeout=WAIT_SECONDS).close()
    except Error as error:
        if parse(url).path is not None and not isinstance(error, Unavailable):
            raise
        return " ".join(str(error).split())
    return ""

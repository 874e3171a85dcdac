"""`perdure init`: writes `perdure.toml` for a scenario, and makes the store that it names. Presets: `choosing`."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from perdure.choosing.presets import PRESETS, text_of
from perdure.choosing.rules import Scenario
from perdure.doors.cli.options import command, json_option, log_options
from perdure.doors.cli.output import note, say_facts, say_json
from perdure.doors.cli.settings import FILE
from perdure.errors import Conflict, Error, Invalid, Refused, Unavailable

WAIT_SECONDS = 5.0
_NOT_HERE = (errno.EROFS, errno.EACCES, errno.EPERM)


@command(
    "init",
    "perdure init",
    "perdure init --scenario team --store postgresql://me@host/agents",
    "perdure init --scenario platform --dry-run",
)
@click.option(
    "--scenario", type=click.Choice([str(scenario) for scenario in Scenario]), default=str(Scenario.LOCAL), show_default=True,
    help="The purpose; perdure advise says which fits.",
)  # fmt: skip
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
    chosen = Scenario(scenario)
    url = store or PRESETS[chosen].store
    check_url(url)
    text = text_of(chosen, url)
    if dry_run:
        say_json({"file": FILE, "text": text, "written": False}) if as_json else click.echo(text, nl=False)
        return
    with written(Path.cwd() / FILE, text, force=force):
        trouble = _make(url)
    if as_json:
        say_json({"file": FILE, "scenario": scenario, "store": url, "reachable": not trouble, "trouble": trouble})
        return
    say_facts({"file": FILE, "scenario": scenario, "store": url})
    note(
        f"the store does not answer yet: {trouble}" if trouble else "the store is there; perdure doctor looks after it"
    )
    if os.environ.get("PERDURE_STORE"):
        note("PERDURE_STORE is set, and wins over this file")


def check_url(url: str) -> None:
    """Refuse what names no store, what lasts no longer than this command, and a password in a file."""
    from perdure.stores.url import parse, without_password  # noqa: PLC0415 - help must not load the stores

    if not parse(url).lasts:
        raise Invalid("a store in memory is gone when the command ends", path="store", hint="sqlite:///agent.db")
    if without_password(url) != url:
        raise Invalid(
            f"a password does not belong into {FILE}", path="store", hint="~/.pgpass, PGPASSWORD or PERDURE_STORE"
        )


@contextmanager
def written(path: Path, text: str, *, force: bool) -> Iterator[None]:
    """Write the file, whole or not at all, once what is done meanwhile went well. Conflict when there is one already."""
    if not force and (path.exists() or path.is_symlink()):
        raise _exists(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        _write(partial, path, text)
        yield
        if force:
            partial.replace(path)
        else:
            _link(partial, path)
    finally:
        with suppress(OSError):  # it could not be made, or has its name
            partial.unlink()


def _write(partial: Path, path: Path, text: str) -> None:
    try:
        with partial.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        if error.errno not in _NOT_HERE:
            raise
        hint = "run it in a folder that may be written, or name the store with --store or PERDURE_STORE"
        raise Refused(str(error.strerror), path=str(path), hint=hint) from error


def _link(partial: Path, path: Path) -> None:
    """Give it its name only if nobody has taken it meanwhile."""
    try:
        path.hardlink_to(partial)
    except FileExistsError:
        raise _exists(path) from None


def _exists(path: Path) -> Conflict:
    return Conflict(
        f"{path.name} exists already", path="init", hint="--force replaces it; --dry-run shows what would be written"
    )


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

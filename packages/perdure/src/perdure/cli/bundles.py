"""`perdure export`, and of `perdure import` what takes bundles: sessions and runs in a file, out of a store and into another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.finding import is_run, run_id
from perdure.cli.names import argument, run_names, stream_names
from perdure.cli.options import Body, StoreOptions, command, reads
from perdure.cli.output import bytes_size, counted, note, plain, say_facts, say_json
from perdure.cli.progress import progress
from perdure.cli.tables import Column, say_table
from perdure.errors import NotFound

if TYPE_CHECKING:
    from perdure.handles.sync.store import Store
    from perdure.interchange.readable import Readable
    from perdure.model.records.bundles import Arrived, Exported

LEARNING = ("openai", "trl", "preferences", "atif")
NEW_FILE = click.Path(path_type=Path)


def _remarks(each: Arrived) -> str:
    parked = "parked: a copy" if each.parked else ""
    without = f"without its session {each.without}, which is not here" if each.without else ""
    return "; ".join(filter(None, (parked, without)))


KEYS_SHOWN = 20
ARRIVED = (
    Column("kind", lambda each: each.kind),
    Column("name", lambda each: each.name),
    Column("events", lambda each: each.events),
    Column("new", lambda each: each.added),
    Column("", _remarks),
)


@command(
    "export",
    "perdure export issue-42 -o issue-42.perdure",
    "perdure export --all -o everything.perdure",
    "perdure export issue-42 --format markdown",
    "perdure export run:4f1c2a9b77d0 --format markdown",
    "perdure export --incident 4f1c2a9b77d0 -o incident.perdure",
    "perdure export --all --format openai --outcome worked -o rows.jsonl",
)
@argument("names", stream_names, nargs=-1)
@click.option("-o", "--output", type=NEW_FILE, help="The new file; for reading, standard output if it is left out.")
@click.option("--scope", "scopes", multiple=True, metavar="NAME", help="Also this scope's values.")
@click.option("--run", "runs", multiple=True, metavar="RUN", shell_complete=run_names, help="Also this run.")
@click.option("--all", "everything", is_flag=True, help="Every session, scope and run of the tenant.")
@click.option(
    "--incident", metavar="RUN", shell_complete=run_names, help="One run, explained: with its session and a page."
)
@click.option(
    "--format",
    "shape",
    type=click.Choice(["bundle", "json", "markdown", *LEARNING]),
    default="bundle",
    show_default=True,
    help="json and markdown are for reading; openai, trl, preferences and atif are rows to learn from. Nothing reads them back.",
)
@click.option("--outcome", type=click.Choice(["worked", "failed", "unknown"]),
              help="Of rows to learn from: only sessions with this outcome.")  # fmt: skip
@reads
def export(
    asked: StoreOptions, *, names: tuple[str, ...], output: Path | None, incident: str | None, shape: str,
    outcome: str | None, **chosen: Any,
) -> None:  # fmt: skip
    """Write NAMES (sessions, or run:ID) into one file: their events with the proof of their chains, the runs of sessions, and
    every blob that they need.

    The same content gives the same bytes. A fork brings its past. Nothing is left out or blackened: look for secrets before you
    give the file away.
    """
    if incident is not None and (names or any(chosen.values()) or shape != "bundle"):
        raise click.UsageError("--incident stands alone: the run decides what belongs to it")
    if outcome is not None and shape not in LEARNING:
        raise click.UsageError(f"--outcome chooses rows to learn from: --format {'|'.join(LEARNING)}")
    if shape in LEARNING:
        _learn(asked, names, output, shape, outcome, chosen)
        return
    if shape != "bundle":
        if not (names or chosen["runs"]) or chosen["scopes"] or chosen["everything"]:
            raise click.UsageError(f"--format {shape} shows sessions and runs: name them, and nothing else")
        _say_readable(asked, names, chosen["runs"], output, shape)
        return
    if output is None:
        raise click.UsageError("a bundle needs a file: -o NAME.perdure")
    with asked.open() as store, progress("exporting") as step:
        if incident is not None:
            done = store.export_incident(output, run_id(store, incident))
        else:
            done = store.export(output, progress=step, **{**chosen, **_chosen(store, names, chosen["runs"])})
    _say_exported(done, as_json=asked.as_json)


def _learn(
    asked: StoreOptions, names: tuple[str, ...], output: Path | None, shape: str, outcome: str | None, chosen: dict[str, Any]
) -> None:  # fmt: skip
    """Sessions as rows to learn from."""
    if output is None:
        raise click.UsageError("rows to learn from need a file: -o NAME.jsonl")
    if not (names or chosen["everything"]) or chosen["scopes"] or chosen["runs"] or any(map(is_run, names)):
        raise click.UsageError(f"--format {shape} takes sessions: name them, or --all")
    with asked.open() as store:
        done = store.export_learning(output, shape, names, everything=chosen["everything"], outcome=outcome)
    if asked.as_json:
        say_json(done)
        return
    say_facts(plain(done))
    note("it holds what was said as it was recorded, secrets included")


def _chosen(store: Store, names: tuple[str, ...], runs: tuple[str, ...]) -> dict[str, list[str]]:
    """The named things, as sessions and as runs."""
    found = [run_id(store, name) for name in (*filter(is_run, names), *runs)]
    return {"sessions": [name for name in names if not is_run(name)], "runs": [*dict.fromkeys(found)]}


def _say_exported(done: Exported, *, as_json: bool) -> None:
    if as_json:
        say_json(done)
        return
    facts = {"bundle": done.path, "size": bytes_size(done.size), "streams": done.streams, "events": done.events}
    say_facts({**facts, "blobs": done.blobs, "digest": done.digest})
    note("it holds everything as it was recorded, secrets included")


def _say_readable(
    asked: StoreOptions, names: tuple[str, ...], runs: tuple[str, ...], output: Path | None, shape: str
) -> None:
    """Sessions and runs for reading."""
    with asked.open() as store:
        found = store.readable(**_chosen(store, names, runs))
    text = found.markdown() if shape == "markdown" else _as_json(found)
    if output is None:
        click.echo(text, nl=False)
        return
    with output.open("x", encoding="utf-8") as file:
        file.write(text)
    counts = {"sessions": len(found.sessions), "runs": len(found.runs)}
    about = {"path": str(output.absolute()), "size": output.stat().st_size, **counts}
    if asked.as_json:
        say_json(about)
    else:
        say_facts({**about, "size": bytes_size(about["size"])})


def _as_json(found: Readable) -> str:
    """A list: sessions, then runs, each as one object."""
    runs = [{name: value for name, value in plain(run).items() if name != "page"} for run in found.runs]
    return json.dumps([*plain(found.sessions), *runs], indent=2) + "\n"


def _names(_ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """--rename OLD=NEW"""
    pairs = [each.partition("=") for each in given]
    if any(not (old and new) for old, _, new in pairs):
        raise click.BadParameter("expected OLD=NEW")
    return {old: new for old, _, new in pairs}


def renaming(function: Body) -> Body:
    """--rename, for `perdure import`."""
    about = "Of a bundle: give a session another name here; repeatable."
    return click.option("--rename", "names", multiple=True, metavar="OLD=NEW", callback=_names, help=about)(function)


def _target(asked: StoreOptions, bundle: Path, *, dry_run: bool) -> Any:
    """The store; made if there is none, but not for a bundle that could not be taken, and for a dry run in memory only."""
    import perdure  # noqa: PLC0415 - help must not load the stores
    from perdure.interchange.bundle_in import look  # noqa: PLC0415 - as above

    try:
        return asked.open()
    except NotFound as missing:
        if dry_run and missing.path != "store":
            raise  # of a tenant that is not there yet, other tenants may have what would come
        look(bundle)
    return perdure.open("memory:" if dry_run else asked.store, actor=asked.actor, tenant=asked.tenant)


def import_bundle(asked: StoreOptions, bundle: Path, names: dict[str, str], *, keys_apart: bool, dry_run: bool) -> None:
    """Import one bundle and say what came of it. The store is made if there is none; a dry run then adds to nothing."""
    from perdure.interchange.bundle import no_bundle  # noqa: PLC0415 - help must not load this

    if not bundle.is_file():
        raise no_bundle(bundle)
    with _target(asked, bundle, dry_run=dry_run) as store, progress("verifying") as step:
        done = store.import_(bundle, names=names, keys_apart=keys_apart, dry_run=dry_run, progress=step)
    if asked.as_json:
        say_json(done)
        return
    say_table(ARRIVED, done.streams)
    what = "would be added" if done.dry_run else "added"
    note(f"{counted(done.added, 'event')} {what} for tenant {done.tenant}")
    keys = sorted({key for each in done.streams for key in each.keys})
    if keys:
        more = f" and {len(keys) - KEYS_SHOWN} more (--json lists them)" if len(keys) > KEYS_SHOWN else ""
        held = ", ".join(keys[:KEYS_SHOWN]) + more
        note(f"copies hold {counted(len(keys), 'key')}, and work that is begun here under one is refused: {held}")

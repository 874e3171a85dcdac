"""`perdure import`: sessions and state from other programs' files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.bundles import import_bundle, renaming
from perdure.cli.options import StoreOptions, command, writes
from perdure.cli.output import counted, note, say_facts, say_json
from perdure.cli.progress import progress
from perdure.cli.tables import Column, folded, say_table
from perdure.errors import Damaged
from perdure.model import siblings

if TYPE_CHECKING:
    from perdure.handles.sync.store import Store

SHOWN = 20
BUNDLE = ".perdure"
NAMES = ("claude-code", "codex", "langgraph", "openai-agents", "google-adk", "messages")
KINDS = ("tasks", "decisions", "events", "values")
COLUMNS = (
    Column("what", lambda kind: kind[0]),
    Column("read", lambda kind: kind[1]),
    Column("added", lambda kind: kind[2]),
    Column("standing", lambda kind: kind[3]),
)
LEFT_OUT = (folded("left out", lambda remark: remark.place), folded("why", lambda remark: remark.why))


def _complete_format(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in NAMES if name.startswith(incomplete)]


@command(
    "import",
    "perdure import ~/.claude/projects --dry-run",
    "perdure import sessions.db --from openai-agents",
    "perdure import backlog.tsv --as tasks --field title=Summary --session backlog",
    "perdure import issue-42.perdure --rename issue-42=theirs --dry-run",
    "perdure import checkpoints.sqlite --store sqlite:///agent.db --json",
)
@click.argument("paths", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@click.option("--from", "format_name", metavar="FORMAT", shell_complete=_complete_format,
              help=f"Format of the files: {', '.join(NAMES)}, or of another package; default: by content.")  # fmt: skip
@click.option("--as", "kind", type=click.Choice(KINDS), help="Kind of the rows of a CSV, TSV, JSON or YAML file.")
@click.option(
    "--field", "fields", multiple=True, metavar="FIELD=COLUMN", help="With --as: which column is what; repeatable."
)
@click.option(
    "--session", default="", metavar="NAME", help="With --as: into which session; by default one named as the file."
)
@click.option("--scope", default="", metavar="NAME", help="With --as values: into which scope instead.")
@renaming
@click.option("--keys-apart", is_flag=True, help="Of a bundle: its copies hold no keys here.")
@click.option("--dry-run", is_flag=True, help="Only say what is in the files, or what a bundle would add.")
@writes
def import_(
    asked: StoreOptions, *, paths: tuple[Path, ...], format_name: str | None, kind: str | None, fields: tuple[str, ...],
    session: str, scope: str, names: dict[str, str], keys_apart: bool, dry_run: bool,
) -> None:  # fmt: skip
    """Import sessions, turns, calls, results, values, tasks and decisions of other programs, or bundles.

    FILE may be a folder. Importing again adds nothing, and a file that has grown adds only the new part. After a crash, run it
    again. A new store is created. A broken part is left out and listed, the rest is imported, and the exit code is 8.

    A bundle (.perdure) that `perdure export` made is verified first and imported whole or not at all. Its unfinished runs
    arrive parked: they are copies, and only `perdure unpark` lets one continue here. So with a key that a copy holds: work
    that is begun here under it is refused, until the copy is taken over (`perdure unpark`) or holds no keys (--keys-apart).
    """
    if _are_bundles(paths):
        for path in paths:
            import_bundle(asked, path, names, keys_apart=keys_apart, dry_run=dry_run)
        return
    importing = siblings.load("perdure.importing", "files", "perdure-agents", "an import of other programs' files")
    mapping = _mapping(importing, kind, fields, session, scope, format_name)
    importing.check_given(paths, format_name, mapping)  # a misspelt argument leaves no new store behind
    with _store(asked, dry_run=dry_run) as store, progress("importing") as step:
        report = importing.import_files(store, paths, format_name=format_name, mapping=mapping, progress=step)
    if asked.as_json:
        say_json(report)
    else:
        _say_report(report)
    sys.exit(0 if report.ok else Damaged.exit_code)


def _mapping(
    importing: Any, kind: str | None, fields: tuple[str, ...], session: str, scope: str, format_name: str | None
) -> Any:
    if kind is None:
        if fields or session or scope:
            raise click.UsageError("--field, --session and --scope say how rows are read: they need --as")
        return None
    if format_name is not None:
        raise click.UsageError("--from and --as exclude each other")
    pairs = [field.partition("=") for field in fields]
    for (name, equals, column), field in zip(pairs, fields, strict=True):
        if not (name and equals and column):
            raise click.BadParameter(f"expected FIELD=COLUMN, got {field!r}", param_hint="--field")
    return importing.Mapping(kind, {name: column for name, _, column in pairs}, session, scope)


def _are_bundles(paths: tuple[Path, ...]) -> bool:
    """Whether these are bundles; one kind at a time: a bundle is taken whole or not at all."""
    found = {path.suffix == BUNDLE for path in paths}
    if len(found) > 1:
        raise click.UsageError(f"import bundles ({BUNDLE}) and files of other programs one after the other")
    return found == {True}


@contextmanager
def _store(asked: StoreOptions, *, dry_run: bool) -> Iterator[Store | None]:
    """The store, made if there is none; nothing for a dry run."""
    if dry_run:
        yield None
        return
    import perdure  # noqa: PLC0415 - as above

    with perdure.open(asked.store, actor=asked.actor, tenant=asked.tenant) as store:
        yield store


def _say_report(report: Any) -> None:
    kinds = [(kind, report.read[kind], report.added.get(kind, 0), report.standing.get(kind, 0)) for kind in report.read]
    if kinds:
        say_table(COLUMNS[:2] if report.dry_run else COLUMNS, kinds)
    say_facts({"files": report.files, "passed over": report.passed_over})
    if report.left_out:
        say_table(LEFT_OUT, report.left_out[:SHOWN])
    for mended in report.mended[:SHOWN]:
        note(f"mended: {mended.place}: {mended.what}")
    more = report.left_out_count - SHOWN
    if more > 0:
        note(f"{more} more were left out: --json lists them")
    taken = "would be taken" if report.dry_run else "taken"
    note(f"{counted(sum(report.files.values()), 'file')} {taken}; {_left_out(report.left_out_count)}")


def _left_out(count: int) -> str:
    return f"{counted(count, 'thing')} left out" if count else "nothing left out"

"""`perdure runs`, and what a person says to a run: `resume`, `retry`, `cancel`, `unpark`, `pin`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.filters import filtered_by
from perdure.cli.finding import find_run, run_id
from perdure.cli.identified import say_identified
from perdure.cli.names import argument, run_names
from perdure.cli.options import StoreOptions, command, reads, writes
from perdure.cli.output import note, say_facts, say_json
from perdure.cli.show import records
from perdure.cli.tables import Column, is_filtered, prose, state
from perdure.errors import NotFound
from perdure.model.filters import RunFilters
from perdure.model.pins import moved_text
from perdure.model.records.runs import RunStatus

if TYPE_CHECKING:
    from perdure.handles.sync.run_handle import RunHandle
    from perdure.model.records.runs import RunRecord
    from perdure.model.records.workers import StrandedRecord


def status_of(run: RunRecord, lost: StrandedRecord | None) -> str:
    """The state of a run, and whether no worker continues it."""
    if run.copy:
        return f"{run.status.value} (copy)"
    return (
        f"{run.status.value} (abandoned)" if run.abandoned else f"{run.status.value} (stranded)" if lost else run.status
    )


def versions_text(versions: Mapping[str, str]) -> str | None:
    """The versions that a run last had, for people."""
    return ", ".join(f"{name}={value}" for name, value in versions.items()) or None


def change_text(run: RunRecord) -> str | None:
    """The last change of the versions of a run, and what was decided about it; None if there is nothing to tell."""
    change = run.pins_change
    if change is None or change.decision == "withdrawn":
        return None
    return f"{moved_text(change.moved)} ({change.decision})"


def _columns(lost: Mapping[str, StrandedRecord]) -> tuple[Column, ...]:
    """The columns of a listing. lost: runs that nobody takes."""
    return (
        Column("run", lambda run: run.id),
        Column("agent", lambda run: run.agent),
        state("status", lambda run: status_of(run, lost.get(run.id))),
        prose("why", lambda run: lost[run.id].why if run.id in lost else run.reason),
        prose("key", lambda run: run.key, spare=True),
        Column("session", lambda run: run.session, spare=True),
        Column("parent", lambda run: run.parent, spare=True),
        prose("error", lambda run: f"{run.error.code}: {run.error.message}" if run.error else None),
        prose("versions changed", change_text, spare=True),
        Column("creator", lambda run: run.creator, spare=True),
        Column("created", lambda run: run.created_at),
        Column("wakes", lambda run: run.wake_at if run.status is RunStatus.WAITING else None, spare=True),
    )


@command(
    "runs",
    "perdure runs --status waiting",
    "perdure runs --agent fix --since 7d",
    "perdure runs --version model=m1",
    "perdure runs --status failed --json | jq -r '.items[].id'",
)
@filtered_by(RunFilters)
@reads
def runs(asked: StoreOptions, **filters: Any) -> None:
    """List runs, newest first. A run whose worker gives no sign of life reads as abandoned; one that is pinned to a program
    that no living worker has reads as stranded. --version finds those that last had a version of something, as --json shows it
    under pins.
    """
    from perdure.handles.working import stranded  # noqa: PLC0415 - help must be light

    with asked.open() as store:
        if filters["parent"] is not None:
            filters["parent"] = run_id(store, filters["parent"])
        found, lost = records(store.runs(**filters)), stranded(store)
        shown = {"as_json": asked.as_json, "what": "runs", "filtered": is_filtered(filters)}
        say_identified(found, _columns(lost), **shown, besides=lambda run: {"stranded": run.id in lost})


def _tell(asked: StoreOptions, name: str, verb: Callable[[RunHandle], Any], done: str, *, over: str = "") -> None:
    """Say something to a run, and show how it stands then. over: what is noted instead if there was nothing left to do."""
    with asked.open() as store:
        handle = find_run(store, name)
        was_over = handle.record.ended
        verb(handle)
        record = handle.refresh().record
    if asked.as_json:
        say_json(record)
        return
    say_facts({"run": record.id, "agent": record.agent, "status": record.status, "why": record.reason})
    note(over if over and was_over else done)


@command(
    "resume",
    "perdure resume 4f1c2a9b77d0",
    "perdure resume 4f1c2a9b77d0 --actor alice --json",
    "perdure resume 4f1c2a9b77d0 --vouch --actor alice",
)
@argument("run", run_names)
@click.option(
    "--vouch", is_flag=True, help="After a restore: you looked, and all its external calls are recorded here."
)
@writes
def resume(asked: StoreOptions, *, run: str, vouch: bool) -> None:
    """Re-check RUN, which waits or is parked: after a deploy, or when the thing that it waits for has come.

    After a restore a run asks a person before every unsafe call, until it ends or you vouch for it. A run that was parked for
    other versions may continue under them from now on.
    """
    _tell(asked, run, lambda handle: handle.resume(vouch=vouch), "a worker may take it now")


@command("retry", "perdure retry 4f1c2a9b77d0", "perdure retry 4f1c2a9b77d0 --actor alice --json")
@argument("run", run_names)
@writes
def retry(asked: StoreOptions, *, run: str) -> None:
    """Try RUN again where it failed. Recorded work is kept; the step that failed last is done anew. Refused if the run has
    undone its work.

    Of a run that is parked as interrupted, the work is done anew that its program cancelled once and does not cancel again.
    """
    _tell(asked, run, lambda handle: handle.retry(), "a worker may take it now")


@command("unpark", "perdure unpark 4f1c2a9b77d0", "perdure unpark issue-42 --actor alice")
@argument("run", run_names, metavar="RUN|SESSION")
@writes
def unpark(asked: StoreOptions, *, run: str) -> None:
    """Let RUN, which is parked, continue, once the cause is mended.

    A run that was handed over (moved) continues here again. Do this only if no store adopted it; otherwise it runs twice.
    A copy that came by import (RUN, or SESSION) is taken over: what stands in it under a key answers here from now on.
    """
    with asked.open() as store:
        try:
            find_run(store, run)
        except NotFound:
            if not store.events(session=run, limit=1):
                hint = "`perdure runs` and `perdure sessions` list them"
                raise NotFound(f"there is no run or session {run!r}", path="run", hint=hint) from None
            store.session(run).unpark()
            if asked.as_json:
                say_json({"session": run})
            note("its records answer here from now on")
            return
    _tell(
        asked,
        run,
        lambda handle: handle.unpark(),
        "a worker may take it now",
        over="its record answers here from now on",
    )


@command(
    "cancel",
    "perdure cancel 4f1c2a9b77d0 --dry-run",
    "perdure cancel 4f1c2a9b77d0 --reason 'no longer wanted' --actor alice",
)
@argument("run", run_names)
@click.option("--reason", metavar="TEXT", default="", help="Why: it is kept with the run.")
@click.option("--dry-run", is_flag=True, help="Only say what would be ended.")
@writes
def cancel(asked: StoreOptions, *, run: str, reason: str, dry_run: bool) -> None:
    """End RUN. A run that no process holds ends at once; a running one is told at its next step; one with something to undo
    ends when a process takes it next. Other effects of the run stay.
    """
    if dry_run:
        _say_what_ends(asked, run)
    else:
        done = "recorded work is kept; `perdure retry` continues it"
        _tell(asked, run, lambda handle: handle.cancel(reason), done, over="it was over already: nothing was changed")


def _say_what_ends(asked: StoreOptions, name: str) -> None:
    with asked.open() as store:
        handle = find_run(store, name)
        waits, effects = handle.waits(), [each.record for each in handle.effects(open=True)]
    if asked.as_json:
        ending = {"run": handle.record, "waits": [each.id for each in waits], "open": [each.id for each in effects]}
        say_json({"dry_run": True, **ending})
        return
    say_facts(
        {
            "run": handle.id,
            "status": handle.status,
            "waits that end": [each.id for each in waits],
            "effects that stay open": [f"{each.id} ({each.state})" for each in effects],
        }
    )
    over = "it is over already: nothing would change" if handle.record.ended else "nothing was changed: a dry run"
    note(over)


@command(
    "pin", "perdure pin 4f1c2a9b77d0 9f86d081884c7d65", "perdure pin 4f1c2a9b77d0", "perdure pin 4f1c2a9b77d0 --any"
)
@argument("run", run_names)
@click.argument("program", required=False)
@click.option("--any", "anything", is_flag=True, help="Remove the pin: any program may continue it.")
@writes
def pin(asked: StoreOptions, *, run: str, program: str | None, anything: bool) -> None:
    """Let only workers with PROGRAM (default: the one that drove it last) continue RUN."""
    if anything and program is not None:
        raise click.UsageError("--any removes the pin, so it takes no PROGRAM")
    wanted = "it is pinned no longer" if anything else "only workers with this very program take it now"
    _tell(asked, run, lambda handle: handle.pin(None if anything else program or handle.record.program), wanted)

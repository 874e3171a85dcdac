"""`perdure show`: one session at a glance, as it is or as it was; or one run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.finding import find_either, run_id
from perdure.cli.names import argument, shown_names
from perdure.cli.options import StoreOptions, command, reads
from perdure.cli.output import compact, moment, note, plain, say_facts, say_heading, say_json, say_prose
from perdure.cli.tables import say_damaged
from perdure.errors import Damaged, Error, NewerSchema, NotFound
from perdure.handles.damage import Damage
from perdure.model.display import shortened, visible

if TYPE_CHECKING:
    from perdure.handles.sync.run_handle import RunHandle
    from perdure.handles.sync.session import Session
    from perdure.handles.sync.store import Store
    from perdure.model.records.conversation import Origin
    from perdure.model.records.workers import StrandedRecord

OPEN_SHOWN = 20
PREVIEW_CHARS = 200


def record_of(thing: Any) -> Any:
    """The record of a thing, whether a handle or a record was returned."""
    return getattr(thing, "record", thing)


def records(page: Any) -> Any:
    """A page of handles as a page of records."""
    return page.each(record_of) if hasattr(page, "each") else [record_of(item) for item in page]


@command(
    "show",
    "perdure show issue-42",
    "perdure show issue-42 --turns 50 --json",
    "perdure show issue-42 --at 2h",
    "perdure show issue-42 --at 117",
    "perdure show run:4f1c2a9b77d0 --last 200",
    "perdure show run:4f1c2a9b77d0 --at 12",
    "perdure show run:4f1c2a9b77d0 --step 17",
)
@argument("name", shown_names)
@click.option(
    "--turns",
    "count",
    type=click.IntRange(0, 1000),
    default=10,
    show_default=True,
    help="How many of the last turns.",
)
@click.option("--at", metavar="SEQ|WHEN", help="As it was: after an event, at an instant, or some time ago (2h).")
@click.option("--last", type=click.IntRange(0, 1000), default=50, show_default=True, help="Of a run: how many events.")
@click.option("--step", metavar="SEQ", type=click.IntRange(1), help="Of a run: one step, and what its model was given.")
@reads
def show(asked: StoreOptions, *, name: str, count: int, at: str | None, last: int, step: int | None) -> None:
    """Show session or run NAME: its purpose, its open work, and its last turns or its timeline.

    If a session and a run have the same name, the session is shown; run:ID is always the run. The first digits of an ID are
    enough. --at shows an earlier point, and takes longer in a long history. --step shows one step of a run, by the number of
    its event.
    """
    with asked.open() as store:
        try:
            session = find_either(store, name)
        except (Damaged, NewerSchema) as error:
            if at is not None or step is not None:
                raise
            _show_damaged_run(store, name, last, error, as_json=asked.as_json)
            return
        if at is not None:
            session = session.at(int(at) if at.isdecimal() else at)
        if not hasattr(session, "turns"):
            from perdure.handles.working import stranded  # noqa: PLC0415 - help must be light

            lost = stranded(store).get(session.id) if at is None else None
            _show_run(session, last, step, lost, as_json=asked.as_json)
            return
        if step is not None:
            raise click.UsageError("--step is for runs: a session has turns")
        damage = Damage()
        found = _gather(session, count, damage)
        if at is not None:
            found["lacks"] = damage.part(lambda: _lacks(lambda: session.transcript(last=1)), None)
        if damage:
            found["damaged"] = damage
    if asked.as_json:
        say_json(found)
    else:
        _say(found)


def _show_damaged_run(store: Store, name: str, last: int, error: Error, *, as_json: bool) -> None:
    from perdure.cli.run_view import show_damaged_run  # noqa: PLC0415 - only for runs

    show_damaged_run(store, run_id(store, name), last, error, as_json=as_json)


def _show_run(run: RunHandle, last: int, step: int | None, lost: StrandedRecord | None, *, as_json: bool) -> None:
    from perdure.cli.run_view import show_run, show_step  # noqa: PLC0415 - only for runs

    if step is not None:
        show_step(run, step, as_json=as_json)
    else:
        show_run(run, last, lost, as_json=as_json)


def _gather(session: Session, count: int, damage: Damage) -> dict[str, Any]:
    from perdure.planes.conversation import turns  # noqa: PLC0415 - help must be light

    lacks = damage.part(lambda: _lacks(session.pending), "the conversation cannot be read whole")
    return ({"lacks": lacks} if lacks else {}) | {
        "session": damage.part(session.info, None),
        "uid": session.uid,
        "origin": session.origin(),
        "pending": None if lacks else session.pending(),
        "tasks": _open_tasks(session, damage),
        "decisions": [*map(record_of, damage.rows(session.decisions(open=True, limit=OPEN_SHOWN)))],
        "turns": damage.rows(session._read(turns.shown, last=count)) if count else [],
    }


def _lacks(telling: Callable[[], object]) -> str | None:
    """The parts missing of a past whose turns were pruned since, and of a fork made there."""
    try:
        telling()
    except NotFound as gone:
        return gone.message
    return None


def _open_tasks(session: Session, damage: Damage) -> list[Any]:
    found = [damage.rows(session.tasks(status=status, limit=OPEN_SHOWN)) for status in ("doing", "todo", "blocked")]
    return [record_of(task) for page in found for task in page]


def _say(found: dict[str, Any]) -> None:
    about = found["session"]
    if about is not None:
        _say_session(about, found)
    _say_open("Open tasks", (f"{task.id:>6}  {task.status:<8} {task.title}" for task in found["tasks"]))
    _say_open("Open decisions", (f"{decision.seq:>6}  {decision.text}" for decision in found["decisions"]))
    _say_pending(found["pending"])
    if found.get("lacks"):
        note(found["lacks"])
    if found["turns"]:
        say_heading("Last turns")
        for turn in found["turns"]:
            _say_turn(turn)
    say_damaged(found.get("damaged", ()))


def _say_session(about: Any, found: dict[str, Any]) -> None:
    say_facts(
        {
            "session": about.name,
            "title": about.title,
            "status": about.status,
            "labels": about.labels,
            "creator": about.creator,
            "created": about.created_at,
            "ended": about.ended_at,
            "expires": about.expires_at,
            "last event": about.last_at,
            "seq": about.last_seq,
            "uid": found["uid"],
            "continued from": _origin(found["origin"]),
        }
    )
    _say_goal(about)


def _origin(origin: Origin | None) -> str | None:
    if origin is None:
        return None
    branch = f", on branch {origin.branch}" if origin.branch else ""
    return f"{origin.session or f'uid {origin.uid}'} after event {origin.seq}{branch}"


def _say_goal(about: Any) -> None:
    if about.goal:
        say_heading("Goal")
        say_prose(about.goal)
    if about.pins:
        say_heading("Pins")
        say_facts(plain(about.pins))


def _say_open(heading: str, lines: Iterable[str]) -> None:
    shown = list(lines)
    if shown:
        say_heading(heading)
        for line in shown:
            click.echo(shortened(line, PREVIEW_CHARS) if len(line) > PREVIEW_CHARS else visible(line))


def _say_pending(pending: Any) -> None:
    if pending is not None:
        waits = [f"{call.tool} ({call.id})" for call in pending.calls] or ["an answer"]
        say_heading("Pending")
        click.echo(visible(f"  turn {pending.turn.seq} waits for {', '.join(waits)}"))


def _say_turn(turn: Any) -> None:
    result = f" result of {turn.call}" if turn.call else ""
    failed = " (failed)" if turn.error else ""
    click.echo(visible(f"{turn.seq:>6}  {turn.role}{result}{failed} · {turn.actor} · {moment(turn.at)}"))
    if turn.content is not None:
        say_prose(compact(turn.content), indent=" " * 8)
    for call in turn.calls:
        args = shortened(compact(call.args), PREVIEW_CHARS)
        click.echo(f"        → {visible(call.tool)}({args}) as {visible(call.id)}")

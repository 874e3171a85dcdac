"""Incidents: one run explained to somebody who was not there. A bundle, and in it one page for people.

The bundle holds the run, the runs that it started and its session: a person who gets it can verify it, import it beside other
work (parked: it acts nowhere) and look at it with every command. The page says what the run was to do, what it did and when, what
it
did outside and what is in doubt, who was asked and what they said, what went wrong, under which versions, and who worked on it.
Nothing is left out or blackened, and the page says so. Callers: the handles. Keeps P10: text stays text.
"""

from __future__ import annotations

from collections.abc import Iterator

from perdure.effects import envelope, ledger, timeline
from perdure.effects.envelope import EnvelopeWitness
from perdure.interchange.bundle_out import Chosen
from perdure.interchange.readable import Run, block, facts, heading, inline, moment, turn_lines
from perdure.log.change import Stream
from perdure.model.instants import to_datetime
from perdure.model.limits import PAGE_MAX_ROWS
from perdure.model.records.effects import EffectRecord
from perdure.model.records.envelope import Envelope
from perdure.model.records.runs import RunRecord, WaitRecord
from perdure.model.records.timeline import TimelineRecord
from perdure.planes.conversation import sessions, turns
from perdure.planes.conversation.emitted import Names
from perdure.planes.execution import runs, steps, waits
from perdure.planes.reading.body_reading import inline_body
from perdure.planes.reading.snapshots import one_state
from perdure.stores.replay import Slice, pages
from perdure.stores.store import Reads
from perdure.stores.tx import LOG

TURNS_SHOWN = 50
CLAIMS = ("run.claimed", "run.recovered")
WARNING = (
    "> Nothing was left out or blackened: arguments, results, turns and blobs are here as they were recorded. "
    "Look for secrets and personal data before you give this away."
)


def chosen(reads: Reads, run: str) -> Chosen:
    """The parts of an incident: the run, the runs that it started, and its session."""
    session = runs.run(reads, runs.find(reads, run)).session
    return Chosen(sessions=[session] if session else [], runs=[run])


def page(reads: Reads, *, run: str, store: str, epoch: int) -> str:
    """The page of an incident."""
    stream = runs.find(reads, run)
    report = envelope.envelope(reads, stream, EnvelopeWitness(store, epoch))
    title = heading(f"Incident: run {stream.name} of {report.run.agent}", 1)
    return "\n".join([title, WARNING, *_lines(reads, stream, report)]) + "\n"


@one_state
def readable(reads: Reads, *, run: str, store: str, epoch: int) -> Run:
    """A run for reading: as records, and as a page. Memory holds all of it: it is for people."""
    stream = runs.find(reads, run)
    report = envelope.envelope(reads, stream, EnvelopeWitness(store, epoch))
    lines = [heading(f"Run {stream.name} of {report.run.agent}", 1), *_lines(reads, stream, report)]
    return Run(*timeline.stand(reads, stream), "\n".join(lines))


def _lines(reads: Reads, stream: Stream, report: Envelope) -> Iterator[str]:
    record = runs.run(reads, stream)
    effects = ledger.all_effects(reads, stream)
    happened = _timeline(reads, stream)
    yield from _status_lines(record, report)
    yield from _task_lines(reads, record)
    yield from _doubts(report)
    yield from _errors(reads, stream, record, effects)
    yield from _effects(effects)
    yield from _wait_lines(waits.waits(reads, stream))
    yield from _versions(record, report)
    yield from _workers(reads, stream)
    yield from _happened(happened)
    yield from _conversation(reads, record)


def _status_lines(record: RunRecord, report: Envelope) -> Iterator[str]:
    yield heading("How it stands")
    yield from facts(
        {"status": record.status.value, "why": record.reason, "created": record.created_at, "by": record.creator,
         "ended": record.ended_at, "key": record.key, "session": record.session, "started by run": record.parent,
         "verdict": f"{report.verdict.standing.value}: {report.verdict.says}"}
    )  # fmt: skip
    if record.result is not None:
        yield "- **result**:"
        yield from block(record.result)


def _task_lines(reads: Reads, record: RunRecord) -> Iterator[str]:
    yield heading("Task")
    session = sessions.find_session(reads, record.session) if record.session else None
    goal = sessions.get_goal(reads, session[0]) if session else None
    yield from facts({"agent": record.agent, "goal of its session": goal})
    yield "- **arguments**:"
    yield from block({"args": record.args, "kwargs": record.kwargs})


def _doubts(report: Envelope) -> Iterator[str]:
    if report.pending:
        yield heading("Unsettled effects")
        for effect in report.pending:
            what = f"**{inline(effect.tool)}** ({effect.kind.value}) is {effect.state.value}"
            yield f"- {what}: {inline(effect.action)}, because {inline(effect.reason)}"
            yield f"  - sent key: {inline(effect.handed)}"
            if effect.settle:
                yield f"  - {inline(effect.settle)}"


def _errors(reads: Reads, stream: Stream, record: RunRecord, effects: list[EffectRecord]) -> Iterator[str]:
    lines = [f"- the run: {inline(record.error)}"] if record.error else []
    for step in steps.steps(reads, stream):
        lines += [f"- step {inline(step.name)} at {inline(step.place)}: {inline(step.error)}"] if step.error else []
    lines += [
        f"- {inline(effect.tool)} ({effect.state.value}): {inline(effect.error)}" for effect in effects if effect.error
    ]
    if lines:
        yield heading("Errors")
        yield from lines


def _effects(effects: list[EffectRecord]) -> Iterator[str]:
    if effects:
        yield heading("External effects")
    for effect in effects:
        yield f"- **{effect.seq} {inline(effect.tool)}** ({effect.kind.value}): {_how(effect)}"
        yield from (
            f"  {line}"
            for line in facts(
                {"planned": effect.at, "sent": effect.dispatched_at, "key": effect.key, "sent key": effect.sent_key,
                 "at place": effect.place,
                 "settled by": effect.settled_by, "undoes": effect.undoes}
            )
        )  # fmt: skip
        yield from block({"args": effect.args, "result": effect.result})


def _how(effect: EffectRecord) -> str:
    copied = ", copied by a what-if fork and not done here" if effect.what_if else ""
    return f"{effect.state.value}, {effect.attempt} dispatched{copied}"


def _wait_lines(records: list[WaitRecord]) -> Iterator[str]:
    if records:
        yield heading("Waits")
    for wait in records:
        yield f"- {wait.kind.value} {inline(wait.question or wait.name)} · asked {moment(wait.at)} · {wait.state.value}"
        if wait.met_by:
            yield f"  - {inline(wait.met_by)} · {moment(wait.met_at)}: {inline(wait.answer)}"


def _versions(record: RunRecord, report: Envelope) -> Iterator[str]:
    yield heading("Versions")
    pinned = " (pinned)" if record.pinned else ""
    yield from facts({"program": f"{record.program}{pinned}", "pins": report.pins, "workspace": report.workspace})


def _workers(reads: Reads, stream: Stream) -> Iterator[str]:
    """The holders of the run, one line a claim."""
    yield heading("Workers")
    upto = reads.query(LOG.stream_head, stream=stream.id)[0][0]
    names = Names(reads)
    for events in pages(reads, Slice(stream, upto), stream.fork_seq):
        for event in events:
            if event.kind in CLAIMS:
                holder = inline_body(event.body).set.get("holder", "?")
                who, at = inline(names.who(event.actor)), moment(to_datetime(event.at))
                yield f"- {at} · {who} · process {inline(holder)} · {event.kind}"


def _timeline(reads: Reads, stream: Stream) -> list[TimelineRecord]:
    events: list[TimelineRecord] = []
    before: str | None = None
    while True:
        older = timeline.timeline(reads, stream, last=PAGE_MAX_ROWS, before=before).whole()
        events, before = older + events, older.next
        if before is None:
            return events


def _happened(events: list[TimelineRecord]) -> Iterator[str]:
    yield heading("Timeline")
    for event in events:
        about = f" · {inline(event.about)}" if event.about else ""
        place = f" · at {inline(event.place)}" if event.place else ""
        yield f"- {event.seq} · {moment(event.at)} · {inline(event.kind)}{about}{place}"


def _conversation(reads: Reads, record: RunRecord) -> Iterator[str]:
    session = sessions.find_session(reads, record.session) if record.session else None
    if session is not None:
        yield heading(f"The last turns of session {record.session}")
        for turn in turns.turns(reads, session[0], last=TURNS_SHOWN):
            yield from turn_lines(turn)

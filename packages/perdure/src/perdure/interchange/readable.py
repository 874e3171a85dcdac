"""Sessions and runs for reading: everything that people look for in one, as records (for JSON) and as a Markdown page. One way:
nothing reads them back; what travels is the bundle.

Text from rows is shown as text: it cannot break out of its place in the page (P10). Callers: the handles, incidents.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from perdure.log.change import Stream
from perdure.model.display import visible, visible_lines
from perdure.model.filters import RunFilters, SessionDecisionFilters, SessionTaskFilters
from perdure.model.records.artifacts import ArtifactRecord
from perdure.model.records.conversation import SessionRecord, Turn
from perdure.model.records.decisions import DecisionRecord
from perdure.model.records.effects import EffectRecord
from perdure.model.records.runs import RunRecord, StepRecord, WaitRecord
from perdure.model.records.tasks import TaskRecord
from perdure.model.records.values import Entry
from perdure.model.values import to_plain
from perdure.planes.conversation import artifacts, turns
from perdure.planes.conversation import sessions as session_plane
from perdure.planes.execution import decisions, runs, tasks
from perdure.planes.memory import values
from perdure.planes.reading.paging import Page
from perdure.planes.reading.snapshots import one_state
from perdure.stores.store import Reads

PAGE_ROWS = 500


T = TypeVar("T")


class Session(msgspec.Struct, frozen=True):
    """One session, whole."""

    session: SessionRecord
    uid: str
    turns: list[Turn]
    decisions: list[DecisionRecord]
    tasks: list[TaskRecord]
    values: list[Entry]
    artifacts: list[ArtifactRecord]
    runs: list[RunRecord]


class Run(msgspec.Struct, frozen=True):
    """One run, whole. page: all of it as Markdown (`incident` writes it)."""

    run: RunRecord
    steps: list[StepRecord]
    effects: list[EffectRecord]
    waits: list[WaitRecord]
    page: str


class Readable(msgspec.Struct, frozen=True):
    """Some sessions and runs, for reading."""

    sessions: list[Session]
    runs: list[Run] = []

    def markdown(self) -> str:
        """All of them as one page."""
        sessions = "\n".join(line for session in self.sessions for line in _session_page(session))
        return "\n".join([*([sessions] if sessions else []), *(run.page for run in self.runs)]) + "\n"


@one_state
def gather(reads: Reads, streams: Iterable[Stream]) -> Readable:
    """Everything in these sessions. Memory holds all of it: it is for people."""
    return Readable([_gathered(reads, stream) for stream in streams])


def _gathered(reads: Reads, stream: Stream) -> Session:
    def every(listing: Callable[[dict[str, Any]], Page[T]]) -> list[T]:
        rows, after = [], None
        while True:
            page = listing({"limit": PAGE_ROWS, "after": after}).whole()
            rows += page
            if page.next is None:
                return rows
            after = page.next

    of_session = runs.runs_of_store(reads, RunFilters(session=stream.name, limit=PAGE_ROWS)).whole()
    return Session(
        session=session_plane.info(reads, stream),
        uid=stream.uid.hex(),
        turns=_turns(reads, stream),
        decisions=every(lambda page: decisions.decisions(reads, stream, SessionDecisionFilters(**page))),
        tasks=every(lambda page: tasks.tasks(reads, stream, SessionTaskFilters(**page))),
        values=every(lambda page: values.entries(reads, stream, **page)),
        artifacts=every(lambda page: artifacts.listing(reads, stream, **page)),
        runs=[record for _, record in of_session],
    )


def _turns(reads: Reads, stream: Stream) -> list[Turn]:
    all_turns: list[Turn] = []
    while page := turns.turns(reads, stream, after=all_turns[-1].seq if all_turns else 0, limit=PAGE_ROWS):
        all_turns += page
    return all_turns


# -- markdown ----------------------------------------------------------------------------------------------------------------


def heading(text: object, level: int = 2) -> str:
    """A heading; whatever is in it stays on its line."""
    return f"\n{'#' * level} {inline(text)}\n"


def inline(text: object) -> str:
    """Text in a line, without what Markdown or a terminal would read in it."""
    line = visible(" ".join(str(text).split()))
    return "".join(f"\\{char}" if char in "\\`*_{}[]<>#|!" else char for char in line)


def moment(at: datetime | None) -> str:
    """An instant, in UTC."""
    return "" if at is None else at.strftime("%Y-%m-%d %H:%M:%SZ")


def block(value: object) -> Iterator[str]:
    """Somebody's text, or a value as JSON, indented: whatever stands in it is shown as it is."""
    text = (
        value if isinstance(value, str) else json.dumps(to_plain(value, from_store=True), indent=1, ensure_ascii=False)
    )
    yield ""
    yield from (f"    {line}" for line in visible_lines(text))
    yield ""


def facts(pairs: dict[str, object]) -> Iterator[str]:
    """Names and values, one a line; empty ones are left out."""
    for name, value in pairs.items():
        if value not in (None, "", (), []):
            yield f"- **{name}**: {inline(moment(value) if isinstance(value, datetime) else value)}"


def _session_page(record: Session) -> Iterator[str]:
    about = record.session
    yield heading(f"Session {about.name}", 1)
    yield from facts(
        {"title": about.title, "status": about.status.value, "created": about.created_at, "by": about.creator,
         "labels": ", ".join(about.labels), "goal": about.goal, "events": about.last_seq}
    )  # fmt: skip
    yield from _listed("Decisions", (_decision(decision) for decision in record.decisions))
    yield from _listed("Tasks", (f"- {task.status.value} · {inline(task.title)}" for task in record.tasks))
    yield from _listed(
        "Runs", (f"- {inline(run.id)} · {inline(run.agent)} · {run.status.value}" for run in record.runs)
    )
    yield from _listed(
        "Artifacts", (f"- {inline(artifact.name)} · {artifact.size} bytes" for artifact in record.artifacts)
    )
    if record.values:
        yield heading("Values")
        for entry in record.values:
            yield f"- {inline(entry.name)} (version {entry.version})"
            yield from block(entry.value)
    if record.turns:
        yield heading("Turns")
        for turn in record.turns:
            yield from turn_lines(turn)


def _listed(title: str, lines: Iterable[str]) -> Iterator[str]:
    present = list(lines)
    if present:
        yield heading(title)
        yield from present


def _decision(record: DecisionRecord) -> str:
    outcome = f" → {inline(record.outcome)}" if record.outcome else ""
    return f"- {record.status.value} · **{inline(record.text)}** because {inline(record.because)}{outcome}"


def turn_lines(turn: Turn) -> Iterator[str]:
    """One turn: who, when, what, and the calls that it made."""
    result = f" (result of {inline(turn.call)}{', failed' if turn.error else ''})" if turn.call else ""
    yield f"**{turn.seq} {turn.role.value}**{result} · {inline(turn.actor)} · {moment(turn.at)}"
    yield from block(turn.content) if turn.content is not None else [""]
    for call in turn.calls:
        yield f"- calls `{inline(call.tool)}` as {inline(call.id)}"
        yield from block(call.args)

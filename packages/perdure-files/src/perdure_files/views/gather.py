"""A view from what is stored: one session, in one state. Callers: `page_keeper`, `apply`. Reads alone.

Only what is recorded is shown: nothing that lapses by itself (who is alive, values with an end), so that the same event always
gives the same page. Long parts are cut: all that is open, what was finished last, the last events.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from perdure.log.change import Stream
from perdure.model.display import shortened
from perdure.model.filters import SessionDecisionFilters, SessionTaskFilters
from perdure.model.limits import PAGE_MAX_ROWS
from perdure.model.records.decisions import DecisionRecord
from perdure.model.records.emitted import EventRecord
from perdure.model.records.tasks import TaskRecord, TaskStatus
from perdure.model.records.values import Entry
from perdure.model.values import to_plain
from perdure.planes.conversation import emitted, sessions
from perdure.planes.execution import decisions, tasks
from perdure.planes.memory import values
from perdure.planes.reading.snapshots import one_state
from perdure.planes.tables import SESSIONS
from perdure.stores.batch import EVENTS
from perdure.stores.store import Reads
from perdure.stores.tx import LOG
from perdure_files.views.escapes import json_line
from perdure_files.views.view import PageHead, PageThing, SessionPage

FINISHED_SHOWN = 50
EVENTS_SHOWN = 20
VALUE_MAX_CHARS = 2000
SAYS_MAX_CHARS = 120
_SAYING = ("content", "text", "title", "goal", "outcome", "note", "args", "result")


def head_at(reads: Reads, stream: Stream) -> PageHead:
    """Where a session is."""
    seq, hash_ = reads.query(LOG.stream_head, touches=[(EVENTS, stream.id)], stream=stream.id)[0]
    return PageHead(stream.name, stream.uid.hex(), seq, short(hash_))


def short(hash_: bytes) -> str:
    """The beginning of a hash, as heads show it."""
    return bytes(hash_).hex()[:16]


@one_state
def gather(reads: Reads, stream: Stream) -> SessionPage:
    """The view of a session as it is now, or (in a store of the past) as it was."""
    return SessionPage(
        head_at(reads, stream),
        _about(reads, stream),
        {
            "decisions": [PageThing(_decision(decision)) for decision in _decisions(reads, stream)],
            "tasks": [PageThing(_task(task)) for task in _tasks(reads, stream)],
            "values": [PageThing(_value(entry)) for entry in _values(reads, stream)],
            "events": [PageThing(_event(event)) for event in _events(reads, stream)],
        },
    )


def _filled(fields: Iterable[tuple[str, Any]]) -> dict[str, str]:
    return {name: str(value) for name, value in fields if value is not None}


def _list(items: Iterable[Any]) -> str | None:
    entries = list(items)
    return json_line(entries) if entries else None


def _instant(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _about(reads: Reads, stream: Stream) -> dict[str, str]:
    info = sessions.info(reads, stream)
    row = reads.row(SESSIONS, stream)
    status = info.status.value if row is None else row["status"]
    title = info.title or None
    return _filled((("title", title), ("status", status), ("labels", _list(info.labels)), ("goal", info.goal)))


def _decisions(reads: Reads, stream: Stream) -> list[DecisionRecord]:
    records = [
        *decisions.decisions(reads, stream, SessionDecisionFilters(open=True, limit=PAGE_MAX_ROWS)).whole(),
        *decisions.decisions(reads, stream, SessionDecisionFilters(open=False, limit=FINISHED_SHOWN)).whole(),
    ]
    return sorted(records, key=lambda decision: decision.seq)


def _decision(decision: DecisionRecord) -> dict[str, str]:
    return _filled(
        (
            ("id", decision.seq),
            ("status", decision.status.value),
            ("text", decision.text),
            ("because", decision.because),
            ("then", decision.then),
            ("outcome", decision.outcome),
            ("note", decision.note),
            ("tags", _list(decision.tags)),
            ("actor", decision.actor),
            ("at", _instant(decision.at)),
        )
    )


def _tasks(reads: Reads, stream: Stream) -> list[TaskRecord]:
    records: list[TaskRecord] = []
    for status in TaskStatus:
        limit = PAGE_MAX_ROWS if status in tasks.UNFINISHED else FINISHED_SHOWN
        records += tasks.tasks(reads, stream, SessionTaskFilters(status=status, limit=limit)).whole()
    return sorted(records, key=lambda task: task.id)


def _task(task: TaskRecord) -> dict[str, str]:
    return _filled(
        (
            ("id", task.id),
            ("status", task.status.value),
            ("title", task.title),
            ("priority", task.priority or None),
            ("parent", task.parent),
            ("needs", _list(task.needs)),
            ("labels", _list(task.labels)),
            ("note", task.note),
            ("by", task.claimed_by),
        )
    )


def _values(reads: Reads, stream: Stream) -> list[Entry]:
    return [entry for entry in values.entries(reads, stream, limit=PAGE_MAX_ROWS).whole() if entry.expires_at is None]


def _value(entry: Entry) -> dict[str, str]:
    text = json_line(to_plain(entry.value, from_store=True))
    long = len(text) > VALUE_MAX_CHARS
    content = ("bytes", len(text.encode())) if long else ("value", text)
    return _filled((("name", entry.name), ("version", entry.version), content))


def _events(reads: Reads, stream: Stream) -> list[EventRecord]:
    """The last ones: what was said and done, not what a commit notes down beside it."""
    last = head_at(reads, stream).seq
    return emitted.events(reads, stream, after=max(0, last - EVENTS_SHOWN), limit=EVENTS_SHOWN)


def _event(event: EventRecord) -> dict[str, str]:
    summary = None if event.emptied else _summary(event)
    return _filled(
        (
            ("seq", event.seq),
            ("at", _instant(event.at)),
            ("actor", event.actor),
            ("kind", event.kind),
            ("says", summary),
        )
    )


def _summary(event: EventRecord) -> str | None:
    """The subject and content of an event, in a few words."""
    key, row = event.body.get("key") or {}, event.body.get("set") or {}
    about = key.get("name") or key.get("seq") or row.get("tool")
    words = [str(part) for part in (about, _words(event.data) or row.get("title") or row.get("name")) if part]
    return shortened(": ".join(words), SAYS_MAX_CHARS) or None


def _words(data: Any) -> str:
    if isinstance(data, dict):
        data = next((data[name] for name in _SAYING if data.get(name)), data or None)
    if data is None or isinstance(data, str):
        return data or ""
    return json.dumps(to_plain(data, from_store=True), ensure_ascii=False)

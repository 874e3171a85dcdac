"""State files by a small mapping: backlogs, decision indexes, event logs and key–value state.

The user says what the rows are (`--as`). The meaning of a column is guessed from its heading, or said by the user (`--field
title=Summary`). Columns that mean nothing here are kept beside. Callers: `file_import.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from perdure.errors import Invalid
from perdure.model.kinds import is_reserved
from perdure_agents.importers.items import (
    Decided,
    ImportedEvent,
    ImportedFrom,
    ImportedRepair,
    ImportedSession,
    ImportedValue,
    Item,
    LeftOut,
    Planned,
    Remark,
)
from perdure_agents.importers.names import Occurrences, name_of, word
from perdure_agents.importers.sheets import Row, rows_of
from perdure_agents.importers.sources import Source

NAME = "state"
UNSAID = "(not written down)"
# kind -> field -> headings that mean it, the best first; the first field is the one that a row cannot do without
HEADINGS: dict[str, dict[str, tuple[str, ...]]] = {
    "tasks": {
        "title": ("title", "task", "summary", "subject", "what", "name"),
        "id": ("id", "key", "uid", "number", "no", "#"),
        "status": ("status", "state", "done"),
        "priority": ("priority", "prio"),
        "labels": ("labels", "tags"),
        "needs": ("needs", "depends_on", "depends on", "blocked_by", "blocked by", "dependencies"),
        "at": ("created_at", "created", "at", "date", "time", "timestamp"),
    },
    "decisions": {
        "text": ("decision", "text", "title", "what", "summary"),
        "id": ("id", "key", "number", "no", "#"),
        "because": ("because", "why", "reason", "rationale", "context"),
        "then": ("then", "consequences", "consequence", "next"),
        "outcome": ("outcome", "result"),
        "tags": ("tags", "labels"),
        "at": ("at", "date", "decided", "time", "timestamp", "created_at"),
    },
    "events": {
        "kind": ("kind", "event", "type", "name"),
        "id": ("id", "uid", "key"),
        "at": ("at", "time", "timestamp", "ts", "date", "created_at"),
    },
    "values": {"value": ("value", "val", "content", "data"), "name": ("name", "key", "id")},
}
STATUSES = {
    "todo": ("todo", "to do", "to-do", "open", "new", "pending", "backlog", "ready", "planned", "no", "false", "0", "", "[ ]",
             "doing", "in progress", "in_progress", "in-progress", "active", "started", "wip"),
    "done": ("done", "closed", "complete", "completed", "finished", "resolved", "yes", "true", "1", "x", "[x]"),
    "blocked": ("blocked", "waiting", "on hold", "on-hold", "paused"),
    "failed": ("failed", "error"),
    "cancelled": ("cancelled", "canceled", "dropped", "wontfix", "won't fix", "rejected", "abandoned"),
}  # fmt: skip
_STATUS_OF = {text: status for status, texts in STATUSES.items() for text in texts}


class Mapping(msgspec.Struct, frozen=True):
    """The meaning of the rows of a file, in which session (by default one named after the file) or scope, and under which
    headings.
    """

    kind: str
    fields: dict[str, str] = {}
    session: str = ""
    scope: str = ""

    def __post_init__(self) -> None:
        if self.kind not in HEADINGS:
            raise Invalid(f"rows cannot be {self.kind[:40]!r}", path="as", hint=f"one of {', '.join(HEADINGS)}")
        for field in self.fields:
            if field not in HEADINGS[self.kind]:
                raise Invalid(f"{self.kind} have no {field[:40]!r}", path="field", hint=", ".join(HEADINGS[self.kind]))
        if self.scope and self.kind != "values":
            raise Invalid("only values can be in a scope", path="scope", hint="use --session")


def reader_of(mapping: Mapping) -> Callable[[Source], Iterator[Item | Remark]]:
    """The reading of files by a mapping."""
    return lambda source: _Reading(source, mapping).items()


class _Reading:
    """One pass over a file."""

    def __init__(self, source: Source, mapping: Mapping) -> None:
        self._source = source
        self._mapping = mapping
        self._session = "" if mapping.scope else mapping.session or name_of(source.path.stem)
        self._seen = Occurrences()

    def items(self) -> Iterator[Item | Remark]:
        if self._session:
            yield ImportedSession(self._session, NAME, self._source.name)
        items: Iterator[Item | Remark] = (item for row in rows_of(self._source) for item in self._of(row))
        yield from _in_order(items) if self._mapping.kind == "tasks" else items

    def _of(self, row: Row | LeftOut | ImportedRepair) -> Iterator[Item | Remark]:
        if not isinstance(row, Row):
            yield row
            return
        make = {"tasks": self._task, "decisions": self._decision, "events": self._event, "values": self._value}
        yield from make[self._mapping.kind](row, _Fields(row, self._mapping))

    def _origin(self, fields: _Fields) -> ImportedFrom:
        return ImportedFrom(NAME, fields.text("id"), fields.text("at"), {"file": self._source.name})

    def _task(self, row: Row, fields: _Fields) -> Iterator[Item | Remark]:
        title = " ".join(fields.text("title").split())
        if not title:
            yield LeftOut(row.place, fields.why_not("title"))
            return
        status = fields.text("status").strip().lower()
        if status not in _STATUS_OF:
            yield ImportedRepair(row.place, f"the status {status[:40]!r} is not known here: taken as todo")
        priority = fields.integer("priority")
        if priority is None:
            yield ImportedRepair(
                row.place, f"the priority {fields.text('priority')[:40]!r} is no whole number: taken as 0"
            )
        key = fields.text("id") or row.name or self._seen.key(title)
        yield Planned(
            session=self._session, key=name_of(key), title=title[:200], origin=self._origin(fields), place=row.place,
            status=_STATUS_OF.get(status, "todo"), detail=fields.rest() or None, priority=priority or 0,
            labels=fields.words("labels"), needs=fields.words("needs"),
        )  # fmt: skip

    def _decision(self, row: Row, fields: _Fields) -> Iterator[Item | Remark]:
        text = fields.text("text") or row.name
        if not text.strip():
            yield LeftOut(row.place, fields.why_not("text"))
            return
        key = fields.text("id") or row.name or self._seen.key(text)
        yield Decided(
            session=self._session, key=name_of(key), text=text, because=fields.text("because").strip() or UNSAID,
            origin=self._origin(fields), place=row.place, then=fields.text("then") or None,
            outcome=fields.text("outcome").strip() or None, tags=fields.words("tags"),
        )  # fmt: skip

    def _event(self, row: Row, fields: _Fields) -> Iterator[Item | Remark]:
        kind = _kind(fields.text("kind"))
        key = fields.text("id") or row.name or self._seen.key(row.cells)
        yield ImportedEvent(self._session, name_of(key), kind, fields.rest(), self._origin(fields), row.place)

    def _value(self, row: Row, fields: _Fields) -> Iterator[Item | Remark]:
        name = row.name or fields.text("name")
        if not name:
            yield LeftOut(row.place, fields.why_not("name"))
            return
        value = row.cells if row.name and set(row.cells) != {"value"} else fields.get("value", fields.rest())
        yield ImportedValue(name_of(name), value, row.place, session=self._session, scope=self._mapping.scope)


class _Fields:
    """A row's cells by what they mean."""

    def __init__(self, row: Row, mapping: Mapping) -> None:
        self._cells = row.cells
        self._taken = {
            field: heading for field in HEADINGS[mapping.kind] if (heading := _heading(row.cells, field, mapping))
        }

    def why_not(self, field: str) -> str:
        """Why there is nothing in a field that has to be there."""
        if field in self._taken:
            return f"nothing in column {str(self._taken[field])[:40]!r}, which is the {field}"
        headings = ", ".join(map(str, self._cells))[:200]
        return f"no {field}: say which column it is (--field {field}=…); there are {headings}"

    def get(self, field: str, default: Any = None) -> Any:
        """A cell as it is."""
        return self._cells[self._taken[field]] if field in self._taken else default

    def text(self, field: str) -> str:
        """A cell as text; nothing where there is none."""
        value = self.get(field)
        return "" if value is None else str(value)

    def integer(self, field: str) -> int | None:
        """A cell as a whole number; 0 where there is nothing, None where it is none."""
        number = self.text(field).strip().lstrip("Pp") or "0"
        return int(number) if number.removeprefix("-").isdecimal() and len(number) < 9 else None

    def words(self, field: str) -> tuple[str, ...]:
        """A cell as a list: one that is, or a text with commas, semicolons or spaces between."""
        value = self.get(field)
        listed = value if isinstance(value, list) else self.text(field).replace(";", ",").replace(" ", ",").split(",")
        return tuple(dict.fromkeys(name_of(str(word).strip()) for word in listed if str(word).strip()))

    def rest(self) -> dict[str, Any]:
        """The columns that have no meaning here."""
        headings = set(self._taken.values())
        return {name: value for name, value in self._cells.items() if name not in headings and value not in (None, "")}


def _kind(original: str) -> str:
    """A kind that can be emitted: as it was, if it can."""
    words = [word(part) for part in original.split(".") if part] or ["event"]
    kind = ".".join(words)
    return kind if len(words) > 1 and not is_reserved(kind) else f"{NAME}.{kind}"


def _heading(cells: dict[str, Any], field: str, mapping: Mapping) -> str | None:
    if field in mapping.fields:
        return mapping.fields[field] if mapping.fields[field] in cells else None
    by_name = {str(name).strip().lower(): name for name in cells}
    return next((by_name[heading] for heading in HEADINGS[mapping.kind][field] if heading in by_name), None)


def _in_order(items: Iterator[Item | Remark]) -> Iterator[Item | Remark]:
    """Tasks behind those that they need. A task that needs one that is not in the file, or itself in the end, goes without."""
    waiting: list[Planned] = []
    keys: set[str] = set()
    for item in items:
        if isinstance(item, Planned):
            waiting.append(item)
        else:
            yield item
    while waiting:
        free = [task for task in waiting if set(task.needs) <= keys]
        waiting = [task for task in waiting if set(task.needs) - keys] if free else waiting
        for task in free or waiting:
            if lost := set(task.needs) - keys:
                yield ImportedRepair(
                    task.place, f"it needs {', '.join(sorted(lost))[:80]}, which cannot come before it: not kept"
                )
            keys.add(task.key)
            yield task
        waiting = waiting if free else []

"""`PerdureConversationStore`: conversations of Pydantic AI that last. A conversation is a session, a message is a turn.

    scope pydantic-ai.records   conversation ─▶ its record: head, usage, what it waits for, revision
    scope pydantic-ai.entries   entry ─▶ (session, turn, parent): forks share entries instead of copying them

A save is one commit: its turns, its places and its record, if the revision is still the expected one. Deleting a conversation
retracts the turns that no other conversation reaches; retention empties them. Keeps P1, P5.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

from msgspec.structs import replace
from pydantic import TypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter

from perdure.adapters.conversing import records_of, show
from perdure.adapters.forms.pydantic_messages import FORM, RESULTS, keep_message, storable_json
from perdure.adapters.shared_store import SharedStore
from perdure.errors import Conflict, NotFound
from perdure.handles.aio.session import AsyncSession
from perdure.handles.atomic import Atomic
from perdure.handles.listing import aevery, every
from perdure.handles.sync.session import Scope
from perdure.model.limits import PAGE_MAX_ROWS
from perdure.model.records.conversation import Native, Turn

RECORDS, ENTRIES = "pydantic-ai.records", "pydantic-ai.entries"
_ELSEWHERE = Native(FORM.name, None)  # a result that the message after it carries too
_RECORD: TypeAdapter[ConversationRecord] = TypeAdapter(ConversationRecord)


class MissingEntry(NotFound, LookupError):
    """No entry of this id is stored; its conversation may have been deleted meanwhile."""


class _Place(NamedTuple):
    """Where an entry stands, and the entry before it."""

    session: str
    seq: int
    parent: str | None


class PerdureConversationStore(ConversationStore):
    """A store for `await store.save(result)` and `await store.load(conversation_id)`. store: a URL or an open store.

    Every conversation is the session of its name: other frameworks, `perdure search` and `perdure retain` find it there.
    """

    def __init__(self, store: Any) -> None:
        self._opened = SharedStore(store)

    # -- records ---------------------------------------------------------------------------------------------------

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """The record of a conversation; None if it is not there."""
        found = await (await self._opened.aio.scope(RECORDS)).get(conversation_id)
        return None if found is None else _record(found)

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        """The records, newest first."""
        records = await self._opened.aio.scope(RECORDS)
        found = [_record(each.value) async for each in aevery(records.entries)]
        found = [record for record in found if scope is None or record.scope == scope]
        return sorted(found, key=lambda record: record.updated_at, reverse=True)[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Write a record and its new entries: all or nothing, durable when it returns."""
        kept = storable_json(_RECORD.dump_python(record, mode="json"))
        entries = [(entry, _dumped(entry.message)) for entry in new_entries]
        await self._changed(record.conversation_id, lambda tx: _write(tx, record, kept, entries, expected_revision))

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete a record, and retract the entries that no other record reaches; retention empties their texts."""
        await self._changed(conversation_id, lambda tx: _delete(tx, conversation_id, expected_revision))

    async def _changed(self, conversation_id: str, change: Any) -> None:
        try:
            await self._opened.aio.atomic(change)
        except Conflict as conflict:
            raise ConversationConflict(conversation_id) from conflict

    # -- entries ---------------------------------------------------------------------------------------------------

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """One entry. Raises LookupError if it is not there."""
        [entry] = await self.read_history(entry_id, limit=1)
        return entry

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """The entries up to one, in order, or the last `limit` of them: a page of turns at a time."""
        places = await self._opened.aio.scope(ENTRIES)
        found: list[ConversationEntry] = []
        upto = head_id
        while upto is not None and (limit is None or len(found) < limit):
            place = _place(upto, await places.get(upto))
            session = await self._opened.aio.session(place.session)
            wanted = PAGE_MAX_ROWS if limit is None else min(PAGE_MAX_ROWS, 2 * (limit - len(found)))
            line = [turn for turn in await session.line(place.seq, limit=wanted) if _is_entry(turn)]
            line = line if limit is None else line[len(found) - limit :]
            first = line[0].key or ""
            upto = place.parent if first == upto else _place(first, await places.get(first)).parent
            parents = [upto, *(turn.key for turn in line)]
            found[:0] = [_entry(turn, parent) for turn, parent in zip(line, parents, strict=False)]
        return found

    # -- for other code --------------------------------------------------------------------------------------------

    async def session(self, conversation_id: str) -> AsyncSession:
        """The session of Perdure that holds a conversation."""
        return await self._opened.aio.session(conversation_id)

    async def messages(self, session: str, *, provider: str | None = None) -> list[ModelMessage]:
        """A session that any framework wrote, as messages: `agent.run(…, message_history=await store.messages("s1"))`.

        provider: whose model reads them ("anthropic", "openai", "google"): its own signed reasoning is among them then.
        """
        opened = await self._opened.aio.session(session)
        turns = [turn async for turn in aevery(opened.turns, after=0)]
        return messages_of(turns, provider=provider)

    async def aclose(self) -> None:
        """Let the store go, if it was opened here."""
        self._opened.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def messages_of(turns: Sequence[Turn], *, provider: str | None = None) -> list[ModelMessage]:
    """Turns as messages of the framework. A call without a result gets one that says so (P14)."""
    whole = {call for turn in turns if _is_entry(turn) for call in _answered_in(turn)}
    seen = [turn if _is_entry(turn) or turn.call not in whole else replace(turn, native=_ELSEWHERE) for turn in turns]
    records = [record for record in show(FORM, seen, provider=provider).records if record is not None]
    return ModelMessagesTypeAdapter.validate_python(records)


def _answered_in(turn: Turn) -> Iterable[str]:
    [record] = records_of(FORM, turn) or [{}]
    return [part.get("tool_call_id") for part in record.get("parts", ()) if part.get("part_kind") in RESULTS]


# -- in one commit -----------------------------------------------------------------------------------------------


def _write(
    tx: Atomic,
    record: ConversationRecord,
    kept: Any,
    entries: list[tuple[ConversationEntry, Any]],
    expected: str | None,
) -> None:
    name = record.conversation_id
    records, places = tx.scope(RECORDS), tx.scope(ENTRIES)
    before = _expected(records, name, expected)
    session = tx.session(name)
    homes = {name: None, **dict.fromkeys(before["homes"] if before else ())}
    for number, (entry, message) in enumerate(entries):
        above = None if entry.parent_id is None else _there(places, entry.parent_id, name)
        newest = session.turns(last=1)
        follows = above.seq if above is not None and above.session == name else 0
        parent = None if (newest[0].seq if newest else 0) == follows else follows
        if number == 0 and above is not None:
            homes |= dict.fromkeys(_homes(records, above.session))
        turn = keep_message(session, message, key=entry.id, parent=parent)
        places.set(entry.id, [name, turn.seq, entry.parent_id], expect=0)
    if record.head_id is not None:
        homes |= dict.fromkeys(_homes(records, _there(places, record.head_id, name).session))
    tips = [tip for tip in (record.head_id, *record.branches) if tip is not None]
    records.set(name, {"record": kept, "revision": record.revision, "tips": tips, "homes": list(homes)})


def _homes(records: Scope, session: str) -> list[str]:
    """The sessions in which the history of a conversation lies."""
    found = records.get(session)
    return [session, *(found["homes"] if found else ())]


def _expected(records: Scope, name: str, revision: str | None) -> Any:
    found = records.get(name)
    if (None if found is None else found["revision"]) != revision:
        raise ConversationConflict(name)
    return found


def _there(places: Scope, entry_id: str, conversation: str) -> _Place:
    found = places.get(entry_id)
    if found is None:
        raise ConversationConflict(conversation)
    return _Place(*found)


def _delete(tx: Atomic, name: str, expected: str) -> None:
    records, places = tx.scope(RECORDS), tx.scope(ENTRIES)
    gone = _expected(records, name, expected)
    if gone is None:
        raise ConversationConflict(name)
    records.unset(name)
    remaining = [each.value for each in every(records.entries)]
    for home in gone["homes"]:
        tips = [tip for each in remaining if home in each["homes"] for tip in each["tips"]]
        kept = _reached(places, tips)
        session = tx.session(home)
        doomed = [turn for turn in every(session.turns, after=0) if _entry_of(turn) not in kept]
        for turn in doomed:
            if _is_entry(turn):
                places.unset(turn.key or "")
        session.retract(*doomed, because=f"conversation {name} deleted")


def _reached(places: Scope, tips: Iterable[str]) -> set[str]:
    """The entries of the histories that end with these."""
    found: set[str] = set()
    for tip in tips:
        upto: str | None = tip
        while upto is not None and upto not in found:
            found.add(upto)
            place = places.get(upto)
            upto = None if place is None else place[2]
    return found


# -- turns and messages ------------------------------------------------------------------------------------------


def _record(found: Any) -> ConversationRecord:
    kept = found["record"]
    return _RECORD.validate_python(json.loads(kept) if isinstance(kept, bytes) else kept)


def _place(entry_id: str, found: Any) -> _Place:
    if found is None:
        raise MissingEntry(f"no entry {entry_id} is stored", path="entry")
    return _Place(*found)


def _is_entry(turn: Turn) -> bool:
    return turn.native is not None and turn.native.form == FORM.name


def _entry_of(turn: Turn) -> str | None:
    """The entry that a turn belongs to: results before its message have its id and a number for their key."""
    return turn.key if _is_entry(turn) else (turn.key or "").rpartition("/")[0]


def _dumped(message: ModelMessage) -> Any:
    return ModelMessagesTypeAdapter.dump_python([message], mode="json")[0]


def _entry(turn: Turn, parent: str | None) -> ConversationEntry:
    [message] = ModelMessagesTypeAdapter.validate_python(records_of(FORM, turn))
    return ConversationEntry(id=turn.key or "", parent_id=parent, message=message)

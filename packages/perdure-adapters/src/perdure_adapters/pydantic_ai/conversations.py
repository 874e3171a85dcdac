"""`PerdureConversationStore`: conversations of Pydantic AI that last. A conversation is a session, a message is a turn.

    scope pydantic-ai.records   conversation ─▶ its record: head, usage, what it waits for, revision
    scope pydantic-ai.entries   entry ─▶ (session, turn, parent): forks share entries instead of copying them

A save is one commit: its turns, its places and its record, if the revision is still the expected one. Deleting a conversation
retracts the turns that no other conversation reaches; retention empties them. Keeps P1, P5.

A turn that another framework said is an entry, whose id is the turn's identity (`neutral_messages`). Those that were said since
the last save stand behind the record's head, and change its revision: a save that has not seen them is a conflict.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, NamedTuple, Self

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter

from perdure.errors import Conflict, NotFound
from perdure.handles.aio.session import AsyncSession
from perdure.handles.atomic import Atomic
from perdure.handles.listing import aevery, every
from perdure.handles.sync.session import Scope
from perdure.log.change import Stream
from perdure.model.limits import PAGE_MAX_ROWS
from perdure.model.records.conversation import Turn
from perdure.model.refs import Ref
from perdure.planes.conversation import emitted, sessions
from perdure.planes.conversation import turns as conversation
from perdure.runtime.callers import caller_of
from perdure.stores.store import Reads
from perdure_adapters.forms.pydantic_messages import FORM, storable_json
from perdure_adapters.neutral_messages import PART, identity_in, identity_of, is_own, keep, records_by_turn, show
from perdure_adapters.shared_store import SharedStore

RECORDS, ENTRIES = "pydantic-ai.records", "pydantic-ai.entries"
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
        stored = await (await self._opened.aio.scope(RECORDS)).get(conversation_id)
        return _current(conversation_id, stored, await caller_of(self._opened.aio).read(_said_last, conversation_id))

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        """The records that were saved here, newest first."""
        records = await self._opened.aio.scope(RECORDS)
        conversations = [_saved(entry.value) async for entry in aevery(records.entries)]
        conversations = [record for record in conversations if scope is None or record.scope == scope]
        return sorted(conversations, key=lambda record: record.updated_at, reverse=True)[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Write a record and its new entries: all or nothing, durable when it returns."""
        body = storable_json(_RECORD.dump_python(record, mode="json"))
        messages = ModelMessagesTypeAdapter.dump_python([entry.message for entry in new_entries], mode="json")
        entries = list(zip(new_entries, messages, strict=True))
        await self._changed(record.conversation_id, lambda tx: _write(tx, record, body, entries, expected_revision))

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
        history: list[ConversationEntry] = []
        upto = head_id
        while upto is not None and (limit is None or len(history) < limit):
            place = await self._place(upto)
            session = await self._opened.aio.session(place.session)
            messages, is_whole = await _line(session, place.seq, upto, None if limit is None else limit - len(history))
            first = messages[0].id
            upto = (await self._place(first)).parent if is_whole else messages[0].before
            befores = [upto, *(message.id for message in messages)]
            history[:0] = [message.entry(before) for message, before in zip(messages, befores, strict=False)]
        return history if limit is None else history[-limit:] if limit else []

    async def _place(self, entry_id: str) -> _Place:
        stored = await (await self._opened.aio.scope(ENTRIES)).get(entry_id)
        place = await caller_of(self._opened.aio).read(_place_of, entry_id) if stored is None else _Place(*stored)
        if place is None:
            raise MissingEntry(f"no entry {entry_id} is stored", path="entry")
        return place

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
    return ModelMessagesTypeAdapter.validate_python(show(FORM, turns, provider=provider).records)


# -- in one commit -----------------------------------------------------------------------------------------------


def _write(
    tx: Atomic,
    record: ConversationRecord,
    body: Any,
    entries: list[tuple[ConversationEntry, Any]],
    expected: str | None,
) -> None:
    name = record.conversation_id
    records, places = tx.scope(RECORDS), tx.scope(ENTRIES)
    before = _expected(tx, name, expected)
    session = tx.session(name)
    homes = {name: None, **dict.fromkeys(before["homes"] if before else ())}
    for number, (entry, message) in enumerate(entries):
        above = None if entry.parent_id is None else _there(tx, entry.parent_id, name)
        newest = session.turns(last=1)
        follows = above.seq if above is not None and above.session == name else 0
        parent = None if (newest[0].seq if newest else 0) == follows else follows
        if number == 0 and above is not None:
            homes |= dict.fromkeys(_homes(records, above.session))
        turn = keep(session, FORM, message, key=entry.id, parent=parent)
        places.set(entry.id, [name, turn.seq, entry.parent_id], expect=0)
    if record.head_id is not None:
        homes |= dict.fromkeys(_homes(records, _there(tx, record.head_id, name).session))
    tips = [tip for tip in (record.head_id, *record.branches) if tip is not None]
    newest = session.turns(last=1)
    about = {"revision": record.revision, "tips": tips, "homes": list(homes), "seen": newest[0].seq if newest else 0}
    records.set(name, {"record": body, **about})


def _homes(records: Scope, session: str) -> list[str]:
    """The sessions in which the history of a conversation lies."""
    stored = records.get(session)
    return [session, *(stored["homes"] if stored else ())]


def _expected(tx: Atomic, name: str, revision: str | None) -> Any:
    """The stored record of a conversation, if its revision is this one."""
    stored = tx.scope(RECORDS).get(name)
    current = _current(name, stored, tx.inside(_said_last, name))
    if (None if current is None else current.revision) != revision:
        raise ConversationConflict(name)
    return stored


def _there(tx: Atomic, entry_id: str, conversation: str) -> _Place:
    """The place of an entry. That of another framework's turn is kept from now on: histories of ours begin behind it."""
    places = tx.scope(ENTRIES)
    stored = places.get(entry_id)
    if stored is not None:
        return _Place(*stored)
    place = tx.inside(_place_of, entry_id)
    if place is None:
        raise ConversationConflict(conversation)
    places.set(entry_id, list(place))
    return place


def _delete(tx: Atomic, name: str, expected: str) -> None:
    records, places = tx.scope(RECORDS), tx.scope(ENTRIES)
    deleted = _expected(tx, name, expected)
    records.unset(name)
    remaining = [entry.value for entry in every(records.entries)]
    for home in [name] if deleted is None else deleted["homes"]:
        tips = [tip for record in remaining if home in record["homes"] for tip in record["tips"]]
        reached = _reached(places, tips)
        session = tx.session(home)
        turns = [*every(session.turns, after=0)]
        last = max((turn.seq for turn in turns if _entry_of(turn) in reached), default=0)
        doomed = [turn for turn in turns if _is_gone(turn, reached, last)]
        for turn in doomed:
            places.unset(_entry_of(turn))
        session.retract(*doomed, because=f"conversation {name} deleted")


def _reached(places: Scope, tips: Iterable[str]) -> set[str]:
    """The entries of the histories that end with these."""
    entries: set[str] = set()
    for tip in tips:
        upto: str | None = tip
        while upto is not None and upto not in entries:
            entries.add(upto)
            place = places.get(upto)
            upto = None if place is None else place[2]
    return entries


# -- turns and messages ------------------------------------------------------------------------------------------


class _Shown(NamedTuple):
    """A message with the id of its entry. before: that of the entry before it on its line, None for the first one."""

    id: str
    message: Any
    before: str | None

    def entry(self, parent: str | None) -> ConversationEntry:
        """The entry of the framework."""
        [message] = ModelMessagesTypeAdapter.validate_python([self.message])
        return ConversationEntry(id=self.id, parent_id=parent, message=message)


def _messages(turns: Sequence[Turn]) -> list[_Shown]:
    """Turns as the framework's messages: its own under their entries' ids, those of others under their turns' identities."""
    messages: list[_Shown] = []
    for turn, records in records_by_turn(FORM, turns, resumes=True):
        for part, record in enumerate(records or ()):
            entry = turn.key or "" if is_own(FORM, turn) and not part else identity_of(turn, part)
            messages.append(_Shown(entry, record, messages[-1].id if messages else None))
    return messages


async def _line(session: AsyncSession, seq: int, entry_id: str, count: int | None) -> tuple[list[_Shown], bool]:
    """The messages of a line up to an entry: all of them, or more than are wanted; and whether these are all."""
    turns: list[Turn] = []
    limit = PAGE_MAX_ROWS if count is None else min(PAGE_MAX_ROWS, 2 * count + 2)
    while True:
        try:
            page = await session.line(turns[0] if turns else seq, limit=limit)
        except NotFound as error:
            raise MissingEntry(f"no entry {entry_id} is stored", path="entry") from error
        is_whole = len(page) < limit
        turns = [*page, *turns[1:]]
        messages = _messages(turns)
        last = max((at for at, message in enumerate(messages) if message.id == entry_id), default=len(messages))
        messages = messages[: 1 + last]
        if is_whole or (count is not None and len(messages) > count):
            return (
                (messages, True)
                if is_whole and (count is None or len(messages) <= count)
                else (messages[-(count or 0) :], False)
            )
        limit = PAGE_MAX_ROWS


def _said_last(reads: Reads, name: str) -> tuple[str, int, datetime] | None:
    """The entry of the last turn that another framework said in a session, its number and instant; None if ours is the last."""
    session = sessions.find_session(reads, name)
    turns: list[Turn] = []
    for page in _pages_back(reads, session[0]) if session is not None else ():
        turns = [*page, *turns]
        last = next(
            (turn for turn, records in reversed([*records_by_turn(FORM, turns, resumes=True)]) if records), None
        )
        if last is not None:
            return None if is_own(FORM, last) else (_messages(turns)[-1].id, last.seq, last.at)
    return None


def _current(name: str, stored: Any, last: tuple[str, int, datetime] | None) -> ConversationRecord | None:
    """The record of a conversation as it stands: what was saved, and behind it what other frameworks have said since."""
    saved = None if stored is None else _saved(stored)
    if last is None or (stored is not None and last[1] <= stored.get("seen", 0)):
        return saved
    entry, seq, at = last
    if saved is None:
        return ConversationRecord(conversation_id=name, head_id=entry, revision=f"+{seq}", updated_at=at)
    return dataclasses.replace(saved, head_id=entry, revision=f"{saved.revision}+{seq}", updated_at=at)


def _place_of(reads: Reads, entry_id: str) -> _Place | None:
    """The place of another framework's turn, and the entry of ours before it; None for any other entry."""
    identity = identity_in(entry_id)
    event = None if identity is None else emitted.referred(reads, Ref(identity.uid, identity.seq))
    session = None if event is None else sessions.find_session(reads, event.session)
    if identity is None or session is None:
        return None
    turns = (turn for page in _pages_back(reads, session[0], identity.seq) for turn in reversed(page))
    return _Place(session[0].name, identity.seq, next((turn.key for turn in turns if is_own(FORM, turn)), None))


def _pages_back(reads: Reads, stream: Stream, before: int | None = None) -> Iterator[Sequence[Turn]]:
    page = (
        conversation.turns(reads, stream, last=PAGE_MAX_ROWS)
        if before is None
        else conversation.turns(reads, stream, before=before, limit=PAGE_MAX_ROWS)
    )
    while page:
        yield page
        page = conversation.turns(reads, stream, before=page[0].seq, limit=PAGE_MAX_ROWS)


def _saved(stored: Any) -> ConversationRecord:
    record = stored["record"]
    return _RECORD.validate_python(json.loads(record) if isinstance(record, bytes) else record)


def _entry_of(turn: Turn) -> str:
    """The entry that a turn belongs to: results before its message have its id and a number for their key."""
    if is_own(FORM, turn):
        return turn.key or ""
    is_part = turn.native is not None and turn.native.form == FORM.name + PART
    return (turn.key or "").rpartition("/")[0] if is_part else identity_of(turn)


def _is_gone(turn: Turn, reached: set[str], last: int) -> bool:
    """Whether no history reaches a turn. Those of other frameworks stay while an entry behind them does."""
    entry = _entry_of(turn)
    return entry not in reached and (identity_in(entry) is None or turn.seq > last)

"""`PerdureMemoryService`: events of Google ADK that can be found again, and memories that were written down.

    session adk.memory/APP/USER      a memory for each entry, under its id · the value ID holds the entry, or that it was deleted

An event is remembered once, however often its session is added. A search ranks as `session.recall` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from google.adk.events.event import Event  # pyright: ignore[reportMissingImports]
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse  # pyright: ignore[reportMissingImports]
from google.adk.memory.memory_entry import MemoryEntry  # pyright: ignore[reportMissingImports]
from google.adk.sessions.session import Session  # pyright: ignore[reportMissingImports]

from perdure.handles.atomic import Atomic
from perdure.model.ids import new_uid
from perdure.model.limits import TEXT_MAX_CHARS
from perdure_adapters.shared_store import SharedStore

RESULTS_MAX = 10
DELETED = "deleted"


class PerdureMemoryService(BaseMemoryService):
    """For `Runner(…, memory_service=PerdureMemoryService("sqlite:///agent.db"))`. store: a URL or an open store."""

    def __init__(self, store: Any) -> None:
        self._shared = SharedStore(store)

    async def add_session_to_memory(self, session: Session) -> None:
        """Remember the events of a session, in one commit. Adding it again adds those that are new."""
        await self._add(
            session.app_name, session.user_id, [_entry(event) for event in session.events if _has_text(event)]
        )

    async def add_events_to_memory(
        self, *, app_name: str, user_id: str, events: Sequence[Event], session_id: str | None = None,  # noqa: ARG002
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:  # fmt: skip
        """Remember these events. Those that are remembered, or were deleted, are left out."""
        await self._add(app_name, user_id, [_entry(event, custom_metadata) for event in events if _has_text(event)])

    async def add_memory(
        self, *, app_name: str, user_id: str, memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:  # fmt: skip
        """Remember entries as they are. An entry whose id is known is left out."""
        more = dict(custom_metadata or {})
        entries = [
            entry.model_copy(
                update={"id": entry.id or new_uid().hex(), "custom_metadata": {**more, **entry.custom_metadata}}
            )
            for entry in memories
        ]
        await self._add(app_name, user_id, entries)

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """The entries of a user that answer a query, the best first, at most ten."""
        if not query.strip():
            return SearchMemoryResponse()
        session = await self._shared.aio.session(_name(app_name, user_id))
        entries = []
        for hit in await session.recall(query, RESULTS_MAX, scopes=["session"]):
            value = await session.get(hit.memory.record.key or "")
            if isinstance(value, dict):
                entries.append(MemoryEntry.model_validate(value["entry"]))
        return SearchMemoryResponse(memories=entries)

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Forget an entry; adding its session again does not bring it back. Idempotent."""
        if memory_id:
            await self._shared.aio.atomic(lambda tx: _forget(tx, app_name, user_id, memory_id))

    async def _add(self, app: str, user: str, entries: Sequence[MemoryEntry]) -> None:
        await self._shared.aio.atomic(lambda tx: _remember(tx, app, user, entries))

    def close(self) -> None:
        """Let the store go, if it was opened here."""
        self._shared.close()


def _remember(tx: Atomic, app: str, user: str, entries: Sequence[MemoryEntry]) -> None:
    session = tx.session(_name(app, user))
    for entry in entries:
        assert entry.id, "given above"
        if session.get(entry.id) is None:
            memory = session.remember(_text(entry)[:TEXT_MAX_CHARS], key=entry.id)
            record = entry.model_dump(mode="json", exclude_none=True, fallback=repr)
            session.set(entry.id, {"entry": record, "seq": memory.seq})


def _forget(tx: Atomic, app: str, user: str, memory_id: str) -> None:
    session = tx.session(_name(app, user))
    value = session.get(memory_id)
    if isinstance(value, dict):
        session.memory(value["seq"]).forget("delete_memory")
        session.set(memory_id, DELETED)


def _name(app: str, user: str) -> str:
    return f"adk.memory/{quote(app, safe=' ')}/{quote(user, safe=' ')}"


def _entry(event: Event, metadata: Mapping[str, object] | None = None) -> MemoryEntry:
    at = datetime.fromtimestamp(event.timestamp, UTC).isoformat()
    return MemoryEntry(
        id=event.id, content=event.content, author=event.author, timestamp=at, custom_metadata=dict(metadata or {})
    )


def _has_text(event: Event) -> bool:
    return bool(event.content and any(part.text for part in event.content.parts or ()))


def _text(entry: MemoryEntry) -> str:
    words = " ".join(part.text for part in entry.content.parts or () if part.text).replace("\0", "")
    return words or f"[{entry.author or 'entry'}]"

"""Reads of the console across the store: effects, the audit trail, memories and where they came from, the settings.

Callers: the console's routes. The tokens on the page of settings are read by `GET /v1/tokens`, whose right only admins have.
"""

from __future__ import annotations

from typing import Any

from perdure.cli.identified import identified
from perdure.cli.output import plain
from perdure.errors import NotFound
from perdure.handles.aio.memory import AsyncMemory
from perdure.handles.aio.session import AsyncScope
from perdure.handles.aio.store import AsyncStore
from perdure.handles.damage import Damage
from perdure.model.records.effects import EffectRecord
from perdure.model.refs import Ref
from perdure.planes.conversation import sessions
from perdure.planes.conversation.emitted import referred
from perdure.planes.execution import workers
from perdure.planes.memory import values
from perdure.runtime.callers import caller_of
from perdure_server.http.call import HttpCall

TEXT_MAX = 2_000  # characters of one source of a memory
LOOKED_THROUGH = 2_000  # effects among which a text is sought for one page


async def effects(
    store: AsyncStore, *, text: str = "", limit: int = 50, after: str | None = None, **filters: Any
) -> dict[str, Any]:
    """A page of effects, newest first. text: those that have it in their id, key, arguments or actor; it is sought among the
    newest ones, so a page may have few rows and still be followed by another.
    """
    records: list[EffectRecord] = []
    damage = Damage()
    looked = 0
    while True:
        page = damage.rows(
            await store.effects(limit=limit if not text else LOOKED_THROUGH // 4, after=after, **filters)
        )
        looked, after = looked + len(page), page.next
        records += [effect.record for effect in page if not text or _holds(effect.record, text.lower())]
        if not text or after is None or len(records) >= limit or looked >= LOOKED_THROUGH:
            break
    items = [identified(record) for record in records]
    return {"items": items, "next": after, "looked_through": looked, "damaged": plain(damage)}


def _holds(record: EffectRecord, text: str) -> bool:
    fields = (
        record.id,
        record.tool,
        record.key,
        record.sent_key,
        record.actor,
        str(record.args),
        str(record.settled_by or ""),
    )
    return any(text in field.lower() for field in fields)


async def feed(store: AsyncStore, **filters: Any) -> dict[str, Any]:
    """The newest events of everything, newest first: headers alone."""
    page = await store.events(**filters)
    names = ("seq", "kind", "table", "actor", "at", "session", "stream_kind", "emptied")
    items = [{name: plain(getattr(event, name)) for name in names} for event in page]
    return {"items": items, "next": page.next, "damaged": plain(page.damaged)}


async def anchors(store: AsyncStore) -> dict[str, Any]:
    """When the chains' ends were last stated (`perdure anchor`)."""
    page = await store.events(kind="store.anchored", limit=1)
    return {"last": plain(page[0].at) if page else None, "by": page[0].actor if page else None}


async def memories(store: AsyncStore, query: str = "", **filters: Any) -> dict[str, Any]:
    """Memories, newest first, or those that share words with a query, best first, with why each was found."""
    if not query:
        page = await store.memories(**filters)
        return {"items": [plain(memory.record) for memory in page], "next": page.next, "damaged": plain(page.damaged)}
    damage = Damage()
    items = []
    for hit in damage.rows(await store.search(query, kinds=["memory"], limit=50)):
        memory = await damage.apart(_memory(store, hit.stream_kind, hit.stream, hit.seq), None)
        if memory is not None and filters["status"] in (None, memory.status):
            items.append({**plain(memory.record), "why": str(hit.why)})
    return {"items": items, "next": None, "damaged": plain(damage)}


async def provenance(store: AsyncStore, kind: str, scope: str, seq: int) -> dict[str, Any]:
    """The events that a memory refers to, as far as they are here, with what they say."""
    memory = await _memory(store, kind, scope, seq)
    return {"sources": [await _source(store, ref) for ref in memory.refs]}


async def _memory(store: AsyncStore, kind: str, scope: str, seq: int) -> AsyncMemory:
    caller = caller_of(store)
    session = await caller.read(sessions.find_session, scope) if kind == "session" else None
    stream = session[0] if session else await caller.read(values.find_scope, scope)
    if stream is None:
        raise NotFound(f"there is no {kind} {scope!r}", path="scope")
    return await AsyncScope(caller, stream).memory(seq)


async def _source(store: AsyncStore, ref: Ref) -> dict[str, Any]:
    event = await caller_of(store).read(referred, ref)
    if event is None:
        return {"seq": ref.seq, "stream": None}
    content = event.data.get("content", event.data.get("text", "")) if isinstance(event.data, dict) else ""
    text = content if isinstance(content, str) else ""
    return {
        "seq": ref.seq,
        "stream": event.session,
        "stream_kind": event.stream_kind,
        "kind": event.kind,
        "text": text[:TEXT_MAX],
    }


async def settings(call: HttpCall) -> dict[str, Any]:
    """The limits of the caller's tenant with what it uses of them, and the last pruning. keeps_tokens: whether tokens are
    made and revoked at this server.
    """
    serving = call.serving
    page = await call.store.events(kind="log.pruned", limit=1)
    return {
        "keeps_tokens": serving.keeps_tokens,
        "limits": plain(await serving.limits_of(call.identity.token.tenant)) if serving.keeps_tokens else None,
        "runs": await call.caller.read(workers.unfinished),
        "pruned": {"at": plain(page[0].at), "by": page[0].actor} if page else None,
    }

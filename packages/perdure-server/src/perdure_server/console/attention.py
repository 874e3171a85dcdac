"""Reads of the console's first pages: what needs a person, oldest first, with the evidence to decide on.

Each answers from read verbs that exist. A door holds no rules: advice comes from `effects.settling`, ways on from the planes.
Callers: the console's routes.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from perdure.cli.identified import identified
from perdure.cli.output import plain
from perdure.effects import settling, timeline
from perdure.handles.aio.effects import AsyncEffect
from perdure.handles.aio.store import AsyncStore
from perdure.handles.damage import Damage
from perdure.model.instants import to_datetime
from perdure.model.records.effects import EffectRecord
from perdure.model.records.runs import RunRecord, WaitKind, WaitRecord
from perdure.planes.execution import parked_runs, workers
from perdure.planes.reading.durations import store_now
from perdure.planes.recovery import presence
from perdure.runtime.callers import caller_of, stream_of

LISTED = 100  # of each kind; the page says when there are more
RECENT = "24h"  # failed runs are over: older ones are history, and `/runs?errors=1` has them
EVIDENCE = 12  # events about one effect, at most
LOOKED_THROUGH = 400  # newest events of its stream in which they are sought


async def now(store: AsyncStore) -> dict[str, Any]:
    """All that waits for a person, oldest first, and how the store is doing beside it."""
    damage = Damage()
    asks = damage.rows(await store.asks(limit=LISTED))
    doubts = damage.rows(await store.effects(in_doubt=True, limit=LISTED))
    parked = damage.rows(await store.runs(status="parked", limit=LISTED))
    failed = damage.rows(await store.runs(status="failed", errors=True, since=RECENT, limit=LISTED))
    recent = damage.rows(await store.runs(limit=8))
    tree = await caller_of(store).read(workers.tree, caller_of(store).core.liveness.is_dead)
    needs = [*map(_question, asks), *(_doubted(effect.record) for effect in doubts)]
    needs += [_stopped(run.record) for run in (*parked, *failed) if not run.record.what_if]
    needs += [_stranded(row) for row in tree.stranded]
    return {
        "at": plain(tree.at),
        "needs": sorted(needs, key=lambda need: datetime.fromisoformat(need["since"])),
        "more": any(page.next for page in (asks, doubts, parked, failed)),
        "queue": plain(tree.queue),
        "workers": {"alive": sum(worker.alive for worker in tree.workers), "known": len(tree.workers)},
        "recent": [summary(run.record) for run in recent],
        "damaged": plain(damage),
    }


async def counts(store: AsyncStore) -> dict[str, int]:
    """How much waits for people: for the mark beside the inbox."""
    asks, doubts = await store.asks(limit=LISTED), await store.effects(in_doubt=True, limit=LISTED)
    return {"asks": len(asks) + len(asks.damaged), "doubts": len(doubts) + len(doubts.damaged)}


async def inbox(store: AsyncStore) -> dict[str, Any]:
    """Asks, approvals with the very arguments, and doubts with their evidence; the oldest first."""
    damage = Damage()
    asks = damage.rows(await store.asks(limit=LISTED))
    doubts = damage.rows(await store.effects(in_doubt=True, limit=LISTED))
    return {
        "at": plain(to_datetime(await caller_of(store).read(store_now))),
        "asks": [identified(ask) for ask in reversed(asks)],
        "doubts": [await evidence(store, effect, damage) for effect in reversed(doubts)],
        "more": bool(asks.next or doubts.next),
        "damaged": plain(damage),
    }


async def evidence(store: AsyncStore, effect: AsyncEffect, damage: Damage) -> dict[str, Any]:
    """An effect with what is known about its call: its sender, the events about it, the rule, and the ways out."""
    record = effect.record
    now_us = await caller_of(store).read(store_now)
    advice = settling.advise(record, now_us, can_probe=False)
    recent = damage.rows(await caller_of(store).read(timeline.timeline, stream_of(effect), last=LOOKED_THROUGH))
    about = [event for event in recent if record.seq in (event.of, event.seq)]
    return {
        **identified(record),
        "sender": await _sender(store, record),
        "history": plain(about[-EVIDENCE:]),
        "advice": {"action": advice.action.value, "reason": advice.reason},
        "ways_out": settling.ways_out(record),
        "landed": settling.has_landed(record, now_us),
        "left": await effect.is_left(),
    }


async def _sender(store: AsyncStore, record: EffectRecord) -> dict[str, Any]:
    """The process that made the call, and what is known of its life."""
    holder = record.holder or ""
    liveness = caller_of(store).core.liveness
    if not holder:
        return {"holder": "", "state": "unknown", "host": "", "quiet_at": plain(record.quiet_at)}
    if liveness.is_dead(holder):
        state = "dead"
    elif liveness.is_held(holder):
        state = "alive"
    else:
        state = "alive" if await caller_of(store).read(presence.is_alive, holder) else "silent"
    host = await caller_of(store).read(workers.host_of, holder)
    return {"holder": holder, "state": state, "host": host, "quiet_at": plain(record.quiet_at)}


def _question(wait: WaitRecord) -> dict[str, Any]:
    approval = wait.kind is WaitKind.APPROVAL
    tool = str(wait.detail.get("tool", "")) if approval and isinstance(wait.detail, dict) else ""
    return {
        "kind": "approval" if approval else "ask", "id": wait.id, "since": plain(wait.at), "title": wait.question,
        "about": tool, "until": plain(wait.expires_at), "where": f"{wait.stream_kind}:{wait.stream}",
    }  # fmt: skip


def _doubted(record: EffectRecord) -> dict[str, Any]:
    about = (
        f"{record.error.code}: {record.error.message}"
        if record.error
        else "the call was sent, and no outcome was recorded"
    )
    return {
        "kind": "doubt", "id": record.id, "since": plain(record.outcome_at or record.dispatched_at or record.at),
        "title": record.tool, "about": about, "until": None, "where": f"{record.stream_kind}:{record.stream}",
    }  # fmt: skip


def _stopped(record: RunRecord) -> dict[str, Any]:
    about = f"{record.error.code}: {record.error.message}" if record.error else record.reason or ""
    parked = record.status == "parked"
    ways = parked_runs.ways_on(record.id, record.reason, record.hint) if parked else ""
    return {
        "kind": record.status.value, "id": f"run:{record.id}", "since": plain(record.outcome_at or record.created_at),
        "title": record.agent, "about": "; ".join(filter(None, (about, ways))), "until": None, "where": f"run:{record.id}",
    }  # fmt: skip


def _stranded(row: Any) -> dict[str, Any]:
    return {
        "kind": "stranded", "id": f"run:{row.run}", "since": plain(row.since), "title": row.agent, "about": row.why,
        "until": None, "where": f"run:{row.run}",
    }  # fmt: skip


def summary(record: RunRecord) -> dict[str, Any]:
    """A run as lists show it: without its arguments and its result."""
    names = (
        "id", "agent", "status", "key", "session", "parent", "creator", "created_at", "ended_at", "wake_at", "holder", "deaths",
        "reason", "abandoned", "outcome_at",
    )  # fmt: skip
    error = f"{record.error.code}: {record.error.message}" if record.error else ""
    return {**{name: plain(getattr(record, name)) for name in names}, "error": error, "what_if": bool(record.what_if)}

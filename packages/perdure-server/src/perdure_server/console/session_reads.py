"""Reads of the console about sessions: the list, one with its turns and plan, a fork's forecast.

Callers: the console's routes.
"""

from __future__ import annotations

from typing import Any

from perdure.cli.identified import identified
from perdure.cli.output import plain
from perdure.handles.aio.session import AsyncSession
from perdure.handles.aio.store import AsyncStore
from perdure.handles.damage import Damage
from perdure.model.limits import PAGE_MAX_ROWS
from perdure.model.records.effects import EffectRecord
from perdure.planes.conversation import turns
from perdure_server.console.attention import summary

TURNS = 100  # of one page
BESIDE = 50  # decisions, tasks, values, effects and runs beside the turns


async def sessions(store: AsyncStore, **filters: Any) -> dict[str, Any]:
    """A page of sessions, newest first."""
    page = await store.sessions(**filters)
    return {"items": plain(page), "next": page.next, "damaged": plain(page.damaged)}


async def session(store: AsyncStore, present: AsyncSession, at: int | None = None) -> dict[str, Any]:
    """A session, now or after an event: what it is about, its newest turns, and what was decided, planned and done."""
    view = present if at is None else await present.at(at)
    damage = Damage()
    effects = damage.rows(await view.effects(limit=PAGE_MAX_ROWS))
    runs = damage.rows(await store.runs(session=present.name, limit=BESIDE)) if at is None else []
    info = await damage.apart(view.info(), None)
    return {
        "session": None if info is None else {**plain(info), "uid": present.uid},
        "origin": plain(await present.origin()),
        "turns": plain(damage.rows(await view._read(turns.shown, last=TURNS))),
        "pending": plain(await damage.apart(view.pending(), None)),
        "decisions": [plain(decision.record) for decision in damage.rows(await view.decisions(limit=BESIDE))],
        "tasks": [plain(task.record) for task in damage.rows(await view.tasks(limit=BESIDE))],
        "values": plain(damage.rows(await view.entries(limit=BESIDE))),
        "effects": [identified(effect.record) for effect in effects[-BESIDE:]],
        "runs": [summary(run.record) for run in runs],
        "damaged": plain(damage),
    }


async def earlier_turns(present: AsyncSession, before: int) -> dict[str, Any]:
    """The turns of a session before one, oldest first."""
    page = await present._read(turns.shown, before=before, limit=TURNS)
    return {"items": plain(page), "damaged": plain(page.damaged)}


async def forecast(present: AsyncSession, at: int | None) -> dict[str, Any]:
    """The things that a fork of a session after an event would not know: said or done later, or under way at that point."""
    info, effects = await present.info(), await present.effects(limit=PAGE_MAX_ROWS)
    point = info.last_seq if at is None else at
    past = await present.at(point)
    under_way = {effect.record.seq for effect in await past.effects(open=True)}
    later = [effect.record for effect in effects if effect.record.seq > point]
    later_turns = await present.turns(after=point, limit=PAGE_MAX_ROWS)
    return {
        "at": point,
        "turns_after": len(later_turns),
        "effects_after": [_brief(effect) for effect in later],
        "stay": [effect.record.id for effect in effects if effect.record.seq in under_way],
    }


def _brief(record: EffectRecord) -> dict[str, Any]:
    return {"id": record.id, "tool": record.tool, "kind": record.kind.value, "state": record.state.value}

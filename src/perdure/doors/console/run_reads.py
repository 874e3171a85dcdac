"""Reads of the console about runs: the list, a run with its whole timeline, its state after any event, a fork's forecast.

Callers: the console's routes. The outline of a run names its events without their contents, so ten thousand of them are one
answer; the content of one event is read when somebody looks at it.
"""

from __future__ import annotations

from typing import Any

from perdure.doors.cli.identified import identified
from perdure.doors.cli.output import plain
from perdure.doors.console.attention import summary
from perdure.errors import NotFound
from perdure.handles.aio.store import AsyncStore
from perdure.model.instants import instant_us
from perdure.model.limits import PAGE_MAX_ROWS
from perdure.model.records.timeline import TimelineRecord

OUTLINE_MAX = 50_000  # newest events of one run that a page draws
LATEST = 20  # steps and effects that the state at an event lists
LOOKED_AT = 60  # events among which those steps are sought


async def runs(store: AsyncStore, **asked: Any) -> dict[str, Any]:
    """A page of runs, newest first."""
    page = await store.runs(**asked)
    return {"items": [summary(each.record) for each in page], "next": page.next, "damaged": len(page.damaged)}


async def run(store: AsyncStore, name: str) -> dict[str, Any]:
    """A run: how it stands, what it waits for, what is not settled, and the runs that it started."""
    handle = await store.run(await store.run_id(name))
    envelope = await handle.envelope()
    return {
        "run": plain(handle.record),
        "verdict": plain(envelope.verdict),
        "waits": [identified(each) for each in await handle.waits()],
        "open_effects": [identified(each.record) for each in await handle.effects(open=True)],
        "children": [summary(each.record) for each in await store.runs(parent=handle.id)],
    }


async def outline(store: AsyncStore, name: str) -> dict[str, Any]:
    """The events of a run without their contents, as columns: number, instant, kind, subject, place, entry, actor."""
    handle = await store.run(await store.run_id(name))
    newest: list[TimelineRecord] = []
    before: str | None = None
    while True:
        page = await handle.timeline(last=PAGE_MAX_ROWS, before=before)
        newest[:0] = page
        before = page.next
        if before is None or len(newest) >= OUTLINE_MAX:
            break
    kinds = sorted({each.kind for each in newest})
    actors = sorted({each.actor for each in newest})
    return {
        "kinds": kinds,
        "actors": actors,
        "complete": before is None,
        "seq": [each.seq for each in newest],
        "at_us": [instant_us(each.at, 0) for each in newest],
        "kind": [kinds.index(each.kind) for each in newest],
        "actor": [actors.index(each.actor) for each in newest],
        "about": [each.about for each in newest],
        "place": [each.place for each in newest],
        "of": [each.of for each in newest],
    }


async def event(store: AsyncStore, name: str, seq: int) -> dict[str, Any]:
    """One event of a run, with what it says."""
    handle = await store.run(await store.run_id(name))
    found = [each for each in await handle.timeline(last=1, before=seq + 1) if each.seq == seq]
    if not found:
        raise NotFound(f"run {name} has no event {seq}", path="seq")
    return plain(found[0])


async def at(store: AsyncStore, name: str, seq: int) -> dict[str, Any]:
    """A run as it was after an event: folded from its log, not remembered."""
    past = await (await store.run(await store.run_id(name))).at(seq)
    effects = await past.effects()
    newest = await past.timeline(last=LOOKED_AT)
    return {
        "seq": seq,
        "run": {**summary(past.record), "result": plain(past.record.result)},
        "waits": [identified(each) for each in await past.waits()],
        "effects": [_brief(each.record) for each in effects[-LATEST:]],
        "effect_count": len(effects),
        "steps": [_step(each) for each in newest if each.kind == "step.done"][-LATEST:],
    }


def _step(entry: TimelineRecord) -> dict[str, Any]:
    said = entry.said if isinstance(entry.said, dict) else {}
    return {
        "seq": entry.seq,
        "name": entry.about,
        **{name: plain(said[name]) for name in ("value", "error") if name in said},
    }


def _brief(record: Any) -> dict[str, Any]:
    names = ("seq", "tool", "kind", "state", "place", "attempt", "args", "result", "error", "settled_by")
    return {"id": record.id, **{name: plain(getattr(record, name)) for name in names}}


async def forecast(store: AsyncStore, name: str, place: str, *, allow_effects: bool) -> dict[str, Any]:
    """The consequences of a fork of a run at a place: how much is kept, and what is done anew."""
    handle = await store.run(await store.run_id(name))
    found = await handle.forecast(_place(place), allow_effects=allow_effects)
    return {**plain(found), "fates": found.by_fate}


def _place(text: str) -> int | str:
    return int(text) if text.isdecimal() and len(text) < 18 else text

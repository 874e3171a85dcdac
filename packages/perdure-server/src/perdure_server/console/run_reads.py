"""Reads of the console about runs: the list, a run with its whole timeline, its state after any event, a fork's forecast.

Callers: the console's routes. The outline of a run names its events without their contents, so ten thousand of them are one
answer; the content of one event is read when somebody looks at it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from perdure.cli.identified import identified
from perdure.cli.output import plain
from perdure.cli.runs import change_text, versions_text
from perdure.effects import envelope, glimpse, ledger, timeline
from perdure.errors import NotFound
from perdure.handles.aio.run_handle import AsyncRunHandle
from perdure.handles.aio.store import AsyncStore
from perdure.handles.damage import Damage
from perdure.log.change import Stream
from perdure.model.records.envelope import RunVerdict
from perdure.model.records.timeline import TimelineRecord
from perdure.planes.execution import runs as plane
from perdure.runtime.callers import caller_of
from perdure.runtime.journal import branch_name, branch_of
from perdure_server.console.attention import summary

OUTLINE_MAX = 50_000  # newest events of one run that a page draws
NO_EVENT = {"kind": "damaged", "actor": "", "about": "", "place": "", "of": None, "said": None}
NO_STATE = {"run": None, "waits": [], "effects": [], "effect_count": 0, "steps": []}
UNREAD = {"standing": "damaged", "says": "a part of this run cannot be read"}
LATEST = 20  # steps and effects that the state at an event lists
LOOKED_AT = 60  # events among which those steps are sought


async def runs(store: AsyncStore, **filters: Any) -> dict[str, Any]:
    """A page of runs, newest first."""
    page = await store.runs(**filters)
    return {"items": [summary(run.record) for run in page], "next": page.next, "damaged": plain(page.damaged)}


async def run(store: AsyncStore, name: str) -> dict[str, Any]:
    """A run: how it stands, what it waits for, what is not settled, and the runs that it started.

    Of a run whose own record cannot be read there are the runs that it started, and its events (`outline`, `event`).
    """
    whole_name, damage = await store.run_id(name), Damage()
    handle = await damage.apart(store.run(whole_name), None)
    return {
        "run": None if handle is None else plain(handle.record),
        **({"verdict": UNREAD, "waits": [], "open_effects": []} if handle is None else await _details(handle, damage)),
        "children": [summary(child.record) for child in damage.rows(await store.runs(parent=whole_name))],
        "damaged": plain(damage),
    }


async def _details(handle: AsyncRunHandle[Any], damage: Damage) -> dict[str, Any]:
    return {
        "versions": versions_text(handle.record.pins),
        "versions_changed": change_text(handle.record),
        "verdict": plain(await damage.apart(_verdict(handle), None)) or UNREAD,
        "waits": [identified(wait) for wait in await damage.apart(handle.waits(), [])],
        "open_effects": [identified(effect.record) for effect in await damage.apart(handle.effects(open=True), [])],
    }


async def _verdict(handle: AsyncRunHandle[Any]) -> RunVerdict | None:
    return await handle._read(envelope.verdict, await handle._witness())


async def outline(store: AsyncStore, name: str) -> dict[str, Any]:
    """The events of a run without their contents, as columns. after_us: since the event before. about, kind, branch: by their
    number in `names`, `kinds`, `branches`; an event of no branch is the run's own (null).
    """
    stream = await _stream(store, name)
    page = await caller_of(store).read(timeline.outline, stream, most=OUTLINE_MAX)
    entries = page.entries
    kinds, names, paths = Numbered(), Numbered(), Numbered()
    return {
        "run": stream.name,
        "complete": page.complete,
        "first_us": entries[0].at_us if entries else 0,
        "seq": [entry.seq for entry in entries],
        "after_us": [0, *(later.at_us - entry.at_us for entry, later in pairwise(entries))],
        "kind": [kinds[entry.kind] for entry in entries],
        "about": [names["" if entry.about == stream.name else entry.about] for entry in entries],
        "branch": [paths[branch_of(entry.place)] if entry.place else None for entry in entries],
        "of": [entry.of for entry in entries],
        "kinds": [*kinds],
        "names": [*names],
        "branches": [branch_name(path) for path in paths],
    }


async def _stream(store: AsyncStore, name: str) -> Stream:
    """The events of a run, whether its own record can be read or not."""
    return await caller_of(store).read(plane.find, await store.run_id(name))


class Numbered(dict[str, int]):
    """Texts by the order in which each was first asked for."""

    def __missing__(self, text: str) -> int:
        self[text] = len(self)
        return self[text]


async def event(store: AsyncStore, name: str, seq: int) -> dict[str, Any]:
    """One event of a run, with what it says; one that cannot be read is named as damaged."""
    page = await caller_of(store).read(timeline.timeline, await _stream(store, name), last=1, before=seq + 1)
    if page.damaged:
        return {**NO_EVENT, "seq": seq, "damaged": plain(page.damaged)}
    rows = [row for row in page if row.seq == seq]
    if not rows:
        raise NotFound(f"run {name} has no event {seq}", path="seq")
    return plain(rows[0])


async def at(store: AsyncStore, name: str, seq: int) -> dict[str, Any]:
    """A run as it was after an event; without all of it if that cannot be read."""
    damage = Damage()
    snapshot = await damage.apart(_at(store, name, seq), None)
    return snapshot or {**NO_STATE, "seq": seq, "damaged": plain(damage)}


async def _at(store: AsyncStore, name: str, seq: int) -> dict[str, Any]:
    """Folded from its log. After its newest event it is the present, which needs no fold."""
    handle = await store.run(await store.run_id(name))
    if await _newest(handle) == seq:
        effects = await handle._read(glimpse.newest_effects, LATEST)
        present = await state(await handle.refresh(), seq, effects)
        if await _newest(handle) == seq:  # nothing came meanwhile, so all of it is of one moment
            return present
    return await folded(handle, seq)


async def folded(handle: AsyncRunHandle[Any], seq: int) -> dict[str, Any]:
    """A run as it was after an event, from those of its events that say so."""
    view = await handle._read(glimpse.view, seq, caller_of(handle).core, LATEST, LOOKED_AT)
    return await state(await handle._in(view.past), seq, view.effects)


async def _newest(handle: AsyncRunHandle[Any]) -> int:
    return (await handle.timeline(last=1)).whole()[-1].seq


async def state(run: AsyncRunHandle[Any], seq: int, newest: glimpse.NewestEffects) -> dict[str, Any]:
    """The state of a run, as it is or as it was, without what is long. newest: the effects to list."""
    effects = await run._read(ledger.all_effects, after=newest.after)
    events = (await run.timeline(last=LOOKED_AT)).whole()
    return {
        "seq": seq,
        "run": {**summary(run.record), "result": plain(run.record.result)},
        "waits": [identified(wait) for wait in await run.waits()],
        "effects": [_brief(effect) for effect in effects],
        "effect_count": newest.total,
        "steps": [_step(event) for event in events if event.kind == "step.done"][-LATEST:],
    }


def _step(entry: TimelineRecord) -> dict[str, Any]:
    result = entry.said if isinstance(entry.said, dict) else {}
    return {
        "seq": entry.seq,
        "name": entry.about,
        **{name: plain(result[name]) for name in ("value", "error") if name in result},
    }


def _brief(record: Any) -> dict[str, Any]:
    names = ("seq", "tool", "kind", "state", "place", "attempt", "args", "result", "error", "settled_by")
    return {"id": record.id, **{name: plain(getattr(record, name)) for name in names}}


async def forecast(store: AsyncStore, name: str, place: str, *, allow_effects: bool) -> dict[str, Any]:
    """The consequences of a fork of a run at a place: how much is kept, and what is done anew."""
    handle = await store.run(await store.run_id(name))
    prediction = await handle.forecast(_place(place), allow_effects=allow_effects)
    return {**plain(prediction), "fates": prediction.by_fate}


def _place(text: str) -> int | str:
    return int(text) if text.isdecimal() and len(text) < 18 else text

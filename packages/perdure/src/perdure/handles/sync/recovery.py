# Generated from handles/aio/recovery.py by tools/unasync.py: edit that one.
"""Recovery of the work of dead processes: their runs are driven on, and effects of sessions are settled as far as rules can.

An effect that no rule can settle, or whose tool is not declared in this process, stays visible. Callers: users, and the worker
when it starts. Keeps P4, P13.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from perdure.effects import ledger
from perdure.effects.effect_engine import DoubtSettler
from perdure.effects.tool import DECLARED, Tool, as_tool
from perdure.errors import Conflict, InDoubt, Waiting
from perdure.handles.later import gone_machines, orphaned
from perdure.handles.sync.runs import Runs
from perdure.log.change import Stream
from perdure.model.filters import EffectFilters
from perdure.model.records.effects import EffectRecord, EffectState
from perdure.model.records.recovery import Recovered
from perdure.planes.execution import imported, runs
from perdure.planes.reading.paging import DamagedRow, Page
from perdure.planes.recovery import presence
from perdure.runtime import untaken
from perdure.runtime.shells import Shell

UNDER_WAY = (EffectState.DISPATCHED, EffectState.IN_DOUBT)
LOOKED_AT = 1_000  # effects that are read at once


class Recovery(Runs):
    """Verbs of a store for continuing the work of dead processes."""

    __slots__ = ()

    def recover(
        self, agents: Iterable[Callable[..., Any]] = (), *, tools: Iterable[Callable[..., Any]] = ()
    ) -> Recovered:
        """Continue the work of dead processes here: drive their runs, and settle the effects of sessions as far as rules can.

        Returns the runs as they stand afterwards, the effects that were settled, and those that wait for a person or a later
        time, which stay visible in `store.asks()` and `store.effects(state="in_doubt")`. An effect that a probe finds absent is
        planned again, and the next caller that acts with its key sends it. A run or effect that cannot be read is named, and
        does not hold back the others. Safe to call again and at any time.
        agents, tools: those to use, besides those that were declared in this process. Work of other agents and tools is left.
        """
        known = {**DECLARED, **{found.name: found for found in map(as_tool, tools)}}
        driven, damaged = self._drive_left(agents)
        settled: list[EffectRecord] = []
        waiting: list[EffectRecord] = []
        left_open = self._left()
        damaged += [f"{row.where}: {row.reason}" for row in left_open.damaged]
        for stream, record in left_open:
            found = self._settled(stream, record, known.get(record.tool))
            if found.state is not EffectState.DISPATCHED:
                (waiting if found.state is EffectState.IN_DOUBT else settled).append(found)
        self._caller.work(presence.tidy, self._caller.core, self._caller.actor, [self._caller.tenant])
        return Recovered(tuple(driven), tuple(settled), tuple(waiting), tuple(damaged))

    def recoverable(self, agents: Iterable[Callable[..., Any]] = ()) -> Recovered:
        """Return the work that `recover` would take now: runs to drive, and (as `waiting`) effects of sessions in doubt.

        Only reads. Another process may take it first: `recover` decides anew.
        """
        streams = self._caller.read(untaken.left_runs, self._known(agents), self._caller.core)
        driven = [self._caller.read(runs.run, stream) for stream in streams]
        here = orphaned.here(self._caller.core)
        doubts = [
            record for _, record in self._left()
            if record.state is EffectState.IN_DOUBT or self._caller.read(orphaned.is_left, record, here)
        ]  # fmt: skip
        return Recovered(tuple(driven), (), tuple(doubts))

    def declare_gone(self, who: str, *, apply: bool = False, force: bool = False) -> list[EffectRecord]:
        """Declare that a machine, or a holder by its id, is gone for good: its open effects are in doubt, and it sends no more.

        Returns these effects. Afterwards a probe's Absent is final once `lands_within` has passed, and no person is asked.
        Perdure believes you: a machine that still lives sends twice. Recorded with each effect, by this actor. Idempotent;
        after a crash, call it again.
        who: a name that `perdure workers` shows.
        apply: without it nothing is changed.
        force: even though it gives signs of life; otherwise that is a Conflict.

        Raises NotFound if nothing that it sent is open.
        """
        found = self._caller.read(gone_machines.left_by, who)
        if not force:
            self._caller.read(gone_machines.check_gone, found, self._caller.core.liveness)
        if not apply:
            return [record for _, record in found]
        by = self._caller.actor
        return [self._caller.write(gone_machines.declare, stream, record, by) for stream, record in found]

    def _left(self) -> Page[tuple[Stream, EffectRecord]]:
        """The effects of sessions that are under way or in doubt, oldest first. Those of runs are settled with them."""
        found: list[tuple[Stream, EffectRecord]] = []
        damaged: list[DamagedRow] = []
        for state in UNDER_WAY:
            asked = EffectFilters(state=state, limit=LOOKED_AT)
            while True:
                page = self._caller.read(ledger.effects_of_store, asked, of="session")
                # A copy's effect waits for a person: its original may settle it where it is.
                found += [
                    each for each in page
                    if not each[1].copy or not self._caller.read(imported.is_copy, each[0], each[1].seq)
                ]  # fmt: skip
                damaged += page.damaged
                if page.next is None:
                    break
                asked = replace(asked, after=page.next)
        return Page(sorted(found, key=lambda each: (each[1].at, each[0].id, each[1].seq)), damaged=tuple(damaged))

    def _settled(self, stream: Stream, record: EffectRecord, tool: Tool | None) -> EffectRecord:
        """How it stands after its rule was followed, or somebody else settled it meanwhile."""
        caller = self._caller
        settling = DoubtSettler(caller.core, stream, caller.actor, caller.tenant)
        try:
            return Shell(caller, stream, locked=False).run(settling.settle(tool, record))
        except (InDoubt, Conflict, Waiting):
            return self._caller.read(ledger.effect, stream, record.seq)

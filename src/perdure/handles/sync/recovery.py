# Generated from handles/aio/recovery.py by tools/unasync.py: edit that one.
"""Recovery: what those who died left behind. Runs are driven on; effects of sessions are settled as far as rules can.

An effect that no rule can settle, or whose tool is not declared in this process, stays visible. Callers: users, and the worker
when it
starts. Keeps P4, P13.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from perdure.effects import ledger
from perdure.effects.acting import Settling
from perdure.effects.tool import DECLARED, Tool, as_tool
from perdure.errors import Conflict, InDoubt, NotFound, Waiting
from perdure.handles.later import gone_machines, orphaned
from perdure.handles.sync.runs import Runs
from perdure.log.change import Stream
from perdure.model.filters import EffectFilters
from perdure.model.records.effects import EffectRecord, EffectState
from perdure.model.records.recovery import Recovered
from perdure.planes.execution import runs
from perdure.planes.reading.paging import DamagedRow, Page
from perdure.planes.recovery import presence
from perdure.runtime import untaken
from perdure.runtime.shells import Shell

UNDER_WAY = (EffectState.DISPATCHED, EffectState.IN_DOUBT)
LOOKED_AT = 1_000  # effects that are read at once


class Recovery(Runs):
    """Going on with what others left."""

    __slots__ = ()

    def recover(
        self, agents: Iterable[Callable[..., Any]] = (), *, tools: Iterable[Callable[..., Any]] = ()
    ) -> Recovered:
        """Go on here with what the dead left: drive their runs, and settle the effects of sessions as far as rules can.

        agents, tools: what to do it with, besides those that were declared in this process; what belongs to others is left.
        Returns the runs as they stand then, the effects that were settled, and those that wait for a person or a later time:
        they stay visible in `store.asks()` and `store.effects(state="in_doubt")`. One that a probe finds absent is planned
        again: whoever acts next with its key sends it. A run or effect that cannot be read is named, and keeps nothing else from
        continuing.
        Safe to call again and at any time.
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
        """The work that `recover` would take, as it stands: runs that it would drive, and (as `waiting`) effects of sessions in
        doubt.

        Reads alone. Others may take them first: `recover` decides anew.
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
        """Say that a machine, or a holder by its id, is gone for good: what it left open is in doubt, and it sends no more.

        `perdure workers` shows the names that `who` takes. Gives the effects that this is about; without `apply` nothing is
        changed. After it a probe's Absent is final once `lands_within` has passed, and no person is asked. You are believed: one
        that lives sends twice. Recorded with each effect, by this actor. NotFound if nothing of it is open; Conflict while it
        gives signs of life, unless `force`. Idempotent; after a crash say it again.
        """
        found = self._caller.read(gone_machines.left_by, who)
        if not found:
            hint = "`perdure workers` and `perdure effects --in-doubt --json` name machines and holders"
            raise NotFound(f"nothing that {who!r} sent is open", path="who", hint=hint)
        for holder in {record.holder or "" for _, record in found}:
            if not force and (
                self._caller.core.liveness.is_held(holder) or self._caller.read(presence.is_alive, holder)
            ):
                raise Conflict(
                    f"{holder} gives signs of life", path="who", hint="stop it first; force=True if you know better"
                )
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
                found += page
                damaged += page.damaged
                if page.next is None:
                    break
                asked = replace(asked, after=page.next)
        return Page(sorted(found, key=lambda each: (each[1].at, each[0].id, each[1].seq)), damaged=tuple(damaged))

    def _settled(self, stream: Stream, record: EffectRecord, tool: Tool | None) -> EffectRecord:
        """How it stands after its rule was followed, or somebody else settled it meanwhile."""
        caller = self._caller
        settling = Settling(caller.core, stream, caller.actor, caller.tenant)
        try:
            return Shell(caller, stream, locked=False).run(settling.settle(tool, record))
        except (InDoubt, Conflict, Waiting):
            return self._caller.read(ledger.effect, stream, record.seq)

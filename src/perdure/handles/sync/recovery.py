# Generated from handles/aio/recovery.py by tools/unasync.py: edit that one.
"""Recovery: what those who died left behind. Runs are driven on; effects of sessions are settled as far as rules can.

What a rule cannot settle, or a tool that is not declared in this process, stays visible. Callers: users, and the worker when it
starts. Keeps P4, P13.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from perdure.effects import ledger
from perdure.effects.judging import in_doubt
from perdure.effects.settling import Advice
from perdure.effects.tool import DECLARED, Tool, as_tool
from perdure.errors import Conflict, InDoubt, Waiting
from perdure.handles.sync.acting import Acting
from perdure.handles.sync.runs import Runs
from perdure.log.change import Stream
from perdure.model.records.effects import EffectRecord, EffectState
from perdure.model.records.recovery import Recovered
from perdure.planes import presence

UNDER_WAY = (EffectState.DISPATCHED, EffectState.IN_DOUBT)
LOOKED_AT = 1_000  # effects that are read at once


class Settling(Acting):
    """Settles one effect that is in doubt, and never waits in place: what must wait is left."""

    __slots__ = ()

    def settle(self, tool: Tool | None, record: EffectRecord) -> EffectRecord:
        """Bring it out of doubt by its rule. An effect that did not happen is planned again, and not sent: whoever acts next
        with its key does that. InDoubt when a person or a later time must settle it; `dispatched` while its sender lives.
        """
        record = self.looked_at(record)
        while record.state is EffectState.IN_DOUBT:
            record, mine = self._settle(tool, record)
            if mine and tool is not None:
                record, _ = self._send(tool, record)
        return record

    def _wait_until(self, record: EffectRecord, advice: Advice) -> None:
        raise in_doubt(record, advice)


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
        again: whoever acts next with its key sends it. What cannot be read is named, and keeps nothing else from going on.
        Safe to call again and at any time.
        """
        known = {**DECLARED, **{found.name: found for found in map(as_tool, tools)}}
        driven, damaged = self._drive_left(agents)
        settled: list[EffectRecord] = []
        waiting: list[EffectRecord] = []
        for stream, record in self._left():
            found = self._settled(stream, record, known.get(record.tool))
            if found.state is not EffectState.DISPATCHED:
                (waiting if found.state is EffectState.IN_DOUBT else settled).append(found)
        self._caller.work(presence.tidy, self._caller.core)
        return Recovered(tuple(driven), tuple(settled), tuple(waiting), tuple(damaged))

    def _left(self) -> list[tuple[Stream, EffectRecord]]:
        """The effects of sessions that are under way or in doubt, oldest first. Those of runs are settled with them."""
        found: list[tuple[Stream, EffectRecord]] = []
        for state in UNDER_WAY:
            after: str | None = None
            while True:
                asked = {"state": state.value, "of": "session", "limit": LOOKED_AT, "after": after}
                page = self._caller.read(ledger.effects_of_store, **asked)
                found += page
                after = page.next
                if after is None:
                    break
        return sorted(found, key=lambda each: (each[1].at, each[0].id, each[1].seq))

    def _settled(self, stream: Stream, record: EffectRecord, tool: Tool | None) -> EffectRecord:
        """How it stands after its rule was followed, or somebody else settled it meanwhile."""

        def write(verb: Callable[..., Any], *args: Any) -> Any:
            return self._caller.write_in(stream, verb, args, {})

        try:
            return Settling(self._caller, stream, write).settle(tool, record)
        except (InDoubt, Conflict, Waiting):
            return self._caller.read(ledger.effect, stream, record.seq)

"""Broken variants, put in place in a child's process alone: what the sweeps must catch.

unrecorded   calls first and records after: no dispatch is durable when the tool is called
trusting     takes the first "absent" of a probe for final: `lands_within` is ignored
unfenced     a driver writes without looking whether its lease still stands, and calls without looking once more
unchecked    writes are fenced, but nobody looks once more right before the call
"""

from __future__ import annotations

from typing import Any

from perdure.effects import ledger, settling
from perdure.effects.ledger import Intent, Outcome
from perdure.model.crash_points import reach
from perdure.planes.execution import leases
from perdure.runtime.run_engine import RunEngine


def unrecorded() -> None:
    finished = RunEngine.finish_effect

    def call_first(self: Any, branch: Any, tool: Any, found: Any, **about: Any) -> Any:
        if not isinstance(found, Intent) or tool.name in ("label", "shove", "ring", "refuse", "stumble", "undo_badly"):
            return (yield from finished(self, branch, tool, found, **about))
        engine = self.effects
        result = tool.call(tool.fn, found.args, key=found.key)
        reach("effect.call.after")
        record, _ = yield from engine.dispatch_effect(tool, found)
        return (yield from engine.move("commit", ledger.commit, record.seq, record.attempt, Outcome(result)))

    RunEngine.finish_effect = call_first  # type: ignore[method-assign]


def trusting() -> None:
    settling.after_absent = lambda *_: settling.Advice(settling.Action.AGAIN, "it said so")


def unchecked() -> None:
    leases.holds = lambda *_: True


def unfenced() -> None:
    unchecked()
    leases.check_lease = lambda *_: None

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
from perdure.handles.sync.driving import Driving
from perdure.handles.sync.run import Run
from perdure.model.points import reach
from perdure.planes import leasing


def unrecorded() -> None:
    concluded = Run._concluded

    def call_first(run: Any, tool: Any, found: Any, **about: Any) -> Any:
        if not isinstance(found, Intent) or tool.name in ("label", "shove", "ring", "refuse", "stumble", "undo_badly"):
            return concluded(run, tool, found, **about)
        acting, shell = run._driving.acting, run._driving.shell
        result = tool.call(tool.fn, found.args, key=found.key)
        reach("effect.call.after")
        record = shell.run(acting.dispatch_new(tool, found))
        return shell.run(acting.move("commit", ledger.commit, record.seq, record.attempt, Outcome(result)))

    Run._concluded = call_first  # type: ignore[method-assign]


def trusting() -> None:
    settling.after_absent = lambda *_: settling.Advice(settling.Action.AGAIN, "it said so")


def unchecked() -> None:
    Driving.check_lease = lambda *_: None  # type: ignore[method-assign]


def unfenced() -> None:
    unchecked()
    leasing.check_lease = lambda *_: None

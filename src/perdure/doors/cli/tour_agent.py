"""The agent of the tour: a process that works until it is killed, and says on stdout what was acknowledged
to it.

`python -m perdure.doors.cli.tour_agent STORE`. Each step is a turn, a value and now and then a decision, in
one commit; the line is printed after the commit has returned, so a line that the tour has read is a promise
that it may check (P1).
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial

import perdure

SESSION = "tour"
DECIDE_EVERY = 5


def text_of(step: int) -> str:
    """What the agent says in a step."""
    return f"Transfer {1000 + step} euros"


def work(store_url: str) -> None:
    """Go on from where the session is. Ends only by being killed."""
    with perdure.open(store_url, actor="agent") as store:
        session = store.session(SESSION, title="A tour", goal="Survive")
        step = session.get("step", default=0)
        _say({"resumed_after": step})
        while True:
            step += 1
            _say(store.atomic(partial(_take, step=step)))


def _take(tx: perdure.Atomic, step: int) -> dict[str, object]:
    """One step, in one commit: a turn, sometimes a decision, and the value that says how far we are."""
    session = tx.session(SESSION)
    turn = session.say("user" if step % 2 else "assistant", text_of(step), key=f"step-{step}")
    decision = None
    if step % DECIDE_EVERY == 0:
        decision = session.decide(f"After {step} steps: go on", because="nobody said stop", refs=[turn], tags=["tour"])
    session.set("step", step)
    return {"step": step, "turn": turn.seq, "decision": decision and decision.seq}


def _say(fact: dict[str, object]) -> None:
    os.write(1, json.dumps(fact).encode() + b"\n")


if __name__ == "__main__":
    work(sys.argv[1])

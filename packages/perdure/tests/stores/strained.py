"""Leaves what a process leaves that died two hours ago: a claimed task, an attended session, a run, an effect on its way.

python -m stores.strained STORE
"""

from __future__ import annotations

import os
import sys

import perdure
from perdure.model.instants import SECOND_US, system_clock

HOURS_AGO = 2


def earlier() -> int:
    return system_clock() - HOURS_AGO * 3_600 * SECOND_US


@perdure.agent(name="strained")
def dies(run: perdure.Run) -> None:
    run.step(os._exit, 9)


def main(url: str) -> None:
    store = perdure.open(url, clock=earlier)
    session = store.session("left")
    session.say("user", "x")
    session.task("left undone").claim()
    session.begin("mail", {"to": "a"}, kind="unsafe", key="k").dispatch()
    store.drive(dies, key="k")


if __name__ == "__main__":
    main(sys.argv[1])

"""A process that runs errands, for `test_taken_back.py`: agents that do things of every kind outside, and stop when told.

It says on standard output how far it is ("spot N") and continues when it gets a line. The witness sees all that it does.
"""

from __future__ import annotations

import sys
from typing import ClassVar

import perdure
from perdure.stores.continuity import Continuity
from perdure.stores.rollback_guard import RollbackGuard
from perdure_testing import witness

ERRANDS = ("a", "b")


class World:
    """Where the witness listens, at which spots the process waits, and how many it has passed."""

    port = 0
    stops: ClassVar[set[int]] = set()
    passed = 0


def spot() -> int:
    """A place at which the process may be told to wait. Between two things that are done, and while one is done."""
    World.passed += 1
    if World.passed in World.stops:
        say(f"spot {World.passed}")
        sys.stdin.readline()
    return World.passed


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _tell(what: str, key: str | None = None) -> int:
    spot()
    return witness.tell(World.port, what, key=key)


@perdure.tool(kind="unsafe")
def pay(what: str) -> int:
    return _tell(what)


@perdure.tool(kind="keyed", keeps_keys="1d")
def order(what: str, *, key: str) -> int:
    return _tell(what, key)


@perdure.tool(kind="idempotent")
def put(what: str) -> int:
    return _tell(what)


def _find(what: str) -> perdure.Happened | perdure.Absent:
    found = witness.count(World.port, what)
    return perdure.Happened(found) if found else perdure.Absent()


@perdure.tool(probe=_find, lands_within=0)
def post(what: str) -> int:
    return _tell(what)


TOOLS = (pay, order, put, post)
TWICE_IS_ONCE = ("put",)


@perdure.agent
def errand(run: perdure.Run, name: str, order_of: list[int]) -> str:
    for at in order_of:
        tool = TOOLS[at]
        run.act(tool, f"{name}/{tool.name}")
    run.step(spot)
    return "done"


def opened(url: str) -> perdure.Store:
    return perdure.open(url, lease=2, timeout=60)


def begin(store: perdure.Store, order_of: list[int]) -> None:
    for name in ERRANDS:
        store.start(errand, name, order_of, key=name)


def drive(store: perdure.Store, order_of: list[int]) -> list[str]:
    """Do what there is to do; what came of each errand."""
    came = []
    for name in ERRANDS:
        try:
            came.append(store.drive(errand, name, order_of, key=name))
        except perdure.Error as error:
            came.append(type(error).__name__)
    return came


def look_away() -> None:
    """The control: nobody compares the database with what was known, or notes it."""
    for name in ("begin", "met", "resumed"):
        setattr(Continuity, name, lambda *_: None)
    RollbackGuard.note = lambda *_: None  # type: ignore[method-assign]


def main() -> None:
    url, port, stops, order_of, control = sys.argv[1:]
    World.port = int(port)
    if control == "control":
        look_away()
    World.stops.update(map(int, stops.split(",")))
    with opened(url) as store:
        say(" ".join(["came", *drive(store, [int(at) for at in order_of])]))
        sys.stdin.readline()


if __name__ == "__main__":
    main()

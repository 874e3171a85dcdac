"""Named crash points: places where a test may kill, stop or delay this very process.

Called from every transition that durability rests on. Off unless armed, by `PERDURE_CRASH_AT=name[:n]` in the environment
(the process dies by SIGKILL at the n-th time the point is reached) or by `arm` from a test. Keeps nothing; proves P1-P7.
"""

from __future__ import annotations

import os
from collections.abc import Callable

_armed: dict[str, Callable[[], None]] = {}


def reach(name: str) -> None:
    """Say that this point is reached: does nothing unless a test armed it."""
    if _armed:
        act = _armed.get(name) or _armed.get("*")
        if act is not None:
            act()


def arm(name: str, act: Callable[[], None]) -> Callable[[], None]:
    """Run `act` whenever the point is reached ("*": any point); returns what disarms it."""
    _armed[name] = act
    return lambda: _armed.pop(name, None) and None


def _die_at(nth: int) -> Callable[[], None]:
    from signal import SIGKILL  # noqa: PLC0415 - only who is to die pays for it, and not at the point itself

    count = 0

    def act() -> None:
        nonlocal count
        count += 1
        if count == nth:
            os.kill(os.getpid(), SIGKILL)

    return act


def _arm_from_environment(setting: str) -> None:
    name, _, nth = setting.partition(":")
    arm(name, _die_at(int(nth or 1)))


if _setting := os.environ.get("PERDURE_CRASH_AT"):
    _arm_from_environment(_setting)

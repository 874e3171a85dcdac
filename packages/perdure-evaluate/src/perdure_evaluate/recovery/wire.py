"""Inside a subject's process: the boundaries of the interface, the strike at one of them, and the line to the harness.

`Watched` stands between a task and a subject's agent; it is the same for every subject, so nobody is favoured. Its reports are
one line of JSON each, over a pipe that survives the process: a line that was cut by a kill was not told.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable
from typing import Any

from perdure_evaluate.recovery.interface import SubjectAgent
from perdure_evaluate.recovery.oracle import chance

SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


class Wire:
    """The line to the harness. at: the boundary of the strike; how: "kill" or "stop"; counting: whether writes are counted."""

    def __init__(self, line: int, at: str, how: str, *, counting: bool) -> None:
        self._line = line
        self._at = at
        self._how = how
        self._counting = counting
        self._told_bytes = 0

    def tell(self, what: str, name: str = "", **more: Any) -> None:
        """Tell the harness; the time is the machine's, the same for all processes."""
        if self._counting:
            more["written"] = written_bytes() - self._told_bytes
        line = json.dumps({"what": what, "name": name, "t": time.monotonic(), **more}).encode() + b"\n"
        self._told_bytes += os.write(self._line, line)

    def reach(self, name: str, phase: str) -> None:
        """Pass a boundary; die or stop there if that is the schedule."""
        if phase == "calling":
            self.tell(phase, name)
        if f"{name}:{phase}" == self._at:
            self._at = ""
            self.tell("struck", f"{name}:{phase}")
            os.kill(os.getpid(), SIGNALS[self._how])


def written_bytes() -> int:
    """The bytes that this process has written so far, to files and pipes; nothing where the system does not say."""
    try:
        with open("/proc/self/io", "rb") as file:  # noqa: PTH123 - counted in the hot path
            return int(file.read().split(b"wchar: ")[1].split(b"\n")[0])
    except OSError:
        return 0


class Watched:
    """An agent with its boundaries: every operation is told when it is acknowledged."""

    def __init__(self, agent: SubjectAgent, wire: Wire, seed: int, life: int) -> None:
        self._agent = agent
        self._wire = wire
        self._seed = seed
        self._life = life

    def step(self, name: str, work: Callable[[random.Random], Any]) -> Any:
        """Pure work."""

        def worked() -> Any:
            value = work(chance(self._seed, name, self._life))
            self._wire.tell("worked", name)
            self._wire.reach(name, "worked")
            return value

        return self._passed("step", name, lambda: self._agent.step(name, worked))

    def act(self, name: str, kind: str, payload: Any) -> Any:
        """Something outside."""
        return self._passed("act", name, lambda: self._agent.act(name, kind, payload))

    def note(self, key: str, value: Any) -> None:
        """State."""
        self._passed("note", key, lambda: self._agent.note(key, value), value)

    def read(self, name: str, key: str) -> Any:
        """State, as it stands now."""
        return self._passed("read", name, lambda: self._agent.read(name, key))

    def ask(self, name: str, question: str) -> str:
        """A person's answer."""
        return self._passed("ask", name, lambda: self._agent.ask(name, question))

    def done(self, result: Any) -> None:
        """The end."""
        self._passed("done", "done", lambda: self._agent.done(result), result)

    def _passed(self, verb: str, name: str, operate: Callable[[], Any], value: Any = None) -> Any:
        self._wire.reach(name, "before")
        result = operate()
        self._wire.tell("ack", name, verb=verb, value=result if result is not None else value)
        self._wire.reach(name, "recorded")
        return result

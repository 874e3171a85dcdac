"""The talk between a supervisor and its workers: one JSON object a line, over a pair of sockets.

    worker      {"ready": HOLDER}     it works, under this name
                {"cannot": TEXT}      it cannot begin, and this is why
                {"driving": true}     it has taken its first run
                {"suspects": N}       so many processes are needed for suspects
                {"busy": true}        this standby has something to do: another one is to stand by
    supervisor  {"store": URL}        the first word: which store; not in the environment, which tools inherit
                {"dead": HOLDER}      that process is gone: look for its runs

Any other word is only a hint to look; nothing rests on it. The end of the line is the end of the other process.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
from typing import Any

LINE_MAX_BYTES = 65_536


class SupervisorPipe:
    """One end. Reading never blocks; writing to an end that is gone, or does not listen, is passed over."""

    def __init__(self, end: socket.socket) -> None:
        end.settimeout(0)
        self._end = end
        self._rest = b""
        self.over = False  # whether the other end is gone

    @classmethod
    def from_fd(cls, number: int) -> SupervisorPipe:
        """The end that a supervisor handed down. Processes that this one starts do not get it."""
        end = socket.socket(fileno=number)
        end.set_inheritable(False)
        return cls(end)

    def first(self) -> dict[str, Any]:
        """Wait for the first word; nothing if the other end is gone before it."""
        while not self.over:
            select.select([self._end], [], [])
            if said := self.hear():
                return said[0]
        return {}

    def fileno(self) -> int:
        """The descriptor to wait for."""
        return self._end.fileno()

    def say(self, **words: Any) -> None:
        """Tell the other end."""
        with contextlib.suppress(OSError):
            self._end.send(json.dumps(words).encode() + b"\n")

    def hear(self) -> list[dict[str, Any]]:
        """The lines since the last call; `over` when the other end is gone. Any other line is left out."""
        with contextlib.suppress(BlockingIOError):
            try:
                data = self._end.recv(LINE_MAX_BYTES)
            except ConnectionError:
                data = b""
            self.over = not data
            self._rest = (self._rest + data)[-LINE_MAX_BYTES:]
        *lines, self._rest = self._rest.split(b"\n")
        return [words for words in map(_words, lines) if words]

    def close(self) -> None:
        """Let it go."""
        self._end.close()


def _words(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}

"""A witness: a process of its own that counts what really arrived, whatever became of its sender.

It stands for the other side in tests of effects (P2-P4): what arrives is appended to a file, one line each, and is there though
its sender died. With a key it deduplicates, as services do that know idempotency keys; asked, it says how often something
arrived; told to, it lets things land late. One line of JSON each way, over loopback. Tests and the evaluation call it.

    {"what": "a/pay", "key": null, "due": 0.0}  it arrives, not before this time (the answer comes then)
    {"what": "a/pay"}                           how often did it arrive?
    {"arrived": 1}                              the answer to both: how often it has arrived by now
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

HOST = "127.0.0.1"
PATIENCE_SECONDS = 30.0
ROUNDS = 8  # of the event loop, until whatever waits at its sockets is accepted and read


# -- asking it: what tools and probes call ---------------------------------------------------------------------


def tell(
    port: int, what: str, *, key: str | None = None, lands: float = 0.0, sent: Callable[[], None] | None = None
) -> int:
    """Send something to the witness; returns how often it has arrived by now. With a key it arrives once.

    lands: how many seconds it is under way. sent: called when it is sent and not yet answered.
    """
    return _ask(port, {"what": what, "key": key, "due": time.time() + lands if lands else 0.0}, sent)


def count(port: int, what: str) -> int:
    """How often this has arrived: what a probe asks."""
    return _ask(port, {"what": what}, None)


def _ask(port: int, request: dict[str, Any], sent: Callable[[], None] | None) -> int:
    with socket.create_connection((HOST, port), PATIENCE_SECONDS) as connection:
        connection.sendall(json.dumps(request).encode() + b"\n")
        if sent is not None:
            sent()
        answer = b""
        while not answer.endswith(b"\n"):
            chunk = connection.recv(4096)
            if not chunk:
                raise ConnectionError("the witness gave no answer")
            answer += chunk
    return json.loads(answer)["arrived"]


# -- having one ------------------------------------------------------------------------------------------------


class Witness:
    """A running witness, and what it has seen. Made by `start`; a context manager that ends it."""

    def __init__(self, path: Path, program: subprocess.Popen[str], port: int) -> None:
        self.path = path
        self.port = port
        self._program = program

    @classmethod
    def start(cls, path: Path) -> Self:
        """Start one that appends to this file, and return when it listens. It ends with its owner, however that ends."""
        path.touch()
        command = [sys.executable, "-m", __name__, str(path)]
        program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603
        assert program.stdout is not None
        return cls(path, program, int(program.stdout.readline()))

    def arrived(self, prefix: str = "") -> Counter[str]:
        """The arrivals, and how often: read from the file, in which a line is whole or not there."""
        lines = self.path.read_text("utf-8").splitlines()
        names = (json.loads(line)["what"] for line in lines if prefix in line)
        return Counter(what for what in names if what.startswith(prefix))

    def close(self) -> None:
        """End it; the file stays."""
        self._program.kill()
        self._program.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


# -- being one -------------------------------------------------------------------------------------------------


class _Seen:
    """The arrivals so far. One thread: what is appended and what is counted never differ."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._count: Counter[str] = Counter()
        self._keys: set[str] = set()
        self._under_way: list[tuple[float, str, str | None]] = []

    def arrive(self, what: str, key: str | None) -> None:
        """It is here: appended first, then counted. A key that is known changes nothing."""
        if key is not None and key in self._keys:
            return
        os.write(self._file, json.dumps({"what": what, "key": key}).encode() + b"\n")
        self._count[what] += 1
        if key is not None:
            self._keys.add(key)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request. A request that was sent lands, even if its sender is gone by then."""
        line = await reader.readline()
        if line.endswith(b"\n"):
            request = json.loads(line)
            if "due" in request:
                await self._let_land(request["due"], request["what"], request["key"])
            else:
                await self._hear_all()
            self._land()
            writer.write(json.dumps({"arrived": self._count[request["what"]]}).encode() + b"\n")
        writer.close()

    async def _let_land(self, due: float, what: str, key: str | None) -> None:
        self._under_way.append((due, what, key))
        while (remaining := due - time.time()) > 0:  # noqa: ASYNC110 - for a time, not for somebody
            await asyncio.sleep(remaining)

    def _land(self) -> None:
        """Let everything arrive that is due, though nobody woke up for it yet: on a busy machine that may take a while."""
        now = time.time()
        due = sorted((entry for entry in self._under_way if entry[0] <= now), key=itemgetter(0))
        self._under_way = [entry for entry in self._under_way if entry[0] > now]
        for _, what, key in due:
            self.arrive(what, key)

    async def _hear_all(self) -> None:
        """Before a question is answered, hear what others had said before it was asked."""
        for _ in range(ROUNDS):
            await asyncio.sleep(0)


async def _listen(path: str) -> None:
    server = await asyncio.start_server(_Seen(path).answer, HOST, 0, backlog=512)
    os.write(1, f"{server.sockets[0].getsockname()[1]}\n".encode())
    await server.serve_forever()


def _end_with_the_owner() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=_end_with_the_owner, daemon=True).start()
    asyncio.run(_listen(sys.argv[1]))

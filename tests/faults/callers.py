"""A process whose callers all wait for a stalled standby, for `test_cut_waits.py`.

callers.py URL WITNESS_PORT NAME TIMEOUT proof|control

Each caller has a store of its own, hence a connection of its own: one in the main thread (to be interrupted), some in threads,
some as tasks of one event loop (to be cancelled by SIGUSR1). A caller says a turn, or sends an unsafe effect; in each round it
repeats it under its key, as a program does that starts again. The process reads `go` or `end`, and answers with lines:
`heard CALLER` (success was told), `refused CALLER ERROR`, `rested` (nobody waits any more).
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import perdure
from perdure.stores import postgres
from perdure_testing import witness

THREADS = 3
TASKS = 2


class World:
    """Where the witness listens."""

    port = 0
    interruptible = False  # whether the main thread is in a call
    mutex = threading.Lock()


@perdure.tool(kind="unsafe")
def pay(what: str) -> int:
    return witness.tell(World.port, what)


def interrupt(*_: object) -> None:
    if World.interruptible:
        raise KeyboardInterrupt


def says(name: str) -> bool:
    """Whether this caller says a turn; the others send."""
    return name.endswith("say")


def tell(*words: object) -> None:
    with World.mutex:
        sys.stdout.write(" ".join(map(str, words)) + "\n")
        sys.stdout.flush()


def attempt(name: str, act: Callable[[], object]) -> None:
    """One round of a caller in a thread."""
    try:
        act()
    except (perdure.Error, KeyboardInterrupt) as error:
        tell("refused", name, type(error).__name__)
    else:
        tell("heard", name)


def do(store: perdure.Store, name: str) -> None:
    if says(name):
        store.session(name).say("user", name, key=name)
    else:
        store.session(name).act(pay, name, key=name)


async def ado(store: perdure.AsyncStore, name: str) -> None:
    try:
        session = await store.session(name)
        if says(name):
            await session.say("user", name, key=name)
        else:
            await session.act(pay, name, key=name)
    except (perdure.Error, asyncio.CancelledError) as error:
        tell("refused", name, type(error).__name__)
    else:
        tell("heard", name)


class Loop:
    """The event loop of the tasks, in a thread of its own."""

    def __init__(self, url: str, names: list[str], timeout: float) -> None:
        self.loop = asyncio.new_event_loop()
        self.names = names
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.tasks: list[asyncio.Task[None]] = []
        self.stores = [self.run(perdure.aopen(url, timeout=timeout)) for _ in names]
        for store, name in zip(self.stores, names, strict=True):
            self.run(self._begin(store, name))

    def run(self, work: Any) -> Any:
        async def done() -> Any:
            return await work

        return asyncio.run_coroutine_threadsafe(done(), self.loop).result()

    @staticmethod
    async def _begin(store: perdure.AsyncStore, name: str) -> None:
        await (await store.session(name)).say("user", "hello")

    async def _round(self) -> None:
        self.tasks = [asyncio.create_task(ado(*each)) for each in zip(self.stores, self.names, strict=True)]
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def begin(self) -> Any:
        return asyncio.run_coroutine_threadsafe(self._round(), self.loop)

    def cancel(self, *_: object) -> None:
        for task in self.tasks:
            self.loop.call_soon_threadsafe(task.cancel)


def look_away() -> None:
    """The control: a commit is believed whatever came with its reply, and nobody asks whether a standby has it."""
    postgres.BoundedConnection.committing = nullcontext  # type: ignore[assignment]
    postgres.CONFIRM = "SELECT 1"


def main() -> None:
    url, port, name, timeout, control = sys.argv[1:]
    World.port = int(port)
    if control == "control":
        look_away()
    names = [f"{name}-{at}-{'say' if at % 2 else 'act'}" for at in range(1 + THREADS + TASKS)]
    if name.endswith("2"):  # the interrupted one says, and is not the one that sends
        names = [each.replace("act", "x").replace("say", "act").replace("x", "say") for each in names]
    direct, tasks = names[: 1 + THREADS], names[1 + THREADS :]
    stores = {each: perdure.open(url, timeout=float(timeout)) for each in direct}
    for each, store in stores.items():
        store.session(each).say("user", "hello")
    loop = Loop(url, tasks, float(timeout))
    signal.signal(signal.SIGUSR1, loop.cancel)
    signal.signal(signal.SIGINT, interrupt)
    tell("ready", *names)
    for line in sys.stdin:
        if line.strip() == "end":
            break
        rounds = [
            threading.Thread(target=attempt, args=(each, lambda each=each: do(stores[each], each)))
            for each in direct[1:]
        ]
        for thread in rounds:
            thread.start()
        tasked = loop.begin()
        World.interruptible = True
        attempt(direct[0], lambda: do(stores[direct[0]], direct[0]))
        World.interruptible = False
        for thread in rounds:
            thread.join()
        tasked.result()
        tell("rested")


if __name__ == "__main__":
    main()

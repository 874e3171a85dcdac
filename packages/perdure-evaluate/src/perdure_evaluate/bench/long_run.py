"""The run that is resumed in a new process, as a user's own small module would have it: it imports nothing but Perdure."""

from __future__ import annotations

import contextlib

import perdure

TEXT = "x" * 1024


def think(number: int) -> str:
    """A step that costs nothing and gives 1 KiB."""
    return f"{number:04}" + TEXT[4:]


@perdure.agent(name="bench-long")
def long_run(run: perdure.Run, count: int, cut: int) -> str:
    """Many steps, with a checkpoint after the `cut`-th of them, and then a question."""
    for number in range(run.restored or 0, count):
        run.step(think, number)
        if number + 1 == cut:
            run.checkpoint(cut)
    return run.ask("Go on?")


def resume(url: str, count: str, cut: str) -> None:
    """The new process: replay the run up to where it waits."""
    with perdure.open(url) as store, contextlib.suppress(perdure.Waiting):
        run = store.start(long_run, int(count), int(cut), key="long")
        run.resume()
        store.drive(long_run, int(count), int(cut), key="long")

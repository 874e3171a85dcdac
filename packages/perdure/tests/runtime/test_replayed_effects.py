"""Effects that are met again on replay: after they were undone, while they are being undone, and after a zombie spoke (P13)."""

from __future__ import annotations

from typing import Any

import pytest

import perdure
from perdure.model import crash_points

SENT: list[str] = []


def unsend(what: str) -> None:
    SENT.append(f"un{what}")


@perdure.tool(undo=unsend)
def send(what: str) -> str:
    SENT.append(what)
    return what


@perdure.tool
def refuse() -> None:
    raise perdure.Failed("no", code="No")


@perdure.agent
def undoer(run: perdure.Run) -> str:
    try:
        with run.saga():
            run.act(send, "a")
            run.act(send, "b")
            run.act(refuse)
    except perdure.Failed as no:
        said = no.code
    run.act(send, "c")
    return said


def interrupt_at(point: str, nth: int) -> Any:
    """Stop the process's work, as Ctrl-C does, when a point is reached for the n-th time; returns what disarms it."""
    left = [None] * nth

    def act() -> None:
        left.pop()
        if not left:
            disarm()
            raise KeyboardInterrupt

    disarm = crash_points.arm(point, act)
    return disarm


@pytest.fixture
def store(tmp_path):
    SENT.clear()
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        yield store


@pytest.mark.parametrize(("point", "nth"), [*(("commit", nth) for nth in range(1, 6)), ("undo", 1), ("undo", 2)])
def test_a_saga_that_was_undone_is_replayed_as_it_went(store, point, nth):
    """What is undone did happen: its caller gets the result again, and goes the same way to the undo."""
    interrupt_at(f"effect.{point}.after", nth)
    with pytest.raises(KeyboardInterrupt):
        store.drive(undoer, key="k")
    assert store.drive(undoer, key="k") == "No"
    assert SENT == ["a", "b", "unb", "una", "c"]

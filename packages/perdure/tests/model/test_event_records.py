"""Events as people read them: records like all others, though what each says is read when it is asked for."""

from __future__ import annotations

import copy
import pickle

import pytest

import perdure
from perdure.errors import Damaged
from perdure.model.records.emitted import EventContent, EventRecord


@pytest.fixture
def event():
    with perdure.open("memory:") as store:
        session = store.session("a")
        session.emit("app.done", {"n": [1, 2]}, about=["user:alice"])
        yield session.events()[-1]


def made(read, *, at_us: int = 1, seq: int = 1, emptied: bool = False) -> EventRecord:
    return EventRecord(seq, "app.done", "", "me", at_us, "a", "0" * 32, emptied, None, lambda _: read())


def nothing() -> EventContent:
    return EventContent(None, (), (), {})


def broken() -> EventContent:
    raise Damaged("not readable", path="a seq 1")


def test_it_cannot_be_changed(event):
    for name in ("kind", "seq", "data", "_said", "other"):
        with pytest.raises(AttributeError):
            setattr(event, name, "forged")
    with pytest.raises(AttributeError):
        del event.kind
    assert event.kind == "app.done"


@pytest.mark.parametrize("twin", [copy.copy, copy.deepcopy, lambda event: pickle.loads(pickle.dumps(event))])
def test_it_can_be_copied_and_sent_to_another_process(event, twin):
    other = twin(event)
    assert other == event
    assert hash(other) == hash(event)
    assert (other.data, other.about, other.at) == ({"n": [1, 2]}, ("user:alice",), event.at)


def test_a_deep_copy_is_deep(event):
    copy.deepcopy(event).data["n"].append(3)
    assert event.data == {"n": [1, 2]}


def test_one_that_was_emptied_is_not_one_that_says_nothing():
    assert made(nothing) == made(nothing)
    assert made(nothing) != made(nothing, emptied=True)
    assert made(nothing) != made(nothing, at_us=2)
    assert made(nothing) != "something else"


def test_a_damaged_one_can_still_be_told_from_others_and_shown():
    damaged = made(broken, at_us=2**62)
    assert damaged != made(broken, seq=2)  # its header is enough
    assert "app.done" in repr(damaged)
    assert damaged.at.year == 9999  # the nearest instant that can be shown
    for read in (lambda: damaged.data, lambda: pickle.dumps(damaged)):
        with pytest.raises(Damaged):
            read()

"""A sequence that grows at its end: every state of it stays as it was, whoever grows it meanwhile. P8."""

from __future__ import annotations

import random
from threading import Barrier, Thread

import pytest

from perdure.artifacts.shared_list import SharedList


def check_states(seed: int) -> None:
    """Grow any state that there is by anything, and look at all of them."""
    draw = random.Random(seed)
    states: list[tuple[SharedList[int], list[int]]] = [(SharedList(), [])]
    for _ in range(60):
        grown, items = states[-1] if draw.random() < 0.6 else draw.choice(states)
        keep = len(items) if draw.random() < 0.7 else draw.randint(0, len(items))
        more = [draw.randrange(1000) for _ in range(draw.randint(0, 3))]
        states.append((grown.grown(keep, more), items[:keep] + more))
        assert [each[:] for each, _ in states] == [expected for _, expected in states]


@pytest.mark.parametrize("seed", range(20))
def test_every_state_stays_as_it_was(seed: int) -> None:
    check_states(seed)


def test_control_states_that_all_add_in_place_disturb_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SharedList, "_take_right", lambda _self: True)
    with pytest.raises(AssertionError):
        check_states(0)


def test_it_reads_as_a_sequence() -> None:
    first = SharedList("abc")
    first.grown(3, "de")
    assert (len(first), first[1], first[-1], first[1:], first[5:], [*first]) == (3, "b", "c", ["b", "c"], [], [*"abc"])
    with pytest.raises(IndexError):
        first[3]


def test_growing_copies_nothing() -> None:
    first = SharedList(range(1000))
    assert first.grown(1000, [1])._items is first._items
    assert first.grown(1000, [1])._items is not first._items


def test_threads_that_grow_one_state_each_get_their_own() -> None:
    for _ in range(50):
        first, found, start = SharedList([0]), {}, Barrier(4)

        def grow(
            name: int, first: SharedList[int] = first, found: dict[int, list[int]] = found, start: Barrier = start
        ) -> None:
            start.wait()
            found[name] = first.grown(1, [name])[:]

        threads = [Thread(target=grow, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == {name: [0, name] for name in range(4)}

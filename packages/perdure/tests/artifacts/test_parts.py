"""A list that is laid out again costs what changed, and comes to the nodes that laying it out whole gives. P8."""

from __future__ import annotations

import random
from typing import Any

import pytest

from perdure.artifacts import tree
from perdure.artifacts.chunks import cut_small
from perdure.artifacts.parts import Laying, ListPart


def elements(laying: Laying, values: list[Any]) -> list[Any]:
    return [laying.value(value) for value in values]


def whole(values: list[Any]) -> tuple[bytes, dict[bytes, bytes]]:
    laying = Laying()
    part = laying.items(elements(laying, values)).part
    return bytes(part.cell), laying.nodes


@pytest.mark.parametrize("size", [3, 60, 700])
def test_a_list_that_grows_has_the_nodes_of_the_whole_list_and_makes_few(size: int) -> None:
    draw = random.Random(size)
    text = lambda: "".join(draw.choices("abcdefgh ", k=draw.randint(1, 2 * size)))  # noqa: E731
    values = [text() for _ in range(300)]
    stored: dict[bytes, bytes] = {}
    before: ListPart | None = None
    same, most = 0, 0
    for count in range(300, 420):
        laying = Laying()
        before = laying.items(elements(laying, values[same:]), before, same)
        stored |= laying.nodes
        most = max(most, len(laying.nodes)) if same else 0
        cell, nodes = whole(values)
        assert (bytes(before.part.cell), nodes.keys() - stored.keys()) == (cell, set())
        same = len(values) if count % 7 else draw.randrange(len(values))  # now and then the tail is another
        most = most if same == len(values) else 0
        values = [*values[:same], *(text() for _ in range(draw.randint(1, 3)))]
    root = Laying()
    address = root.root({"items": before.part.cell if before else None})
    last = stored | root.nodes
    loaded = tree.load(address, lambda addresses: {each: last[each] for each in addresses if each in last})
    assert loaded["items"] == values[: len(loaded["items"])]
    assert most <= 12


def test_cutting_goes_on_at_any_boundary() -> None:
    draw = random.Random(5)
    parts = [draw.randbytes(draw.choice([3, 32, 200])) for _ in range(400)]
    runs = [*cut_small(parts)]
    for place, (start, _) in enumerate(runs):
        assert [*cut_small(parts, start)] == runs[place:]


@pytest.mark.parametrize("size", [40, 250])
def test_a_list_that_grows_stores_no_node_twice(size: int) -> None:
    draw = random.Random(size)
    before: ListPart | None = None
    stored: set[bytes] = set()
    for count in range(200):
        laying = Laying()
        before = laying.items(elements(laying, [draw.randbytes(size).hex()]), before, count)
        assert stored.isdisjoint(laying.nodes)
        stored |= laying.nodes.keys()


def test_a_list_that_was_grown_can_be_grown_again_otherwise() -> None:
    draw = random.Random(3)
    values = [draw.randbytes(120).hex() for _ in range(200)]
    laying = Laying()
    first = laying.items(elements(laying, values))
    for more in (["a" * 300], ["b" * 300, "c"], []):
        again = Laying()
        assert bytes(again.items(elements(again, more), first, 200).part.cell) == whole([*values, *more])[0]

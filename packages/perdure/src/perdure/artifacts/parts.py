"""A state that is laid out part by part, so that saving it again costs the parts that changed (P8).

`tree.save` takes a whole state, and walks all of it. Callers that know what did not change keep the `LaidPart` of it and lay out
the rest: a part is the cell by which a node names it (the format is in `tree`), and stands inside a state like a value. The
nodes are the same kinds as those of `tree`, so whatever reads, verifies or collects a state knows no difference. A list that only
grew keeps its leaves. Called by adapters whose framework says which channels of its state changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from perdure.artifacts import tree
from perdure.artifacts.chunks import MIXED_PARTS, cut_small
from perdure.artifacts.shared_list import SharedList
from perdure.artifacts.tree import INLINE_MAX_BYTES, LINKS_MAX, Growing
from perdure.errors import Damaged

LIST_INLINE_MAX_BYTES = INLINE_MAX_BYTES // 2  # a map around it must still fit into one cell


class LaidPart(NamedTuple):
    """A value that is laid out: its cell, and the bytes of its nodes."""

    cell: msgspec.Raw
    size: int


class Level(NamedTuple):
    """Nodes of a list that are side by side: where each ends among what is below, and its address. First come its leaves."""

    stops: SharedList[int]
    links: SharedList[bytes]

    def unchanged(self, same: int) -> int:
        """How many nodes are over the first so many below, which did not change; the last one of all is open, and cut anew."""
        return max(0, min(self.stops.until(same), len(self.stops) - 1))


class ListPart(NamedTuple):
    """A list that is laid out: the cells of its elements, their bytes, and the levels of nodes over them."""

    part: LaidPart
    cells: SharedList[bytes]
    sizes: SharedList[int]
    cells_bytes: int
    levels: list[Level]


class Laying:
    """Nodes of one save. `nodes` holds what must be stored with it, and perhaps is already."""

    __slots__ = ("_growing",)

    def __init__(self) -> None:
        self._growing = Growing()

    @property
    def nodes(self) -> dict[bytes, bytes]:
        """The new nodes, by address."""
        return self._growing.nodes

    def value(self, value: Any) -> LaidPart:
        """Lay out a plain value."""
        before = len(self.nodes)
        cell = self._growing.cell(value)
        new_nodes = islice(reversed(self.nodes.values()), len(self.nodes) - before)
        return LaidPart(msgspec.Raw(cell), len(cell) + sum(map(len, new_nodes)))

    def text(self, text: str) -> str | list[str]:
        """A text to stand in a document: itself while it is short, else the addresses of the nodes that a state has for it."""
        if len(self._growing.encoded(text)) <= INLINE_MAX_BYTES:
            return text
        return [address.hex() for address in self._growing.text_leaves(text)]

    def items(self, elements: Sequence[LaidPart], before: ListPart | None = None, same: int = 0) -> ListPart:
        """Lay out a list. same: so many elements in front are those of `before`, whose leaves are kept as far as they go."""
        had = before or ListPart(LaidPart(msgspec.Raw(), 0), SharedList(), SharedList(), 0, [])
        new = [bytes(element.cell) for element in elements]
        sizes = [element.size for element in elements]
        size = had.part.size - sum(had.sizes[same:]) + sum(sizes)
        cells_bytes = had.cells_bytes - sum(map(len, had.cells[same:])) + sum(map(len, new))
        cells = had.cells.grown(same, new)
        if cells_bytes <= LIST_INLINE_MAX_BYTES:
            levels, cell = [], tree.list_cell(cells[:])
        else:
            levels = self._levels(cells, had.levels, same)
            cell = self._growing.list_stub(len(levels) - 1, levels[-1].links[:])
        return ListPart(LaidPart(msgspec.Raw(cell), size), cells, had.sizes.grown(same, sizes), cells_bytes, levels)

    def _levels(self, cells: SharedList[bytes], before: Sequence[Level], same: int) -> list[Level]:
        """The nodes of a list, from its leaves up; of each level only what follows the kept nodes is cut and made anew."""
        levels: list[Level] = []
        below = cells
        while not levels or len(below) > LINKS_MAX:
            had = before[len(levels)] if len(levels) < len(before) else Level(SharedList(), SharedList())
            same = had.unchanged(same)
            addresses = self._cut(len(levels), below, had.stops[same - 1] if same else 0)
            for address in set(addresses.values()).intersection(had.links[same:]):
                self.nodes.pop(address, None)  # it is stored: the list before has it
            level = Level(had.stops.grown(same, addresses.keys()), had.links.grown(same, addresses.values()))
            levels.append(level)
            below = level.links
        return levels

    def _cut(self, level: int, below: SharedList[bytes], start: int) -> dict[int, bytes]:
        """The nodes over what is below from a boundary on: where each ends, and its address."""
        begin = max(0, start - MIXED_PARTS)  # the cutter looks back so far
        parts = below[begin:]
        node = self._growing.list_leaf if level == 0 else partial(self._growing.list_index, level - 1)
        return {begin + stop: node(parts[first:stop]) for first, stop in cut_small(parts, start - begin)}

    def root(self, state: dict[str, Any]) -> bytes:
        """Lay out the whole state, parts in it as they are (`part.cell`); returns its address."""
        return self._growing.grow(state)


def read_text(stored: Any, nodes: Mapping[bytes, bytes], path: str) -> str:
    """The text that `Laying.text` gave, with the nodes that it names. Damaged when one is missing."""
    if isinstance(stored, str):
        return stored
    try:
        addresses = [bytes.fromhex(link) for link in stored]
        return tree.text_of([nodes[link] for link in addresses], addresses[0])
    except (ValueError, TypeError, KeyError, IndexError):
        raise Damaged("a piece of the stored text is missing", path=path) from None


def named_nodes(stored: Any) -> set[bytes]:
    """The addresses that such a text names."""
    try:
        return set() if isinstance(stored, str) else {bytes.fromhex(link) for link in stored}
    except (ValueError, TypeError):
        return set()

"""A state that is laid out part by part, so that saving it again costs the parts that changed (P8).

`tree.save` takes a whole state, and walks all of it. Callers that know what did not change keep the `LaidPart` of it and lay out
the rest: a part is the cell by which a node names it (the format is in `tree`), and stands inside a state like a value. The
nodes are the same kinds as those of `tree`, so whatever reads, verifies or collects a state knows no difference. A list that only
grew keeps its leaves. Called by adapters whose framework says which channels of its state changed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from perdure.artifacts import tree
from perdure.artifacts.chunks import cut_small
from perdure.artifacts.tree import INLINE_MAX_BYTES, Growing
from perdure.errors import Damaged

LIST_INLINE_MAX_BYTES = INLINE_MAX_BYTES // 2  # a map around it must still fit into one cell


class LaidPart(NamedTuple):
    """A value that is laid out: its cell, and the bytes of its nodes."""

    cell: msgspec.Raw
    size: int


class ListPart(NamedTuple):
    """A list that is laid out: the cells of its elements, where its leaves end, and their addresses."""

    part: LaidPart
    cells: list[bytes]
    sizes: list[int]
    stops: list[int]
    links: list[bytes]
    inner: frozenset[bytes]  # the nodes between its leaves and its cell


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
        made = islice(reversed(self.nodes.values()), len(self.nodes) - before)
        return LaidPart(msgspec.Raw(cell), len(cell) + sum(map(len, made)))

    def text(self, text: str) -> str | list[str]:
        """A text to stand in a document: itself while it is short, else the addresses of the nodes that a state has for it."""
        if len(self._growing.encoded(text)) <= INLINE_MAX_BYTES:
            return text
        return [address.hex() for address in self._growing.text_leaves(text)]

    def items(self, elements: Sequence[LaidPart], before: ListPart | None = None, same: int = 0) -> ListPart:
        """Lay out a list. same: so many elements in front are those of `before`, whose leaves are kept as far as they go."""
        cells = [bytes(each.cell) for each in elements]
        sizes = [each.size for each in elements]
        if before is not None:
            cells, sizes = before.cells[:same] + cells, before.sizes[:same] + sizes
        if sum(map(len, cells)) <= LIST_INLINE_MAX_BYTES:
            cell = tree.list_cell(cells)
            return ListPart(LaidPart(msgspec.Raw(cell), sum(sizes)), cells, sizes, [], [], frozenset())
        stops, links = _kept(before, same)
        start = stops[-1] if stops else 0
        rest = cells[start:]
        for first, stop in cut_small(rest):
            links.append(self._growing.list_leaf(rest[first:stop]))
            stops.append(start + stop)
        cell, inner = self._over(links, before)
        return ListPart(LaidPart(msgspec.Raw(cell), sum(sizes)), cells, sizes, stops, links, inner)

    def _over(self, links: list[bytes], before: ListPart | None) -> tuple[bytes, frozenset[bytes]]:
        """The cell of a list, and the nodes between; those that it had before are stored."""
        held = len(self.nodes)
        cell = self._growing.list_of(links)
        inner = frozenset(list(self.nodes)[held:])
        for address in inner & (before.inner if before is not None else frozenset()):
            del self.nodes[address]
        return cell, inner

    def root(self, state: dict[str, Any]) -> bytes:
        """Lay out the whole state, parts in it as they are (`part.cell`); returns its address."""
        return self._growing.grow(state)


def read_text(stored: Any, nodes: Mapping[bytes, bytes], path: str) -> str:
    """The text that `Laying.text` gave, with the nodes that it names. Damaged when one is missing."""
    if isinstance(stored, str):
        return stored
    try:
        addresses = [bytes.fromhex(each) for each in stored]
        return tree.text_of([nodes[each] for each in addresses], addresses[0])
    except (ValueError, TypeError, KeyError, IndexError):
        raise Damaged("a piece of the stored text is missing", path=path) from None


def named_nodes(stored: Any) -> set[bytes]:
    """The addresses that such a text names."""
    try:
        return set() if isinstance(stored, str) else {bytes.fromhex(each) for each in stored}
    except (ValueError, TypeError):
        return set()


def _kept(before: ListPart | None, same: int) -> tuple[list[int], list[bytes]]:
    """The leaves that lie wholly among the elements that did not change; the last one is open, and cut anew."""
    if before is None:
        return [], []
    count = min(bisect_right(before.stops, same), len(before.stops) - 1)
    return before.stops[:count], before.links[:count]

"""A sequence that grows at its end, of which every earlier state stays as it was: growing costs what is added, not a copy.

A state and the one that was grown from it share their items. Only the newest state may add to them in place, and only once: it
has the right to, which is taken in one step, so that threads and attempts that failed cannot disturb each other. All others get a
copy. Called by `parts`, and by adapters that keep what tells the elements of a list apart.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Generic, TypeVar, overload

T = TypeVar("T")


class SharedList(Generic[T]):
    """One state of such a sequence. It never changes."""

    __slots__ = ("_count", "_items", "_right")

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._items = [*items]
        self._count = len(self._items)
        self._right = [True]

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[T]:
        return islice(self._items, self._count)

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> list[T]: ...
    def __getitem__(self, place: int | slice) -> T | list[T]:
        if isinstance(place, slice):
            start, stop, _ = place.indices(self._count)
            return self._items[start:stop]
        return self._items[range(self._count)[place]]

    def until(self, last: T) -> int:
        """How many items are not beyond this one, in a sequence that is sorted."""
        return bisect_right(self._items, last, 0, self._count)  # type: ignore[type-var]

    def grown(self, keep: int, more: Iterable[T]) -> SharedList[T]:
        """The first so many of these items, and then more."""
        if keep < self._count or not self._take_right():
            return SharedList([*self._items[:keep], *more])
        self._items.extend(more)
        after: SharedList[T] = SharedList()
        after._items, after._count = self._items, len(self._items)
        return after

    def _take_right(self) -> bool:
        try:
            return self._right.pop()
        except IndexError:
            return False

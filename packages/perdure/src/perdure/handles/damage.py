"""Damage in an answer for people: each row that cannot be read is named, and the rest of the answer is given (P15).

Callers: `perdure show`, the console's reads, the tools for coding agents.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.errors import Damaged, NewerSchema
from perdure.planes.reading.paging import DamagedRow

if TYPE_CHECKING:
    from perdure.planes.memory.search import Results
    from perdure.planes.reading.paging import Page

T = TypeVar("T")
P = TypeVar("P", bound="Page[Any] | Results[Any]")


class Damage(list[DamagedRow]):
    """The damaged rows of one answer, in the order in which they were met."""

    def rows(self, page: P) -> P:
        """A page, whose damaged rows are named here."""
        self += [row for row in page.damaged if row not in self]
        return page

    def part(self, reading: Callable[[], T], otherwise: T) -> T:
        """A part of the answer; `otherwise` if it cannot be read."""
        try:
            return reading()
        except (Damaged, NewerSchema) as error:
            self.append(DamagedRow(error.path, error.message))
            return otherwise

    async def apart(self, reading: Awaitable[T], otherwise: T) -> T:
        """`part`, for async code."""
        try:
            return await reading
        except (Damaged, NewerSchema) as error:
            self.append(DamagedRow(error.path, error.message))
            return otherwise

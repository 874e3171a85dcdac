"""Pages: lists that continue where they ended, by the key of the last row, never by counting rows (P8, P15).

Every listing verb returns a `Page`; its cursor is opaque, and refused when it was not made here.
"""

from __future__ import annotations

import binascii
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from perdure.errors import Damaged, Invalid, NewerSchema

T = TypeVar("T")
U = TypeVar("U")
R = TypeVar("R")

_INTS = re.compile(r"-?\d{1,19}(,-?\d{1,19})*")
_CURSOR_MAX_CHARS = 200
_INT_MAX = 2**63 - 1


class DamagedRow(msgspec.Struct, frozen=True):
    """A row of a listing that cannot be read: where it stands, and what is wrong with it. `store.verify` says more."""

    where: str
    reason: str


class Page(list[T]):
    """The rows of one page, as a list.

    next: the cursor of the next page; None if there is none. Pass it as `after=`, or as `before=` where a listing was read
        backwards.
    damaged: rows of this page that cannot be read, and are not in the list.
    """

    __slots__ = ("damaged", "next")

    def __init__(
        self, items: Iterable[T] = (), next: str | None = None, damaged: tuple[DamagedRow, ...] = ()  # noqa: A002 - users read it
    ) -> None:  # fmt: skip
        super().__init__(items)
        self.next = next
        self.damaged = damaged

    def each(self, convert: Callable[[T], U]) -> Page[U]:
        """This page with something else made of every row. A row of which nothing can be made is named in `damaged`."""
        page = read_rows(self, convert, self.next)
        return Page(page, self.next, self.damaged + page.damaged)

    def whole(self) -> Page[T]:
        """This page, for callers that must not miss a row. Damaged if one cannot be read."""
        for row in self.damaged:
            raise Damaged(row.reason, path=row.where)
        return self


def read_rows(
    rows: Iterable[R], convert: Callable[[R], T], next: str | None = None  # noqa: A002 - as in Page
) -> Page[T]:  # fmt: skip
    """A page of what is made of rows. A row of which nothing can be made does not end the listing: it is named in `damaged`."""
    records: list[T] = []
    damaged: list[DamagedRow] = []
    for row in rows:
        try:
            records.append(convert(row))
        except (Damaged, NewerSchema) as error:
            damaged.append(DamagedRow(error.path, error.message))
    return Page(records, next, tuple(damaged))


def encode_cursor(*ints: int) -> str:
    """The place of a row in its listing, as an opaque string."""
    return urlsafe_b64encode(",".join(map(str, ints)).encode()).decode().rstrip("=")


def decode_cursor(text: str, count: int, path: str = "after") -> tuple[int, ...]:
    """The integers of a cursor. Invalid when it is not a cursor of a listing with so many."""
    ints = _ints(text)
    if len(ints) != count or encode_cursor(*ints) != text or any(abs(number) > _INT_MAX for number in ints):
        raise Invalid("this is not a cursor of this listing", path=path, hint="pass the `next` of a page")
    return ints


def seq_or_cursor(position: int | str, path: str = "after") -> int:
    """The sequence number at which a page of a session's listing begins or ends: itself, or the `next` of another page."""
    return decode_cursor(position, 1, path)[0] if isinstance(position, str) else position


def page_by_seq(rows: list[T], limit: int, seq: Callable[[T], int]) -> Page[T]:
    """A page out of one row more than fit, if there are so many."""
    return Page(rows[:limit], encode_cursor(seq(rows[limit - 1])) if len(rows) > limit else None)


def _ints(text: object) -> tuple[int, ...]:
    if type(text) is not str or len(text) > _CURSOR_MAX_CHARS:
        return ()
    try:
        plain = urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("ascii")
    except (binascii.Error, ValueError):
        return ()
    return tuple(map(int, plain.split(","))) if _INTS.fullmatch(plain) else ()

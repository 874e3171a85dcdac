"""Listings of what all streams of a tenant hold, newest first: what a page asks its statement for, and the page (P8, P15).

Callers: the planes that list things of a whole store. Things in one stream are listed by its numbers (`rows_of_stream`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from perdure.log.change import Stream
from perdure.log.table import Table
from perdure.model.filters import ListingFilters, SpanFilters, filter_params
from perdure.model.limits import check_page
from perdure.planes.reading.durations import between
from perdure.planes.reading.paging import Page, decode_cursor, encode_cursor, page_by_seq, read_rows
from perdure.stores.statements import Statement
from perdure.stores.store import Reads, Rows

T = TypeVar("T")

_STREAM = len(Stream.__struct_fields__)  # columns of a stream, which end every row


class Listing:
    """One page of a listing. `asked` is what its statement takes of it; a row stands where its instant, its stream and, if a
    stream has several, its number say. one_each: a stream has one alone.
    """

    def __init__(self, reads: Reads, filters: SpanFilters, *, one_each: bool = False) -> None:
        self._count = check_page(filters.limit)
        place = ("after_at", "after_stream") if one_each else ("after_at", "after_stream", "after_seq")
        last = (None,) * len(place) if filters.after is None else decode_cursor(filters.after, len(place))
        self.asked: dict[str, Any] = {
            "tenant": reads.tenant, "limit": self._count + 1, **dict(zip(place, last, strict=True)),
            **filter_params(filters), **between(reads, filters.since, filters.until)._asdict(),
        }  # fmt: skip

    def page(
        self, rows: Rows, read_row: Callable[[Stream, tuple[Any, ...]], T], at: int, number: int | None = None
    ) -> Page[tuple[Stream, T]]:
        """The contents of the rows, each with its stream. read_row: reads a row without its stream. at, number: the columns of
        its instant, and of its number in its stream. A row is placed by what is stored, also where no calendar has that.
        """

        def read(row: tuple[Any, ...]) -> tuple[Stream, T]:
            stream = Stream(*row[-_STREAM:])
            return stream, read_row(stream, row[:-_STREAM])

        more = None
        if len(rows) > self._count:
            last = rows[self._count - 1]
            more = encode_cursor(last[at], last[-_STREAM], *(() if number is None else (last[number],)))
        return read_rows(rows[: self._count], read, more)


def rows_of_stream(
    reads: Reads,
    statement: Statement,
    stream: Stream,
    filters: ListingFilters,
    touches: Iterable[tuple[Table, int]],
    read_row: Callable[[Reads, Stream, tuple[Any, ...]], T],
    *,
    about: str | None,
    **own: Any,
) -> Page[T]:
    """One page of what is made of the rows of a stream, newest first; a row begins with its number. about: the subject to look
    for, as `subjects.wanted_here` gives it. own: parameters besides the filters.
    """
    count = check_page(filters.limit)
    after = None if filters.after is None else decode_cursor(filters.after, 1)[0]
    params = {**filter_params(filters), **own, "about": about}
    rows = reads.query(statement, touches=touches, stream=stream.id, after=after, limit=count + 1, **params)
    page = page_by_seq(rows, count, lambda row: row[0])
    return read_rows(page, partial(read_row, reads, stream), page.next)

"""Reading a whole listing page by page: one shape for every listing of sessions and stores (P8, P15)."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, TypeVar

from perdure.errors import Damaged
from perdure.model.limits import PAGE_MAX_ROWS
from perdure.planes.reading.paging import DamagedRow, Page

T = TypeVar("T")


def every(listing: Callable[..., Page[T]], **filters: Any) -> Iterator[T]:
    """Iterate over everything in a listing: `for run in perdure.every(store.runs, status="failed")`. Pages are read as needed.

    listing: a method that returns pages (`store.sessions`, `session.turns`, …).
    filters: the keywords of that method, including `limit` (the size of a page).

    The order is that of the listing; turns, events and other listings that can be read both ways begin with the first. Things
    that are added or changed meanwhile may be seen or not. Nothing that stays is left out or given twice. A row that cannot be
    read does not hold back the others: Damaged names the first such row after everything else was given.
    """
    asked = _asked(listing, filters)
    damaged: list[DamagedRow] = []
    while True:
        page = listing(**asked)
        yield from page
        damaged += page.damaged
        if _is_last(page, asked, damaged):
            return
        asked["after"] = page.next


async def aevery(listing: Callable[..., Awaitable[Page[T]]], **filters: Any) -> AsyncIterator[T]:
    """Iterate over everything in a listing, for async code: `async for run in perdure.aevery(store.runs)`. See `every`."""
    asked = _asked(listing, filters)
    damaged: list[DamagedRow] = []
    while True:
        page = await listing(**asked)
        for each in page:
            yield each
        damaged += page.damaged
        if _is_last(page, asked, damaged):
            return
        asked["after"] = page.next


def count(listing: Callable[..., Page[Any]], **filters: Any) -> int:
    """Count everything in a listing: `perdure.count(store.runs, status="failed")`. Reads its pages and keeps none of them.

    For large tables, `store.query("SELECT count(*) FROM v_events")` lets the database count.
    """
    return sum(1 for _ in every(listing, **filters))


async def acount(listing: Callable[..., Awaitable[Page[Any]]], **filters: Any) -> int:
    """Count everything in a listing, for async code: `await perdure.acount(store.runs)`. See `count`."""
    return sum([1 async for _ in aevery(listing, **filters)])


def _asked(listing: Callable[..., Any], filters: dict[str, Any]) -> dict[str, Any]:
    asked = {"limit": PAGE_MAX_ROWS, **filters}
    if "before" in inspect.signature(listing).parameters:
        asked.setdefault("after", 0)
    return asked


def _is_last(page: Page[Any], asked: dict[str, Any], damaged: list[DamagedRow]) -> bool:
    """Whether this was the last page. Damaged if rows before it could not be read, or if a page leads to itself."""
    if page.next is None and damaged:
        raise Damaged(
            f"rows of this listing that cannot be read: {len(damaged)}; the first: {damaged[0].reason}",
            path=damaged[0].where, hint="`perdure verify` names the damage",
        )  # fmt: skip
    if page.next is not None and page.next == asked.get("after"):
        raise Damaged(
            "the page after this one is the same page", path="after", hint="`perdure verify` names the damage"
        )
    return page.next is None

"""The foreign transaction that holds back the feed on PostgreSQL, in words. Callers: planes/audit/feed, `strain`. Keeps P15."""

from __future__ import annotations

from typing import NamedTuple

from perdure.stores.store import Rows


class FeedHolder(NamedTuple):
    """The oldest transaction in flight, while what others committed after it waits; pid 0 is a prepared one."""

    pid: int
    application: str
    state: str
    age_seconds: int

    def __str__(self) -> str:
        who = f"process {self.pid}" if self.pid else "a prepared transaction"
        about = f"{self.application or 'no application name'}, {self.state}"
        return f"{who} ({about}) has a transaction open for {self.age_seconds} s"


def holding(rows: Rows) -> FeedHolder | None:
    """From the rows of `feed_held`."""
    return FeedHolder(*rows[0]) if rows else None

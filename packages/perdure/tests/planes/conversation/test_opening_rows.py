"""Opening a session of n turns reads O(log n) rows, by summaries that nest: counted in rows and in steps, not in seconds.

10³ and 10⁴ turns in every run, 10⁵ too with PERDURE_ROUNDS. Keeps P8.
"""

from __future__ import annotations

import math
import os
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import perdure
from perdure.stores.sqlite import SqliteConnection

WIDTH, FAN = 50, 10  # as `session.due` has them
SIZES = (1_000, 10_000, *((100_000,) if "PERDURE_ROUNDS" in os.environ else ()))
BATCH = 1_000


class Cost(NamedTuple):
    """The rows that statements gave, and the steps that SQLite took for them."""

    rows: int
    steps: int


def grow(url: str, turns: int, *, compacted: bool = True) -> None:
    """Make a session of so many turns, summarised as `due` says while it grows."""

    def say(tx: Any, start: int) -> None:
        for i in range(start, start + BATCH):
            tx.session("s").say("user" if i % 2 else "assistant", f"turn {i} of fn_{i}")

    with perdure.open(url) as store:
        session = store.session("s")
        for start in range(0, turns, BATCH):
            store.atomic(partial(say, start=start))
            while compacted and (due := session.due()) is not None:
                session.summarise(due.last_seq, f"{due.first_seq} to {due.last_seq}", from_=due.first_seq)


def cost_of_opening(url: str, monkeypatch: pytest.MonkeyPatch) -> Cost:
    """Open the store, the session and its transcript, as a fresh process does; and ask for the open end and for a boot."""
    rows = steps = 0
    query = SqliteConnection.query

    def counting(connection: Any, *args: Any) -> Any:
        nonlocal rows, steps

        def step() -> bool:
            nonlocal steps
            steps += 1
            return False

        connection.raw.set_progress_handler(step, 10)
        try:
            found = query(connection, *args)
        finally:
            connection.raw.set_progress_handler(None)
        rows += len(found)
        return found

    with perdure.open(url) as store, monkeypatch.context() as patched:
        patched.setattr(SqliteConnection, "query", counting)
        session = store.session("s")
        assert session.transcript()
        assert session.pending() is not None
        assert session.boot(budget=1_000).tokens <= 1_000
    return Cost(rows, steps * 10)


def test_the_cost_grows_with_the_logarithm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    costs: dict[int, Cost] = {}
    for turns in SIZES:
        url = f"sqlite:///{tmp_path}/{turns}.db"
        grow(url, turns)
        costs[turns] = cost_of_opening(url, monkeypatch)
    print(costs)  # noqa: T201 - shown with -s: the figures
    least = costs[SIZES[0]]
    for turns in SIZES[1:]:
        levels = math.ceil(math.log(turns / SIZES[0], FAN))
        assert costs[turns].rows <= least.rows + 2 * levels * FAN
        assert costs[turns].steps <= 2 * least.steps


def test_control_without_summaries_it_grows_with_the_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    grow(url, 3_000, compacted=False)
    assert cost_of_opening(url, monkeypatch).rows > 3_000

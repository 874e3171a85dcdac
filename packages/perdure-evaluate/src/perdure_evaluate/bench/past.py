"""Cases of time and retention: what looking back costs, and letting go of what a summary stands for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import perdure
from perdure_evaluate.bench.case import Benchmark, Context, Figure, at_least, at_most
from perdure_evaluate.bench.raw_events import say_many

BATCH = 500


def _seconds(act: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    done = act()
    return time.perf_counter() - began, done


def _filled(store: perdure.Store, turns: int) -> perdure.Session:
    for first in range(0, turns, BATCH):
        say_many(store, "past", min(BATCH, turns - first))
    return store.session("past")


def looking_back(context: Context) -> list[Figure]:
    """A session as it was in the middle of its turns, and what differs from there to now."""
    turns = context.count(20_000, 1_000)
    with context.scratch() as folder, perdure.open(f"sqlite:///{folder}/bench.db") as store:
        session = _filled(store, turns)
        folded_s, then = _seconds(lambda: session.at(turns // 2))
        diff_s, diff = _seconds(lambda: then.diff(session))
        fork_s, _ = _seconds(lambda: session.fork(at=turns // 2, name="fork"))
    turns_since = len(diff.turns_added)
    return [
        at_least(
            "folding a past into memory", turns / 2 / folded_s, 5_000, "events/s", f"{turns // 2:,} in {folded_s:.2f} s"
        ),
        at_least(
            "turns since, compared", turns_since / diff_s, 10_000, "turns/s", f"{turns_since:,} in {diff_s:.2f} s"
        ),
        at_most("a fork from the middle", fork_s * 1000, 100, "ms", f"of {turns:,} turns: what was said is shared"),
    ]


def letting_go(context: Context) -> list[Figure]:
    """Turns that a summary stands for, taken and verified."""
    turns = context.count(20_000, 1_000)
    with context.scratch() as folder, perdure.open(f"sqlite:///{folder}/bench.db") as store:
        session = _filled(store, turns)
        session.summarise(upto=session.turns(last=1)[0].seq, text="all of it")
        rule = perdure.Retention(turns=0)
        looked_s, _ = _seconds(lambda: store.retain(rule))
        taken_s, report = _seconds(lambda: store.retain(rule, dry_run=False))
        assert store.verify().ok
    detail = f"{report.turns:,} in {taken_s:.2f} s, {report.bytes:,} bytes; the dry run took {looked_s:.2f} s"
    return [at_least("letting covered turns go", report.turns / taken_s, 10_000, "turns/s", detail)]


CASES = [
    Benchmark("past", "a session of 20,000 turns as it was, compared and forked", looking_back),
    Benchmark("retain", "20,000 turns that a summary stands for", letting_go),
]

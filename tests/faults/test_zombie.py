"""A driver that is stopped past its lease and wakes when another has gone on writes nothing and does nothing twice (P3, P4, P7).

One process (the zombie) is stopped by SIGSTOP at a crash point, and its heartbeat is made to lapse. Another (the heir) takes over
and goes as far as it can: to the end, or until only a person can say what became of something that the zombie may still send.
Then the zombie goes on. A careful person denies nothing while it lives. A hasty one denies at once what has not arrived, which is
harmless wherever the zombie has yet to look at its lease before it calls.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

import perdure
from faults import forks
from faults.forks import Life, Order, Report
from faults.sweeps import FULL, Ground, Outcome, Point, counted, every_point, remade, sampled, verified, wrong
from perdure.effects import outcomes
from perdure.log.event import Event, decode_body
from perdure.runtime.callers import caller_of, stream_of
from perdure.stores.store import event_of
from perdure.stores.tx import LOG
from perdure_files.store.layout import Layout

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 0.5  # of the heir, when the zombie sleeps inside a transaction
CLAIMS = ("run.claimed", "run.recovered")
GIVES_UP = ("run.waiting", "run.released", "run.parked", "run.completed", "run.failed", "run.cancelled")
UNDER_A_LEASE = (*GIVES_UP, "run.cut", "step.done", "ask.opened", "ask.expired", "run.wait.opened", "run.wait.expired")
OF_ITS_OWN_ATTEMPT = ("its sender", outcomes.LATE)  # what a sender may say about its own attempt, whoever has the run
OF_ITSELF = ("effect.late", "effect.quiet")  # the same: what came back too late, and that it will send nothing more


COMMITTING = {"lane.before_commit", "files.before_append", "files.appended", "files.synced"}
OPENING = {"sqlite.opened"}  # of a files store: under the lock of its log


class Haunted(NamedTuple):
    """What became of a case with a zombie. heir: how far it got; woken: what the zombie said in the end."""

    outcome: Outcome
    stale: list[str]
    heir: Report
    woken: Report

    @property
    def blocked(self) -> bool:
        """Nobody could take over: the zombie slept inside a transaction."""
        return is_blocked(self.heir)

    @property
    def broken(self) -> str:
        """What the zombie died of, instead of seeing that it was over or waits for a person."""
        return "" if self.woken.unsettled else self.woken.error


def is_blocked(heir: Report) -> bool:
    return heir.result is None and not heir.unsettled


def haunted(swept: Ground, point: Point, variant: str = "", *, hasty: bool = False) -> Haunted | None:
    """One case: the zombie stops at the point. None if it never got there."""
    order = swept.case(chapter="journey", variant=variant, actor="zombie", may_deny=False, at=point, signal="stop")
    zombie = Life(order)
    zombie.go()
    asleep = zombie.wait()
    if asleep.how != "stop":
        return None
    heir = remade(order, variant="", actor="heir", at=None, may_deny=hasty, patience=PATIENCE_SECONDS)
    taken = forks.run(heir) if lapse(order) else asleep
    if point[0] not in COMMITTING | OPENING and is_blocked(taken.report):  # it was in a hurry on a busy machine
        taken = forks.run(remade(heir, patience=30.0))
    woken = zombie.wake()
    last = forks.run(remade(heir, actor="last", may_deny=True, patience=30.0))
    return Haunted(
        stale=stale_writes(order), outcome=swept.outcome(order, last, 0), heir=taken.report, woken=woken.report
    )


def lapse(order: Order) -> bool:
    """Let every heartbeat lapse, as if time had passed. False if the zombie holds the store's lock."""
    if order.url.startswith("sqlite"):
        return lapse_sqlite(order.url.removeprefix("sqlite:///"))
    if order.url.startswith("files"):
        return lapse_sqlite(str(files_cache(order.url)))
    return lapse_postgres(*order.url.split("?schema="))


def files_cache(url: str) -> Path:
    return Layout(Path(url.removeprefix("files:///"))).cache


def lapse_sqlite(path: str) -> bool:
    import apsw

    connection = apsw.Connection(path)
    try:
        connection.set_busy_timeout(200)
        connection.execute("UPDATE holders SET expires_at = 1")
    except (apsw.BusyError, apsw.SQLError):  # it has the lock, or stopped before it had made the tables
        return False
    finally:
        connection.close()
    return True


def lapse_postgres(url: str, schema: str) -> bool:
    import psycopg

    with psycopg.connect(url, autocommit=True, options="-c lock_timeout=200ms") as connection:
        try:
            connection.execute(f'UPDATE "{schema}".holders SET expires_at = 1')
        except psycopg.errors.LockNotAvailable:
            return False
    return True


# -- what was written by whom -------------------------------------------------------------------------------------


def stale_writes(order: Order) -> list[str]:
    """Events of the case's runs that need a lease, by somebody who did not have it then."""
    with perdure.open(order.url) as store:
        found = [
            run for run in store.runs(limit=1000) if order.case in (str(run.record.key), *map(str, run.record.args))
        ]
        return [each for run in found for each in stale_in(events_of(store, stream_of(run)))]


def events_of(store: Any, stream: Any) -> list[Event]:
    """Those of a stream, with actors as they were given: headers name them at random."""
    core = caller_of(store).core
    page = {"stream": stream.id, "after": 0, "upto": 2**62, "limit": 100_000}
    names = {each.actor: each.name for each in store.actors()}
    rows = core.read(lambda reads: reads.query(LOG.events_page, **page), tenant=stream.tenant)
    return [msgspec.structs.replace(event, actor=names[event.actor]) for event in map(event_of, rows)]


def stale_in(events: list[Event]) -> list[str]:
    owner, stale = "", []
    for event in events:
        if event.kind in CLAIMS:
            owner = event.actor
        elif needs_a_lease(event) and event.actor != owner:
            stale.append(f"{event.seq} {event.kind} by {event.actor}, not {owner or 'nobody'}")
        if event.kind in GIVES_UP:
            owner = ""
    return stale


def needs_a_lease(event: Event) -> bool:
    if event.actor == "ada" or event.kind in OF_ITSELF:
        return False
    said = decode_body(event.body).doc if event.body else None
    own = isinstance(said, dict) and said.get("by") in OF_ITS_OWN_ATTEMPT
    return event.kind in UNDER_A_LEASE or (event.kind.startswith("effect.") and not own)


# -- the sweep ----------------------------------------------------------------------------------------------------


def points_of(swept: Ground) -> list[Point]:
    """All of them; else the first time of each, and some of those around the call."""
    points = every_point(counted(swept, chapter="journey"))
    if FULL:
        return sampled(swept, points, len(points))
    calls = [point for point in points if point[0] in ("effect.call.before", "effect.dispatch.after", "tool.sent")]
    firsts = sampled(swept, [point for point in points if point[1] == 1], 8)
    return [*firsts, *sampled(swept, calls, 8), ("effect.call.before", 5), ("lane.before_commit", 9)]


def test_a_driver_that_wakes_up_past_its_lease_writes_nothing_and_does_nothing_twice(swept):
    points = points_of(swept)
    cases = {point: case for point in points if (case := haunted(swept, point)) is not None}
    assert not wrong(each.outcome for each in cases.values())
    assert not [(point, each.stale) for point, each in cases.items() if each.stale]
    assert not [(point, each.broken) for point, each in cases.items() if each.broken]
    assert len(cases) >= len(points) * 0.95
    inside = {point for point, each in cases.items() if each.blocked}
    locked = COMMITTING | OPENING if swept.kind == "files" else COMMITTING
    assert {name for name, _ in inside} <= locked  # nobody takes over from who is about to commit
    assert any(each.heir.unsettled for each in cases.values())  # what it may still send waits for a person
    verified(swept)
    log.info("stopped at %d points: %d taken over, %d of them waited for a person", len(cases), len(cases) - len(inside),
             sum(each.heir.unsettled for each in cases.values()))  # fmt: skip


# -- a person who denies too early, and controls ------------------------------------------------------------------

# The push and the mail are dispatched, and the lease is not yet looked at once more.
DISPATCHED = [("effect.dispatch.after", nth) for nth in (3, 4)]


def test_what_was_denied_too_early_is_not_sent_by_who_looks_at_its_lease_before_the_call(swept):
    cases = [haunted(swept, point, hasty=True) for point in DISPATCHED]
    assert not wrong(each.outcome for each in cases if each)
    assert not [each.stale for each in cases if each and each.stale]


def test_control_without_the_look_before_the_call_it_is_sent_twice(swept):
    cases = [haunted(swept, point, "unchecked", hasty=True) for point in DISPATCHED]
    assert [what for each in cases if each for what in each.outcome.twice]


def test_control_without_the_fence_stale_writes_are_seen(swept):
    case = haunted(swept, ("effect.commit.after", 2), "unfenced")
    assert case is not None
    assert case.stale

"""What must hold when a history is over: the ledger and the world agree, everything ended, and who wrote had the right to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

import perdure
from perdure.effects.ledger import ARROWS
from perdure.effects.outcomes import LATE
from perdure.log.event import Body, Event, decode_body
from perdure.model.records.effects import EffectState
from perdure.runtime.callers import caller_of, stream_of
from perdure.stores.store import event_of
from perdure.stores.tx import LOG
from proof.stage import LEASE_US, Stage

DONE = (EffectState.COMMITTED, EffectState.UNDOING, EffectState.UNDONE)
KINDS = {arrow.kind: arrow for arrow in ARROWS.values()}
SENT = ("effect.dispatched", "effect.redispatched")
CLAIMS = ("run.claimed", "run.recovered")
RESTS = ("run.waiting", "run.released", "run.parked", "run.completed", "run.failed", "run.cancelled")
LEASED = (*RESTS, *KINDS, "run.cut", "step.done", "ask.opened", "ask.expired", "run.wait.opened", "run.wait.expired")
OWN = ("its sender", LATE)  # what a sender may say about its own attempt, whoever has the run
PEOPLE = ("ada", "bob")


def judge(stage: Stage, store: perdure.Store) -> list[str]:
    """Everything that is wrong with a history."""
    return [*stage.blames, *_ends(store), *_world(stage, store), *_log(stage, store), *_whole(store)]


def _ends(store: perdure.Store) -> Iterator[str]:
    """Never stranded: every run is over, and nothing that was begun is open."""
    for run in store.runs(limit=1_000):
        if not run.record.ended:
            yield f"run {run.record.agent} {run.record.key} is {run.status} ({run.record.reason}) for ever"
        elif run.status == "failed":
            yield f"run {run.record.agent} {run.record.key} failed: {run.record.error}"


def _world(stage: Stage, store: perdure.Store) -> Iterator[str]:
    """What the ledger says became of each effect is what the world saw."""
    stage.world.land()
    acts: dict[str, list[Any]] = {}
    for effect in store.effects(limit=1_000):
        acts.setdefault(_name(effect.record), []).append(effect.record)
    for name, records in acts.items():
        yield from _act(stage, name, records)
    for what in stage.world.arrivals:
        if what.rsplit("/", 1)[0] not in acts:
            yield f"{what} arrived, and the ledger knows nothing of it"
    yield from _undone_in_order(stage)


def _name(record: Any) -> str:
    """Which act of its program an effect is."""
    return ("undo " if record.undoes is not None else "") + record.args["what"].rsplit("/", 1)[0]


def _act(stage: Stage, name: str, records: list[Any]) -> Iterator[str]:
    arrived = [what for what in stage.world.arrivals if what.rsplit("/", 1)[0] == name]
    if len(records) > 1:
        yield f"{name} is {len(records)} effects"
    record = records[0]
    if len(arrived) > 1 and record.kind != "idempotent":
        yield f"{name} ({record.kind}, {record.state}) happened {len(arrived)} times"
    if record.state in DONE and not arrived:
        yield f"{name} ({record.kind}) is {record.state}, and never arrived"
    if record.state not in DONE and arrived and record.kind != "idempotent":
        yield f"{name} ({record.kind}) is {record.state}, and arrived"
    if not record.settled:
        yield f"{name} stays {record.state}"
    needs = record.args["what"].endswith("/ok")
    if needs and arrived and record.args["what"] not in stage.approved:
        yield f"{name} happened without the approval of a person"


def _undone_in_order(stage: Stage) -> Iterator[str]:
    undone = [what for what in stage.world.arrivals if what.startswith("undo ")]
    if undone != sorted(undone, reverse=True):
        yield f"undone in the wrong order: {undone}"


def _log(stage: Stage, store: perdure.Store) -> Iterator[str]:
    died = {process.name: process.died_at_us for process in stage.machine.processes}
    for run in store.runs(limit=1_000):
        events = [
            (event, decode_body(event.body)) for event in _events(store, stream_of(run)) if event.body is not None
        ]
        yield from _moves(events)
        yield from _leased(events, died)


def _events(store: perdure.Store, stream: Any) -> list[Event]:
    """Those of a stream, with actors as they were given: headers name them at random, and no process is called that."""
    page = {"stream": stream.id, "after": 0, "upto": 2**62, "limit": 100_000}
    core = caller_of(store).core
    names = {each.actor: each.name for each in store.actors()}
    rows = core.read(lambda reads: reads.query(LOG.events_page, **page), tenant=stream.tenant)
    return [msgspec.structs.replace(event, actor=names[event.actor]) for event in map(event_of, rows)]


def _by(body: Body) -> str | None:
    return body.doc.get("by") if isinstance(body.doc, dict) else None


def _is_free(event: Event, body: Body, sender: str) -> bool:
    """Whether this needs no lease: what a sender says about its own attempt, and that nobody takes the run any more."""
    if event.kind == "run.parked":
        return body.doc["error"]["code"] == "deaths"
    return _by(body) in OWN or (event.kind == "effect.doubted" and event.actor == sender)


def _moves(events: list[tuple[Event, Body]]) -> Iterator[str]:
    """Effects move along the arrows, and only who sent an attempt says late what became of it."""
    states: dict[int, EffectState] = {}
    senders: dict[int, str] = {}
    for event, body in events:
        arrow = KINDS.get(event.kind)
        if arrow is None:
            continue
        seq = body.key.get("seq", event.seq)
        if seq in states and states[seq] not in arrow.sources:
            yield f"effect {seq} was {states[seq]}, and {event.kind} came"
        if _by(body) in OWN and senders.get(seq) != event.actor:
            yield f"effect {seq}: {event.kind} by {event.actor}, but {senders.get(seq)} sent it"
        states[seq] = arrow.target
        if event.kind in SENT:
            senders[seq] = event.actor


def _leased(events: list[tuple[Event, Body]], died: dict[str, int | None]) -> Iterator[str]:
    """Who writes has the run; it is taken over only from the dead, or when the lease is over."""
    holder, since_us, sender = "", 0, ""
    free: tuple[str, bytes] = ("", b"")  # who wrote without the lease, rightly, and in which commit
    for event, body in events:
        sender = event.actor if event.kind in SENT else sender
        if event.kind in CLAIMS:
            gone_us = died.get(holder)
            gone = event.at - since_us >= LEASE_US or (gone_us is not None and gone_us <= event.at)
            if event.kind == "run.recovered" and event.actor != holder and not gone:
                yield f"{event.actor} took a run over that {holder} had"
            holder, since_us = event.actor, event.at
        elif event.kind in LEASED and event.actor not in (holder, *PEOPLE) and (event.actor, event.tx) != free:
            if _is_free(event, body, sender):
                free = (event.actor, event.tx)
                continue
            yield f"{event.seq} {event.kind} by {event.actor}, not {holder or 'nobody'}"
        if event.kind in RESTS:
            holder = ""


def _whole(store: perdure.Store) -> Iterator[str]:
    yield from (f"verify: {problem}" for problem in store.verify().problems)

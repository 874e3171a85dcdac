"""Retention: old checkpoints, covered turns, old versions of values and emitted events go, and what ended long ago, by rule
(docs/decisions/0016, 0044).

    choose   outside the lane, one stream at a time: what each rule lets go
    take     in small transactions: the stream is locked, so a fork was before (and is seen, and chosen for again) or comes
             after, and so does a label that spares it; `log.pruned` names the events whose bodies are emptied, and what only
             they gave goes in the same commit
    collect  blobs that nothing reaches any more go (planes/retention/collect)
    purge    what was emptied leaves the lines of a files store too: last, for the whole store

Nothing that is emptied feeds a live row, so what is kept reads as before, from every fork too. A retention that dies has
taken some of it: the next one finds the rest. Keeps P1, P5, P6, P11, P15.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from perdure.artifacts import tree
from perdure.errors import Invalid
from perdure.log.change import Change, Op, Stream
from perdure.log.event import Event
from perdure.model.instants import duration_us
from perdure.model.kinds import is_reserved
from perdure.model.limits import check_name
from perdure.model.records.retention import Retained, Retention
from perdure.planes.audit.verify import PRUNED, emptied_by
from perdure.planes.conversation import sessions
from perdure.planes.execution import imported, requests
from perdure.planes.reading.body_reading import doc_of, inline_body
from perdure.planes.reading.durations import store_now
from perdure.planes.reading.labels import from_labels
from perdure.planes.reading.lineage import MAX_SEQ
from perdure.planes.reading.row_reading import stored_address
from perdure.planes.reading.snapshots import one_state
from perdure.planes.recovery import checkpoints
from perdure.planes.retention.prunable import CoveredTurn, Covering, complete_exchanges, free_to_go
from perdure.planes.tables import CALLS, CHECKPOINTS, COVERS, ENTRIES, TURNS
from perdure.stores import schema_upgrade
from perdure.stores.batch import EVENTS
from perdure.stores.core import Core
from perdure.stores.statements import Statements
from perdure.stores.store import Reads, event_of
from perdure.stores.tx import LOG, Tx

Q = Statements("perdure.planes.retention", "retain.sql")

PAGE_STREAMS = 200
PAGE_EVENTS = 500  # emptied in one transaction
_PAGE_BLOBS = 500


class Judged(NamedTuple):
    """A session, a scope, or a run that is over, with the labels that count for it, its session, and when it ended (None: it
    has not).
    """

    stream: Stream
    labels: tuple[str, ...]
    session: str | None
    ended_at: int | None
    last_at: int  # turns after the end are kept as long


class PrunableParts(NamedTuple):
    """The parts of one stream that a rule lets go, by number, and where forks had left it when that was looked at."""

    stream: Stream
    rule: Retention
    checkpoints: list[int]
    turns: list[int]
    forks: set[int]
    events: list[int]
    is_all: bool = False  # it ended, and all goes that may
    values: Mapping[int, int] = {}  # each version that was replaced, and the event that replaced it

    def __bool__(self) -> bool:
        return bool(self.seqs)

    @property
    def seqs(self) -> list[int]:
        """All of it."""
        return [*self.checkpoints, *self.turns, *self.events, *self.values]


# -- rules ---------------------------------------------------------------------------------------------------


def check_rules(rules: object) -> list[Retention]:
    """Accept rules; Invalid names what is wrong in which of them."""
    if not isinstance(rules, (list, tuple)) or not rules:
        raise Invalid("expected at least one rule", path="rules", hint="Retention(checkpoints=5, older_than='30d')")
    for i, rule in enumerate(rules):
        if not isinstance(rule, Retention):
            raise Invalid(f"expected a Retention, got {type(rule).__name__}", path=f"rules[{i}]")
        _check(rule, f"rules[{i}]")
    return list(rules)


def _check(rule: Retention, path: str) -> None:
    counts = (rule.checkpoints, rule.turns, rule.values, rule.emitted)
    if all(count is None for count in counts) and not (rule.sessions or rule.runs):
        hint = "give checkpoints= (how many to keep), turns=, values=, emitted=, sessions= or runs="
        raise Invalid("the rule removes nothing", path=path, hint=hint)
    for name in ("sessions", "runs"):
        if type(getattr(rule, name)) is not bool:
            raise Invalid("expected True or False", path=f"{path}.{name}")
    _check_count(rule.checkpoints, 1, f"{path}.checkpoints")
    _check_count(rule.turns, 0, f"{path}.turns")
    _check_count(rule.values, 1, f"{path}.values")
    _check_count(rule.emitted, 0, f"{path}.emitted")
    _check_count(rule.larger_than, 0, f"{path}.larger_than")
    if rule.older_than is not None:
        duration_us(rule.older_than, f"{path}.older_than")
    for name in ("label", "except_label", "session"):
        if getattr(rule, name) is not None:
            check_name(getattr(rule, name), f"{path}.{name}")


def _check_count(value: object, least: int, path: str) -> None:
    if value is not None and (type(value) is not int or value < least):
        raise Invalid(f"expected a number, at least {least}, got {value!r}", path=path)


def _is_for(rule: Retention, candidate: Judged) -> bool:
    if rule.session is not None and rule.session != candidate.session:
        return False
    return (rule.label is None or rule.label in candidate.labels) and rule.except_label not in candidate.labels


# -- putting away --------------------------------------------------------------------------------------------


def put_away(tx: Tx, stream: Stream) -> None:
    """Archive a session that was deleted. A copy gives its keys up, and so do its runs."""
    sessions.archive(tx, stream)
    for part in (stream, *imported.runs_of(tx, stream)):
        requests.give_keys_up(tx, part)


# -- choosing ------------------------------------------------------------------------------------------------


def last_stream(reads: Reads) -> int:
    """A stream that begins after this is not judged: so judging ends."""
    return reads.query(Q.streams_last)[0][0]


def judged(reads: Reads, after: int, upto: int) -> list[Judged]:
    """A page of what there is to judge, after a stream."""
    rows = reads.query(Q.streams_judged, tenant=reads.tenant, after=after, upto=upto, limit=PAGE_STREAMS)
    return [Judged(Stream(*row[:7]), from_labels(row[7]), *row[8:]) for row in rows]


@one_state
def choose(reads: Reads, candidate: Judged, rule: Retention) -> PrunableParts:
    """The parts of a session or run that a rule lets go. Reads its turns, summaries and checkpoints, not what they say."""
    stream = candidate.stream
    nothing = PrunableParts(stream, rule, [], [], set(), [])
    if not _is_for(rule, candidate) or (rule.larger_than is not None and size_of(reads, stream) <= rule.larger_than):
        return nothing
    values = _replaced(reads, stream, rule) if rule.values is not None else {}
    if _is_whole(reads, candidate, rule):
        return _all_parts(reads, stream, rule)._replace(values=values)
    events = _emitted(reads, stream, rule) if rule.emitted is not None else []
    saved = checkpoints.choose(reads, stream, **_saved(rule)) if rule.checkpoints is not None else None
    turns, forks = _covered(reads, stream, rule) if rule.turns is not None and stream.kind == "session" else ([], set())
    chosen = [seq for seq, _ in saved.doomed] if saved else []
    return PrunableParts(stream, rule, chosen, turns, saved.forks if saved else forks, events, values=values)


def _is_whole(reads: Reads, candidate: Judged, rule: Retention) -> bool:
    """Whether it ended so long ago that the rule lets all of it go."""
    applies = rule.sessions if candidate.stream.kind == "session" else rule.runs
    return (
        applies and candidate.ended_at is not None and max(candidate.ended_at, candidate.last_at) < _before(reads, rule)
    )


def _all_parts(reads: Reads, stream: Stream, rule: Retention) -> PrunableParts:
    """Everything that feeds no row, or whose row may go with it. Something that was forked stays as it is: half of it
    would read as if the rest had never been.
    """
    forks = checkpoints.forks_of(reads, stream)
    if forks:
        return PrunableParts(stream, rule, [], [], forks, [])
    touches = [(EVENTS, stream.id), (TURNS, stream.id), (CHECKPOINTS, stream.id)]
    saved, turns, events = (
        [row[0] for row in reads.query(statement, touches=touches, stream=stream.id)]
        for statement in (Q.checkpoints_own, Q.turns_own, Q.rowless_own)
    )
    return PrunableParts(stream, rule, saved, turns, forks, events, is_all=True)


def _saved(rule: Retention) -> dict[str, Any]:
    return {"keep": rule.checkpoints, "older_than": rule.older_than}


def _covered(reads: Reads, stream: Stream, rule: Retention) -> tuple[list[int], set[int]]:
    forks = checkpoints.forks_of(reads, stream)
    covers = reads.query(Q.covers_own, touches=[(COVERS, stream.id)], stream=stream.id)
    if not covers and not reads.query(Q.retracted_any, touches=[(TURNS, stream.id)], stream=stream.id):
        return [], forks
    turns = list(_covered_turns(reads, stream))
    before = _before(reads, rule)
    free = free_to_go(turns, [Covering(*row) for row in covers], forks, rule.turns or 0)
    old = {turn.seq for turn in turns if turn.at < before}
    return sorted(complete_exchanges(turns, free & old)), forks


def _replaced(reads: Reads, stream: Stream, rule: Retention) -> dict[int, int]:
    """Old versions of values that were replaced long enough ago, each with the event that replaced it. The oldest go first, so
    that whoever looks back meets a whole history, then nothing, then a whole one again.
    """
    histories: dict[str, list[tuple[int, int]]] = {}
    for seq, at, name in _versions(reads, stream):
        histories.setdefault(name, []).append((seq, at))
    before, successors = _before(reads, rule), dict[int, int]()
    for history in histories.values():
        old = history[: -(rule.values or 1)]
        for (seq, _), (successor, replaced_at) in zip(old, history[1:], strict=False):
            if replaced_at >= before:
                break
            successors[seq] = successor
    return dict(sorted(successors.items()))


def _versions(reads: Reads, stream: Stream) -> Iterator[tuple[int, int, str]]:
    after = 0
    while True:
        touches = [(EVENTS, stream.id)]
        rows = reads.query(Q.values_own, touches=touches, stream=stream.id, after=after, limit=PAGE_EVENTS)
        for seq, at, body in rows:
            yield seq, at, str(inline_body(body, f"{stream.name} seq {seq}").key.get("name"))
        if len(rows) < PAGE_EVENTS:
            return
        after = rows[-1][0]


def _emitted(reads: Reads, stream: Stream, rule: Retention) -> list[int]:
    """Emitted events beyond the newest ones. Events that a fork shares stay."""
    shared = max(checkpoints.forks_of(reads, stream), default=0)
    rows = reads.query(Q.emitted_own, touches=[(EVENTS, stream.id)], stream=stream.id, after=shared)
    emitted = [(seq, at) for seq, at, kind in rows if not is_reserved(kind)]
    before = _before(reads, rule)
    return [seq for seq, at in emitted[: max(0, len(emitted) - (rule.emitted or 0))] if at < before]


def _before(reads: Reads, rule: Retention) -> int:
    return MAX_SEQ if rule.older_than is None else store_now(reads) - duration_us(rule.older_than, "older_than")


def _covered_turns(reads: Reads, stream: Stream) -> Iterator[CoveredTurn]:
    makers: dict[str, list[int]] = {}
    for call, seq in reads.query(Q.calls_own, touches=[(CALLS, stream.id)], stream=stream.id):
        makers.setdefault(call, []).append(seq)
    calls = Counter(seq for seqs in makers.values() for seq in seqs)
    for seq, role, call, at, retracted in reads.query(Q.turns_own, touches=[(TURNS, stream.id)], stream=stream.id):
        maker = max((earlier for earlier in makers.get(call, ()) if earlier < seq), default=None)
        yield CoveredTurn(seq, role, maker, at, calls[seq], retracted)


def size_of(reads: Reads, stream: Stream) -> int:
    """The bytes of a session or run: of its events, and of the blobs that they lead to."""
    addresses = {bytes(address) for (address,) in reads.query(Q.stream_blobs, stream=stream.id)}
    roots = [stored_address(root, "checkpoints.root") for (root,) in reads.query(Q.stream_roots, stream=stream.id)]
    events_bytes = reads.query(Q.stream_size, touches=[(EVENTS, stream.id)], stream=stream.id)[0][0]
    return events_bytes + _blobs_size(reads, addresses | tree.reachable(roots, reads.fetch))[1]


def _blobs_size(reads: Reads, addresses: Collection[bytes]) -> tuple[int, int]:
    counts = [reads.query(Q.blobs_size, tenant=reads.tenant, addresses=page)[0] for page in _listed(addresses)]
    return sum(count for count, _ in counts), sum(size for _, size in counts)


def _listed(addresses: Collection[bytes]) -> Iterator[str]:
    ordered = sorted(addresses)
    for start in range(0, len(ordered), _PAGE_BLOBS):
        yield json.dumps([address.hex() for address in ordered[start : start + _PAGE_BLOBS]])


# -- what it would free --------------------------------------------------------------------------------------


@one_state
def freed(reads: Reads, doomed: Sequence[PrunableParts]) -> tuple[int, int]:
    """How many blobs nothing needs once all this is gone, and their bytes. Walks the trees of all checkpoints."""
    doomed_places = {(parts.stream.id, seq) for parts in doomed for seq in parts.seqs}
    rows = reads.query(Q.roots_named, tenant=reads.tenant)
    roots = {(stream, seq): stored_address(root, "checkpoints.root") for stream, seq, root in rows}
    live = tree.reachable([root for place, root in roots.items() if place not in doomed_places], reads.fetch)
    lost = tree.reachable([root for place, root in roots.items() if place in doomed_places], reads.fetch, live)
    for parts in doomed:
        lost |= _named_by(reads, parts.stream, parts.seqs)
    lost -= live
    return _blobs_size(reads, lost - _named_otherwise(reads, lost, doomed_places))


def _named_by(reads: Reads, stream: Stream, seqs: list[int]) -> set[bytes]:
    pages = (reads.query(Q.blobs_named, stream=stream.id, seqs=json.dumps(page)) for page in pages_of(seqs))
    return {bytes(address) for page in pages for (address,) in page}


def _named_otherwise(reads: Reads, addresses: Collection[bytes], doomed_places: set[tuple[int, int]]) -> set[bytes]:
    elsewhere: set[bytes] = set()
    for page in _listed(addresses):
        rows = reads.query(Q.blobs_naming, tenant=reads.tenant, addresses=page)
        elsewhere |= {bytes(address) for stream, seq, address in rows if (stream, seq) not in doomed_places}
    return elsewhere


def united(doomed: Iterable[PrunableParts]) -> list[PrunableParts]:
    """The parts of a stream that several rules let go, once."""
    by_stream: dict[int, PrunableParts] = {}
    for parts in doomed:
        earlier = by_stream.get(parts.stream.id, parts)
        both: dict[str, Any] = {
            name: sorted({*getattr(earlier, name), *getattr(parts, name)})
            for name in ("checkpoints", "turns", "events")
        }
        by_stream[parts.stream.id] = earlier._replace(**both, values={**earlier.values, **parts.values})
    return list(by_stream.values())


def weigh(reads: Reads, doomed: PrunableParts) -> Retained:
    """The parts of a stream that would go, with the bytes of their events."""
    sizes = _sizes(reads, doomed.stream, doomed.seqs)
    return retained(doomed.stream, [chosen for _, chosen in ways(doomed)], sum(sizes.values()))


def _sizes(reads: Reads, stream: Stream, seqs: Sequence[int]) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for page in pages_of(seqs):
        rows = reads.query(Q.bodies_size, touches=[(EVENTS, stream.id)], stream=stream.id, seqs=json.dumps(page))
        sizes.update(rows)
    return sizes


def retained(stream: Stream, seqs_by_way: Sequence[Iterable[int]], size: int) -> Retained:
    """The report about one stream. seqs_by_way: in the order of `ways`."""
    saved, turns, events, values = (tuple(sorted(seqs)) for seqs in seqs_by_way)
    return Retained(
        kind=stream.kind, name=stream.name, checkpoints=saved, turns=turns, bytes=size, events=events, values=values
    )


def pages_of(seqs: Sequence[int]) -> Iterator[list[int]]:
    """So many at a time as one transaction takes."""
    return (list(seqs[start : start + PAGE_EVENTS]) for start in range(0, len(seqs), PAGE_EVENTS))


# -- taking --------------------------------------------------------------------------------------------------


class TakenByRetention(NamedTuple):
    """The result of one transaction, and the bytes of what it emptied."""

    seqs: list[int]
    bytes: int


def take_checkpoints(tx: Tx, doomed: PrunableParts, seqs: list[int]) -> TakenByRetention:
    """Take away checkpoints that were chosen outside the lane, if they are still there. May be run again."""
    if not _is_still_for(tx, doomed):
        return TakenByRetention([], 0)
    sizes = _sizes(tx, doomed.stream, seqs)
    pruned = checkpoints.prune(tx, doomed.stream, seqs, doomed.forks, **_saved(doomed.rule))
    return TakenByRetention(pruned, sum(sizes[seq] for seq in pruned))


def take_turns(tx: Tx, doomed: PrunableParts, seqs: list[int]) -> TakenByRetention:
    """Take away turns that were chosen outside the lane, if they are still there. May be run again.

    New turns only make them older, and a summary that stands for them stays: only a new fork makes us choose again. Recorded by
    one event that names them.
    """
    stream = doomed.stream
    if not _is_still_for(tx, doomed):
        return TakenByRetention([], 0)
    if not doomed.is_all and checkpoints.forks_of(tx, stream) != doomed.forks:
        still = {*_covered(tx, stream, doomed.rule)[0]}
        seqs = [seq for seq in seqs if seq in still]
    return _empty(tx, stream, seqs, {"table": TURNS.name})


def take_events(tx: Tx, doomed: PrunableParts, seqs: list[int]) -> TakenByRetention:
    """Take away emitted events, and steps of a run that ended. May be run again. Recorded by one event that names them."""
    if not _is_still_for(tx, doomed):
        return TakenByRetention([], 0)
    shared = 0 if doomed.is_all else max(checkpoints.forks_of(tx, doomed.stream), default=0)
    return _empty(tx, doomed.stream, [seq for seq in seqs if seq > shared], {})


def take_values(tx: Tx, doomed: PrunableParts, seqs: list[int]) -> TakenByRetention:
    """Take away versions of values that were replaced. May be run again. Recorded by one event that names them, and from which
    event on all values are known again.
    """
    if not _is_still_for(tx, doomed):
        return TakenByRetention([], 0)
    return _empty(tx, doomed.stream, seqs, {"table": ENTRIES.name, "until": max(doomed.values[seq] for seq in seqs)})


def _empty(tx: Tx, stream: Stream, seqs: Sequence[int], about: dict[str, str | int]) -> TakenByRetention:
    sizes = _sizes(tx, stream, seqs)
    if sizes:
        tx.record(Change("log.pruned", stream, op=Op.NOTE, doc={"emptied": sorted(sizes), **about}))
        tx.empty(stream, sizes)
    return TakenByRetention(sorted(sizes), sum(sizes.values()))


def ways(doomed: PrunableParts) -> list[tuple[Callable[[Tx, PrunableParts, list[int]], TakenByRetention], list[int]]]:
    """Which verb takes what: checkpoints, turns, other events, versions of values."""
    return [
        (take_checkpoints, doomed.checkpoints), (take_turns, doomed.turns), (take_events, doomed.events),
        (take_values, [*doomed.values]),
    ]  # fmt: skip


def follow_pruning(tx: Tx, stream: Stream, came: Iterable[Event]) -> None:
    """Events came from another log: a checkpoint that they take away loses its body here too, as it did there.

    By that a fork of ours, which they do not know, is told that it went (`checkpoints.restore`); else it would be given an older
    one. Turns stay as they are: no row of theirs goes, and a fork of ours may need them.
    """
    for event in came:
        if event.kind == PRUNED and not event.table and event.body:
            seqs = sorted(emptied_by(event, doc_of(tx, event.body)))
            emptied = [seq for seq in seqs if _is_checkpoint_gone(tx, stream, seq)]
            if emptied:
                tx.empty(stream, emptied)


def _is_checkpoint_gone(tx: Tx, stream: Stream, seq: int) -> bool:
    rows = tx.query(LOG.event_by_seq, touches=[(EVENTS, stream.id)], stream=stream.id, seq=seq)
    saved = [event for event in map(event_of, rows) if event.kind == checkpoints.SAVED and event.body is not None]
    return bool(saved) and tx.row(CHECKPOINTS, stream, seq) is None


def _is_still_for(tx: Tx, doomed: PrunableParts) -> bool:
    """Lock the stream, and see whether the rule is for it as it is labelled now: somebody may have said "hold" since.

    Something that ended may have been opened again or forked since: then the next retention judges it.
    """
    tx.lock(doomed.stream)
    for candidate in judged(tx, doomed.stream.id - 1, doomed.stream.id):
        if not _is_for(doomed.rule, candidate):
            return False
        if doomed.is_all:
            return _is_whole(tx, candidate, doomed.rule) and checkpoints.forks_of(tx, doomed.stream) == doomed.forks
        return True
    return False


# -- what lies beside the database ---------------------------------------------------------------------------


def purge(core: Core) -> int:
    """Take what was emptied out of a log of lines, and of what is kept beside it for people; returns how many bodies stay.
    Blocking work, outside the lane.
    """
    with schema_upgrade.told():
        remaining = core.engine.purge()
    if core.on_purge is not None:
        core.on_purge()
    return remaining


def lingering(core: Core) -> int:
    """How many such bodies there are. Likewise; changes nothing."""
    with schema_upgrade.told():
        return core.engine.lingering()

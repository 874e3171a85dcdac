"""Move: a whole store, of all tenants, from one database into another. Chains unchanged, and the source continues nowhere.

    look      nobody holds anything (or --fence), the source verifies, the target is new
    seal      the target expects it; the source says where it goes (an event), and takes no more events (`stores.moved_away`)
    carry     blobs, then events in the order of the feed, so many in a commit, checked against their hashes on the way in
    prove     every chain ends where it did, and folding the target's log gives its rows
    welcome   the target can be opened; the source knows

Killed anywhere, run again: it continues where it stopped. Nobody can open the target before it is whole, or write to the source
after it is sealed, so nothing is ever done from both. Open work is trusted as it was if nobody held anything, else it is doubt:
the epoch rises (docs/decisions/0014). Positions of subscriptions, heartbeats and the like stay behind. Callers: the doors.
Keeps P3, P4, P5, P6, P7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from perdure.errors import Conflict, Damaged, Invalid, Refused
from perdure.log.change import Change, Op, Stream
from perdure.log.event import Event
from perdure.model.crash_points import reach
from perdure.model.records.moves import Held, Moved
from perdure.planes.audit import verify
from perdure.planes.conversation import artifacts
from perdure.planes.execution import imported
from perdure.planes.tables import RECORDED
from perdure.stores import moved_away, url
from perdure.stores.blobs import BlobRow
from perdure.stores.core import Core, open_core
from perdure.stores.moved_away import Departure
from perdure.stores.replay import Seen, Slice, adopt, find, pages, place
from perdure.stores.statements import Statements
from perdure.stores.store import WHOLE_STORE, Head, Reads
from perdure.stores.tx import LOG, Tx

Q = Statements("perdure.interchange", "move.sql")

PAGE_EVENTS = 5_000
PAGE_BLOBS = 100
SLACK_EVENTS = 20_000  # before the place where a move stopped: what came early is not looked for beyond it
HELD_SHOWN = 20

Progress = Callable[[int, int], None]


def move(
    source: str,
    target: str,
    *,
    actor: str,
    fence: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Moved:
    """Move a store into another database. Repeatable: after a crash the same call continues; once it is done, a repetition says
    so.

    fence: move even if living processes hold runs or are sending. They can write nothing any more, and open work is in doubt.
    dry_run: only report what would be moved.

    Raises Refused when a process holds something or the target is not new, Conflict when the source was moved elsewhere,
    Damaged when the source does not verify.
    """
    _check_urls(source, target)
    with _opened(source) as origin:
        departure = moved_away.departure(moved_away.facts_of(origin.engine))
        _check_destination(departure, target)
        held = [] if departure else holding(origin)
        if dry_run:
            return _report(origin, target, held, dry_run=True)
        departure = departure or _leave(origin, target, held, actor, fence=fence)
        _check_destination(departure, target)  # somebody else may have sent it elsewhere since
        if not departure.done:
            _arrive(origin, target, departure, progress)
            moved_away.say_done(origin.engine, departure)
        return _report(origin, target, held, fenced=departure.fenced)


def take_back(source: str, *, actor: str) -> None:
    """Open a store again that was moved away; only if what was made of it is given up. Recorded."""
    with _opened(source) as core:
        if moved_away.departure(moved_away.facts_of(core.engine)) is None:
            raise Invalid("this store was not moved", path="source")
        moved_away.unseal(core.engine)
        core.write(_say_taken_back, actor=actor, tenant=_first_tenant(core))


def _check_urls(source: str, target: str) -> None:
    for path, text in (("source", source), ("target", target)):
        if not url.parse(text).lasts:
            raise Invalid("a store in memory cannot be moved: it ends with its process", path=path)
    if url.lasting(source) == url.lasting(target):
        raise _same()


def _check_destination(departure: Departure | None, target: str) -> None:
    if departure is not None and departure.to != url.lasting(target):
        raise Conflict(f"this store was moved to {departure.to}", path="source")


def _same() -> Invalid:
    return Invalid("source and target are the same store", path="target")


@contextmanager
def _opened(where: str) -> Iterator[Core]:
    core = open_core(where, moving=True)
    try:
        core.read(_tenants, tenant=WHOLE_STORE)  # refused now, and not when the source is sealed already
        yield core
    finally:
        core.close()


# -- look and seal -----------------------------------------------------------------------------------------------------------


def holding(core: Core) -> list[Held]:
    """The leases that living processes hold. A process that is proved dead holds nothing, whatever its heartbeat says."""
    rows = core.read(lambda reads: reads.query(Q.leases_held, limit=1_000), tenant=WHOLE_STORE)
    return [Held(what, holder) for what, holder in rows if not core.liveness.is_dead(holder)]


def _leave(origin: Core, target: str, held: list[Held], actor: str, *, fence: bool) -> Departure:
    """The source says where it goes, and from then on continues nowhere else."""
    _refuse_held(held, fence=fence)
    _check_sound(origin, blobs=False)
    with _opened(target) as core:
        if core.uid == origin.uid:  # however its address is spelled
            raise _same()
        moved_away.expect(core.engine, origin.uid)
    reach("move.expected")
    to = url.lasting(target)
    origin.write(_say_moving, to, bool(held), actor=actor, tenant=_first_tenant(origin))
    reach("move.said")

    def departing() -> Departure:
        """Asked once nobody can take anything any more: verifying took its time, and somebody may have begun to work since."""
        now = holding(origin)
        _refuse_held(now, fence=fence)
        return Departure(to, bool(held or now))

    departure = moved_away.seal(origin.engine, departing)
    reach("move.sealed")
    return departure


def _refuse_held(held: list[Held], *, fence: bool) -> None:
    if held and not fence:
        names = ", ".join(holder.what for holder in held[:HELD_SHOWN])
        hint = "stop them and try again, or use --fence: they can write nothing more, and open calls are in doubt"
        raise Refused(f"processes are at work: {names}", path="source", hint=hint, held=held)


def _check_sound(core: Core, *, blobs: bool) -> None:
    report = verify.verify_store(core, blobs=blobs)
    if not report.ok:
        raise Damaged(f"the store does not verify: {report.problems[0]}", path="store", report=report)


def _say_moving(tx: Tx, to: str, held: bool) -> None:
    tx.record(Change("store.moving", _own(tx), None, Op.NOTE, doc={"to": to, "fenced": held}))


def _say_taken_back(tx: Tx) -> None:
    tx.record(Change("store.taken_back", _own(tx), None, Op.NOTE))


def _own(tx: Tx) -> Stream:
    """The store's own stream."""
    return tx.find_stream("store", "store") or tx.new_stream("store", "store")


def _first_tenant(core: Core) -> int:
    """The owner of the store's own stream: the first tenant, as for anchors."""
    tenants = core.read(_tenants, tenant=WHOLE_STORE)
    return tenants[0][0] if tenants else core.tenant_id("default")


def _tenants(reads: Reads) -> list[tuple[int, str]]:
    return [(number, name) for number, name in reads.query(Q.tenants_all)]


# -- carry -------------------------------------------------------------------------------------------------------------------


def _arrive(origin: Core, target: str, departure: Departure, progress: Progress | None) -> None:
    """Everything, from wherever an earlier attempt stopped, until the target is whole."""
    with _opened(target) as core:
        if moved_away.facts_of(core.engine).get(moved_away.ORIGIN) == origin.uid:
            return  # it was killed right before the source was told
        moved_away.expect(core.engine, origin.uid)
        _Carrier(origin, core, progress).run()
        _prove(origin, core)
        reach("move.proved")
        if moved_away.departure(moved_away.facts_of(origin.engine)) is None:
            raise Conflict(
                "this store was taken back while it was carried", path="source", hint="move it to a new place"
            )
        moved_away.welcome(core.engine, origin.uid, origin.epoch + int(departure.fenced))
        reach("move.welcomed")


class _Placed(NamedTuple):
    """A stream on its way: as the source and as the target number it, its parent there, and what its events mean."""

    here: Stream
    there: Stream | None
    translate: Seen | None


class _Carrier:
    """Carries blobs and events from a sealed store into one that nobody else has open."""

    def __init__(self, origin: Core, target: Core, progress: Progress | None) -> None:
        self._origin = origin
        self._target = target
        self._progress = progress
        tenants = origin.read(_tenants, tenant=WHOLE_STORE)
        self._tenants = {number: target.tenant_id(name) for number, name in tenants}
        self._copied = {number: origin.read(imported.of_tenant, number, tenant=number) for number, _ in tenants}
        self._placed: dict[int, _Placed] = {}
        self._have: dict[int, int] = {}  # the last event that the target has of a stream
        self._pruned: dict[int, frozenset[str]] = {}

    def run(self) -> None:
        """Blobs first: whatever an event needs is there before it."""
        for page in self._blob_pages():
            self._carry_blobs(page)
            reach("move.blobs")
        done, total = (core.read(_count, tenant=WHOLE_STORE) for core in (self._target, self._origin))
        for page in self._event_pages(max(0, done - SLACK_EVENTS)):
            done += self._carry_events(page)
            if self._progress:
                self._progress(done, total)
            reach("move.events")

    # -- blobs

    def _blob_pages(self) -> Iterator[list[tuple[Any, ...]]]:
        after = 0
        while page := self._origin.read(_blobs_after, after, tenant=WHOLE_STORE):
            yield page
            after = page[-1][0]

    def _carry_blobs(self, page: list[tuple[Any, ...]]) -> None:
        for tenant in sorted({row[1] for row in page}):
            rows = [row[1:] for row in page if row[1] == tenant]
            there = self._tenants[tenant]
            present = self._target.read(_present_blobs, [bytes(row[1]) for row in rows], tenant=there)
            fresh = [self._blob(there, *row) for row in rows if bytes(row[1]) not in present]
            self._target.write(_keep, fresh, actor="", tenant=there)

    def _blob(self, there: int, tenant: int, address: bytes, size: int, codec: int, data: bytes | None) -> BlobRow:
        """A blob's row for the target; one that lies in a place, or must lie there, is carried to the target's own place."""
        if data is not None and self._target.blobs.takes_over(size, codec):
            return there, bytes(address), size, codec, data
        pieces = self._origin.blobs.open(tenant, bytes(address), (size, codec, data))
        return artifacts.take_in(self._target.blobs, there, pieces)

    # -- events

    def _event_pages(self, number: int) -> Iterator[list[Event]]:
        """In the order of the feed, after so many."""
        pos, xid = self._origin.read(_nth, number, tenant=WHOLE_STORE)
        while True:
            rows = self._origin.read(_next, pos, xid, tenant=WHOLE_STORE)
            if not rows:
                return
            pos, xid = rows[-1][11], rows[-1][13]
            yield [Event(*row[:13]) for row in rows]

    def _carry_events(self, page: list[Event]) -> int:
        """One page, a commit for each tenant in it; returns how many of its events were new."""
        self._look_up({event.stream for event in page})
        fresh: dict[int, list[Event]] = {}
        for event in self._with_parents(page):
            if event.seq > self._have[event.stream]:
                self._have[event.stream] = event.seq
                fresh.setdefault(self._placed[event.stream].here.tenant, []).append(event)
        for tenant, events in fresh.items():
            places = {number: self._placed[number] for number in self._family(events)}
            pruned = {number: self._pruned[number] for number in places}
            new_streams = self._target.write(_bring, events, places, pruned, actor="", tenant=self._tenants[tenant])
            for number, stream in new_streams.items():
                self._placed[number] = self._placed[number]._replace(there=stream)
            self._note_pruned(events)
        return sum(map(len, fresh.values()))

    def _note_pruned(self, events: Iterable[Event]) -> None:
        for event in events:
            if event.body is None:
                self._pruned[event.stream] |= {event.table}

    def _family(self, events: Iterable[Event]) -> set[int]:
        """The streams of these events, and their parents."""
        own = {event.stream for event in events}
        return own | {parent for number in own if (parent := self._placed[number].here.parent) is not None}

    def _look_up(self, numbers: Iterable[int]) -> None:
        """Streams that were not met before, with their parents."""
        for number in sorted(set(numbers) - self._placed.keys()):
            rows = self._origin.read(
                lambda reads, number=number: reads.query(LOG.stream_by_id, id=number), tenant=WHOLE_STORE
            )
            here = Stream(*rows[0])
            there, have = self._target.read(find, here, tenant=self._tenants[here.tenant])
            copied = self._copied[here.tenant].get(here.uid.hex())
            self._placed[number] = _Placed(here, there, copied.translate if copied else None)
            self._have[number] = have
            self._pruned[number] = (
                self._origin.read(_pruned, number, have, tenant=WHOLE_STORE) if there else frozenset()
            )
            if here.parent is not None:
                self._look_up([here.parent])

    def _with_parents(self, page: list[Event]) -> Iterator[Event]:
        """The page, and before the first event of a fork what its parent has up to there: a transaction that began early may
        have forked what a later one wrote."""
        for event in page:
            here = self._placed[event.stream].here
            if here.parent is not None and self._have[here.parent] < here.fork_seq:
                parent = self._placed[here.parent].here
                yield from self._with_parents(
                    self._origin.read(_upto, parent, self._have[parent.id], here.fork_seq, tenant=WHOLE_STORE)
                )
            yield event


def _blobs_after(reads: Reads, after: int) -> list[tuple[Any, ...]]:
    return reads.query(Q.blobs_next, after=after, limit=PAGE_BLOBS)


def _count(reads: Reads) -> int:
    return reads.query(Q.events_count)[0][0]


def _nth(reads: Reads, number: int) -> tuple[int, int]:
    rows = reads.query(Q.events_nth, number=number - 1) if number else []
    return (rows[0][0], rows[0][1]) if rows else (0, 0)


def _next(reads: Reads, pos: int, xid: int) -> list[tuple[Any, ...]]:
    return reads.query(Q.events_next, pos=pos, xid=xid, limit=PAGE_EVENTS)


def _upto(reads: Reads, stream: Stream, after: int, upto: int) -> list[Event]:
    return [event for page in pages(reads, Slice(stream, upto), after) for event in page]


def _pruned(reads: Reads, stream: int, upto: int) -> frozenset[str]:
    return frozenset(table for (table,) in reads.query(LOG.pruned_tables, stream=stream, upto=upto))


def _present_blobs(reads: Reads, addresses: list[bytes]) -> set[bytes]:
    return reads.known(addresses)


def _keep(tx: Tx, rows: list[BlobRow]) -> None:
    for row in rows:
        tx.keep_row(row)


def _bring(
    tx: Tx, events: list[Event], places: dict[int, _Placed], pruned: dict[int, frozenset[str]]
) -> dict[int, Stream]:
    """Events in their order, of any streams of one tenant, in one commit. Returns the streams that are new here."""
    there = {number: placed.there for number, placed in places.items() if placed.there is not None}
    pruned_now, new_streams = dict(pruned), {}
    for event in events:
        stream = there.get(event.stream)
        if stream is None:
            here = places[event.stream].here
            stream = there[event.stream] = new_streams[event.stream] = place(tx, here, there.get(here.parent or 0))
        translate = places[event.stream].translate
        adopt(tx, stream, (event,), pruned_now[event.stream], RECORDED, *([translate] if translate else []))
        if event.body is None:
            pruned_now[event.stream] |= {event.table}
    return new_streams


# -- prove -------------------------------------------------------------------------------------------------------------------


def _prove(origin: Core, target: Core) -> None:
    """Every chain ends where it did, so every event is the same; and the target's rows are what its log gives."""
    ours, theirs = (core.read(_heads, tenant=WHOLE_STORE) for core in (origin, target))
    for tenant, uid in sorted(ours.keys() | theirs.keys()):
        if ours.get((tenant, uid)) != theirs.get((tenant, uid)):
            raise Damaged("a chain does not end in both stores with the same event", path=f"stream {uid.hex()}")
    _check_sound(target, blobs=True)


def _heads(reads: Reads) -> dict[tuple[str, bytes], Head]:
    return {(tenant, bytes(uid)): (seq, bytes(digest)) for tenant, uid, seq, digest in reads.query(Q.heads_all)}


def _counts(reads: Reads) -> tuple[int, int, int]:
    streams, events, blobs = reads.query(Q.counts)[0]
    return streams, events, blobs


def _report(core: Core, target: str, held: list[Held], *, fenced: bool = False, dry_run: bool = False) -> Moved:
    source, to = url.without_password(core.engine.url), url.without_password(target)
    return Moved(source, to, *core.read(_counts, tenant=WHOLE_STORE), held, fenced=fenced, dry_run=dry_run)

"""Verify: is everything in this store as it was written? And anchors, which say so about the ends of all
chains.

The plane behind `verify` and `anchor`. Stream by stream, each in one snapshot and in little memory: the
chain, then the fold against the rows, both ways, then the blobs. Reads only (but for recording an anchor).
It looks at the streams of all tenants, whoever asks, because a chain does not know them: a report names
streams (never what they say), so show it to who looks after the whole store. Keeps P5 and P6.

A tenant is checked by what its own stream calls it, and an anchor: `unnamed` lists those that the log never named. Some facts
are covered by no hash, and changes of them are not found: to which tenant a later stream belongs, an event's place in the feed as
long as it stays between its neighbours of the same stream, transaction ids of a batch, and a whole stream that went without a
trace when no anchor names it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, Protocol

import msgspec

from perdure.errors import Damaged, Error, Invalid, NotFound
from perdure.log.actors import is_random
from perdure.log.anchor import Anchor, AnchoredHead, faults_of, make_anchor
from perdure.log.chain import Chain
from perdure.log.change import Change, Op, Stream
from perdure.log.event import GENESIS, Body, Event
from perdure.log.table import Table, TableClass
from perdure.model.records.integrity import Counts, Problem, ProblemKind, Report, Unverifiable
from perdure.planes.audit import immutability, quarantine, tenant_names
from perdure.planes.audit.rebuild import Rebuild, RowDifference
from perdure.planes.audit.verify_blobs import BlobProblem, Outside, SeenBlobs, check_blobs, check_outside
from perdure.planes.execution import imported
from perdure.planes.reading.body_reading import doc_of
from perdure.planes.tables import ANCHORS
from perdure.stores.core import Core, Reader
from perdure.stores.statements import Statements
from perdure.stores.store import WHOLE_STORE, Reads
from perdure.stores.tx import LOG, Tx

Q = Statements("perdure.planes.audit", "verify.sql")

PAGE_EVENTS = 500
PAGE_STREAMS = 200
PROBLEMS_MAX = 1_000
PRUNED = "log.pruned"
MERGED = ("session.merged", "log.merged")  # events that name a stream anew: see interchange/merge.py

Progress = Callable[[int, int], None]


class Snapshots(Protocol):
    """Runs a read verb that sees one state of the store throughout: `core.snapshot`, or a transaction during
    a restore."""

    def __call__(self, verb: Callable[..., Any], *args: Any) -> Any:
        """Run `verb(reader, *args)`."""
        ...


def verify_store(
    core: Core,
    *,
    anchor: Anchor | None = None,
    public_key: bytes | None = None,
    progress: Progress | None = None,
    blobs: bool = True,
) -> Report:
    """Verify an open store; see `verify`."""

    def snapshots(verb: Callable[..., Any], *args: Any) -> Any:
        return core.snapshot(verb, *args, tenant=WHOLE_STORE)

    report = verify(snapshots, anchor=anchor, public_key=public_key, progress=progress, blobs=blobs)
    lost = [
        Problem(ProblemKind.SET_ASIDE, "", "", None, "", f"{aside.place}: {aside.reason}")
        for aside in core.engine.asides()
        if aside.lost
    ]
    lost += [Problem(ProblemKind.CACHE, "", "", None, "", says) for says in core.engine.contradictions()]
    return msgspec.structs.replace(report, problems=[*lost, *report.problems][:PROBLEMS_MAX]) if lost else report


def verify_tenant(core: Core, tenant: int, blobs: bool = True, progress: Progress | None = None) -> Report:
    """Verify the streams of one tenant: nothing is said about any other one (P11). progress: as in `verify`."""
    return verify(
        lambda verb, *args: core.snapshot(verb, *args, tenant=tenant), blobs=blobs, tenant=tenant, progress=progress
    )


def verify(
    snapshots: Snapshots,
    *,
    anchor: Anchor | None = None,
    public_key: bytes | None = None,
    progress: Progress | None = None,
    blobs: bool = True,
    tenant: int | None = None,
) -> Report:
    """Look at everything and report what is not as it was written. Others may write meanwhile.

    progress(done, total) counts events. Costs a fold of every stream, and with `blobs` one reading of every
    blob. tenant: only the streams of this one.
    """
    if anchor is not None and not isinstance(anchor, Anchor):
        what = type(anchor).__name__
        raise Invalid(f"expected an Anchor, got {what}", path="anchor", hint="read one with Anchor.from_json(text)")
    findings = Findings(quarantine.quarantined_marks(snapshots))
    signature = _check_anchor(findings, anchor, public_key)
    total: int = snapshots(lambda reads: reads.query(Q.events_total, tenant=tenant)[0][0])
    checked_blobs = SeenBlobs()
    for stream_id in _stream_ids(snapshots, tenant):
        _check_one(findings, snapshots, stream_id, progress, total)
        if blobs:
            with _readable(findings, partial(_where, snapshots, stream_id)):
                _check_blobs(findings, snapshots, stream_id, checked_blobs)
    if tenant is not None:
        return findings.report(checked_blobs.count, signature)
    with _readable(findings):
        findings.take(snapshots(check_strays))
    with _readable(findings):
        findings.take(snapshots(check_tenants))
    for heads in _pages(anchor.heads if anchor else []):
        with _readable(findings):
            findings.take(snapshots(check_anchored, heads))
    if progress:
        progress(findings.events, max(total, findings.events))
    return findings.report(checked_blobs.count, signature)


class Where(NamedTuple):
    """The description of a place that cannot be read."""

    stream: str = ""
    uid: str = ""
    seq: int | None = None
    says: str = ""


@contextmanager
def _readable(findings: Findings, where: Callable[[], Where] = Where) -> Iterator[None]:
    """A database that cannot read its own pages is a finding, and what else can be read is looked at."""
    try:
        yield
    except Damaged as error:
        stream, uid, seq, says = where()
        findings.add(Problem(ProblemKind.DATABASE_DAMAGED, stream, uid, seq, "", f"{error.message}{says}"))


def _where(snapshots: Snapshots, stream_id: int) -> Where:
    """Which stream it is, if its row can be read, and up to where its events can."""
    try:
        row = snapshots(_stream_row, stream_id)[0]
    except (Damaged, IndexError):
        return Where(f"number {stream_id}")
    stream, head = Stream(*row[:7]), row[7]
    last = _last_readable(snapshots, stream)
    if last == stream.fork_seq < head:
        return Where(
            stream.name, stream.uid.hex(), last + 1, f"; not even the first of its events (to {head}) can be read"
        )
    if last < head:
        return Where(stream.name, stream.uid.hex(), last + 1, f"; the last good event is {last} of {head}")
    return Where(stream.name, stream.uid.hex(), None, f"; all {head} events can be read, what was made of them cannot")


def _last_readable(snapshots: Snapshots, stream: Stream) -> int:
    """The last event before the first that cannot be read: page by page, then in ever smaller ones."""
    after, count = stream.fork_seq, PAGE_EVENTS
    while count:
        try:
            page = snapshots(_events_after, stream.id, after, count)
        except Damaged:
            count //= 2
            continue
        if page:
            after = page[-1][0]
        if len(page) < count:
            return after
    return after


def _events_after(reads: Reads, stream_id: int, after: int, limit: int) -> list[tuple[Any, ...]]:
    return reads.query(Q.events_checked, stream=stream_id, after=after, limit=limit)


class Findings:
    """The findings so far; problems beyond a bound are counted only."""

    def __init__(self, marks: frozenset[quarantine.ProblemMark] = frozenset()) -> None:
        self._quarantined_marks = marks  # damage that was put into quarantine
        self.quarantined: list[Problem] = []
        self.problems: list[Problem] = []
        self.unverifiable: list[Unverifiable] = []
        self.unnamed: list[str] = []  # tenants
        self.left_out = 0
        self.streams = self.events = self.rows = self.derived = self.plain_actors = 0

    def add(self, problem: Problem) -> None:
        """Keep a problem."""
        problems = self.quarantined if quarantine.mark_of(problem) in self._quarantined_marks else self.problems
        if len(problems) < PROBLEMS_MAX:
            problems.append(problem)
        else:
            self.left_out += 1

    def take(self, other: Findings) -> None:
        """Take over what a part found."""
        for problem in other.problems:
            self.add(problem)
        self.unverifiable += other.unverifiable
        self.unnamed += other.unnamed
        self.left_out += other.left_out
        self.streams += other.streams
        self.events += other.events
        self.rows += other.rows
        self.derived += other.derived
        self.plain_actors += other.plain_actors

    def count_row(self, table: Table) -> None:
        """Count a row that was compared."""
        if table.table_class is TableClass.RECORDED:
            self.rows += 1
        else:
            self.derived += 1

    def report(self, blobs: int, signature: str) -> Report:
        """The result of verify."""
        counts = Counts(self.streams, self.events, self.rows, self.derived, blobs, self.plain_actors)
        fields = (self.problems, self.unverifiable, counts, signature, self.left_out, self.unnamed, self.quarantined)
        return Report(*fields)


def _stream_ids(snapshots: Snapshots, tenant: int | None) -> Iterator[int]:
    after = 0
    while page := snapshots(_heads_after, after, tenant):
        for row in page:
            yield row[0]
        after = page[-1][0]


def _heads_after(reads: Reads, after: int, tenant: int | None = None) -> list[tuple[Any, ...]]:
    return reads.query(Q.heads_page, after=after, tenant=tenant, limit=PAGE_STREAMS)


# -- one stream ------------------------------------------------------------------------------------


def _check_one(findings: Findings, snapshots: Snapshots, stream_id: int, progress: Progress | None, total: int) -> None:
    done = findings.events

    def advance(events: int) -> None:
        if progress:
            progress(done + events, max(total, done + events))

    with _readable(findings, partial(_where, snapshots, stream_id)):
        findings.take(snapshots(check_stream, stream_id, advance))


def check_stream(reader: Reader, stream_id: int, advance: Callable[[int], None]) -> Findings:
    """Check one stream whole: chain, bodies, rows, derived rows. Call it inside a snapshot."""
    findings = Findings()
    rows = reader.query(Q.stream_now, stream=stream_id)
    if rows:
        StreamCheck(reader, rows[0], findings).run(advance)
    return findings


class StreamCheck:
    """The check of one stream."""

    def __init__(self, reader: Reader, row: tuple[Any, ...], findings: Findings) -> None:
        self._reader = reader
        self._stream = Stream(*row[:7])
        self._head: tuple[int, bytes] = (row[7], row[8])
        self._findings = findings
        self._copied = imported.of_stream(self._tenant_reader(), self._stream)
        self._rebuild = Rebuild(translate=self._copied.translate if self._copied else None)
        self._renamed: str | None = self._copied.name if self._copied else None
        self._emptied = {*(self._copied.emptied if self._copied else ())}  # events whose emptying was recorded
        self._place = (0, 0)  # in the feed, of the event before
        self._misplaced: list[int] = []
        self._opening: tuple[str, Body] | None = None  # kind and body of the first event

    def run(self, advance: Callable[[int], None]) -> None:
        """Everything, in order: what is the cause comes before what follows from it."""
        stream = self._stream
        chain = Chain(stream.uid, stream.fork_seq + 1, self._before_first())
        unreadable = [error for event in chain.follow(self._events(advance)) if (error := self._fold(event))]
        chain.end(*self._head)
        for fault in chain.breaks:
            self._problem(ProblemKind(fault.kind.value), fault.seq, "", fault.message)
        for seq in [] if chain.breaks else self._misplaced:  # else that is what follows from it
            self._problem(ProblemKind.EVENT_ALTERED, seq, "events", "in the feed it does not come after the one before")
        broken = {fault.seq for fault in chain.breaks}
        for seq, error in unreadable:
            if seq not in broken:
                self._problem(ProblemKind.EVENT_UNREADABLE, seq, "", error.message)
        self._judge_emptied(chain.emptied)
        self._check_name()
        for difference in self._rebuild.differences(self._reader, stream, self._findings.count_row):
            self._problem(_kind_of(difference), difference.seq, difference.table.name, str(difference))
        self._findings.streams += 1

    def _before_first(self) -> bytes:
        """The hash that the first event follows: nothing, or on a fork the event of its parent."""
        stream = self._stream
        if stream.parent is None:
            return GENESIS
        digest = _fork_hash(self._reader, stream)
        if not digest:
            what = f"its parent has no event {stream.fork_seq}, from which it continues"
            self._problem(ProblemKind.FORK_BROKEN, stream.fork_seq + 1, "", what)
        return digest

    def _events(self, advance: Callable[[int], None]) -> Iterator[Event]:
        after = self._stream.fork_seq
        while True:
            page = self._reader.query(Q.events_checked, stream=self._stream.id, after=after, limit=PAGE_EVENTS)
            for *columns, tenant, xid in page:
                event = Event(*columns)
                if tenant != self._stream.tenant:
                    self._problem(ProblemKind.EVENT_ALTERED, event.seq, "", "it claims another tenant")
                self._look_at_place(xid, event)
                self._findings.plain_actors += bool(event.actor) and not is_random(event.actor)
                yield event
            self._findings.events += len(page)
            advance(self._findings.events)
            if len(page) < PAGE_EVENTS:
                return
            after = page[-1][0]

    def _look_at_place(self, xid: int, event: Event) -> None:
        """In the feed, the events of a stream come in its order. (Transactions of another cluster come first, as 0.)"""
        before, self._place = self._place, (xid, event.position)
        if xid < before[0] or event.position <= before[1]:
            self._misplaced.append(event.seq)

    def _fold(self, event: Event) -> tuple[int, Error] | None:
        """Apply one event; what cannot be applied is returned, and the fold continues without it."""
        try:
            body = self._rebuild.add(event)
            if body is not None and event.seq == self._stream.fork_seq + 1:
                self._opening = (event.kind, body)
            if body is not None and event.kind in MERGED and isinstance(body.doc, Mapping):
                self._renamed = body.doc.get("name")
            if body is not None and event.kind == PRUNED and not event.table:
                doc = doc_of(self._tenant_reader(), event.body, f"seq {event.seq}") if body.doc_blob else body.doc
                self._emptied |= emptied_by(event, doc)
        except Error as error:
            return event.seq, error
        return None

    def _tenant_reader(self) -> Reads:
        return self._reader.of_tenant(self._stream.tenant)

    def _judge_emptied(self, emptied: list[int]) -> None:
        uid = self._stream.uid.hex()
        for seq in emptied:
            if seq in self._emptied:
                self._findings.unverifiable.append(Unverifiable(self._stream.name, uid, seq))
            else:
                self._problem(ProblemKind.BODY_EMPTIED, seq, "", "the body is gone and no prune names it")

    def _check_name(self) -> None:
        """Its first event (or who imported it) says what a stream is and is called: one that was renamed or swapped shows."""
        if self._opening is None:
            return
        kind, name = _opened_as(*self._opening)
        if kind != self._stream.kind:
            self._problem(
                ProblemKind.STREAM_ALTERED, None, "streams", f"it is a {kind} in its log, not a {self._stream.kind}"
            )
        if (self._renamed or name) != self._stream.name:
            self._problem(ProblemKind.STREAM_ALTERED, None, "streams", "the log knows this stream by another name")

    def _problem(self, kind: ProblemKind, seq: int | None, table: str, message: str) -> None:
        self._findings.add(Problem(kind, self._stream.name, self._stream.uid.hex(), seq, table, message))


def _opened_as(kind: str, body: Body) -> tuple[str, str | None]:
    """The kind and the name of a stream as its first event has them. A store's or tenant's own is named as its kind."""
    what = kind.partition(".")[0]
    if what in ("store", "tenant"):
        return what, what
    doc = body.doc if isinstance(body.doc, Mapping) else {}
    return what, body.set.get("name", doc.get("name"))


def _fork_hash(reads: Reads, stream: Stream) -> bytes:
    """The hash of the event that a fork continues from; empty if there is none. Parents may be missing or go
    in circles."""
    parent, passed = stream.parent, {stream.id}
    while parent is not None and parent not in passed:
        passed.add(parent)
        rows = reads.query(LOG.stream_by_id, id=parent)
        ancestor = Stream(*rows[0]) if rows else None
        if ancestor is None or stream.fork_seq > ancestor.fork_seq:
            hashes = reads.query(Q.event_hash, stream=parent, seq=stream.fork_seq)
            return hashes[0][0] if hashes else b""
        parent = ancestor.parent
    return b""


def _kind_of(difference: RowDifference) -> ProblemKind:
    if difference.table.table_class is TableClass.DERIVED:
        return ProblemKind.DERIVED_WRONG
    if difference.stored is None:
        return ProblemKind.ROW_MISSING
    return ProblemKind.ROW_UNRECORDED if difference.expected is None else ProblemKind.ROW_ALTERED


def emptied_by(event: Event, doc: Any) -> set[int]:
    """The events that a prune says it emptied: only earlier ones count."""
    seqs = doc.get("emptied") if isinstance(doc, Mapping) else None
    return {seq for seq in seqs if type(seq) is int and seq < event.seq} if isinstance(seqs, list) else set()


# -- blobs, strays ---------------------------------------------------------------------------------


def _check_blobs(findings: Findings, snapshots: Snapshots, stream_id: int, checked_blobs: SeenBlobs) -> None:
    """Blobs inside the database in a snapshot; large ones outside it, so that no transaction waits for a
    disk or network."""
    rows = snapshots(_stream_row, stream_id)
    if not rows:
        return
    stream = Stream(*rows[0][:7])
    problems: list[BlobProblem] = []
    outside: Outside = {}
    snapshots(check_blobs, stream, checked_blobs, problems, outside)
    for address, seq in outside.items():
        problems += snapshots(check_outside, stream, address, seq)
    for kind, seq, table, message in problems:
        findings.add(Problem(kind, stream.name, stream.uid.hex(), seq, table, message))


def _stream_row(reads: Reads, stream_id: int) -> list[tuple[Any, ...]]:
    return reads.query(Q.stream_now, stream=stream_id)


def check_strays(reader: Reader) -> Findings:
    """Events and rows of streams that do not exist, and the guards of the events."""
    findings = Findings()
    kind = ProblemKind.EVENT_ASTRAY
    for stream, seq, count in reader.query(Q.events_astray):
        findings.add(
            Problem(kind, f"number {stream}", "", seq, "events", f"{count} events of a stream that does not exist")
        )
    for table, stream, count in reader.query(Q.rows_astray):
        findings.add(
            Problem(kind, f"number {stream}", "", None, table, f"{count} rows of a stream that does not exist")
        )
    for table, what in immutability.faults(reader):
        findings.add(Problem(ProblemKind.GUARD_MISSING, "", "", None, table, what))
    return findings


# -- anchors ---------------------------------------------------------------------------------------


def _check_anchor(findings: Findings, anchor: Anchor | None, public_key: bytes | None) -> str:
    if anchor is None:
        return ""
    faults = faults_of(anchor, public_key)
    for fault in faults:
        findings.add(Problem(ProblemKind.ANCHOR_INVALID, "", "", None, "", fault))
    if public_key is None:
        return "unchecked" if anchor.signature else "unsigned"
    return "bad" if faults else "good"


def _pages(heads: list[AnchoredHead]) -> Iterator[list[AnchoredHead]]:
    for start in range(0, len(heads), PAGE_STREAMS):
        yield heads[start : start + PAGE_STREAMS]


def check_anchored(reads: Reads, heads: list[AnchoredHead]) -> Findings:
    """Every anchored head must still stand at its place, as an event with exactly that hash."""
    findings = Findings()
    for (uid, seq, digest), copies in Counter(heads).items():
        rows = reads.query(Q.anchored, uid=bytes.fromhex(uid), seq=seq)
        matching = [row for row in rows if row[2] == bytes.fromhex(digest)]
        others = [row for row in rows if row not in matching]  # of other tenants, or what became of one of these
        for row in [*matching, *others, *[None] * copies][:copies]:
            problem = _anchored_problem(uid, seq, bytes.fromhex(digest), row)
            if problem is not None:
                findings.add(problem)
    return findings


def _anchored_problem(uid: str, seq: int, digest: bytes, row: tuple[Any, ...] | None) -> Problem | None:
    if row is None:
        return Problem(ProblemKind.STREAM_MISSING, "", uid, None, "streams", f"the anchor saw it at {seq}")
    name, head_seq, event_hash = row
    if event_hash is None and head_seq < seq:
        what = f"the anchor saw it at {seq}, it ends at {head_seq}"
        return Problem(ProblemKind.TAIL_CUT, name, uid, head_seq + 1, "", what)
    if event_hash is None:
        return Problem(ProblemKind.EVENT_MISSING, name, uid, seq, "", "the anchor saw an event here")
    if event_hash != digest:
        return Problem(ProblemKind.REWRITTEN, name, uid, seq, "", "the anchor saw another event here")
    return None


def anchor_store(core: Core, private_key: bytes | None, actor: str) -> Anchor:
    """State all chain heads as of one moment, signed if a key is given, and record that this was done.

    The record (root, count and signature, not the heads) is an event of the store's own stream; keep the
    anchor elsewhere.
    """
    _, tenant = core.snapshot(_all_heads, tenant=WHOLE_STORE)
    core.write(tenant_names.record, actor=actor, tenant=tenant)  # before the heads are taken: the anchor covers it
    heads, tenant = core.snapshot(_all_heads, tenant=WHOLE_STORE)
    anchor = make_anchor(core.uid, core.epoch, core.clocks.now(), heads, private_key)
    core.write(record_anchor, anchor, actor=actor, tenant=tenant)
    return anchor


def quarantine_stream(core: Core, stream: str, because: str, actor: str, *, apply: bool) -> list[Problem]:
    """The problems that verify finds in a stream, by its uid or its name; with `apply`, recorded as known damage.

    NotFound when nothing is wrong with it; Conflict when several damaged streams have this name, TooLarge for too many problems.
    """
    report = verify_store(core)
    problems = quarantine.select(report, stream)
    if apply:
        (tenant,) = core.snapshot(lambda reads: reads.query(Q.tenant_first)[0], tenant=WHOLE_STORE)
        core.write(quarantine.record, problems, because, actor=actor, tenant=tenant)
    return problems


def _all_heads(reads: Reads) -> tuple[list[tuple[bytes, int, bytes]], int]:
    heads: list[tuple[bytes, int, bytes]] = []
    after = 0
    while page := _heads_after(reads, after):
        heads += [(uid, seq, digest) for _, uid, seq, digest in page]
        after = page[-1][0]
    (tenant,) = reads.query(Q.tenant_first)[0]
    if tenant is None:
        raise NotFound("there is nothing in this store yet that an anchor could state", path="store")
    return heads, tenant


def check_tenants(reader: Reader) -> Findings:
    """A tenant is called what the log says; one that it never named cannot be checked."""
    findings = Findings()
    problems, findings.unnamed = tenant_names.check(reader)
    for problem in problems:
        findings.add(problem)
    return findings


def record_anchor(tx: Tx, anchor: Anchor) -> int:
    """Record that an anchor was made."""
    stream = tx.find_stream("store", "store") or tx.new_stream("store", "store")
    columns = {"root": anchor.root, "heads": len(anchor.heads), "at": anchor.at}
    doc = {"epoch": anchor.epoch, "signature": anchor.signature, "key": anchor.key}
    return tx.record(Change("store.anchored", stream, ANCHORS, Op.INSERT, set=columns, doc=doc))

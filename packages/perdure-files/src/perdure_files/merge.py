"""Two logs that continued from a common one, as one: the union of what both wrote (docs/decisions/0013).

Streams that only they wrote follow ours, verbatim, hashes and all. A stream that both changed keeps ours; theirs becomes a stream
of its
own, `name@branch`, with every event as it was said: the same bodies, numbers and commitments, chained anew, because a chain names
its stream. A run is never doubled: it would be driven twice (P3). Nothing is lost in silence: the report names whatever did not
come over as it was. After a crash it is repeated; repeating it adds nothing. Callers: `perdure merge`. Keeps P3, P5, P6.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec

from perdure.artifacts.disk import DiskPlace
from perdure.errors import Damaged, NotFound, Refused
from perdure.log.actors import ACTORS, FORGOTTEN, NAMED, is_random
from perdure.log.change import Change, Op, Stream
from perdure.log.event import GENESIS, Event, decode_body, hash_event
from perdure.log.written import WrittenEvent, WrittenStream, event_read, from_hex, split_name
from perdure.model.limits import NAME_MAX_CHARS, check_name
from perdure.planes.audit.verify import PRUNED
from perdure.planes.execution import imported
from perdure.planes.retention import retain
from perdure.planes.tables import RECORDED, SESSIONS
from perdure.stores import migrate, moved_away, schema_upgrade
from perdure.stores.atomic_files import disk_errors
from perdure.stores.batch import EVENTS
from perdure.stores.core import Core, open_core
from perdure.stores.replay import Seen, adopt_event, meaning_of, verbatim
from perdure.stores.statements import Statements
from perdure.stores.store import Head, event_of
from perdure.stores.tx import LOG, Tx, introduce, own_stream
from perdure.stores.url import parse
from perdure_files.store.engine import FilesEngine
from perdure_files.store.layout import Layout
from perdure_files.store.line import WrittenBlob
from perdure_files.store.other_side import (
    BY_REF,
    OtherSideLog,
    account_of,
    conflict_is_over,
    from_conflict,
    in_folder,
    keep_conflict,
    opened,
)
from perdure_files.views.page_keeper import accompany

Q = Statements("perdure_files", "merge.sql")
_NOT_IN_A_NAME = re.compile(r"[^\w.-]+")
BRANCH_MAX_CHARS = 40


class Forked(msgspec.Struct, frozen=True):
    """A stream of theirs that could not keep its place: under which name it is here, and the last event that both have."""

    kind: str
    name: str
    now: str
    parted_after: int
    events: int


class Merged(msgspec.Struct, frozen=True):
    """The result of a merge. added: events that came over as they were; refused: streams of theirs that stay out, and why."""

    branch: str
    added: int
    forked: list[Forked]
    refused: list[tuple[str, str]]
    epoch: int


def merge(url: str, where: str | None, name: str = "", actor: str = "me") -> Merged:
    """Merge another log into a files store. where: a folder or a git ref; None: the conflict that `git merge` left in the log.

    Raises Refused (not a files store, one with a segment of each side, or theirs is another store, at work or moved away),
    NotFound or Invalid (no such other side), Damaged (its blobs are not there).
    """
    folder = parse(url).log_folder
    if folder is None:
        raise Refused(
            "only files stores are merged", path="store", hint="`perdure export` and `perdure import` move sessions"
        )
    layout = Layout(folder)
    with disk_errors(layout.folder, "store"):
        _check_whole(layout)
        if where is None:
            return _settle_conflict(url, layout, name, actor)
        with opened(layout, where, name) as theirs:
            _check_mergeable(in_folder(layout.folder, "ours"), theirs)
            return _into(url, theirs, actor, _merge)


def _settle_conflict(url: str, layout: Layout, name: str, actor: str) -> Merged:
    """Merge both sides of the conflict that git left in the log, and then what was written since on top of both."""
    theirs, since = _out_of_the_log(url, layout, name)
    merged = _into(url, theirs, actor, _merge)
    if since.lines:
        later = _into(url, since, actor, _go_on)
        notice = f"; the log as it was is kept in {keep_conflict(layout)}" if later.refused else ""
        refused = [*merged.refused, *((what, why + notice) for what, why in later.refused)]
        merged = msgspec.structs.replace(merged, refused=refused, epoch=later.epoch)
    conflict_is_over(layout)
    return merged


def _check_whole(layout: Layout) -> None:
    """Refuse a log of which git kept one segment of each side: which of them is ours cannot be told here."""
    for number in layout.contradicted():
        raise Refused(
            f"{layout.segment(number).name} lies beside {layout.packed(number).name}, and says something else: git merged "
            "branches of which one had closed this segment",
            path="log",
            hint=BY_REF,
        )


def _check_mergeable(ours: OtherSideLog, theirs: OtherSideLog) -> None:
    """Refuse what is no other side of ours: of two stores neither knows the external calls of the other (P3)."""
    if theirs.lines and not theirs.shares_a_past_with(ours):
        hint = "perdure export there, perdure import here: copies, whose runs wait for a person (git merge --abort undoes git's)"
        message = "their side is another store, which may be at work: its runs would be driven here too"
        raise Refused(message, path="theirs", hint=hint)
    if theirs.alive:
        message = "somebody is at work in their clone: its work there would be done here too"
        raise Refused(message, path="theirs", hint="end its workers and agents first, and let only one clone continue")
    _check_stayed(theirs)


def _check_stayed(theirs: OtherSideLog) -> None:
    """Refuse what was moved away: it continues there, and its runs would be driven here too."""
    departure = (
        moved_away.departure({moved_away.MOVED: theirs.store.moved}) if theirs.store and theirs.store.moved else None
    )
    if departure is not None:
        hint = "perdure export and import bring sessions; perdure move SRC --take-back there, if that one is given up"
        raise Refused(f"their side was moved to {departure.to}, and continues there", path="theirs", hint=hint)


def _check_conflict(ours: OtherSideLog, theirs: OtherSideLog, *, in_git: bool) -> None:
    """Refuse what git put together and cannot be merged: it takes blobs away that one side pruned and the other keeps."""
    _check_mergeable(ours, theirs)
    for side in (ours, theirs) if in_git else ():
        source, partition = DiskPlace(side.blobs), _partitions(side)
        for blob in _blobs_of(side):
            if not source.exists(partition(blob), blob.address):
                raise Refused(
                    "blobs are gone that one side keeps: the other had pruned them", path="blobs", hint=BY_REF
                )


def _out_of_the_log(url: str, layout: Layout, name: str) -> tuple[OtherSideLog, OtherSideLog]:
    with schema_upgrade.told("store"), disk_errors(layout.folder, "store"):
        layout.make()  # the lock is in a folder that a clone does not have before it is opened
        journal = FilesEngine(url, layout.folder).journal()
        journal.lock(10.0)
        try:
            return from_conflict(layout, name, partial(_check_conflict, in_git=parse(url).artifacts is None))
        finally:
            journal.close()


def _into(url: str, theirs: OtherSideLog, actor: str, verb: Callable[[Tx, OtherSideLog, str], Merging]) -> Merged:
    core = open_core(url)
    accompany(core)
    try:
        _bring_blobs(core, theirs)
        branch = _NOT_IN_A_NAME.sub("-", theirs.name).strip("-")[:BRANCH_MAX_CHARS] or "theirs"
        merging: Merging = core.write(verb, theirs, branch, actor=actor, tenant=0)
        return Merged(branch, merging.added, merging.forked, merging.refused, merging.epoch or core.epoch)
    finally:
        core.close()


# -- blobs -----------------------------------------------------------------------------------------------------------------


def _bring_blobs(core: Core, theirs: OtherSideLog) -> None:
    """Their blobs into our place, before anything refers to them."""
    source, lies_under = DiskPlace(theirs.blobs), _partitions(theirs)
    for blob in _blobs_of(theirs):
        number = core.tenant_id(blob.tenant)
        partition = core.blobs.partition(number)
        if core.blobs.place is None or core.blobs.place.exists(partition, blob.address):
            continue
        try:
            core.blobs.place.put(partition, source.open(lies_under(blob), blob.address))
        except NotFound:
            raise Damaged("a blob of theirs is not there", path=f"blob:{blob.address}") from None


def _partitions(side: OtherSideLog) -> Callable[[WrittenBlob], str]:
    """Under what a side has its blobs."""
    uid = (side.store.partition or side.store.uid) if side.store else ""
    numbers = {tenant.name: tenant.number for line in side.lines for tenant in line.tenants}
    return lambda blob: f"{uid}-{numbers.get(blob.tenant, 1)}"


def _blobs_of(theirs: OtherSideLog) -> list[WrittenBlob]:
    """Every blob that they keep in the end."""
    blobs: dict[tuple[str, str], WrittenBlob] = {}
    for line in theirs.lines:
        blobs.update({(blob.tenant, blob.address): blob for blob in line.blobs})
        for drop in line.drops:
            blobs.pop((drop.tenant, drop.address), None)
    return [*blobs.values()]


# -- events ----------------------------------------------------------------------------------------------------------------


def _merge(tx: Tx, theirs: OtherSideLog, branch: str) -> Merging:
    merging = Merging(tx, theirs, branch)
    merging.run()
    if merging.added or merging.forked:
        merging.epoch = _raised_epoch(tx, theirs)
    return merging


def _go_on(tx: Tx, since: OtherSideLog, branch: str) -> Merging:
    """Take over lines that were written into a log with conflict marks, on top of both sides, once both are here."""
    merging = Merging(tx, since, branch)
    merging.go_on()
    if merging.added:
        merging.epoch = _raised_epoch(tx, since)
    return merging


def _raised_epoch(tx: Tx, theirs: OtherSideLog) -> int:
    """Work under way on either side is settled anew: the other one may have done it. In the commit that brings it. Known
    from here: what was merged is reported without another look at a cache that may be left behind.
    """
    least = theirs.store.epoch if theirs.store else 0
    return migrate.next_epoch(schema_upgrade.script_on(tx.lend()), least)


class Merging:
    """One merge, inside one transaction."""

    def __init__(self, tx: Tx, theirs: OtherSideLog, branch: str) -> None:
        self._tx = tx
        self._theirs = theirs
        self._branch = branch
        self._sources: dict[str, WrittenStream] = {}
        self._events: dict[str, list[WrittenEvent]] = {}
        self._placed: dict[str, Stream] = {}  # where their streams are here
        self._after: dict[str, int] = {}  # of streams that come over as they are: the event after which they do
        self._parted: dict[str, int] = {}  # of streams that both changed: the last event that both have
        self._brought: set[tuple[str, int]] = set()
        self._pruned: dict[int, set[str]] = {}
        self._copies: dict[str, imported.Copied] = {}  # of their streams, those that they imported
        self._seen: dict[int, Seen] = {}  # the meaning of a stream's events here: some are copies of another store's
        self.added = 0
        self.epoch = 0  # the new one, if what came over raised it
        self.forked: list[Forked] = []
        self.refused: list[tuple[str, str]] = []
        for line in theirs.lines:
            self._sources.update({stream.uid: stream for stream in line.streams if stream.uid not in self._sources})

    def run(self) -> None:
        """First what is to become of each stream; then the lines that come over, in their order; then what stands apart."""
        self._hear()
        for blob in _blobs_of(self._theirs):
            self._keep(blob)
        for uid, source in self._sources.items():
            if self._events.get(uid):
                self._decide(uid, source, self._events[uid])
        for line in self._theirs.lines:
            for event in line.events:
                self._bring(event)
        for uid in self._parted:
            self._copy(uid, self._sources[uid], self._events[uid])
        self._empty()

    def _hear(self) -> None:
        """Read their statements, as far as each follows from those before. The rest is told: nothing can be made of it."""
        _, self._events, loose = account_of(self._theirs.lines)
        self._copies = self._imports()
        for uid, seq in loose.items():
            what = f"{self._sources[uid].kind} {self._sources[uid].name}" if uid in self._sources else f"stream {uid}"
            self.refused.append((what, f"their event {seq} follows nothing in their log: lines are missing there"))

    def _empty(self) -> None:
        """Their pruning of streams that came over is repeated here."""
        for line in self._theirs.lines:
            for uid, seq in line.empties:
                if (uid, seq) in self._brought:
                    self._tx.empty(self._placed[uid], [seq])

    def go_on(self) -> None:
        """Every event after the end of its stream here, as it is; what does not follow is refused."""
        for blob in _blobs_of(self._theirs):
            self._keep(blob)
        for line in self._theirs.lines:
            for event in line.events:
                try:
                    self._append(event)
                except Damaged as error:
                    self.refused.append((f"event {event.seq} of {event.stream}", error.message))

    def _append(self, event: WrittenEvent) -> None:
        uid = event.stream
        stream, source = self._placed.get(uid) or self._here(uid), self._sources.get(uid)
        if stream is None and source is not None:
            stream = self._begin(source, self._free_name(source), split_name(uid, "streams.uid")[0])
        if stream is None:
            raise Damaged("the stream that it continues from is not here", path="events.stream")
        if event.seq > self._tx.head(stream)[0]:
            self._adopt(uid, stream, [event_read(event, "events")])
            self.added += 1
        elif self._hash_at(stream, event.seq).hex() != event.hash:
            raise Damaged("another event has its number by now", path="events.seq")

    def _here(self, uid: str) -> Stream | None:
        """A stream by its identity."""
        raw, tenant = split_name(uid, "streams.uid")
        source = self._sources.get(uid)
        number = self._tenant(source.tenant if source else tenant) if source or tenant else None
        rows = self._tx.query(LOG.stream_by_uid, uid=raw, tenant=number)
        return Stream(*rows[0]) if rows else None

    def _keep(self, blob: WrittenBlob) -> None:
        self._tx.tenant, address = self._tenant(blob.tenant), from_hex(blob.address, 32, "blobs.address")
        if not self._tx.known([address]):
            self._tx.keep_row((self._tx.tenant, address, blob.size, 0, None))

    # -- what they imported ------------------------------------------------------------------------------------------------

    def _imports(self) -> dict[str, imported.Copied]:
        """Read their tenants' statements about copies. Here only our own are believed, so what comes over is noted by them
        (`_note`).
        """
        copies: dict[str, imported.Copied] = {}
        for uid, source in self._sources.items():
            if _is_tenants_own(source):
                self._tx.tenant = self._tenant(source.tenant)
                bodies = [bytes(event.body) for event in self._events.get(uid, []) if event.kind == imported.NOTED]
                copies |= imported.noted(self._tx, bodies)
        return copies

    def _note(self, uid: str, stream: Stream, after: int) -> None:
        """Say which of the events that come over, after one, are copies, before they come."""
        copied = self._copies.get(uid)
        if copied is not None:
            self._tx.tenant = stream.tenant
            imported.note_copies(self._tx, stream, copied, after)

    def _meaning(self, stream: Stream) -> Seen:
        if stream.kind == imported.TENANT:
            self._seen.clear()
            return verbatim
        if stream.id not in self._seen:
            self._tx.tenant = stream.tenant
            self._tx.relieve()
            self._seen[stream.id] = meaning_of(self._tx, stream)
        return self._seen[stream.id]

    # -- what is to become of a stream ---------------------------------------------------------------------------------------

    def _decide(self, uid: str, source: WrittenStream, events: list[WrittenEvent]) -> None:
        ours = self._here(uid)
        if source.parent in self._parted and source.fork > self._parted[source.parent]:
            self._parted[uid] = source.fork  # it began from an event that stands apart here
        elif _is_tenants_own(source):
            self._decide_tenants_own(uid, ours, events)
        elif ours:
            self._placed[uid] = ours
            self._decide_shared(uid, source, events)
        elif source.kind == "run" and self._has_run(source, events[0]):
            self.refused.append((f"run {source.name}", "a run with this key was started here too: ours continues"))
        else:
            self._after[uid] = source.fork

    def _decide_tenants_own(self, uid: str, ours: Stream | None, events: list[WrittenEvent]) -> None:
        """It stands apart, even if ours did not continue: of what theirs says some may be copies there and originals here."""
        parted = self._parting(ours, events) if ours else 0
        rest = [event for event in events if event.seq > parted]
        if {event.kind for event in rest} <= {NAMED, FORGOTTEN, PRUNED}:
            self._meet(self._sources[uid].tenant, rest)
        elif parted < events[-1].seq:
            self._parted[uid] = parted

    def _meet(self, tenant: str, events: list[WrittenEvent]) -> None:
        """Introduce the actors that only they have met: a directory says nothing else, so nothing has to stand apart."""
        self._tx.tenant = self._tenant(tenant)
        for body in [decode_body(bytes(event.body)) for event in events if event.kind == NAMED and bytes(event.body)]:
            own, actor, name = own_stream(self._tx, self._tx.tenant), str(body.key.get("actor")), body.set.get("name")
            touches, values = [(ACTORS, own.id)], {"tenant": self._tx.tenant, "actor": actor}
            if is_random(actor) and not self._tx.query(LOG.actor_named, touches=touches, **values):
                introduce(self._tx, own, actor, check_name(name, "actor"))

    def _decide_shared(self, uid: str, source: WrittenStream, events: list[WrittenEvent]) -> None:
        """A stream that both have: theirs continues from ours, or ours from theirs, or they parted."""
        stream = self._placed[uid]
        parted = self._parting(stream, events)
        if parted == events[-1].seq:
            return
        if parted == self._tx.head(stream)[0]:
            self._after[uid] = parted
        elif source.kind == "run":
            self.refused.append((f"run {source.name}", f"both continued after event {parted}: ours continues"))
        else:
            self._parted[uid] = parted

    def _parting(self, stream: Stream, events: list[WrittenEvent]) -> int:
        """The last event that both have."""
        ours = {seq: bytes(digest).hex() for seq, digest in self._tx.query(Q.event_hashes, stream=stream.id)}
        return max((event.seq for event in events if ours.get(event.seq) == event.hash), default=stream.fork_seq)

    def _has_run(self, source: WrittenStream, first: WrittenEvent) -> bool:
        body = decode_body(bytes(first.body)) if bytes(first.body) else None
        key = body.set.get("key") if body else None
        if body is None or key is None:
            return False
        about = {"tenant": self._tenant(source.tenant), "agent": body.set.get("agent"), "key": key}
        return bool(self._tx.query(Q.run_by_key, **about)[0][0])

    # -- bringing it over ----------------------------------------------------------------------------------------------------

    def _bring(self, event: WrittenEvent) -> None:
        """One event of a stream that comes over as it is."""
        uid = event.stream
        if uid not in self._after or event.seq != self._after[uid] + 1:
            return
        source = self._sources[uid]
        stream = self._placed.get(uid) or self._begin(
            source, self._free_name(source), split_name(uid, "streams.uid")[0]
        )
        if (uid, event.seq - 1) not in self._brought:
            self._note(uid, stream, event.seq - 1)
        self._adopt(uid, stream, [event_read(event, "events")])
        self._after[uid] = event.seq
        self.added += 1
        if event is self._events[uid][-1] and stream.name != source.name:
            self._name(stream, source, source.fork)

    def _copy(self, uid: str, source: WrittenStream, events: list[WrittenEvent]) -> None:
        """Theirs as a stream of its own: the same every time, so that a repeated merge finds it."""
        own = hashlib.sha256(f"perdure.merge {uid} {events[-1].hash}".encode()).digest()[:16]
        stream = self._here(own.hex()) or self._begin(source, self._free_name(source, always=True), own)
        self._placed[uid] = stream
        head = self._tx.head(stream)
        rest = [event_read(event, "events") for event in events if event.seq > head[0]]
        if rest:
            self._note(uid, stream, head[0])
        self._adopt(uid, stream, [*_chained(own, rest, head)])
        if self._tx.head(stream)[0] == events[-1].seq:
            self._name(stream, source, self._parted[uid])

    def _begin(self, source: WrittenStream, name: str, uid: bytes) -> Stream:
        self._tx.tenant = self._tenant(source.tenant)
        parent = self._parent(source)
        head: Head = (0, GENESIS) if parent is None else (source.fork, self._hash_at(parent, source.fork))
        self._placed[source.uid] = self._tx.new_stream(source.kind, name, parent, head, uid=uid)
        return self._placed[source.uid]

    def _parent(self, source: WrittenStream) -> Stream | None:
        """The stream that it was forked from, as it stands here: of a stream that parted, ours up to where it did, then
        theirs.
        """
        if not source.parent:
            return None
        parent = self._placed.get(source.parent)
        if parent is None or source.fork <= self._parted.get(source.parent, 0):
            parent = self._here(source.parent)
        if parent is None:
            raise Damaged("the stream that it was forked from is not in their log", path=source.name)
        return parent

    def _hash_at(self, parent: Stream, seq: int) -> bytes:
        rows = self._tx.query(LOG.event_by_seq, touches=[(EVENTS, parent.id)], stream=parent.id, seq=seq)
        if not rows:
            raise Damaged(f"the parent has no event {seq}", path=parent.name)
        return event_of(rows[0]).hash

    def _adopt(self, uid: str, stream: Stream, events: list[Event]) -> None:
        pruned, meaning = self._pruned.setdefault(stream.id, set()), self._meaning(stream)
        for event in events:
            self._brought.add((uid, event.seq))
            if event.body is None:
                pruned.add(event.table)
            adopt_event(self._tx, stream, event, self._tx.head(stream), RECORDED, meaning, pruned=event.table in pruned)
        retain.follow_pruning(self._tx, stream, events)

    # -- names -------------------------------------------------------------------------------------------------------------

    def _tenant(self, name: str) -> int:
        rows = self._tx.query(LOG.tenant_by_name, name=name)
        return rows[0][0] if rows else self._tx.new_tenant(name)

    def _free_name(self, source: WrittenStream, *, always: bool = False) -> str:
        """Its own, if nobody has it; else with the branch, and a number if need be."""
        self._tx.tenant = self._tenant(source.tenant)
        if not always and self._tx.find_stream(source.kind, source.name) is None:
            return source.name
        ends = (f"@{self._branch}{f'-{number}' if number > 1 else ''}" for number in range(1, 1_000_000))
        names = (f"{source.name[: NAME_MAX_CHARS - len(end)]}{end}" for end in ends)  # a longer one could not be opened
        return next(name for name in names if self._tx.find_stream(source.kind, name) is None)

    def _name(self, stream: Stream, source: WrittenStream, parted: int) -> None:
        """Say in the stream itself what it is called here, and where it comes from."""
        doc: dict[str, Any] = {"name": stream.name, "of": source.uid, "after": parted, "branch": self._branch}
        if source.kind == "session":
            change = Change("session.merged", stream, SESSIONS, op=Op.SET, set={"name": stream.name}, doc=doc)
        else:
            change = Change("log.merged", stream, None, op=Op.NOTE, doc=doc)
        self._tx.record(change)
        theirs = self._events[source.uid][-1].seq - parted
        self.forked.append(Forked(source.kind, source.name, stream.name, parted, theirs))


def _is_tenants_own(source: WrittenStream) -> bool:
    return (source.kind, source.name) == (imported.TENANT, imported.TENANT)


def _chained(uid: bytes, events: list[Event], head: Head) -> Iterator[Event]:
    """These events in another stream: each follows the one before it there."""
    previous = head[1]
    for event in events:
        previous = hash_event(uid, event, previous)
        yield msgspec.structs.replace(event, hash=previous)

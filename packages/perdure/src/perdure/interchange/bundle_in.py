"""Import: a bundle becomes streams of this store. All is verified before anything is written, and then written in one commit.

    look      the container, the manifest, every line, every chain, every row that the events give, every blob
    rehearse  the whole import into an empty store: what a database, `verify` or a listing refuses is found before ours is touched
    compare   what the store has of these streams: the same beginning (then it grows, or stays), or a Conflict
    carry     large blobs to the artifact place: durable before the commit that needs them (P1); else they are orphans there
    write     one transaction: blobs, who imported what (`execution.imported`), events, rows; checked once more on the way in

Importing again changes nothing. Open work in a copy is nobody's here (docs/decisions/0014). Callers: the handles. Keeps P3,
P4, P6, P10 and P11 (the store says for which tenant, never the bundle).
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from perdure.errors import Conflict, Damaged, Error, Invalid
from perdure.interchange.bundle import LOG as LOG_MEMBER
from perdure.interchange.bundle import Bundle, opening, template
from perdure.interchange.bundle_out import Progress, needed_blobs
from perdure.interchange.rehearsal import rehearse
from perdure.log.actors import ACTORS, is_random
from perdure.log.change import Stream
from perdure.log.event import Event
from perdure.log.written import WrittenStream
from perdure.model.crash_points import reach
from perdure.model.instants import FIRST_US, LAST_US
from perdure.model.limits import BLOB_IN_DATABASE_MAX_BYTES, VALUE_MAX_BYTES, check_name
from perdure.model.records.bundles import Arrived, ImportedBundle, Listed
from perdure.planes.audit.rebuild import Rebuild
from perdure.planes.audit.verify import PRUNED, emptied_by
from perdure.planes.conversation import artifacts
from perdure.planes.execution import imported, parked_runs, requests, runs
from perdure.planes.reading.row_reading import stored_address
from perdure.planes.retention import retain
from perdure.planes.tables import ANCHORS, EFFECTS, ENTRIES, RECORDED, RUNS, SESSIONS, TASKS
from perdure.stores.blobs import BlobRow
from perdure.stores.core import Core
from perdure.stores.postgres_types import type_of
from perdure.stores.replay import adopt, find, place, pruned_in
from perdure.stores.store import Fault, FaultKind, Reads, event_of
from perdure.stores.tx import LOG, Tx, introduce, own_stream

PAGE_BLOBS = 100
# Tables of which only a stream of this kind has a row.
_OWN = {"session": SESSIONS, "run": RUNS, "store": ANCHORS, "tenant": ACTORS}

Names = Mapping[str, str]  # of sessions: as the bundle has them, and as they are to be called here


class IncomingStream(NamedTuple):
    """One stream on its way in: its name here, that of a run's session, its key, and how far the store has it already."""

    listed: Listed
    written: WrittenStream
    name: str
    session: str | None
    keys: StreamKeys
    emptied: list[int]  # events that one pruned that is not in the bundle: a fork's parent ends where it left
    known: int = 0
    apart: bool = False  # its keys are not to be held here


class StreamKeys(NamedTuple):
    """The keys that a stream holds: of a run, as agent and key; all of them, as an import names them."""

    run: tuple[str, str] | None
    held: tuple[str, ...]


class Looked(NamedTuple):
    """The findings in a bundle that is sound."""

    digest: str
    tenant: str
    streams: list[tuple[Listed, WrittenStream]]
    keys: list[StreamKeys]
    emptied: list[list[int]]
    blobs: dict[bytes, int]
    actors: dict[str, str]  # the names behind the random names in its headers
    documents: frozenset[bytes]  # those of the blobs that stand for a part of an event
    log_bytes: int


# -- look --------------------------------------------------------------------------------------------------------------------


def look(path: Path, progress: Progress | None = None) -> Looked:
    """Verify a whole bundle, without any store. Invalid, TooLarge or Damaged says what is wrong with it, and where."""
    with opening(path) as bundle:
        looked = _look(bundle, progress or (lambda _done, _total: None))
    _rehearse(path, looked)
    return looked


def _look(bundle: Bundle, progress: Progress) -> Looked:
    streams, blobs = bundle.streams(), bundle.blobs
    _check_blobs(bundle, blobs)
    needed: set[bytes] = set()
    keys, emptied, documents = [], [], set[bytes]()
    done = 0
    for folded in _folded(bundle, streams):
        needed |= needed_blobs(folded.rebuild, lambda addresses: {key: _node(bundle, key) for key in addresses})
        keys.append(_check_rows(folded.rebuild, folded.listed))
        emptied.append(sorted(folded.emptied))
        documents |= folded.documents
        progress(done := done + folded.count, bundle.manifest.events)
    for address in sorted(needed ^ blobs.keys()):
        what = "an event needs it, and it is not in the bundle" if address in needed else "no event needs it"
        raise Damaged(what, path=f"blobs/{address.hex()}")
    actors = _checked_actors(bundle.manifest.actors)
    return Looked(
        digest=bundle.digest,
        tenant=bundle.manifest.tenant,
        streams=streams,
        keys=keys,
        emptied=emptied,
        blobs=blobs,
        actors=actors,
        documents=frozenset(documents),
        log_bytes=bundle.members[LOG_MEMBER].size,
    )


def _checked_actors(actors: dict[str, str]) -> dict[str, str]:
    for actor, name in actors.items():
        if not is_random(actor):
            raise Damaged(
                "the list of actors names something that is no random name", path=f"manifest.json actors {actor[:60]!r}"
            )
        check_name(name, f"manifest.json actors {actor}")
    return actors


def _check_blobs(bundle: Bundle, blobs: Collection[bytes]) -> None:
    for address in blobs:
        for _ in bundle.blob(address):
            pass


def _node(bundle: Bundle, address: bytes) -> bytes:
    """A node of a state, which is small: a large one is none."""
    if bundle.blobs.get(address, 0) > VALUE_MAX_BYTES:
        raise Damaged(f"a part of a state has at most {VALUE_MAX_BYTES} bytes", path=f"blobs/{address.hex()}")
    return b"".join(bundle.blob(address))


class _Folded:
    """The rows that the events of a stream give, as copies; how many events those were, and which no prune among them emptied."""

    def __init__(self, listed: Listed) -> None:
        self.listed = listed
        self.rebuild = Rebuild(translate=_copied(listed, listed.name, listed.session or None).translate)
        self.count = 0
        self.emptied: set[int] = set()
        self.documents: set[bytes] = set()

    def add(self, event: Event) -> None:
        try:
            body = self.rebuild.add(event)
        except Error as error:
            raise Damaged(error.message, path=f"{self.listed.path} seq {event.seq}") from None
        self.count += 1
        if body is not None and body.doc_blob:
            self.documents.add(stored_address(body.doc_blob, f"{self.listed.path} seq {event.seq}"))
        if body is None:
            self.emptied.add(event.seq)
        elif event.kind == PRUNED and not event.table:
            self.emptied -= emptied_by(event, body.doc)


def _folded(bundle: Bundle, streams: list[tuple[Listed, WrittenStream]]) -> Iterator[_Folded]:
    for number, pages in itertools.groupby(bundle.pages(), key=lambda numbered: numbered[0]):
        folded = _Folded(streams[number][0])
        for _, page in pages:
            for event in page:
                folded.add(event)
        yield folded


def _check_rows(rebuild: Rebuild, listed: Listed) -> StreamKeys:
    """Every cell must be one that a database can hold; what else is wrong with it, the database says. Gives its keys."""
    for table, rows in rebuild.rows.items():
        for row, seq in rows.values():
            for column, value in row.items():
                fits = column in table.all_columns and _is_cell(value, type_of(table.name, column))
                if not fits or (column.endswith("_at") and value is not None and not FIRST_US <= value <= LAST_US):
                    raise Damaged(f"{table.name}.{column} cannot be stored", path=f"{listed.path} seq {seq}")
    if [*map(len, map(list, map(rebuild.rows_of, _OWN.values())))] != [int(kind == listed.kind) for kind in _OWN]:
        raise Damaged(f"the log does not say what this {listed.kind} is, or says too much", path=listed.path)
    run = next(((row["agent"], row["key"]) for row in rebuild.rows_of(RUNS) if row["key"] is not None), None)
    effects = [row["key"] for row in rebuild.rows_of(EFFECTS) if row["place"] is None]
    tasks = [row["key"] for row in rebuild.rows_of(TASKS) if row["key"] is not None]
    requests = [row["name"] for row in rebuild.rows_of(ENTRIES)] if listed.name.startswith(imported.REQUESTS) else []
    return StreamKeys(run, ((run[1],) if run else ()) + (*effects, *tasks, *requests))


def _is_cell(value: Any, kind: str) -> bool:
    """Whether a column of this type, in whatever database, gives back exactly this value."""
    if type(value) is int:
        return kind == "bigint" and -(2**63) <= value < 2**63
    if type(value) is str:
        return (
            kind == "text"
            and "\0" not in value
            and (value.isascii() or value.encode(errors="replace").decode() == value)
        )
    return value is None or (type(value) is bytes and kind == "bytea")


def _rehearse(path: Path, looked: Looked) -> None:
    """Import it into a store of its own, with its documents."""
    documents = {address: size for address, size in looked.blobs.items() if address in looked.documents}
    uids = [listed.uid for listed, _ in looked.streams]
    rehearse(
        partial(bring_in, path=path, looked=looked._replace(blobs=documents), names={}, large={}),
        uids,
        looked.log_bytes + sum(documents.values()),
    )


# -- compare -----------------------------------------------------------------------------------------------------------------


def plan(reads: Reads, path: Path, looked: Looked, names: Names, *, apart: bool = False) -> list[IncomingStream]:
    """The plan for each stream. Conflict names a stream (and the event) where this store has another."""
    new_names = _new_names(looked, names)
    called: dict[str, str] = {}  # sessions of the bundle by uid: what they are called here
    planned = []
    for (listed, written), keys, emptied in zip(looked.streams, looked.keys, looked.emptied, strict=True):
        name = new_names[listed.name] if listed.kind == "session" else listed.name
        session = called.get(listed.session_uid) or _session_here(reads, listed)
        coming = _as_here(reads, IncomingStream(listed, written, name, session, keys, emptied, apart=apart))
        if listed.kind == "session":
            called[listed.uid] = coming.name
        planned.append(coming)
    _check_beginnings(reads, path, planned)
    return planned


def _new_names(looked: Looked, names: Names) -> dict[str, str]:
    sessions = [listed.name for listed, _ in looked.streams if listed.kind == "session"]
    for old, new in names.items():
        check_name(new, f"rename {old}")
        if old not in sessions:
            raise Invalid(f"there is no session {old!r} in the bundle", path=f"rename {old}")
    new_names = {name: names.get(name, name) for name in sessions}
    if len(set(new_names.values())) != len(new_names):
        raise Invalid("two sessions would have the same name", path="rename")
    return new_names


def _session_here(reads: Reads, listed: Listed) -> str | None:
    """The name that the very session of a run has here; None if it is not here: another one may have its name."""
    if not listed.session_uid:
        return None
    rows = reads.query(LOG.stream_by_uid, uid=bytes.fromhex(listed.session_uid), tenant=reads.tenant)
    return next((stream.name for row in rows if (stream := Stream(*row)).kind == "session"), None)


def _as_here(reads: Reads, coming: IncomingStream) -> IncomingStream:
    """The stream, and how far the store has it; a stream that is here keeps the name that it has here, and a run its session."""
    sought = template(coming.listed, coming.written, coming.name)
    stream, seq = find(reads, sought)
    if stream is None and (refusal := _clash(reads, coming)):
        stream, seq = find(reads, sought)  # a process that took it since that look may have imported this very stream
        if stream is None:
            raise refusal
    if stream is None:
        return coming._replace(known=coming.written.fork)
    if stream.kind != coming.listed.kind:
        raise Conflict(f"this stream is a {stream.kind} here", path=coming.listed.path)
    if isinstance(reads, Tx):
        reads.lock(stream)
        seq = reads.seq(stream)
    session = (reads.row(RUNS, stream) or {}).get("session") if stream.kind == "run" else None
    return coming._replace(known=min(seq, coming.listed.last), name=stream.name, session=session)


def _clash(reads: Reads, coming: IncomingStream) -> Conflict | None:
    """The property of a new stream that another one here has: its name, or the key of a run."""
    listed = coming.listed
    if reads.query(LOG.stream_by_name, tenant=reads.tenant, kind=listed.kind, name=coming.name):
        hint = f"--rename {listed.name}=OTHER imports it under another name" if listed.kind == "session" else ""
        return Conflict(f"another {listed.kind} has this name", path=f"{listed.kind} {coming.name}", hint=hint)
    agent, key = coming.keys.run or ("", "")
    if key and not coming.apart and reads.query(runs.Q.run_by_key, tenant=reads.tenant, agent=agent, key=key):
        hint = "--keys-apart imports it without its keys"
        return Conflict(f"the key {key!r} belongs to another run of {agent}", path=listed.path, hint=hint)
    return None


def _check_beginnings(reads: Reads, path: Path, planned: list[IncomingStream]) -> None:
    """Events of these streams that the store has already must be the same. Costs nothing if it has none of them."""
    if all(coming.known == coming.written.fork for coming in planned):
        return
    with opening(path) as bundle:
        for number, page in bundle.pages():
            _check_same(reads, planned[number], [event for event in page if event.seq <= planned[number].known])


def _check_same(reads: Reads, coming: IncomingStream, page: list[Event]) -> None:
    if not page:
        return
    stream, _ = find(reads, template(coming.listed, coming.written, coming.name))
    assert stream is not None
    rows = reads.query(LOG.events_page, stream=stream.id, after=page[0].seq - 1, upto=page[-1].seq, limit=len(page))
    here = {row[0]: event_of(row).hash for row in rows}
    for event in page:
        if here.get(event.seq) != event.hash:
            hint = "they went different ways: import it into another store"
            raise Conflict(
                "this store has another event here",
                path=f"{coming.listed.path} seq {event.seq}",
                hint=hint,
                seq=event.seq,
            )


# -- carry and write ---------------------------------------------------------------------------------------------------------


def carry(core: Core, tenant: int, path: Path, blobs: Mapping[bytes, int]) -> dict[bytes, BlobRow]:
    """Take in the large blobs; gives the rows that are still to be written. Blocking work, outside the lane."""
    large = [address for address, size in blobs.items() if size > BLOB_IN_DATABASE_MAX_BYTES]
    rows: dict[bytes, BlobRow] = {}
    if large:
        with opening(path) as bundle:
            for address in large:
                rows[address] = artifacts.take_in(core.blobs, tenant, bundle.blob(address))
                reach("import.carried")
    return rows


def bring_in(
    tx: Tx, path: Path, looked: Looked, names: Names, large: Mapping[bytes, BlobRow], *, apart: bool = False
) -> list[Arrived]:
    """Write it all, in this one transaction; nothing if anything is refused."""
    planned = plan(tx, path, looked, names, apart=apart)
    if any(coming.known < coming.listed.last for coming in planned):
        with opening(path) as bundle:
            if bundle.digest != looked.digest:
                raise Conflict("the bundle was changed while it was imported", path=str(path))
            _keep_blobs(tx, bundle, looked.blobs, large)
            _meet(tx, looked.actors)
            _Arrival(tx, bundle, planned).run()
    return [_arrived(tx, coming) for coming in planned]


def _meet(tx: Tx, actors: Mapping[str, str]) -> None:
    """Introduce the actors that this tenant has not heard of. Those that it knows stay as they are."""
    own = own_stream(tx, tx.tenant) if actors else None
    for actor, name in actors.items():
        if own and not tx.query(LOG.actor_named, touches=[(ACTORS, own.id)], tenant=tx.tenant, actor=actor):
            introduce(tx, own, actor, name)


def _keep_blobs(tx: Tx, bundle: Bundle, blobs: Collection[bytes], large: Mapping[bytes, BlobRow]) -> None:
    missing = set(blobs) - tx.known(blobs)
    for at, address in enumerate(sorted(missing), 1):
        tx.keep_row(large[address] if address in large else tx.pack(b"".join(bundle.blob(address))))
        if at % PAGE_BLOBS == 0:
            tx.relieve()


class _Arrival:
    """The streams of a bundle, one after the other, in one transaction."""

    def __init__(self, tx: Tx, bundle: Bundle, planned: list[IncomingStream]) -> None:
        self._tx = tx
        self._bundle = bundle
        self._planned = planned
        self._placed: dict[str, Stream] = {}
        self._pruned: frozenset[str] = frozenset()

    def run(self) -> None:
        """Every event that the store has not."""
        at = -1
        for number, page in self._bundle.pages():
            coming = self._planned[number]
            if number != at:
                self._begin(coming)
                at = number
            with _refusals(coming.listed):
                self._add(coming, page)
                self._tx.relieve()
            reach("import.page")

    def _begin(self, coming: IncomingStream) -> None:
        """A stream, and what is said about it before its first event comes."""
        written, tx = coming.written, self._tx
        self._pruned = frozenset()
        stream = place(tx, template(coming.listed, written, coming.name), self._placed.get(written.parent))
        self._placed[coming.listed.uid] = stream
        if coming.known < coming.listed.last:
            if tx.seq(stream) != coming.known:  # somebody else has begun it since it was planned: the lane looks again
                raise Fault(FaultKind.RACED, "another import was faster")
            for span in imported.spans(coming.known, coming.listed.last, coming.emptied):
                imported.note(tx, stream, coming.session, span, self._bundle.digest, apart=coming.apart)

    def _add(self, coming: IncomingStream, page: list[Event]) -> None:
        before = self._pruned | pruned_in(event for event in page if event.seq <= coming.known)
        copied = _copied(coming.listed, coming.name, coming.session, coming.known, apart=coming.apart)
        fresh = [event for event in page if event.seq > coming.known]
        stream = self._placed[coming.listed.uid]
        adopt(self._tx, stream, fresh, before, RECORDED, copied.translate)
        if coming.known:
            retain.follow_pruning(self._tx, stream, fresh)
        self._pruned |= pruned_in(page)


@contextmanager
def _refusals(listed: Listed) -> Iterator[None]:
    """Refusals of the database itself, said of the stream that they came with. Races are the lane's to run again."""
    try:
        yield
    except Fault as fault:
        if fault.kind not in (FaultKind.BROKEN, FaultKind.TAKEN):
            raise
        raise Damaged(f"its content cannot be stored in a database: {fault}", path=listed.path) from None


def _copied(listed: Listed, name: str, session: str | None, after: int = 0, *, apart: bool = False) -> imported.Copied:
    spans = ((after, listed.last),)
    return imported.Copied(name, session, spans, apart=spans if apart else (), outcomes=spans)


def _arrived(tx: Tx, coming: IncomingStream) -> Arrived:
    listed = coming.listed
    stream, _ = find(tx, template(listed, coming.written, coming.name))
    if coming.apart and stream is not None:
        requests.give_keys_up(tx, stream)  # those that came before
    row = tx.row(RUNS, stream) if stream is not None and listed.kind == "run" else None
    parked = row is not None and row["reason"] == parked_runs.IMPORTED
    added = listed.last - coming.known
    events = listed.last - coming.written.fork
    return Arrived(
        uid=listed.uid,
        kind=listed.kind,
        name=coming.name,
        added=added,
        events=events,
        parked=parked,
        without=_without(coming),
        keys=_held(coming),
    )


def _held(coming: IncomingStream) -> tuple[str, ...]:
    return () if coming.apart else coming.keys.held


def _without(coming: IncomingStream) -> str:
    return coming.listed.session if coming.session is None else ""


def report(looked: Looked, tenant: str, streams: list[Arrived], *, dry_run: bool = False) -> ImportedBundle:
    """The report of an import."""
    return ImportedBundle(looked.digest, tenant, streams, len(looked.blobs), dry_run)


def foreseen(planned: list[IncomingStream]) -> list[Arrived]:
    """The report of what an import would do."""
    return [
        Arrived(
            coming.listed.uid,
            coming.listed.kind,
            coming.name,
            coming.listed.last - coming.known,
            coming.listed.last - coming.written.fork,
            without=_without(coming),
            keys=_held(coming),
        )
        for coming in planned
    ]

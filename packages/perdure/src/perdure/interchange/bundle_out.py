"""Export: the bundle of some sessions (or scopes, or runs), with everything that belongs to them.

With a session come the runs that worked for it and those that they started; with a fork, its parents up to where it was forked:
they are its own past, and their hashes alone would prove it but not show it (docs/decisions/0014). Every event is checked against
its hash on the way out, so what is damaged does not travel. The same streams give the same bytes, from whatever store.
Nothing is changed. Callers: the handles. Keeps P6, P11.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from perdure.artifacts import tree
from perdure.errors import Damaged, Error, NotFound
from perdure.interchange.bundle import ABOUT, BLOBS, INCIDENT, LOG, MANIFEST
from perdure.interchange.readable import Readable, gather
from perdure.log.change import Stream
from perdure.log.derive import BLOB_REFS
from perdure.log.event import GENESIS
from perdure.log.written import encode, event_written, stream_written
from perdure.model.records.bundles import FORMAT, KIND, Exported, Listed, Manifest, Member
from perdure.planes.audit.rebuild import Rebuild
from perdure.planes.conversation.sessions import find_session
from perdure.planes.execution import imported, runs
from perdure.planes.memory import values
from perdure.planes.reading.lineage import ancestry
from perdure.planes.reading.row_reading import stored_address
from perdure.planes.retention.collect import patiently
from perdure.planes.tables import ARTIFACTS, CHECKPOINTS, RUNS
from perdure.stores.atomic_files import check_folder, whole_file
from perdure.stores.core import Core, Reader
from perdure.stores.replay import Slice, follow, pages
from perdure.stores.statements import Statements
from perdure.stores.store import Head, Reads, Rows, event_of
from perdure.stores.tx import LOG as LOG_STATEMENTS
from perdure.upkeep.zip_container import Packer, packing

Q = Statements("perdure.interchange", "bundle.sql")

Progress = Callable[[int, int], None]
Pages = Callable[[Reads], str]  # makes the page of an incident


class Chosen(NamedTuple):
    """The streams to export, by name. `everything`: all sessions, scopes and runs of the tenant."""

    sessions: Collection[str] = ()
    scopes: Collection[str] = ()
    runs: Collection[str] = ()
    everything: bool = False


class BundledStream(NamedTuple):
    """A stream that goes into the bundle: up to which event, with which hash, and the session of a run."""

    stream: Stream
    upto: int
    head: bytes
    parent: Stream | None
    session: Stream | None


def export(
    core: Core, tenant: int, chosen: Chosen, path: Path, incident: Pages | None = None, progress: Progress | None = None
) -> Exported:
    """Write a bundle into a new file. Atomic: after a crash it is there whole or not at all.

    Raises NotFound for a name that does not exist, Conflict when the file does, Damaged when an event or blob is not what was
    written, Full.
    """
    path = path.absolute()
    check_folder(path)
    with whole_file(path) as partial:
        manifest, text = core.read(_written, chosen, partial, incident, progress, tenant=tenant)
    blobs = sum(member.name.startswith(BLOBS) for member in manifest.members)
    digest = hashlib.sha256(text).hexdigest()
    return Exported(str(path), digest, path.stat().st_size, len(manifest.streams), manifest.events, blobs)


def _written(reader: Reader, *args: Any) -> tuple[Manifest, bytes]:
    return patiently(_write, reader, *args)


def _write(
    reader: Reader, chosen: Chosen, path: Path, incident: Pages | None, progress: Progress | None
) -> tuple[Manifest, bytes]:
    """All of it; run again from the start if the connection is lost, or a retention took a blob that was to come."""
    with reader.snapshot():
        parts = choose(reader, chosen)
        page = incident(reader) if incident else ""
    tenant = tenant_name(reader)
    with packing(path) as packer:
        log = _Log(reader, parts, tenant, progress)
        members = [_added(packer, LOG, log.lines())]
        if page:
            members.append(_added(packer, INCIDENT, [page.encode()]))
        members += [
            _added(packer, f"{BLOBS}{address.hex()}", reader.open_blob(address.hex())) for address in sorted(log.needed)
        ]
        streams, actors = [*map(listed_of, parts)], _actor_names(reader, log.actors)
        manifest = Manifest(
            format=FORMAT,
            kind=KIND,
            about=ABOUT,
            tenant=tenant,
            streams=streams,
            events=log.events,
            members=members,
            actors=actors,
        )
        text = msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"
        packer.add(MANIFEST, [text])
    return manifest, text


def _actor_names(reads: Reads, actors: Iterable[str]) -> dict[str, str]:
    """The names behind these random ones, as far as the directory has them."""
    name_rows = {
        actor: reads.query(LOG_STATEMENTS.actor_named, tenant=reads.tenant, actor=actor) for actor in sorted(actors)
    }
    return {actor: rows[0][0] for actor, rows in name_rows.items() if rows}


def tenant_name(reads: Reads) -> str:
    """The name of the tenant whose state is read."""
    return reads.query(Q.tenant_name, tenant=reads.tenant)[0][0]


def _added(packer: Packer, name: str, pieces: Iterator[bytes] | list[bytes]) -> Member:
    return Member(name, *packer.add(name, pieces))


def listed_of(part: BundledStream) -> Listed:
    """A part as the manifest lists it."""
    stream, session = part.stream, part.session
    return Listed(
        stream.uid.hex(), stream.kind, stream.name, stream.fork_seq + 1, part.upto, part.head.hex(),
        session=session.name if session else "", session_uid=session.uid.hex() if session else "",
    )  # fmt: skip


# -- choosing ----------------------------------------------------------------------------------------------------------------


def choose(reads: Reads, chosen: Chosen) -> list[BundledStream]:
    """The streams that belong to what was chosen, parents first, in an order that no store decides."""
    by_stream: dict[int, BundledStream] = {}
    sessions = sessions_of(reads, chosen)
    for stream in (*sessions, *_scopes(reads, chosen), *_runs(reads, chosen, sessions)):
        _add_line(reads, by_stream, stream)
    if not by_stream:
        raise NotFound("there is nothing to export", path="export", hint="`perdure sessions` lists what there is")
    return list(by_stream.values())


def sessions_of(reads: Reads, chosen: Chosen) -> list[Stream]:
    """The sessions that are chosen, by name. NotFound for one that is not there."""
    if chosen.everything:
        return _travelling(reads, "session")
    return [_session(reads, name) for name in sorted(set(chosen.sessions))]


def _session(reads: Reads, name: str) -> Stream:
    row = find_session(reads, name)
    if row is None:
        raise NotFound(f"there is no session {name!r}", path="session", hint="`perdure sessions` lists them")
    return row[0]


def readable(reads: Reads, sessions: Collection[str]) -> Readable:
    """Sessions by name, for reading instead of travelling."""
    return gather(reads, sessions_of(reads, Chosen(sessions)))


def _scopes(reads: Reads, chosen: Chosen) -> list[Stream]:
    if chosen.everything:
        return _travelling(reads, "scope")
    scopes = {name: values.find_scope(reads, name) for name in sorted(set(chosen.scopes))}
    for name, stream in scopes.items():
        if stream is None:
            raise NotFound(f"there is no scope {name!r}", path="scope")
    return [stream for stream in scopes.values() if stream is not None]


def _runs(reads: Reads, chosen: Chosen, sessions: list[Stream]) -> list[Stream]:
    if chosen.everything:
        return _travelling(reads, "run")
    waiting = [runs.find(reads, name) for name in sorted(set(chosen.runs))]
    for session in sessions:
        waiting += _streams(reads.query(Q.runs_of_session, tenant=reads.tenant, session=session.name))
    by_stream: dict[int, Stream] = {}
    while waiting:
        stream = waiting.pop(0)
        if stream.id not in by_stream:
            by_stream[stream.id] = stream
            waiting += _streams(reads.query(Q.runs_of_parent, tenant=reads.tenant, parent=stream.name))
    return sorted(by_stream.values(), key=lambda stream: stream.name)


def _travelling(reads: Reads, kind: str) -> list[Stream]:
    return _streams(reads.query(Q.streams_travelling, tenant=reads.tenant, kind=kind))


def _streams(rows: Rows) -> list[Stream]:
    """By name, as no database orders them: each has an alphabet of its own."""
    return sorted((Stream(*row) for row in rows), key=lambda stream: stream.name)


def _add_line(reads: Reads, by_stream: dict[int, BundledStream], stream: Stream) -> None:
    """A stream, and before it its parents up to where it was forked. One that is there already stays, or grows."""
    line = ancestry(reads, stream)
    lacking: list[BundledStream] = []
    for at, (member, parent) in enumerate(zip(line, [*line[1:], None], strict=True)):
        earlier = by_stream.get(member.id)
        if at and earlier is not None and earlier.upto >= line[at - 1].fork_seq:
            break  # its past is there, too
        head = _hash_at(reads, member, line[at - 1]) if at else _head(reads, member)
        if earlier is None or earlier.upto < head[0]:
            lacking.append(BundledStream(member, *head, parent, _session_of(reads, member)))
    by_stream.update((part.stream.id, part) for part in reversed(lacking))


def _head(reads: Reads, stream: Stream) -> Head:
    return reads.query(LOG_STATEMENTS.stream_head, stream=stream.id)[0]  # type: ignore[return-value] - seq and hash


def _hash_at(reads: Reads, parent: Stream, fork: Stream) -> Head:
    rows = reads.query(LOG_STATEMENTS.event_by_seq, stream=parent.id, seq=fork.fork_seq)
    if not rows:
        raise Damaged(
            f"it has no event {fork.fork_seq}, from which {fork.name} continues", path=f"session {parent.name}"
        )
    return fork.fork_seq, event_of(rows[0]).hash


def _session_of(reads: Reads, stream: Stream) -> Stream | None:
    row = reads.row(RUNS, stream) if stream.kind == "run" else None
    name = (row or {}).get("session")
    session_row = find_session(reads, name) if name else None
    return session_row[0] if session_row else None


# -- writing -----------------------------------------------------------------------------------------------------------------


class _Log:
    """The lines of the log. While they are written, `needed` and `events` grow."""

    def __init__(self, reader: Reader, parts: list[BundledStream], tenant: str, progress: Progress | None) -> None:
        self._reader = reader
        self._parts = parts
        self._tenant = tenant
        self._progress = progress
        self._total = sum(part.upto - part.stream.fork_seq for part in parts)
        self.needed: set[bytes] = set()
        self.actors: set[str] = set()
        self.events = 0

    def lines(self) -> Iterator[bytes]:
        """Streams first, then the events of each."""
        for stream, _, _, parent, _ in self._parts:
            yield (
                encode(stream_written(stream, stream.uid.hex(), self._tenant, parent.uid.hex() if parent else ""))
                + b"\n"
            )
        for part in self._parts:
            yield from self._events(part)

    def _events(self, part: BundledStream) -> Iterator[bytes]:
        stream, rebuild = part.stream, Rebuild(translate=imported.translation_of(self._reader, part.stream))
        head = (stream.fork_seq, _hash_at(self._reader, part.parent, stream)[1] if part.parent else GENESIS)
        for page in pages(self._reader, Slice(stream, part.upto), stream.fork_seq):
            lines = []
            for event in page:
                try:
                    head = follow(stream.uid, event, head)
                    rebuild.add(event)
                    self.actors.add(event.actor)
                    lines.append(encode(event_written(stream.uid.hex(), event)) + b"\n")
                except Error as error:
                    raise Damaged(error.message, path=f"{stream.kind} {stream.name} {error.path}") from error
            yield b"".join(lines)
            self.events += len(page)
            if self._progress:
                self._progress(self.events, self._total)
        if head != (part.upto, part.head):
            raise Damaged("it does not end with the event that its head names", path=f"{stream.kind} {stream.name}")
        self.needed |= needed_blobs(rebuild, self._reader.fetch)


def needed_blobs(rebuild: Rebuild, fetch: tree.Fetch) -> set[bytes]:
    """The addresses of all blobs that the events and rows of a stream need, the nodes of its checkpoints included."""
    roots = [stored_address(row["root"], "checkpoints.root") for row in rebuild.rows_of(CHECKPOINTS)]
    addresses = {row["address"] for row in rebuild.rows_of(BLOB_REFS)} | tree.reachable(roots, fetch)
    return addresses | {stored_address(row["address"], "artifacts.address") for row in rebuild.rows_of(ARTIFACTS)}

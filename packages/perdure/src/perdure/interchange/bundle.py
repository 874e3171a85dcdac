"""The bundle: sessions, scopes and runs in one file, and how a hostile one is refused (docs/bundles.md).

FORMAT 1: a pack (`upkeep.zip_container`: a zip file, every member stored as it is, so equal content gives equal bytes)

    log.jsonl            one line a stream (parents before their forks), then one line an event (`log.written`), stream by stream
    blobs/<sha256>       what the events need, by its content
    INCIDENT.md          only in the bundle of an incident: for people, never read by an import
    manifest.json        see `Manifest`; written last: the size and the digest of every member, and where every chain ends

Opening looks at the container and the manifest; `Bundle.events` checks form, order and chain as it reads, piece by piece. The
importing side folds the events. Callers: `bundle_out`, `bundle_in`. Keeps P6 and P10.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from perdure.errors import Damaged, Error, Invalid, NotFound, TooLarge
from perdure.log.change import Stream
from perdure.log.event import GENESIS, Event
from perdure.log.written import WrittenEvent, WrittenStream, decode, event_read, from_hex
from perdure.model.instants import FIRST_US, LAST_US
from perdure.model.limits import NAME_MAX_CHARS, VALUE_MAX_DEPTH, check_name, check_text
from perdure.model.records.bundles import FORMAT, KIND, Listed, Manifest
from perdure.stores.replay import follow
from perdure.upkeep.zip_container import PackedMember, ZipPack, unpacking

LOG, MANIFEST, INCIDENT, BLOBS = "log.jsonl", "manifest.json", "INCIDENT.md", "blobs/"
ABOUT = "Perdure bundle: log.jsonl holds one line a stream and one line an event; docs/bundles.md says how to read it."
KINDS = ("session", "run", "scope")  # a tenant's or a store's own stream never travels: it says what happened there

MEMBERS_MAX = 1_000_000
BUNDLE_MAX_BYTES = 64 * 1024**3
MANIFEST_MAX_BYTES = 64 * 1024**2
LINE_MAX_BYTES = 4 * 1024**2
PAGE_EVENTS = 2_000
_DEPTH_MAX = VALUE_MAX_DEPTH + 10  # a document stands a few levels deep in its body

_BLOB = re.compile(r"blobs/([0-9a-f]{64})", re.ASCII)


class BundleLine(NamedTuple):
    """One line of the log, and where it stands."""

    path: str
    data: bytes


class Bundle:
    """An open bundle whose manifest names exactly what is there. Its members are checked as they are read."""

    def __init__(self, pack: ZipPack) -> None:
        self._pack = pack
        text = _manifest_text(pack)
        self.digest = hashlib.sha256(text).hexdigest()
        self.manifest: Manifest = _manifest(text)
        self.members = {member.name: PackedMember(member.size, member.sha256) for member in self.manifest.members}
        _check_members(self.manifest, pack)
        _check_streams(self.manifest)
        blobs = [member for member in self.manifest.members if member.name.startswith(BLOBS)]
        self.blobs = {bytes.fromhex(member.sha256): member.size for member in blobs}  # their sizes, by address

    def blob(self, address: bytes) -> Iterator[bytes]:
        """The content of a blob, piece by piece; Damaged before the last one is over if it is another."""
        name = f"{BLOBS}{address.hex()}"
        if name not in self.members:
            raise Damaged("a blob that an event needs is not in the bundle", path=name)
        return self._pack.pieces(name, self.members[name])

    def streams(self) -> list[tuple[Listed, WrittenStream]]:
        """Its streams, as the manifest and as the log have them."""
        lines = self._lines()
        first = itertools.islice(lines, len(self.manifest.streams))
        written = [decode(line.data, WrittenStream, line.path) for line in first]
        lines.close()
        return list(zip(self.manifest.streams, _checked_streams(self.manifest, written), strict=True))

    def pages(self) -> Iterator[tuple[int, list[Event]]]:
        """All events: the number of their stream in the manifest, and a page of them. Damaged names what is not as it was
        recorded, with its stream and sequence number."""
        streams = self.streams()
        chains = _Chains(streams)
        lines = self._lines()
        for _ in streams:
            next(lines)
        for number, (listed, _) in enumerate(streams):
            yield from ((number, page) for page in _paged(chains.events(lines, listed)))
        for line in lines:
            raise Damaged("there is more than the manifest lists", path=line.path)

    def _lines(self) -> Generator[BundleLine]:
        rest, number = b"", 0
        for piece in self._pack.pieces(LOG, self.members[LOG]):
            *lines, rest = (rest + piece).split(b"\n")
            for data in lines:
                number += 1
                yield _complete_line(BundleLine(f"{LOG}:{number}", data))
            _bounded(BundleLine(f"{LOG}:{number + 1}", rest))
        if rest:
            raise Damaged("the last line is cut off", path=f"{LOG}:{number + 1}")


def no_bundle(path: Path) -> NotFound:
    """The error that says so."""
    hint = "check the path; `perdure export NAME -o FILE` writes one"
    return NotFound("there is no such bundle", path=str(path), hint=hint)


@contextmanager
def opening(path: Path) -> Iterator[Bundle]:
    """Open a bundle. Invalid when it is none; TooLarge beyond `BUNDLE_MAX_BYTES`; NotFound when there is no such file."""
    if not path.is_file():
        raise no_bundle(path)
    if path.stat().st_size > BUNDLE_MAX_BYTES:
        raise TooLarge(f"at most {BUNDLE_MAX_BYTES} bytes are read", path=str(path))
    with unpacking(path, MEMBERS_MAX, _foreign) as pack:
        yield Bundle(pack)


def _foreign(path: Path) -> Invalid:
    return Invalid(f"{path.name} is not a bundle that Perdure made", path=str(path), hint="`perdure export` makes one")


# -- the manifest ------------------------------------------------------------------------------------------------------------


def _manifest_text(pack: ZipPack) -> bytes:
    size = pack.size(MANIFEST)
    if size < 0:
        raise Invalid("there is no manifest of a bundle in it", path=MANIFEST)
    if size > MANIFEST_MAX_BYTES:
        raise TooLarge(f"at most {MANIFEST_MAX_BYTES} bytes are read", path=MANIFEST)
    return pack.read(MANIFEST)


class _Version(msgspec.Struct):
    """The fields that every manifest has, of whatever format."""

    format: int
    kind: str


def _manifest(text: bytes) -> Manifest:
    version = decode(text, _Version, MANIFEST)
    if version.kind != KIND:
        raise Invalid(f"it is a {version.kind[:60]!r}, not a {KIND}", path=f"{MANIFEST} kind")
    if version.format != FORMAT:
        hint = "a newer Perdure may have made it: upgrade"
        raise Invalid(
            f"format {version.format} is unknown; this Perdure reads {FORMAT}", path=f"{MANIFEST} format", hint=hint
        )
    return decode(text, Manifest, MANIFEST)


def _check_members(manifest: Manifest, pack: ZipPack) -> None:
    names = [member.name for member in manifest.members]
    for member in manifest.members:
        if member.name not in (LOG, INCIDENT) and not _is_blob(member.name, member.sha256):
            raise Invalid(f"no bundle has a member {member.name[:100]!r}", path=MANIFEST)
        if pack.size(member.name) != member.size:
            raise Damaged("it is missing, or not as large as the manifest says", path=member.name)
    if len(set(names)) != len(names) or LOG not in names:
        raise Invalid("the manifest names a member twice, or no log", path=MANIFEST)
    for name in sorted(pack.names - {*names, MANIFEST}):
        raise Invalid("the manifest does not name it", path=name[:200])


def _is_blob(name: str, sha256: str) -> bool:
    """A blob is called by its digest, and so cannot be called anything that leads elsewhere."""
    match = _BLOB.fullmatch(name)
    return match is not None and match[1] == sha256


def _check_streams(manifest: Manifest) -> None:
    check_name(manifest.tenant, f"{MANIFEST} tenant")
    names, uids, events = set(), set(), 0
    for at, listed in enumerate(manifest.streams):
        path = f"{MANIFEST} streams[{at}]"
        _check_listed(listed, path)
        names.add((listed.kind, listed.name))
        uids.add(listed.uid)
        events += listed.last - listed.first + 1
    if not manifest.streams or len(names) != len(manifest.streams) or len(uids) != len(names):
        raise Invalid("there is no stream in it, or one twice", path=MANIFEST)
    if events != manifest.events:
        raise Damaged(f"it lists {events} events, and says {manifest.events}", path=f"{MANIFEST} events")


def _check_listed(listed: Listed, path: str) -> None:
    if listed.kind not in KINDS:
        raise Invalid(f"streams of kind {listed.kind[:40]!r} do not travel", path=f"{path}.kind")
    check_name(listed.name, f"{path}.name")
    _check_session(listed, path)
    from_hex(listed.uid, 16, f"{path}.uid")
    from_hex(listed.head, 32, f"{path}.head")
    if not 1 <= listed.first <= listed.last < 2**62:
        raise Invalid("a stream has events, from a first to a last", path=path)


def _check_session(listed: Listed, path: str) -> None:
    if listed.session and (listed.kind != "run" or not check_name(listed.session, f"{path}.session")):
        raise Invalid("only a run has a session", path=f"{path}.session")
    if bool(listed.session) != bool(listed.session_uid and from_hex(listed.session_uid, 16, f"{path}.session_uid")):
        raise Invalid("a session has a name and a uid", path=f"{path}.session")


def _checked_streams(manifest: Manifest, written: Sequence[WrittenStream]) -> Sequence[WrittenStream]:
    """The streams of the log: those of the manifest, each after its parent, each beginning where it says."""
    before: dict[str, Listed] = {}
    if len(written) != len(manifest.streams):
        raise Damaged("the log ends before its streams are named", path=LOG)
    for number, (listed, stream) in enumerate(zip(manifest.streams, written, strict=True), 1):
        path = f"{LOG}:{number}"
        if (stream.uid, stream.kind, stream.name, stream.tenant) != (
            listed.uid,
            listed.kind,
            listed.name,
            manifest.tenant,
        ):
            raise Damaged("this is not the stream that the manifest lists", path=path)
        parent = before.get(stream.parent)
        if stream.parent and (
            parent is None or not parent.first <= stream.fork <= parent.last or listed.kind != parent.kind
        ):
            raise Damaged("its parent is not in the bundle up to where it was forked", path=path)
        if listed.first != stream.fork + 1 or bool(stream.parent) != bool(stream.fork):
            raise Damaged(f"it begins with event {listed.first}, and was forked after {stream.fork}", path=path)
        before[listed.uid] = listed
    return written


# -- the log -----------------------------------------------------------------------------------------------------------------


def _bounded(line: BundleLine) -> BundleLine:
    if len(line.data) > LINE_MAX_BYTES:
        raise TooLarge(f"a line has at most {LINE_MAX_BYTES} bytes", path=line.path)
    return line


def _complete_line(line: BundleLine) -> BundleLine:
    if line.data[:1] + line.data[-1:] != b"{}":
        raise Damaged("a line is one JSON object, and nothing around it", path=line.path)
    return _bounded(line)


class _Chains:
    """Checks the chains of all streams, one after the other; a fork continues from an event of its parent."""

    def __init__(self, streams: Sequence[tuple[Listed, WrittenStream]]) -> None:
        self._written = {listed.uid: written for listed, written in streams}
        self._forked = {(written.parent, written.fork) for _, written in streams if written.parent}
        self._hashes: dict[tuple[str, int], bytes] = {}

    def events(self, lines: Iterator[BundleLine], listed: Listed) -> Iterator[Event]:
        """The events of one stream, in order and without a gap."""
        written = self._written[listed.uid]
        head = (written.fork, self._hashes.get((written.parent, written.fork), GENESIS))
        uid = bytes.fromhex(listed.uid)
        for seq in range(listed.first, listed.last + 1):
            event, path = _event(lines, listed, seq)
            try:
                head = follow(uid, event, head)
            except Error as error:
                raise Damaged(f"{listed.path} {error.path}: {error.message}", path=path) from None
            if (listed.uid, seq) in self._forked:
                self._hashes[listed.uid, seq] = event.hash
            yield event
        if head[1].hex() != listed.head:
            raise Damaged(
                f"{listed.path} does not end with the event that the manifest lists", path=f"{LOG} seq {listed.last}"
            )


def _event(lines: Iterator[BundleLine], listed: Listed, seq: int) -> tuple[Event, str]:
    line = next(lines, None)
    if line is None:
        raise Damaged(f"the log ends before event {seq} of {listed.path}", path=LOG)
    written = decode(line.data, WrittenEvent, line.path)
    if (written.stream, written.seq) != (listed.uid, seq):
        raise Damaged(f"event {seq} of {listed.path} is expected here", path=line.path)
    for name in ("kind", "table", "actor"):
        check_text(getattr(written, name), f"{line.path} {name}", NAME_MAX_CHARS)
    if not FIRST_US <= written.at <= LAST_US:
        raise Damaged("no calendar has this instant: years go from 1 to 9999", path=f"{line.path} at")
    event = event_read(written, line.path)
    _check_depth(event.body or b"", line.path)
    return event, line.path


def _check_depth(body: bytes, path: str) -> None:
    """A value that is nested deeper than any that can be recorded is none of ours."""
    if body.count(b"[") + body.count(b"{") <= _DEPTH_MAX:
        return
    level: list[object] = [decode(body, object, path)]
    for _ in range(_DEPTH_MAX):
        boxes = [node for node in level if isinstance(node, list | dict)]
        level = [item for box in boxes for item in (box.values() if isinstance(box, dict) else box)]
        if not level:
            return
    raise Damaged(f"it is nested deeper than {_DEPTH_MAX} levels", path=path)


def _paged(events: Iterator[Event]) -> Iterator[list[Event]]:
    page: list[Event] = []
    for event in events:
        page.append(event)
        if len(page) == PAGE_EVENTS:
            yield page
            page = []
    if page:
        yield page


def template(listed: Listed, written: WrittenStream, name: str) -> Stream:
    """A stream as `stores.replay` places it, under the name that it has here. Its numbers are the target's to give."""
    return Stream(
        id=0, uid=bytes.fromhex(listed.uid), tenant=0, kind=listed.kind, name=name, parent=None, fork_seq=written.fork
    )

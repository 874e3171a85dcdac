"""A line of the log: one transaction, readable, with a checksum that holds everything before it (docs/decisions/0013).

    {"v":1,"prev":"…","at":…,"tx":"…","events":[…]} 32 hex digits

`prev` is the checksum of the line before, so the last one speaks for the whole log: a line that is taken out, moved or put in
shows. A line that lost a body (`purge`) says in `was` which checksums it had. Empty fields are left out. Called by `journal`,
`load`, `purge` and `merge`. Keeps P1 (what is torn is not a line), P6, P10.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import msgspec

from perdure.errors import Damaged
from perdure.log.written import WrittenEvent, WrittenStream, encode

CHECK_CHARS = 32
FORMAT = 1
_START = re.compile(rb'\{"v":')
_WAS = re.compile(rb'"was":\["([0-9a-f",]+)"\]\} [0-9a-f]{32}$')
_END = re.compile(rb" [0-9a-f]{32}")
_IN_VAIN_BYTES = 1024 * 1024  # that may be hashed for nothing in one damaged piece,
_IN_VAIN_TIMES = 64  # and so many times its length; each end that is tried counts as
_TRY_BYTES = 1024


class WrittenStore(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Who the store is; said at the head of every segment, and anew when something of it changes.

    moved, arriving, origin: what `stores.sealing` says of a store that moves, in its own words: a clone is as sealed as we are.
    """

    uid: str
    epoch: int
    partition: str = ""
    moved: str = ""
    arriving: str = ""
    origin: str = ""


class WrittenTenant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tenant that begins. `number` is its own in this store: its blobs lie under it."""

    number: int
    uid: str
    name: str


class WrittenBlob(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A blob that is kept from here on, as a file by its hash; or, in `drops`, one that is not kept any more."""

    tenant: str
    address: str
    size: int = 0


class Line(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What one line says."""

    v: int
    prev: str
    at: int = 0
    tx: str = ""
    store: WrittenStore | None = None
    tenants: list[WrittenTenant] = []
    streams: list[WrittenStream] = []
    blobs: list[WrittenBlob] = []
    drops: list[WrittenBlob] = []
    empties: list[tuple[str, int]] = []  # stream and sequence number of events whose body goes
    events: list[WrittenEvent] = []
    was: list[str] = []  # the checksums that it had before bodies were taken out of it: the next line names one of them


class Found(NamedTuple):
    """A whole line in a segment: from `start` to `end`, without what ends it."""

    line: Line
    check: str
    start: int
    end: int


class Piece(NamedTuple):
    """What is no line, or could not be loaded. lost: whether it may have said something that is said nowhere else now."""

    start: int
    data: bytes
    reason: str
    lost: bool = True


def names_of(raw: bytes) -> Iterator[str]:
    """The checksums by which a later line may name this one. Whether it is whole is not looked at."""
    text = raw.rstrip(b"\r")
    yield text[-CHECK_CHARS:].decode("ascii", errors="replace")
    if earlier := _WAS.search(text):
        yield from earlier[1].decode().split('","')


def check_of(text: bytes) -> str:
    """The checksum of a line's text."""
    return hashlib.sha256(text).hexdigest()[:CHECK_CHARS]


def written(line: Line) -> tuple[bytes, str]:
    """A line as it stands in the log, with its end; and its checksum."""
    text = encode(line)
    check = check_of(text)
    return b"%b %b\n" % (text, check.encode()), check


_decode = msgspec.json.Decoder(Line).decode


def read(raw: bytes, start: int) -> Found | None:
    """The line that these bytes are; None when they are not exactly one. Damaged when it is whole and says nothing we know."""
    text, check = raw[: -CHECK_CHARS - 1], raw[-CHECK_CHARS:]
    if raw[-CHECK_CHARS - 1 : -CHECK_CHARS] != b" " or check_of(text).encode() != check:
        return None
    try:
        line = _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Damaged(f"the line is whole, but not what is written here: {error}", path=f"byte {start}") from None
    if line.v != FORMAT:
        raise Damaged(f"the line has format {line.v}; this Perdure reads {FORMAT}", path=f"byte {start}")
    return Found(line, check.decode(), start, start + len(raw))


def lines_in(data: bytes, offset: int) -> Iterator[Found | Piece]:
    """Everything in these bytes of a segment, from `offset` on, in order: whole lines, and what lies between them."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        if end > start:
            raw = data[start:end]
            try:
                found = read(raw, offset + start)
            except Damaged as error:
                found = Piece(offset + start, raw, error.message)
            if found is not None:
                yield found
            else:
                yield from _salvaged(raw, offset + start)
        start = end + 1


def _salvaged(raw: bytes, start: int) -> Iterator[Found | Piece]:
    """The whole lines inside one that is not: records glued together, a mark before them, something torn between them."""
    at = 0
    for found in _whole_inside(raw, start):
        if found.start - start > at:
            yield _piece(start + at, raw[at : found.start - start])
        yield found
        at = found.end - start
    if at < len(raw):
        yield _piece(start + at, raw[at:])


def _whole_inside(raw: bytes, start: int) -> Iterator[Found]:
    """However many they are; only what is looked at in vain is bounded, so that nothing hostile takes for ever."""
    ends = [match.end() for match in _END.finditer(raw)]
    done, left = 0, _IN_VAIN_BYTES + _IN_VAIN_TIMES * len(raw)
    for begin in (match.start() for match in _START.finditer(raw)):
        if begin < done or left < 0:
            continue
        for tried in _ends_that_fit(raw, begin, ends):
            found = _read_quietly(raw[begin:tried], start + begin)
            if found is not None:
                yield found
                done = tried
                break
        left -= 0 if done > begin else len(raw) - begin + _TRY_BYTES * (len(ends) - bisect_right(ends, begin))


def _ends_that_fit(raw: bytes, begin: int, ends: list[int]) -> Iterator[int]:
    """Where a line from `begin` on may end: what stands there is the checksum of all before it. Each byte is hashed once."""
    hashed, at = hashlib.sha256(), begin
    for end in islice(ends, bisect_right(ends, begin + CHECK_CHARS), None):
        hashed.update(memoryview(raw)[at : end - CHECK_CHARS - 1])
        at = end - CHECK_CHARS - 1
        if hashed.copy().hexdigest()[:CHECK_CHARS].encode() == raw[end - CHECK_CHARS : end]:
            yield end


def _read_quietly(raw: bytes, start: int) -> Found | None:
    try:
        return read(raw, start)
    except Damaged:
        return None


_MARKS = (b"<<<<<<<", b"=======", b">>>>>>>", b"|||||||")


def _piece(start: int, data: bytes) -> Piece:
    """Say what it most likely is; what says nothing of ours is no loss."""
    if not data.strip(b"\r\n\t \0"):
        what = "zero bytes" if b"\0" in data else "a carriage return or blanks"
        return Piece(start, data, what, lost=b"\0" in data)
    if data == b"\xef\xbb\xbf":
        return Piece(start, data, "a byte order mark", lost=False)
    if data.startswith(_MARKS):
        return Piece(start, data, "the mark of a merge conflict", lost=False)
    return Piece(start, data, "torn or changed: it has no valid checksum")

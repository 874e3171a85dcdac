"""A line of the log: one transaction as a JSON object, with a checksum that holds everything before it (decision 0024).

    {"v":2,"prev":"…","at":…,"tx":"…","events":[…],"check":"32 hex digits"}     the checksum is of all bytes before `,"check"`
    {"v":1,"prev":"…","at":…,"tx":"…","events":[…]} 32 hex digits               the older form, which is still read

`prev` is the checksum of the line before, so the last one speaks for the whole log: a line that is taken out, moved or put in
shows. A line that lost a body (`purge`) says in `was` which checksums it had. Empty fields are left out. Called by `journal`,
`load`, `purge` and `merge`. Keeps P1 (what is torn is not a line), P6, P10.
"""

from __future__ import annotations

import hashlib
import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import msgspec

from perdure.errors import Damaged
from perdure.log.written import WrittenEvent, WrittenStream, encode

CHECK_CHARS = 32
FORMAT = 2
END_BYTES = CHECK_CHARS + 2  # the last bytes of a line, in which its checksum stands
_PLAIN_FORMAT = 1  # the older form, in which the checksum follows the object
_CHECK = b',"check":"'
_JSON_END_BYTES = len(_CHECK) + END_BYTES
_BEGIN = b'{"v":'
_BRACE = ord("}")
_WAS = re.compile(rb'"was":\["([0-9a-f",]+)"\](?:\} [0-9a-f]{32}|,"check":"[0-9a-f]{32}"\})$')
_END = re.compile(rb',"check":"([0-9a-f]{32})"\}| ([0-9a-f]{32})')
_IN_VAIN_BYTES = 1024 * 1024  # that may be hashed for nothing in one damaged piece,
_IN_VAIN_TIMES = 64  # and so many times its length; each end that is tried counts as
_TRY_BYTES = 1024
_LEAST_BYTES = len('{"v":1,"prev":""} ') + CHECK_CHARS  # of a line: what is shorter need not be tried
# A run of lines that are shorter: however many, they are passed over at once.
_SHORT = re.compile(rb"(?:[^\n]{0,49}\n)+")
_TOLD_APART_MAX = 1_000  # lines between two of ours that are looked at one by one; more are one piece


class WrittenStore(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The store's identity; said at the head of every segment, and anew when something of it changes.

    moved, arriving, origin: what `stores.moved_away` says of a store that moves, in its words: a clone is as sealed as we are.
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
    """The content of one line."""

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
    check: str = ""  # the last member of a line that was read; `written` puts it there


class FoundLine(NamedTuple):
    """A whole line in a segment: from `start` to `end`, without what ends it."""

    line: Line
    check: str
    start: int
    end: int


class Piece(NamedTuple):
    """Bytes that are no line, or a line that could not be loaded. lost: whether it may have said something that is said nowhere
    else now.
    """

    start: int
    data: bytes
    reason: str
    lost: bool = True


def names_of(raw: bytes) -> Iterator[str]:
    """The checksums by which a later line may name this one. Whether it is whole is not looked at."""
    text = raw.rstrip(b"\r")
    yield text[-END_BYTES:].removesuffix(b'"}')[-CHECK_CHARS:].decode("ascii", errors="replace")
    if earlier := _WAS.search(text):
        yield from earlier[1].decode().split('","')


def check_of(text: bytes) -> str:
    """The checksum of a line's text."""
    return hashlib.sha256(text).hexdigest()[:CHECK_CHARS]


def ends_with(end: bytes, check: str) -> bool:
    """Whether a line whose last bytes these are has this checksum, in either form."""
    return end.endswith((b'%b"}' % check.encode(), check.encode()))


def written(line: Line) -> tuple[bytes, str]:
    """A line as it stands in the log, with its end; and its checksum."""
    text = encode(msgspec.structs.replace(line, v=FORMAT, check="") if line.check or line.v != FORMAT else line)[:-1]
    check = check_of(text)
    return b'%b,"check":"%b"}\n' % (text, check.encode()), check


_decode = msgspec.json.Decoder(Line).decode


def read(raw: bytes, start: int) -> FoundLine | None:
    """The line that these bytes are; None when they are not exactly one. Damaged when it is whole and says nothing we know."""
    form = FORMAT if raw.endswith(b"}") else _PLAIN_FORMAT
    if form == FORMAT:
        text, mark, check = raw[:-_JSON_END_BYTES], raw[-_JSON_END_BYTES:-END_BYTES], raw[-END_BYTES:-2]
    else:
        text, mark, check = raw[: -CHECK_CHARS - 1], raw[-CHECK_CHARS - 1 : -CHECK_CHARS], raw[-CHECK_CHARS:]
    if mark != (_CHECK if form == FORMAT else b" ") or check_of(text).encode() != check:
        return None
    try:
        line = _decode(raw if form == FORMAT else text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Damaged(f"the line is whole, but not what is written here: {error}", path=f"byte {start}") from None
    if line.v != form:
        raise Damaged(f"the line has format {line.v}; this Perdure reads up to {FORMAT}", path=f"byte {start}")
    return FoundLine(line, check.decode(), start, start + len(raw))


def lines_in(data: bytes, offset: int) -> Iterator[FoundLine | Piece]:
    """Everything in these bytes of a segment, from `offset` on, in order: whole lines, and what lies between them.

    Neighbours that are no lines for the same reason are one piece: however many they are, they cost one object.
    """
    held, upto = None, 0
    for part in _each_in(data, offset):
        if held is None and isinstance(part, FoundLine):
            yield part
            continue
        if held is not None and _goes_on(held, upto, part):
            upto = part.start + len(part.data)  # pyright: ignore[reportAttributeAccessIssue] - a piece
            continue
        if held is not None:
            yield held._replace(data=data[held.start - offset : upto - offset])
        held, upto = (part, part.start + len(part.data)) if isinstance(part, Piece) else (None, 0)
        if held is None:
            yield part
    if held is not None:
        yield held._replace(data=data[held.start - offset : upto - offset])


def _goes_on(held: Piece, upto: int, part: FoundLine | Piece) -> bool:
    """Whether this is one more piece, right after what is held, for the same reason."""
    return isinstance(part, Piece) and part[2:] == held[2:] and part.start - upto <= 1


def _each_in(data: bytes, offset: int) -> Iterator[FoundLine | Piece]:
    start = 0
    while start < len(data):
        if not data.startswith(_BEGIN, start):
            first = _next_begun(data, start)
            yield from _rubbish(data[start:first], offset + start)
            start = first
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        if end - start < _LEAST_BYTES:
            short = _SHORT.match(data, start)
            end = max(end, short.end() - 1) if short else end
            yield from _rubbish(data[start:end], offset + start)
        else:
            raw = data[start:end]
            try:
                part = read(raw, offset + start)
            except Damaged as error:
                part = Piece(offset + start, raw, error.message)
            if part is not None:
                yield part
            else:
                yield from _salvaged(raw, offset + start)
        start = end + 1


def _next_begun(data: bytes, start: int) -> int:
    """Where the next line begins that holds the beginning of one of ours; the end when there is none."""
    begun = data.find(_BEGIN, start)
    return len(data) if begun < 0 else data.rfind(b"\n", start, begun) + 1 or start


def _rubbish(data: bytes, start: int) -> Iterator[Piece]:
    """Bytes without even the beginning of a line, told apart by lines if those are few."""
    if data.count(b"\n") > _TOLD_APART_MAX:
        yield _piece(start, data.rstrip(b"\n"))
        return
    for line in data.split(b"\n"):
        if line:
            yield _piece(start, line)
        start += len(line) + 1


def _salvaged(raw: bytes, start: int) -> Iterator[FoundLine | Piece]:
    """The whole lines inside one that is not: records glued together, a mark before them, something torn between them."""
    at = 0
    for line in _whole_inside(raw, start):
        if line.start - start > at:
            yield _piece(start + at, raw[at : line.start - start])
        yield line
        at = line.end - start
    if at < len(raw):
        yield _piece(start + at, raw[at:])


def _whole_inside(raw: bytes, start: int) -> Iterator[FoundLine]:
    """However many they are; only what is looked at in vain is bounded, so that nothing hostile takes for ever."""
    ends = array("Q", (match.end() for match in _END.finditer(raw)))
    begin, done, budget = raw.find(_BEGIN), 0, _IN_VAIN_BYTES + _IN_VAIN_TIMES * len(raw)
    while ends and begin >= 0 and budget >= 0:
        for tried in _ends_that_fit(raw, begin, ends):
            line = _read_quietly(raw[begin:tried], start + begin)
            if line is not None:
                yield line
                done = tried
                break
        budget -= 0 if done > begin else len(raw) - begin + _TRY_BYTES * (len(ends) - bisect_right(ends, begin))
        begin = raw.find(_BEGIN, max(done, begin + 1))


def _ends_that_fit(raw: bytes, begin: int, ends: array[int]) -> Iterator[int]:
    """Where a line from `begin` on may end: what stands there is the checksum of all before it. Each byte is hashed once."""
    hashed, at = hashlib.sha256(), begin
    for end in islice(ends, bisect_right(ends, begin + CHECK_CHARS), None):
        checked = end - 2 if raw[end - 1] == _BRACE else end
        text_end = checked - CHECK_CHARS - (len(_CHECK) if checked < end else 1)
        hashed.update(memoryview(raw)[at:text_end])
        at = text_end
        if hashed.copy().hexdigest()[:CHECK_CHARS].encode() == raw[checked - CHECK_CHARS : checked]:
            yield end


def _read_quietly(raw: bytes, start: int) -> FoundLine | None:
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

"""Compression, and the packed form in which a blob is stored in a file or an object.

Called by the store for blobs inside the database (`pack`, `unpack`) and by the places (`pack_stream`,
`unpack_stream`). Keeps P10: a foreign file can neither make us allocate more than was announced
nor be read differently from how it was written.

The packed form, all integers big-endian:

    offset  bytes
    0       4      magic "PDB1"
    4       1      codec: 0 raw, 1 one zstd frame
    5       3      zero
    8       8      size of the plain content
    16      4      crc32 of the payload, then of bytes 0-15 of this header
    20      ...    payload

The hash of the content is its address, so it is not repeated. The checksum is there because zstd ignores
some bits of its own header: with it, every changed byte of the stored form shows, not only those that
change the content.
"""

from __future__ import annotations

import struct
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from itertools import chain
from typing import Final
from zlib import crc32

import msgspec

from perdure.artifacts.place import RESTORE, Stored
from perdure.errors import Damaged, Invalid, TooLarge

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

RAW: Final = 0
ZSTD: Final = 1
CHUNK_BYTES: Final = 256 * 1024  # the largest piece that is handled at once
CONTENT_MAX_BYTES: Final = 64 * 1024**3  # one blob; also what fits in 10,000 parts of an S3 upload
_SAMPLE_BYTES: Final = 64 * 1024  # a stream is compressed when its beginning is worth it
_WORTH_TRYING_BYTES: Final = 64  # below this the frame costs more than it saves
_REUSE_MAX_BYTES: Final = 64 * 1024  # of what a kept compressor compresses: it holds memory in proportion
_WINDOW_LOG_MAX: Final = 23  # 8 MiB: four times what our level needs; a frame that asks for more is hostile
_LIMITS: Final[dict[int, int]] = {zstd.DecompressionParameter.window_log_max: _WINDOW_LOG_MAX}
_MAGIC: Final = b"PDB1"
_HEADER: Final = struct.Struct(">4sB3sQ")
_CHECK: Final = struct.Struct(">I")
HEADER_BYTES: Final = _HEADER.size + _CHECK.size


class PackedStream(msgspec.Struct, frozen=True):
    """The result of `pack_stream`, and the header that its caller must put in front of it."""

    header: bytes
    stored: Stored


def pack(data: bytes) -> tuple[int, bytes]:
    """Return (codec, bytes to store): raw unless zstd saves at least a sixteenth."""
    if len(data) < _WORTH_TRYING_BYTES:
        return RAW, data
    small = _OF_THREAD.frame(data) if len(data) <= _REUSE_MAX_BYTES else zstd.compress(data)
    return (ZSTD, small) if len(small) + len(data) // 16 < len(data) else (RAW, data)


class _Kept(threading.local):
    """A compressor for each thread: to make one takes longer than to compress a node with it."""

    def __init__(self) -> None:
        self._compressor = zstd.ZstdCompressor()

    def frame(self, data: bytes) -> bytes:
        """The frame that a new compressor gives."""
        return self._compressor.compress(data, zstd.ZstdCompressor.FLUSH_FRAME)


_OF_THREAD: Final = _Kept()


def unpack(codec: int, data: bytes, size: int, *, path: str = "blob") -> bytes:
    """Return the plain content of exactly `size` bytes; never produces more. Raises `Damaged`."""
    plain = data if codec == RAW else _inflated_whole(codec, data, size + 1, path)
    if len(plain) > size:
        raise Damaged(f"more than the announced {size} bytes", path=path, hint=RESTORE)
    if len(plain) != size:
        raise Damaged(f"{len(plain)} bytes instead of {size}", path=path, hint=RESTORE)
    return plain


def _inflated_whole(codec: int, data: bytes, most: int, path: str) -> bytes:
    """One frame in one call, as nodes are read by the thousand; cut off at `most` bytes."""
    if codec != ZSTD:
        raise Damaged(f"unknown codec {codec}", path=path, hint=RESTORE)
    inflater = zstd.ZstdDecompressor(options=_LIMITS)
    try:
        plain = inflater.decompress(data, most)
    except zstd.ZstdError as error:
        raise Damaged(f"zstd: {error}", path=path, hint=RESTORE) from None
    if len(plain) < most:
        _check_ended(inflater, path)
    return plain


def pack_stream(source: Iterable[bytes], write: Callable[[bytes], None]) -> PackedStream:
    """Write the payload of the packed form piece by piece; memory does not grow with the content.

    The caller has left `HEADER_BYTES` of room in front. Errors of `source` and `write` pass through.
    """
    pieces = _pieces(source)
    sample = _at_least(_SAMPLE_BYTES, pieces)
    codec, _ = pack(sample)
    tally = _Tally()
    for payload in _encoded(codec, tally.counted(chain([sample], pieces))):
        tally.add_payload(payload)
        write(payload)
    return tally.packed(codec)


def unpack_stream(pieces: Iterable[bytes], *, path: str, size: int | None = None) -> Iterator[bytes]:
    """Yield the plain content of a packed form; `size` is what the caller expects, if it knows.

    Raises `Damaged` at the latest when the last piece was taken: only then is the checksum known.
    """
    source = _pieces(pieces)
    start = _at_least(HEADER_BYTES, source)
    codec, announced, checksum = _parse_header(start, path)
    if size not in (None, announced):
        raise Damaged(f"{announced} bytes announced, {size} expected", path=path, hint=RESTORE)
    tally = _Tally()
    payload = tally.checked(chain([start[HEADER_BYTES:]], source))
    for plain in _decoded(codec, payload, path):
        tally.size += len(plain)
        if tally.size > announced:
            raise Damaged(f"more than the announced {announced} bytes", path=path, hint=RESTORE)
        yield plain
    if tally.size != announced:
        raise Damaged(f"{tally.size} bytes instead of {announced}", path=path, hint=RESTORE)
    if crc32(start[: _HEADER.size], tally.crc) != checksum:
        raise Damaged("the stored bytes do not match their checksum", path=path, hint=RESTORE)


class _Tally:
    """Counts and hashes what passes on both sides of the codec."""

    __slots__ = ("crc", "digest", "payload_bytes", "size")

    def __init__(self) -> None:
        self.digest = sha256()
        self.size = 0
        self.crc = 0
        self.payload_bytes = 0

    def counted(self, plain: Iterable[bytes]) -> Iterator[bytes]:
        for piece in plain:
            self.digest.update(piece)
            self.size += len(piece)
            if self.size > CONTENT_MAX_BYTES:
                raise TooLarge(f"more than {CONTENT_MAX_BYTES} bytes in one blob", path="source")
            yield piece

    def checked(self, payload: Iterable[bytes]) -> Iterator[bytes]:
        for piece in payload:
            self.add_payload(piece)
            yield piece

    def add_payload(self, payload: bytes) -> None:
        self.crc = crc32(payload, self.crc)
        self.payload_bytes += len(payload)

    def packed(self, codec: int) -> PackedStream:
        head = _HEADER.pack(_MAGIC, codec, bytes(3), self.size)
        stored = Stored(self.digest.hexdigest(), self.size, HEADER_BYTES + self.payload_bytes)
        return PackedStream(head + _CHECK.pack(crc32(head, self.crc)), stored)


def _pieces(source: Iterable[bytes]) -> Iterator[bytes]:
    """Cut the source into pieces of bounded size; refuse what is not bytes."""
    for block in source:
        if not isinstance(block, bytes | bytearray | memoryview):
            hint = "pass an iterable of bytes, such as [data]"
            raise Invalid(f"expected bytes, got {type(block).__name__}", path="source", hint=hint)
        view = memoryview(block).cast("B")
        for start in range(0, len(view), CHUNK_BYTES):
            yield bytes(view[start : start + CHUNK_BYTES])


def _at_least(count: int, pieces: Iterator[bytes]) -> bytes:
    """Take pieces until there are that many bytes, or none left."""
    data = bytearray()
    while len(data) < count and (piece := next(pieces, None)) is not None:
        data += piece
    return bytes(data)


def _parse_header(start: bytes, path: str) -> tuple[int, int, int]:
    if len(start) < HEADER_BYTES:
        raise Damaged(f"{len(start)} bytes are too few for the header", path=path, hint=RESTORE)
    magic, codec, _zero, size = _HEADER.unpack_from(start)
    if magic != _MAGIC:
        raise Damaged("not a packed blob", path=path, hint=RESTORE)
    return codec, size, _CHECK.unpack_from(start, _HEADER.size)[0]


def _encoded(codec: int, plain: Iterable[bytes]) -> Iterator[bytes]:
    if codec == RAW:
        yield from plain
        return
    compressor = zstd.ZstdCompressor()
    for piece in plain:
        if payload := compressor.compress(piece):
            yield payload
    yield compressor.flush()


def _decoded(codec: int, payload: Iterable[bytes], path: str) -> Iterator[bytes]:
    if codec == RAW:
        return iter(payload)
    if codec == ZSTD:
        return _inflated(payload, path)
    raise Damaged(f"unknown codec {codec}", path=path, hint=RESTORE)


def _inflated(payload: Iterable[bytes], path: str) -> Iterator[bytes]:
    """Decompress exactly one frame, in pieces of bounded size whatever the ratio."""
    inflater = zstd.ZstdDecompressor(options=_LIMITS)
    try:
        for piece in payload:
            yield from _inflate(inflater, piece)
    except (zstd.ZstdError, EOFError) as error:
        raise Damaged(f"zstd: {error}", path=path, hint=RESTORE) from None
    _check_ended(inflater, path)


def _check_ended(inflater: zstd.ZstdDecompressor, path: str) -> None:
    if not inflater.eof or inflater.unused_data:
        raise Damaged("not exactly one zstd frame", path=path, hint=RESTORE)


def _inflate(inflater: zstd.ZstdDecompressor, piece: bytes) -> Iterator[bytes]:
    pending = piece
    while pending or not (inflater.eof or inflater.needs_input):
        plain = inflater.decompress(pending, CHUNK_BYTES)
        pending = b""
        if plain:
            yield plain

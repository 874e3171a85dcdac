"""Where large blobs live outside the database: what every place promises. `disk` and `objects` implement it.

Called by the store (which puts the content *before* it commits the reference, P1) and by the collector of
orphans. Keeps P1 (what `put` returned from is durable), P10 and P11 (a name is checked before it becomes
part of a path, and a tenant can only ask for its own partition) and the reading half of P6 (what is read is
what was written).

An address is the lower-case hex sha256 of the plain content. A tenant is the partition's internal id, given
by the store, never text of a user: equal content of two tenants is stored twice, so nobody learns what
others hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Protocol
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import msgspec

from perdure.errors import Damaged, Invalid, ReadOnly

ADDRESS = re.compile(r"[0-9a-f]{64}", re.ASCII)
TENANT = re.compile(r"[0-9a-z_-]{1,64}", re.ASCII)
RESTORE = "restore it from a backup; perdure verify names everything that is damaged"


class Stored(msgspec.Struct, frozen=True):
    """A stored blob: the address, the size of the plain content and what it takes in the place."""

    address: str
    size: int
    stored_bytes: int


class Place(Protocol):
    """A content-addressed partition per tenant; any thread or process may call any method at any time.

    All of them raise `Invalid` for a hostile name before anything is touched, `Unavailable` when the place
    cannot answer now, and `Refused` when it does not allow it.
    """

    @property
    def touch_after_us(self) -> int:
        """A put makes content that is there already young only if it is older than this."""
        ...

    def put(self, tenant: str, source: Iterable[bytes]) -> Stored:
        """Store the content of `source`, streaming, and return once it is durable (P1).

        Atomic and idempotent: the address shows the whole content or nothing, also after a crash. Content
        that is there already is verified, replaced if damaged, and made young again (see `touch_after_us`), so
        that a collector spares it. Errors of `source` itself pass through and leave nothing behind. Raises `Full` when there
        is no room.
        """
        ...

    def open(self, tenant: str, address: str) -> Iterator[bytes]:
        """Stream the plain content; raises `Damaged`, naming the address, before the last piece is given.

        `NotFound` comes from the call itself, not from the first piece.
        """
        ...

    def read(self, tenant: str, address: str, size: int) -> bytes:
        """Return the plain content of `size` bytes, verified as a whole before anything is returned."""
        ...

    def exists(self, tenant: str, address: str) -> bool:
        """Say whether something is stored there. It is not verified: reading does that."""
        ...

    def delete(self, tenant: str, address: str, *, before_us: int | None = None) -> bool:
        """Remove it, durably, and say whether it was there. Idempotent.

        With `before_us`, only if it was last put before that instant: the collector passes the cutoff by
        which it chose the address, so that a put in the meantime is spared.
        """
        ...

    def addresses(self, tenant: str) -> Iterator[tuple[str, int]]:
        """Every address of the tenant with the instant (microseconds) of its last put, for the collector."""
        ...

    def tenants(self) -> Iterator[str]:
        """Every partition that was ever written to."""
        ...

    def sweep(self, before_us: int) -> int:
        """Remove what puts that died left behind before that instant, and count it. Idempotent."""
        ...


class ReadOnlyPlace:
    """A place of a store that is open for reading only: what would change it is `ReadOnly`, before it is begun."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.touch_after_us = place.touch_after_us
        self.open, self.read, self.exists = place.open, place.read, place.exists
        self.addresses, self.tenants = place.addresses, place.tenants

    def put(self, tenant: str, source: Iterable[bytes]) -> Stored:  # noqa: ARG002 (the contract's parameters)
        """Refuse."""
        raise _read_only()

    def delete(self, tenant: str, address: str, *, before_us: int | None = None) -> bool:  # noqa: ARG002 (as above)
        """Refuse."""
        raise _read_only()

    def sweep(self, before_us: int) -> int:  # noqa: ARG002 (as above)
        """Refuse."""
        raise _read_only()


def _read_only() -> ReadOnly:
    return ReadOnly("the store was opened for reading only", path="store", hint="open it without read_only")


def check_address(address: object) -> str:
    """Accept an address; anything else is refused before a path is built from it."""
    if type(address) is not str or ADDRESS.fullmatch(address) is None:
        raise Invalid("expected 64 lower-case hexadecimal digits", path="address")
    return address


def check_tenant(tenant: object) -> str:
    """Accept the name of a partition; anything else is refused before a path is built from it."""
    if type(tenant) is not str or TENANT.fullmatch(tenant) is None:
        raise Invalid("expected 1 to 64 of a-z 0-9 _ -", path="tenant")
    return tenant


def name_of(address: str) -> str:
    """How errors name a blob."""
    return f"blob:{address}"


def verified(address: str, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Pass the pieces on, always one behind, so that the last one is held back until the hash is known."""
    digest = sha256()
    held = b""
    for piece in filter(None, pieces):  # an empty last piece must not push out the one before it
        if held:
            yield held
        digest.update(piece)
        held = piece
    if digest.hexdigest() != address:
        raise Damaged("the content does not match its address", path=name_of(address), hint=RESTORE)
    if held:
        yield held


def place_from_url(url: str) -> Place:
    """Open the place that a URL names; nothing is created or contacted yet.

    `file:///dir`, or `s3://bucket/prefix?endpoint=URL&region=NAME&allow_http=true`. Credentials never stand
    in a URL: they come from the environment. Raises `Invalid`, or `Refused` when the extra is not
    installed.
    """
    parts = _split(url)
    if parts.scheme == "file":
        return _disk_place(parts)
    if parts.scheme == "s3":
        return _s3_place(parts)
    raise Invalid(f"unknown scheme {parts.scheme!r}", path="url", hint="file:///dir or s3://bucket/prefix")


def _split(url: str) -> SplitResult:
    if type(url) is not str or not url.isprintable():
        raise Invalid("expected a printable URL", path="url")
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise Invalid(str(error), path="url") from None
    if parts.fragment or "@" in parts.netloc:
        raise Invalid("no fragment and no credentials in a URL", path="url", hint="set them in the environment")
    return parts


def _disk_place(parts: SplitResult) -> Place:
    from perdure.artifacts.disk import DiskPlace  # noqa: PLC0415 (it imports this module)

    if parts.netloc not in {"", "localhost"} or parts.query:
        raise Invalid("a file URL has no host and no parameters", path="url", hint="file:///dir")
    return DiskPlace(Path(unquote(parts.path)))


def _s3_place(parts: SplitResult) -> Place:
    from perdure.artifacts.objects import S3Place  # noqa: PLC0415 (it imports this module)

    pairs = parse_qsl(parts.query, keep_blank_values=True)
    settings = dict(pairs)
    unknown = settings.keys() - {"endpoint", "region", "allow_http"}
    if unknown or len(settings) != len(pairs):
        # It is not repeated here: a misplaced "?" makes a parameter of a password.
        raise Invalid("unknown or repeated parameter", path="url", hint="endpoint, region and allow_http, each once")
    return S3Place(
        parts.netloc,
        unquote(parts.path),
        endpoint=settings.get("endpoint"),
        region=settings.get("region"),
        allow_http=_flag(settings.get("allow_http", "false")),
    )


def _flag(text: str) -> bool:
    if text not in {"true", "false"}:
        raise Invalid(f"expected true or false, got {text!r}", path="url.allow_http")
    return text == "true"

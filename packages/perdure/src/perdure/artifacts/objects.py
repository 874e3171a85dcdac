"""Blobs in S3-compatible object storage, through `obstore`. Called through `place_from_url("s3://bucket/prefix")`.

An object is named PREFIX/TENANT/ADDRESS and holds the packed form (see `compress`). A put is first spooled
to an unnamed local file, because its address is known only at its end and objects cannot be renamed; then
it is one conditional request, or a multipart upload when it is large. Keeps P1: an object store shows a
whole object or none and answers only when it is durable. Keeps P15: every request has a deadline; reading
goes by ranges of bounded size.

It differs from a disk in two ways: an object is made young by writing it again, which only happens when it is older than
`touch_after_seconds`, so a collector's grace must be longer than that, as it checks; its last check and its delete are two
requests. Uploads that died are removed by a lifecycle rule of the bucket ("abort incomplete
multipart uploads").
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any, Final

from perdure.artifacts.compress import unpack_stream
from perdure.artifacts.descriptors import room, translated, write_packed
from perdure.artifacts.place import (
    ADDRESS,
    TENANT,
    Stored,
    check_address,
    check_tenant,
    name_of,
    verified,
)
from perdure.errors import Damaged, Error, Full, Invalid, NotFound, Refused, Unavailable
from perdure.model.crash_points import reach
from perdure.model.instants import Clock, system_clock

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import S3Store

PART_BYTES: Final = 8 * 1024 * 1024  # one request carries at most this much, up or down
_ENDPOINT = re.compile(r"https?://([A-Za-z0-9.-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?", re.ASCII)
_REGION = re.compile(r"[a-z0-9-]{1,64}", re.ASCII)
_BUCKET = re.compile(r"[A-Za-z0-9._-]{1,255}", re.ASCII)
_DENIED = re.compile(r"status code: 40[13]\b")  # said in so many words, whatever the class of the error
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class S3Place:
    """A `Place` below one prefix of one bucket. Credentials come from the environment, as AWS names them."""

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        *,
        endpoint: str | None = None,
        region: str | None = None,
        allow_http: bool = False,
        deadline_seconds: float = 30.0,
        touch_after_seconds: float = 1800.0,
        clock: Clock = system_clock,
    ) -> None:
        _check_network(endpoint, region, allow_http=allow_http)
        self._obstore = _obstore()
        self._prefix = _checked_prefix(bucket, prefix)
        self.touch_after_us = round(touch_after_seconds * 1_000_000)
        self._clock = clock
        # A retry may start until half of the deadline and take the other half: no call exceeds the whole.
        half = timedelta(seconds=deadline_seconds / 2)
        settings: dict[str, Any] = {"endpoint": endpoint, "region": region}
        self._bucket: S3Store = self._obstore.store.S3Store(
            bucket,
            config={name: value for name, value in settings.items() if value is not None},
            client_options={"allow_http": allow_http, "timeout": half, "connect_timeout": half},
            retry_config={"max_retries": 2, "retry_timeout": half},
        )

    def put(self, tenant: str, source: Iterable[bytes]) -> Stored:
        """See `Place.put`. Raises `Full` when the local spool or the bucket is full."""
        check_tenant(tenant)
        with room(), _spool() as spool:
            stored = write_packed(spool.fileno(), source)
            reach("artifact.before_upload")
            stored = self._upload(self._key(tenant, stored.address), spool, stored)
        reach("artifact.after_upload")
        return stored

    def open(self, tenant: str, address: str) -> Iterator[bytes]:
        """See `Place.open`. `Unavailable` when the object was written again while it was being read."""
        content = self._content(check_tenant(tenant), check_address(address), None)
        next(content)
        return content

    def read(self, tenant: str, address: str, size: int) -> bytes:
        """See `Place.read`."""
        return b"".join(self._content(check_tenant(tenant), check_address(address), size))

    def exists(self, tenant: str, address: str) -> bool:
        """See `Place.exists`."""
        return self._head(self._key(check_tenant(tenant), check_address(address))) is not None

    def delete(self, tenant: str, address: str, *, before_us: int | None = None) -> bool:
        """See `Place.delete`; here the check of the instant and the delete are two requests."""
        key = self._key(check_tenant(tenant), check_address(address))
        meta = self._head(key)
        if meta is None or (before_us is not None and _modified_us(meta) >= before_us):
            return False
        reach("artifact.before_delete")
        with self._translated(name_of(address)):
            self._obstore.delete(self._bucket, key)
        reach("artifact.after_delete")
        return True

    def addresses(self, tenant: str) -> Iterator[tuple[str, int]]:
        """See `Place.addresses`. One page is held in memory at a time."""
        return self._addresses(f"{self._prefix}{check_tenant(tenant)}")

    def tenants(self) -> Iterator[str]:
        """See `Place.tenants`; here those that hold something."""
        with self._translated("list"):
            listing = self._obstore.list_with_delimiter(self._bucket, self._prefix or None)
        names = (path.rsplit("/", 1)[-1] for path in listing["common_prefixes"])
        return iter(sorted(name for name in names if TENANT.fullmatch(name)))

    def sweep(self, before_us: int) -> int:  # noqa: ARG002 (the contract's parameter)
        """Remove nothing: uploads that died are ended by a lifecycle rule of the bucket."""
        return 0

    def _upload(self, key: str, spool: IO[bytes], stored: Stored) -> Stored:
        """Write the object unless an intact and young one is there."""
        meta = self._head(key)
        if meta is None:
            if self._create(key, spool, stored):
                return stored
            meta = self._head(key)  # somebody was quicker: look at what they wrote
        if meta is not None and self._is_kept(key, meta, stored):
            return Stored(stored.address, stored.size, meta["size"])
        self._write(key, spool, stored, mode="overwrite")
        return stored

    def _create(self, key: str, spool: IO[bytes], stored: Stored) -> bool:
        try:
            self._write(key, spool, stored, mode="create")
        except self._obstore.exceptions.AlreadyExistsError:
            return False
        return True

    def _is_kept(self, key: str, meta: ObjectMeta, stored: Stored) -> bool:
        """Whether it can stay as it is; writing it again repairs it and makes it young, in one request."""
        age_us = self._clock() - _modified_us(meta)
        if not 0 <= age_us < self.touch_after_us:  # a clock that is behind: write again
            return False
        try:
            for _ in self._plain(key, meta, stored.address, stored.size):
                pass
        except (Damaged, Unavailable):
            return False
        return True

    def _write(self, key: str, spool: IO[bytes], stored: Stored, *, mode: str) -> None:
        """One conditional request, or a multipart upload, which overwrites with equal content."""
        spool.seek(0)
        where = name_of(stored.address)
        with self._translated(where, missing=Refused("no such bucket", path=where)):
            if stored.stored_bytes <= PART_BYTES:
                self._obstore.put(self._bucket, key, spool.read(), mode=mode, use_multipart=False)
            else:
                parts = {"use_multipart": True, "chunk_size": PART_BYTES, "max_concurrency": 2}
                self._obstore.put(self._bucket, key, spool, **parts)

    def _content(self, tenant: str, address: str, size: int | None) -> Iterator[bytes]:
        """Yield nothing once the object is found, so that `open` can raise at once; then the content."""
        key = self._key(tenant, address)
        meta = self._head(key)
        if meta is None:
            raise NotFound("no such blob", path=name_of(address))
        yield b""
        yield from self._plain(key, meta, address, size)

    def _plain(self, key: str, meta: ObjectMeta, address: str, size: int | None) -> Iterator[bytes]:
        where = name_of(address)
        payload = self._payload(key, meta, where)
        return verified(address, unpack_stream(payload, path=where, size=size))

    def _payload(self, key: str, meta: ObjectMeta, where: str) -> Iterator[bytes]:
        """The stored bytes of the very object that was found, range by range."""
        deleted_meanwhile = Unavailable("it was deleted while it was being read", path=where)
        for start in range(0, meta["size"], PART_BYTES):
            span = (start, min(start + PART_BYTES, meta["size"]))
            with self._translated(where, missing=deleted_meanwhile):
                options = {"range": span, "if_match": meta["e_tag"]}
                piece = self._obstore.get(self._bucket, key, options=options).bytes().to_bytes()
            yield piece

    def _head(self, key: str) -> ObjectMeta | None:
        with self._translated(key):
            try:
                return self._obstore.head(self._bucket, key)
            except FileNotFoundError:
                return None

    def _addresses(self, folder: str) -> Iterator[tuple[str, int]]:
        pages = self._obstore.list(self._bucket, folder, chunk_size=1000)
        while True:
            with self._translated("list"):
                page = next(pages, None)
            if page is None:
                return
            for meta in page:
                name = meta["path"].removeprefix(f"{folder}/")
                if ADDRESS.fullmatch(name):
                    yield name, _modified_us(meta)

    def _key(self, tenant: str, address: str) -> str:
        return f"{self._prefix}{tenant}/{address}"

    @contextmanager
    def _translated(self, where: str, *, missing: Error | None = None) -> Iterator[None]:
        """Say an error of the object store in the words of our tree; let a lost race for creation through."""
        try:
            yield
        except self._obstore.exceptions.AlreadyExistsError:
            raise
        except (self._obstore.exceptions.BaseError, OSError, ValueError) as error:
            expected = missing if isinstance(error, FileNotFoundError) else None
            raise (expected or _error_of(error, where)) from None


def _obstore() -> ModuleType:
    try:
        import obstore.exceptions  # noqa: PLC0415 (an optional extra)
        import obstore.store  # noqa: PLC0415
    except ImportError:
        raise Refused(
            "object storage needs the package obstore", path="url", hint='pip install "perdure[s3]"'
        ) from None
    return obstore


def _check_network(endpoint: str | None, region: str | None, *, allow_http: bool) -> None:
    # Strict, because obstore panics, past every `except Exception`, on what is not a URL.
    if endpoint is not None and _ENDPOINT.fullmatch(endpoint) is None:
        raise Invalid("expected https://host[:port][/path]", path="url.endpoint")
    if endpoint is not None and endpoint.startswith("http://") and not allow_http:
        hint = "add allow_http=true if that is meant"
        raise Invalid("an endpoint without TLS", path="url.endpoint", hint=hint)
    if region is not None and _REGION.fullmatch(region) is None:
        raise Invalid("expected the name of a region", path="url.region")


def _checked_prefix(bucket: str, prefix: str) -> str:
    """The prefix of all keys: empty, or ending in a slash."""
    if _BUCKET.fullmatch(bucket) is None:
        raise Invalid("expected the name of a bucket", path="url", hint="s3://bucket/prefix")
    segments = prefix.strip("/").split("/") if prefix.strip("/") else []
    if any(segment in {"", ".", ".."} or not segment.isprintable() for segment in segments):
        raise Invalid("expected a plain prefix", path="url", hint="s3://bucket/prefix")
    return "".join(f"{segment}/" for segment in segments)


def _spool() -> IO[bytes]:
    with translated("spool"):
        return tempfile.TemporaryFile(prefix="perdure-", buffering=0)


def _modified_us(meta: ObjectMeta) -> int:
    return (meta["last_modified"] - _EPOCH) // timedelta(microseconds=1)


def _error_of(error: Exception, where: str) -> Error:
    kind, message = type(error).__name__, str(error)
    brief = message.partition("\n")[0][:500]
    if any(sign in message for sign in ("code: 507", "StorageFull</Code>", "<Code>QuotaExceeded")):
        return Full(brief, path=where)
    if "/latest/api/token" in brief:  # with no credentials at all, it asks the machine's metadata service
        return Refused("no credentials", path=where, hint="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    if "<Code>NoSuchBucket" in message:
        return Refused("no such bucket", path=where)
    if _DENIED.search(brief):
        return Refused(brief, path=where, hint="the credentials do not allow it")
    if kind == "PreconditionError":
        return Unavailable("it was written again while being read", path=where, hint="read it again")
    return Unavailable(brief, path=where)

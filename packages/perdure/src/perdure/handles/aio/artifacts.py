"""Handles for artifacts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from pathlib import Path

from perdure.artifacts.local import Source, save_file
from perdure.handles.aio.base import AsyncStoreHandle, AsyncStreamHandle
from perdure.handles.facts import ArtifactFacts
from perdure.handles.filtered import filtered
from perdure.handles.later import artifacts
from perdure.model.filters import ArtifactFilters
from perdure.model.records.artifacts import ArtifactRecord
from perdure.planes.reading.paging import Page
from perdure.runtime.callers import AsyncCaller


class AsyncArtifact(ArtifactFacts):
    """One version of an artifact: its facts and its content. Reading never changes anything."""

    __slots__ = ("_caller", "record")

    def __init__(self, caller: AsyncCaller, record: ArtifactRecord) -> None:
        self._caller = caller
        self.record = record

    async def read(self) -> bytes:
        """Return the whole content, verified before any of it is returned. Raises Damaged with the address."""
        return await self._caller.read(artifacts.content, self.hash)

    async def open(self) -> AsyncIterator[bytes]:
        """Iterate over the content in pieces, without holding it all in memory. Damaged is raised before the last piece is
        given.
        """
        pieces = await self._caller.read(artifacts.pieces, self.hash)
        while piece := await self._caller.work(artifacts.next_piece, pieces):
            yield piece

    async def save(self, path: str | Path) -> Path:
        """Write the content to a file. When this returns, the file is whole, verified and on the disk; when it raises, an
        existing file is untouched.
        """
        pieces = await self._caller.read(artifacts.pieces, self.hash)
        return await self._caller.work(save_file, Path(path), pieces)


class AsyncArtifacts(AsyncStreamHandle):
    """Verbs of a session for artifacts."""

    __slots__ = ()

    async def attach(
        self, name: str, data: Source, *, media_type: str | None = None, about: Iterable[str] = ()
    ) -> AsyncArtifact:
        """Keep a file in the session: bytes, text, a Path, an open binary file or an iterable of bytes, of any size.

        Large files are streamed. Atomic: the content is durable before the reference to it is committed. The same name again is
        a new version; the same content again takes no room. A crash leaves at most content that nothing refers to, which
        `store.collect` removes. Raises Invalid, TooLarge, NotFound (no such file), Full or Unavailable; nothing is attached
        then.
        """
        details = artifacts.describe(name, data, media_type, about)
        core, tenant = self._caller.core, self._caller.tenant
        address = await self._caller.work(artifacts.address_ahead, core.blobs, data)
        if address is not None:
            await self._caller.write(artifacts.pin, address, core.holder)
        row = await self._caller.work(artifacts.take_in, core.blobs, tenant, data)
        return AsyncArtifact(self._caller, await self._write(artifacts.attach, details, row, core.holder))

    async def artifacts(
        self, name: str | None = None, *, about: str | None = None, limit: int = 50, after: str | None = None
    ) -> Page[AsyncArtifact]:
        """Return the artifacts of this session, newest first, all versions. The next page is `after=page.next`."""
        found = await self._read(artifacts.listing, name=name, about=about, limit=limit, after=after)
        return found.each(lambda record: AsyncArtifact(self._caller, record))

    async def artifact(self, name: str) -> AsyncArtifact:
        """Return the newest version under this name. Raises NotFound."""
        return AsyncArtifact(self._caller, await self._read(artifacts.newest, name))


class AsyncArtifactsAcross(AsyncStoreHandle):
    """Verbs of a store that ask across all artifacts."""

    __slots__ = ()

    async def artifact(self, hash: str) -> AsyncArtifact:  # noqa: A002 - the word of the design
        """Return the newest artifact with this content hash. The first 8 digits or more are enough.

        Raises NotFound, also when only another tenant has it, and Conflict with the candidates if several hashes begin so.
        """
        return AsyncArtifact(self._caller, await self._caller.read(artifacts.by_address, hash))

    @filtered(ArtifactFilters)
    async def artifacts(self, asked: ArtifactFilters) -> Page[AsyncArtifact]:
        """Return the artifacts of all sessions, newest first. The next page is `after=page.next`."""
        found = await self._caller.read(artifacts.across, asked)
        return found.each(lambda record: AsyncArtifact(self._caller, record))

"""Handles for checkpoints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from perdure.handles.aio.base import AsyncStreamHandle
from perdure.model.limits import check_name
from perdure.model.records.checkpoints import CheckpointRecord, PruneReport
from perdure.planes.reading.durations import Duration
from perdure.planes.reading.paging import Page
from perdure.planes.recovery import checkpoints, keyed


class AsyncCheckpoints(AsyncStreamHandle):
    """The verbs of a session for checkpoints."""

    __slots__ = ()

    async def checkpoint(
        self, state: Any, *, name: str = "default", key: str | None = None, parent: str | None = None, document: Any = None,
        about: Iterable[str] = (),
    ) -> CheckpointRecord:  # fmt: skip
        """Save the whole state, any value; it costs what changed since the states that are stored already.

        Atomic. Saving the same state again makes a new checkpoint with the same hash and adds no node. After
        a crash it is there whole or not at all. The state is taken as it is at the call. Raises Invalid or
        TooLarge with the path inside it. about: whom it is about, besides those of all that is in the session so far.

        key: a name of your own for it, by which `restore` finds it; one that has this key already is replaced. parent: the key
        of the checkpoint that it follows. document: what else is to be known of it.
        """
        prepared = await self._read(checkpoints.prepare, checkpoints.freeze(state), check_name(name, "name"))
        if key is not None:
            return await self._write(keyed.save_prepared, prepared, name, key, parent, document, about)
        return await self._write(checkpoints.save, prepared, name, about=about)

    async def restore(
        self, seq: int | None = None, *, name: str = "default", key: str | None = None, default: Any = None
    ) -> Any:
        """The state of the newest checkpoint of this name, `default` when there is none; with `seq`, of that
        checkpoint; with `key`, of the one that has it.

        Every node is checked against its hash. Raises NotFound for a `seq` that is none, Damaged with the
        node's address.
        """
        if key is not None:
            return await self._read(keyed.restore, name, key, default)
        return await self._read(checkpoints.restore, seq, name=name, default=default)

    async def checkpoints(
        self, name: str | None = None, *, about: str | None = None, limit: int = 50, before: int | str | None = None
    ) -> Page[CheckpointRecord]:
        """The checkpoints, newest first, a fork's parents included. `.next`, for `before=`, is None when that was all. about:
        those that may hold something about a subject.
        """
        return await self._read(checkpoints.listing, name=name, about=about, limit=limit, before=before)

    async def prune_checkpoints(
        self, *, keep: int, name: str | None = None, older_than: Duration | None = None, dry_run: bool = False
    ) -> PruneReport:
        """Take away all but the newest `keep` of each name (or of one name), if they are older than that.

        The others read back as before, and so does the checkpoint that a fork continues. Recorded; atomic in pages of
        500; after a crash, call it again. It frees no bytes by itself: `store.collect` does. `dry_run`
        changes nothing and tells the bytes as well, which costs a walk over the session's checkpoints. Raises
        Invalid.
        """
        chosen = {"keep": keep, "name": name, "older_than": older_than}
        if dry_run:
            return await self._read(checkpoints.plan, **chosen)
        doomed, kept, forks = await self._read(checkpoints.choose, **chosen)
        pruned: list[int] = []
        for page in checkpoints.pages([seq for seq, _ in doomed]):
            pruned += await self._write(checkpoints.prune, page, forks, **chosen)
        return PruneReport(tuple(pruned), len(kept) + len(doomed) - len(pruned), None, dry_run=False)

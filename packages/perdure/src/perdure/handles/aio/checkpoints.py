"""Handles for checkpoints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from perdure.handles.aio.base import AsyncStreamHandle
from perdure.handles.aio.made import reads
from perdure.model.limits import check_name
from perdure.model.records.checkpoints import CheckpointRecord, PruneReport
from perdure.planes.reading.durations import Duration
from perdure.planes.recovery import checkpoints, keyed
from perdure.verbs import work as verbs


class AsyncCheckpoints(AsyncStreamHandle):
    """Verbs of a session for checkpoints."""

    __slots__ = ()

    async def checkpoint(
        self, state: Any, *, name: str = "default", key: str | None = None, parent: str | None = None, document: Any = None,
        about: Iterable[str] = (),
    ) -> CheckpointRecord:  # fmt: skip
        """Save a whole state, any value. It costs what changed since the states that are stored already.

        Atomic; after a crash the checkpoint is there whole or not at all. The state is taken as it is at the call. Saving the
        same state again makes a new checkpoint with the same hash and adds no node.
        name: a line of checkpoints; `restore` returns the newest of a name.
        key: your own name for this checkpoint, by which `restore` finds it. An earlier checkpoint with this key is replaced.
        parent: the key of the checkpoint that it follows.
        document: anything else to keep with it.
        about: its subjects, besides those of everything in the session so far.

        Raises Invalid or TooLarge with the path inside the state.
        """
        prepared = await self._read(checkpoints.prepare, checkpoints.freeze(state), check_name(name, "name"))
        if key is not None:
            return await self._write(keyed.save_prepared, prepared, name, key, parent, document, about)
        return await self._write(checkpoints.save, prepared, name, about=about)

    async def restore(
        self, seq: int | None = None, *, name: str = "default", key: str | None = None, default: Any = None
    ) -> Any:
        """Return the state of the newest checkpoint of this name, or `default` when there is none.

        seq: of the checkpoint with this number. key: of the checkpoint with this key. Every node is checked against its hash.
            Raises NotFound for a `seq` without a checkpoint, Damaged with the address of a node.
        """
        if key is not None:
            return await self._read(keyed.restore, name, key, default)
        return await self._read(checkpoints.restore, seq, name=name, default=default)

    checkpoints = reads(verbs.list_checkpoints)

    async def prune_checkpoints(
        self, *, keep: int, name: str | None = None, older_than: Duration | None = None, dry_run: bool = False
    ) -> PruneReport:
        """Remove all but the newest `keep` checkpoints of each name (or of one name), if they are older than `older_than`.

        The others read back as before, and so does the checkpoint that a fork continues from. Recorded; atomic in pages of 500;
        after a crash, call it again. It frees no bytes by itself: `store.collect` does.
        dry_run: change nothing, and report the bytes as well, which costs a walk over the session's checkpoints.

        Raises Invalid.
        """
        chosen = {"keep": keep, "name": name, "older_than": older_than}
        if dry_run:
            return await self._read(checkpoints.plan, **chosen)
        doomed, kept, forks = await self._read(checkpoints.choose, **chosen)
        pruned: list[int] = []
        for page in checkpoints.pages([seq for seq, _ in doomed]):
            pruned += await self._write(checkpoints.prune, page, forks, **chosen)
        return PruneReport(tuple(pruned), len(kept) + len(doomed) - len(pruned), None, dry_run=False)

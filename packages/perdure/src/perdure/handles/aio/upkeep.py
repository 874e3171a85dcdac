"""Handles for the upkeep of a store: verify, anchors, backups, collection."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.handles.aio.base import AsyncStoreHandle
from perdure.handles.aio.made import reads_all
from perdure.handles.later import actors, backup, collect, retain, verify
from perdure.model.records.artifacts import CollectReport
from perdure.model.records.integrity import Backup, Problem, Report
from perdure.planes.reading.durations import Duration
from perdure.verbs import runs as verbs

if TYPE_CHECKING:
    from perdure.log.anchor import Anchor


class AsyncUpkeep(AsyncStoreHandle):
    """Verbs of a store for its upkeep."""

    __slots__ = ()

    # -- integrity and backups ---------------------------------------------------------------------------

    async def verify(
        self,
        anchor: Anchor | None = None,
        public_key: bytes | None = None,
        progress: Callable[[int, int], None] | None = None,
        *,
        blobs: bool = True,
    ) -> Report:
        """Check that everything in this store, of every tenant, is as it was written. Changes nothing.

        It follows every chain, folds every stream and compares every row, both ways, and reads every blob. It costs what the
        store holds, and others may write meanwhile.
        anchor: also find what is gone since the anchor was made.
        public_key: a PEM with which the anchor's signature is checked.
        progress: called with (events done, events in all), on another thread in async code.
        blobs: False leaves out the blobs.
        """
        task = partial(
            verify.verify_store, self._caller.core, anchor=anchor, public_key=public_key, progress=progress, blobs=blobs
        )
        return await self._caller.work(task)

    async def anchor(self, private_key: bytes | None = None) -> Anchor:
        """Return a statement of where every chain ends now, signed if an Ed25519 private key (PEM) is given. Recorded.

        Keep `anchor.to_json()` where the administrators of the store cannot change it: `verify(anchor)` then finds what was cut
        off or lost since. Raises Invalid for another kind of key, Refused when the extra `crypto` is missing.
        """
        caller = self._caller
        return await caller.work(verify.anchor_store, caller.core, private_key, caller.actor)

    actors = reads_all(verbs.all_actors)

    subjects = reads_all(verbs.all_subjects)

    async def forget_actor(self, name: str) -> int:
        """Remove an actor from the directory: headers keep a random name that no longer says anything. Returns how many there
        were.

        Rows and documents that name the actor stay as they are. Later writes of the actor go under a new random name; a process
        that has the store open meanwhile keeps the old one. Atomic; recorded. Raises NotFound for an unknown actor.
        """
        caller = self._caller
        forgotten = await self._write(actors.forget, name)
        caller.core.lane.actors.pop((caller.tenant, name), None)
        await caller.work(retain.purge, caller.core)
        return forgotten

    async def quarantine(self, stream: str, because: str, *, apply: bool = False) -> list[Problem]:
        """Record the damage that `verify` finds in a stream (its name or uid) as known. Without `apply` it is only shown.

        `verify`, `move` and `restore` then pass, and `verify` lists it as `quarantined`. Nothing is mended, deleted or hidden,
        and new damage in the same stream is a problem again. Costs a `verify`. Raises NotFound when nothing is wrong with the
        stream.
        """
        caller = self._caller
        task = partial(verify.quarantine_stream, caller.core, stream, because, caller.actor, apply=apply)
        return await caller.work(task)

    async def backup(self, path: str | Path, progress: Callable[[int, int], None] | None = None) -> Backup:
        """Back up the store into a new file, and its large blobs into `<path>.blobs/`, while others write.

        SQLite: a copy of the database. PostgreSQL: a logical snapshot of the schema; the result's `note` says what that is not.
        Atomic: after a crash the file is there complete, or not at all.
        progress: called with (done, total).

        Raises Conflict when something is there already, Full, Damaged when a blob is not what was written.
        """
        return await self._caller.work(backup.backup, self._caller.core, Path(path), progress)

    # -- collection --------------------------------------------------------------------------------------

    async def collect(
        self, grace: Duration = "1h", *, dry_run: bool = True, progress: Callable[[int, int], None] | None = None
    ) -> CollectReport:
        """Remove the blobs of this tenant that nothing refers to, and files in the place of artifacts without a blob.

        Safe beside any number of writers; after a crash, call it again.
        dry_run: the default; pass False to remove them.
        grace: how long ago a file must have been put: longer than any upload takes, and than twice the timeout of any writer.
        progress: called with (done, total).

        Raises Invalid for a grace that the usual timeout may outlast, Damaged when a checkpoint cannot be read whole; then
        nothing is removed.
        """
        before_us = collect.cutoff_us(grace, self._caller.core.blobs)
        marks, dead = await self._caller.read(collect.find_dead)
        if dry_run:
            return collect.report(dead, await self._stray_files(before_us), dry_run=True)
        gone: list[collect.Dead] = []
        for done, page in collect.pages(dead, collect.SWEEP_ROWS):
            marks = await self._caller.read(collect.refresh, marks)
            gone += await self._caller.write(collect.sweep, marks, page)
            if progress is not None:
                progress(done, len(dead))
        deleted = await self._delete_files(before_us, len(dead), progress)
        leftovers = await self._caller.work(collect.sweep_leftovers, self._caller.core.blobs, before_us)
        await self._caller.write(collect.forget_pins)
        return collect.report(gone, deleted, leftovers, dry_run=False)

    async def _stray_files(self, before_us: int) -> list[bytes]:
        caller = self._caller
        old = await caller.work(collect.old_files, caller.core.blobs, caller.tenant, before_us)
        strays: list[bytes] = []
        for _, page in collect.pages(old, collect.PAGE_ROWS):
            strays += await caller.read(collect.without_row, page)
        return strays

    async def _delete_files(
        self, before_us: int, done_before: int, progress: Callable[[int, int], None] | None
    ) -> list[bytes]:
        """Files of the rows that have just gone are among them."""
        caller = self._caller
        strays = await self._stray_files(before_us)
        deleted: list[bytes] = []
        for done, page in collect.pages(strays, collect.SWEEP_ROWS):
            args = (caller.core.blobs, caller.tenant, await caller.read(collect.without_row, page), before_us)
            deleted += await caller.work(collect.delete_files, *args)
            if progress is not None:
                progress(done_before + done, done_before + len(strays))
        return deleted

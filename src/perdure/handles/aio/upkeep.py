"""Handles for keeping a store well: verify, anchors, backups, collection."""

from __future__ import annotations

from collections.abc import Callable

from perdure.handles.aio.base import AsyncStoreHandle
from perdure.model.records.artifacts import CollectReport
from perdure.planes import collect
from perdure.planes.spans import Duration


class AsyncUpkeep(AsyncStoreHandle):
    """Looking after a store."""

    # -- collection --------------------------------------------------------------------------------------

    async def collect(
        self,
        grace: Duration = "1h",
        *,
        dry_run: bool = True,
        progress: Callable[[int, int], None] | None = None,
    ) -> CollectReport:
        """Remove the blobs of this tenant that nothing refers to, and files in the artifact place without a blob.

        Only with `dry_run=False`. Safe beside any number of writers; after a crash, call it again. grace: how long ago a
        file must have been put; longer than any upload takes. progress: called with (done, total).
        Raises Damaged when a checkpoint cannot be read whole: then nothing is removed.
        """
        before_us = collect.cutoff_us(grace)
        marks, dead = await self._caller.read(collect.find_dead)
        if dry_run:
            return collect.report(dead, await self._stray_files(before_us), dry_run=True)
        gone: list[collect.Dead] = []
        for done, page in collect.pages(dead, collect.SWEEP_ROWS):
            marks = await self._caller.read(collect.refresh, marks)
            gone += await self._caller.write(collect.sweep, marks, page)
            _tell(progress, done, len(dead))
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
            _tell(progress, done_before + done, done_before + len(strays))
        return deleted


def _tell(progress: Callable[[int, int], None] | None, done: int, total: int) -> None:
    if progress is not None:
        progress(done, total)

# Generated from handles/aio/upkeep.py by tools/unasync.py: edit that one.
"""Handles for keeping a store well: verify, anchors, backups, collection."""

from __future__ import annotations

from collections.abc import Callable

from perdure.handles.sync.base import StoreHandle
from perdure.model.records.artifacts import CollectReport
from perdure.planes import collect
from perdure.planes.spans import Duration


class Upkeep(StoreHandle):
    """Looking after a store."""

    # -- collection --------------------------------------------------------------------------------------

    def collect(
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
        marks, dead = self._caller.read(collect.find_dead)
        files = self._files_without_row(before_us)
        addresses = {blob.address for blob in dead} | set(files)
        if dry_run:
            size = sum(blob.size for blob in dead)
            return _collected(addresses, len(dead), size, len(files), dry_run=True)
        tell = _Progress(progress, len(dead) + len(files))
        gone = self._sweep_blobs(marks, dead, tell)
        strays = self._delete_files(before_us, tell)
        leftovers = self._caller.work(collect.sweep_leftovers, self._caller.core.blobs, before_us)
        self._caller.write(collect.forget_pins)
        addresses = {blob.address for blob in gone} | set(strays)
        size = sum(blob.size for blob in gone)
        return _collected(addresses, len(gone), size, len(strays), leftovers, dry_run=False)

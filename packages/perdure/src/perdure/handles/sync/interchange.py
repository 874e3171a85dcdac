# Generated from handles/aio/interchange.py by tools/unasync.py: edit that one.
"""Handles for bundles: files that carry sessions, scopes and runs from one store into another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.handles.later import bundle_in, bundle_out, incident, learning, readable
from perdure.handles.sync.base import StoreHandle
from perdure.model.records.bundles import Exported, ImportedBundle

if TYPE_CHECKING:
    from perdure.interchange.learning import Learnt
    from perdure.interchange.readable import Readable


class Interchange(StoreHandle):
    """Verbs of a store for bundles, out and in."""

    __slots__ = ()

    def export(
        self,
        path: str | Path,
        sessions: Iterable[str] = (),
        *,
        scopes: Iterable[str] = (),
        runs: Iterable[str] = (),
        everything: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> Exported:
        """Write a bundle of these sessions, scopes or runs (or of everything of this tenant) into a new file.

        A session brings its runs, and the origins of a fork up to where it was forked. The same content gives the same bytes.
        Atomic: after a crash the file is there whole or not at all.
        progress: called with (events done, events in all).

        Raises NotFound for a name, Conflict when the file exists, Damaged when stored data is not what was written.
        """
        chosen = bundle_out.Chosen([*sessions], [*scopes], [*runs], everything)
        caller = self._caller
        task = partial(bundle_out.export, caller.core, caller.tenant, chosen, Path(path), progress=progress)
        return caller.work(task)

    def export_incident(self, path: str | Path, run: str) -> Exported:
        """Write a bundle of one run, the runs that it started and its session, with a page that explains the run to people."""
        caller = self._caller
        chosen = caller.read(incident.chosen, run)
        page = partial(incident.page, run=run, store=caller.core.uid, epoch=caller.core.epoch)
        return caller.work(bundle_out.export, caller.core, caller.tenant, chosen, Path(path), page)

    def export_learning(
        self,
        path: str | Path,
        format: str,  # noqa: A002 - as `perdure export --format`
        sessions: Iterable[str] = (),
        *,
        everything: bool = False,
        outcome: str | None = None,
    ) -> Learnt:
        """Write these sessions (or all of this tenant) as rows to learn from: `openai`, `trl`, `preferences` or `atif`.

        A second new file, `PATH.lineage.jsonl`, gives the origin, outcome and corrections of each row. The same state gives the
        same bytes. Each file is there whole or not at all.
        outcome: only sessions that `worked`, `failed`, or whose outcome is `unknown`.

        Raises NotFound for a name, Conflict when a file exists, Invalid for an unknown format or outcome.
        """
        caller = self._caller
        task = partial(
            learning.export, caller.core, caller.tenant, Path(path), format, [*sessions], everything=everything, outcome=outcome
        )  # fmt: skip
        return caller.work(task)

    def readable(self, sessions: Iterable[str] = (), *, runs: Iterable[str] = ()) -> Readable:
        """Return everything in these sessions and runs for reading: `.sessions` and `.runs` as records, `.markdown()` as a
        page.

        Raises NotFound for a name.
        """
        caller = self._caller
        found = caller.read(bundle_out.readable, [*sessions])
        about = {"store": caller.core.uid, "epoch": caller.core.epoch}
        read = [caller.read(incident.readable, run=run, **about) for run in runs]
        return readable.Readable(found.sessions, read)

    def import_(
        self,
        path: str | Path,
        *,
        names: Mapping[str, str] | None = None,
        keys_apart: bool = False,
        dry_run: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> ImportedBundle:
        """Import the streams of a bundle into this tenant of this store.

        Everything is verified before anything is written, and then written in one commit. Importing it again changes nothing; a
        bundle that continues a stream of this store adds the rest. Unfinished runs arrive parked, and every open effect of a
        copy is in doubt: a copy never acts as if it were its original.
        names: new names for its sessions.
        keys_apart: let the copies hold no keys, those that are here already included: a caller that acts with one acts anew.
        dry_run: only report what would be done.

        Raises Invalid, TooLarge or Damaged for a file that is no sound bundle, Conflict (with the stream and the number of the
        event) where this store has other events. Nothing is written then.
        """
        caller, source, called = self._caller, Path(path), dict(names or {})
        looked = caller.work(bundle_in.look, source, progress)
        planned = caller.read(bundle_in.plan, source, looked, called, apart=keys_apart)
        tenant = caller.read(bundle_out.tenant_name)
        if dry_run:
            return bundle_in.report(looked, tenant, bundle_in.foreseen(planned), dry_run=True)
        large = caller.work(bundle_in.carry, caller.core, caller.tenant, source, looked.blobs)
        arrived = self._write(bundle_in.bring_in, source, looked, called, large, apart=keys_apart)
        return bundle_in.report(looked, tenant, arrived)

"""Restoring a backup, in both colours: the stores load it, the integrity plane checks it before anybody can
see it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from perdure.handles.opening import check_artifacts
from perdure.log.anchor import Anchor
from perdure.model.records.integrity import Report, Restored, WrittenBack
from perdure.planes.audit import verify
from perdure.stores.entry_points import files_kind
from perdure.upkeep import restore as stores_restore

Progress = Callable[[int, int], None]


def restore(
    source: str | Path,
    url: str,
    *,
    artifacts: str | None = None,
    anchor: Anchor | None = None,
    public_key: bytes | None = None,
    progress: Progress | None = None,
) -> Restored:
    """Restore a backup as a new store at `url`. An existing store is never touched.

    Every chain, row and blob is verified first; with an anchor, also that nothing was cut off. The store keeps its identity and
    gets the next epoch, so that open effects are settled rather than trusted. Atomic: after an error or a crash there is no
    store at `url`. Raises NotFound, Conflict (something is there), NewerSchema, Invalid (not a backup) or Damaged.
    """
    check_artifacts(artifacts)

    def check(snapshots: Callable[..., Any]) -> Report:
        return verify.verify(snapshots, anchor=anchor, public_key=public_key)

    return stores_restore.restore(Path(source), url, check, artifacts=artifacts, progress=progress)


def from_cache(url: str, *, dry_run: bool = False) -> WrittenBack:
    """Write back into the log of a files store what the log has lost and its cache still has.

    dry_run: only say what would be written. Nothing is taken out of the log. Atomic by segment, and repeatable after a crash.
        Raises Invalid (no files store), NotFound (this user has no cache of it), Unavailable (another process holds its lock),
        or Damaged (not all of it can be put where it stood).
    """
    return files_kind().from_cache(url, dry_run=dry_run)


async def arestore(
    source: str | Path,
    url: str,
    *,
    artifacts: str | None = None,
    anchor: Anchor | None = None,
    public_key: bytes | None = None,
    progress: Progress | None = None,
) -> Restored:
    """Restore a backup, for async code; `progress` is called on another thread. See `restore`."""
    from asyncio import to_thread  # noqa: PLC0415 - only async callers pay for asyncio

    about = {"artifacts": artifacts, "anchor": anchor, "public_key": public_key, "progress": progress}
    return await to_thread(lambda: restore(source, url, **about))  # type: ignore[arg-type] - the same names and types

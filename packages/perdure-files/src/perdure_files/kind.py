"""The files store as the core sees it: the entry point `files` of `perdure.stores` (`stores.entry_points.FilesKind`)."""

from __future__ import annotations

from pathlib import Path

from perdure.stores.store import Engine
from perdure.stores.url import Address, parse
from perdure_files.store import page_digest
from perdure_files.store.backup_as_log import as_files as write_log
from perdure_files.store.connection import remake
from perdure_files.store.engine import FilesEngine
from perdure_files.store.layout import Layout
from perdure_files.store.other_side import in_conflict
from perdure_files.store.restore_from_cache import from_cache
from perdure_files.views.page_keeper import accompany as keep_pages

__all__ = [
    "cache",
    "edited_pages",
    "engine",
    "from_cache",
    "is_in_conflict",
    "keep_pages",
    "parse",
    "remake",
    "write_log",
]


def engine(address: Address, timeout_seconds: float, *, read_only: bool) -> Engine:
    """The log of lines, and the cache that answers for it."""
    assert address.path is not None
    links_ignored = address.links_ignored
    return FilesEngine(address.url, address.path, timeout_seconds, read_only=read_only, links_ignored=links_ignored)


def cache(folder: Path) -> Path:
    """The file of its tables."""
    return Layout(folder).cache


def is_in_conflict(folder: Path) -> bool:
    """Whether a merge of two branches is not finished."""
    return bool(in_conflict(Layout(folder)))


def edited_pages(folder: Path) -> list[Path]:
    """The pages that somebody edited, and that are not recorded yet."""
    return page_digest.edited(Layout(folder))

"""Handles for keeping a store well: verify, anchors, backups, collection."""

from __future__ import annotations

from perdure.handles.aio.base import AsyncStoreHandle


class AsyncUpkeep(AsyncStoreHandle):
    """Looking after a store."""

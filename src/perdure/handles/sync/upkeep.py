# Generated from handles/aio/upkeep.py by tools/unasync.py: edit that one.
"""Handles for keeping a store well: verify, anchors, backups, collection."""

from __future__ import annotations

from perdure.handles.sync.base import StoreHandle


class Upkeep(StoreHandle):
    """Looking after a store."""

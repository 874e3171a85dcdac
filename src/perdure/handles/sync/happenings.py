# Generated from handles/aio/happenings.py by tools/unasync.py: edit that one.
"""Handles for emitted events, folds and the feed."""

from __future__ import annotations

from perdure.handles.sync.base import StoreHandle, StreamHandle


class Happenings(StreamHandle):
    """The verbs of a session for emitted events, folds and the feed."""


class HappeningsAcross(StoreHandle):
    """Asking across the store: emitted events, folds and the feed."""

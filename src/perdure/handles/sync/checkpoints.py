# Generated from handles/aio/checkpoints.py by tools/unasync.py: edit that one.
"""Handles for checkpoints."""

from __future__ import annotations

from perdure.handles.sync.base import StoreHandle, StreamHandle


class Checkpoints(StreamHandle):
    """The verbs of a session for checkpoints."""


class CheckpointsAcross(StoreHandle):
    """Asking across the store: checkpoints."""

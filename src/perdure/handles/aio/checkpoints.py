"""Handles for checkpoints."""

from __future__ import annotations

from perdure.handles.aio.base import AsyncStoreHandle, AsyncStreamHandle


class AsyncCheckpoints(AsyncStreamHandle):
    """The verbs of a session for checkpoints."""


class AsyncCheckpointsAcross(AsyncStoreHandle):
    """Asking across the store: checkpoints."""

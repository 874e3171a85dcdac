"""Handles for emitted events, folds and the feed."""

from __future__ import annotations

from perdure.handles.aio.base import AsyncStoreHandle, AsyncStreamHandle


class AsyncHappenings(AsyncStreamHandle):
    """The verbs of a session for emitted events, folds and the feed."""


class AsyncHappeningsAcross(AsyncStoreHandle):
    """Asking across the store: emitted events, folds and the feed."""

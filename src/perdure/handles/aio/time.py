"""Handles for time travel and forks."""

from __future__ import annotations

from perdure.handles.aio.base import AsyncStoreHandle, AsyncStreamHandle


class AsyncTime(AsyncStreamHandle):
    """The verbs of a session for time travel and forks."""


class AsyncTimeAcross(AsyncStoreHandle):
    """Asking across the store: time travel and forks."""

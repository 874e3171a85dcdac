"""Handles for tasks."""

from __future__ import annotations

from perdure.handles.aio.base import AsyncStoreHandle, AsyncStreamHandle


class AsyncWork(AsyncStreamHandle):
    """The verbs of a session for tasks."""


class AsyncWorkAcross(AsyncStoreHandle):
    """Asking across the store: tasks."""

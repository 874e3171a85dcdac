"""Handles for decisions."""

from __future__ import annotations

from perdure.handles.aio.base import AsyncStoreHandle, AsyncStreamHandle


class AsyncDecisions(AsyncStreamHandle):
    """The verbs of a session for decisions."""


class AsyncDecisionsAcross(AsyncStoreHandle):
    """Asking across the store: decisions."""

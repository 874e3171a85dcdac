"""Handles for artifacts."""

from __future__ import annotations

from perdure.handles.aio.base import AsyncStoreHandle, AsyncStreamHandle


class AsyncArtifacts(AsyncStreamHandle):
    """The verbs of a session for artifacts."""


class AsyncArtifactsAcross(AsyncStoreHandle):
    """Asking across the store: artifacts."""

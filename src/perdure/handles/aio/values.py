"""Handles for values and locks."""

from __future__ import annotations

from perdure.handles.aio.base import AsyncStoreHandle, AsyncStreamHandle


class AsyncValues(AsyncStreamHandle):
    """The verbs of a session for values and locks."""


class AsyncValuesAcross(AsyncStoreHandle):
    """Asking across the store: values and locks."""

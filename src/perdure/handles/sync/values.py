# Generated from handles/aio/values.py by tools/unasync.py: edit that one.
"""Handles for values and locks."""

from __future__ import annotations

from perdure.handles.sync.base import StoreHandle, StreamHandle


class Values(StreamHandle):
    """The verbs of a session for values and locks."""


class ValuesAcross(StoreHandle):
    """Asking across the store: values and locks."""

# Generated from handles/aio/work.py by tools/unasync.py: edit that one.
"""Handles for tasks."""

from __future__ import annotations

from perdure.handles.sync.base import StoreHandle, StreamHandle


class Work(StreamHandle):
    """The verbs of a session for tasks."""


class WorkAcross(StoreHandle):
    """Asking across the store: tasks."""

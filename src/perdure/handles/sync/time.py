# Generated from handles/aio/time.py by tools/unasync.py: edit that one.
"""Handles for time travel and forks."""

from __future__ import annotations

from perdure.handles.sync.base import StoreHandle, StreamHandle


class Time(StreamHandle):
    """The verbs of a session for time travel and forks."""


class TimeAcross(StoreHandle):
    """Asking across the store: time travel and forks."""

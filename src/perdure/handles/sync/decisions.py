# Generated from handles/aio/decisions.py by tools/unasync.py: edit that one.
"""Handles for decisions."""

from __future__ import annotations

from perdure.handles.sync.base import StoreHandle, StreamHandle


class Decisions(StreamHandle):
    """The verbs of a session for decisions."""


class DecisionsAcross(StoreHandle):
    """Asking across the store: decisions."""

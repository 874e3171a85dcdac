# Generated from handles/aio/artifacts.py by tools/unasync.py: edit that one.
"""Handles for artifacts."""

from __future__ import annotations

from perdure.handles.sync.base import StoreHandle, StreamHandle


class Artifacts(StreamHandle):
    """The verbs of a session for artifacts."""


class ArtifactsAcross(StoreHandle):
    """Asking across the store: artifacts."""

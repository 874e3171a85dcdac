# Generated from handles/aio/conversation.py by tools/unasync.py: edit that one.
"""Handles for sessions, turns, summaries, transcripts."""

from __future__ import annotations

from perdure.handles.sync.base import StoreHandle, StreamHandle


class Conversation(StreamHandle):
    """The verbs of a session for sessions, turns, summaries, transcripts."""


class ConversationAcross(StoreHandle):
    """Asking across the store: sessions, turns, summaries, transcripts."""

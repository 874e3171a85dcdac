"""Handles for sessions, turns, summaries, transcripts."""

from __future__ import annotations

from perdure.handles.aio.base import AsyncStoreHandle, AsyncStreamHandle


class AsyncConversation(AsyncStreamHandle):
    """The verbs of a session for sessions, turns, summaries, transcripts."""


class AsyncConversationAcross(AsyncStoreHandle):
    """Asking across the store: sessions, turns, summaries, transcripts."""

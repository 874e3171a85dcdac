"""The conversation: sessions, turns, summaries, transcripts, emitted events, artifacts, the feed."""

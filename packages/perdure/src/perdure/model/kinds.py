"""Kinds of events: which ones are Perdure's own. Nobody can emit what looks like one of them (P6).

Callers: `emit`, which refuses them, and whoever tells emitted events from the others.
"""

from __future__ import annotations

# First words of what Perdure says itself, now or some day.
RESERVED = frozenset({
    "anchor", "artifact", "ask", "call", "checkpoint", "cover", "decision", "effect", "feed", "lease", "lock", "log",
    "memory", "run", "scope", "session", "step", "store", "task", "tenant", "turn", "turns", "value",
})  # fmt: skip


def is_reserved(kind: str) -> bool:
    """Whether this is, or could become, a kind of Perdure's own; capitals make no difference."""
    return kind.partition(".")[0].lower() in RESERVED

"""The differences between the hosts of coding agents: the names of their events, the shape of their answers, their caps.

One record a host; everything else is common. Callers: `hook_answers` and `plans`. Measured or read as MEMORY.md of the project
says; a host that changes is changed here.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

CAP_CHARS = 9_900  # hosts let 10,000 characters of one hook entry through, and cut the rest without a word


class Moment(enum.StrEnum):
    """The meaning of an event to Perdure."""

    BEGIN = "begin"  # a context window begins, or begins anew after a compaction
    KEEP = "keep"  # the context may be gone soon: the transcript is ingested
    END = "end"  # the session of the host is over
    ACTED = "acted"  # a tool was called


class Shape(enum.StrEnum):
    """How a host wants text for its model."""

    SPECIFIC = "hookSpecificOutput"  # an object with the name of the event
    CONTEXT = "additional_context"  # an object with this one field
    PLAIN = "plain"  # the text itself


class Host(NamedTuple):
    """One of them. parts: hook entries at the beginning of a session. format: of its transcripts, which are
    read if the importers know it, themselves or by another package."""

    name: str
    title: str
    moments: dict[str, Moment]
    shape: Shape
    parts: int
    format: str = ""
    program: str = ""


_CLAUDE = {
    "SessionStart": Moment.BEGIN, "PreCompact": Moment.KEEP, "Stop": Moment.KEEP, "SubagentStop": Moment.KEEP,
    "SessionEnd": Moment.END, "PostToolUse": Moment.ACTED, "PostToolUseFailure": Moment.ACTED,
}  # fmt: skip
_GEMINI = {
    "SessionStart": Moment.BEGIN, "PreCompress": Moment.KEEP, "AfterAgent": Moment.KEEP, "SessionEnd": Moment.END,
    "AfterTool": Moment.ACTED,
}  # fmt: skip
_CURSOR = {
    "sessionStart": Moment.BEGIN, "preCompact": Moment.KEEP, "stop": Moment.KEEP, "sessionEnd": Moment.END,
    "afterShellExecution": Moment.ACTED, "afterFileEdit": Moment.ACTED,
}  # fmt: skip
_KNOWN = (
    Host(
        name="claude-code",
        title="Claude Code",
        moments=_CLAUDE,
        shape=Shape.SPECIFIC,
        parts=2,
        format="claude-code",
        program="claude",
    ),
    Host(name="codex", title="Codex", moments=_CLAUDE, shape=Shape.SPECIFIC, parts=2, format="codex", program="codex"),
    Host("cursor", "Cursor", _CURSOR, Shape.CONTEXT, 1, format="cursor", program="cursor"),
    Host("gemini", "Gemini CLI", _GEMINI, Shape.SPECIFIC, 2, format="gemini", program="gemini"),
    Host("opencode", "opencode", _CLAUDE, Shape.PLAIN, 1, program="opencode"),
    Host("generic", "any other host", _CLAUDE, Shape.PLAIN, 1),
)
HOSTS = {host.name: host for host in _KNOWN}


def answer(host: Host, event: str, text: str) -> Any:
    """The output of a hook: an object for hosts that read JSON, a text for the others; nothing to say is empty."""
    if host.shape is Shape.PLAIN:
        return text
    if not text:
        return {}
    if host.shape is Shape.CONTEXT:
        return {"additional_context": text}
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}

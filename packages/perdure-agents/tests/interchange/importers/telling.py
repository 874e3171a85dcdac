"""A session told as a list, so that it can be compared with what the library that wrote it tells.

One entry a turn: (role, text), (call, id, tool, args), (result, id, text).
"""

from __future__ import annotations

from typing import Any

Told = list[tuple[Any, ...]]


def text(content: Any) -> str:
    """The text of a content, parts joined."""
    if isinstance(content, list):
        return "\n".join(str(part.get("text", part)) if isinstance(part, dict) else str(part) for part in content)
    return "" if content is None else content if isinstance(content, str) else repr(content)


def ours(session: Any) -> Told:
    """A session of a store."""
    told: Told = []
    for turn in session.turns(last=1000):
        if turn.call is not None:
            told.append(("result", turn.call, text(turn.content)))
            continue
        if turn.content is not None:
            told.append((turn.role.value, text(turn.content)))
        told += [("call", call.id, call.tool, call.args) for call in turn.calls]
    return told

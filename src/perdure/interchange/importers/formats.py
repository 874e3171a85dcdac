"""The formats that can be imported, and how a file's is found: by what is in it, never by its name alone.

Callers: `importing.py` and the doors. A new format is one module with NAME, `recognises` and `read`, and a line here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from perdure.errors import Error, Invalid
from perdure.interchange.importers import claude_code, codex, google_adk, langgraph, mcp_memory, openai_agents, plain
from perdure.interchange.importers.items import Item, Remark
from perdure.interchange.importers.reading import Head, Source, document, head_of
from perdure.stores.foreign import Foreign, is_sqlite

ENDINGS = frozenset({".json", ".jsonl", ".db", ".sqlite", ".sqlite3"})

Read = Callable[[Source], Iterator[Item | Remark]]


class Format(NamedTuple):
    """One of them: its name, what it is, whether a file of lines is one, and what is in it."""

    name: str
    about: str
    read: Read
    recognises: Callable[[Head], bool] = lambda _: False
    has_tables: Callable[[dict[str, frozenset[str]]], bool] = lambda _: False


_KNOWN = (
    Format(claude_code.NAME, "Claude Code sessions (JSON lines)", claude_code.read, claude_code.recognises),
    Format(codex.NAME, "Codex sessions (rollout files, JSON lines)", codex.read, codex.recognises),
    Format(mcp_memory.NAME, "the MCP memory server's graph (JSON lines)", mcp_memory.read, mcp_memory.recognises),
    Format(langgraph.NAME, "LangGraph checkpoints (SQLite)", langgraph.read, has_tables=langgraph.has_tables),
    Format(
        openai_agents.NAME, "OpenAI Agents sessions (SQLite)", openai_agents.read, has_tables=openai_agents.has_tables
    ),
    Format(google_adk.NAME, "Google ADK sessions (SQLite)", google_adk.read, has_tables=google_adk.has_tables),
    Format(plain.NAME, "JSON files of messages as OpenAI or Anthropic write them", plain.read, plain.recognises),
)
FORMATS = {found.name: found for found in _KNOWN}


def format_named(name: str) -> Format:
    """One of them. Invalid for what is none."""
    if name not in FORMATS:
        raise Invalid(f"no format {name[:40]!r}", path="from", hint=f"one of {', '.join(FORMATS)}")
    return FORMATS[name]


def detect(path: Path) -> Format | None:
    """The format of a file; None if it has none of them. Unavailable if it cannot be read."""
    head = head_of(path)
    if is_sqlite(head.data):
        with Foreign(path) as foreign:
            return next((each for each in FORMATS.values() if each.has_tables(foreign.tables)), None)
    found = next((each for each in FORMATS.values() if each.recognises(head)), None)
    if found is None and head.data.lstrip(b"\xef\xbb\xbf\xff\xfe\0 \t\r\n")[:1] in (b"{", b"["):
        return FORMATS[plain.NAME] if _holds_messages(path) else None
    return found


def _holds_messages(path: Path) -> bool:
    try:
        found: Any = document(path)
    except Error:
        return plain.is_torn_session(path)
    return plain.holds_messages(found)


def may_be_broken(path: Path) -> bool:
    """Whether a file of no known format could be what is left of one: it has such a name, and nothing whole in it."""
    head = head_of(path)
    if path.suffix.lower() not in ENDINGS or not head.data or is_sqlite(head.data) or head.records:
        return False
    try:
        document(path)
    except Error:
        return True
    return False

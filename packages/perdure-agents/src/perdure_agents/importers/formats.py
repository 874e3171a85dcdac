"""The formats that can be imported, and how a file's is found: by what is in it, never by its name alone.

Callers: `file_import.py` and the doors. A new format is one module with NAME, `recognises` and `read`, and a line here. Another
package brings one by an entry point of the group `perdure.importers`, named after the format: a `Format` (docs/importing.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from perdure.errors import Error, Invalid, Refused
from perdure.model import siblings
from perdure_agents.importers import (
    claude_code,
    codex,
    google_adk,
    langgraph,
    openai_agents,
    plain,
)
from perdure_agents.importers.foreign_sqlite import ForeignFile, is_sqlite
from perdure_agents.importers.items import Item, Remark
from perdure_agents.importers.sources import FileHead, Source, document, head_of

GROUP = "perdure.importers"
ENDINGS = frozenset({".json", ".jsonl", ".db", ".sqlite", ".sqlite3"})

Read = Callable[[Source], Iterator[Item | Remark]]


class ImportFormat(NamedTuple):
    """One of them: its name, what it is, what is in a file of it, and whether a file of lines or one with tables is one."""

    name: str
    about: str
    read: Read
    recognises: Callable[[FileHead], bool] = lambda _: False
    has_tables: Callable[[dict[str, frozenset[str]]], bool] = lambda _: False


_KNOWN = (
    ImportFormat(claude_code.NAME, "Claude Code sessions (JSON lines)", claude_code.read, claude_code.recognises),
    ImportFormat(codex.NAME, "Codex sessions (rollout files, JSON lines)", codex.read, codex.recognises),
    ImportFormat(langgraph.NAME, "LangGraph checkpoints (SQLite)", langgraph.read, has_tables=langgraph.has_tables),
    ImportFormat(
        openai_agents.NAME, "OpenAI Agents sessions (SQLite)", openai_agents.read, has_tables=openai_agents.has_tables
    ),
    ImportFormat(google_adk.NAME, "Google ADK sessions (SQLite)", google_adk.read, has_tables=google_adk.has_tables),
    ImportFormat(plain.NAME, "JSON files of messages as OpenAI or Anthropic write them", plain.read, plain.recognises),
)
FORMATS = {found.name: found for found in _KNOWN}
ONCE_KNOWN = ("cursor", "gemini", "mcp-memory", "opencode")  # a package of another maker may declare them


def _declared() -> dict[str, siblings.EntryPoint]:
    """Formats that installed packages declare, by their names. Ours cannot be replaced."""
    return {name: point for name, point in siblings.declared(GROUP).items() if name not in FORMATS}


def _loaded(declared: siblings.EntryPoint) -> ImportFormat:
    """The format that a package declares. Refused if it cannot be loaded, or is none."""
    hint = "reinstall or remove its package; --from FORMAT names the format of the files"
    try:
        loaded: Any = declared.load()
    except Refused as error:
        message = f"the package that declares the format {declared.name}: {error.message}"
        raise Refused(message, path="from", hint=hint) from error
    if not isinstance(loaded, ImportFormat) or loaded.name != declared.name:
        raise Refused(f"{declared.value} is not a format named {declared.name}", path="from", hint=hint)
    return loaded


def _all() -> Iterator[ImportFormat]:
    """Every format, in the order in which a file is tried: what could be anybody's messages comes last."""
    yield from (builtin for builtin in _KNOWN if builtin.name != plain.NAME)
    yield from map(_loaded, _declared().values())
    yield FORMATS[plain.NAME]


def format_named(name: str) -> ImportFormat:
    """One of them. Invalid for what is none."""
    if name in FORMATS:
        return FORMATS[name]
    declared = _declared()
    if name in ONCE_KNOWN and name not in declared:
        hint = "install a package that brings it by the entry point perdure.importers (docs/importing.md says how to write one)"
        raise Invalid(f"the format {name} no longer comes with Perdure", path="from", hint=hint)
    if name not in declared:
        raise Invalid(f"no format {name[:40]!r}", path="from", hint=f"one of {', '.join((*FORMATS, *declared))}")
    return _loaded(declared[name])


def is_known(name: str) -> bool:
    """Whether it is one of ours, or an installed package declares it."""
    return name in FORMATS or name in _declared()


def detect(path: Path) -> ImportFormat | None:
    """The format of a file; None if it has none of them. Unavailable if it cannot be read."""
    head = head_of(path)
    if is_sqlite(head.data):
        with ForeignFile(path) as foreign:
            return next((candidate for candidate in _all() if candidate.has_tables(foreign.tables)), None)
    recognised = next((candidate for candidate in _all() if candidate.recognises(head)), None)
    if recognised is None and head.data.lstrip(b"\xef\xbb\xbf\xff\xfe\0 \t\r\n")[:1] in (b"{", b"["):
        return FORMATS[plain.NAME] if _holds_messages(path) else None
    return recognised


def _holds_messages(path: Path) -> bool:
    try:
        parsed: Any = document(path)
    except Error:
        return plain.is_torn_session(path)
    return plain.holds_messages(parsed)


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

"""The nature of a file, by its first bytes and its name: the form it is kept in, and its writer. Nothing is parsed whole.

Called by `inventory`. A file is data of a stranger: no unpickling, no opening of databases, no YAML, only a bounded look
at its beginning. Keeps P10.
"""

from __future__ import annotations

import enum
import json
import re
from typing import Any

import msgspec


class FileForm(enum.StrEnum):
    """How a file is kept."""

    JSON = "json"
    JSON_LINES = "json lines"
    YAML = "yaml"
    TABLE = "table"  # tab or comma separated
    SQLITE = "sqlite"
    PICKLE = "pickle"
    TEXT = "text"
    LOG = "log"
    LOCK = "lock"


class Trace(msgspec.Struct, frozen=True):
    """The writer of a file, by words that its beginning holds."""

    writer: str
    form: FileForm
    words: tuple[bytes, ...]


SUFFIXES = {
    ".json": FileForm.JSON, ".jsonl": FileForm.JSON_LINES, ".ndjson": FileForm.JSON_LINES,
    ".yaml": FileForm.YAML, ".yml": FileForm.YAML, ".tsv": FileForm.TABLE, ".csv": FileForm.TABLE,
    ".db": FileForm.SQLITE, ".sqlite": FileForm.SQLITE, ".sqlite3": FileForm.SQLITE,
    ".pickle": FileForm.PICKLE, ".pkl": FileForm.PICKLE, ".joblib": FileForm.PICKLE,
    ".log": FileForm.LOG, ".lock": FileForm.LOCK, ".pid": FileForm.LOCK,
}  # fmt: skip
LOCK_NAMES = {"lock", ".lock", "pidfile"}
SQLITE_MAGIC = b"SQLite format 3\0"
PICKLE_START = re.compile(rb"\x80[\x02-\x05]")
JSON_START = re.compile(rb"(?:\xef\xbb\xbf)?\s*[\[{]")
OUR_PAGE = re.compile(rb"(?:<!-- |# )perdure view ")
OURS = "Perdure"
TRACES: tuple[Trace, ...] = (
    Trace(OURS, FileForm.JSON_LINES, (b'{"v":1,"prev":"', b'"at":')),
    Trace(OURS, FileForm.JSON_LINES, (b'{"v":2,"prev":"', b'"at":')),
    Trace(OURS, FileForm.SQLITE, (b"CREATE TABLE streams", b"CREATE TABLE events", b"commitment")),
    Trace("LangGraph", FileForm.SQLITE, (b"checkpoints", b"thread_id", b"checkpoint_ns")),
    Trace("OpenAI Agents", FileForm.SQLITE, (b"agent_sessions", b"agent_messages")),
    Trace("Google ADK", FileForm.SQLITE, (b"app_states", b"user_states")),
    Trace("Claude Code", FileForm.JSON_LINES, (b'"sessionId"', b'"parentUuid"')),
    Trace("Codex", FileForm.JSON_LINES, (b'"session_meta"',)),
    Trace("MCP memory", FileForm.JSON_LINES, (b'"type":"entity"',)),
    Trace("MCP memory", FileForm.JSON_LINES, (b'"type": "entity"',)),
)


def form_of(name: str, start: bytes) -> FileForm | None:
    """The form of a file; None for what holds no state that we know. The bytes win over the name."""
    if start.startswith(SQLITE_MAGIC):
        return FileForm.SQLITE
    if OUR_PAGE.match(start):
        return None  # made again from the log beside it
    found = SUFFIXES.get(_suffix(name)) or (FileForm.LOCK if name.lower() in LOCK_NAMES else None)
    if PICKLE_START.match(start):
        return FileForm.PICKLE
    if found in (None, FileForm.JSON) and JSON_START.match(start) and _is_lines(start):
        return FileForm.JSON_LINES
    if found is None and name.startswith(".") and JSON_START.match(start) and _is_json(start):
        return FileForm.JSON
    return found


def writer_of(form: FileForm, start: bytes) -> str:
    """Its writer, if it is a known one."""
    return next(
        (trace.writer for trace in TRACES if trace.form is form and all(word in start for word in trace.words)), ""
    )


def _suffix(name: str) -> str:
    return name[name.rfind(".") :].lower() if "." in name[1:] else ""


def _is_lines(start: bytes) -> bool:
    """Whether the first two lines are JSON objects of their own."""
    lines = start.split(b"\n", 2)
    return len(lines) > 2 and all(isinstance(_parsed(line), dict) for line in lines[:2])


def _is_json(start: bytes) -> bool:
    """Whether it continues like an object: a file without a suffix that only begins with a brace may be anything."""
    return bool(re.match(rb'(?:\xef\xbb\xbf)?\s*(?:\{\s*["}]|\[)', start))


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None

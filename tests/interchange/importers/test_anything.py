"""Anything at any place of a record: the readers go on, and say what they left out. Exhaustive over the samples.

Every value of every record is replaced by every odd one, one at a time, and goes all the way to where it would be written.
"""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from interchange.importers.conftest import FOREIGN
from perdure.interchange.importers import (
    claude_code,
    codex,
    cursor,
    gemini,
    google_adk,
    langgraph,
    mcp_memory,
    messages,
    opencode,
    plain,
)
from perdure.interchange.importers.items import ImportedFrom
from perdure.interchange.importers.messages import Spot
from perdure.interchange.importers.naming import Calls
from perdure.interchange.importers.reading import Source
from perdure.interchange.importers.report import ReportInProgress
from perdure.interchange.importers.writing import import_items

ODD = [None, [], {}, "", "\0", -1, 1.5, 2**70, {"type": []}, [{"type": {}, "text": None}], ["x"], {"role": [], "$": 1}]
Path_ = tuple[Any, ...]


def places(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from places(item, (*path, key))


def changed(value: Any) -> Iterator[Any]:
    """The value with one place of it made odd, in every way."""
    for path in places(value):
        for odd in ODD:
            result = copy.deepcopy(value)
            inside = result
            for key in path[:-1]:
                inside = inside[key]
            inside[path[-1]] = copy.deepcopy(odd)
            yield result


@pytest.mark.parametrize("reader", [claude_code, codex, cursor, gemini, mcp_memory])
def test_lines(reader: Any, tmp_path: Path) -> None:
    folder = FOREIGN / reader.NAME
    (sample,) = [*folder.glob("*.jsonl")] or [*folder.glob("made/*.jsonl")]
    records = [json.loads(line) for line in sample.read_text().splitlines()]
    file = tmp_path / "odd.jsonl"
    file.write_text("".join(json.dumps(odd) + "\n" for record in records for odd in changed(record)))
    tally = ReportInProgress()
    import_items(None, reader.read(Source(file, "odd")), tally)
    assert sum(tally.read.values()) + sum(tally.passed_over.values()) > len(records) * len(ODD)


def test_rows_of_opencode(tmp_path: Path) -> None:
    """Every odd value in every part and message, and odd columns beside them."""
    file = Path(shutil.copy(FOREIGN / "opencode" / "opencode.db", tmp_path / "odd.db"))
    database = apsw.Connection(str(file))
    parts = list(database.execute("SELECT message_id, session_id, data FROM part"))
    (message,) = [*database.execute("SELECT session_id, data FROM message WHERE data LIKE '%assistant%' LIMIT 1")]
    odd_parts = [
        (owner, session, json.dumps(odd)) for owner, session, data in parts for odd in changed(json.loads(data))
    ]
    for number, (owner, session, data) in enumerate(odd_parts):
        database.execute("INSERT INTO part VALUES (?, ?, ?, 1, 1, ?)", (f"p{number}", owner, session, data))
    for number, odd in enumerate(changed(json.loads(message[1]))):
        row = (f"m{number}", message[0], json.dumps(odd))
        database.execute("INSERT INTO message VALUES (?, ?, 1, 1, ?)", row)
        database.execute("INSERT INTO part VALUES (?, ?, ?, 1, 1, ?)", (f"q{number}", row[0], row[1], parts[0][2]))
    for number, (at, data) in enumerate(
        [("x", b"\xff"), (b"\0", "{"), (1.5, "[]"), (2**62, "null"), (-1, '{"type": 1}')]
    ):
        database.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", (f"r{number}", *parts[0][:2], at, at, data))
    database.execute("UPDATE session SET title = x'ff', version = 7, parent_id = 1.5 WHERE rowid = 1")
    database.close()
    tally = ReportInProgress()
    import_items(None, opencode.read(Source(file, "odd")), tally)
    assert sum(tally.read.values()) > len(parts) * len(ODD)
    import_items(None, opencode.read_since(Source(file, "odd"), 1, tmp_path), ReportInProgress())


@pytest.mark.parametrize("cut", range(0, 700, 50))
def test_a_document_of_gemini_that_broke_off(tmp_path: Path, cut: int) -> None:
    """Earlier versions rewrote one document; the whole messages before the break are there."""
    message = {"id": "m1", "timestamp": "t", "type": "user", "content": "Hello"}
    answer = {
        "id": "m2",
        "type": "gemini",
        "content": "Hi",
        "toolCalls": [{"id": "c", "name": "ls", "status": "error"}],
    }
    whole = {"sessionId": "s", "projectHash": "h", "startTime": "t", "messages": [message, answer, {"type": "info"}]}
    text = json.dumps(whole, indent=4)
    file = tmp_path / "session-1.json"
    left = text[: len(text) - cut]
    file.write_text(left)
    tally = ReportInProgress()
    import_items(None, gemini.read(Source(file, "torn")), tally)
    assert (tally.read["turns"] >= 1) is ('"Hello"\n        }' in left)
    assert (tally.read["turns"] == 3) is ('"error"\n                }\n            ]\n        }' in left)
    assert bool(tally.report(dry_run=True).left_out) is (cut > 0)


MESSAGE = {"role": "assistant", "id": "m", "content": [
    {"type": "text", "text": "x"}, {"type": "tool_use", "id": "q", "name": "f", "input": {}},
    {"type": "tool_result", "tool_use_id": "q", "content": [{"type": "text", "text": "r"}], "is_error": False}],
    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    "function_call": {"name": "f", "arguments": "{}"}}  # fmt: skip
RESPONSES = [
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": {"success": False, "content": "x"}},
    {"type": "web_search_call", "id": "w", "action": {"query": "x"}, "output": [{"type": "input_text", "text": "r"}]},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "x"}], "content": None},
]


def test_documents(tmp_path: Path) -> None:
    file = tmp_path / "odd.json"
    for odd in changed({"id": "s", "title": "t", "messages": [MESSAGE, *RESPONSES]}):
        file.write_text(json.dumps(odd))
        import_items(None, plain.read(Source(file, "odd")), ReportInProgress())


def test_events_of_adk_and_messages_of_langgraph() -> None:
    spot = Spot("s", "k", ImportedFrom("x"), "here", Calls())
    event = {"author": "a", "timestamp": 1.5, "actions": {"state_delta": {"a": 1}}, "content": {"role": "model", "parts": [
        {"text": "x", "thought": True}, {"function_call": {"id": "c", "name": "f", "args": {}}},
        {"function_response": {"id": "c", "name": "f", "response": {"error": "x"}}},
        {"inline_data": {"mime_type": "image/png", "data": "eA=="}}]}}  # fmt: skip
    for odd in changed(event):
        import_items(None, google_adk._said(odd, spot), ReportInProgress())
    fields = {**MESSAGE, "type": "ai", "invalid_tool_calls": [{"id": "i", "name": "f", "args": "x"}]}
    for odd in changed(fields):
        import_items(None, messages.message_items(langgraph._as_message(odd), spot), ReportInProgress())

"""Anything at any place of a record: the readers go on, and say what they left out. Exhaustive over the samples.

Every value of every record is replaced by every odd one, one at a time, and goes all the way to where it would be written.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from import_fixtures import FOREIGN
from perdure_agents.importers import (
    claude_code,
    codex,
    google_adk,
    langgraph,
    messages,
    plain,
)
from perdure_agents.importers.item_writer import import_items
from perdure_agents.importers.items import ImportedFrom
from perdure_agents.importers.messages import Spot
from perdure_agents.importers.names import Calls
from perdure_agents.importers.report import ReportInProgress
from perdure_agents.importers.sources import Source

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


@pytest.mark.parametrize("reader", [claude_code, codex])
def test_lines(reader: Any, tmp_path: Path) -> None:
    folder = FOREIGN / reader.NAME
    (sample,) = [*folder.glob("*.jsonl")] or [*folder.glob("made/*.jsonl")]
    records = [json.loads(line) for line in sample.read_text().splitlines()]
    file = tmp_path / "odd.jsonl"
    file.write_text("".join(json.dumps(odd) + "\n" for record in records for odd in changed(record)))
    tally = ReportInProgress()
    import_items(None, reader.read(Source(file, "odd")), tally)
    assert sum(tally.read.values()) + sum(tally.passed_over.values()) > len(records) * len(ODD)


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
        import_items(None, google_adk._message_items(odd, spot), ReportInProgress())
    fields = {**MESSAGE, "type": "ai", "invalid_tool_calls": [{"id": "i", "name": "f", "args": "x"}]}
    for odd in changed(fields):
        import_items(None, messages.message_items(langgraph._as_message(odd), spot), ReportInProgress())

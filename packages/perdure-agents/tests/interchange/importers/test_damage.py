"""Damaged files: every record that is whole is taken, every one that is not is listed with its line and a reason.

The corpus is generated: every damage at every line of a file, with the file as it should come out as the oracle.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import apsw
import pytest

from import_fixtures import FOREIGN, Take
from interchange.importers.telling import ours
from perdure_agents.importers import claude_code, sources
from perdure_agents.importers.items import ImportedRepair, ImportedTurn, LeftOut
from perdure_agents.importers.langgraph import Q
from perdure_agents.importers.rows import Tables
from perdure_agents.importers.sources import Source

TEXTS = [f"line {number} — ü" for number in range(8)]
LINES = [
    json.dumps({"type": "user", "uuid": f"u{number}", "sessionId": "s", "message": {"role": "user", "content": text}},
               ensure_ascii=False).encode()
    for number, text in enumerate(TEXTS)
]  # fmt: skip
Damage = Callable[[list[bytes], int], bytes]


def joined(lines: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def replaced(lines: list[bytes], at: int, line: bytes) -> bytes:
    return joined([*lines[:at], line, *lines[at + 1 :]])


# damage -> (how, lost lines relative to where it is done, whether something is remarked)
DAMAGES: dict[str, tuple[Damage, tuple[int, ...], bool]] = {
    "nothing": (lambda lines, _: joined(lines), (), False),
    "windows line ends": (lambda lines, _: joined(lines).replace(b"\n", b"\r\n"), (), False),
    "a byte order mark": (lambda lines, _: b"\xef\xbb\xbf" + joined(lines), (), False),
    "UTF-16": (lambda lines, _: joined(lines).decode().encode("utf-16"), (), False),
    "no line end at the end": (lambda lines, _: joined(lines).rstrip(b"\n"), (), False),
    "empty lines": (lambda lines, at: replaced(lines, at, b"\n  \n" + lines[at]), (), False),
    "torn": (lambda lines, at: replaced(lines, at, lines[at][:-20]), (0,), True),
    "torn at its beginning": (lambda lines, at: replaced(lines, at, lines[at][20:]), (0,), True),
    "two on one line": (lambda lines, at: replaced(lines, at, lines[at] + b' {"type":"progress"}'), (), False),
    "whole behind torn": (lambda lines, at: replaced(lines, at, b'{"type":"user","uuid":"x","mess' + lines[at]), (), True),
    "zeros": (lambda lines, at: replaced(lines, at, b"\0" * 300), (0,), True),
    "zeros before": (lambda lines, at: replaced(lines, at, b"\0" * 300 + lines[at]), (), False),
    "not UTF-8": (lambda lines, at: replaced(lines, at, lines[at].replace("ü".encode(), b"\xff")), (), True),
    "no object": (lambda lines, at: replaced(lines, at, b"[1, 2]"), (0,), True),
    "words": (lambda lines, at: replaced(lines, at, b"<<<<<<< HEAD"), (0,), True),
    "no type": (lambda lines, at: replaced(lines, at, b'{"a": 1}'), (0,), True),
    "too deep": (lambda lines, at: replaced(lines, at, b'{"type":"user","message":' + b"[" * 5000), (0,), True),
    "too long": (lambda lines, at: replaced(lines, at, lines[at] + b" " * 5000), (0,), True),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_whole_is_taken_and_the_rest_is_listed(
    tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "LINE_MAX_BYTES", 4000 if damage == "too long" else 10**6)
    how, lost, remarked = DAMAGES[damage]
    for at in range(len(LINES)):
        file = tmp_path / "s.jsonl"
        file.write_bytes(how(list(LINES), at))
        found = list(claude_code.read(Source(file, "s.jsonl")))
        gone = {at + offset for offset in lost}
        keys = [item.key for item in found if isinstance(item, ImportedTurn)]
        assert keys == [f"u{number}" for number in range(len(LINES)) if number not in gone], (damage, at)
        remarks = [item for item in found if isinstance(item, (LeftOut, ImportedRepair))]
        assert {remark.place for remark in remarks} == ({f"s.jsonl:{at + 1}"} if remarked else set()), (damage, at)


def test_control_a_reader_that_stops_at_the_first_broken_line_is_caught(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    file.write_bytes(DAMAGES["torn"][0](list(LINES), 3))
    naive = []
    for line in file.read_bytes().splitlines():
        try:
            naive.append(json.loads(line))
        except ValueError:
            break
    kept = [item for item in claude_code.read(Source(file, "s.jsonl")) if isinstance(item, ImportedTurn)]
    assert len(naive) == 3
    assert len(kept) == 7


def test_the_texts_are_the_same(store: Any, take: Take, tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    file.write_bytes(joined(LINES).decode().encode("utf-16"))
    assert take(file).ok
    assert [entry[1] for entry in ours(store.session("claude-code/s"))] == TEXTS


def test_a_session_file_that_was_torn_while_it_was_rewritten(store: Any, take: Take, tmp_path: Path) -> None:
    messages = [{"role": "user", "content": f"say {number} ]{{}}"} for number in range(6)]
    whole = json.dumps({"id": "s1", "model": "x", "messages": messages}, indent=1)
    for cut in range(whole.index("say 2"), whole.index("say 3"), 7):
        file = tmp_path / "torn.json"
        file.write_text(whole[:cut])
        report = take(file)
        assert [each.place for each in report.left_out] == ["torn.json"]
        assert len(ours(store.session("messages/s1"))) in (2, 3)
    file.write_text(whole)
    assert take(file).ok
    assert [entry[1] for entry in ours(store.session("messages/s1"))] == [each["content"] for each in messages]


def test_results_without_their_call_and_calls_without_results(store: Any, take: Take, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(json.dumps([
        {"role": "user", "content": "go"},
        {"role": "tool", "tool_call_id": "lost", "content": "?"},
        {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "run", "arguments": "{}"}}]},
        {"role": "user", "content": "well?"},
    ]))  # fmt: skip
    report = take(file)
    assert [(each.place, "made the call 'lost'" in each.why) for each in report.left_out] == [("a.json:[1]", True)]
    session = store.session("messages/a")
    assert [call.id for call in session.pending().calls] == ["c1"]
    assert "interrupted" in str(session.transcript("openai"))


def test_text_that_no_store_keeps_is_mended(store: Any, take: Take, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('[{"role":"user","content":"a\\u0000b"},{"role":"assistant","content":"cut \\ud83d"}]')
    report = take(file)
    assert report.ok
    assert report.mended_count >= 1
    assert ours(store.session("messages/a"))[0] == ("user", "a\u2400b")


@pytest.mark.parametrize(
    ("name", "file", "statement", "place"),
    [
        (
            "openai-agents",
            "sessions.db",
            "UPDATE agent_messages SET message_data = '{\"ro' WHERE id = 2",
            "agent_messages:2",
        ),
        (
            "openai-agents",
            "sessions.db",
            "UPDATE agent_messages SET message_data = x'ff00' WHERE id = 2",
            "agent_messages:2",
        ),
        ("google-adk", "sessions.db", "UPDATE events SET event_data = '[]' WHERE rowid = 2", "events:2"),
        (
            "google-adk",
            "sessions.db",
            "UPDATE sessions SET state = '{' WHERE id = 'trip-1'",
            "sessions:trips/ann/trip-1",
        ),
        (
            "langgraph",
            "checkpoints.sqlite",
            "UPDATE checkpoints SET checkpoint = x'92' WHERE rowid = 3",
            "checkpoints:trip-1/",
        ),
        (
            "langgraph",
            "checkpoints.sqlite",
            "UPDATE checkpoints SET type = 'pickle' WHERE rowid = 3",
            "checkpoints:trip-1/",
        ),
    ],
)
def test_a_broken_row_costs_no_other(
    store: Any, take: Take, tmp_path: Path, name: str, file: str, statement: str, place: str
) -> None:
    broken = Path(shutil.copy(FOREIGN / name / file, tmp_path / file))
    connection = apsw.Connection(str(broken))
    connection.execute(statement)
    connection.close()
    before = take(FOREIGN / name / file).read
    report = take(broken)
    assert [each.place.startswith(f"{file}:{place}") for each in report.left_out] == [True]
    assert sum(report.read.values()) >= sum(before.values()) - 4


@pytest.mark.parametrize(
    ("name", "file", "statement"),
    [
        ("openai-agents", "sessions.db", "UPDATE agent_messages SET created_at = CAST(x'32ff' AS TEXT) WHERE id = 2"),
        ("google-adk", "sessions.db", "UPDATE events SET invocation_id = CAST(x'32ff' AS TEXT) WHERE rowid = 2"),
        ("langgraph", "checkpoints.sqlite", "UPDATE checkpoints SET type = CAST(x'32ff' AS TEXT) WHERE rowid = 3"),
    ],
)
def test_a_row_with_a_text_that_is_none_costs_no_other(
    store: Any, take: Take, tmp_path: Path, name: str, file: str, statement: str
) -> None:
    """SQLite gives any bytes for a text: a flipped bit in a name stopped the import of a whole folder."""
    (tmp_path / "f").mkdir()
    broken = Path(shutil.copy(FOREIGN / name / file, tmp_path / "f" / file))
    with contextlib.closing(apsw.Connection(str(broken))) as connection:
        connection.execute(statement)
    (tmp_path / "f" / "z.json").write_text('{"messages": [{"role": "user", "content": "behind it"}]}')
    before = take(FOREIGN / name / file).read
    report = take(tmp_path / "f")
    assert "UTF-8" in report.left_out[0].why
    assert report.left_out_count == 1
    assert sum(report.read.values()) >= sum(before.values()) - 4
    assert ours(store.session("messages/z"))[0] == ("user", "behind it")


def test_rows_that_a_damaged_index_gives_again_and_again_end() -> None:
    """Each page begins behind the last row of the one before, which need not be behind it: an import went on for ever."""

    class Circling:
        def readable(self, _statement: Any, *, after: str) -> tuple[list[tuple[str]], int]:
            return [("a",) if after == "b" else ("b",)], 0

    tables = Tables(cast("Any", Circling()), Source(Path("a.db"), "a.db"))
    told = list(itertools.islice(tables.pages(Q.line_page, {"after": ""}), 10))
    assert told[:2] == [("b",), ("a",)]
    assert isinstance(told[-1], LeftOut)
    assert "circle" in told[-1].why


def test_columns_whose_names_are_no_text_are_left_out(take: Take, tmp_path: Path) -> None:
    whole = (FOREIGN / "openai-agents" / "sessions.db").read_bytes()
    (tmp_path / "a.db").write_bytes(whole.replace(b"created_at", b"cr\xffated_at"))
    report = take(tmp_path / "a.db")
    assert "UTF-8" in report.left_out[0].why


def test_a_database_that_was_cut_off(take: Take, tmp_path: Path) -> None:
    whole = (FOREIGN / "openai-agents" / "sessions.db").read_bytes()
    for kept in (50, 4096, 9000, len(whole) - 4096):
        file = tmp_path / "cut.db"
        file.write_bytes(whole[:kept])
        report = take(file)
        assert not report.ok
        assert report.left_out[0].place.startswith("cut.db")


def test_a_folder_goes_on_behind_a_broken_file(store: Any, take: Take, tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "a.db").write_bytes(b"SQLite format 3\0" + b"\1" * 5000)
    (tmp_path / "f" / "b.json").write_text('[{"role": "user", "content": "hi"}]')
    report = take(tmp_path / "f")
    assert [each.place for each in report.left_out] == ["a.db"]
    assert report.sessions == ("messages/b",)

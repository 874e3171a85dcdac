"""Logs that were made to hurt: whole lines that nobody here wrote, and what would take for ever to read (P10, P15)."""

from __future__ import annotations

import os
import time
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

import perdure
from perdure.log.event import Event, commit_to, hash_event
from perdure.log.written import WrittenEvent, event_read
from perdure.runtime.callers import caller_of
from perdure_files.store import line as lines_module
from perdure_files.store.journal import START, LineLog
from perdure_files.store.layout import Layout
from perdure_files.store.line import FoundLine, Line, Piece, WrittenStore, check_of, lines_in, written
from stores.files import rebuilt

SECONDS = 60.0  # of this thread's own: what is looked for here takes hours
LINES = 20_000 if "PERDURE_ROUNDS" in os.environ else 10_000
UID = "ab" * 16


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with perdure.open(f"files:///{tmp_path}/store") as store:
        store.session("a").say("user", "first")
    return tmp_path / "store"


@cache
def chain(count: int) -> list[bytes]:
    """Lines that say next to nothing, each after the one before it; without their ends."""
    lines, check = [], ""
    for number in range(count):
        data, check = written(Line(1, check, number, store=WrittenStore(UID, 1)))
        lines.append(data[:-1])
    return lines


def found_in(data: bytes) -> tuple[int, int]:
    entries = [*lines_in(data, 0)]
    return sum(isinstance(each, FoundLine) for each in entries), sum(isinstance(each, Piece) for each in entries)


# -- many --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [b"", b"\r", b" "])
def test_however_many_lines_are_glued_together_each_is_found(end):
    began = time.thread_time()
    found, _ = found_in(end.join(chain(LINES)))
    assert found == LINES
    assert time.thread_time() - began < SECONDS


def test_a_torn_line_before_many_that_are_glued_together_costs_none_of_them():
    lines = chain(LINES)
    assert found_in(b"".join([lines[0][:-5], *lines[1:]])) == (LINES - 1, 1)


@pytest.mark.parametrize(
    "piece", [b'{"v": ' + b"a" * 32, b'{"v":', b" " + b"a" * 32, b',"check":"' + b"a" * 32 + b'"}']
)
def test_starts_and_ends_that_belong_to_nothing_are_given_up(piece):
    began = time.thread_time()
    assert found_in(piece * 100_000) == (0, 1)
    assert time.thread_time() - began < SECONDS


def test_ends_of_lines_that_are_set_aside_are_one_file(folder):
    path = folder / "log" / "000001.jsonl"
    path.write_bytes(b"\r\n".join([*chain(2_000), b""]))
    with perdure.open(f"files:///{folder}") as store:
        assert len(caller_of(store).core.engine.asides()) == 1
    assert len([*(folder / ".perdure" / "set-aside").iterdir()]) == 1


def test_a_log_with_many_gaps_is_searched_once(tmp_path, monkeypatch):
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "000001.jsonl").write_bytes(b"\n".join([*chain(2_000)[::2], b""]))
    read: list[int] = []
    content = Layout.content

    def counted(layout: Layout, number: int, offset: int = 0) -> bytes:
        read.append(number)
        return content(layout, number, offset)

    monkeypatch.setattr(Layout, "content", counted)
    entries = [each for _, some in LineLog(Layout(tmp_path)).read_on(START) for _, each in some]
    assert sum(isinstance(each, Piece) for each in entries) == 999
    assert read == [1, 1]


def test_a_segment_with_a_number_far_away_is_one_gap(folder):
    (folder / "log" / "999999999999.jsonl").write_bytes(b"")
    with perdure.open(f"files:///{folder}") as store:
        gaps = [each for each in caller_of(store).core.engine.asides() if "missing" in each.reason]
        assert [(each.segment, each.reason) for each in gaps] == [(2, "the segment is missing, up to 999999999998")]
        store.session("a").say("user", "goes on")
    with perdure.open(f"files:///{folder}") as store:
        assert [turn.content for turn in store.session("a").turns()] == ["first", "goes on"]


# -- whole, and not what is written here ---------------------------------------------------------------------------------


def rewritten(folder: Path, change: Any) -> None:
    """Let somebody change the log who can make checksums and hashes."""
    path = folder / "log" / "000001.jsonl"
    docs = [msgspec.json.decode(raw) for raw in path.read_bytes().splitlines()]
    change(docs)
    lines, check, heads = [], "", dict[str, bytes]()
    for doc in docs:
        doc["prev"] = check
        doc.pop("check")
        for event in doc.get("events", []):
            chained(event, heads)
        text = msgspec.json.encode(doc)[:-1]
        check = check_of(text)
        lines.append(b'%b,"check":"%b"}\n' % (text, check.encode()))
    path.write_bytes(b"".join(lines))


def chained(event: dict[str, Any], heads: dict[str, bytes]) -> None:
    body = msgspec.json.encode(event["body"])
    event["commitment"] = commit_to(bytes.fromhex(event["salt"]), body).hex()
    said: Event = event_read(msgspec.convert({**event, "body": msgspec.Raw(body)}, WrittenEvent), "")
    heads[event["stream"]] = hash_event(bytes.fromhex(event["stream"]), said, heads.get(event["stream"], bytes(32)))
    event["hash"] = heads[event["stream"]].hex()


def put(*place: Any, value: Any) -> Any:
    def change(docs: list[Any]) -> None:
        at: Any = docs
        for step in place[:-1]:
            at = at[step]
        at[place[-1]] = value

    return change


CHANGES = {
    "a number of a tenant": put(1, "tenants", 0, "number", value=2**63),
    "a list for the name of an actor": put(2, "events", 0, "body", "set", "name", value=[1]),
    "a list for a name": put(2, "events", 1, "body", "set", "name", value=[1]),
    "a number that is too large": put(2, "events", 1, "body", "set", "created_at", value=2**63),
    "an epoch that cannot rise": put(0, "store", "epoch", value=2**62),
    "an epoch of too many digits": put(0, "store", "epoch", value=10**9),
    "an epoch below all": put(0, "store", "epoch", value=-1),
    "a partition that is a path": put(0, "store", "partition", value="../../elsewhere"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_no_store_wrote_is_set_aside_and_the_store_opens(folder, name):
    rewritten(folder, CHANGES[name])
    for _ in range(2):
        with perdure.open(f"files:///{folder}") as store:
            assert any(each.lost for each in caller_of(store).core.engine.asides())
            assert not store.verify().ok
            store.session("b").say("user", "goes on")
            assert store.session("b").turns()[-1].content == "goes on"


def test_control_what_is_changed_here_would_load_otherwise(folder):
    rewritten(folder, put(2, "events", 1, "body", "set", "title", value="another"))
    _, pieces = rebuilt.made_from_the_log(folder)
    assert not pieces
    with perdure.open(f"files:///{folder}") as store:
        assert [each.title for each in store.sessions()] == ["another"]
        assert store.verify().ok


def test_what_another_store_says_of_itself_is_not_about_this_one(folder):
    with perdure.open(f"files:///{folder}") as store:
        uid = caller_of(store).core.uid
        store.session("a").say("user", "x" * 50_000)
    data, _ = written(Line(1, "", 1, store=WrittenStore(UID, 7, "cd" * 16)))
    with (folder / "log" / "000001.jsonl").open("ab") as file:
        file.write(data)
    for _ in range(2):
        with perdure.open(f"files:///{folder}") as store:
            assert caller_of(store).core.uid == uid
            assert store.session("a").turns()[-1].content == "x" * 50_000
        Layout(folder).cache.unlink()


def test_control_a_reader_that_gives_up_too_early_is_caught(monkeypatch):
    monkeypatch.setattr(lines_module, "_IN_VAIN_TIMES", -1_000_000)
    lines = chain(50)
    assert found_in(b"".join([lines[0][:-5], *lines[1:]])) != (49, 1)


# -- links -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["log", "log/000001.jsonl", "blobs", "views", "blobs/.gitignore", ".perdure", ".perdure/lock", ".gitattributes"],
)
def test_nothing_is_written_through_a_link_that_came_with_git(folder, tmp_path, name):
    elsewhere = tmp_path / "elsewhere"
    (folder / name).rename(elsewhere)
    (folder / name).symlink_to(elsewhere)
    before = seen_below(elsewhere)
    with pytest.raises(perdure.Invalid, match=f"{name} is a link"):
        perdure.open(f"files:///{folder}")
    assert seen_below(elsewhere) == before


def test_a_link_that_leads_nowhere_is_named_too(folder, tmp_path):
    (folder / "blobs").rename(tmp_path / "elsewhere")
    (folder / "blobs").symlink_to(tmp_path / "nowhere")
    with pytest.raises(perdure.Invalid, match="blobs is a link"):
        perdure.open(f"files:///{folder}")
    assert not (tmp_path / "nowhere").exists()


def test_a_segment_that_becomes_a_link_while_the_store_is_open_is_not_written(folder, tmp_path):
    segment, elsewhere = folder / "log" / "000001.jsonl", tmp_path / "elsewhere"
    with perdure.open(f"files:///{folder}") as store:
        elsewhere.write_bytes(segment.read_bytes())
        segment.unlink()
        segment.symlink_to(elsewhere)
        before = elsewhere.read_bytes()
        with pytest.raises(perdure.Error):
            store.session("a").say("user", "second")
    assert elsewhere.read_bytes() == before


def seen_below(place: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in (place, *place.rglob("*")) if path.is_file()}

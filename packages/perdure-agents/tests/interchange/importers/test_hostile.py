"""Hostile files: nothing in them is run, imported or followed, and none of them takes the importer down (P10, P15)."""

from __future__ import annotations

import errno
import json
import os
import pickle
import time
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
import yaml

from import_fixtures import Take
from perdure.errors import Invalid, NotFound
from perdure.model.limits import VALUE_MAX_DEPTH
from perdure_agents.importers import file_import
from perdure_agents.importers.file_import import import_files
from perdure_agents.importers.packed import PackedObject, plain, unpack
from perdure_agents.importers.state import Mapping

CHECKPOINTS = """
CREATE TABLE checkpoints (thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT, parent_checkpoint_id TEXT, type TEXT,
                          checkpoint BLOB, metadata BLOB);
CREATE TABLE writes (thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT, task_id TEXT, idx INTEGER, channel TEXT, type TEXT,
                     value BLOB);
"""


class Bomb:
    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


def checkpoints(path: Path, *rows: tuple[Any, ...]) -> Path:
    connection = apsw.Connection(str(path))
    for statement in CHECKPOINTS.split(";\n"):
        connection.execute(statement)
    for thread, id_, parent, kind, data in rows:
        connection.execute("INSERT INTO checkpoints VALUES (?, '', ?, ?, ?, ?, '')", (thread, id_, parent, kind, data))
    connection.close()
    return path


def packed(code: int, *parts: Any) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(code, msgspec.msgpack.encode(list(parts)))


def state(**channels: Any) -> bytes:
    return msgspec.msgpack.encode({"ts": "2026", "channel_values": channels, "channel_versions": {}})


def test_a_pickle_is_never_opened(take: Take, tmp_path: Path) -> None:
    planted = tmp_path / "planted"
    file = checkpoints(tmp_path / "c.db", ("t", "1", None, "pickle", pickle.dumps(Bomb(planted))))
    report = take(file)
    assert "never read" in report.left_out[0].why
    assert not planted.exists()


def test_control_the_pickle_would_do_it(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Bomb(tmp_path / "planted")))
    assert (tmp_path / "planted").exists()


def test_a_class_in_a_checkpoint_is_only_a_name(store: Any, take: Take, tmp_path: Path) -> None:
    planted = tmp_path / "planted"
    evil = packed(0, "os", "mkdir", str(planted))
    message = packed(5, "langchain_core.messages.human", "HumanMessage", {"type": "human", "content": evil, "id": "1"})
    data = state(messages=[message], odd=evil, tuple=packed(1, "subprocess", "run", [["touch", str(planted)]]))
    assert take(checkpoints(tmp_path / "c.db", ("t", "1", None, "msgpack", data))).ok
    assert not planted.exists()
    session = store.session("langgraph/t")
    assert session.get("odd") == {"class": "os.mkdir", "of": str(planted)}
    assert session.turns()[0].content == {"class": "os.mkdir", "of": str(planted)}


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\xc1", b"\xdd\x7f\xff\xff\xff", b"\xdf\x7f\xff\xff\xff", b"\xc6\x7f\xff\xff\xff", b"\x91" * 100_000,
        b"\x81\x81\x01\x02\x03", b"\xc7\x01\x05\xdd", b"\xd4\x05\x91",
    ],
)  # fmt: skip
def test_bombs_of_msgpack_are_refused(data: bytes) -> None:
    with pytest.raises(Invalid):
        unpack("msgpack", data)


def test_objects_inside_objects_end_somewhere() -> None:
    data = msgspec.msgpack.encode(1)
    for _ in range(3_000):
        data = msgspec.msgpack.encode(msgspec.msgpack.Ext(0, data))
    with pytest.raises(Invalid):
        unpack("msgpack", data)


def test_known_scalars_come_back_as_they_were() -> None:
    assert plain(PackedObject("decimal", "Decimal", "nonsense")) == {"class": "decimal.Decimal", "of": "nonsense"}
    assert plain(PackedObject("datetime", "datetime", "2026-01-01T00:00:00")) == "2026-01-01T00:00:00"
    assert plain(PackedObject("builtins", "set", [1, 2])) == [1, 2]
    old = {"lc": 2, "type": "constructor", "id": ["langchain", "schema", "HumanMessage"], "kwargs": {"content": "hi"}}
    assert unpack("json", json.dumps([old]).encode()) == [
        PackedObject("langchain.schema", "HumanMessage", {"content": "hi"})
    ]


def test_checkpoints_that_follow_each_other_in_a_circle(take: Take, tmp_path: Path) -> None:
    rows = [("t", "1", "2", "msgpack", state()), ("t", "2", "1", "msgpack", state()), ("", "1", "1", "null", b"")]
    assert take(checkpoints(tmp_path / "c.db", *rows)).ok


def test_views_and_virtual_tables_are_not_read(take: Take, tmp_path: Path) -> None:
    file = tmp_path / "v.db"
    connection = apsw.Connection(str(file))
    endless = """WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
                 SELECT i AS thread_id, '' AS checkpoint_ns, '' AS checkpoint, '' AS type FROM n"""
    connection.execute(f"CREATE VIEW checkpoints AS {endless}")
    connection.execute("CREATE VIRTUAL TABLE writes USING fts5(a)")
    connection.close()
    assert "none of the known formats" in take(file).left_out[0].why


def test_a_column_that_computes_is_refused(take: Take, tmp_path: Path) -> None:
    file = tmp_path / "g.db"
    connection = apsw.Connection(str(file))
    connection.execute("CREATE TABLE agent_sessions (session_id TEXT, created_at TEXT)")
    connection.execute(
        "CREATE TABLE agent_messages (id INTEGER PRIMARY KEY, session_id TEXT, created_at TEXT, "
        "message_data TEXT AS (hex(zeroblob(50000000))))"
    )
    connection.execute("INSERT INTO agent_messages (session_id) VALUES ('a')")
    connection.close()
    began = time.thread_time()
    report = take(file)
    assert not report.ok
    assert time.thread_time() - began < 60


def test_links_are_not_followed(take: Take, tmp_path: Path) -> None:
    folder = tmp_path / "f"
    folder.mkdir()
    secret = tmp_path / "secret.json"
    secret.write_text('[{"role": "user", "content": "mine"}]')
    (folder / "a.json").symlink_to(secret)
    (folder / "up").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    report = take(folder)
    assert report.read == {}
    assert report.ok


def test_what_belongs_to_others_is_left_out_and_said(
    store: Any, take: Take, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that may not be looked into, and one that may only be listed; nothing is forbidden to root, so it is played."""
    for name in ("mine", "closed", "listed"):
        (tmp_path / "in" / name).mkdir(parents=True)
        (tmp_path / "in" / name / "a.json").write_text('{"messages": [{"role": "user", "content": "hello"}]}')

    def forbidding(function: Any, name: str) -> Any:
        def asked(path: Any, *args: Any, **options: Any) -> Any:
            if name in Path(path).parts:
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return function(path, *args, **options)

        return asked

    monkeypatch.setattr(os, "scandir", forbidding(os.scandir, "closed"))
    for name in ("lstat", "stat", "open"):
        monkeypatch.setattr(Path, name, forbidding(getattr(Path, name), "listed"))
    report = take(tmp_path / "in")
    assert [each.place for each in report.left_out] == ["closed", "listed/a.json"]
    assert all("Permission denied" in each.why for each in report.left_out)
    assert report.added["turns"] == 1
    assert not report.ok


def test_a_name_with_everything_in_it(store: Any, take: Take, tmp_path: Path) -> None:
    odd = "../../etc/\x1b[31m\u202e" + "x" * 5000
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"id": odd, "a\nb": 1, "messages": [{"role": "user", "content": "hi", "id": odd}]}))
    report = take(file)
    assert report.ok
    (name,) = report.sessions
    assert name.isprintable()
    assert len(name) < 200
    assert take(file).added == {}


def test_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_import, "FILES_MAX", 3)
    for number in range(4):
        (tmp_path / f"{number}.json").write_text("[]")
    with pytest.raises(Invalid, match="more than 3"):
        import_files(None, [tmp_path])
    with pytest.raises(NotFound):
        import_files(None, [tmp_path / "none"])
    with pytest.raises(Invalid, match="no format"):
        import_files(None, [tmp_path / "0.json"], format_name="vinyl")


@pytest.mark.parametrize(
    "text",
    [
        "a: !!python/object/apply:os.mkdir [planted]",
        "a: &a [x]\nb: [*a, *a]",
        "a: [",
        "{" * 5000,
        "- 1\n- 2",
        "just words",
    ],
)
def test_hostile_yaml(take: Take, tmp_path: Path, text: str) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(text)
    report = take(file, mapping=Mapping("values"))
    assert not report.ok
    assert not (Path.cwd() / "planted").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: &a [x]\nb: [*a, *a]", "aliases"),
        ("{" * 5000, f"more than {VALUE_MAX_DEPTH} deep"),
        (f"a: {'[' * VALUE_MAX_DEPTH}{']' * VALUE_MAX_DEPTH}", f"more than {VALUE_MAX_DEPTH} deep"),
    ],
)
def test_yaml_that_would_take_long_is_refused_before_anything_is_made_of_it(
    take: Take, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, says: str
) -> None:
    made: list[Any] = []
    monkeypatch.setattr(yaml, "safe_load", made.append)
    file = tmp_path / "s.yaml"
    file.write_text(text)
    (left_out,) = take(file, mapping=Mapping("values")).left_out
    assert says in left_out.why
    assert not made


def test_pickled_actions_of_adk_are_not_even_fetched(store: Any, take: Take, tmp_path: Path) -> None:
    """The first schema of its DatabaseSessionService: what an event says is read, what it did is left pickled."""
    planted, file = tmp_path / "planted", tmp_path / "old.db"
    connection = apsw.Connection(str(file))
    connection.execute("CREATE TABLE sessions (app_name, user_id, id, state TEXT, create_time, update_time)")
    connection.execute(
        "CREATE TABLE events (id, app_name, user_id, session_id, invocation_id, author, actions BLOB, timestamp, content TEXT)"
    )
    connection.execute("INSERT INTO sessions VALUES ('a', 'u', 's', '{\"n\": 1}', '', '')")
    for number, (author, content) in enumerate([("user", '{"parts": [{"text": "hi"}]}'), ("bot", None)]):
        row = (f"e{number}", "a", "u", "s", "i", author, pickle.dumps(Bomb(planted)), "2025-01-01 10:00:00", content)
        connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    connection.close()
    report = take(file)
    assert report.ok
    assert report.passed_over == {"google-adk event without content": 1}
    assert not planted.exists()
    session = store.session("google-adk/a/u/s")
    assert [(turn.content, turn.origin["at"]) for turn in session.turns()] == [("hi", "2025-01-01 10:00:00")]
    assert session.get("n") == 1


@pytest.mark.parametrize("given", ['{"a": "\\ud800"}', '{"a": "\ud800"}', "no JSON \ud800"])
def test_half_an_emoji_in_arguments_is_mended_and_ends_no_import(take: Take, tmp_path: Path, given: str) -> None:
    called = {"id": "c\ud800", "type": "function", "function": {"name": "f\ud800", "arguments": given}}
    said = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": None, "tool_calls": [called]}]
    path = tmp_path / "m.json"
    path.write_text(json.dumps([*said, {"role": "user", "content": "end"}]))
    report = take(path)
    assert len(report.mended) == 1
    assert not report.left_out


def test_a_channel_that_is_called_by_a_number_is_passed_over(take: Take, tmp_path: Path) -> None:
    """msgpack knows keys of every kind; the importer took each for text."""
    data = msgspec.msgpack.encode(
        {"channel_values": {1: "x", b"y": [2], "kept": 3}, "channel_versions": {1: 1, None: 2}}
    )
    report = take(checkpoints(tmp_path / "c.db", ("t", "1", None, "msgpack", data)))
    assert not report.left_out

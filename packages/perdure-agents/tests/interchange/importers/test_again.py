"""Importing again: nothing twice; what grew is added; what was killed is finished. With a writer that forgets, as a control."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import perdure
from import_fixtures import Take
from interchange.importers.telling import ours
from perdure.planes.conversation import turns
from perdure_agents.importers import item_writer
from perdure_agents.importers.file_import import import_files
from perdure_agents.importers.report import ImportReport

LINES = [
    line
    for number in range(40)
    for line in (
        {"type": "user", "uuid": f"u{number}", "sessionId": "s", "message": {"role": "user", "content": f"say {number}"}},
        {"type": "assistant", "uuid": f"a{number}", "sessionId": "s", "message": {"role": "assistant", "content": [
            {"type": "tool_use", "id": f"t{number}", "name": "run", "input": {"n": number}}]}},
        {"type": "odd", "uuid": f"o{number}", "sessionId": "s", "n": number},
        {"type": "user", "uuid": f"r{number}", "sessionId": "s", "message": {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": f"t{number}", "content": str(number)}]}},
    )
]  # fmt: skip
SESSION = "claude-code/s"


def written(folder: Path, count: int = len(LINES)) -> Path:
    file = folder / "s.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in LINES[:count]))
    return file


def told(store: Any) -> Any:
    session = store.session(SESSION)
    return ours(session), [event.data["data"]["n"] for event in session.events(emitted=True, limit=1000)]


@pytest.fixture
def whole(tmp_path: Path) -> Any:
    """What an import that nothing disturbed gives."""
    (tmp_path / "whole").mkdir()
    with perdure.open(f"sqlite:///{tmp_path}/whole.db") as store:
        assert import_files(store, [written(tmp_path / "whole")]).ok
        return told(store)


def test_a_file_that_has_grown_adds_what_is_new(store: Any, take: Take, tmp_path: Path, whole: Any) -> None:
    for count in (1, 2, 7, 50, 51, len(LINES)):
        before = store.session(SESSION).info().last_seq
        report = take(written(tmp_path, count))
        assert report.ok
        assert store.session(SESSION).info().last_seq == before + sum(report.added.values())
    assert told(store) == whole


def test_a_torn_last_line_is_taken_when_it_is_whole(store: Any, take: Take, tmp_path: Path, whole: Any) -> None:
    file = written(tmp_path)
    complete = file.read_bytes()
    file.write_bytes(complete[:-30])
    report = take(file)
    assert [each.place for each in report.left_out] == [f"s.jsonl:{len(LINES)}"]
    file.write_bytes(complete)
    assert take(file).added == {"results": 1}
    assert told(store) == whole


KILLED = """
import os, sys
from pathlib import Path
import perdure
from perdure_agents.importers import item_writer
from perdure_agents.importers.file_import import import_files

item_writer.BATCH_ITEMS = 7
left, inner = int(sys.argv[3]), item_writer.write

def write(tx, batch):
    global left
    done = inner(tx, batch)
    left -= 1
    if left < 0:
        os._exit(9)  # before the commit
    return done

item_writer.write = write
with perdure.open(sys.argv[1]) as store:
    import_files(store, [Path(sys.argv[2])])
"""


@pytest.mark.parametrize("batches", [0, 1, 5, 22])
def test_an_import_that_was_killed_is_finished_by_the_next(tmp_path: Path, whole: Any, batches: int) -> None:
    url, file = f"sqlite:///{tmp_path}/killed.db", written(tmp_path)
    program = subprocess.run([sys.executable, "-c", KILLED, url, file, str(batches)], check=False)
    assert program.returncode == 9
    with perdure.open(url) as store:
        report = import_files(store, [file])
        assert report.ok
        assert report.standing.get("turns", 0) > 0 or batches < 2
        assert told(store) == whole
        assert store.verify().ok


def test_control_a_writer_without_keys_says_things_twice(
    store: Any, take: Take, tmp_path: Path, whole: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = turns.say
    monkeypatch.setattr(item_writer.turns, "say", lambda *args, key, **rest: inner(*args, key=None, **rest))
    take(written(tmp_path, 1))
    take(written(tmp_path, 1))
    assert told(store)[0] == [("user", "say 0"), ("user", "say 0")]


def test_what_was_changed_in_the_middle_is_said_to_have_been(store: Any, take: Take, tmp_path: Path) -> None:
    file = written(tmp_path, 4)
    take(file)
    file.write_text(file.read_text().replace("say 0", "said 0"))
    report = take(file)
    assert [each.place for each in report.left_out] == ["s.jsonl:1"]
    assert "the first import stays" in report.left_out[0].why
    assert ours(store.session(SESSION))[0] == ("user", "say 0")


def test_somebody_who_went_on_with_the_session_is_not_disturbed(store: Any, take: Take, tmp_path: Path) -> None:
    take(written(tmp_path, 4))
    store.session(SESSION).say("user", "and now here")
    take(written(tmp_path, 8))
    said = [entry[1] for entry in ours(store.session(SESSION)) if entry[0] == "user"]
    assert said == ["say 0", "and now here", "say 1"]


def test_commits_are_small(store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    inner = item_writer.write
    monkeypatch.setattr(item_writer, "write", lambda tx, batch: sizes.append(len(batch)) or inner(tx, batch))
    monkeypatch.setattr(item_writer, "BATCH_ITEMS", 10)
    import_files(store, [written(tmp_path)])
    assert max(sizes) == 10
    monkeypatch.setattr(item_writer, "BATCH_BYTES", 10)
    sizes.clear()
    import_files(store, [written(tmp_path)])
    assert max(sizes) == 1


def test_the_same_on_postgresql(postgres_store: str, tmp_path: Path, whole: Any) -> None:
    with perdure.open(postgres_store) as store:
        assert import_files(store, [written(tmp_path, 50)]).ok
        assert import_files(store, [written(tmp_path)]).ok
        assert import_files(store, [written(tmp_path)]).added == {}
        assert told(store) == whole
        assert store.verify().ok


def test_two_who_import_the_same_at_once_import_it_once(
    tmp_path: Path, whole: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, file = f"sqlite:///{tmp_path}/both.db", written(tmp_path)
    monkeypatch.setattr(item_writer, "BATCH_ITEMS", 5)
    perdure.open(url).close()
    barrier = threading.Barrier(3)

    def run() -> ImportReport:
        with perdure.open(url) as store:
            barrier.wait()
            return import_files(store, [file])

    with ThreadPoolExecutor(3) as pool:
        reports = [each.result() for each in [pool.submit(run) for _ in range(3)]]
    assert all(report.ok for report in reports)
    assert sum(report.added.get("turns", 0) for report in reports) == 80
    with perdure.open(url) as store:
        assert told(store) == whole

"""Transcripts of Gemini CLI, opencode and Cursor by `perdure hook`: each turn once, whatever the host wrote when a hook came.

The samples were written by the real programs (Cursor's by hand), see tests/fixtures/foreign.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import apsw
import pytest

import forked
import perdure
from interchange.importers.telling import Told, ours
from perdure.doors.hosts.workspace import workspace_of

FOREIGN = Path(__file__).parents[2] / "fixtures" / "foreign"
OPENCODE_SESSION = "opencode/ses_e13d5b9acffe0tNMHpczPNke5x"


class Workspace:
    """A folder that a host works in, and where it keeps its transcripts."""

    def __init__(self, folder: Path) -> None:
        self.folder = (folder / "acme").resolve()
        (self.folder / ".git").mkdir(parents=True)
        self.data = folder / "data"
        self.url = f"sqlite:///{folder / 'a.db'}"

    def hook(self, host: str, event: str, **more: Any) -> None:
        said = {"hook_event_name": event, "cwd": str(self.folder), **more}
        words = ("-m", "perdure", "hook", host, "--store", self.url)
        env = {"XDG_DATA_HOME": str(self.data), "HOME": str(self.folder), "PATH": "/usr/bin:/bin"}
        done = forked.run(*words, input=json.dumps(said), cwd=self.folder, env=env)
        assert (done.returncode, done.stderr) == (0, "")

    def told(self) -> dict[str, Told]:
        """All transcripts in the store, and that each is labelled with the workspace."""
        with perdure.open(self.url) as store:
            label = f"workspace:{workspace_of(self.folder).session}"
            return {each.name: ours(store.session(each.name)) for each in store.sessions(label=label)}

    def count(self) -> int:
        """How many events there are but those of the workspace's own marks."""
        with perdure.open(self.url) as store:
            return len([each for each in store.events(limit=1_000) if not each.session.startswith("hosts/")])


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def expected(path: Path) -> dict[str, Told]:
    host = path.relative_to(FOREIGN).parts[0]
    return {f"{host}/{name}": [*map(tuple, told)] for name, told in json.loads(path.read_text())["sessions"].items()}


@pytest.mark.parametrize(("host", "stop"), [("gemini", "AfterAgent"), ("cursor", "stop")])
def test_a_file_that_grows_line_by_line_gives_each_turn_once(place: Workspace, host: str, stop: str) -> None:
    """A hook after every line: a message of Gemini that comes again with its calls is still one turn."""
    (sample,) = (FOREIGN / host / "made").glob("*.jsonl")
    own = place.folder / sample.name
    lines = sample.read_text().splitlines(keepends=True)
    for upto in range(1, len(lines) + 1):
        own.write_text("".join(lines[:upto]))
        place.hook(host, stop, session_id="s", transcript_path=str(own))
    assert place.told() == expected(FOREIGN / host / "made" / "expected.json")
    before = place.count()
    place.hook(host, stop, session_id="s", transcript_path=str(own))
    place.hook(host, stop, session_id="s", transcript_path=str(own))
    assert place.count() == before


def test_a_killed_hosts_transcript_is_there_after_the_next_session_begins(place: Workspace) -> None:
    (sample,) = (FOREIGN / "gemini" / "made").glob("*.jsonl")
    own = place.folder / sample.name
    lines = sample.read_text().splitlines(keepends=True)
    place.hook("gemini", "SessionStart", session_id="s", transcript_path=str(own), source="startup")
    own.write_text("".join(lines)[:-40])  # it was killed in the middle of a line that says nothing
    place.hook("gemini", "SessionStart", session_id="t", transcript_path=str(place.folder / "new"), source="startup")
    assert place.told() == expected(FOREIGN / "gemini" / "made" / "expected.json")


def test_a_boot_that_the_host_wrote_down_is_kept_by_name(place: Workspace) -> None:
    """Else every boot would quote the one before it, in the turn of the user, too: Gemini CLI puts both into one message."""
    with perdure.open(place.url, actor="me") as store:
        session = store.session(workspace_of(place.folder).session)
        session.remember("Never push to main", kind="rule")
        boot = session.boot().text
    own = place.folder / "session-1.jsonl"
    records = [
        {"sessionId": "s1", "projectHash": "x", "startTime": "2026-11-18T03:46:23Z", "kind": "main"},
        {"id": "m1", "type": "user", "content": f"<hook_context>{boot}</hook_context>\n\nfix the login"},
    ]
    own.write_text("".join(json.dumps(each) + "\n" for each in records))
    place.hook("gemini", "AfterAgent", session_id="s1", transcript_path=str(own))
    name = f'[boot of session "{session.name}", event 2]'
    said = ("user", f"<hook_context>{name}\n</hook_context>\n\nfix the login")
    assert place.told()["gemini/s1"] == [said]
    with perdure.open(place.url) as store:
        assert "Never push" not in store.session("gemini/s1").boot().text


class Opencode:
    """The database of opencode, with sessions of this workspace and one of another."""

    def __init__(self, place: Workspace) -> None:
        folder = place.data / "opencode"
        folder.mkdir(parents=True)
        self.path = Path(shutil.copy(FOREIGN / "opencode" / "opencode.db", folder / "opencode.db"))
        self.open = apsw.Connection(str(self.path))
        self.open.execute("PRAGMA journal_mode = WAL")  # as the program has it; it stays open, as when it runs
        self.open.execute(
            "UPDATE session SET directory = ? WHERE id != ?", (f"{place.folder}/sub", OPENCODE_SESSION[9:])
        )
        self.open.execute("UPDATE session SET directory = ? WHERE id = ?", (str(place.folder), OPENCODE_SESSION[9:]))
        session = next(iter(self.open.execute("SELECT * FROM session LIMIT 1")))
        marks = ",".join("?" * len(session))
        self.open.execute(
            f"INSERT INTO session VALUES ({marks})", ("ses_other", *session[1:5], "/srv/other", *session[6:])
        )
        self.open.execute("INSERT INTO message VALUES ('msg_o', 'ses_other', 1, 1, '{\"role\": \"user\"}')")
        self.add("prt_o", "msg_o", {"type": "text", "text": "of another folder"}, session="ses_other")

    def add(self, part: str, message: str, data: dict[str, Any], *, at: int = 1, session: str = "") -> None:
        row = (part, message, session or OPENCODE_SESSION[9:], at, at, json.dumps(data))
        self.open.execute("INSERT OR REPLACE INTO part VALUES (?, ?, ?, ?, ?, ?)", row)


def test_sessions_of_opencode_in_this_workspace_are_kept_each_turn_once(place: Workspace) -> None:
    Opencode(place)
    place.hook("opencode", "Stop", session_id="x")
    assert place.told() == expected(FOREIGN / "opencode" / "expected.json")
    before = place.count()
    place.hook("opencode", "PreCompact", session_id="x")
    place.hook("opencode", "Stop", session_id="x")
    assert place.count() == before


def test_a_text_being_written_and_a_call_that_runs_come_when_they_are_done(place: Workspace) -> None:
    host = Opencode(place)
    place.hook("opencode", "Stop")
    before = place.told()[OPENCODE_SESSION]
    last = max(row[0] for row in host.open.execute("SELECT id FROM message WHERE session_id != 'ses_other'"))
    call = {
        "type": "tool",
        "tool": "bash",
        "callID": "call_1",
        "state": {"status": "running", "input": {"command": "ls"}},
    }
    host.add("prt_z1", last, {"type": "text", "text": "Let me", "time": {"start": 1}}, at=2**42)
    host.add("prt_z2", last, call, at=2**42)
    place.hook("opencode", "PreCompact")
    assert place.told()[OPENCODE_SESSION] == [*before, ("call", "prt_z2", "bash", {"command": "ls"})]
    host.add("prt_z2", last, {**call, "state": {**call["state"], "status": "completed", "output": "x"}}, at=2**42 + 1)
    host.add("prt_z1", last, {"type": "text", "text": "Let me see", "time": {"start": 1, "end": 2}}, at=2**42 + 1)
    place.hook("opencode", "Stop")
    place.hook("opencode", "Stop")
    added = place.told()[OPENCODE_SESSION][len(before) :]
    assert sorted(added, key=str) == sorted(
        [("call", "prt_z2", "bash", {"command": "ls"}), ("result", "prt_z2", "x"), ("assistant", "Let me see")], key=str
    )


def test_marks_that_are_lost_add_nothing(place: Workspace) -> None:
    """The marks only save work: with them gone everything is read again, and nothing is added."""
    Opencode(place)
    place.hook("opencode", "Stop")
    before = place.count()
    with perdure.open(place.url) as store:
        marks = store.scope(f"hosts/{workspace_of(place.folder).session}")
        for entry in marks.entries():
            marks.unset(entry.name)
    place.hook("opencode", "Stop")
    assert place.count() == before


@pytest.mark.parametrize("bytes_", [b"", b"SQLite format 3\0" + b"\xff" * 5_000, b"{}", b"\0" * 4_096])
def test_a_hostile_database_is_a_note(place: Workspace, bytes_: bytes) -> None:
    (place.data / "opencode").mkdir(parents=True)
    (place.data / "opencode" / "opencode.db").write_bytes(bytes_)
    words = ("-m", "perdure", "hook", "opencode", "--store", place.url)
    env = {"XDG_DATA_HOME": str(place.data), "HOME": str(place.folder), "PATH": "/usr/bin:/bin"}
    said = json.dumps({"hook_event_name": "Stop", "cwd": str(place.folder)})
    done = forked.run(*words, input=said, cwd=place.folder, env=env)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr

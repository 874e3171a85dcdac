"""The inventory of a project that was made up: what each file is, that nothing in it runs, and that looking is bounded."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
from pathlib import Path

import apsw
import pytest

import perdure
from perdure.choosing import inventory, tracked
from perdure.choosing.inventory import Category, StateFile, Updates, take

DAY = 86_400
NOW = 1_800_000_000
FOREIGN = Path(__file__).parent.parent.parent / "fixtures" / "foreign"


def put(folder: Path, name: str, content: bytes | str = b"", days_old: float = 0) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    os.utime(path, (NOW - days_old * DAY, NOW - days_old * DAY))
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    put(tmp_path, "main.py", "print('code')")
    put(tmp_path, "package.json", "{}")
    put(tmp_path, "poetry.lock", "x")
    put(tmp_path, "AGENTS.md", "# rules", days_old=30)
    put(tmp_path, "events.yaml", "events: []", days_old=30)
    put(tmp_path, "session-decisions-index.yaml", "- 1", days_old=3)
    put(tmp_path, "backlog.yaml", "- a")
    put(tmp_path, "catch-log.tsv", "a\tb\n")
    put(tmp_path, ".keel-state", '{"head": "abc"}', days_old=8)
    put(tmp_path, "node_modules/x/state.json", "{}")
    put(tmp_path, "checkpoints/7.json", "{}")
    put(tmp_path, "sessions/a.jsonl", '{"sessionId":"1","parentUuid":null,"x":1}\n{"a":1}\n{"b":2}\n')
    put(
        tmp_path, "rollout-2026.jsonl", '{"type": "x", "payload": {"y": "session_meta"}}\n{"type":"session_meta"}\n{}\n'
    )
    put(tmp_path, "memory.jsonl", '{"type":"entity","name":"a"}\n{"type":"relation"}\n')
    put(tmp_path, "worker.pid", "123", days_old=1)
    return tmp_path


def found(folder: Path) -> dict[str, StateFile]:
    return {file.path: file for file in take(folder).files}


def test_what_each_file_is_for(project) -> None:
    assert {path: str(file.category) for path, file in found(project).items()} == {
        "AGENTS.md": "boot",
        "events.yaml": "events",
        "session-decisions-index.yaml": "decisions",
        "backlog.yaml": "tasks",
        "catch-log.tsv": "log",
        ".keel-state": "runtime",
        "checkpoints/7.json": "checkpoint",
        "sessions/a.jsonl": "conversation",
        "rollout-2026.jsonl": "conversation",
        "memory.jsonl": "memory",
        "worker.pid": "lock",
    }


def test_who_wrote_it_and_how_it_changes(project) -> None:
    files = found(project)
    assert (files["sessions/a.jsonl"].writer, files["sessions/a.jsonl"].updates) == ("Claude Code", Updates.APPENDED)
    assert files["rollout-2026.jsonl"].writer == "Codex"
    assert files["memory.jsonl"].writer == "MCP memory"
    assert files["memory.jsonl"].next == "perdure import memory.jsonl --dry-run"
    assert files["backlog.yaml"].next == ""
    assert files["backlog.yaml"].updates is Updates.REWRITTEN
    assert files["worker.pid"].updates is Updates.HELD
    assert "half of it" in files["backlog.yaml"].recovers
    assert all(file.loses and file.recovers and file.why for file in files.values())


def test_stale_is_what_changed_long_before_its_neighbours(project) -> None:
    files = found(project)
    assert files["AGENTS.md"].stale == "high"
    assert "30 days" in files["AGENTS.md"].why
    assert files["session-decisions-index.yaml"].stale == "doubtful"
    assert files["backlog.yaml"].stale == "low"
    assert files["events.yaml"].stale == "low"  # history stays true
    assert files["worker.pid"].stale == "high"
    assert [file.stale for file in take(project).files][:3] == ["high"] * 3  # the riskiest first


def test_databases_are_known_by_their_bytes_and_not_opened(tmp_path) -> None:
    with perdure.open(f"sqlite:///{tmp_path}/agent.db") as store:
        store.session("s").say("user", "x")
    database = apsw.Connection(str(tmp_path / "graph.sqlite"))
    database.execute("CREATE TABLE checkpoints (thread_id TEXT, checkpoint_ns TEXT)")
    database.close()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    files = found(tmp_path)
    assert (files["agent.db"].writer, files["agent.db"].updates) == ("Perdure", Updates.TRANSACTIONS)
    assert (files["graph.sqlite"].writer, files["graph.sqlite"].category) == ("LangGraph", Category.CHECKPOINT)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


class Bomb:
    def __reduce__(self):
        return os.system, ("touch exploded",)


def test_nothing_is_unpickled(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    put(tmp_path, "memory.pkl", pickle.dumps(Bomb()))
    put(tmp_path, "state", pickle.dumps(Bomb()))
    files = found(tmp_path)
    assert files["memory.pkl"].form == files["state"].form == "pickle"
    assert "runs what it holds" in files["memory.pkl"].recovers
    assert not (tmp_path / "exploded").exists()
    pickle.loads((tmp_path / "state").read_bytes())  # the control: it would have
    assert (tmp_path / "exploded").exists()


def test_hostile_names_links_and_pipes(tmp_path, tmp_path_factory) -> None:
    elsewhere = put(tmp_path_factory.mktemp("elsewhere"), "secret-state.json", "{}")
    (tmp_path / "state.json").symlink_to(elsewhere)
    (tmp_path / "loop").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "tasks.json")
    put(tmp_path, "state\x1b[31m\n.json", "{}")
    Path(os.fsdecode(bytes(tmp_path) + b"/tasks-\xff.json")).write_bytes(b"{}")
    assert sorted(found(tmp_path)) == ["state\x1b[31m\n.json", os.fsdecode(b"tasks-\xff.json")]


def test_a_pipe_that_took_the_place_of_a_file_is_not_waited_for(tmp_path, monkeypatch) -> None:
    """Opening one blocks until somebody writes to it."""
    os.mkfifo(tmp_path / "tasks.json")
    flags, opened = [], os.open
    monkeypatch.setattr(os, "open", lambda path, how: (flags.append(how), opened(path, how | os.O_NONBLOCK))[1])
    assert inventory._start_of(str(tmp_path / "tasks.json")) == b""
    assert flags[0] & os.O_NONBLOCK


def test_hostile_content_is_only_looked_at(tmp_path) -> None:
    put(tmp_path, "a-state.json", b"[" * 100_000)
    put(tmp_path, "b-events.jsonl", b"[" * 20_000 + b"\n" + b"{" * 20_000 + b"\n")
    put(tmp_path, "c-state.json", b"\xff\xfe\0" * 50_000)
    assert len(found(tmp_path)) == 3


def test_looking_is_bounded_and_says_so(tmp_path, monkeypatch) -> None:
    for number in range(6):
        put(tmp_path, f"state-{number}.json", "{}")
    put(tmp_path, "/".join(["d"] * 20) + "/state.json", "{}")
    whole = take(tmp_path)
    assert (len(whole.files), whole.left_out) == (6, ["folders deeper than 16 were not entered"])
    monkeypatch.setattr(inventory, "FILES_LOOKED_AT_MAX", 4)
    assert take(tmp_path).left_out == ["looked at 4 files, and at no more"]
    monkeypatch.setattr(inventory, "FILES_LISTED_MAX", 3)
    assert len(take(tmp_path).files) == 3


# -- git -------------------------------------------------------------------------------------------------------


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "core.hooksPath=/dev/null", *words], cwd=folder, check=True, capture_output=True)


def test_what_git_has_is_read_from_its_index(project) -> None:
    assert found(project)["backlog.yaml"].tracked == "?"
    git(project, "init", "-q")
    git(project, "add", "backlog.yaml", "sessions")
    files = found(project)
    assert (files["backlog.yaml"].tracked, files["sessions/a.jsonl"].tracked, files["events.yaml"].tracked) == (
        "yes",
        "yes",
        "no",
    )
    assert "git has what was committed" in files["backlog.yaml"].recovers
    assert "nothing else has it" in files["events.yaml"].recovers


def test_git_itself_never_runs(project) -> None:
    """A repository may configure a program that git runs at every look."""
    git(project, "init", "-q")
    git(project, "add", "backlog.yaml")
    spy = put(project, "spy.sh", f"#!/bin/sh\ntouch {project}/spied\n")
    spy.chmod(0o755)
    git(project, "config", "core.fsmonitor", str(spy))
    take(project)
    assert not (project / "spied").exists()
    git(project, "status")  # the control: git does
    assert (project / "spied").exists()


def test_the_index_of_a_worktree_and_of_a_folder_within(project, tmp_path_factory) -> None:
    git(project, "init", "-q")
    git(project, "add", "backlog.yaml", "sessions")
    git(project, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x")
    beside = tmp_path_factory.mktemp("beside") / "tree"
    git(project, "worktree", "add", "-q", str(beside))
    put(beside, "more-state.json", "{}")
    assert {path: file.tracked for path, file in found(beside).items()} == {
        "backlog.yaml": "yes",
        "sessions/a.jsonl": "yes",
        "more-state.json": "no",
    }
    assert {path: file.tracked for path, file in found(project / "sessions").items()} == {"a.jsonl": "yes"}
    assert {path: file.tracked for path, file in found(project / "checkpoints").items()} == {"7.json": "no"}


@pytest.mark.parametrize(
    "text", ["", "gitdir: ", "gitdir: /dev", "gitdir: a\0b", "elsewhere", "gitdir: /dev/zero", "gitdir: .git"]
)
def test_a_pointer_that_leads_nowhere(tmp_path, text) -> None:
    put(tmp_path, ".git", text)
    assert tracked.tracked(tmp_path) is None


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_versions_of_the_index(project, version) -> None:
    git(project, "init", "-q")
    git(project, "add", ".")
    git(project, "update-index", "--index-version", version)
    known = tracked.tracked(project)
    assert known is None if version == "4" else {"AGENTS.md", "sessions/a.jsonl"} <= (known or set())


@pytest.mark.parametrize(
    "data", [b"", b"DIRC", b"DIRC\0\0\0\2\xff\xff\xff\xff", b"junk" * 100, b"DIRC\0\0\0\2\0\0\0\1" + b"x" * 70]
)
def test_a_damaged_index_is_not_believed(tmp_path, data) -> None:
    put(tmp_path, ".git/index", data)
    assert tracked.tracked(tmp_path) is None


@pytest.mark.skipif(not FOREIGN.exists(), reason="no samples of other programs are kept here")
def test_samples_of_the_real_programs_are_known() -> None:
    writers = {file.path.partition("/")[0]: file.writer for file in take(FOREIGN).files if file.writer}
    assert writers == {
        "claude-code": "Claude Code",
        "codex": "Codex",
        "google-adk": "Google ADK",
        "langgraph": "LangGraph",
        "mcp-memory": "MCP memory",
        "openai-agents": "OpenAI Agents",
    }


def test_it_is_plain_data(project) -> None:
    import msgspec

    assert json.loads(msgspec.json.encode(take(project)))["files"]


def test_a_files_store_is_its_log_and_nothing_that_is_made_from_it(tmp_path: Path) -> None:
    for url in (f"files:///{tmp_path}/state", f"sqlite:///{tmp_path}/state/agent.db"):
        with perdure.open(url) as store:
            store.session("a").say("user", "hello")
    found = take(tmp_path).files
    assert {each.path for each in found} == {"state/log/000001.jsonl", "state/agent.db"}
    assert {(each.category, each.writer, each.updates) for each in found} == {
        (Category.DATABASE, "Perdure", Updates.TRANSACTIONS)
    }
    assert all(each.recovers.startswith("commits survive a crash") for each in found)

"""Formats of JSON lines: Claude Code, Codex and plain messages.

Those of Claude Code and Codex are written by hand here, in the record shapes of older versions (Claude Code 2.1.37, Codex 0.65),
with what is seldom. What the programs themselves write is in test_real_samples.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from import_fixtures import FOREIGN, Take
from interchange.importers.telling import ours
from perdure import errors
from perdure_agents.importers.file_import import import_files

CLAUDE = FOREIGN / "claude-code" / "5d1c0f7e-1111-4222-8333-444455556666.jsonl"
CLAUDE_SESSION = "claude-code/5d1c0f7e-1111-4222-8333-444455556666"
CODEX = FOREIGN / "codex" / "rollout-2026-02-01T10-00-00-0199aaaa-bbbb-7ccc-8ddd-eeeeffff0000.jsonl"
CODEX_SESSION = "codex/0199aaaa-bbbb-7ccc-8ddd-eeeeffff0000"


def test_claude_code(store: Any, take: Take) -> None:
    report = take(CLAUDE)
    assert report.ok
    assert report.passed_over == {"claude-code file-history-snapshot": 1}
    session = store.session(CLAUDE_SESSION)
    thought = "{'type': 'thinking', 'thinking': 'Look at the cookie code first.', 'signature': 'c2ln'}"
    assert ours(session) == [
        ("user", "Login fails on Safari"),
        ("assistant", thought),
        ("assistant", "Let me look."),
        ("call", "toolu_01", "Grep", {"pattern": "SameSite"}),
        ("call", "toolu_02", "Task", {"prompt": "Check the tests"}),
        ("result", "toolu_01", "auth.py:7: SameSite=None"),
        ("result", "toolu_02", "They fail."),
        ("user", "[Request interrupted by user]"),
        ("user", "This session continues: login fails on Safari, auth.py:7."),
    ]
    assert session.info().title == "Login on Safari"
    assert session.get("origin") == {"cwd": "/srv/shop", "git_branch": "fix-42", "version": "2.1.37"}
    assert [event.kind for event in session.events(emitted=True)] == ["claude-code.compact_boundary"]
    assert session.turns()[6].error
    assert session.status == "active"
    assert len(session.transcript("anthropic")) > 3


def test_a_sub_agent_is_a_session_of_its_own(store: Any, take: Take) -> None:
    take(CLAUDE)
    assert ours(store.session(f"{CLAUDE_SESSION}/agent-a1b2")) == [
        ("user", "Check the tests"),
        ("assistant", "They fail."),
    ]


def test_a_record_of_an_unknown_kind_is_of_the_agent_that_it_names(store: Any, take: Take, tmp_path: Path) -> None:
    about = {"sessionId": "s", "agentId": "a1", "version": "9"}
    spoken = {
        "type": "user",
        "isSidechain": True,
        "uuid": "u",
        "cwd": "/srv",
        "message": {"role": "user", "content": "hi"},
    }
    file = tmp_path / "agent-a1.jsonl"
    file.write_text("".join(json.dumps(about | each) + "\n" for each in ({"type": "new-kind"}, spoken)))
    assert take(file).sessions == ("claude-code/s/agent-a1",)
    session = store.session("claude-code/s/agent-a1")
    assert [event.kind for event in session.events(emitted=True)] == ["claude-code.new-kind"]
    assert session.get("origin") == {"cwd": "/srv", "version": "9"}


def test_where_it_came_from_is_kept(store: Any, take: Take) -> None:
    take(CLAUDE)
    first, answer = store.session(CLAUDE_SESSION).turns()[:2]
    assert first.origin == {
        "format": "claude-code", "id": "00000000-0000-4000-8000-000000000001", "at": "2026-02-01T09:00:00.000Z",
    }  # fmt: skip
    assert answer.origin["parent"] == first.origin["id"]
    assert answer.origin["model"] == "claude-opus-4-5"
    assert answer.origin["usage"] == {"input_tokens": 12, "output_tokens": 3}
    assert first.key == first.origin["id"]


def test_codex(store: Any, take: Take) -> None:
    report = take(CODEX)
    assert report.ok
    assert report.passed_over == {"codex event_msg": 3, "codex turn_context": 1}
    session = store.session(CODEX_SESSION)
    assert ours(session) == [
        ("system", "Be brief."),
        ("user", "Which files are here?"),
        ("assistant", "{'type': 'thinking', 'thinking': '**Listing files**'}"),
        ("call", "call_1", "shell", {"command": ["ls"], "workdir": "/srv/shop"}),
        ("result", "call_1", '{"output":"auth.py\\n","metadata":{"exit_code":0,"duration_seconds":0.1}}'),
        ("call", "call_2", "apply_patch", "*** Begin Patch\n*** End Patch\n"),
        ("result", "call_2", '{"output":"Success","metadata":{"exit_code":0}}'),
        ("assistant", "There is auth.py."),
        ("user", "Which files are here?"),
    ]
    assert [event.kind for event in session.events(emitted=True)] == ["codex.compacted"]
    assert session.turns()[3].origin["model"] == "gpt-5-codex"


def test_codex_of_the_first_versions(store: Any, take: Take, tmp_path: Path) -> None:
    lines = [
        {"id": "old-1", "timestamp": "2025-06-01T00:00:00Z", "instructions": None, "git": {}},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {
            "type": "local_shell_call",
            "call_id": "c1",
            "status": "completed",
            "action": {"type": "exec", "command": ["ls"]},
        },
        {"type": "function_call_output", "call_id": "c1", "output": {"content": "denied", "success": False}},
    ]
    file = tmp_path / "any.txt"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert take(file).files == {"codex": 1}
    session = store.session("codex/old-1")
    assert ours(session) == [
        ("user", "hi"), ("call", "c1", "local_shell", {"type": "exec", "command": ["ls"]}), ("result", "c1", "denied"),
    ]  # fmt: skip
    assert session.turns()[-1].error


OPENAI = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "image_url", "image_url": {"url": "data:x"}}]},
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "grep", "arguments": '{"q": 1}'}},
        {"id": "c", "type": "function", "function": {"name": "grep", "arguments": "not json"}},
    ]},
    {"role": "tool", "tool_call_id": "c", "content": "first"},
    {"role": "tool", "tool_call_id": "c", "content": "second"},
    {"role": "assistant", "content": "done", "timestamp": "2026-01-01"},
]  # fmt: skip
ANTHROPIC = [
    {"role": "user", "content": "go"},
    {
        "role": "assistant",
        "content": [{"type": "text", "text": "I go"}, {"type": "tool_use", "id": "t", "name": "run", "input": {}}],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]},
]


def test_a_folder_of_session_files(store: Any, take: Take, tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    (folder / "b").mkdir(parents=True)
    (folder / "a.json").write_text(json.dumps(OPENAI))
    about = {"session_id": "s7", "title": "Go", "model": "x", "messages": ANTHROPIC}
    (folder / "b" / "deep.json").write_text(json.dumps(about, indent=2))
    (folder / "b" / "lines.jsonl").write_text("\n".join(map(json.dumps, ANTHROPIC)))
    (folder / "notes.txt").write_text("nothing for us")
    report = take(folder)
    assert report.sessions == ("messages/a", "messages/s7", "messages/b/lines")
    assert report.ok
    assert report.passed_over == {"file of no known format": 1}
    assert ours(store.session("messages/a")) == [
        ("system", "Be kind."),
        ("user", "one\n{'type': 'image_url', 'image_url': {'url': 'data:x'}}"),
        ("call", "c", "grep", {"q": 1}),
        ("call", "c#2", "grep", "not json"),
        ("result", "c", "first"),
        ("result", "c#2", "second"),
        ("assistant", "done"),
    ]
    told = [("user", "go"), ("assistant", "I go"), ("call", "t", "run", {}), ("result", "t", "ok")]
    assert ours(store.session("messages/s7")) == ours(store.session("messages/b/lines")) == told
    assert store.session("messages/s7").get("model") == "x"
    assert store.session("messages/s7").info().title == "Go"
    assert store.session("messages/a").turns()[-1].origin["at"] == "2026-01-01"


def test_a_file_is_known_by_what_is_in_it(take: Take, tmp_path: Path) -> None:
    disguised = {
        "rollout-x.jsonl": CLAUDE, "session.json": CODEX, "memory.jsonl": FOREIGN / "langgraph" / "checkpoints.sqlite",
        "x": FOREIGN / "google-adk" / "sessions.db",
    }  # fmt: skip
    for name, source in disguised.items():
        (tmp_path / name).write_bytes(source.read_bytes())
        assert set(take(tmp_path / name).files) == {source.parent.name}


def test_a_dry_run_writes_nothing(store: Any, tmp_path: Path) -> None:
    report = import_files(None, [CLAUDE, CODEX])
    assert report.dry_run
    assert report.read["turns"] == 7 + 2 + 7
    assert report.added == {}
    assert list(store.sessions()) == []


def test_a_file_of_no_known_format_is_missed_where_it_could_have_been_one(take: Take, tmp_path: Path) -> None:
    texts = {
        "notes.txt": "words",
        "index.json": '{"version": 1}',
        "other.jsonl": '{"x": 1}\n{"x": 2}',
        "empty.jsonl": "",
    }
    torn = {"zeros.jsonl": "\0" * 900, "torn.json": '{"version": '}
    for name, text in {**texts, **torn}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "into.db").unlink(missing_ok=True)
    report = import_files(None, [tmp_path])
    assert {each.place for each in report.left_out} == set(torn)
    assert report.passed_over == {"file of no known format": len(texts)}
    assert not take(tmp_path / "notes.txt").ok


def test_progress_is_told(store: Any) -> None:
    told: list[tuple[int, int]] = []
    import_files(store, [CLAUDE], progress=lambda done, total: told.append((done, total)))
    assert told[0] == (0, 1)
    assert told[-1][0] > 10
    told.clear()
    import_files(store, [CLAUDE, CODEX], progress=lambda done, total: told.append((done, total)))
    assert told == [(0, 2), (1, 2)]


def test_a_large_turn(store: Any, take: Take, tmp_path: Path) -> None:
    large = "ü" * 3_000_000
    (tmp_path / "a.json").write_text(
        json.dumps([{"role": "user", "content": large}, {"role": "assistant", "content": "ok"}])
    )
    assert take(tmp_path / "a.json").ok
    assert ours(store.session("messages/a")) == [("user", large), ("assistant", "ok")]
    assert take(tmp_path / "a.json").added == {}


@pytest.mark.parametrize("name", ["cursor", "gemini", "mcp-memory", "opencode"])
def test_a_format_that_no_longer_comes_with_perdure_is_refused_with_the_way_out(take: Take, name: str) -> None:
    with pytest.raises(errors.Invalid, match="no longer comes") as raised:
        take(CLAUDE, format_name=name)
    assert "perdure.importers" in raised.value.hint

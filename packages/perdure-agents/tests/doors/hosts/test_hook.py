"""`perdure hook`: boot in parts that arrive whole, each turn once, events and corrections; and it never stops a host."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import forked
import perdure
from perdure_agents.hosts import transcripts
from perdure_agents.hosts.catalog import CAP_CHARS, HOSTS
from perdure_agents.hosts.workspace import workspace_of

Run = subprocess.CompletedProcess[str]


class Place:
    """A workspace with a host in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "acme"
        (self.folder / ".git").mkdir(parents=True)
        self.transcript = folder / "host-1.jsonl"
        self.url = f"sqlite:///{folder / 'a.db'}"
        self.session = workspace_of(self.folder).session

    def hook(self, event: str, host: str = "claude-code", *words: str, **more: Any) -> Run:
        said = {"hook_event_name": event, "session_id": "host-1", "cwd": str(self.folder), **more}
        return self.raw(json.dumps(said), "hook", host, "--store", self.url, "--actor", "agent", *words)

    def raw(self, said: str, *words: str) -> Run:
        return forked.run("-m", "perdure", *words, input=said, cwd=self.folder)

    def context(self, event: str, *words: str, **more: Any) -> str:
        done = self.hook(event, "claude-code", *words, **more)
        assert (done.returncode, done.stderr) == (0, "")
        return json.loads(done.stdout).get("hookSpecificOutput", {}).get("additionalContext", "")

    def keep(self, event: str = "Stop") -> None:
        assert self.context(event, transcript_path=str(self.transcript)) == ""

    def say(self, *texts: str, role: str = "user") -> None:
        """The host adds turns to its transcript."""
        with self.transcript.open("a") as file:
            for text in texts:
                message = {"role": role, "content": text}
                record = {"type": role, "uuid": f"u-{text}", "sessionId": "host-1", "cwd": "/x", "message": message}
                file.write(f"{json.dumps(record)}\n")

    def open(self) -> Any:
        return perdure.open(self.url, actor="me")

    def turns(self, session: str = "claude-code/host-1") -> list[str]:
        with self.open() as store:
            return [turn.content for turn in store.session(session).turns(last=1_000)]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


# -- boot ------------------------------------------------------------------------------------------------------------------


def test_a_context_begins_with_the_working_set_and_the_last_turns(place: Place) -> None:
    with place.open() as store:
        session = store.session(place.session)
        session.remember("Never push to main", kind="rule")
        session.decide("Use A", because="B breaks")
    place.say("Please fix the login")
    place.keep()
    first = place.context("SessionStart", source="startup")
    assert "Never push to main" in first
    assert "Use A" in first
    assert "Please fix the login" in place.context("SessionStart", "--part", "2", source="startup")
    assert "Please fix the login" in place.context("SessionStart", "--part", "2", source="compact")
    assert place.context("SessionStart", "--part", "3", source="compact") == ""


def test_each_part_arrives_whole(place: Place) -> None:
    with place.open() as store:
        session = store.session(place.session)
        for number in range(40):
            session.remember(f"Rule {number} " + "x" * 100, kind="rule")
            session.remember(f"Fact {number} " + "y" * 500)
    place.say(*(f"turn {number} " + "z" * 500 for number in range(60)))
    place.keep()
    parts = [place.context("SessionStart", "--part", str(part), source="compact") for part in (1, 2)]
    assert all(0 < len(part) <= CAP_CHARS for part in parts)
    assert all(f"Rule {number} " in parts[0] for number in range(40))
    assert "turn 59 " in parts[1]


def test_rules_that_do_not_fit_are_not_shown_in_part(place: Place) -> None:
    with place.open() as store:
        for number in range(30):
            store.session(place.session).remember(f"Rule {number} " + "x" * 500, kind="rule")
    said = place.context("SessionStart", source="startup")
    assert "call the perdure tool `boot`" in said
    assert "Rule 0" not in said


@pytest.mark.parametrize("host", HOSTS)
def test_every_host_is_answered_in_its_shape(place: Place, host: str) -> None:
    begin = next(name for name, moment in HOSTS[host].moments.items() if moment == "begin")
    done = place.hook(begin, host, source="startup")
    assert (done.returncode, done.stderr) == (0, "")
    if host in ("opencode", "generic"):
        assert done.stdout.startswith("# Boot of session")
    else:
        said = json.loads(done.stdout)
        text = said["additional_context"] if host == "cursor" else said["hookSpecificOutput"]["additionalContext"]
        assert text.startswith("# Boot of session")
    nothing = place.hook("NoSuchEvent", host)
    assert (nothing.returncode, nothing.stdout) == (0, "" if host in ("opencode", "generic") else "{}\n")


# -- transcripts -----------------------------------------------------------------------------------------------------------


def test_each_turn_is_kept_once_however_often_a_hook_comes(place: Place) -> None:
    place.say("one", "two")
    for event in ("Stop", "PreCompact", "Stop"):
        place.keep(event)
    assert place.turns() == ["one", "two"]
    place.say("three")
    place.keep("SessionEnd")
    assert place.turns() == ["one", "two", "three"]


def test_a_boot_that_the_host_wrote_down_is_kept_by_name(place: Place) -> None:
    """Else every boot would quote the one before it."""
    with place.open() as store:
        session = store.session(place.session)
        session.remember("Never push to main", kind="rule")
        boot = session.boot().text
    place.say(f"{boot}\n\nfix the login")
    place.keep()
    assert place.turns() == [f'[boot of session "{place.session}", event 2]\n\n\nfix the login']


def test_a_line_that_is_still_being_written_comes_with_the_next_hook(place: Place) -> None:
    place.say("one")
    place.say("two")
    whole = place.transcript.read_bytes()
    place.transcript.write_bytes(whole[:-20])
    place.keep()
    assert place.turns() == ["one"]
    place.transcript.write_bytes(whole)
    place.keep()
    assert place.turns() == ["one", "two"]


def test_a_killed_hosts_transcript_is_there_after_the_next_hook(place: Place) -> None:
    place.context("SessionStart", source="startup", transcript_path=str(place.transcript))  # the file comes later
    place.say("one", "two")
    # Nobody says Stop: the host was killed. Another session of it begins.
    place.context(
        "SessionStart", source="startup", session_id="host-2", transcript_path=str(place.folder / "other.jsonl")
    )
    assert place.turns() == ["one", "two"]


def test_a_mark_that_is_lost_costs_no_turn_and_adds_none(place: Place) -> None:
    place.say("one", "two")
    place.keep()
    with place.open() as store:
        marks = store.scope(transcripts.scope_of(place.session))
        for entry in marks.entries():
            marks.unset(entry.name)
    place.keep()
    assert place.turns() == ["one", "two"]


def test_a_transcript_that_was_rewritten_is_read_from_its_beginning(place: Place) -> None:
    place.say("one", "two")
    place.keep()
    place.transcript.unlink()
    place.say("zero", "one", "two", "three")
    place.keep()
    assert sorted(place.turns()) == ["one", "three", "two", "zero"]


# -- edits and commands ----------------------------------------------------------------------------------------------------


def test_edits_and_commands_become_events_once(place: Place) -> None:
    edit = {"tool_name": "Edit", "tool_input": {"file_path": "src/a.py"}, "tool_use_id": "t1"}
    run = {"tool_name": "Bash", "tool_input": {"command": "make test"}, "tool_use_id": "t2"}
    for act in (edit, run, edit, run):
        assert place.context("PostToolUse", **act) == ""
    place.context("PostToolUse", tool_name="Read", tool_input={"file_path": "x"}, tool_use_id="t3")
    with place.open() as store:
        found = store.session(place.session).events(emitted=True)
        assert [(each.kind, each.data["what"]) for each in found] == [
            ("host.edited", "src/a.py"),
            ("host.ran", "make test"),
        ]


def test_a_rule_that_was_broken_is_a_correction(place: Place) -> None:
    with place.open() as store:
        session = store.session(place.session)
        session.remember("Never push to main", kind="rule", tags=["forbid:git push*main"])
    act = {"tool_name": "Bash", "tool_input": {"command": "cd x && git push origin main"}, "tool_use_id": "t1"}
    assert "broke the rule" in place.context("PostToolUse", **act)
    place.context("PostToolUse", **act)
    fine = {"tool_name": "Bash", "tool_input": {"command": "git push origin fix"}, "tool_use_id": "t2"}
    assert place.context("PostToolUse", **fine) == ""
    with place.open() as store:
        (correction,) = store.session(place.session).memories(kind="correction")
        assert "Never push to main" in correction.text
        assert "git push origin main" in correction.text


# -- it never stops a host -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("hook", "no-such-host"), ("hook", "claude-code", "--part", "x"), ("hook", "claude-code", "--no-such-option"), ("hook",),
        ("hook", "claude-code", "--store", "nonsense://x"), ("hook", "claude-code", "--store", "sqlite:////proc/no/a.db"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_a_note(place: Place, words: tuple[str, ...]) -> None:
    done = place.raw(json.dumps({"hook_event_name": "PreCompact"}), *words)
    assert done.returncode == 0
    assert done.stderr.startswith("perdure hook: ")
    assert done.stdout in ("", "{}\n")


@pytest.mark.parametrize(
    "said", ["", "{", "[]", '"x"', '{"hook_event_name": 7, "cwd": 8, "tool_input": "x"}', "\0", "{}" * 9]
)
def test_hostile_events_are_notes(place: Place, said: str) -> None:
    done = place.raw(said, "hook", "claude-code", "--store", place.url)
    assert (done.returncode, done.stdout) == (0, "{}\n")


def test_a_broken_settings_file_is_a_note(place: Place) -> None:
    (place.folder / "perdure.toml").write_text("store = [")
    done = place.raw("{}", "hook", "claude-code")
    assert done.returncode == 0
    assert "perdure hook: perdure.toml" in done.stderr


def test_worktrees_share_a_session_and_folders_of_one_name_do_not(tmp_path: Path) -> None:
    main, tree, other = tmp_path / "a" / "acme", tmp_path / "tree", tmp_path / "b" / "acme"
    (main / ".git" / "worktrees" / "tree").mkdir(parents=True)
    (main / "src").mkdir()
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {main / '.git' / 'worktrees' / 'tree'}\n")
    (other / ".git").mkdir(parents=True)
    assert workspace_of(main / "src").session == workspace_of(main).session
    assert workspace_of(tree).session == workspace_of(main).session
    assert workspace_of(other).session != workspace_of(main).session

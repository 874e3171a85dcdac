"""perdure advise: answers from options, from a person, or assumed; and the inventory, whatever files are called."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from doors.cli.content import TERMINAL_COMMANDS, clean_environment
from perdure.choosing.questions import FIRST, QUESTIONS


def test_what_is_not_said_is_assumed_and_named(ask) -> None:
    found = ask("advise", "--lasts", "persistent", "--stopped", "goes-on")
    assert found["recommendation"]["choice"]["store"] == "sqlite"
    assert found["answers"]["lasts"] == "persistent"
    assert "lasts" not in found["assumed"]
    assert {"twice", "writers", "server"} <= set(found["assumed"])


def test_nothing_said_is_a_sqlite_file(ask) -> None:
    assert ask("advise")["recommendation"]["choice"]["store"] == "sqlite"


def test_all_answers_as_options(ask) -> None:
    words = [word for question in QUESTIONS for word in (f"--{question.name}", question.answers[-1])]
    found = ask("advise", *words)
    assert found["assumed"] == []
    assert found["recommendation"]["choice"]["store"] == "postgresql"
    assert found["recommendation"]["choice"]["scenario"] == "compliance"


def test_for_people_it_says_why_what_would_change_it_and_what_remains(run) -> None:
    shown = run("advise", "--twice", "hurts").stdout
    for heading in ("Why", "Facts that would change it", "Risks that remain"):
        assert f"\n{heading}\n" in shown
    assert "perdure init --scenario local" in shown
    assert "readable is yes" in shown


def test_the_command_that_it_names_is_whole(run, ask) -> None:
    words = ("advise", "--owners", "tenants", "--large", "yes", "--audit", "proof")
    begin = ask(*words)["recommendation"]["begin"]
    assert len(begin) > 80
    assert begin in run(*words).stdout


def test_the_command_that_it_names_works(run, ask, tmp_path) -> None:
    begin = ask("advise", "--lasts", "persistent")["recommendation"]["begin"]
    assert run(*begin.split()[1:]).exit_code == 0
    assert run("doctor").exit_code == 0


@pytest.mark.parametrize("words", [("--lasts", "forever"), ("--twice",), ("some-folder-that-is-not-there",), (".",)])
def test_wrong_words_are_refused(run, words) -> None:
    assert run("advise", *words).exit_code == 2


def test_on_a_terminal_it_asks_what_no_option_says(tmp_path) -> None:
    words = [word for question in QUESTIONS[2:] for word in (f"--{question.name}", question.answers[0])]
    out, err = on_a_keyboard(tmp_path, b"persistent\nnonsense\nhurts\n", *words)
    assert b"What has to outlive one call?" in err
    assert b"Whose state is it?" not in err
    assert b"nonsense" in err
    assert b"assumed" not in err
    assert out.startswith(b"store       sqlite")


def on_a_keyboard(tmp_path: Path, typed: bytes, *words: str) -> tuple[bytes, bytes]:
    """What advise says to somebody who types this: on stdout, and on stderr."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "perdure", "advise", *words]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment(), cwd=tmp_path
    )
    os.close(theirs)
    os.write(ours, typed)
    out, err = process.communicate(timeout=60)
    os.close(ours)
    assert process.returncode == 0
    return out, err


def test_enter_alone_takes_three_questions_and_gives_sqlite(tmp_path) -> None:
    out, err = on_a_keyboard(tmp_path, b"\n\n\n\n")
    assert out.startswith(b"store       sqlite")
    assert err.count(b"> ") == len(FIRST) == 3
    assert f"{len(QUESTIONS) - len(FIRST)} more questions for a closer look? [y/N]".encode() in err


def test_whoever_wants_to_answers_them_all(tmp_path) -> None:
    out, err = on_a_keyboard(tmp_path, b"\n\n\ny\n\ntenants\n" + b"\n" * len(QUESTIONS))
    assert out.startswith(b"store       postgresql")
    assert err.count(b"> ") == len(QUESTIONS)


# -- the inventory --------------------------------------------------------------------------------------------


def test_the_inventory_of_a_folder(run, ask, tmp_path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "backlog.yaml").write_text("- a")
    [file] = ask("advise", "p", "--inventory")["files"]
    assert (file["path"], file["category"], file["updates"]) == ("backlog.yaml", "tasks", "rewriting it whole")
    assert "backlog.yaml" in run("advise", "p", "--inventory").stdout
    assert "1 state file among 1 file" in run("advise", "p", "--inventory").stderr


def test_names_do_not_command_a_terminal(run, tmp_path) -> None:
    for number, text in enumerate(TERMINAL_COMMANDS):
        (tmp_path / f"state-{number}-{text}.json").write_text("{}")
    Path(os.fsdecode(bytes(tmp_path) + b"/tasks-\xff.json")).write_bytes(b"{}")
    result = run("advise", "--inventory")
    assert result.exit_code == 0
    assert not any(text in result.output for text in TERMINAL_COMMANDS)
    assert len(json.loads(run("advise", "--inventory", "--json").stdout)["files"]) == len(TERMINAL_COMMANDS) + 1

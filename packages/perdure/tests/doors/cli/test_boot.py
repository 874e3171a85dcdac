"""Booting on the command line: text, parts, manifest, AGENTS.md, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.boot.items import blocks


@pytest.fixture
def place(tmp_path: Path) -> list[str]:
    url = f"sqlite:///{tmp_path}/booted.db"
    with perdure.open(url, actor="me") as store:
        session = store.session("issue-42")
        session.goal = "Login works"
        session.remember("Never push to main", kind="rule")
        for number in range(60):
            session.say("user", f"turn {number} about the login: " + "it fails on Safari and not elsewhere. " * 10)
    return ["--store", url]


def test_a_session_is_booted_in_a_budget(run: Any, place: list[str]) -> None:
    done = run("boot", "issue-42", "--budget", "600", "--max-chars", "1500", *place)
    assert done.exit_code == 0, done.output
    assert len(done.stdout) <= 1500
    assert next(blocks(done.stdout)).text == "Never push to main"
    told = json.loads(run("boot", "--budget", "600", "--json", *place).stdout)
    assert told["manifest"]["session"] == "issue-42"
    assert told["manifest"]["tokens"] <= 600
    assert told["manifest"]["left_out"]["tail"]
    explained = run("boot", "--budget", "600", "--explain", *place)
    assert "left out" in explained.output
    messages = json.loads(run("boot", "--format", "openai", *place).stdout)["messages"]
    assert {each["role"] for each in messages} == {"user"}


def test_parts_and_differences(run: Any, place: list[str], tmp_path: Path) -> None:
    whole = run("boot", "--budget", "16000", *place).stdout
    first, second = (run("boot", "--budget", "16000", "--part", number, *place).stdout for number in ("1", "2"))
    assert max(len(first), len(second)) <= 10_000 < len(whole)
    assert run("boot", "--part", "99", *place).exit_code == 3
    (tmp_path / "before.txt").write_text(whole)
    assert run("boot", "--budget", "16000", "--diff-text", str(tmp_path / "before.txt"), *place).stdout.strip() == ""


def test_agents_md_is_kept_and_checked(run: Any, place: list[str], tmp_path: Path) -> None:
    assert run("boot", "--check", *place).exit_code == 4
    assert run("boot", "--format", "agents-md", *place).exit_code == 0
    assert "perdure:begin" in (tmp_path / "AGENTS.md").read_text()
    assert run("boot", "--check", *place).exit_code == 0
    run("remember", "Herons fish", "--session", "issue-42", *place)
    older = run("boot", "--check", "--json", *place)
    assert (older.exit_code, json.loads(older.stdout)["standing"]) == (4, "older")
    (tmp_path / "AGENTS.md").write_text((tmp_path / "AGENTS.md").read_text().replace("Never", "Always"))
    assert run("boot", "--format", "agents-md", *place).exit_code == 4
    assert run("boot", "--format", "agents-md", "--force", *place).exit_code == 0


def test_what_makes_no_sense_is_refused(run: Any, place: list[str]) -> None:
    assert run("boot", "nobody", *place).exit_code == 3
    small = run("boot", "--budget", "5", *place)
    assert small.exit_code == 2
    assert "the heading and the rules alone take" in small.output


def test_doctor_lists_what_is_stale(run: Any, place: list[str], tmp_path: Path) -> None:
    made = tmp_path / "Makefile"
    made.write_text("all:\n")
    with perdure.open(place[1]) as store:
        store.scope("project:acme").remember("Tests run with make", checks=[perdure.FileHash(str(made))])
    assert run("doctor", "--stale", *place).exit_code == 0
    made.write_text("none:\n")
    done = run("doctor", "--stale", "--json", *place)
    (item,) = json.loads(done.stdout)["items"]
    assert (done.exit_code, item["standing"], item["checks"][0]["why"]) == (1, "stale", f"{made} has changed")


def test_a_boot_is_compared_with_the_one_before(run: Any, place: list[str]) -> None:
    assert run("boot", "--diff", *place).exit_code == 3  # there is none yet; this one is kept
    same = run("boot", "--diff", "--json", *place)
    assert (same.exit_code, json.loads(same.stdout)["items"]) == (0, [])
    with perdure.open(place[1]) as store:
        session = store.session("issue-42")
        session.task("Write the test")
        session.goal = "Login works on Safari"
    other = run("boot", "--diff", "--json", *place)
    changed = [(each["how"], each["kind"]) for each in json.loads(other.stdout)["items"]]
    assert (other.exit_code, ("came", "task") in changed) == (1, True)


@pytest.mark.parametrize("words", [("boot", "issue-42"), ("doctor", "--stale")])
def test_a_workspace_that_is_not_there_is_refused(
    run: Any, place: list[str], tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Every file would be missing there, and every memory that rests on one would be called stale."""
    done = run(*words, "--root", str(tmp_path / "nowhere"), *place)
    assert (done.exit_code, "'--root'" in done.stderr) == (2, True)
    assert run(*words, "--root", str(tmp_path), *place).exit_code == 0

"""diff, fork and show --at: points of the past from the command line."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

import perdure
from doors.cli.content import HOSTILE_NAME, TERMINAL_COMMANDS, on_a_terminal
from perdure import errors


def test_from_a_point_to_now(run, ask, url) -> None:
    found = ask("diff", "issue-42@5", "--store", url)
    assert found["same"] is False
    assert [(each["how"], each["name"], each["after"]) for each in found["values"]] == [("added", "branch", "fix-42")]
    shown = run("diff", "issue-42@5", "--store", url).stdout
    assert "\nPlan\n+ 8 Write the test: status todo, priority 1, " in shown
    assert "+ branch: fix-42" in shown
    assert "\x1b" not in shown  # nobody looks: no colour


def test_two_points_and_two_sessions(run, ask, url) -> None:
    assert run("diff", "issue-42@7", "issue-42@7", "--store", url).stderr == "nothing differs\n"
    back = ask("diff", "issue-42", "issue-42@5", "--store", url)
    assert [each["how"] for each in back["values"]] == ["removed"]
    strangers = ask("diff", "issue-42", "done", "--store", url)
    assert len(strangers["turns_added"]) == 1
    assert ask("diff", f"issue-42@{datetime.now(UTC).isoformat()}", "--store", url)["same"]


def test_a_fork_from_the_command_line(run, ask, url) -> None:
    made = ask("fork", "issue-42", "--at", "6", "--name", "try@b", "--store", url)
    assert (made["session"]["name"], made["parent"]) == ("try@b", "issue-42")
    assert ask("diff", "issue-42@6", "try@b", "--store", url)["same"]
    with perdure.open(url) as store:
        store.session("try@b").set("branch", "other")
    assert "~ branch: fix-42 → other" in run("diff", "issue-42@6", "try@b", "--store", url).stdout
    assert run("fork", "issue-42", "--name", "try@b", "--store", url).exit_code == errors.Conflict.exit_code
    assert run("fork", "nobody", "--name", "x", "--store", url).exit_code == errors.NotFound.exit_code
    assert run("fork", "issue-42", "--at", "999", "--name", "x", "--store", url).exit_code == errors.Invalid.exit_code
    assert [each["name"] for each in ask("sessions", "--store", url)["items"]].count("x") == 0


@pytest.mark.parametrize("point", ["nobody", "nobody@5", "issue-42@999", "issue-42@soon", "issue-42@2099-01-01", "@5"])
def test_a_point_that_is_none(run, url, point) -> None:
    assert run("diff", point, "--store", url).exit_code in (errors.NotFound.exit_code, errors.Invalid.exit_code)


def test_a_run_as_it_was(run, ask, runs_url) -> None:
    (counting,) = ask("runs", "--agent", "counting", "--store", runs_url)["items"]
    then = ask("show", f"run:{counting['id']}", "--at", "2", "--store", runs_url)
    assert (then["run"]["status"], len(then["timeline"])) == ("running", 2)
    assert ask("show", f"run:{counting['id']}", "--store", runs_url)["run"]["status"] == "completed"


def test_a_run_forked_with_another_result(run, ask, runs_url) -> None:
    (counting,) = ask("runs", "--agent", "counting", "--store", runs_url)["items"]
    name = f"run:{counting['id']}"
    place = next(each["place"] for each in ask("show", name, "--store", runs_url)["timeline"] if each["place"])
    made = ask("fork", name, "--at", place, "--replace", '{"n": 7}', "--store", runs_url)["run"]
    assert (made["status"], made["what_if"]["run"], made["what_if"]["acts"]) == ("ready", counting["id"], False)
    assert (
        f"another result at {place} of run {counting['id']}"
        in run("show", f"run:{made['id']}", "--store", runs_url).stdout
    )
    assert (
        run("fork", name, "--at", "9//9", "--replace", "1", "--store", runs_url).exit_code == errors.NotFound.exit_code
    )
    assert run("fork", name, "--at", place, "--replace", "{", "--store", runs_url).exit_code == errors.Invalid.exit_code
    assert ask("verify", "--store", runs_url)["ok"]


@pytest.mark.parametrize(
    "words",
    [["issue-42"], ["issue-42", "--name", "x", "--replace", "1"], ["run:x", "--at", "1"], ["run:x", "--name", "y", "--at", "1",
     "--replace", "1"], ["issue-42", "--name", "x", "--allow-effects"]],
)  # fmt: skip
def test_what_a_fork_is_asked_for(run, url, words) -> None:
    assert run("fork", *words, "--store", url).exit_code == 2


def test_colour_at_a_terminal_and_no_command_of_a_row(hostile_url) -> None:
    shown = on_a_terminal("diff", f"{HOSTILE_NAME}@1", HOSTILE_NAME, "--store", hostile_url)
    assert "\x1b[32m+ " in shown
    assert not [text for text in TERMINAL_COMMANDS if text in shown]

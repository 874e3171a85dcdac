"""One session at a glance, now and then; and following the feed."""

from __future__ import annotations

import json
import re

import pytest

import perdure
from doors.cli.content import HOSTILE_NAME
from perdure import errors


def test_a_session_at_a_glance(run, url) -> None:
    shown = run("show", "issue-42", "--store", url).stdout
    for expected in (
        "Fix login",
        "prod",
        "  on Safari",
        "m-1",
        "Write the test",
        "Use approach A",
        "grep (c1)",
        "Login fails on Safari",
        '→ grep({"q": "Safari"}) as c1',
    ):
        assert expected in shown


def test_a_session_for_machines(ask, url) -> None:
    found = ask("show", "issue-42", "--store", url)
    assert found.keys() == {"session", "uid", "origin", "pending", "tasks", "decisions", "turns"}
    assert found["session"]["goal"] == "Login works\non Safari"
    assert [turn["role"] for turn in found["turns"]] == ["user", "assistant"]
    assert found["pending"]["calls"][0]["tool"] == "grep"


def test_how_many_turns(ask, url) -> None:
    assert len(ask("show", "issue-42", "--turns", 1, "--store", url)["turns"]) == 1
    assert ask("show", "issue-42", "--turns", 0, "--store", url)["turns"] == []


def test_as_it_was(ask, run, url) -> None:
    turns = ask("show", "issue-42", "--store", url)["turns"]
    then = ask("show", "issue-42", "--at", turns[0]["seq"], "--store", url)
    assert [turn["seq"] for turn in then["turns"]] == [turns[0]["seq"]]
    assert then["decisions"] == []
    assert run("show", "issue-42", "--at", turns[0]["seq"], "--store", url).exit_code == 0


@pytest.mark.parametrize("at", ["99999", "1w", "never", "2099-01-01"])
def test_as_it_never_was(run, url, at) -> None:
    assert run("show", "issue-42", "--at", at, "--store", url).exit_code == errors.Invalid.exit_code


def test_showing_a_session_does_not_make_it(run, ask, url) -> None:
    assert run("show", "nope", "--store", url).exit_code == errors.NotFound.exit_code
    assert "nope" not in [item["name"] for item in ask("sessions", "--store", url)["items"]]


def test_pins_are_shown_in_words_and_instants_say_that_they_are_utc(run, url) -> None:
    with perdure.open(url) as store:
        store.session("issue-42").pin(tools={"grep": "1", "sed": "2"})
    shown = run("show", "issue-42", "--store", url).stdout
    assert "tools   grep 1, sed 2\n" in shown
    assert re.search(r"created +\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ\n", shown)


def test_any_name_can_be_shown(ask, hostile_url) -> None:
    assert ask("show", HOSTILE_NAME, "--store", hostile_url)["session"]["name"] == HOSTILE_NAME


# -- the feed ------------------------------------------------------------------------------------------------


def lines(result) -> list[dict]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_tail_from_the_start(run, ask, url) -> None:
    found = lines(run("tail", "--from-start", "--once", "--json", "--store", url))
    everything = ask("events", "--store", url)["items"]
    assert {(event["uid"], event["seq"]) for event in found} == {(event["uid"], event["seq"]) for event in everything}
    assert found[0]["kind"] == "session.opened"


def test_tail_of_one_session_and_kind(run, url) -> None:
    found = lines(run("tail", "done", "--kind", "turn.*", "--from-start", "--once", "--json", "--store", url))
    assert [(event["session"], event["kind"]) for event in found] == [("done", "turn.said")]


def test_tail_stops_after_so_many(run, url) -> None:
    assert len(lines(run("tail", "--from-start", "--limit", 3, "--json", "--store", url))) == 3


@pytest.mark.parametrize("words", [(), ("issue-42",), ("--kind", "turn.*"), ("issue-42", "--kind", "turn.said")])
def test_tail_says_how_to_go_on_and_whether_there_is_more(run, url, words) -> None:
    everything = lines(run("tail", *words, "--from-start", "--once", "--json", "--store", url))
    collected, start = [], ("--from-start",)
    for number in range(1, len(everything) + 1):
        result = run("tail", *words, *start, "--limit", 1, "--json", "--store", url)
        collected += lines(result)
        assert result.stderr.startswith("more events: " if number < len(everything) else "for what comes later: ")
        start = ("--after", result.stderr.split()[-1])
    assert collected == everything


@pytest.mark.parametrize("kind", ["*", "turn*", "a.*.b", ""])
def test_tail_and_events_refuse_the_same_kinds(run, url, kind) -> None:
    for words in (("events",), ("tail", "--once"), ("tail", "issue-42", "--once")):
        assert run(*words, "--kind", kind, "--store", url).exit_code == errors.Invalid.exit_code


def test_tail_begins_at_the_end_and_goes_on_after_a_cursor(run, url) -> None:
    first = run("tail", "--once", "--json", "--store", url)
    assert lines(first) == []
    cursor = first.stderr.split()[-1]
    with perdure.open(url, actor="carol") as store:
        store.session("issue-42").emit("deploy.begun", {})
    found = lines(run("tail", "--once", "--json", "--after", cursor, "--store", url))
    assert [(event["kind"], event["actor"]) for event in found] == [("deploy.begun", "carol")]


def test_tail_for_people(run, url) -> None:
    shown = run("tail", "--from-start", "--once", "--store", url).stdout
    assert '  deploy.finished  alice  {"sha": "abc"}' in shown


def test_tail_of_a_wrong_cursor(run, url) -> None:
    assert run("tail", "--once", "--after", "bogus", "--store", url).exit_code == errors.Invalid.exit_code

"""Runs on the command line: listings, one run, and what a person says to it."""

from __future__ import annotations

import json
import subprocess
import sys

import click
import pytest

import perdure
from doors.cli.content import TERMINAL_COMMANDS, clean_environment, on_a_terminal
from perdure import errors
from perdure.cli.runs import runs as listing

FIELDS = {
    "id",
    "agent",
    "status",
    "key",
    "session",
    "parent",
    "creator",
    "created_at",
    "ended_at",
    "reason",
    "error",
    "program",
}
STATES = {
    "asker": "waiting", "sender": "waiting", "failing": "failed", "counting": "completed", "parent": "waiting",
    "changing": "parked",
}  # fmt: skip


@pytest.fixture
def name_of(ask, runs_url):
    """The name of the newest run of an agent without a parent."""

    def name(agent: str) -> str:
        found = ask("runs", "--store", runs_url, "--agent", agent)["items"]
        return next(item["id"] for item in found if item["parent"] is None)

    return name


# -- listings ------------------------------------------------------------------------------------------------


def test_runs_as_json(ask, runs_url) -> None:
    found = ask("runs", "--store", runs_url)
    assert all(item.keys() >= FIELDS for item in found["items"])
    assert {item["agent"]: item["status"] for item in found["items"]} == STATES


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--status", "failed"), ["failing"]),
        (("--status", "parked"), ["changing"]),
        (("--agent", "counting"), ["counting"]),
        (("--session", "issue-42", "--status", "completed"), ["counting"]),
        (("--since", "1h", "--status", "completed"), ["counting"]),
        (("--until", "1h"), []),
        (("--agent", "nobody"), []),
    ],
)
def test_filters(ask, runs_url, words, expected) -> None:
    assert [item["agent"] for item in ask("runs", "--store", runs_url, *words)["items"]] == expected


def test_the_runs_that_a_run_started(ask, runs_url, name_of) -> None:
    found = ask("runs", "--store", runs_url, "--parent", name_of("parent"))["items"]
    assert [item["agent"] for item in found] == ["asker"]


def test_pages(ask, run, runs_url) -> None:
    everything = ask("runs", "--store", runs_url)["items"]
    collected, after = [], ()
    while True:
        page = ask("runs", "--store", runs_url, "--limit", 2, *after)
        collected += page["items"]
        if page["next"] is None:
            break
        after = ("--after", page["next"])
    assert collected == everything
    assert "more rows: add --after" in run("runs", "--store", runs_url, "--limit", 1).stderr
    assert run("runs", "--store", runs_url, "--after", "bogus").exit_code == errors.Invalid.exit_code


def test_a_table(run, runs_url) -> None:
    result = run("runs", "--store", runs_url, "--status", "failed")
    heading, row = result.stdout.splitlines()
    assert heading.split()[:3] == ["run", "agent", "status"]
    assert "failing" in row
    assert "NoSuchUser: " in row


def test_no_runs(run, runs_url) -> None:
    assert run("runs", "--store", runs_url, "--agent", "x").stderr == "no runs match\n"


# -- one run -------------------------------------------------------------------------------------------------


def test_show_finds_out_what_it_is(run, ask, runs_url, name_of) -> None:
    name = name_of("sender")
    found = ask("show", name, "--store", runs_url)
    assert found["run"]["id"] == name
    assert found["verdict"]["standing"] == "in doubt"
    assert [entry["kind"] for entry in found["timeline"]][-1] == "run.waiting"
    assert found == ask("show", f"run:{name}", "--store", runs_url)
    assert "session" in ask("show", "issue-42", "--store", runs_url)
    text = run("show", name, "--store", runs_url).stdout
    assert f"run:{name}/" in text
    assert "ask a person" in text
    assert "effect.dispatched  send" in text
    assert "Verdict: in doubt" in text


def test_a_session_goes_before_a_run_of_its_name(ask, runs_url, name_of) -> None:
    name = name_of("asker")
    with perdure.open(runs_url, actor="me") as store:
        store.session(name, title="the same name")
    assert ask("show", name, "--store", runs_url)["session"]["title"] == "the same name"
    assert ask("show", f"run:{name}", "--store", runs_url)["run"]["id"] == name


def test_show_says_what_is_wrong(run, runs_url, name_of) -> None:
    assert run("show", "nothing", "--store", runs_url).exit_code == errors.NotFound.exit_code
    assert run("show", "run:nothing", "--store", runs_url).exit_code == errors.NotFound.exit_code
    assert run("show", name_of("asker"), "--at", "999", "--store", runs_url).exit_code == errors.Invalid.exit_code


def test_how_much_of_the_timeline(run, ask, runs_url, name_of) -> None:
    name = name_of("sender")
    whole = ask("show", name, "--store", runs_url)["timeline"]
    assert ask("show", name, "--last", 2, "--store", runs_url)["timeline"] == whole[-2:]
    assert ask("show", name, "--last", 0, "--store", runs_url)["timeline"] == []
    assert "earlier events: --last N" in run("show", name, "--last", 2, "--store", runs_url).stdout
    assert "earlier events" not in run("show", name, "--store", runs_url).stdout


def test_which_run_a_run_waits_for(run, ask, runs_url, name_of) -> None:
    (wait,) = ask("show", name_of("parent"), "--store", runs_url)["waits"]
    text = run("show", name_of("parent"), "--store", runs_url).stdout
    assert f"{wait['id']}  child  asker {wait['name']}\n" in text
    assert run("show", wait["name"], "--store", runs_url).exit_code == 0


# -- what a person says ------------------------------------------------------------------------------------------


def event_kinds(url: str, name: str) -> list[tuple[str, str]]:
    with perdure.open(url, actor="me") as store:
        return [(entry.kind, entry.actor) for entry in store.run(name).timeline()]


@pytest.mark.parametrize(
    ("word", "agent", "event"),
    [
        ("resume", "asker", "run.resumed"),
        ("resume", "changing", "run.resumed"),
        ("unpark", "changing", "run.unparked"),
        ("retry", "changing", "run.retried"),
        ("retry", "failing", "run.retried"),
    ],
)
def test_let_it_go_on(ask, run, runs_url, name_of, word, agent, event) -> None:
    name = name_of(agent)
    assert ask(word, name, "--store", runs_url, "--actor", "bob")["status"] == "ready"
    assert (event, "bob") in event_kinds(runs_url, name)
    again = run(word, name, "--store", runs_url)
    assert again.exit_code == 0
    assert "ready" in again.stdout


def test_a_parked_run_says_in_full_what_differs_and_the_ways_on(run, ask, runs_url, name_of) -> None:
    name = name_of("changing")
    said = run("show", name, "--store", runs_url).stdout
    assert ask("runs", "--store", runs_url, "--status", "parked")["items"][0]["error"]["message"] in said
    (found,) = (item for item in ask("errors", "--store", runs_url)["items"] if item["what"] == "changing")
    for told in (said, run("envelope", name, "--store", runs_url).stdout, found["done"]):
        assert all(way in told for way in ("`perdure resume`", "`run.patched(name)`", "`perdure pin`"))


def test_a_table_of_errors_names_the_command_that_says_it_in_full(run, runs_url, name_of) -> None:
    shown = on_a_terminal("errors", "--store", runs_url, columns=300)
    assert f"parked; `perdure show run:{name_of('changing')}` says what to do" in shown
    assert "run.patched" not in shown


@pytest.mark.parametrize(
    ("word", "agent"), [("unpark", "asker"), ("retry", "asker"), ("resume", "counting"), ("retry", "counting")]
)
def test_what_does_not_fit_its_state_is_a_conflict(run, runs_url, name_of, word, agent) -> None:
    name = name_of(agent)
    before = event_kinds(runs_url, name)
    result = run(word, name, "--store", runs_url)
    assert result.exit_code == errors.Conflict.exit_code
    assert result.stderr.startswith(f"perdure: run: run {name} is ")
    assert event_kinds(runs_url, name) == before


@pytest.mark.parametrize("word", ["resume", "retry", "unpark", "cancel", "pin", "envelope"])
def test_a_run_that_is_not_there(run, runs_url, word) -> None:
    result = run(word, "nothing", "--store", runs_url)
    assert result.exit_code == errors.NotFound.exit_code
    assert "perdure runs" in result.stderr


def test_cancel_shows_first_what_ends(run, ask, runs_url, name_of) -> None:
    name = name_of("asker")
    before = event_kinds(runs_url, name)
    found = ask("cancel", name, "--dry-run", "--store", runs_url)
    assert found["dry_run"] is True
    assert found["waits"] == [f"run:{name}/4"]
    assert "a dry run" in run("cancel", name, "--dry-run", "--store", runs_url).stderr
    assert event_kinds(runs_url, name) == before
    ended = ask("cancel", name, "--reason", "not wanted", "--actor", "bob", "--store", runs_url)
    assert (ended["status"], ended["error"]["message"]) == ("cancelled", "not wanted")
    assert not [item for item in ask("asks", "--store", runs_url)["items"] if item["stream"] == name]


def test_who_cancels_what_is_over_is_told_that_nothing_changed(run, runs_url, name_of) -> None:
    name = name_of("counting")
    before = event_kinds(runs_url, name)
    result = run("cancel", name, "--store", runs_url)
    assert (result.exit_code, result.stderr) == (0, "it was over already: nothing was changed\n")
    assert event_kinds(runs_url, name) == before


def test_who_says_it_to_a_run_that_stands_otherwise_is_told_how_it_would_have_to_stand(run, runs_url, name_of) -> None:
    told = run("resume", name_of("counting"), "--store", runs_url).stderr
    assert told.endswith(" is completed, not parked or waiting\n")


def test_pin(ask, run, runs_url, name_of) -> None:
    name = name_of("asker")
    program = ask("pin", name, "--store", runs_url)["program"]
    assert ask("pin", name, "other", "--store", runs_url)["program"] == "other"
    assert ask("pin", name, program, "--store", runs_url)["pinned"] is True
    assert ask("pin", name, "--any", "--store", runs_url)["pinned"] is False
    assert run("pin", name, "other", "--any", "--store", runs_url).exit_code == 2


@pytest.mark.parametrize("words", [(), ("other",), ("--any",)])
def test_a_run_that_is_completed_is_not_pinned(ask, run, runs_url, name_of, words) -> None:
    refused = run("pin", name_of("counting"), *words, "--store", runs_url)
    assert refused.exit_code == errors.Conflict.exit_code
    assert "is completed: no program takes it again (`perdure show" in refused.stderr
    assert not ask("events", "--kind", "run.pinned", "--store", runs_url)["items"]
    assert run("pin", name_of("failing"), "--store", runs_url).exit_code == 0  # before it is retried


# -- the frame ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [("runs",), ("effects",), ("asks",), ("errors",)])
def test_no_terminal_is_commanded(run, hostile_runs_url, words) -> None:
    shown = on_a_terminal(*words, "--store", hostile_runs_url, NO_COLOR="1")
    assert shown.strip()
    for command in TERMINAL_COMMANDS:
        assert command not in shown
    piped = run(*words, "--store", hostile_runs_url).stdout
    assert not [command for command in TERMINAL_COMMANDS if command in piped]


@pytest.mark.parametrize("word", ["show", "envelope"])
def test_no_terminal_is_commanded_by_one_run(ask, run, hostile_runs_url, word) -> None:
    for item in ask("runs", "--store", hostile_runs_url)["items"]:
        shown = (
            run(word, item["id"], "--store", hostile_runs_url).stdout
            + run(word, item["id"], "--json", "--store", hostile_runs_url).stdout
        )
        assert not [command for command in TERMINAL_COMMANDS if command in shown]


@pytest.mark.parametrize(
    ("word", "listing"),
    [("resume", "runs"), ("show", "runs"), ("envelope", "runs"), ("settle", "effects"), ("answer", "asks")],
)
def test_names_are_completed(ask, runs_url, word, listing) -> None:
    filters = ("--in-doubt",) if listing == "effects" else ()
    expected = {item["id"] for item in ask(listing, "--store", runs_url, *filters)["items"]}
    assert expected <= completed(word, runs_url)
    assert completed(word, "sqlite:///nowhere.db") == set()


def completed(word: str, url: str) -> set[str]:
    env = clean_environment(_PERDURE_COMPLETE="bash_complete", COMP_LINE=f"perdure {word} ", PERDURE_STORE=url)
    command = [sys.executable, "-c", "from perdure.cli.main import main; main()"]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return {line.removeprefix("plain,") for line in ran.stdout.splitlines() if line}


def test_errors_are_json_for_machines(run, runs_url) -> None:
    result = run("resume", "nothing", "--json", "--store", runs_url)
    assert json.loads(result.stderr)["error"] == "NotFound"


# -- versions ------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def pinned_url(tmp_path) -> str:
    """A run that began under one model and failed under another, and one of another agent."""

    def deployed(model: str) -> None:
        @perdure.agent(name="pinned", pins={"model": model})
        def pinned(pinned_run: perdure.Run) -> None:
            pinned_run.ask("Go on?")
            raise ValueError("no")

        with perdure.open(url, actor="me") as store:
            try:
                store.drive(pinned, key="k")
            except perdure.Waiting:
                store.answer(store.asks()[0].id, "yes")
            except perdure.Failed:
                pass

    url = f"sqlite:///{tmp_path}/pinned.db"
    for model in ("m1", "m2"):
        deployed(model)
    return url


def test_versions_and_their_change_are_shown(run, ask, pinned_url) -> None:
    (found,) = ask("runs", "--store", pinned_url, "--version", "model=m2")["items"]
    assert (found["pins"], found["pins_change"]["moved"]) == ({"model": "m2"}, {"model": ["m1", "m2"]})
    assert not ask("runs", "--store", pinned_url, "--version", "model=m1")["items"]
    change = "model m1 → m2 (continued)"
    assert change in run("runs", "--store", pinned_url).output
    assert change in run("errors", "--store", pinned_url).output
    shown = run("show", f"run:{found['id']}", "--store", pinned_url).output
    assert "model=m2" in shown
    assert change in shown
    assert "run.versions_changed" in shown
    (wrong,) = ask("errors", "--store", pinned_url)["items"]
    assert wrong["versions"] == change


def test_the_versions_of_a_store_are_completed(pinned_url) -> None:
    context = click.Context(click.Command("runs"))
    context.params = {"store": pinned_url}
    (option,) = [each for each in listing.params if each.name == "version"]
    assert [each.value for each in option.shell_complete(context, "mod")] == ["model=m2"]

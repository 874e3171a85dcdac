"""Listings: tables, JSON, filters, pages; for sessions, decisions, tasks, artifacts and events alike."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest

import perdure
from perdure import errors
from perdure.cli import artifacts as cli_artifacts
from perdure.model.records.artifacts import CollectReport
from perdure.planes.conversation import artifacts

LISTS = ["sessions", "decisions", "tasks", "artifacts", "events"]
FIELDS = {
    "sessions": {
        "name",
        "title",
        "status",
        "creator",
        "labels",
        "created_at",
        "ended_at",
        "expires_at",
        "last_seq",
        "last_at",
    },
    "decisions": {
        "seq",
        "session",
        "text",
        "because",
        "then",
        "status",
        "outcome",
        "tags",
        "actor",
        "at",
        "refs",
        "ref",
    },
    "tasks": {
        "id",
        "session",
        "title",
        "status",
        "priority",
        "needs",
        "labels",
        "note",
        "claimed_by",
        "abandoned",
    },
    "artifacts": {"seq", "session", "name", "media_type", "size", "hash", "at", "actor", "ref"},
    "events": {"seq", "kind", "table", "actor", "at", "data", "session", "uid", "ref", "emptied"},
}


@pytest.mark.parametrize("name", LISTS)
def test_json_has_stable_fields(ask, url, name) -> None:
    found = ask(name, "--store", url)
    assert found["next"] is None
    assert found["items"]
    for item in found["items"]:
        assert FIELDS[name] <= item.keys()


@pytest.mark.parametrize("name", LISTS)
def test_piped_tables_are_plain_text(run, url, name) -> None:
    result = run(name, "--store", url)
    assert result.exit_code == 0
    assert result.stderr == ""
    heading, *rows = result.stdout.splitlines()
    assert rows
    assert not set(result.stdout) & set("\x1b│─━┃┏┗")
    assert heading.split("  ")[0] in ("session", "at")


@pytest.mark.parametrize("name", LISTS)
def test_pages_go_on_where_they_ended(ask, run, url, name) -> None:
    everything = ask(name, "--store", url)["items"]
    collected, after = [], ()
    while True:
        page = ask(name, "--store", url, "--limit", 1, *after)
        collected += page["items"]
        if page["next"] is None:
            break
        after = ("--after", page["next"])
    assert collected == everything


@pytest.mark.parametrize("name", ["sessions", "tasks", "events"])
def test_people_are_told_how_to_go_on(run, ask, url, name) -> None:
    result = run(name, "--store", url, "--limit", 1)
    cursor = ask(name, "--store", url, "--limit", 1)["next"]
    assert result.stderr == f"more rows: add --after {cursor}\n"


@pytest.mark.parametrize("name", LISTS)
def test_a_wrong_cursor_is_refused(run, url, name) -> None:
    result = run(name, "--store", url, "--after", "bogus")
    assert result.exit_code == errors.Invalid.exit_code
    assert result.stderr.startswith("perdure: after: ")


@pytest.mark.parametrize("name", LISTS)
def test_a_wrong_instant_is_refused(run, url, name) -> None:
    result = run(name, "--store", url, "--since", "yesterday-ish")
    assert result.exit_code == errors.Invalid.exit_code
    assert "since" in result.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("sessions", "--status", "completed"), ["done"]),
        (("sessions", "--label", "prod"), ["issue-42"]),
        (("sessions", "--creator", "bob"), ["done"]),
        (("sessions", "--since", "1h"), ["done", "issue-42"]),
        (("sessions", "--until", "1h"), []),
        (("decisions", "--status", "open"), ["Use approach A"]),
        (("decisions", "--status", "closed"), []),
        (("decisions", "--tag", "auth", "--actor", "alice"), ["Use approach A"]),
        (("decisions", "--actor", "bob"), []),
        (("tasks", "--status", "todo"), ["Ship it", "Write the test"]),
        (("tasks", "--label", "release"), ["Write the test"]),
        (("tasks", "--actor", "bob"), []),
        (("tasks", "--session", "issue-42", "--ready"), ["Write the test"]),
        (("tasks", "--session", "issue-42"), ["Ship it", "Write the test"]),
        (("tasks", "--session", "done"), []),
        (("artifacts", "--media-type", "text/plain"), ["build.log"]),
        (("artifacts", "--name", "other"), []),
        (("events", "--kind", "deploy.*"), ["deploy.finished"]),
        (("events", "--emitted"), ["deploy.finished"]),
        (("events", "--kind", "decision.made", "--actor", "alice"), ["decision.made"]),
        (("events", "--session", "done", "--kind", "turn.said"), ["turn.said"]),
    ],
)
def test_filters(ask, url, words, expected) -> None:
    named = {
        "sessions": "name",
        "decisions": "text",
        "tasks": "title",
        "artifacts": "name",
        "events": "kind",
    }[words[0]]
    assert [item[named] for item in ask(*words, "--store", url)["items"]] == expected


@pytest.mark.parametrize("option", ["--label", "--creator"])
@pytest.mark.parametrize("name", ["", "a\nb", "\udce4", "x" * 300])
def test_what_is_no_name_is_refused_with_the_option(run, url, option, name) -> None:
    result = run("sessions", option, name, "--store", url)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"perdure: {option[2:]}: ")


def test_an_empty_cursor_is_no_cursor(run, url) -> None:
    """A script whose variable is empty would otherwise begin at the end, and skip what it has not seen."""
    result = run("tail", "--once", "--after", "", "--store", url)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "after: this is not a cursor of the feed" in result.stderr


def test_nothing_found_is_no_error(run, url) -> None:
    result = run("sessions", "--store", url, "--label", "nobody")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no sessions match\n")


@pytest.mark.parametrize("name", LISTS)
def test_an_empty_store_lists_nothing(run, tmp_path, name) -> None:
    with perdure.open(f"sqlite:///{tmp_path}/empty.db"):
        pass
    result = run(name, "--store", f"sqlite:///{tmp_path}/empty.db")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"no {name}\n")


@pytest.mark.parametrize("name", LISTS)
def test_a_page_that_is_just_full_promises_no_more(run, ask, url, name) -> None:
    count = len(ask(name, "--store", url)["items"])
    assert run(name, "--store", url, "--limit", count).stderr == ""


def test_ready_needs_a_session(run, url) -> None:
    assert run("tasks", "--ready", "--store", url).exit_code == 2


def test_filters_that_a_session_has_not_are_refused(run, url) -> None:
    result = run("tasks", "--session", "issue-42", "--actor", "bob", "--store", url)
    assert result.exit_code == 2
    assert "--actor does not go together" in result.stderr


@pytest.mark.parametrize(
    "words",
    [("tasks", "--session", "nope"), ("events", "--session", "nope"), ("tail", "nope", "--once")],
)
def test_an_unknown_session(run, url, words) -> None:
    result = run(*words, "--store", url)
    assert result.exit_code == errors.NotFound.exit_code
    assert result.stderr == "perdure: session: there is no session 'nope' (`perdure sessions` lists them)\n"


def test_instants_are_iso_in_utc(ask, url) -> None:
    assert ask("sessions", "--store", url)["items"][0]["created_at"].endswith("Z")


# -- artifacts ---------------------------------------------------------------------------------------------


def test_an_artifact_is_saved(run, ask, url, tmp_path) -> None:
    digest = ask("artifacts", "--store", url)["items"][0]["hash"]
    result = run("artifacts", "--store", url, "--save", digest, tmp_path / "out.log")
    assert result.exit_code == 0
    assert (tmp_path / "out.log").read_bytes() == b"hello log"
    saved = json.loads(run("artifacts", "--store", url, "--save", digest, tmp_path / "again.log", "--json").stdout)
    assert saved["artifact"]["hash"] == digest


def test_an_unknown_artifact_saves_nothing(run, url, tmp_path) -> None:
    result = run("artifacts", "--store", url, "--save", "0" * 64, tmp_path / "out.log")
    assert result.exit_code == errors.NotFound.exit_code
    assert not (tmp_path / "out.log").exists()


def attach(url: str, *contents: str) -> None:
    with perdure.open(url) as store:
        for content in contents:
            store.session("many").attach("x.txt", content)


def test_the_beginning_of_a_hash_will_do(run, ask, url, tmp_path) -> None:
    digest = ask("artifacts", "--store", url)["items"][0]["hash"]
    assert run("artifacts", "--store", url, "--save", digest[:8], tmp_path / "out.log").exit_code == 0
    assert (tmp_path / "out.log").read_bytes() == b"hello log"


@pytest.mark.parametrize(
    ("digits", "error"),
    [("0" * 8, errors.NotFound), ("0" * 7, errors.Invalid), ("X" * 8, errors.Invalid), ("0" * 65, errors.Invalid)],
)
def test_what_is_no_beginning_of_a_hash(run, url, tmp_path, digits, error) -> None:
    assert run("artifacts", "--store", url, "--save", digits, tmp_path / "out.log").exit_code == error.exit_code
    assert not (tmp_path / "out.log").exists()


def test_an_ambiguous_beginning_lists_the_artifacts(run, ask, url, tmp_path, monkeypatch) -> None:
    """Two contents whose hashes begin with the same 8 digits are not found in a test: here 1 digit is enough."""
    monkeypatch.setattr(artifacts, "BEGINNING", re.compile("[0-9a-f]+"))
    attach(url, *map(str, range(17)))  # more contents than digits: two begin alike
    hashes = [item["hash"] for item in ask("artifacts", "--store", url)["items"]]
    first, count = Counter(digest[0] for digest in hashes).most_common(1)[0]
    result = run("artifacts", "--store", url, "--save", first, tmp_path / "out.log")
    assert result.exit_code == errors.Conflict.exit_code
    assert f"{count} artifacts begin with {first}" in result.stderr
    assert all(digest in result.stderr for digest in hashes if digest[0] == first)


def test_collect_is_a_dry_run_unless_told(run, ask, url) -> None:
    assert ask("collect", "--store", url)["dry_run"] is True
    assert ask("collect", "--store", url, "--execute")["dry_run"] is False
    assert run("collect", "--store", url).stderr == "nothing to remove\n"


@pytest.mark.parametrize(
    ("found", "dry_run", "said"),
    [
        (0, True, "nothing to remove"),
        (0, False, "nothing to remove"),
        (1, True, "nothing was removed: a dry run; --execute removes"),
        (1, False, "removed"),
    ],
)
def test_what_collect_says(found, dry_run, said) -> None:
    assert cli_artifacts._outcome(CollectReport(0, 0, 0, found, (), dry_run)) == said


def test_collect_checks_its_grace(run, url) -> None:
    for grace in ("soon", "1ms"):
        assert run("collect", "--store", url, "--grace", grace).exit_code == errors.Invalid.exit_code

"""What people and scripts write: say, task, decide, set, label."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import perdure
from perdure import errors
from perdure.cli.main import cli
from perdure.model.limits import VALUE_MAX_BYTES

WRITING = [("say", "x"), ("task", "x"), ("decide", "x", "--because", "y"), ("set", "n", "1"), ("label", "x")]


def piped(data: bytes, *words: str):
    return CliRunner().invoke(cli, list(words), input=data)


def test_say(ask, run, url) -> None:
    words = ("say", "issue-42", "Hello\nthere", "--key", "m9", "--actor", "bob", "--store", url)
    first, again = ask(*words), ask(*words)
    assert (first["role"], first["content"], first["actor"]) == ("user", "Hello\nthere", "bob")
    assert first["seq"] == again["seq"]
    other = run("say", "issue-42", "Other", "--key", "m9", "--store", url)
    assert other.exit_code == errors.KeyReused.exit_code
    told = run("say", "issue-42", "Well", "--role", "assistant", "--store", url)
    assert "said as turn" in told.stderr
    with perdure.open(url) as store:
        assert [turn.content for turn in store.session("issue-42").turns(last=2)] == ["Hello\nthere", "Well"]


def test_task(ask, run, url) -> None:
    words = (
        "task",
        "issue-42",
        "Review",
        "--priority",
        "3",
        "--label",
        "a",
        "--label",
        "b",
        "--key",
        "k",
        "--store",
        url,
    )
    first, again = ask(*words, "--detail", '{"n": 1}'), ask(*words, "--detail", '{"n": 1}')
    assert first["id"] == again["id"]
    assert (first["title"], first["priority"], first["labels"], first["detail"]) == ("Review", 3, ["a", "b"], {"n": 1})
    needing = ask("task", "issue-42", "Then", "--needs", first["id"], "--store", url)
    assert needing["needs"] == [first["id"]]
    assert run("task", "issue-42", "Then", "--needs", "99999", "--store", url).exit_code == errors.NotFound.exit_code
    assert "perdure tasks --session issue-42" in run("task", "issue-42", "One", "--store", url).stderr


def test_decide(ask, run, url) -> None:
    words = ("--because", "it is", "--then", "ship", "--tag", "t", "--store", url)
    found = ask("decide", "issue-42", "A", *words)
    assert (found["text"], found["because"], found["then"], found["tags"]) == ("A", "it is", "ship", ["t"])
    assert run("decide", "issue-42", "A", "--store", url).exit_code == 2  # a decision has a reason


@pytest.mark.parametrize(
    ("typed", "words", "kept"),
    [
        ("fix-42", (), "fix-42"),
        ('{"a": [1]}', (), {"a": [1]}),
        ("1", (), 1),
        ("1", ("--text",), "1"),
        ("null", (), None),
        ('"1"', (), "1"),
    ],
)
def test_set(ask, url, typed, words, kept) -> None:
    found = ask("set", "issue-42", "name", typed, *words, "--store", url)
    assert (found["value"], found["version"]) == (kept, 1)
    with perdure.open(url) as store:
        assert store.session("issue-42").get("name", "none") == kept


def test_set_expects_a_version_and_knows_scopes(ask, run, url) -> None:
    assert ask("set", "issue-42", "n", "1", "--expect", "0", "--store", url)["version"] == 1
    assert run("set", "issue-42", "n", "2", "--expect", "0", "--store", url).exit_code == errors.Conflict.exit_code
    ask("set", "user:alice", "theme", "dark", "--scope", "--ttl", "1d", "--store", url)
    with perdure.open(url) as store:
        assert store.scope("user:alice").get("theme") == "dark"


def test_label(ask, url) -> None:
    assert ask("label", "issue-42", "b", "a", "--store", url)["labels"] == ["a", "b", "prod"]
    assert ask("label", "issue-42", "a", "prod", "--remove", "--store", url)["labels"] == ["b"]


def test_standard_input(url) -> None:
    said = piped("grün\n\n".encode(), "say", "issue-42", "-", "--store", url, "--json")
    assert json.loads(said.stdout)["content"] == "grün\n"
    value = piped(b'{"a": 1}\n', "set", "issue-42", "v", "-", "--store", url, "--json")
    assert json.loads(value.stdout)["value"] == {"a": 1}
    assert piped(b"\xff", "say", "issue-42", "-", "--store", url).exit_code == errors.Invalid.exit_code
    huge = piped(b"x" * (VALUE_MAX_BYTES + 1), "say", "issue-42", "-", "--store", url)
    assert huge.exit_code == errors.TooLarge.exit_code


@pytest.mark.parametrize("words", WRITING, ids=lambda words: words[0])
def test_a_misspelt_session_is_not_made(run, ask, url, words) -> None:
    command, *rest = words
    refused = run(command, "isue-42", *rest, "--store", url)
    assert refused.exit_code == errors.NotFound.exit_code
    assert "--new makes it" in refused.stderr
    assert {each["name"] for each in ask("sessions", "--store", url)["items"]} == {"issue-42", "done"}
    assert run(command, "isue-42", *rest, "--new", "--store", url).exit_code == 0
    assert "isue-42" in {each["name"] for each in ask("sessions", "--store", url)["items"]}


@pytest.mark.parametrize("words", WRITING, ids=lambda words: words[0])
def test_a_store_that_is_not_there_is_not_made(run, tmp_path, words) -> None:
    command, *rest = words
    assert run(command, "s", *rest, "--new").exit_code == errors.NotFound.exit_code
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", ["[" * 100_000, "9" * 5_000, "\udcff"])
def test_a_hostile_value_is_refused_or_text_and_never_a_trace(run, url, value) -> None:
    result = run("set", "issue-42", "v", value, "--store", url)
    assert result.exit_code in (0, errors.Invalid.exit_code), result.output
    assert "bug" not in result.stderr

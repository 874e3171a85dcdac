"""Memories and searches on the command line: what is written, found, listed and forgotten, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

import perdure


@pytest.fixture
def place(url: str) -> list[str]:
    return ["--store", url]


def told(run: Any, *words: str) -> Any:
    done = run(*words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_a_memory_is_written_found_replaced_and_forgotten(run: Any, place: list[str]) -> None:
    where = ["--scope", "project:acme", *place]
    made = told(run, "remember", "Herons fish at dawn", "--tag", "birds", "--source", "file:birds.md", *where)
    assert (made["kind"], made["tags"], made["sources"]) == ("fact", ["birds"], ["file:birds.md"])
    (hit,) = told(run, "recall", "heron", *where)["items"]
    assert (hit["memory"]["seq"], hit["standing"], hit["why"]["words"]) == (made["seq"], "unknown", ["heron"])
    new = told(run, "remember", "Herons fish at dusk", "--supersedes", str(made["seq"]), "--because", "seen", *where)
    listed = told(run, "memories", "--all", *where)["items"]
    assert [(each["seq"], each["status"]) for each in listed] == [(new["seq"], "live"), (made["seq"], "superseded")]
    assert [each["seq"] for each in told(run, "search", "heron", "--kind", "memory", *place)["items"]] == [new["seq"]]
    assert told(run, "forget", str(new["seq"]), "--because", "no", *where)["status"] == "forgotten"
    assert told(run, "recall", "heron", *where)["items"] == []


def test_people_see_tables_and_what_was_done(run: Any, place: list[str]) -> None:
    done = run("remember", "Herons fish", "--scope", "user:alice", "--key", "k", *place)
    assert "remembered" in done.output
    for words in (("recall", "heron"), ("memories",), ("search", "heron")):
        assert "Herons fish" in run(*words, *place).output
    assert "no memories match" in run("recall", "zebra", *place).output


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("remember", "x"), 2, "--session NAME or --scope NAME"),
        (("remember", "x", "--scope", "a", "--supersedes", "3"), 2, "go together"),
        (("remember", "x", "--session", "nobody"), None, "there is no session"),
        (("remember", " ", "--scope", "a"), None, "cannot be empty"),
        (("recall", "x", "--session", "nobody"), None, "there is no session"),
        (("recall", "x", "--scope", "nobody"), None, "there is no scope"),
        (("recall", ""), None, "a query cannot be empty"),
        (("search", "x", "--session", "nobody"), None, "there is no session"),
        (("search", "x", "--scope", "nobody"), None, "there is no scope"),
        (("search", "x", "--kind", "results"), 2, "'results' is not one of"),
        (("forget", "3", "--scope", "nobody", "--because", "y"), None, "there is no scope"),
        (("memories", "--scope", "a", "--session", "b"), 2, "do not go together"),
    ],
)
def test_what_cannot_be_done_is_refused_and_makes_nothing(
    run: Any, url: str, words: tuple[str, ...], code: int | None, message: str
) -> None:
    done = run(*words, "--store", url)
    assert done.exit_code == code if code else done.exit_code > 0
    assert message in done.output
    with perdure.open(url) as store:
        assert {each.name for each in store.sessions(limit=1000)}.isdisjoint({"nobody"})
        assert store.memories() == []


def test_a_search_is_narrowed_by_the_filters_of_recall(run: Any, url: str) -> None:
    with perdure.open(url, actor="me") as store:
        session = store.session("s")
        session.say("user", "the heron of alice", about=["alice"])
        session.decide("Paint the heron", because="it fades", tags=["art"])
        session.say("assistant", None, calls=[perdure.Call("c", "look", {})])
        session.result("c", "a heron stands there")
        store.scope("project:zoo").remember("Herons fish", tags=["art", "fact"])
    for words, kinds in (
        (("--about", "alice"), ["turn"]), (("--tag", "art"), ["decision", "memory"]),
        (("--tag", "art", "--tag", "fact"), ["memory"]), (("--scope", "project:zoo"), ["memory"]),
        (("--kind", "result"), ["result"]),
        (("--scope", "project:zoo", "--session", "s", "--kind", "memory", "--kind", "decision"), ["decision", "memory"]),
    ):  # fmt: skip
        found = told(run, "search", "heron", *words, "--store", url)["items"]
        assert sorted(each["kind"] for each in found) == kinds, words

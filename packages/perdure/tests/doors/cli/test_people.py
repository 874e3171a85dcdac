"""`perdure subjects`, `perdure actors` and `--about`: whom records are about, and who wrote them."""

from __future__ import annotations

import pytest

import perdure


@pytest.fixture
def url(tmp_path):
    url = f"sqlite:///{tmp_path}/a.db"
    with perdure.open(url, actor="alice") as store:
        store.session("a").say("user", "x", about=["customer:7"])
        store.session("b").task("t", about=["customer:7", "customer:8"])
    return url


def test_subjects_are_listed_and_found_in_listings(ask, run, url):
    found = ask("subjects", "--store", url)["items"]
    assert [(each["subject"], each["records"], each["streams"]) for each in found] == [
        ("customer:7", 2, 2),
        ("customer:8", 1, 1),
    ]
    assert "customer:7" in run("subjects", "--store", url).stdout
    for words, expected in (
        (("sessions",), ["a", "b"]), (("tasks",), ["b"]), (("events",), ["a", "b"]), (("runs",), []), (("effects",), []),
        (("decisions",), []), (("artifacts",), []), (("asks",), []), (("memories",), []),
    ):  # fmt: skip
        items = ask(*words, "--about", "customer:7", "--store", url)["items"]
        assert sorted({each.get("session") or each.get("name") for each in items}) == expected, words


def test_what_is_written_names_its_subjects(ask, url):
    about = ("--about", "customer:9")
    ask("say", "a", "y", *about, "--store", url)
    ask("task", "a", "t", *about, "--store", url)
    ask("decide", "a", "d", "--because", "b", *about, "--store", url)
    ask("set", "a", "v", "1", *about, "--store", url)
    kinds = [each["kind"] for each in ask("events", *about, "--store", url)["items"]]
    assert kinds == ["value.set", "decision.made", "task.added", "turn.said"]


def test_an_actor_is_listed_and_forgotten_after_a_dry_run(ask, run, url):
    assert [each["name"] for each in ask("actors", "--store", url)["items"]] == ["alice"]
    assert "nothing was changed" in run("actors", "--forget", "alice", "--store", url).output
    assert [each["name"] for each in ask("actors", "--store", url)["items"]] == ["alice"]
    forgotten = ask("actors", "--forget", "alice", "--apply", "--actor", "bob", "--store", url)
    assert forgotten["applied"]
    assert [each["name"] for each in forgotten["forgotten"]] == ["alice"]
    assert [each["name"] for each in ask("actors", "--store", url)["items"]] == ["bob"]


@pytest.mark.parametrize(("words", "code"), [(("--forget", "nobody"), perdure.NotFound.exit_code), (("--apply",), 2)])
def test_what_cannot_be_forgotten_is_refused(run, url, words, code):
    assert run("actors", *words, "--store", url).exit_code == code

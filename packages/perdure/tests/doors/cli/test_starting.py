"""Runs by hand: started, signalled, recovered; and what they are called: short ids, run:ID wherever a session can stand."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

import forked
import perdure
from doors.cli.content import clean_environment
from perdure import errors

APP = """
import os, signal
import perdure

@perdure.tool(name="by_hand", kind="idempotent")
def by_hand(text):
    if os.environ.get("DIES"):
        os.kill(os.getpid(), signal.SIGKILL)
    return f"sent {text}"

@perdure.agent(name="adding")
def adding(run, n, by=1):
    return run.step(sum, [n, by])

@perdure.agent(name="sending")
def sending(run, text):
    run.act(by_hand, text)
    return run.wait("go")

both = [adding, sending]

if __name__ == "__main__":
    with perdure.open("sqlite:///agent.db", actor="app") as store:
        store.drive(sending, "x", key="k")
"""


@pytest.fixture
def app(tmp_path: Path, monkeypatch) -> Path:
    """A folder with a program and a store; every command runs in a process of its own."""
    (tmp_path / "handmade.py").write_text(APP)
    perdure.open(f"sqlite:///{tmp_path}/agent.db").close()
    return tmp_path


@pytest.fixture
def by_hand(app: Path):
    def call(*words: str, code: int = 0, **env: str):
        ran = forked.run("-m", "perdure", *words, cwd=app, env=clean_environment(**env))
        assert ran.returncode == code, (ran.stdout, ran.stderr)
        return ran

    return call


@pytest.fixture
def told(by_hand):
    return lambda *words: json.loads(by_hand(*words, "--json").stdout)


def test_a_run_is_started_once_for_a_key(by_hand, told) -> None:
    words = ("start", "handmade:adding", "4", "--with", "by=2", "--key", "k", "--session", "s")
    first, again = told(*words), told(*words)
    assert first["id"] == again["id"]
    assert (first["args"], first["kwargs"], first["session"], first["status"]) == ([4], {"by": 2}, "s", "ready")
    said = by_hand("start", "handmade:sending", "1", "--text")
    assert "`perdure worker handmade` drives it; `perdure tail run:" in said.stderr
    assert told("runs", "--agent", "sending")["items"][0]["args"] == ["1"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("handmade:both",), 2, "has several agents: adding, sending"),
        (("handmade:nobody",), 3, "has no 'nobody'"),
        (("handmade:adding",), 2, "missing a required argument"),
        (("handmade:adding", "1", "2", "3"), 2, "too many positional arguments"),
        (("handmade:adding", "--with", "1"), 2, "expected NAME=VALUE"),
        (("handmade:adding", "1", "--with", "key=2"), 2, "key"),
        (("nothing:here",), 3, "there is no module 'nothing'"),
    ],
)
def test_what_cannot_be_started_begins_nothing(by_hand, told, words, code, said) -> None:
    assert said in by_hand("start", *words, code=code).stderr
    assert told("runs")["items"] == []


def test_a_signal_lets_it_continue(by_hand, told) -> None:
    run = told("start", "handmade:sending", "x")["id"]
    assert [each["status"] for each in told("recover", "handmade")["runs"]] == ["waiting"]
    assert "sent" in by_hand("signal", run[:6], "go", '{"green": true}').stderr
    assert [each["result"] for each in told("recover", "handmade")["runs"]] == [{"green": True}]
    by_hand("signal", run, "go", code=errors.Conflict.exit_code)  # it is over
    by_hand("signal", "0000dead", "go", code=errors.NotFound.exit_code)


def test_what_the_dead_left_is_listed_and_then_continued(by_hand, told, app) -> None:
    died = forked.run(str(app / "handmade.py"), cwd=app, env=clean_environment(DIES="1"))
    assert died.returncode == -signal.SIGKILL
    for _ in range(2):  # a dry run takes nothing
        listed = told("recover", "handmade", "--dry-run")
        assert [(each["agent"], each["status"]) for each in listed["runs"]] == [("sending", "running")]
    assert "Would be driven" in by_hand("recover", "handmade", "--dry-run").stdout
    assert told("recover")["runs"] == []  # nobody here knows its agent
    assert [(each["agent"], each["status"]) for each in told("recover", "handmade")["runs"]] == [("sending", "waiting")]
    assert by_hand("recover", "handmade").stderr.endswith("dead processes left no work\n")


# -- run:ID, and as much of it as is needed ----------------------------------------------------------------------------


@pytest.fixture
def two(runs_url) -> tuple[str, str]:
    """A run that waits, and one in doubt."""
    with perdure.open(runs_url, read_only=True) as store:
        return next(iter(store.runs(agent="asker"))).id, next(iter(store.runs(agent="sender"))).id


@pytest.mark.parametrize(
    "words",
    [
        ("show", "RUN"), ("show", "run:RUN"), ("envelope", "RUN"), ("envelope", "run:RUN"), ("tail", "run:RUN", "--once"),
        ("events", "run:RUN"), ("diff", "run:RUN"), ("diff", "run:RUN@1"), ("diff", "run:RUN", "run:OTHER"),
        ("export", "run:RUN", "--format", "markdown"), ("export", "run:RUN", "--format", "json"),
        ("export", "--run", "RUN", "--format", "markdown"), ("export", "run:RUN", "-o", "x.perdure"),
        ("export", "--incident", "RUN", "-o", "y.perdure"), ("runs", "--parent", "run:RUN"), ("cancel", "run:RUN", "--dry-run"),
        ("resume", "RUN"), ("pin", "run:RUN"), ("signal", "RUN", "x"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_run_is_named_by_what_is_enough_of_its_id(run, runs_url, two, words) -> None:
    mine, other = two
    filled = [word.replace("RUN", mine[:6]).replace("OTHER", other[:6]) for word in words]
    result = run(*filled, "--store", runs_url)
    assert result.exit_code == 0, result.output


def test_effects_and_asks_too(run, ask, runs_url, two) -> None:
    asker, sender = two
    effect = next(
        each["id"] for each in ask("effects", "--in-doubt", "--store", runs_url)["items"] if sender in each["id"]
    )
    short = effect.replace(sender, sender[:5])
    assert run("settle", short, "failed", "--store", runs_url).exit_code == 0
    (question,) = [each["id"] for each in ask("asks", "--store", runs_url)["items"] if asker in each["id"]]
    assert run("answer", question.replace(asker, asker[:5]), "merge", "--store", runs_url).exit_code == 0


def test_one_that_could_be_several_lists_them_and_does_nothing(run, runs_url, monkeypatch) -> None:
    from perdure.planes.execution import runs

    ids = iter([f"beef{number}".ljust(32, "0") for number in (1, 2)])
    monkeypatch.setattr(runs, "new_uid", lambda: bytes.fromhex(next(ids)))
    with perdure.open(runs_url, actor="me") as store:
        for _ in range(2):
            store.start(perdure.agent(name="alike")(lambda run: None))
    refused = run("cancel", "beef", "--store", runs_url)
    assert refused.exit_code == errors.Conflict.exit_code
    assert "2 runs begin with beef: beef10000000, beef20000000 (give more digits)" in refused.stderr
    with perdure.open(runs_url, actor="me") as store:
        assert {each.status for each in store.runs(agent="alike")} == {"ready"}


def test_events_say_whose_they_are(run, ask, runs_url, two) -> None:
    found = ask("events", "--limit", "1000", "--store", runs_url)["items"]
    assert {each["stream_kind"] for each in found} == {"session", "run"}
    heading, *rows = run("events", f"run:{two[0]}", "--store", runs_url).stdout.splitlines()
    assert "session" not in heading.split()
    assert all(f"run:{two[0]}" in row for row in rows)
    assert run("events", "issue-42", "--session", "issue-42", "--store", runs_url).exit_code == 2
    assert run("events", "issue-42", "--store", runs_url).exit_code == 0
    assert run("diff", "issue-42", f"run:{two[0]}", "--store", runs_url).exit_code == 2
    for words in (("events", "run:0000"), ("tail", "run:0000"), ("diff", "run:0000"), ("events", "nobody")):
        assert run(*words, "--store", runs_url).exit_code == errors.NotFound.exit_code


def test_a_run_as_a_page(run, runs_url, two) -> None:
    page = run("export", f"run:{two[0]}", "issue-42", "--format", "markdown", "--store", runs_url).stdout
    assert "# Session issue-42" in page
    assert f"# Run {two[0]} of asker" in page
    assert "Incident" not in page
    (session, whole) = json.loads(
        run("export", "issue-42", f"run:{two[0]}", "--format", "json", "--store", runs_url).stdout
    )
    assert session["session"]["name"] == "issue-42"
    assert (whole["run"]["id"], "page" in whole) == (two[0], False)

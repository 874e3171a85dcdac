"""`perdure worker` and `perdure workers`: what they say, refuse and show. The processes themselves: tests/runtime."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import forked
import perdure
from perdure.cli import worker as module
from perdure.cli.agents import agents_at
from perdure.errors import Invalid, NotFound
from perdure.model.records.workers import About
from perdure.planes.execution import leases, steps, workers
from perdure.runtime.callers import caller_of, stream_of
from perdure.runtime.supervisor import WorkerRole
from perdure_testing.clock import FakeClock

APP = Path(__file__).parents[2] / "runtime"


@perdure.agent(name="known")
def known(run):
    return None


@perdure.agent(name="ghost")
def ghost(run):
    return None


# -- which agents --------------------------------------------------------------------------------------------


@pytest.fixture
def app(monkeypatch):
    monkeypatch.syspath_prepend(str(APP))
    monkeypatch.chdir(APP)
    return "worker_app"


def test_agents_by_a_list_a_dict_one_agent_or_all_that_are_declared(app):
    assert [*agents_at(f"{app}:agents")][:4] == ["plod", "aplod", "narrow", "timely"]
    assert [*agents_at(f"{app}:by_name")] == ["plod", "aplod"]
    assert [*agents_at(f"{app}:plod")] == ["plod"]
    assert {"plod", "known"} <= agents_at(app).keys()
    assert [*agents_at(f"{app}:agents", ("doze", "plod"))] == ["doze", "plod"]


@pytest.mark.parametrize(
    ("target", "error", "words"),
    [
        ("no_such_module_here", NotFound, "there is no module 'no_such_module_here'"),
        ("worker_app.py", NotFound, "did you mean worker_app ?"),
        ("worker_app.py:plod", NotFound, "did you mean worker_app:plod ?"),
        ("worker_app:nothing", NotFound, "worker_app has no 'nothing' (it has plod, aplod, narrow"),
        ("worker_app:number", Invalid, "is a int, not an agent or a list of agents"),
        ("worker_app:wrong", Invalid, "which is no agent"),
        ("worker_app:none", NotFound, "declares no agent"),
        ("worker app", Invalid, "expected module or module:attribute"),
        ("./worker_app.py", Invalid, "expected module or module:attribute"),
        ("", Invalid, "expected module or module:attribute"),
    ],
)
def test_what_is_no_agent_is_refused_with_what_there_is(app, target, error, words):
    with pytest.raises(error) as caught:
        agents_at(target)
    assert words in str(caught.value)


def test_an_unknown_name_is_refused_with_those_that_there_are(app):
    with pytest.raises(NotFound, match=r"has no agent 'plodd' \(it has plod, aplod\)"):
        agents_at(f"{app}:by_name", ("plodd",))


def test_a_module_that_misses_another_says_which(app, tmp_path, monkeypatch):
    (tmp_path / "needy.py").write_text("import no_such_module_there\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Invalid, match="needy cannot be imported: No module named 'no_such_module_there'"):
        agents_at("needy")


@pytest.mark.parametrize(
    ("text", "said"),
    [("raise RuntimeError('no config')", "RuntimeError: no config"), ("def f(:", "SyntaxError: invalid syntax")],
)
def test_a_module_that_fails_is_the_one_that_is_named(app, tmp_path, monkeypatch, text, said):
    (tmp_path / "failing_app.py").write_text(f"import perdure\n{text}\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Invalid) as refused:
        agents_at("failing_app")
    assert refused.value.message.startswith(f"failing_app cannot be imported: {said}")
    assert refused.value.message.endswith("(failing_app.py, line 2)")


# -- perdure worker ------------------------------------------------------------------------------------------


def perdure_worker(*words, cwd=APP, **env):
    return forked.run("-m", "perdure", "worker", *words, cwd=cwd, env=env or None)


def test_what_is_wrong_with_all_workers_is_said_once_with_its_own_code(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/a.db"):
        pass
    ran = perdure_worker("no_such_module_here", "--processes", "4", "--store", f"sqlite:///{tmp_path}/a.db")
    assert ran.returncode == NotFound.exit_code
    assert ran.stderr.count("there is no module 'no_such_module_here'") == 1
    assert "Traceback" not in ran.stderr
    assert ran.stderr.splitlines()[-1] == (
        "perdure: agents: there is no module 'no_such_module_here' (run it in the folder that has it)"
    )


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["app", "--store", "sqlite:///none.db"], 3, "there is no store"),
        (["app", "--lease", "10ms"], 2, "lease: expected 1s to 1d"),
        (["app", "--lease", "soon"], 2, "lease: expected a duration"),
        (["app", "--processes", "0"], 2, "--processes"),
        (["app", "--concurrency", "none"], 2, "--concurrency"),
        ([], 2, "MODULE"),
    ],
)
def test_bad_words_are_refused_before_anything_is_started(run, words, code, said):
    result = run("worker", *words)
    assert result.exit_code == code
    assert said in result.output


@pytest.mark.parametrize("from_option", [True, False])
def test_the_password_is_neither_on_the_command_line_nor_in_the_environment_of_children(monkeypatch, run, from_option):
    seen = []

    class Fake:
        refusal = ""

        def __init__(self, command, bounds, first_word):
            seen.extend([command(7, WorkerRole.STANDBY), bounds, first_word, "secret" in str(os.environ)])

        def run(self):
            return 0

    monkeypatch.setattr("perdure.runtime.supervisor.Supervisor", Fake)
    secret = "postgresql://me:secret@db/agents"
    monkeypatch.setenv("PERDURE_STORE", "x" if from_option else secret)  # and put back afterwards
    words = ["--store", secret] if from_option else []
    result = run("--log-level", "debug", "worker", "app:agents", "--agent", "a", *words, "--processes", 3)
    assert result.exit_code == 0, result.output
    command, bounds, first_word, is_inherited = seen
    assert (first_word, is_inherited) == ({"store": secret}, False)
    assert "secret" not in " ".join(command)
    assert command[3:5] == ["worker", "app:agents"]
    assert command[-3:] == ["7", "--role", "standby"]
    assert command[command.index("--log-level") + 1] == "debug"
    assert command[command.index("--agent") + 1] == "a"
    assert bounds.processes == 3


# -- perdure workers -----------------------------------------------------------------------------------------


@pytest.fixture
def busy_url(tmp_path):
    """A store with two workers, one of them idle; a run under way, one ready, and one that nobody knows."""
    url = f"sqlite:///{tmp_path}/busy.db"
    clock = FakeClock()
    with perdure.open(url, clock=clock) as store:
        caller = caller_of(store)
        for holder, pid in (("a" * 32, 11), ("b" * 32, 12)):
            caller.write(workers.introduce, holder, About(pid, ("known",), 10, 5))
        held, _ready = store.start(known), store.start(known)
        store.start(ghost)
        lease = caller.write(leases.claim, stream_of(held), holder="a" * 32, program="", epoch=0)
        caller.write(leases.fenced, lease, steps.done, {"place": "0//1", "name": "draft", "digest": "", "value": 1})
    return url, clock, held.id


@pytest.fixture
def frozen(monkeypatch, busy_url):
    """The command line sees the store's clock where the fixture left it, so that no heartbeat lapses."""
    _, clock, _ = busy_url
    real = perdure.open
    monkeypatch.setattr(perdure, "open", lambda *args, **given: real(*args, clock=clock, **given))
    return clock


def test_the_tree_says_who_runs_what_and_what_waits(ask, busy_url, frozen):
    url, _, run_id = busy_url
    found = ask("workers", "--store", url)
    by_pid = {each["about"]["pid"]: each for each in found["workers"]}
    (held,) = by_pid[11]["runs"]
    assert (held["run"], held["agent"], held["doing"]) == (run_id, "known", "step.done draft")
    assert by_pid[12]["runs"] == []
    assert all(each["alive"] for each in found["workers"])
    assert {each["agent"]: (each["known"], each["ready"], each["running"]) for each in found["queue"]} == {
        "known": (True, 1, 1),
        "ghost": (False, 1, 0),
    }
    assert (found["ready"], found["unknown"], found["stuck"]) == (2, ["ghost"], [])
    assert found["oldest_ready_at"]


def test_it_is_shown_to_people(run, busy_url, frozen):
    url, _, run_id = busy_url
    shown = run("workers", "--store", url).output
    assert run_id in shown
    assert ":11 <5" in shown
    assert "(idle)" in shown
    assert "step.done draft" in shown
    assert "no living worker knows this agent" in shown
    assert "Without progress" not in shown


def test_a_run_that_is_pinned_to_a_program_that_nobody_has_is_named(run, ask, busy_url, frozen):
    url, _, _ = busy_url
    with perdure.open(url) as store:
        caller = caller_of(store)
        caller.write(workers.introduce, "c" * 32, About(13, ("known",), 10, 5, programs=("1" * 16,)))
        had, lost = store.start(known), store.start(known)
        had.pin("1" * 16)
        lost.pin("2" * 16)
    assert [each["run"] for each in ask("workers", "--store", url)["stranded"]] == [lost.id]
    shown = run("workers", "--store", url).output
    assert f"  {lost.id}  known  program 222222222222" in shown
    assert "perdure pin RUN --any" in shown
    said = "pinned to program 222222222222, which no living worker has"
    stranded = {each["id"]: each["stranded"] for each in ask("runs", "--agent", "known", "--store", url)["items"]}
    assert (stranded[lost.id], stranded[had.id]) == (True, False)
    assert "ready (stranded)" in run("runs", "--agent", "known", "--store", url).output
    assert ask("show", f"run:{lost.id}", "--store", url)["stranded"]["program"] == "2" * 16
    assert ask("show", f"run:{had.id}", "--store", url)["stranded"] is None
    assert said in run("show", f"run:{lost.id}", "--store", url).output
    wrong = ask("errors", "--store", url)["items"]
    assert [(each["where"], each["code"], each["message"]) for each in wrong] == [(f"run:{lost.id}", "Stranded", said)]
    assert ask("errors", "--agent", "ghost", "--store", url)["items"] == []


def test_runs_without_progress_are_named(run, ask, busy_url, frozen):
    url, clock, run_id = busy_url
    clock.advance("50s")
    assert ask("workers", "--store", url, "--stuck", "40s")["stuck"] == [run_id]
    assert ask("workers", "--store", url, "--stuck", "60s")["stuck"] == []
    assert "Without progress for 40s" in run("workers", "--store", url, "--stuck", "40s").output


def test_a_lapsed_worker_is_shown_only_while_it_has_runs(ask, busy_url, frozen):
    url, clock, _ = busy_url
    clock.advance("61s")
    found = ask("workers", "--store", url)
    assert [(each["about"]["pid"], each["alive"]) for each in found["workers"]] == [(11, False)]
    assert found["unknown"] == ["ghost", "known"]  # nobody lives who could take them


def test_nobody_at_work(run, tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/empty.db"):
        pass
    result = run("workers", "--store", f"sqlite:///{tmp_path}/empty.db")
    assert result.exit_code == 0
    assert "no worker is running" in result.output


def test_watch_shows_it_again_and_again(run, busy_url, frozen, monkeypatch):
    shown = []

    def stop(_seconds):
        shown.append(1)
        if len(shown) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(module.time, "sleep", stop)
    result = run("workers", "--store", busy_url[0], "--watch", "--json")
    assert result.exit_code == 130
    assert [json.loads(line)["ready"] for line in result.stdout.splitlines()] == [2, 2, 2]


@pytest.mark.parametrize(("seconds", "shown"), [(3, "3s"), (119, "119s"), (120, "2m"), (7200, "2h"), (200_000, "2d")])
def test_spans_for_people(seconds, shown):
    assert module._span(seconds) == shown

"""Isolated tools: what they say comes back whatever they do, and when they are killed, nothing of them sends any more."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import subprocess
import sys
import time
import types
from pathlib import Path
from typing import Any

import pytest

import perdure
from effects import isolated_tools as tools
from perdure.errors import Failed, InDoubt, Invalid
from perdure.model.records.effects import EffectState

TESTS = Path(__file__).parents[1]


@pytest.fixture
def store(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as opened:
        yield opened


@pytest.fixture
def session(store):
    return store.session("a")


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "calls")


def calls(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def effect(session) -> Any:
    return session.effects()[-1]


def is_alive(pid: int) -> bool:
    """Whether it runs: a zombie that nobody has waited for does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):  # the second if it goes between the opening and the reading
        return False


def until(condition) -> None:
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never came")


def until_gone(lines: list[str]) -> None:
    """A killed process lets its pipes go, so that it can send no more, a moment before it is seen as gone."""
    until(lambda: not any(is_alive(int(pid)) for line in lines for pid in line.split()))


# -- what comes back ----------------------------------------------------------------------------------------


def test_it_is_called_in_another_process_and_its_result_comes_back(session, path):
    value = {"bytes": b"\0\xff", "pair": (1, 2), "text": "ü" * 300_000}
    result = session.act(tools.give, path, value, key="k")
    assert result["value"] == value
    assert result["pid"] != os.getpid()
    assert not is_alive(result["pid"])
    assert session.act(tools.give, path, value, key="k") == result
    assert calls(path) == ["called"]


def test_async_tools_and_async_callers(tmp_path, path):
    async def main() -> Any:
        async with perdure.aopen(f"sqlite:///{tmp_path}/b.db") as store:
            session = await store.session("a")
            both = (
                session.act(tools.give_later, path, 1, 2, 3, extra=4, key="k"),
                session.act(tools.give, path, 5, key="l"),
            )
            return await asyncio.gather(*both), (await session.effects())[0].sent_key

    (later, now), key = asyncio.run(main())
    assert sorted(map(str, [later[0], now["value"]])) == ["1", "5"]
    assert later[:3] == [1, [2, 3], {"extra": 4}]
    assert len(later[3]) == len(key)


def test_an_async_tool_from_sync_code(session, path):
    assert session.act(tools.give_later, path, "x", key="k") == ["x", [], {}, effect(session).sent_key]


def test_writing_to_stdout_does_no_harm(session, path, capfd):
    assert session.act(tools.chatter, path, key="k") == "done"
    out, err = capfd.readouterr()
    assert out == ""
    assert "out loud" in err
    assert "from a shell" in err


def test_a_fork_that_returns_too_says_nothing(session, path):
    assert session.act(tools.fork, path, key="k") == "done"
    until_gone(calls(path))


@pytest.mark.parametrize(
    ("how", "why", "where", "kind"),
    [
        (
            "odd",
            "an object of class builtins.object cannot be kept: the class is not registered",
            "result.deep[0]",
            "object",
        ),
        ("large", "more than 67108864 bytes", "result", "str"),
    ],
)
def test_what_cannot_be_kept_has_happened_and_says_so(session, path, how, why, where, kind):
    with pytest.raises(Invalid, match="cannot be kept") as error:
        session.act(tools.give_unstorable, path, how, key="k")
    assert why in error.value.message
    assert error.value.path == where
    kept = effect(session).result["deep"][0] if how == "odd" else effect(session).result
    assert kept["unstorable"] == kind
    assert effect(session).state is EffectState.COMMITTED
    assert calls(path) == ["called"]


# -- what goes wrong ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "state", "code", "count"),
    [
        ("failed", "failed", "No", 1),
        ("declined", "failed", "Declined", 1),
        ("unavailable", "failed", "Unavailable", 2),
        ("odd", "in_doubt", "RuntimeError", 1),
        ("exit", "in_doubt", "SystemExit", 1),
    ],
)
def test_what_it_raises_is_judged_as_it_would_be_here(session, path, how, state, code, count):
    with pytest.raises(Failed if state == "failed" else InDoubt):
        session.act(tools.refuse, path, how, key="k")
    found = effect(session).record
    assert (found.state, found.error.code, len(calls(path))) == (state, code, count)
    # Given up: it is known to be over.
    assert (found.quiet_at is not None) == (state == "in_doubt" or how == "unavailable")


@pytest.mark.parametrize(
    ("number", "said"), [(0, "status 3"), (signal.SIGSEGV, "signal 11"), (signal.SIGKILL, "signal 9")]
)
def test_a_process_that_dies_leaves_doubt(session, path, number, said):
    with pytest.raises(InDoubt, match=said):
        session.act(tools.crash, path, int(number), key="k")
    found = effect(session).record
    assert (found.error.code, found.quiet_at is not None, calls(path)) == ("Crashed", True, ["called"])


def test_a_module_that_the_child_cannot_import_was_never_called(session, monkeypatch):
    module = types.ModuleType("made_up")
    exec("def fn():\n    pass", module.__dict__)
    monkeypatch.setitem(sys.modules, "made_up", module)
    module.fn = perdure.tool(isolate=True)(module.fn)
    with pytest.raises(Failed) as error:
        session.act(module.fn, key="k")
    assert (error.value.code, effect(session).state) == ("ModuleNotFoundError", EffectState.FAILED)


def test_a_name_that_leads_to_something_else_is_not_called(session, path, monkeypatch):
    monkeypatch.setattr(tools, "give", len)
    with pytest.raises(Failed, match="is not the function"):
        session.act(perdure.tool(isolate=True)(original), path, 1, key="k")
    assert calls(path) == []


original = tools.give.fn


# -- the deadline -------------------------------------------------------------------------------------------


def test_at_the_deadline_its_whole_group_is_killed_and_the_doubt_is_quiet(session, path):
    with pytest.raises(Failed, match="no answer within 3 s"):  # the probe says so, and is believed at once
        session.act(tools.linger, path, key="k")
    found = effect(session).record
    assert (found.state, found.error.code, found.quiet_at is not None) == ("failed", "Overdue", True)
    until_gone(calls(path))


def test_control_a_thread_cannot_be_killed_and_its_doubt_is_not_quiet(session, path):
    with pytest.raises(InDoubt):
        session.act(tools.linger_in_a_thread, path, key="k")
    assert effect(session).record.quiet_at is None
    Path(path).with_suffix(".done").touch()
    until(lambda: effect(session).state is EffectState.COMMITTED)


def test_what_left_the_group_and_lives_on_is_not_quiet(session, path):
    for seconds in (3, 12, 48):  # which a busy machine may need to begin
        with pytest.raises(InDoubt):
            session.act(perdure.tool(isolate=True, timeout=seconds)(tools.escape.fn), path, key=f"{seconds}")
        if calls(path):
            break
    (pid,) = calls(path)
    assert is_alive(int(pid))  # so that the next line is not said for nothing
    assert effect(session).record.quiet_at is None
    os.kill(int(pid), signal.SIGKILL)


def test_cancelling_kills_it(tmp_path, path):
    async def main() -> Any:
        async with perdure.aopen(f"sqlite:///{tmp_path}/b.db") as store:
            session = await store.session("a")
            task = asyncio.create_task(session.act(tools.stay, path, key="k"))
            await asyncio.to_thread(until, lambda: calls(path))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return (await session.effects())[0].record

    found = asyncio.run(main())
    assert (found.state, found.error.code, found.quiet_at is not None) == ("in_doubt", "Interrupted", True)
    until_gone(calls(path))


# -- the caller dies ----------------------------------------------------------------------------------------


def stop(pid: int) -> None:
    """Stop it, and wait until all its threads are."""
    os.kill(pid, signal.SIGSTOP)
    threads = [path / "status" for path in Path(f"/proc/{pid}/task").iterdir()]
    until(lambda: all("\nState:\tT" in path.read_text() for path in threads))


@pytest.fixture
def caller(tmp_path, path, request):
    """A process that acts with `stay`: its holder, and the child and grandchild that it has by now."""
    command = [sys.executable, tools.__file__, f"sqlite:///{tmp_path}/c.db", path, *getattr(request, "param", ())]
    env = {**os.environ, "PYTHONPATH": str(TESTS)}
    program = subprocess.Popen(command, stdout=subprocess.PIPE, env=env, text=True)
    assert program.stdout is not None
    holder = program.stdout.readline().strip()
    until(lambda: calls(path))
    yield program, holder, [int(pid) for pid in calls(path)[0].split()]
    program.kill()
    program.wait()
    program.stdout.close()


def test_the_child_dies_with_its_caller_and_nobody_is_proved_dead_before_that(tmp_path, caller):
    program, holder, (child, grandchild) = caller
    stop(child)
    program.kill()
    program.wait()
    with perdure.open(f"sqlite:///{tmp_path}/c.db") as store:
        liveness = store._caller.core.liveness
        liveness.begin()
        assert not liveness.is_dead(holder)  # the child, stopped, holds the lock: it may still send
        os.kill(child, signal.SIGCONT)
        until(lambda: not is_alive(child) and not is_alive(grandchild))
        until(
            lambda: liveness.is_dead(holder)
        )  # the kernel lets the lock go a moment after the process is seen as gone


@pytest.mark.parametrize("caller", [["without the lock"]], indirect=True)
def test_control_without_the_lock_it_is_taken_for_dead_while_its_child_may_still_send(tmp_path, caller):
    program, holder, (child, _) = caller
    stop(child)
    program.kill()
    program.wait()
    with perdure.open(f"sqlite:///{tmp_path}/c.db") as store:
        assert store._caller.core.liveness.is_dead(holder)
    assert is_alive(child)
    os.kill(child, signal.SIGCONT)
    until(lambda: not is_alive(child))


@pytest.mark.parametrize("is_async", [False, True])
def test_in_runs_too(store, path, is_async):
    def sync(run):
        return run.act(tools.give, path, 1)["value"]

    async def later(run):
        return (await run.act(tools.give, path, 1))["value"]

    assert store.drive(later if is_async else sync, key="k") == 1
    assert calls(path) == ["called"]


# -- what cannot be isolated --------------------------------------------------------------------------------


def test_what_cannot_be_imported_is_refused_when_it_is_declared():
    def nested() -> None: ...

    for fn in (nested, lambda: None, functools.partial(print)):
        with pytest.raises(Invalid, match="cannot be imported by its name") as error:
            perdure.tool(isolate=True, name="x")(fn)
        assert "def" in error.value.hint


def test_a_tool_that_reads_is_called_in_place():
    with pytest.raises(Invalid, match="never isolated"):
        perdure.tool(isolate=True, kind="read")(original)


SCRIPT = """
import sys, perdure

class No(Exception): ...

@perdure.tool(isolate=True, fails=[No])
def act(what):
    if what == "no":
        raise No("no")
    return [what, __name__]

{guard}with perdure.open("memory:") as store:
    session = store.session("a")
    print(session.act(act, "x", key="k"))
    try:
        session.act(act, "no", key="l")
    except perdure.Failed as error:
        print(error.code)
"""


def ran(folder: Path, text: str, *how: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(text)
    command = [sys.executable, *(how or ["script.py"])]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("how", [[], ["-m", "script"]])
def test_a_script_with_a_guard_is_imported_by_its_path(tmp_path, how):
    done = ran(tmp_path, SCRIPT.format(guard='if __name__ == "__main__":\n  ').replace("\n    ", "\n      "), *how)
    assert done.stdout.splitlines()[0].startswith("['x', "), done.stderr
    assert done.stdout.splitlines()[1:] == ["No"]


def test_a_script_that_would_run_itself_is_refused(tmp_path):
    done = ran(tmp_path, SCRIPT.format(guard=""))
    assert "would run it" in done.stderr
    assert done.stdout == ""


def test_what_was_typed_in_is_refused(tmp_path):
    done = ran(tmp_path, "", "-c", SCRIPT.format(guard=""))
    assert "was typed in" in done.stderr

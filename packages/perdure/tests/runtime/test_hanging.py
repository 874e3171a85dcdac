"""Real workers while others hang or fail: a server that is stopped past the lease, a branch that fails beside a call, a take-over
while a child is waited for. Nothing is called twice, and every result is recorded.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

import perdure
from perdure.model.records.effects import EffectState
from perdure.planes.execution import steps
from perdure_testing.postgres import PostgresServer
from runtime.crew import Scene, scene, until
from runtime.worker_app import abuys, buys, buys_in_a_step, parent, splits

LEASE_SECONDS = 2.0


@contextlib.contextmanager
def stopped(server: PostgresServer) -> Iterator[None]:
    """All processes of a server stand still, as those of a frozen machine do."""
    pids = [server.pid, *map(int, Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split())]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in reversed(pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def stands_still(pid: int) -> bool:
    """Whether every thread of a process is stopped."""
    states = [each.read_text().rpartition(")")[2].split()[0] for each in Path(f"/proc/{pid}/task").glob("*/stat")]
    return set(states) == {"T"}


def struck(pid: int, number: int, database: Path) -> None:
    """Kill a process, or stop it outside of a transaction: a process that is stopped inside of one holds SQLite's lock, and
    nobody can take over then. What a commit wrote is seen by others a moment before its lock is gone.
    """
    os.kill(pid, number)
    if number != signal.SIGSTOP:
        return
    with contextlib.closing(apsw.Connection(str(database))) as connection:
        connection.set_busy_timeout(200)
        for _ in range(100):
            until(lambda: stands_still(pid), "every thread: a system call is ended first")
            try:
                connection.execute("BEGIN IMMEDIATE; ROLLBACK")
                return
            except apsw.BusyError:
                os.kill(pid, signal.SIGCONT)
                time.sleep(0.05)
                os.kill(pid, number)
    raise AssertionError("the process was inside of a transaction whenever it was stopped")


def calls(stage: Scene, what: str = "begin") -> list[tuple[str, int]]:
    """What tools and steps said, one entry a call."""
    return sorted((each.run, each.number) for each in stage.said() if each.what == what)


def test_a_server_that_hangs_past_the_lease_while_tools_are_called(
    private_postgres: PostgresServer, tmp_path: Path
) -> None:
    with scene(private_postgres.url(), tmp_path) as stage:
        for _ in range(2):
            stage.crew("--lease", f"{LEASE_SECONDS:g}s")
        gate = tmp_path / "gate"
        handles = [stage.store.start(agent, str(gate)) for agent in (buys, abuys) for _ in range(3)]
        until(lambda: len(calls(stage)) == 9, "each async run in two calls, each sync one in its first")
        with stopped(private_postgres):
            began = time.monotonic()
            gate.touch()
            until(lambda: len(calls(stage, "end")) == 9, "what the tools gave, which nobody can record")
            until(lambda: time.monotonic() > began + 2 * LEASE_SECONDS, "a lapsed lease")
        assert [each.result(timeout=60) for each in handles] == [1] * 6
        assert calls(stage) == sorted((each.id, number) for each in handles for number in (0, 1))
        effects = [effect for each in handles for effect in each.effects()]
        assert [effect.state for effect in effects] == [EffectState.COMMITTED] * 12


@pytest.mark.parametrize("dies", [False, True])
def test_a_branch_that_fails_while_another_acts(tmp_path: Path, *, dies: bool) -> None:
    with scene(f"sqlite:///{tmp_path}/a.db", tmp_path) as stage:
        stage.crew("--lease", f"{LEASE_SECONDS:g}s", processes=2)
        gate, begun = tmp_path / "gate", tmp_path / "begun"
        handle = stage.store.start(splits, str(gate), str(begun))
        until(lambda: calls(stage) == [(handle.id, 1)], "a call")
        begun.touch()
        until(lambda: "step.done" in stage.kinds(handle), "the other branch, which fails then")
        if dies:
            os.kill(stage.pid_of(handle.id), signal.SIGKILL)
            until(lambda: handle.refresh().status == "waiting", "a run that waits for a person: it is not sent again")
            (effect,) = handle.effects()
            effect.settle(perdure.Happened(1))
        gate.touch()
        assert handle.result(timeout=60) == 2
        (effect,) = handle.effects()
        assert (effect.state, effect.result) == (EffectState.COMMITTED, 1)
        assert calls(stage).count((handle.id, 1)) == 1


def test_control_a_call_of_which_no_ledger_knows_is_made_twice(tmp_path: Path) -> None:
    with scene(f"sqlite:///{tmp_path}/a.db", tmp_path) as stage:
        stage.crew("--lease", f"{LEASE_SECONDS:g}s", processes=2)
        gate = tmp_path / "gate"
        handle = stage.store.start(buys_in_a_step, str(gate))
        until(lambda: calls(stage) == [(handle.id, 0)], "a call")
        os.kill(stage.pid_of(handle.id), signal.SIGKILL)
        gate.touch()
        handle.result(timeout=60)
        assert calls(stage) == [(handle.id, 0)] * 2


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_take_over_while_a_child_is_waited_for(tmp_path: Path, number: int) -> None:
    with scene(f"sqlite:///{tmp_path}/a.db", tmp_path) as stage:
        stage.crew("--lease", f"{LEASE_SECONDS:g}s")
        gate = tmp_path / "gate"
        handle = stage.store.start(parent, 3, str(gate))
        until(lambda: handle.refresh().status == "waiting", "a parent that waits")
        (child,) = stage.store.runs(parent=handle.id)
        pid = until(lambda: stage.pid_of(child.id))
        until(lambda: len(child._read(steps.steps)) == 2, "a child in its last step")
        struck(pid, number, tmp_path / "a.db")
        gate.touch()
        stage.crew("--lease", f"{LEASE_SECONDS:g}s")
        assert handle.result(timeout=60) == [3, 3]
        if number == signal.SIGSTOP:
            os.kill(pid, signal.SIGCONT)
        assert [each.id for each in stage.store.runs(parent=handle.id)] == [child.id]
        assert stage.kinds(handle).count("run.completed") == stage.kinds(child).count("run.completed") == 1
        places = [each.place for each in child._read(steps.steps)]
        assert len(places) == len(set(places)) == 3

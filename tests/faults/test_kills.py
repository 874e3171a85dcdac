"""kill -9, anywhere: what was acknowledged is there, nothing is there twice, and it verifies (P1, P5, P6).

PERDURE_ROUNDS sets how often the random kills are repeated and makes the sweep over system calls complete. With
`--log-cli-level=INFO` the tests say how much they tried: rounds, acknowledged writes, points.
"""

from __future__ import annotations

import logging
import os
import random
import shutil
import signal
import tempfile
import threading
from collections import Counter

import pytest

from faults.tracing import tracer
from faults.writer import ROUNDS, SEED, writing
from forked import Program
from perdure.errors import Damaged
from perdure_testing.faults import kill_after
from stores.verbs import Called, everything, opened

log = logging.getLogger(__name__)


def url_of(kind: str, request, tmp_path) -> str:
    on_disk = {"sqlite": f"sqlite:///{tmp_path}/agent.db", "files": f"files:///{tmp_path}/agent"}
    return on_disk.get(kind) or request.getfixturevalue("postgres_store")


def prepared(url: str) -> str:
    with opened(url):
        return url


# -- at random, among 200 writers ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "files"])
def test_random_kills_among_200_writers(kind, request, tmp_path):
    url = url_of(kind, request, tmp_path)
    rng = random.Random(SEED)
    acked: set[str] = set()
    for round_number in range(ROUNDS):
        acked.update(kill_after(writing(url, "crowd", f"{round_number}/"), rng.randint(1, 1500)))
    stored = everything(url)
    lost = acked - set(stored)
    log.info("%s: %d kills, %d acknowledged, %d stored, %d lost", kind, ROUNDS, len(acked), len(stored), len(lost))
    assert not lost
    assert set(stored.values()) == {1}


def test_the_server_is_killed_among_200_writers(private_postgres):
    """The writers live on: they wait for the server, and what was under way is settled by transaction id."""
    url = prepared(private_postgres.url(schema="s"))
    program = writing(url, "crowd", "")
    assert program.stdout is not None
    acked: list[str] = []
    for _ in range(ROUNDS):
        acked += [program.stdout.readline() for _ in range(300)]
        killer = Called(private_postgres.kill)  # the pipe must not fill up meanwhile
        drained = Called(drain, program.stdout, acked)
        killer.outcome()
        private_postgres.restart()
        drained.outcome()
    assert program.poll() is None
    program.send_signal(signal.SIGKILL)
    acked += program.stdout.readlines()
    program.wait()
    program.stdout.close()
    stored = everything(url)
    lost = {line.rstrip("\n") for line in acked if line.endswith("\n")} - set(stored)
    log.info("%d kills of the server, %d acknowledged, %d stored, %d lost", ROUNDS, len(acked), len(stored), len(lost))
    assert not lost
    assert set(stored.values()) == {1}


def drain(lines, into: list[str]) -> None:
    into += [lines.readline() for _ in range(500)]


# -- at named points ----------------------------------------------------------------------------------------


def killed_at(url: str, what: str, point: str) -> list[str]:
    with writing(prepared(url), what, "50", PERDURE_CRASH_AT=point) as program:
        said = program.stdout.read()
        assert program.wait() == -signal.SIGKILL
    return said.split()


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "files"])
@pytest.mark.parametrize(("point", "unheard"), [("lane.before_commit", 0), ("lane.after_commit", 1)])
@pytest.mark.parametrize("nth", [2, 17])
def test_a_kill_before_the_commit_keeps_nothing_and_one_after_it_everything(
    kind, point, unheard, nth, request, tmp_path
):
    url = url_of(kind, request, tmp_path)
    acked = killed_at(url, "one", f"{point}:{nth}")
    assert everything(url) == Counter(map(str, range(len(acked) + unheard)))


@pytest.mark.parametrize(("point", "unheard"), [("files.before_append", 0), ("files.appended", 1), ("files.synced", 1)])
@pytest.mark.parametrize("nth", [4, 17])
def test_a_kill_before_the_append_keeps_nothing_and_one_after_it_everything(point, unheard, nth, tmp_path):
    url = f"files:///{tmp_path}/agent"
    acked = killed_at(url, "one", f"{point}:{nth}")
    assert everything(url) == Counter(map(str, range(len(acked) + unheard)))


@pytest.mark.parametrize("kind", ["sqlite", "files"])
def test_control_who_acknowledges_before_the_commit_is_caught(kind, request, tmp_path):
    url = url_of(kind, request, tmp_path)
    acked = killed_at(url, "eager", "lane.before_commit:9")
    assert not set(acked) <= set(everything(url))


def test_control_who_acknowledges_before_the_append_is_caught(tmp_path):
    url = f"files:///{tmp_path}/agent"
    acked = killed_at(url, "late", "lane.before_commit:9")
    assert acked
    with pytest.raises(Damaged, match="lost lines"):  # the cache knows more than the log
        everything(url)


# -- at system calls ----------------------------------------------------------------------------------------

CALLS = ("pwrite64", "fdatasync", "ftruncate", "unlink")


@pytest.fixture
def strace() -> str:
    found = shutil.which("strace")
    if found is None or not may_trace(found):
        pytest.skip("strace is missing or may not trace here: no kills at single system calls")
    return found


def may_trace(strace: str) -> bool:
    with Program("-c", "pass", held=True) as program, tracer(strace, program.pid) as attached:
        program.go()
        return attached


def traced(strace: str, flags: list[str], url: str, count: str) -> tuple[list[str], int, str]:
    """What one writer said, its exit status, and what it complained of."""
    with tempfile.TemporaryFile("w+") as errors, writing(url, "one", count, stderr=errors, held=True) as program:
        with tracer(strace, program.pid, *flags) as attached:
            program.go()
            said = program.stdout.read().split()
            status = program.wait()
        assert attached
        errors.seek(0)
        return said, status, errors.read()


@pytest.mark.parametrize("call", ["write", "fdatasync", "ftruncate", "rename", "unlink"])
def test_a_kill_at_every_call_that_a_log_rests_on(strace, call, tmp_path):
    """The same for a files store, with whatever it does to its folder."""
    step = 1 if "PERDURE_ROUNDS" in os.environ else 5
    for nth in range(1, 10_000, step):
        folder = tmp_path / f"{nth}"
        inject = ["-P", f"{folder}/log/000001.jsonl", "-e", f"trace={call}"]
        inject += ["-e", f"inject={call}:signal=KILL:when={nth}"]
        acked, status, errors = traced(strace, inject, f"files:///{folder}", "12")
        stored = everything(f"files:///{folder}")
        assert set(acked) <= set(stored), f"{call} {nth}"
        assert len(stored) <= len(acked) + 1
        if status == 0:
            assert len(acked) == 12
            return log.info("%s: killed at %d points", call, len(range(1, nth, step)))
        assert status == -signal.SIGKILL, errors
    raise AssertionError("the program never ended by itself")


@pytest.mark.parametrize("call", CALLS)
def test_a_kill_at_every_call_that_durability_rests_on(strace, call, tmp_path):
    """At the n-th write, sync, truncation and removal of the database's files, from their first moment on."""
    step = 1 if "PERDURE_ROUNDS" in os.environ else 23
    for nth in range(1, 10_000, step):
        path = tmp_path / f"{nth}.db"
        files = [flag for end in ("", "-wal", "-journal") for flag in ("-P", f"{path}{end}")]
        inject = ["-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={nth}"]
        acked, status, errors = traced(strace, [*files, *inject], f"sqlite:///{path}", "6")
        stored = everything(f"sqlite:///{path}")
        assert set(acked) <= set(stored), f"{call} {nth}"
        assert len(stored) <= len(acked) + 1
        if status == 0:
            assert len(acked) == 6
            return log.info("%s: killed at %d points", call, len(range(1, nth, step)))
        assert status == -signal.SIGKILL, errors
    raise AssertionError("the program never ended by itself")


@pytest.mark.parametrize("kind", ["sqlite", "files"])
def test_errors_of_the_disk_at_every_sync(strace, kind, tmp_path):
    """EIO, once and for good, from the n-th sync on: an error or an outcome, never a false one."""
    for nth in (1, 2, 5, 9):
        for when in (f"{nth}", f"{nth}+"):
            path = tmp_path / f"{when}.db"
            files = [path, f"{path}-wal"] if kind == "sqlite" else [path / "log" / "000001.jsonl"]
            files = [flag for each in files for flag in ("-P", str(each))]
            inject = ["-e", "trace=fdatasync,fsync", "-e", f"inject=fdatasync,fsync:error=EIO:when={when}"]
            acked, status, errors = traced(strace, [*files, *inject], prepared(f"{kind}:///{path}"), "6")
            stored = everything(f"{kind}:///{path}")
            assert set(acked) <= set(stored)
            assert set(stored.values()) <= {1}
            assert status == 0 or "Unavailable" in errors


def test_no_thread_is_left_of_a_killer():
    assert "proxy" not in {thread.name for thread in threading.enumerate()}

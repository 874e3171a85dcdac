"""SIGKILL at the n-th system call that writes, syncs or sends, through strace: no code of a subject is asked.

An undisturbed story is traced first to see which calls there are; a schedule `q‰` is the call at that share of all of them. The
kill comes when the call is entered: it is not carried out.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from perdure.model import programs
from perdure_evaluate.recovery.faults.fault import Control, RecoveryFault
from perdure_evaluate.recovery.interface import Subject
from perdure_evaluate.recovery.lives import LifeProcess
from perdure_evaluate.recovery.story import Story
from perdure_evaluate.recovery.tasks import RecoveryTask

CALLS = ("write", "pwrite64", "writev", "fsync", "fdatasync", "ftruncate", "rename", "unlink", "sendto")
CALL = re.compile(r"^\d+ +(\w+)\(", re.MULTILINE)
PARTS = 1000
ATTACH_SECONDS = 10.0
PROBE_SECONDS = 60.0
LIVES_MAX = 4


@cache
def missing() -> str:
    """Why nothing can be traced here; nothing, if it can."""
    strace = programs.find("strace")
    if strace is None:
        return "strace is not installed"
    tried = programs.run([strace, "-qq", "-o", "/dev/null", "true"], env=os.environ, seconds=PROBE_SECONDS)
    return "" if tried.exit == 0 else "strace may not trace here"


def unfit(_: type[Subject], task: RecoveryTask) -> str:
    """Git's own processes would be traced, and are not under test."""
    return "git is the other side" if task.git else "too many calls to trace" if task.long else ""


def _unfit(subject: type[Subject], task: RecoveryTask) -> str:
    """A kill needs no record, so long tasks are struck, too."""
    return "" if task.long and task.by_default and not task.git else unfit(subject, task)


@contextlib.contextmanager
def traced(child: LifeProcess, *words: str) -> Iterator[None]:
    """Trace a child that waits at its gate; returns when it is being traced. It ends with the child."""
    strace = programs.find("strace") or "strace"
    command = [strace, "-f", "-qq", "-p", str(child.pid), *words]
    tracer = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)  # noqa: S603
    try:
        _await_tracer(child.pid, tracer)
        yield
        tracer.wait(ATTACH_SECONDS)
    finally:
        tracer.kill()
        tracer.communicate()


def _await_tracer(pid: int, tracer: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + ATTACH_SECONDS
    status = Path(f"/proc/{pid}/status")
    while "TracerPid:\t0\n" in status.read_text():
        if tracer.poll() is not None or time.monotonic() > until:
            raise OSError(f"strace does not trace: {tracer.communicate()[1].decode(errors='replace')[:200]}")
        time.sleep(0.002)


def calls_of(story: Story) -> list[tuple[int, str, int]]:
    """Every call of an undisturbed story, by life, name and number; found out once for a subject and a task."""
    return story.undisturbed("calls", lambda other: list(_traced_story(other)))


def _traced_story(story: Story) -> Iterator[tuple[int, str, int]]:
    for number in range(LIVES_MAX):
        log = story.top / f"trace-{number}"
        child = story.ground.lives.hold(story.order())
        with traced(child, "-o", str(log), "-e", f"trace={','.join(CALLS)}"):
            child.begin()
            life = story.add(child.wait())
        numbers: Counter[str] = Counter()
        for name in CALL.findall(log.read_text()):
            numbers[name] += 1
            yield number, name, numbers[name]
        if life.end != "waiting":
            return


def kill_at(story: Story, share: int, *words: str) -> Path:
    """Live until the call at this share of all of them (of a thousand), and be killed there. words: what else to trace with.

    Returns where the traces of all lives are.
    """
    calls = calls_of(story)
    number, name, nth = calls[share * len(calls) // PARTS]
    story.note = f"{name} number {nth} of life {number + 1}; {len(calls)} calls in all"
    log = story.top / "trace"
    for life in range(number + 1):
        inject = ["-e", f"inject={name}:signal=KILL:when={nth}"] if life == number else []
        child = story.ground.lives.hold(story.order())
        with traced(child, "-o", str(log), "-A", "-e", f"trace={','.join(CALLS)}", *words, *inject):
            child.begin()
            story.add(child.wait())
    return log


def _killed(story: Story, schedule: str) -> None:
    kill_at(story, int(schedule.rstrip("‰")))


def shares(task: RecoveryTask, seed: int) -> list[str]:
    """Shares of all calls, in an order of the seed."""
    rng = random.Random(f"{seed}/{task.name}/syscall")
    return [f"{share}‰" for share in rng.sample(range(PARTS), PARTS // 5)]


SYSCALL = RecoveryFault(
    name="syscall", about="SIGKILL at the n-th system call that writes, syncs or sends", schedules=shares, tell=_killed,
    control=Control("control-buffered", "support", ("acknowledged_lost",)), missing=missing, unfit=_unfit,
)  # fmt: skip

"""An I/O error: the n-th call that writes or syncs a file of the subject fails with EIO, through strace; later the disk is well.

An undisturbed story is traced first, to see which calls there are and on which files. A schedule `q‰` fails the call at that
share of all of them, `q‰+` that one and all that come after it in the same life. A call that fails is not carried out.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from perdure_evaluate.recovery.faults import system_calls
from perdure_evaluate.recovery.faults.fault import Control, RecoveryFault
from perdure_evaluate.recovery.interface import Subject
from perdure_evaluate.recovery.lives import LifeProcess
from perdure_evaluate.recovery.story import Story
from perdure_evaluate.recovery.tasks import RecoveryTask

CALLS = ("write", "pwrite64", "writev", "fsync", "fdatasync", "ftruncate")
CALL = re.compile(r"^(\d+) +(\w+)\(\d+<([^>]*)>(.*)$", re.MULTILINE)
SHARES = 100
PID = "{pid}"  # in the name of a file, of the process that writes it


class FileCall(NamedTuple):
    """One call on a file of the subject. numbers: how many of each kind its thread had made by then; files: of this life."""

    life: int
    name: str
    numbers: dict[str, int]
    files: frozenset[str]


def _recorded(story: Story) -> Iterator[FileCall]:
    for number in range(system_calls.LIVES_MAX):
        log = story.top / f"trace-{number}"
        child = story.ground.lives.hold(story.order())
        with system_calls.traced(child, "-o", str(log), "-y", "-s", "20", "-e", f"trace={','.join(CALLS)}"):
            child.begin()
            life = story.add(child.wait())
        yield from _read(log.read_text(), number, child.pid, str(story.folder))
        if life.end != "waiting":
            return


def _read(trace: str, number: int, pid: int, folder: str) -> Iterator[FileCall]:
    """The calls of a life on its own files. Names of files are kept as they are in any other story."""
    counts: dict[str, Counter[str]] = {}
    calls: list[tuple[str, dict[str, int]]] = []
    files: set[str] = set()
    begun = False
    for thread, name, path, rest in CALL.findall(trace):
        begun = begun or "believes" in rest
        if path == folder or path.startswith(f"{folder}/"):
            files.add(path.removeprefix(folder).replace(str(pid), PID))
            counts.setdefault(thread, Counter())[name] += 1
            if begun:
                calls.append((name, dict(counts[thread])))
    return (FileCall(number, name, numbers, frozenset(files)) for name, numbers in calls)


def _refused(story: Story, schedule: str) -> None:
    """Live until the call at this share of all of them, and see what comes of its failure."""
    # Every call of an undisturbed story, but for those with which a life says what it believes; recorded once.
    calls: list[FileCall] = story.undisturbed("calls on files", lambda other: list(_recorded(other)))
    call = calls[int(schedule.rstrip("‰+")) * len(calls) // system_calls.PARTS]
    lasting = schedule.endswith("+")
    story.note = f"{call.name} number {call.numbers[call.name]} of life {call.life + 1}{' and all after it' * lasting}"
    for _ in range(call.life):
        story.live()
    child = story.ground.lives.hold(story.order())
    log = story.top / "trace"
    with system_calls.traced(
        child, "-o", str(log), "-y", *_paths(story, child, call), *_injections(call, lasting=lasting)
    ):
        child.begin()
        life = child.wait()
    life.at = "EIO" if "(INJECTED)" in log.read_text() else ""
    story.add(life)


def _paths(story: Story, child: LifeProcess, call: FileCall) -> list[str]:
    paths = (f"{story.folder}{name.replace(PID, str(child.pid))}" for name in sorted(call.files))
    return [word for path in paths for word in ("-P", path)]


def _injections(call: FileCall, *, lasting: bool) -> list[str]:
    """strace counts the calls of each kind and thread by themselves."""
    words = ["-e", f"trace={','.join(CALLS)}"]
    if not lasting:
        return [*words, "-e", f"inject={call.name}:error=EIO:when={call.numbers[call.name]}"]
    for name in CALLS:
        first = call.numbers.get(name, 0) + (name != call.name)
        words += ["-e", f"inject={name}:error=EIO:when={first}+"]
    return words


def _shares(task: RecoveryTask, seed: int) -> list[str]:
    rng = random.Random(f"{seed}/{task.name}/eio")
    return [f"{share}‰{lasting}" for share in rng.sample(range(system_calls.PARTS), SHARES) for lasting in ("", "+")]


def _unfit(subject: type[Subject], task: RecoveryTask) -> str:
    return "its files are a server's" if subject.needs else system_calls.unfit(subject, task)


EIO = RecoveryFault(
    name="eio",
    about="an I/O error at the n-th write or sync of a file, once or for the rest of a life",
    schedules=_shares,
    tell=_refused,
    control=Control("control-unheeded", "support", ("acknowledged_lost",)),
    missing=system_calls.missing,
    unfit=_unfit,
)

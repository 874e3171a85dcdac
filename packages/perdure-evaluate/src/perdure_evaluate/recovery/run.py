"""Running an evaluation: hosts in parallel, every case written down as it ends, and continued after a crash of its own.

`cases.jsonl` in the folder is the truth: a first line that says what is evaluated, then one line a case. A line that was torn is
cut off. Only one evaluation at a time works in a folder.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import msgspec

import perdure
from perdure.errors import Conflict, Error, Invalid, NotFound, Unavailable
from perdure.version import VERSION as PERDURE_VERSION
from perdure_evaluate import peers
from perdure_evaluate.recovery import SCRATCH, VERSION, host
from perdure_evaluate.recovery.faults import FAULTS
from perdure_evaluate.recovery.host import Setting, ShownCase
from perdure_evaluate.recovery.plan import EvaluationPlan
from perdure_evaluate.recovery.story import Case
from perdure_evaluate.recovery.subjects import load
from perdure_testing.scratch import MEMORY, scratch

CASES = "cases.jsonl"


class Header(msgspec.Struct, frozen=True):
    """The subject of an evaluation in a folder: cases of another seed or protocol are not put beside it."""

    protocol: str
    perdure: str
    seed: int


def header_of(seed: int) -> Header:
    """The header that this evaluation would write."""
    return Header(VERSION, PERDURE_VERSION, seed)


def seed_of(folder: Path) -> int:
    """The seed of the evaluation that lies in a folder. NotFound if there is none, Invalid if it is none."""
    path = folder / CASES
    if not path.is_file():
        raise NotFound(f"there is no evaluation in {folder}", path="out", hint="name its folder, or give --seed")
    with path.open("rb") as file:
        return _header(file.readline(), path).seed


def _header(line: bytes, path: Path) -> Header:
    try:
        return msgspec.json.decode(line, type=Header)
    except msgspec.MsgspecError:
        raise Invalid("this is no evaluation", path=str(path), hint="name another folder") from None


class Ledger:
    """The cases of a folder: what was shown so far, and the file that it is added to. A context manager that holds the folder."""

    def __init__(self, folder: Path, seed: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / CASES
        self.outcomes: dict[str, ShownCase] = {}
        self._file: BinaryIO = self.path.open("a+b")
        self._mutex = threading.Lock()
        try:
            self._hold()
            self._load(header_of(seed))
        except BaseException:
            self._file.close()
            raise

    def _hold(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Conflict("another evaluation works in this folder", path=str(self.path), hint="wait for it") from None

    def _load(self, header: Header) -> None:
        self._file.seek(0)
        data = self._file.read()
        intact = data[: data.rfind(b"\n") + 1]
        self._file.truncate(len(intact))
        lines = intact.splitlines()
        if not lines:
            self._append(header)
            return
        own_header = _header(lines[0], self.path)
        if own_header != header:
            raise Conflict(
                f"this folder holds an evaluation of {own_header}", path=str(self.path), hint="name another folder"
            )
        for line in lines[1:]:
            outcome = msgspec.json.decode(line, type=ShownCase)
            self.outcomes[outcome.case.id] = outcome

    def add(self, outcome: ShownCase) -> None:
        """Write one down. For any thread."""
        with self._mutex:
            self._append(outcome)
            self.outcomes[outcome.case.id] = outcome

    def _append(self, record: msgspec.Struct) -> None:
        self._file.write(msgspec.json.encode(record) + b"\n")
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._file.close()


class HostProgram:
    """A host program, as the evaluation sees it. peer: in whose interpreter; none: ours."""

    def __init__(self, seed: int, folder: Path, postgres: str, peer: str = "") -> None:
        folder.mkdir()
        command = [str(peers.python(peer)) if peer else sys.executable, "-m", host.__name__]
        env = peers.environment() if peer else None
        self._program = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603
        self._say(Setting(seed, str(folder), postgres, peers.peer(peer).modules if peer else ()))

    def show(self, case: Case) -> ShownCase:
        """Run one case. Raises Unavailable if the host is gone."""
        assert self._program.stdout is not None
        self._say(case)
        line = self._program.stdout.readline()
        if not line:
            raise Unavailable(f"the host died in {case.id}", path="evaluate", hint="its words are on standard error")
        return msgspec.json.decode(line, type=ShownCase)

    def _say(self, what: msgspec.Struct) -> None:
        assert self._program.stdin is not None
        try:
            self._program.stdin.write(msgspec.json.encode(what) + b"\n")
            self._program.stdin.flush()
        except BrokenPipeError:
            raise Unavailable("a host is gone", path="evaluate", hint="its words are on standard error") from None

    def close(self) -> None:
        """End it; it removes what it made."""
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.close()
        self._program.wait()
        self._program.stdout.close()


class Hosts:
    """The hosts of one worker: its own, and one in each peer's interpreter that it comes to need. They end with `close`."""

    def __init__(self, seed: int, folder: Path, postgres: str) -> None:
        self._about = (seed, folder, postgres)
        self._hosts: dict[str, HostProgram] = {}

    def show(self, case: Case) -> ShownCase:
        """Run one case where its subject lives. Raises Unavailable if that host is gone."""
        peer = load(case.subject).peer
        if peer not in self._hosts:
            seed, folder, postgres = self._about
            self._hosts[peer] = HostProgram(seed, folder.with_name(f"{folder.name}-{peer or 'own'}"), postgres, peer)
        return self._hosts[peer].show(case)

    def close(self) -> None:
        """End them all."""
        for process in self._hosts.values():
            process.close()


class Progress:
    """The reports of an evaluation on the way, for a door to show. Called by several threads."""

    def begins(self, case: Case) -> None:
        """This case is being tried now."""

    def ends(self, outcome: ShownCase) -> None:
        """And this came of it."""


def evaluate(
    plan: EvaluationPlan,
    ledger: Ledger,
    *,
    postgres: str,
    jobs: int,
    until: float,
    progress: Progress,
    count: int | None = None,
) -> None:
    """Try the controls, then the cases, until the time (of time.monotonic) is over. Raises what a host died of.

    count: only so many of the plan's cases, the first ones: the same on every machine.
    """
    cases = _cases_to_try(plan, ledger, until, count)
    mutex = threading.Lock()
    errors: list[BaseException] = []

    def take() -> Case | None:
        with mutex:
            return None if errors else next(cases, None)

    with scratch(SCRATCH) as folder:
        workers = [
            threading.Thread(
                target=_work, args=(Hosts(plan.seed, folder / f"h{number}", postgres), take, ledger, progress, errors)
            )
            for number in range(jobs)
        ]
        for worker in workers:
            worker.start()
        _join(workers, errors)
    if errors:
        raise errors[0]


def _join(workers: list[threading.Thread], errors: list[BaseException]) -> None:
    """Wait for all of them; interrupted, let them end the cases that they are at."""
    try:
        for worker in workers:
            worker.join()
    except BaseException as interrupted:  # noqa: BLE001 - raised again when all of them are back
        errors.insert(0, interrupted)
        for worker in workers:
            worker.join()


def _work(
    own: Hosts, take: Callable[[], Case | None], ledger: Ledger, progress: Progress, errors: list[BaseException]
) -> None:
    try:
        while (case := take()) is not None:
            progress.begins(case)
            outcome = own.show(case)
            ledger.add(outcome)
            progress.ends(outcome)
    except BaseException as error:  # noqa: BLE001 - raised again by who waits for all of them
        errors.append(error)
    finally:
        own.close()


def _cases_to_try(plan: EvaluationPlan, ledger: Ledger, until: float, count: int | None) -> Iterator[Case]:
    """The controls until each is caught, then the cases until the time is over; what was shown before is not tried again."""
    for fault, cases in plan.controls.items():
        for case in cases:
            if caught(ledger, fault, cases) is not None:
                break
            if case.id not in ledger.outcomes:
                yield case
    for case in islice(plan.cases(), count):
        if time.monotonic() >= until:
            return
        if case.id not in ledger.outcomes:
            yield case


def caught(ledger: Ledger, fault: str, cases: list[Case]) -> ShownCase | None:
    """The case that shows that a fault bites: its control did what it must not."""
    control = FAULTS[fault].control
    assert control is not None
    for case in cases:
        outcome = ledger.outcomes.get(case.id)
        if outcome is not None and any(getattr(outcome.score, measure) for measure in control.measures):
            return outcome
    return None


def show_one(case: Case, seed: int, postgres: str, tries: int = 1) -> ShownCase:
    """Run a single case until it shows a violation, so often at most, and write nothing down."""
    with scratch(SCRATCH) as folder:
        own = Hosts(seed, folder / "h0", postgres)
        try:
            outcome = own.show(case)
            for _ in range(tries - 1):
                if outcome.score.failed or outcome.broken:
                    break
                outcome = own.show(case)
            return outcome
        finally:
            own.close()


def server_for(subjects: list[str], stack: ExitStack, folder: Path) -> tuple[str, dict[str, str]]:
    """Start what the subjects need: the URL of a PostgreSQL, in memory too; or who cannot run here and why."""
    needing = [name for name in subjects if load(name).needs == "postgres"]
    if not needing:
        return "", {}
    from perdure_testing.postgres import PostgresServer  # noqa: PLC0415 - development tools

    try:
        url = stack.enter_context(PostgresServer.start(MEMORY if MEMORY.is_dir() else folder)).url()
        with perdure.open(f"{url}?schema=evaluated"):
            return url, {}
    except Error as error:
        return "", dict.fromkeys(needing, f"no PostgreSQL could be started: {error.message}")


def peers_for(subjects: list[str], tell: peers.Tell | None) -> dict[str, str]:
    """The subjects that cannot run here because their peer is not there, and how to get it. tell: get what is missing first, and
    tell of it.
    """
    needs = {name: load(name).peer for name in subjects if load(name).peer}
    how = "perdure evaluate --install-peers"
    missing = {peer: peers.lacking(peer, how, tell=tell) for peer in sorted(set(needs.values()))}
    return {name: missing[peer] for name, peer in needs.items() if missing[peer]}


def cores() -> int:
    """How many cores there are for us."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

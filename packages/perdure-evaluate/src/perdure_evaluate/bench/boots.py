"""Cases of booting: what it costs to bring a fresh context window back, at three ages of a session and from the shell; and how
much of what a task needs is in the pack.
"""

from __future__ import annotations

import random
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import perdure
from perdure_evaluate.bench.case import Benchmark, Context, Figure, at_most, users_environment
from perdure_evaluate.boot import evidence_shares, histories, history_verbs
from perdure_testing.clock import FakeClock

TASK = "fix the login test on Safari"
AGES = (100, 10_000, 100_000)  # turns
ROUNDS = 15
CHECKS = 20
BATCH = 500
_FREQUENT = ("login", "safari", "test", "cookie", "parser", "server", "retry", "timeout", "branch", "schema")
_WORDS = [*_FREQUENT, *(f"name{i}" for i in range(2_000))]
_WEIGHTS = [1 / (i + 1) ** 0.7 for i in range(len(_WORDS))]


def filled(store: perdure.Store, turns: int) -> perdure.Session:
    """A session of so many turns with rules, memories, decisions and tasks, indexed."""
    rng = random.Random(turns)

    def text(words: int) -> str:
        return " ".join(rng.choices(_WORDS, _WEIGHTS, k=words))

    def say(tx: Any, count: int) -> None:
        for i in range(count):
            tx.session("boot").say("user" if i % 2 else "assistant", text(25))

    session = store.session("boot", labels=["project:acme"], goal="Login works on Safari")
    project = store.scope("project:acme")
    for kind, count in (("rule", 10), ("fact", 40), ("workflow", 20), ("lesson", 20), ("failed_approach", 10)):
        for _ in range(count):
            project.remember(text(15), kind=kind)
    for _ in range(20):
        session.decide(text(10), because=text(8)).close("worked")
        session.task(text(6))
    for first in range(0, turns, BATCH):
        store.atomic(lambda tx, first=first: say(tx, min(BATCH, turns - first)))
    while True:
        try:
            session.recall("login")
        except perdure.TimedOut:  # a large backlog: it goes on where it stopped
            continue
        return session


def _cpu_ms(session: perdure.Session, **options: Any) -> float:
    """The time of the processor that one boot takes: the middle of several."""
    session.boot(**options)
    took: list[float] = []
    for _ in range(ROUNDS):
        began = time.process_time()
        session.boot(**options)
        took.append(time.process_time() - began)
    return statistics.median(took) * 1000


def ages(context: Context) -> list[Figure]:
    """In process, for a task, at three ages of a session."""
    times: dict[int, float] = {}
    for turns in (context.count(age, 50) for age in AGES):
        with context.scratch() as folder, perdure.open(f"sqlite:///{folder}/bench.db") as store:
            times[turns] = _cpu_ms(filled(store, turns), task=TASK)
    figures = [at_most(f"boot for a task at {turns:,} turns", took, 15, "ms CPU") for turns, took in times.items()]
    spread = max(times.values()) / min(times.values())
    return [*figures, at_most("the slowest of these beside the quickest", spread, 1.4, "×", "flat is within ±20 %")]


def from_the_shell(context: Context) -> list[Figure]:
    """The command, with its start; and a boot that looks at 20 files, branches and commits."""
    with context.scratch() as folder:
        url = f"sqlite:///{folder}/bench.db"
        with perdure.open(url) as store:
            session = filled(store, context.count(1_000, 50))
            _rest_on_files(session, folder)
            checked = statistics.median(_wall(session) for _ in range(5))
        command = [sys.executable, "-m", "perdure", "boot", "boot", "--task", TASK, "--store", url]
        took = min(_command_seconds(command) for _ in range(5))
    return [
        at_most("perdure boot", took, 0.3, "s CPU", "with the start of Python"),
        at_most(f"boot with {CHECKS} checks", checked, 1.0, "s", "files and git"),
    ]


def _rest_on_files(session: perdure.Session, folder: Path) -> None:
    for number in range(CHECKS):
        path = folder / f"file{number}"
        path.write_text(str(number))
        git = number % 2 and perdure.GitRef(f"branch{number}", folder=str(folder))
        session.remember(f"login memory {number}", checks=[git or perdure.FileHash(str(path))])


def _wall(session: perdure.Session) -> float:
    began = time.perf_counter()
    session.boot(task=TASK)
    return time.perf_counter() - began


def _command_seconds(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=users_environment())  # noqa: S603 - our own command
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def evidence(context: Context) -> list[Figure]:
    """The share of the evidence in the pack by class and budget, beside the last turns and beside printing all and cutting."""
    by_budget: dict[int, list[evidence_shares.Shares]] = {budget: [] for budget in evidence_shares.BUDGETS}
    for name in histories.HISTORIES[: context.count(len(histories.HISTORIES))]:
        history, clock = histories.history(name), FakeClock()
        with context.scratch() as folder, perdure.open(f"sqlite:///{folder}/bench.db", clock=clock) as store:
            session = history_verbs.tell(store, history, clock)
            for budget in evidence_shares.BUDGETS:
                by_budget[budget].append(evidence_shares.measure(session, history, budget))
    return [
        _beside(f"{of} at {budget:,} tokens", {way: shares[of] for way, shares in means.items()})
        for budget, means in ((budget, evidence_shares.mean(rows)) for budget, rows in by_budget.items())
        for of in histories.CLASSES
    ]


def _beside(measure: str, ways: dict[str, float]) -> Figure:
    ours, *others = (ways[way] for way in evidence_shares.WAYS)
    met = all(evidence_shares.is_ahead(ours, theirs) for theirs in others) and (ours == 1.0 or "rules" not in measure)
    detail = ", ".join(f"{way} {ways[way]:.3f}" for way in evidence_shares.WAYS[1:])
    return Figure(measure, ours, "", f"> {max(others):.3f}" if max(others) < 1 else "1", met, detail)


CASES = [
    Benchmark("boot-evidence", "evidence that a task needs, in a boot of 1,000, 4,000 and 16,000 tokens", evidence),
    Benchmark("boot", "booting for a task at 100, 10,000 and 100,000 turns", ages),
    Benchmark("boot-command", "perdure boot from the shell, and a boot with 20 checks", from_the_shell),
]

"""Measuring boot: which share of the evidence is in a text of a budget, by class; ours beside what others do.

boot        ours, for each task
last        the last turns that fit, the oldest of them cut at its beginning
by kind     everything, in the order of a boot's sections, cut where the budget ends
by time     everything in the order in which it was written, cut there too
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from perdure.handles.sync.session import Session
from perdure.model.tokens import estimate
from perdure_evaluate.boot.histories import CLASSES, TASKS, TURNS, BootHistory, HistoryThing

BUDGETS = (1_000, 4_000, 16_000)
WAYS = ("boot", "last", "by kind", "by time")
LOOPS = ("doubt", "ask", "answered", "failed_run", "open")
ORDER = (
    ("rule",), ("goal",), TASKS, LOOPS, ("standing", "decision", "superseded"), ("failed_approach", "correction", "lesson"),
    ("value",), ("preference", "fact", "workflow", "snippet", "document"), ("vocabulary", "map"), TURNS,
)  # fmt: skip
Shares = dict[str, dict[str, float]]  # by way and class
Answer = Callable[[str], str]  # from a task to a text


def measure(session: Session, history: BootHistory, budget: int) -> Shares:
    """The share of the evidence that each way shows in a budget, by class."""
    ways: dict[str, Answer] = {
        "boot": lambda task: session.boot(budget=budget, task=task).text,
        "last": _always(within_last(history.things, budget)),
        "by kind": _always(within(_by_kind(history.things), budget)),
        "by time": _always(within(history.things, budget)),
    }
    return {way: shares(answer, history) for way, answer in ways.items()}


def shares(answer: Answer, history: BootHistory) -> dict[str, float]:
    """By class, the share of the evidence that is in the texts of all tasks."""
    texts = history.evidence()
    hits: dict[str, list[bool]] = defaultdict(list)
    for task in history.tasks:
        text = answer(task.text)
        for of, ids in [*history.always.items(), *task.needs.items()]:
            hits[of] += [texts[name] in text for name in ids]
    return {of: sum(hits[of]) / len(hits[of]) for of in CLASSES if hits[of]}


def mean(measured: Iterable[Shares]) -> Shares:
    """The mean over several histories."""
    every = list(measured)
    return {
        way: {of: sum(measurement[way][of] for measurement in every) / len(every) for of in every[0][way]}
        for way in every[0]
    }


def is_ahead(ours: float, theirs: float) -> bool:
    """Whether a share is ahead of another one: above it, or both are whole."""
    return ours > theirs or ours == theirs == 1.0


def _always(text: str) -> Answer:
    return lambda _: text


def printed(thing: HistoryThing) -> str:
    """A thing as a dump prints it."""
    return f"{thing.kind}: {thing.text} {thing.more}".rstrip() + "\n"


def _by_kind(things: list[HistoryThing]) -> Iterator[HistoryThing]:
    for kinds in ORDER:
        yield from (thing for thing in things if thing.kind in kinds)


def within(things: Iterable[HistoryThing], budget: int) -> str:
    """As much of these as fits; the last one is cut."""
    texts: list[str] = []
    for thing in things:
        text = printed(thing)
        if estimate(text) > budget:
            return "".join([*texts, _cut(text, budget)])
        budget -= estimate(text)
        texts.append(text)
    return "".join(texts)


def within_last(things: Iterable[HistoryThing], budget: int) -> str:
    """As many of the last turns as fit; the oldest one is cut at its beginning."""
    texts: list[str] = []
    for thing in reversed([thing for thing in things if thing.kind in TURNS]):
        text = printed(thing)
        if estimate(text) > budget:
            return "".join([_cut(text[::-1], budget)[::-1], *reversed(texts)])
        budget -= estimate(text)
        texts.append(text)
    return "".join(reversed(texts))


def _cut(text: str, budget: int) -> str:
    """The longest beginning of a text within a budget."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if estimate(text[:middle]) <= budget else (low, middle - 1)
    return text[:low]

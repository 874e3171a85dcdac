"""Recall: how well it finds (a labelled set of our own), and how fast among many vectors. Needs numpy for the latter."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import perdure
from perdure.planes.memory import nearest, vectors
from perdure.planes.memory.embedder import Embedder
from perdure.runtime.callers import caller_of, stream_of
from perdure.stores import pgvector
from perdure_evaluate.bench.case import Benchmark, Context, Figure, at_least, at_most
from perdure_evaluate.recall import measures, question_set

VECTORS, DIMS, LATENT = 200_000, 384, 64
QUESTIONS = 50
_STEP = 2_000


def _labelled(url: str) -> dict[str, measures.Measured]:
    return measures.legs(url, question_set.history(), question_set.questions(), question_set.KeptVectors())


def _quality(context: Context) -> list[Figure]:
    with context.scratch() as folder:
        on_sqlite = _labelled(f"sqlite:///{folder}/recall.db")
    figures = _figures(on_sqlite)
    if context.postgres is not None:
        on_postgres = _labelled(context.postgres)
        apart = abs(on_postgres["hybrid"].ndcg - on_sqlite["hybrid"].ndcg)
        shared = measures.overlap(on_postgres["hybrid"], on_sqlite["hybrid"])
        figures.append(at_most("PostgreSQL and SQLite, nDCG@10 apart", apart, 0.01, ""))
        figures.append(at_least("PostgreSQL and SQLite, first ten in common", shared, 0.95, ""))
    return figures


def _figures(legs: dict[str, measures.Measured]) -> list[Figure]:
    better = max(legs["words"].ndcg, legs["vectors"].ndcg)
    targets = {"hybrid": better - 0.005, "words": legs["fts5"].ndcg + 0.10}
    return [
        at_least(f"nDCG@10, {name}", leg.ndcg, round(targets.get(name, 0.0), 4), "", f"R@10 {leg.recall:.3f}")
        for name, leg in legs.items()
    ]


class _Many:
    """Many turns with vectors that are like those of texts: few directions, mapped to many. Its own embedding."""

    def __init__(self, count: int) -> None:
        import numpy as np  # noqa: PLC0415 - an extra

        self.np = np
        dice = np.random.default_rng(7)
        self.map = dice.standard_normal((LATENT, DIMS)).astype(np.float32) * np.linspace(2, 0.2, LATENT)[:, None]
        latent = dice.standard_normal((count, LATENT)).astype(np.float32)
        self.all = self._unit(latent @ self.map + 0.3 * dice.standard_normal((count, DIMS)).astype(np.float32))
        questions = latent[dice.integers(0, count, QUESTIONS)] + 0.5 * dice.standard_normal((QUESTIONS, LATENT))
        self.questions = self._unit(questions.astype(np.float32) @ self.map)
        self.name, self.dims, self.sha256 = "bench", DIMS, f"{count}"

    def _unit(self, rows: Any) -> Any:
        return rows / self.np.linalg.norm(rows, axis=1, keepdims=True)

    def __call__(self, texts: Sequence[str]) -> list[Any]:
        """`turn 7 …` has the seventh vector, `question 7` that of the seventh question; sentences have others."""
        answer = []
        for text in texts:
            kind, _, rest = text.partition(" ")
            number = rest.split(" ")[0]
            table = {"turn": self.all, "question": self.questions}.get(kind)
            answer.append((table[int(number)] if table is not None else self._odd(text)).tolist())
        return answer

    def _odd(self, text: str) -> Any:
        dice = self.np.random.default_rng(len(text))
        return dice.standard_normal(LATENT).astype(self.np.float32) @ self.map


def _sessions(count: int) -> list[tuple[str, int, int]]:
    """A session with a hundredth of the turns, one with a tenth, one with the rest: name, first and last turn."""
    one, ten = count // 100, count // 10
    return [("one", 0, one), ("ten", one, one + ten), ("rest", one + ten, count)]


def _fill(store: perdure.Store, count: int) -> None:
    for name, first, last in _sessions(count):
        for start in range(first, last, _STEP):

            def say(tx: Any, name: str = name, start: int = start, last: int = last) -> None:
                session = tx.session(name)
                for number in range(start, min(start + _STEP, last)):
                    session.say("assistant", f"turn {number} about{number * 7919 % 5003} thing{number % 97}")

            store.atomic(say)


def _p50(measure: str, act: Callable[[int], Any], most_ms: float) -> Figure:
    """The median of a question's time; beside it that of this process on the processor, which a busy machine spoils less."""
    act(0)
    times, worked = [], []
    for number in range(QUESTIONS):
        began, busy = time.perf_counter(), time.process_time()
        act(number)
        times.append(time.perf_counter() - began)
        worked.append(time.process_time() - busy)
    own = statistics.median(worked) * 1_000
    return at_most(f"{measure}, p50", statistics.median(times) * 1_000, most_ms, "ms", f"processor {own:.1f} ms")


def _exact(many: _Many, number: int, first: int, last: int) -> set[int]:
    near = many.all[first:last] @ many.questions[number]
    return {int(i) + first for i in many.np.argpartition(-near, 10)[:10]}


def _vectors(url: str, context: Context, most_ms: float) -> list[Figure]:
    count = context.count(VECTORS, 2_000)
    many = _Many(count)
    with perdure.open(url, embed=many, timeout=600) as store:
        _fill(store, count)
        began = time.perf_counter()
        store.index()
        took = time.perf_counter() - began
        figures = [Figure("index and vectors", count / took, "texts/s", "", met=True, detail=f"{took:.0f} s")]
        return figures + _searched(store, many, count, most_ms)


def _searched(store: perdure.Store, many: _Many, count: int, most_ms: float) -> list[Figure]:
    core, tenant = caller_of(store).core, caller_of(store).tenant
    embedder = Embedder(many)
    state, near = core.read(lambda reads: (vectors.state_of(reads, embedder), pgvector.find(reads)), tenant=tenant)
    bits = nearest.bits_for(core, tenant)
    streams = {name: stream_of(store.session(name)).id for name, _, _ in _sessions(count)}
    numbers = {
        (streams[name], number - first): number
        for name, first, last in _sessions(count)
        for number in range(first, last)
    }
    firsts = {
        stream: min(turn.seq for turn in store.session(name).turns(after=0, limit=1))
        for name, stream in streams.items()
    }

    def nearest_ten(number: int, within: list[int] | None) -> list[int]:
        sought = nearest.Sought(many.questions[number].tolist(), state, 0.0, 0.0, bits, near)
        places = core.read(nearest.nearest, sought, nearest.NearestFilter(["turn"], within, {}), 60, tenant=tenant)
        return [numbers[place[0], place[1] - firsts[place[0]]] for place in places[:10]]

    figures = []
    parts = {"all": (None, 0, count, most_ms)} | {
        f"scope of {last - first:,}": ([streams[name]], first, last, 8.0 if name == "one" else most_ms)
        for name, first, last in _sessions(count)[:2]
    }
    for name, (within, first, last, most) in parts.items():
        shares = [
            len(_exact(many, question, first, last) & {*nearest_ten(question, within)}) / 10
            for question in range(QUESTIONS)
        ]
        figures.append(at_least(f"recall@10 of exact, {name}", statistics.mean(shares), 0.95, ""))
        figures.append(_p50(f"nearest, {name}", lambda question, w=within: nearest_ten(question, w), most))
    figures.append(_p50("search, all", lambda question: store.search(f"question {question} about{question}"), most_ms))
    if near is None:
        figures.append(at_most("bits in memory", bits.size_bytes / 1e6, 20 * count / VECTORS, "MB"))
    return figures


def _on_sqlite(context: Context) -> list[Figure]:
    with context.scratch() as folder:
        return _vectors(f"sqlite:///{folder}/vectors.db", context, 30.0)


def _on_postgres(context: Context) -> list[Figure]:
    assert context.postgres is not None
    return _vectors(context.postgres, context, 50.0)


CASES = (
    Benchmark(
        "recall",
        "How well what answers a question is found: words, vectors, both, beside others.",
        _quality,
        needs_postgres=True,
    ),
    Benchmark("vectors", "200,000 vectors on SQLite: what of the exact nearest is found, and how fast.", _on_sqlite),
    Benchmark("vectors-postgres", "200,000 vectors on PostgreSQL.", _on_postgres, needs_postgres=True),
)

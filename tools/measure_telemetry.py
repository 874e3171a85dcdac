"""Measure what telemetry costs: 1,000 steps of a run in parallel, with it off, exporting, and with an exporter that is dead.

`python tools/measure_telemetry.py [rounds [folder]]`. Prints one JSON document: steps a second, medians and
the best of alternating rounds (a busy machine: read the best), CPU a step, and what was dropped. Needs opentelemetry-sdk.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult

import perdure
from perdure.telemetry import traces

PARALLEL, TIMES = 1_000, 20
FOREVER = threading.Event()


class Counting(SpanExporter):
    """An exporter that takes spans as a collector would, and counts them."""

    count = 0

    def export(self, spans: Any) -> SpanExportResult:
        """Count them."""
        Counting.count += len(spans)
        return SpanExportResult.SUCCESS


class Dead(SpanExporter):
    """An exporter that never comes back."""

    def export(self, spans: Any) -> SpanExportResult:  # noqa: ARG002 - as the SDK calls it
        """Wait for ever."""
        FOREVER.wait()
        return SpanExportResult.FAILURE


async def _answer(number: int) -> int:
    return number


@perdure.agent
async def parallel(run: perdure.AsyncRun) -> int:
    """A thousand steps at once, some times."""
    for _ in range(TIMES):
        await asyncio.gather(*(run.step(_answer, number) for number in range(PARALLEL)))
    return TIMES * PARALLEL


async def once(url: str, provider: TracerProvider | None) -> tuple[float, float]:
    """Steps a second, and microseconds of CPU a step while the run is driven."""
    async with perdure.aopen(url, telemetry=False) as store:
        if provider is not None:
            traces.observe(store._caller.core, provider)
        began, cpu = time.perf_counter(), time.process_time()
        done = await store.drive(parallel)
        return done / (time.perf_counter() - began), (time.process_time() - cpu) / done * 1e6


def provider_of(processor: Any) -> TracerProvider:
    """A provider with one processor."""
    made = TracerProvider()
    made.add_span_processor(processor)
    return made


def main(rounds: int, folder: Path) -> None:
    """Run all kinds in turns."""
    kinds = {
        "off": None,
        "exporting": provider_of(BatchSpanProcessor(Counting())),
        "dead, batch processor": provider_of(BatchSpanProcessor(Dead())),
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in kinds}
    for number in range(rounds):
        for name, provider in kinds.items():
            found[name].append(asyncio.run(once(f"sqlite:///{folder}/{number}-{name[:4]}.db", provider)))
            traces.teller().drain(60) if provider else None
    last = provider_of(SimpleSpanProcessor(Dead()))  # it blocks the thread that tells, for good: so it comes last
    dead = [asyncio.run(once(f"sqlite:///{folder}/dead-{number}.db", last)) for number in range(rounds)]
    found["dead, simple processor"] = dead
    best = max(rate for rate, _ in found["off"])
    rates = {
        name: {
            "median steps/s": round(statistics.median(rate for rate, _ in each)),
            "best steps/s": round(max(rate for rate, _ in each)),
            "best of off": round(max(rate for rate, _ in each) / best, 3),
            "least cpu us": round(min(cpu for _, cpu in each), 1),
        }
        for name, each in found.items()
    }
    print(json.dumps({"rates": rates, "told": Counting.count, "dropped": traces.teller().dropped}, indent=2))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as made:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 5, Path(made))

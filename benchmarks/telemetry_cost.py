"""Measure what telemetry costs: 1,000 steps of a run in parallel, with it off, exported by another process that follows the
feed (`perdure telemetry`), exported by the process itself, and with an exporter that is dead.

`python benchmarks/telemetry_cost.py [rounds [folder]]`. Prints one JSON document: steps a second, medians and
the best of alternating rounds (a busy machine: read the best), CPU a step, and what was dropped. Needs opentelemetry-sdk.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult

import perdure
from perdure.planes.audit import subscriptions
from perdure_server.telemetry import traces

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


async def once(url: str, provider: TracerProvider | None, collector: str | None = None) -> tuple[float, float]:
    """Steps a second, and microseconds of CPU a step while the run is driven. collector: where a follower exports to."""
    async with perdure.aopen(url, telemetry=False) as store:
        if provider is not None:
            traces.observe(store._caller.core, provider)
        with nullcontext() if collector is None else following(store, url, collector):
            began, cpu = time.perf_counter(), time.process_time()
            done = await store.drive(parallel)
            return done / (time.perf_counter() - began), (time.process_time() - cpu) / done * 1e6


FOLLOWED: list[int] = []  # spans that each follower told


@contextmanager
def following(store: perdure.AsyncStore, url: str, collector: str) -> Iterator[None]:
    """`perdure telemetry` follows the store meanwhile, and tells everything before it is stopped."""
    caller = store._caller
    command = [sys.executable, "-m", "perdure", "telemetry", "--json", "--store", url]
    environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": collector}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as program:
        _wait_for(lambda: caller.core.read(subscriptions.is_known, subscriptions.TELEMETRY, tenant=caller.tenant))
        try:
            yield
        finally:
            program.send_signal(signal.SIGTERM)  # it ends after the export in hand
            told = json.loads(program.communicate(timeout=60)[0])["told"]
    rest = subprocess.run([*command, "--once"], env=environment, capture_output=True, text=True, check=True)
    FOLLOWED.append(told + json.loads(rest.stdout)["told"])


def _wait_for(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)


class Collector(BaseHTTPRequestHandler):
    """A collector that takes everything, in a process of its own."""

    def do_POST(self) -> None:
        """Take it."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as http.server calls it
        """Say nothing."""


@contextmanager
def collecting() -> Iterator[str]:
    """The address of a collector."""
    server = HTTPServer(("127.0.0.1", 0), Collector)
    program = multiprocessing.get_context("fork").Process(target=server.serve_forever, daemon=True)
    program.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        program.terminate()
        server.server_close()


def provider_of(processor: Any) -> TracerProvider:
    """A provider with one processor."""
    made = TracerProvider()
    made.add_span_processor(processor)
    return made


def main(rounds: int, folder: Path, collector: str) -> None:
    """Run all kinds in turns."""
    kinds = {
        "off": None,
        "followed": TracerProvider(),
        "exporting": provider_of(BatchSpanProcessor(Counting())),
        "dead, batch processor": provider_of(BatchSpanProcessor(Dead())),
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in kinds}
    for number in range(rounds):
        for name, provider in kinds.items():
            to = collector if name == "followed" else None
            found[name].append(asyncio.run(once(f"sqlite:///{folder}/{number}-{name[:4]}.db", provider, to)))
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
    print(
        json.dumps(
            {"rates": rates, "told": Counting.count, "followed": FOLLOWED, "dropped": traces.teller().dropped}, indent=2
        )
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as made, collecting() as address:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 5, Path(made), address)

"""A run whose process is killed inside every one of its effects, traced to a file: `killed_agent.py FOLDER KILLS [untold]`.

Each child is a fork that opens the store anew and drives the run until the tool kills it; the last one ends the run. Spans are
written by a processor that exports at once, and the tool waits for them before it kills, so that no buffer hides a second span.
With `untold` no process tells any.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

import perdure
from perdure.runtime.callers import caller_of
from perdure_server.telemetry import traces

FOLDER, KILLS = Path(sys.argv[1]), int(sys.argv[2])


class ToFile(SpanExporter):
    """One JSON line a span, with the process that told it."""

    def export(self, spans) -> SpanExportResult:
        with (FOLDER / "spans").open("a") as out:
            out.writelines(json.dumps(line(span)) + "\n" for span in spans)
        return SpanExportResult.SUCCESS


def line(span: ReadableSpan) -> dict[str, object]:
    assert span.context is not None
    parent = None if span.parent is None else f"{span.parent.span_id:016x}"
    trace = f"{span.context.trace_id:032x}"
    return {
        "name": span.name,
        "trace": trace,
        "parent": parent,
        "pid": os.getpid(),
        "about": dict(span.attributes or {}),
    }


@perdure.tool(kind="idempotent", backoff="1ms")
def send(number: int) -> int:
    """Kills its process the first time that it is called with a number."""
    seen = FOLDER / f"seen-{number}"
    if not seen.exists():
        seen.touch()
        traces.teller().drain(60)
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@perdure.agent
def killed(run: perdure.Run) -> int:
    for number in range(KILLS):
        run.step(abs, -number)
        run.act(send, number)
    return KILLS


def drive() -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ToFile()))
    with perdure.open(f"sqlite:///{FOLDER}/a.db") as store:
        if sys.argv[3:] != ["untold"]:
            traces.observe(caller_of(store).core, provider)
        store.drive(killed, key="k")
        traces.teller().drain(60)


def main() -> None:
    for _ in range(KILLS + 1):
        child = os.fork()
        if not child:
            drive()
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()

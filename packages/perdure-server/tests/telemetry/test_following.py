"""Spans by following the feed: the same story as from the commits, told by another process, which may be killed anywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import perdure
from perdure.planes.audit import subscriptions
from perdure.runtime.callers import caller_of
from perdure_server.telemetry import collector, names

pytest.importorskip("opentelemetry.sdk", reason="needs opentelemetry-sdk: `make setup` installs it")

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from perdure_server.telemetry import feed_follower, traces
from perdure_server.telemetry.store_reads import StoreReads

PATIENCE_SECONDS = 60


@perdure.tool(kind="idempotent")
def deliver(what: str) -> str:
    return what


def slow(what: str) -> int:
    threading.Event().wait(0.002)
    return len(what)


@perdure.agent(name="followed")
def agent(run: perdure.Run, what: str) -> str:
    run.step(len, what)
    run.step(slow, what)
    run.act(deliver, what)
    return run.ask("go on?")


STORY = {
    "perdure.step len": 1, "perdure.step slow": 1, "execute_tool deliver": 1, "perdure.wait ask": 1, "invoke_agent followed": 2,
    "invoke_workflow followed": 1,
}  # fmt: skip


def drive_first(store: perdure.Store) -> None:
    with pytest.raises(perdure.Waiting):
        store.drive(agent, "abc", key="k")


def drive_on(store: perdure.Store) -> None:
    store.answer(next(iter(store.asks())).id, "yes")
    assert store.drive(agent, "abc", key="k") == "yes"


def follower(store: perdure.Store, exporter: SpanExporter, sampler=None) -> feed_follower.Follower:
    made = feed_follower.Follower(caller_of(store), TracerProvider(sampler=sampler), exporter)
    made.begin("beginning")
    return made


def told(exporter: InMemorySpanExporter) -> Counter[str]:
    return Counter(span.name for span in exporter.get_finished_spans())


@pytest.fixture
def store(tmp_path) -> Iterator[perdure.Store]:
    with perdure.open(f"sqlite:///{tmp_path}/a.db", telemetry=False) as opened:
        yield opened


def test_a_run_is_one_story(store):
    exporter = InMemorySpanExporter()
    drive_first(store)
    drive_on(store)
    assert follower(store, exporter).follow(threading.Event(), once=True)
    assert told(exporter) == STORY
    assert len({span.context.trace_id for span in exporter.get_finished_spans()}) == 1
    lengths = {span.name: span.end_time - span.start_time for span in exporter.get_finished_spans()}
    assert lengths["perdure.step slow"] >= 1_000_000 > lengths["perdure.step len"]


def tell_in_pieces(store: perdure.Store, exporter: SpanExporter) -> None:
    """Two followers, one after the other, the second one beginning in the middle of the story."""
    drive_first(store)
    follower(store, exporter).follow(threading.Event(), once=True)
    store.answer(next(iter(store.asks())).id, "yes")
    seen: list[str] = []

    @perdure.tool(kind="idempotent")
    def look() -> None:
        follower(store, exporter).follow(threading.Event(), once=True)
        seen.append("looked")

    @perdure.agent(name="followed-inside")
    def inside(run: perdure.Run) -> None:
        run.act(look)

    store.drive(inside)
    assert store.drive(agent, "abc", key="k") == "yes"
    follower(store, exporter).follow(threading.Event(), once=True)
    assert seen


def test_another_follower_continues_in_the_middle(store):
    exporter = InMemorySpanExporter()
    tell_in_pieces(store, exporter)
    inside = {"invoke_agent followed-inside": 1, "invoke_workflow followed-inside": 1, "execute_tool look": 1}
    assert told(exporter) == STORY | inside


def test_control_a_follower_that_reads_nothing_loses_drives(store, monkeypatch):
    monkeypatch.setattr(StoreReads, "claim", lambda *_: None)
    exporter = InMemorySpanExporter()
    tell_in_pieces(store, exporter)
    assert told(exporter)["invoke_agent followed-inside"] == 0


class Failing(InMemorySpanExporter):
    """A collector that takes spans and whose answer is lost, some times."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures

    def export(self, spans) -> SpanExportResult:
        super().export(spans)
        self.failures -= 1
        return SpanExportResult.FAILURE if self.failures >= 0 else SpanExportResult.SUCCESS


def test_what_is_told_twice_is_the_same_span(store):
    """Nothing is lost while a collector fails, and a repeated span has the id that it had."""
    drive_first(store)
    drive_on(store)
    exporter = Failing(2)
    one = follower(store, exporter)
    assert [one.follow(threading.Event(), once=True) for _ in range(3)] == [False, False, True]
    spans = exporter.get_finished_spans()
    assert len(spans) == 3 * sum(STORY.values())
    assert Counter(name for name, _ in {(span.name, span.context.span_id) for span in spans}) == STORY
    assert one.told == sum(STORY.values())


def test_a_run_that_is_not_sampled_makes_no_spans(store):
    drive_first(store)
    exporter = InMemorySpanExporter()
    follower(store, exporter, ALWAYS_OFF).follow(threading.Event(), once=True)
    assert not told(exporter)


def test_a_run_killed_twenty_times_is_one_story(tmp_path):
    """Nothing is told by those who are killed; the follower tells each thing once."""
    kills = 20
    program = Path(__file__).with_name("killed_agent.py")
    subprocess.run([sys.executable, str(program), str(tmp_path), str(kills), "untold"], check=True, timeout=600)
    assert not (tmp_path / "spans").exists()
    exporter = InMemorySpanExporter()
    with perdure.open(f"sqlite:///{tmp_path}/a.db", telemetry=False) as store:
        follower(store, exporter).follow(threading.Event(), once=True)
    assert told(exporter) == {
        "perdure.step abs": kills, "execute_tool send": kills, "invoke_agent killed": 1, "invoke_workflow killed": 1
    }  # fmt: skip
    effects = [span for span in exporter.get_finished_spans() if span.name == "execute_tool send"]
    assert all(span.attributes[names.DOUBT] for span in effects)


@pytest.mark.parametrize("followed", [True, False])
def test_processes_that_work_leave_it_to_the_follower(store, followed):
    """With a follower each span is told once, by it; without one (the control) the process tells its own."""
    own, other = InMemorySpanExporter(), InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(own))
    traces.observe(caller_of(store).core, provider)
    one = follower(store, other) if followed else None
    drive_first(store)
    drive_on(store)
    assert traces.teller().drain(PATIENCE_SECONDS)
    if one is not None:
        one.follow(threading.Event(), once=True)
    assert (told(own), told(other)) == (({}, STORY) if followed else (STORY, {}))


# -- the command -----------------------------------------------------------------------------------------------------------


@contextmanager
def loopback_collector(status: int = 200) -> Iterator[tuple[str, list[str]]]:
    """A collector on loopback: its address, and the names of the spans that came."""
    came: list[str] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            import gzip

            data = self.rfile.read(int(self.headers["Content-Length"]))
            data = gzip.decompress(data) if self.headers.get("Content-Encoding") == "gzip" else data
            asked = ExportTraceServiceRequest.FromString(data)
            if status == 200:
                came.extend(
                    span.name for each in asked.resource_spans for scope in each.scope_spans for span in scope.spans
                )
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", came
    finally:
        server.shutdown()
        server.server_close()


def run_command(url: str, endpoint: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "perdure", "telemetry", "--json", "--store", url, *words]
    environment = {**os.environ, collector.ENDPOINTS[1]: endpoint}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=600)


def test_the_command_exports_to_a_collector_and_keeps_its_place(tmp_path):
    url = f"sqlite:///{tmp_path}/a.db"
    with perdure.open(url, telemetry=False) as store:
        drive_first(store)
        drive_on(store)
    with loopback_collector(status=400) as (endpoint, came):
        failed = run_command(url, endpoint, "--once", "--from-start")
    assert (failed.returncode, came) == (perdure.Unavailable.exit_code, [])
    assert "nothing is lost" in failed.stderr
    with loopback_collector() as (endpoint, came):
        done = run_command(url, endpoint, "--once")
        assert json.loads(done.stdout) == {"told": sum(STORY.values())}
        assert Counter(came) == STORY
        assert json.loads(run_command(url, endpoint, "--once").stdout) == {"told": 0}


def test_without_a_collector_it_says_what_to_do(tmp_path):
    url = f"sqlite:///{tmp_path}/a.db"
    perdure.open(url).close()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    command = [sys.executable, "-m", "perdure", "telemetry", "--once", "--store", url]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=600)
    assert done.returncode == perdure.Refused.exit_code
    assert collector.ENDPOINTS[1] in done.stderr


def test_spans_pass_the_exporter_of_the_sdk(store):
    """`ReadableSpan` is made by hand: the SDK's own exporter must be able to encode it."""
    drive_first(store)
    with loopback_collector() as (endpoint, came):
        exporter = OTLPSpanExporter(endpoint=f"{endpoint}/v1/traces")
        assert follower(store, exporter).follow(threading.Event(), once=True)
        exporter.shutdown()
    assert "execute_tool deliver" in came
    assert ReadableSpan.__module__ == "opentelemetry.sdk.trace"


def test_its_subscription_has_the_name_under_which_stores_have_its_position() -> None:
    """A stored name: another one would lose the position, and old and new processes would both tell the spans."""
    assert subscriptions.TELEMETRY == "perdure.telemetry"

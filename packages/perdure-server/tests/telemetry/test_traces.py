"""Traces: each thing that a run does is one span, told after its commit, in one trace; an exporter delays no write."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

import perdure
from perdure.runtime.callers import caller_of
from perdure_server.telemetry import collector, names

pytest.importorskip("opentelemetry.sdk", reason="needs opentelemetry-sdk: `make setup` installs it")

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased

from perdure_server.telemetry import traces

CANARY = "canary-5b1d"
PATIENCE_SECONDS = 60


class Traced:
    """A store in memory or a file, and the spans that were told of it."""

    def __init__(self, url: str, *, content: bool = False, sampler=None) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider(sampler=sampler)
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = provider.get_tracer("test")
        self.store = perdure.open(url)
        traces.observe(caller_of(self.store).core, provider, content=content)

    def spans(self):
        assert traces.teller().drain(PATIENCE_SECONDS)
        return self.exporter.get_finished_spans()

    def names(self) -> Counter[str]:
        return Counter(span.name for span in self.spans())


@pytest.fixture
def traced(tmp_path):
    made = Traced(f"sqlite:///{tmp_path}/a.db")
    with made.store:
        yield made


@perdure.tool(kind="idempotent")
def send(what: str) -> str:
    return what


@perdure.tool
def refuse(what: str) -> None:
    raise perdure.Failed(what, code="No")


def model(question: str) -> dict:
    return {"text": question, "usage": {"input_tokens": 7, "output_tokens": 3}}


@perdure.agent
def worker(run: perdure.Run, what: str) -> str:
    run.step(len, what)
    run.model(model, what, pins={"model": "m-1", "provider": "p"})
    run.act(send, what)
    with contextlib.suppress(perdure.Failed):
        run.act(refuse, what)
    return run.ask("go on?")


@perdure.agent(name="traced-parent")
def parent(run: perdure.Run) -> int:
    return run.step(len, "abc") + run.start(child).result()


@perdure.agent(name="traced-child")
def child(run: perdure.Run) -> int:
    return run.step(len, "ab")


def test_a_run_is_one_story(traced):
    """Two drives with an answer in between: each thing once, in the trace of the run, with the names of the conventions."""
    store = traced.store
    with pytest.raises(perdure.Waiting):
        store.drive(worker, CANARY, key="k")
    store.answer(next(iter(store.asks())).id, "yes")
    assert store.drive(worker, CANARY, key="k") == "yes"
    assert traced.names() == {
        "perdure.step len": 1, "chat m-1": 1, "execute_tool send": 1, "execute_tool refuse": 1, "perdure.wait ask": 1,
        "invoke_agent worker": 2, "invoke_workflow worker": 1,
    }  # fmt: skip
    spans = {span.name: span for span in traced.spans()}
    assert len({span.context.trace_id for span in traced.spans()}) == 1
    chat = spans["chat m-1"].attributes
    assert (chat[names.INPUT_TOKENS], chat[names.OUTPUT_TOKENS], chat[names.PROVIDER_NAME]) == (7, 3, "p")
    assert spans["execute_tool refuse"].attributes[names.ERROR_TYPE] == "No"
    assert not spans["execute_tool refuse"].status.is_ok
    assert spans["perdure.wait ask"].attributes[names.WAIT_STATE] == "met"
    assert all(span.start_time <= span.end_time for span in traced.spans())


def test_nothing_of_bodies_unless_asked_for(tmp_path):
    for content in (False, True):
        traced = Traced(f"sqlite:///{tmp_path}/{content}.db", content=content)
        with traced.store as store:
            with pytest.raises(perdure.Waiting):
                store.drive(worker, CANARY, key="k")
            told = "".join(span.to_json() for span in traced.spans())
        assert (CANARY in told) is content


def test_replayed_steps_make_no_spans(traced):
    for _ in range(3):
        with pytest.raises(perdure.Waiting):
            traced.store.drive(worker, "x", key="k")
        traced.store.run(next(iter(traced.store.runs())).id).resume()
    assert traced.names()["perdure.step len"] == 1
    assert traced.names()["chat m-1"] == 1


def test_a_child_is_linked_to_the_run_that_started_it(traced):
    assert traced.store.drive(parent) == 5
    ends = {span.name: span for span in traced.spans()}
    own, other = ends["invoke_workflow traced-parent"], ends["invoke_workflow traced-child"]
    assert [link.context.trace_id for link in other.links] == [own.context.trace_id]
    assert other.context.trace_id != own.context.trace_id


def test_spans_of_the_program_belong_to_the_run(traced):
    @perdure.agent
    def spanning(run: perdure.Run) -> str:
        with traced.tracer.start_as_current_span("own"):
            return run.step(str, 1)

    traced.store.drive(spanning)
    spans = {span.name: span for span in traced.spans()}
    assert spans["own"].context.trace_id == spans["perdure.step str"].context.trace_id
    assert not trace.get_current_span().get_span_context().is_valid, "the context was left inside"


def test_a_run_that_is_not_sampled_makes_no_spans(tmp_path):
    traced = Traced(f"sqlite:///{tmp_path}/a.db", sampler=ParentBased(ALWAYS_OFF))
    with traced.store as store:
        store.drive(child)
        assert not traced.spans()


def test_a_run_killed_twenty_times_is_one_story(tmp_path):
    """Every effect is in doubt once, and is told once, by the process that settled it; no step is told twice."""
    kills = 20
    program = Path(__file__).with_name("killed_agent.py")
    subprocess.run([sys.executable, str(program), str(tmp_path), str(kills)], check=True, timeout=600)
    told = [json.loads(line) for line in (tmp_path / "spans").read_text().splitlines()]
    assert Counter(span["name"] for span in told) == {
        "perdure.step abs": kills, "execute_tool send": kills, "invoke_agent killed": 1, "invoke_workflow killed": 1
    }  # fmt: skip
    places = Counter(span["about"].get(names.PLACE) for span in told if names.PLACE in span["about"])
    assert max(places.values()) == 1
    assert len({(span["trace"], span["parent"]) for span in told}) == 1
    assert len({span["pid"] for span in told}) == kills + 1
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        record = next(iter(store.runs()))
    assert {span["about"][names.RUN_ID] for span in told} == {record.id}


class Stuck(SpanExporter):
    """An exporter that never comes back until it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.free = threading.Event()

    def export(self, spans) -> SpanExportResult:
        self.entered.set()
        self.free.wait()
        return SpanExportResult.SUCCESS


def test_a_dead_exporter_delays_no_write(tmp_path, monkeypatch):
    """The exporter hangs inside the processor that exports at once; runs go on, and what does not fit is dropped and counted."""
    monkeypatch.setattr(traces, "WAITING_MAX_BYTES", 2_000)
    exporter = Stuck()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    before = traces.teller().dropped
    try:
        with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
            traces.observe(caller_of(store).core, provider)
            store.drive(child)
            assert exporter.entered.wait(PATIENCE_SECONDS)
            for _ in range(20):
                assert store.drive(child) == 2
            assert not exporter.free.is_set()
            assert traces.teller().dropped > before
    finally:
        exporter.free.set()
    assert traces.teller().drain(PATIENCE_SECONDS)


def test_a_failing_exporter_is_nobodys_error(tmp_path, monkeypatch):
    traced = Traced(f"sqlite:///{tmp_path}/a.db")
    monkeypatch.setattr(traces.Tracing, "_export", lambda *_: 1 / 0)
    with traced.store as store:
        assert store.drive(child) == 2
        assert not traced.spans()


def test_import_loads_nothing_of_it():
    """`import perdure` and a store leave OpenTelemetry alone, though it is installed."""
    said = "import sys, perdure; perdure.open('memory:').close(); print('opentelemetry' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", said], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(("configured", "asked", "seen"), [
    (False, None, False), (True, None, True), (True, False, False), (False, True, True), (True, "content", True),
])  # fmt: skip
def test_by_default_where_the_application_has_set_it_up(monkeypatch, configured, asked, seen):
    monkeypatch.setattr(traces, "is_configured", lambda: configured)
    with perdure.open("memory:", telemetry=asked) as store:
        assert (caller_of(store).core.lane.observer is not None) is seen


def test_a_wrong_word_is_refused():
    with pytest.raises(perdure.Invalid, match="telemetry"):
        perdure.open("memory:", telemetry="bodies")


def test_names_are_those_of_the_conventions():
    """Each name of `gen_ai.` stands in the package that has them, but for the ones that moved after it."""
    attributes = pytest.importorskip("opentelemetry.semconv._incubating.attributes.gen_ai_attributes")
    known = {value for value in vars(attributes).values() if isinstance(value, str)}
    ours = {value for value in vars(names).values() if isinstance(value, str) and value.startswith("gen_ai.")}
    assert ours - known <= {names.CACHE_WRITE_TOKENS, names.WORKFLOW_NAME}
    assert {member.value for member in attributes.GenAiOperationNameValues} >= {
        names.INVOKE_AGENT, names.EXECUTE_TOOL, names.CHAT,
    }  # fmt: skip


@pytest.mark.parametrize(("environment", "wanted"), [
    ({}, None), ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, "otlp"), ({"OTEL_TRACES_EXPORTER": "console"}, "console"),
    ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "none"}, None),
    ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "true"}, None),
])  # fmt: skip
def test_the_environment_chooses_the_exporter(monkeypatch, environment, wanted):
    for name in (*collector.ENDPOINTS, collector.CHOICE, collector.DISABLED):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert collector.exporter_choice() == wanted


def test_an_unknown_exporter_is_refused(monkeypatch):
    monkeypatch.setenv(collector.CHOICE, "jaeger")
    with pytest.raises(perdure.Refused, match="otlp, console or none"):
        collector.begin("x")


def test_a_worker_exports_by_its_environment(tmp_path):
    """`begin` sets up a provider that the next store finds, and what it exports goes out when the process ends."""
    text = (
        "import perdure; from perdure_server.telemetry import collector\n"
        "assert collector.begin('w'); assert not collector.begin('w')\n"
        "@perdure.agent\ndef child(run): return run.step(len, 'ab')\n"
        f"perdure.open('sqlite:///{tmp_path}/a.db').drive(child)\n"
    )
    (tmp_path / "program.py").write_text(text)
    words = [sys.executable, str(tmp_path / "program.py")]
    done = subprocess.run(
        words, check=True, capture_output=True, text=True, env={**os.environ, collector.CHOICE: "console"}
    )
    assert '"perdure.step len"' in done.stderr
    assert '"service.name": "w"' in done.stderr

"""OpenTelemetry: the spans of a store, told to whatever tracer provider the application has (docs/decisions/0061).

The lane hands each committed batch over and goes on; a thread of this module makes spans of it. So an exporter that is slow or
dead delays no write: the thread falls behind, and beyond a bound batches are dropped and counted. Loaded by `perdure.open` only
when the process uses OpenTelemetry. All spans of a run, whichever processes drove it, share one trace: its id is the run's uid.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from opentelemetry import context, trace
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from perdure.errors import Error
from perdure.log.change import Stream
from perdure.model.instants import SECOND_US
from perdure.planes.execution import runs
from perdure.planes.reading.body_reading import doc_of
from perdure.planes.tables import EFFECTS, WAITS
from perdure.stores.core import Core
from perdure.stores.store import NewEvent
from perdure.telemetry import names
from perdure.telemetry.spans import TABLES, Begun, RunFacts, Spans, ToldSpan

log = logging.getLogger("perdure.telemetry")

WAITING_MAX_BYTES = 32 << 20  # of bodies that were not told yet; beyond it they are dropped
GATHER_SECONDS = 0.05
SLICE_SECONDS = 0.001  # of telling; then the interpreter is others'
SHARE = 1 / 40  # of the time goes into telling while the store is being written to
EXIT_SECONDS = 2.0
CONTEXTS_MAX = 10_000
_OLD_US = 600 * SECOND_US  # an event of this age was recorded elsewhere, and is brought here (an import)
Events = Sequence[tuple[Stream, NewEvent]]


def observe(core: Core, provider: trace.TracerProvider | None = None, *, content: bool = False) -> Tracing:
    """Tell the spans of a store from now on. provider: default the application's."""
    observer = Tracing(core, provider or trace.get_tracer_provider(), content=content)
    core.lane.observer = observer
    return observer


def is_configured() -> bool:
    """Whether the application has set up OpenTelemetry, so that spans go anywhere."""
    provider = trace.get_tracer_provider()
    return not isinstance(provider, (trace.ProxyTracerProvider, trace.NoOpTracerProvider))


class Tracing:
    """The listener of one open store (`stores.lane.Observer`). Every method that it calls returns at once."""

    def __init__(self, core: Core, provider: trace.TracerProvider, *, content: bool) -> None:
        self._now = core.clocks.now
        self._spans = Spans(StoreReads(core), core.uid, self._now, content=content)
        self._tracer = trace.get_tracer("perdure", tracer_provider=provider)
        self._sampler = getattr(provider, "sampler", None)
        self._contexts: OrderedDict[bytes, SpanContext] = OrderedDict()
        self.begins = self._spans.step_begins

    def committed(self, events: Events) -> None:
        """A batch is durable."""
        told = [pair for pair in events if pair[1].tbl in TABLES]
        if told and self._now() - told[0][1].at < _OLD_US:
            teller().put(self, told)

    @contextlib.contextmanager
    def inside(self, stream: Stream) -> Iterator[None]:
        """The program of a run is called: spans that it makes itself belong to the trace of the run."""
        token = context.attach(trace.set_span_in_context(NonRecordingSpan(self.root(stream.uid, stream.name))))
        try:
            yield
        finally:
            context.detach(token)

    def tell(self, events: Events) -> Iterator[None]:
        """Make the spans of a batch, with a yield after each. On the thread of the teller."""
        for stream, event in events:
            if stream.kind == "run" and not self.root(stream.uid, stream.name).trace_flags.sampled:
                continue
            for span in self._spans.tell(stream, event):
                self._export(span)
                yield

    def root(self, uid: bytes, name: str) -> SpanContext:
        """The context that all spans of a run hang on. Whether it is sampled is decided once, by the provider's sampler."""
        found = self._contexts.get(uid)
        if found is None:
            number = int.from_bytes(uid)
            sampled = self._sampler is None or self._sampler.should_sample(None, number, name).decision.is_sampled()
            flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
            found = self._contexts[uid] = SpanContext(
                number, int.from_bytes(uid[:8]) or 1, is_remote=True, trace_flags=flags
            )
            if len(self._contexts) > CONTEXTS_MAX:
                self._contexts.popitem(last=False)
        return found

    def _export(self, span: ToldSpan) -> None:
        linked = [] if span.linked is None else [Link(self.root(span.linked, ""))]
        # A session lives for ever and is no trace: what is done in one outside a run begins a trace of its own.
        in_run = names.RUN_ID in span.attributes
        parent = (
            trace.set_span_in_context(NonRecordingSpan(self.root(span.trace, span.name)))
            if in_run
            else context.Context()
        )
        chat = span.attributes.get(names.OPERATION) == names.CHAT
        made = self._tracer.start_span(
            span.name,
            parent,
            SpanKind.CLIENT if chat else SpanKind.INTERNAL,
            span.attributes,
            linked,
            span.begin_us * 1000,
        )
        if span.error is not None:
            made.set_status(Status(StatusCode.ERROR))
        made.end(span.end_us * 1000)


class StoreReads:
    """Reads of an open store for spans; see `spans.Reading`. A store that was closed since, or is away, knows nothing."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def run(self, stream: Stream) -> RunFacts | None:
        """A run by its row."""
        row = self._read(stream, runs.row_of, stream)
        if row is None:
            return None
        parent = None if row["parent"] is None else self.run_uid(stream, row["parent"])
        return RunFacts(row["agent"], row["session"], parent, row["created_at"])

    def run_uid(self, stream: Stream, name: str) -> bytes | None:
        """The uid of another run of the tenant."""
        found = self._read(stream, runs.find, name)
        return None if found is None else found.uid

    def begun(self, stream: Stream, table: str, seq: int) -> Begun | None:
        """An effect or a wait by its row."""
        which = EFFECTS if table == "effects" else WAITS
        row = self._read(stream, lambda reader: reader.row(which, stream, seq))
        if row is None:
            return None
        told = {names.PLACE: row["place"]}
        if which is WAITS:
            return Begun(row["at"], row["kind"], told)
        told |= {names.TOOL_NAME: row["tool"], names.EFFECT_KIND: row["kind"], names.TOOL_CALL_ID: row["call"]}
        told |= {names.EFFECT_ATTEMPT: row["attempt"]}
        return Begun(row["at"], row["tool"], told, doubts=int(row["mishaps"] > 0))

    def document(self, stream: Stream, body: bytes) -> Any:
        """The document of an event that lies in a blob."""
        return self._read(stream, doc_of, body)

    def _read(self, stream: Stream, verb: Callable[..., Any], *args: Any) -> Any:
        try:
            return self._core.read(verb, *args, tenant=stream.tenant)
        except Error:
            return None


# -- the thread that tells -------------------------------------------------------------------------------------------------


class Teller:
    """Takes committed batches from any thread, and tells their spans on its own. One for each process."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.dropped = 0  # events whose spans are not told, because the exporter is too slow
        self._waiting: deque[tuple[Tracing, Events, int]] = deque()
        self._bytes = 0
        self._woken = threading.Event()
        self._busy = False
        self._puts = 0
        threading.Thread(target=self._run, name="perdure-telemetry", daemon=True).start()

    def put(self, observer: Tracing, events: Events) -> None:
        """Take a batch, or drop it if too much is waiting. Never waits."""
        size = sum(len(event.body or b"") for _, event in events)
        if self._bytes > WAITING_MAX_BYTES:
            self.dropped += len(events)
            return
        self._puts += 1
        self._bytes += size  # approximate between threads: a bound on memory, not an account
        self._waiting.append((observer, events, size))
        if not self._woken.is_set():
            self._woken.set()

    def drain(self, seconds: float) -> bool:
        """Wait until everything is told, so long at most; whether it is."""
        deadline = time.monotonic() + seconds
        while self._waiting or self._busy:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.005)
        return True

    def _run(self) -> None:
        reported = 0
        while True:
            self._woken.wait()
            time.sleep(GATHER_SECONDS)  # one wake-up for many batches
            self._woken.clear()
            self._busy = True
            self._tell_all()
            self._busy = False
            if self.dropped > reported:
                log.warning("the exporter is too slow: %d events were not told as spans", self.dropped - reported)
                reported = self.dropped

    def _tell_all(self) -> None:
        slice_began, puts = time.perf_counter(), self._puts
        while self._waiting:
            observer, events, size = self._waiting.popleft()
            self._bytes -= size
            try:
                for _ in observer.tell(events):
                    took = time.perf_counter() - slice_began
                    if took > SLICE_SECONDS:
                        time.sleep(0 if self._puts == puts else took / SHARE)
                        slice_began, puts = time.perf_counter(), self._puts
            except Exception as error:  # noqa: BLE001 - whatever an exporter raises, nobody waits for it
                log.warning("spans of %d events could not be told: %s", len(events), type(error).__name__)


_mutex: Final = threading.Lock()
_teller: Teller | None = None


def teller() -> Teller:
    """The one of this process; a fork has another."""
    global _teller  # noqa: PLW0603 - a thread of the process
    found = _teller
    if found is None or found.pid != os.getpid():
        with _mutex:
            if _teller is None or _teller.pid != os.getpid():
                _teller = Teller()
                atexit.register(_teller.drain, EXIT_SECONDS)  # before the provider's own, which was registered earlier
            found = _teller
    return found

"""OpenTelemetry: the spans of a store, told to whatever tracer provider the application has (decisions 0061, 0082).

The lane hands each committed batch over and goes on; a thread of this module makes spans of it. So an exporter that is slow or
dead delays no write: the thread falls behind, and beyond a bound batches are dropped and counted. Loaded by `perdure.open` only
when the process uses OpenTelemetry. All spans of a run, whichever processes drove it, share one trace: its id is the run's uid.
Of a tenant whose feed a process follows (`feed_follower`), nothing is told here: the program of a run only gets its context.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from typing import Any, Final

from opentelemetry import context, trace
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from perdure.errors import Error
from perdure.log.change import Stream
from perdure.model.instants import SECOND_US
from perdure.planes.audit import subscriptions
from perdure.stores.core import Core
from perdure.stores.store import NewEvent
from perdure_server.telemetry import names
from perdure_server.telemetry.spans import TABLES, Spans, ToldSpan
from perdure_server.telemetry.store_reads import StoreReads

log = logging.getLogger("perdure.telemetry")

WAITING_MAX_BYTES = 16 << 20  # of bodies that were not told yet; beyond it they are dropped
GATHER_SECONDS = 0.05
SLICE_SECONDS = 0.001  # of telling; then the interpreter is others'
WRITTEN_SECONDS = 0.25  # after a commit the store is being written to for so long
LEAST_SHARE = 1 / 40  # of the time goes into telling meanwhile
MOST_SHARE = 1 / 2  # when much is waiting
FOLLOWED_US = 10 * SECOND_US  # how long it is believed that somebody follows a feed, or nobody does
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


def root_of(uid: bytes, name: str, sampler: Any) -> SpanContext:
    """The context that all spans of a run hang on, made from its uid alone; a sampler decides whether it is told."""
    number = int.from_bytes(uid)
    sampled = sampler is None or sampler.should_sample(None, number, name).decision.is_sampled()
    flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
    return SpanContext(number, int.from_bytes(uid[:8]) or 1, is_remote=True, trace_flags=flags)


def kind_of(span: ToldSpan) -> SpanKind:
    """The kind of a span by the conventions."""
    return SpanKind.CLIENT if span.attributes.get(names.OPERATION) == names.CHAT else SpanKind.INTERNAL


class Tracing:
    """The listener of one open store (`stores.lane.Observer`). Every method that it calls returns at once."""

    def __init__(self, core: Core, provider: trace.TracerProvider, *, content: bool) -> None:
        self._now = core.clocks.now
        self._spans = Spans(StoreReads(core), core.uid, self._now, content=content)
        self._tracer = trace.get_tracer("perdure", tracer_provider=provider)
        self._sampler = getattr(provider, "sampler", None)
        self._contexts: OrderedDict[bytes, SpanContext] = OrderedDict()
        self._core = core
        self._looked: dict[int, int] = {}  # tenants, and when it was looked whether their feed is followed
        self._followed: dict[int, int] = {}  # those whose feed is, and until when that is believed

    def committed(self, events: Events) -> None:
        """A batch is durable."""
        now, followed = self._now(), self._followed
        pairs = [
            pair
            for pair in events
            if pair[1].tbl in TABLES and not (followed and followed.get(pair[0].tenant, 0) > now)
        ]
        if pairs and now - pairs[0][1].at < _OLD_US:
            teller().put(self, pairs)

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
            if self._is_followed(stream.tenant):
                continue
            if stream.kind == "run" and not self.root(stream.uid, stream.name).trace_flags.sampled:
                continue
            for span in self._spans.tell(stream, event):
                self._export(span)
                yield

    def _is_followed(self, tenant: int) -> bool:
        """Whether a process follows the feed of a tenant and tells its spans. Looked up from time to time."""
        now = self._now()
        if now - self._looked.get(tenant, 0) > FOLLOWED_US:
            self._looked[tenant] = now
            try:
                is_followed = self._core.read(subscriptions.is_known, subscriptions.TELEMETRY, tenant=tenant)
            except Error:
                is_followed = False  # closed since, or away
            self._followed[tenant] = now + FOLLOWED_US if is_followed else 0
        return self._followed.get(tenant, 0) > 0

    def root(self, uid: bytes, name: str) -> SpanContext:
        """The context that all spans of a run hang on. Whether it is sampled is decided once, by the provider's sampler."""
        span_context = self._contexts.get(uid)
        if span_context is None:
            span_context = self._contexts[uid] = root_of(uid, name, self._sampler)
            if len(self._contexts) > CONTEXTS_MAX:
                self._contexts.popitem(last=False)
        return span_context

    def _export(self, span: ToldSpan) -> None:
        linked = [] if span.linked is None else [Link(self.root(span.linked, ""))]
        # A session lives for ever and is no trace: what is done in one outside a run begins a trace of its own.
        in_run = names.RUN_ID in span.attributes
        parent = (
            trace.set_span_in_context(NonRecordingSpan(self.root(span.trace, span.name)))
            if in_run
            else context.Context()
        )
        own_span = self._tracer.start_span(
            span.name, parent, kind_of(span), span.attributes, linked, span.begin_us * 1000
        )
        if span.error is not None:
            own_span.set_status(Status(StatusCode.ERROR))
        own_span.end(span.end_us * 1000)


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
        self._put_at = 0.0  # when the last batch came
        threading.Thread(target=self._run, name="perdure-telemetry", daemon=True).start()

    def put(self, observer: Tracing, events: Events) -> None:
        """Take a batch, or drop it if too much is waiting. Never waits."""
        size = sum(len(event.body or b"") for _, event in events)
        if self._bytes > WAITING_MAX_BYTES:
            self.dropped += len(events)
            return
        self._put_at = time.perf_counter()
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
        slice_began = time.perf_counter()
        while self._waiting:
            observer, events, size = self._waiting.popleft()
            self._bytes -= size
            try:
                for _ in observer.tell(events):
                    took = time.perf_counter() - slice_began
                    if took > SLICE_SECONDS:
                        time.sleep(self._rest(took))
                        slice_began = time.perf_counter()
            except Exception as error:  # noqa: BLE001 - whatever an exporter raises, nobody waits for it
                log.warning("spans of %d events could not be told: %s", len(events), type(error).__name__)

    def _rest(self, took_seconds: float) -> float:
        """How long to leave the interpreter to others after telling for so long: the fuller the queue, the less."""
        if time.perf_counter() - self._put_at > WRITTEN_SECONDS:
            return 0
        share = min(MOST_SHARE, max(LEAST_SHARE, self._bytes / WAITING_MAX_BYTES - 1 / 2))
        return took_seconds * (1 / share - 1)


_mutex: Final = threading.Lock()
_teller: Teller | None = None


def teller() -> Teller:
    """The one of this process; a fork has another."""
    global _teller  # noqa: PLW0603 - a thread of the process
    current = _teller
    if current is None or current.pid != os.getpid():
        with _mutex:
            if _teller is None or _teller.pid != os.getpid():
                _teller = Teller()
                atexit.register(_teller.drain, EXIT_SECONDS)  # before the provider's own, which was registered earlier
            current = _teller
    return current

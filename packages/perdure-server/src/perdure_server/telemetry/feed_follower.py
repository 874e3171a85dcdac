"""Spans by following a store's feed: another process tells what workers did, and they pay nothing for it (decision 0082).

The position is a subscription of the feed, so a follower that is killed continues where it was, and nothing is lost. It moves
after an export succeeded: what was exported right before a kill is exported again, as the same spans, because their ids are
made from the events. While a collector is away, the feed waits. Callers: `perdure telemetry`.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Iterable, Iterator

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, Status, StatusCode, TraceFlags

from perdure.log.change import Stream
from perdure.log.event import Event
from perdure.model.limits import PAGE_MAX_ROWS
from perdure.planes.audit import subscriptions
from perdure.planes.audit.subscriptions import Stretch
from perdure.planes.conversation import feed
from perdure.runtime.callers import Caller
from perdure.stores.store import NewEvent, Reads
from perdure.stores.tx import LOG
from perdure_server.telemetry import names
from perdure_server.telemetry.spans import TABLES, Spans, ToldSpan
from perdure_server.telemetry.store_reads import StoreReads
from perdure_server.telemetry.traces import kind_of, root_of

log = logging.getLogger("perdure.telemetry")

LOOK_SECONDS = 1.0  # between two looks at the feed: two short transactions for whatever came meanwhile
LEASE = "5m"  # of a stretch: beyond it another follower tells it
AGAIN_MAX_SECONDS = 60.0  # before a collector that is away is tried again, doubled up to this
STREAMS_MAX = 10_000  # that are remembered
SCOPE = InstrumentationScope("perdure")


class Follower:
    """Tells the spans of one tenant of an open store, from where the last follower stopped. For one thread."""

    def __init__(
        self, caller: Caller, provider: TracerProvider, exporter: SpanExporter, *, content: bool = False
    ) -> None:
        core = caller.core
        self._caller = caller
        self._provider = provider
        self._exporter = exporter
        self._spans = Spans(StoreReads(core), core.uid, core.clocks.now, content=content)
        self._streams: dict[int, Stream] = {}
        self._token = 0
        self.told = 0

    def begin(self, start: str = "end") -> None:
        """Begin the subscription, or find it: one that exists keeps its position."""
        self._caller.write(subscriptions.subscribe, subscriptions.TELEMETRY, start)

    def follow(self, stop: threading.Event, *, once: bool = False) -> bool:
        """Tell spans until it is told to stop; with `once`, until the end of the feed or a failure; whether all went well."""
        failures = 0
        while not stop.is_set():
            stretch = self._caller.write(subscriptions.take_stretch, subscriptions.TELEMETRY, LEASE)
            failures = 0 if stretch is None or self._tell(stretch) else failures + 1
            if once and (failures or stretch is None):
                break
            if failures or not once:
                stop.wait(min(LOOK_SECONDS * 2**failures, AGAIN_MAX_SECONDS))
        return not failures

    def _tell(self, stretch: Stretch) -> bool:
        """Export the spans of a stretch and acknowledge it; whether the exporter took them."""
        if stretch.token != self._token + 1 or stretch.deliveries > 1:
            self._spans.forget()  # another follower, or an earlier try, came in between
        self._token = stretch.token
        place, count = stretch.after, 0
        while place < stretch.upto:
            events, place = self._caller.read(feed.events_between, place, stretch.upto, PAGE_MAX_ROWS)
            spans = [*self._spans_of(events)]
            if spans and self._exporter.export(spans) is not SpanExportResult.SUCCESS:
                self._caller.write(subscriptions.give_back, subscriptions.TELEMETRY, stretch.token)
                log.warning("the collector took no spans: they are told again")
                return False
            count += len(spans)
        self._caller.write(subscriptions.acknowledge, subscriptions.TELEMETRY, stretch.token)
        self.told += count
        return True

    def _spans_of(self, events: Iterable[Event]) -> Iterator[ReadableSpan]:
        for event in events:
            if event.table not in TABLES:
                continue
            stream = self._stream(event.stream)
            root = root_of(stream.uid, stream.name, self._provider.sampler) if stream.kind == "run" else None
            if root is None or root.trace_flags.sampled:
                for span in self._spans.tell(stream, _new(stream, event)):
                    yield self._readable(span, root)

    def _stream(self, number: int) -> Stream:
        stream = self._streams.get(number)
        if stream is None:
            if len(self._streams) > STREAMS_MAX:
                self._streams.clear()
            stream = self._streams[number] = self._caller.read(_stream_of, number)
        return stream

    def _readable(self, span: ToldSpan, root: SpanContext | None) -> ReadableSpan:
        """A span as exporters take it. Its id is made from its event: told twice, it is the same span.

        root: of its run; what a session does outside a run is a trace of its own.
        """
        mark = hashlib.sha256(span.trace + span.attributes[names.SEQ].to_bytes(8) + span.name.encode()).digest()
        trace, sampled = root.trace_id if root else int.from_bytes(mark[8:24]), TraceFlags(TraceFlags.SAMPLED)
        links = () if span.linked is None else (Link(root_of(span.linked, "", self._provider.sampler)),)
        return ReadableSpan(
            name=span.name, context=SpanContext(trace, int.from_bytes(mark[:8]) or 1, is_remote=False, trace_flags=sampled),
            parent=root, resource=self._provider.resource, attributes=span.attributes, links=links, kind=kind_of(span),
            instrumentation_scope=SCOPE, status=Status(StatusCode.UNSET if span.error is None else StatusCode.ERROR),
            start_time=span.begin_us * 1000, end_time=span.end_us * 1000,
        )  # fmt: skip


def _stream_of(reads: Reads, number: int) -> Stream:
    return Stream(*reads.query(LOG.stream_by_id, id=number)[0])


def _new(stream: Stream, event: Event) -> NewEvent:
    return NewEvent(
        tenant=stream.tenant, stream=event.stream, seq=event.seq, kind=event.kind, tbl=event.table, actor=event.actor,
        at=event.at, codec=event.codec, tx=event.tx, commitment=event.commitment, hash=event.hash, salt=event.salt,
        body=event.body,
    )  # fmt: skip

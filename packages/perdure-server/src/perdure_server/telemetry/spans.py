"""Spans from committed events: what a run did, told once and only after it is durable (decisions 0061, 0082).

An event is the only source. A replayed step writes none, so it makes no span. An effect has one span, from its first event to
the one that ends it, whichever process wrote that. Pure but for `Reading`, which reads what this process did not see. Nothing
of a document goes into a span except names, counts and codes, unless content is asked for. Callers: `traces`, `feed_follower`.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import msgspec

from perdure.log.change import Stream
from perdure.log.event import Body, decode_body
from perdure.planes.execution.leases import CLAIMS, RECOVERED
from perdure.stores.store import NewEvent
from perdure_server.telemetry import names

TABLES = frozenset({"runs", "steps", "effects", "waits"})
KEPT_MAX = 20_000  # beginnings that are remembered; one that is not is read when it is needed
CONTENT_MAX_CHARS = 8_192
_RUN_OVER = frozenset({"run.completed", "run.failed", "run.cancelled"})
_DRIVE_OVER = _RUN_OVER | {"run.waiting", "run.released", "run.parked"}
_EFFECT_OVER = frozenset({"effect.committed", "effect.failed", "effect.withdrawn"})
_INTERRUPTED = "run.interrupted"  # a step that stands for what its program cancelled


class ToldSpan(msgspec.Struct):
    """One span as it is told. trace: the uid of the run. linked: the uid of the run that started it. error: the code of one."""

    name: str
    trace: bytes
    begin_us: int
    end_us: int
    attributes: dict[str, Any]
    error: str | None = None
    linked: bytes | None = None


class RunFacts(msgspec.Struct):
    """The facts about a run. drive_us: since when somebody drives it now."""

    agent: str
    session: str | None
    parent: bytes | None
    created_us: int
    drive_us: int | None = None
    drive: dict[str, Any] = {}
    from_start: bool = False  # its drives were seen here from its start


class Begun(msgspec.Struct):
    """The beginning of an effect or a wait."""

    at_us: int
    name: str
    attributes: dict[str, Any]
    doubts: int = 0


class Reading(Protocol):
    """Reads of the store for what happened before this process looked. None: it is not there any more."""

    def run(self, stream: Stream) -> RunFacts | None:
        """A run by its row."""
        ...

    def run_uid(self, stream: Stream, name: str) -> bytes | None:
        """The uid of another run of the tenant."""
        ...

    def claim(self, stream: Stream, seq: int) -> tuple[str, int, Body] | None:
        """The event by which somebody drives a run at an event: its kind, instant and body. None if nobody does."""
        ...

    def begun(self, stream: Stream, table: str, seq: int) -> Begun | None:
        """An effect or a wait by its row."""
        ...

    def document(self, stream: Stream, body: bytes) -> Any:
        """The document of an event that lies in a blob."""
        ...


class Spans:
    """Tells the spans of one open store from its committed events, in order. Used by one thread.

    The things that it remembers are a cache: what it did not see itself is read, so another reader may continue anywhere.
    """

    def __init__(self, reading: Reading, store: str, now: Callable[[], int], *, content: bool = False) -> None:
        self._reading = reading
        self._store = store
        self._now = now
        self._content = content
        self._runs: OrderedDict[int, RunFacts] = OrderedDict()
        self._open: OrderedDict[tuple[int, int], Begun] = OrderedDict()

    def forget(self) -> None:
        """Another reader has told what came meanwhile: nothing that is remembered holds."""
        self._runs.clear()
        self._open.clear()

    def tell(self, stream: Stream, event: NewEvent) -> Iterator[ToldSpan]:
        """The spans that end with an event."""
        if event.body is None:
            return
        body = decode_body(event.body)
        if event.tbl == "runs":
            yield from self._run(stream, event, body)
        elif event.kind == "step.done":
            yield from self._step(stream, event, body)
        elif event.tbl == "effects":
            yield from self._effect(stream, event, body)
        elif event.tbl == "waits":
            yield from self._wait(stream, event, body)

    # -- runs ----------------------------------------------------------------------------------------------------------------

    def _run(self, stream: Stream, event: NewEvent, body: Body) -> Iterator[ToldSpan]:
        row = body.set
        if event.kind == "run.started":
            parent = row.get("parent")
            uid = None if parent is None else self._reading.run_uid(stream, parent)
            facts = RunFacts(str(row.get("agent")), row.get("session"), uid, event.at, from_start=True)
            _keep(self._runs, stream.id, facts)
        elif event.kind in CLAIMS:
            _claimed(self._facts(stream), event.kind, event.at, body)
        elif event.kind in _DRIVE_OVER:
            yield from self._rest(stream, event, body)

    def _rest(self, stream: Stream, event: NewEvent, body: Body) -> Iterator[ToldSpan]:
        """A drive is over, and perhaps its run."""
        facts = self._facts(stream)
        if facts.drive_us is None and not facts.from_start:
            claim = self._reading.claim(stream, event.seq)
            if claim is not None:
                _claimed(facts, *claim)
        status = {names.RUN_STATUS: body.set.get("status"), names.RUN_REASON: body.set.get("reason")}
        error = self._error(stream, event, body) if event.kind in ("run.failed", "run.parked") else None
        if facts.drive_us is not None:
            attributes = {names.OPERATION: names.INVOKE_AGENT, **facts.drive, **status}
            yield self._span(f"{names.INVOKE_AGENT} {facts.agent}", stream, event, facts.drive_us, attributes, error)
            facts.drive_us = None
        if event.kind in _RUN_OVER:
            attributes = {names.OPERATION: names.INVOKE_WORKFLOW, names.WORKFLOW_NAME: facts.agent, **status}
            yield self._span(
                f"{names.INVOKE_WORKFLOW} {facts.agent}", stream, event, facts.created_us, attributes, error
            )
            self._runs.pop(stream.id, None)

    def _facts(self, stream: Stream) -> RunFacts:
        facts = self._runs.get(stream.id)
        if facts is None:
            facts = self._reading.run(stream) or RunFacts("?", None, None, self._now())
            _keep(self._runs, stream.id, facts)
        return facts

    # -- what a run does -----------------------------------------------------------------------------------------------------

    def _step(self, stream: Stream, event: NewEvent, body: Body) -> Iterator[ToldSpan]:
        doc = self._document(stream, event, body)
        name, place = str(doc.get("name")), str(doc.get("place"))
        if name == _INTERRUPTED:
            return
        took_us = doc.get("took_us")
        begin_us = event.at - took_us if type(took_us) is int else event.at
        attributes: dict[str, Any] = {names.PLACE: place}
        noted = doc.get("notes")
        notes: dict[str, Any] = noted if isinstance(noted, dict) else {}
        pins = notes.get("model")
        if isinstance(pins, dict):
            model = pins.get("model")
            attributes |= {
                names.OPERATION: names.CHAT,
                names.REQUEST_MODEL: model,
                names.PROVIDER_NAME: pins.get("provider"),
            }
            attributes |= _usage(notes.get("usage"))
            title = f"{names.CHAT} {model}" if isinstance(model, str) else f"{names.CHAT} {name}"
        else:
            title = f"{names.STEP} {name}"
        yield self._span(title, stream, event, begin_us, attributes, _code(doc))

    def _effect(self, stream: Stream, event: NewEvent, body: Body) -> Iterator[ToldSpan]:
        if body.op == "insert":
            row = body.set
            attributes = {
                names.TOOL_NAME: row.get("tool"), names.EFFECT_KIND: row.get("kind"), names.PLACE: row.get("place"),
                names.TOOL_CALL_ID: row.get("call"), names.EFFECT_ATTEMPT: row.get("attempt"),
            }  # fmt: skip
            attributes |= self._quoted(stream, event, body, names.TOOL_CALL_ARGUMENTS, "args")
            _keep(self._open, (stream.id, event.seq), Begun(event.at, str(row.get("tool")), attributes))
            return
        key = (stream.id, int(body.key.get("seq", 0)))
        begun = self._open.get(key)
        if begun is not None:
            begun.doubts += event.kind == "effect.doubted"
            begun.attributes[names.EFFECT_ATTEMPT] = body.set.get("attempt", begun.attributes[names.EFFECT_ATTEMPT])
        if event.kind not in _EFFECT_OVER:
            return
        begun = self._open.pop(key, None) or self._reading.begun(stream, "effects", key[1])
        if begun is None:
            return
        doc = self._document(stream, event, body)
        attributes = begun.attributes | {
            names.OPERATION: names.EXECUTE_TOOL, names.TOOL_TYPE: "function", names.EFFECT_STATE: body.set.get("state"),
            names.DOUBT: bool(begun.doubts or doc.get("doubtful")),
            names.EFFECT_SETTLED_BY: "rule or person" if doc.get("by") else None,
        }  # fmt: skip
        attributes |= self._quoted(stream, event, body, names.TOOL_CALL_RESULT, "result")
        error = (_code(doc) or "failed") if event.kind == "effect.failed" else None
        yield self._span(f"{names.EXECUTE_TOOL} {begun.name}", stream, event, begun.at_us, attributes, error)

    def _wait(self, stream: Stream, event: NewEvent, body: Body) -> Iterator[ToldSpan]:
        if body.op == "insert":
            begun = Begun(event.at, str(body.set.get("kind")), {names.PLACE: body.set.get("place")})
            _keep(self._open, (stream.id, event.seq), begun)
            return
        if "met_at" not in body.set:
            return
        seq = int(body.key.get("seq", 0))
        begun = self._open.pop((stream.id, seq), None) or self._reading.begun(stream, "waits", seq)
        if begun is not None:
            attributes = begun.attributes | {names.WAIT_STATE: body.set.get("state")}
            yield self._span(f"{names.WAIT} {begun.name}", stream, event, begun.at_us, attributes)

    # -- parts ---------------------------------------------------------------------------------------------------------------

    def _span(
        self, name: str, stream: Stream, event: NewEvent, begin_us: int, own: dict[str, Any], error: str | None = None
    ) -> ToldSpan:
        about: dict[str, Any] = {names.SEQ: event.seq, names.STORE: self._store, names.TENANT: stream.tenant}
        linked = None
        if stream.kind == "run":
            facts = self._facts(stream)
            about |= {names.RUN_ID: stream.name, names.AGENT_NAME: facts.agent, names.CONVERSATION_ID: facts.session}
            linked = facts.parent
        elif stream.kind == "session":
            about[names.CONVERSATION_ID] = stream.name
        attributes = {key: value for key, value in (own | about).items() if isinstance(value, (str, int, float))}
        if error is not None:
            attributes[names.ERROR_TYPE] = error
        return ToldSpan(
            name=name, trace=stream.uid, begin_us=min(begin_us, event.at), end_us=event.at, attributes=attributes,
            error=error, linked=linked,
        )  # fmt: skip

    def _document(self, stream: Stream, event: NewEvent, body: Body) -> dict[str, Any]:
        assert event.body is not None
        doc = self._reading.document(stream, event.body) if body.doc_blob else body.doc
        return doc if isinstance(doc, dict) else {}

    def _error(self, stream: Stream, event: NewEvent, body: Body) -> str:
        return _code(self._document(stream, event, body)) or event.kind

    def _quoted(self, stream: Stream, event: NewEvent, body: Body, name: str, part: str) -> dict[str, str]:
        """A part of a document, if content is asked for."""
        if not self._content:
            return {}
        value = self._document(stream, event, body).get(part)
        return {name: json.dumps(value, ensure_ascii=False)[:CONTENT_MAX_CHARS]}


def _claimed(facts: RunFacts, kind: str, at_us: int, body: Body) -> None:
    """Somebody drives a run from here on."""
    facts.drive_us = at_us
    facts.drive = {
        names.LEASE_TOKEN: body.set.get("token"),
        names.RUN_DEATHS: body.set.get("deaths"),
        names.RUN_RECOVERED: kind == RECOVERED,
    }


def _code(doc: dict[str, Any]) -> str | None:
    """The code of an error in a document; never its message, which may quote anything."""
    error = doc.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, str) else None


def _usage(usage: Any) -> dict[str, int]:
    counts = usage if isinstance(usage, dict) else {}
    return {attribute: counts[name] for name, attribute in names.USAGE.items() if type(counts.get(name)) is int}


def _keep(cache: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    cache[key] = value
    if len(cache) > KEPT_MAX:
        cache.popitem(last=False)

"""The events of a run in the form of AG-UI: another rendering of the same stream, for front ends that speak that protocol.

Pure: an event of the log becomes no, one or some events of AG-UI. A front end that comes back with Last-Event-ID gets the
rest, in a new process too. A question to a person, its answer and doubt are CUSTOM events. Callers: `streams`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perdure.model.records.emitted import EventRecord
from perdure_server.http import wire

_OVER = {"run.completed": "RUN_FINISHED", "run.failed": "RUN_ERROR", "run.cancelled": "RUN_ERROR"}
_ENDED = {"effect.committed", "effect.failed", "effect.withdrawn"}


def rendered(record: EventRecord, thread: str) -> Iterator[dict[str, Any]]:
    """The events of AG-UI for one event of a run. thread: the session that it works in, or its own name."""
    run, at = record.session, int(record.at.timestamp() * 1000)
    for said in _said(record, {"threadId": thread, "runId": run}):
        yield {**said, "timestamp": at}


def _said(record: EventRecord, ids: dict[str, str]) -> Iterator[dict[str, Any]]:
    body, kind = record.body, record.kind
    data = record.data if isinstance(record.data, dict) else {}
    if kind == "run.started":
        yield {"type": "RUN_STARTED", **ids}
    elif kind in _OVER:
        yield from _end(kind, data, ids)
    elif kind == "step.done" and data.get("name") is not None:
        yield {"type": "STEP_STARTED", "stepName": str(data["name"])}
        yield {"type": "STEP_FINISHED", "stepName": str(data["name"])}
    elif record.table == "effects":
        yield from _effect(record, body, data)
    elif kind == "ask.opened":
        yield {"type": "CUSTOM", "name": "perdure.ask", "value": {"id": f"run:{record.session}/{record.seq}", **data}}
    elif kind == "ask.answered":
        seq = body.get("key", {}).get("seq")
        yield {"type": "CUSTOM", "name": "perdure.answer", "value": {"id": f"run:{record.session}/{seq}", **data}}


def _end(kind: str, data: dict[str, Any], ids: dict[str, str]) -> Iterator[dict[str, Any]]:
    if _OVER[kind] == "RUN_FINISHED":
        yield {"type": "RUN_FINISHED", **ids, "result": data.get("result")}
        return
    given = data.get("error")
    error: dict[str, Any] = given if isinstance(given, dict) else {}
    yield {"type": "RUN_ERROR", "message": str(error.get("message") or kind), "code": str(error.get("code") or kind)}


def _effect(record: EventRecord, body: dict[str, Any], data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if body.get("op", "insert") == "insert":
        call = _call_id(record.session, record.seq)
        yield {"type": "TOOL_CALL_START", "toolCallId": call, "toolCallName": str(body.get("set", {}).get("tool"))}
        yield {"type": "TOOL_CALL_ARGS", "toolCallId": call, "delta": wire.encode(data.get("args", {})).decode()}
        yield {"type": "TOOL_CALL_END", "toolCallId": call}
        return
    call = _call_id(record.session, body.get("key", {}).get("seq"))
    if record.kind in _ENDED:
        said = data.get("result") if "result" in data else {"error": data.get("error")}
        content = said if isinstance(said, str) else wire.encode(said).decode()
        yield {
            "type": "TOOL_CALL_RESULT",
            "messageId": f"{call}/result",
            "toolCallId": call,
            "content": content,
            "role": "tool",
        }
    elif record.kind == "effect.doubted":
        yield {"type": "CUSTOM", "name": "perdure.doubt", "value": {"effect": call}}


def _call_id(run: str, seq: Any) -> str:
    return f"run:{run}/{seq}"

"""A model on the loopback address: answers as Anthropic's Messages and OpenAI's Responses do, and keeps every request.

Its answers are a script: names of tools with their arguments, taken in order. When none is left it says "done".
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class Model:
    """A context manager; `url` is where it listens, `requests` what it was sent, oldest first."""

    def __init__(self, *script: tuple[str, dict[str, Any]]) -> None:
        self.requests: list[dict[str, Any]] = []
        self._script = list(script)
        self._mutex = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._endpoint())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_about: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def asked(self) -> list[dict[str, Any]]:
        """The requests that could call tools: hosts also ask for titles and the like."""
        return [each for each in self.requests if each.get("tools")]

    def _next(self, body: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """What to call; None: say something. Requests without tools take nothing from the script."""
        with self._mutex:
            self.requests.append(body)
            return self._script.pop(0) if self._script and body.get("tools") else None

    def _endpoint(self) -> type[Endpoint]:
        return type("Bound", (Endpoint,), {"model": self})


class Endpoint(BaseHTTPRequestHandler):
    """The two APIs, and what hosts ask besides."""

    protocol_version = "HTTP/1.0"
    model: Model

    def log_message(self, *_about: Any) -> None: ...

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.end_headers()

    def do_GET(self) -> None:
        self._say(json.dumps({"data": [], "models": []}).encode())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        path = self.path.partition("?")[0]
        if path.endswith("/count_tokens"):
            self._say(b'{"input_tokens": 100}')
        elif path.endswith("/messages"):
            self._stream(messages(self.model._next(body), body))
        elif path.endswith("/responses"):
            self._stream(responses(self.model._next(body)))
        else:
            self._say(b"{}")

    def _say(self, data: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, events: Iterator[tuple[str, dict[str, Any]]]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for name, data in events:
            self.wfile.write(f"event: {name}\ndata: {json.dumps(data)}\n\n".encode())


def messages(call: tuple[str, dict[str, Any]] | None, body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """An answer as Anthropic streams it."""
    number = len(body.get("messages", []))
    start = {
        "id": f"msg_{number}", "type": "message", "role": "assistant", "model": body.get("model", "m"), "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 10, "output_tokens": 1},
    }  # fmt: skip
    yield "message_start", {"type": "message_start", "message": start}
    if call is None:
        block: dict[str, Any] = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": "<summary>done</summary> done"}
    else:
        block = {"type": "tool_use", "id": f"toolu_{number:04d}", "name": call[0], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
    yield "content_block_start", {"type": "content_block_start", "index": 0, "content_block": block}
    yield "content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}
    yield "content_block_stop", {"type": "content_block_stop", "index": 0}
    end = {"stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None}
    yield "message_delta", {"type": "message_delta", "delta": end, "usage": {"output_tokens": 5}}
    yield "message_stop", {"type": "message_stop"}


def responses(call: tuple[str, dict[str, Any]] | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """An answer as OpenAI streams it. A tool `namespace.name` is one of a server."""
    if call is None:
        text = {"type": "output_text", "text": "done", "annotations": []}
        item: dict[str, Any] = {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [text],
        }
    else:
        space, _, name = call[0].rpartition(".")
        item = {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": name,
            "arguments": json.dumps(call[1]),
        }
        item |= {"namespace": space} if space else {}
    yield "response.created", {"type": "response.created", "response": {"id": "resp_1"}}
    yield "response.output_item.done", {"type": "response.output_item.done", "output_index": 0, "item": item}
    usage = {
        "input_tokens": 10,
        "output_tokens": 1,
        "total_tokens": 11,
        "input_tokens_details": None,
        "output_tokens_details": None,
    }
    done = {"id": "resp_1", "status": "completed", "output": [item], "usage": usage}
    yield "response.completed", {"type": "response.completed", "response": done}

"""A model on the loopback address: answers as Anthropic's Messages, OpenAI's Responses and chat, and Gemini do; keeps requests.

Its answers are a script: names of tools with their arguments, taken in order. When none is left it says "done", or nothing at
all if it `hangs`: then a host waits for it in the middle of a conversation.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

HANGS_MAX_SECONDS = 300


class Model:
    """A context manager; `url` is where it listens, `requests` what it was sent, oldest first."""

    def __init__(self, *script: tuple[str, dict[str, Any]], hangs: bool = False) -> None:
        self.requests: list[dict[str, Any]] = []
        self.hung = threading.Event()
        self._gone = threading.Event()
        self._hangs = hangs
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
        self._gone.set()
        self._server.shutdown()
        self._server.server_close()

    def asked(self) -> list[dict[str, Any]]:
        """The requests that could call tools: hosts also ask for titles and the like."""
        return [each for each in self.requests if each.get("tools")]

    def _next(self, body: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """What to call; None: say something. Requests without tools take nothing from the script."""
        with self._mutex:
            self.requests.append(body)
            if self._script and body.get("tools"):
                return self._script.pop(0)
        if self._hangs and body.get("tools"):
            self.hung.set()
            self._gone.wait(HANGS_MAX_SECONDS)
        return None

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
        elif path.endswith("/chat/completions"):
            self._stream(chat(self.model._next(body)))
        elif path.endswith(":streamGenerateContent"):
            self._stream(generated(self.model._next(body)))
        elif path.endswith(":generateContent"):
            self._say(json.dumps(next(generated(self.model._next(body)))[1]).encode())
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
            event = f"event: {name}\n" if name else ""
            self.wfile.write(f"{event}data: {json.dumps(data)}\n\n".encode())


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


def chat(call: tuple[str, dict[str, Any]] | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """An answer as OpenAI's chat streams it."""
    delta: dict[str, Any] = {"role": "assistant", "content": "done"}
    if call is not None:
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        delta = {
            "role": "assistant",
            "tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}],
        }
    about = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    yield "", {**about, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    end = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if call else "stop"}
    yield "", {**about, "choices": [end], "usage": {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}}


def generated(call: tuple[str, dict[str, Any]] | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """An answer as Gemini streams it."""
    part = {"text": "done"} if call is None else {"functionCall": {"name": call[0], "args": call[1]}}
    found = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 1, "totalTokenCount": 11}
    yield "", {"candidates": [found], "usageMetadata": usage, "modelVersion": "loop"}

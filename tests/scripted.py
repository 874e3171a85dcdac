"""The other side of the examples: a model that follows a script, behind HTTP as chat-completions APIs speak it, and a service.

It refuses what a provider refuses, counts what arrives, and kills whoever asks at the moments that it is told.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[
    str, Sequence[tuple[str, Mapping[str, Any]]]
]  # what it says, and the calls that it makes: tool and arguments


def complaint(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """What a provider would say about a conversation: every call has its result, right after it."""
    open_calls: list[str] = []
    for at, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                return f"message {at} is the result of a call that nobody made"
            open_calls.remove(message["tool_call_id"])
        elif open_calls:
            return f"message {at} comes before the results of {open_calls}"
        if message["role"] == "assistant":
            open_calls = [call["id"] for call in message.get("tool_calls") or []]
    return f"there is no result of {open_calls}" if open_calls else None


class Outside:
    """The model and the service. scripts: by a word of the first message of a user, what the model says in each round.

    deaths: the numbers of the requests at which whoever is `victim` is killed: before they are looked at, if negative, or after
    they were carried out, and before they are answered. busy: how often the model is busy at first.
    """

    def __init__(self, scripts: Mapping[str, Sequence[Answer]], deaths: Sequence[int] = (), busy: int = 0) -> None:
        self.scripts = scripts
        self.deaths = set(deaths)
        self.busy = busy
        self.victim = 0
        self.requests = 0
        self.asked: list[str] = []
        self.offered: list[dict[str, Any]] = []
        self.refused: list[str] = []
        self.published: dict[str, Any] = {}
        self.url = ""
        self._one = threading.Lock()

    def answer(self, path: str, key: str | None, body: Any) -> tuple[int, Any] | None:
        """One request; None: nobody is left to hear the answer."""
        with self._one:
            self.requests += 1
            if self._dies(-self.requests):
                return None
            done = self._complete(body) if path == "/chat/completions" else self._publish(key or "", body)
            return None if self._dies(self.requests) else done

    def _dies(self, moment: int) -> bool:
        if moment not in self.deaths:
            return False
        os.kill(self.victim, signal.SIGKILL)
        return True

    def _complete(self, body: Any) -> tuple[int, Any]:
        if self.busy:
            self.busy -= 1
            return 503, {"error": {"message": "overloaded"}}
        messages = body["messages"]
        if (wrong := complaint(messages)) is not None:
            self.refused.append(wrong)
            return 400, {"error": {"message": wrong}}
        first = next(each["content"] for each in messages if each["role"] == "user")
        word = next(word for word in self.scripts if word in first)
        self.asked.append(word)
        self.offered = body["tools"]
        content, calls = self.scripts[word][sum(each["role"] == "assistant" for each in messages)]
        message: dict[str, Any] = {"role": "assistant", "content": content}
        if calls:
            message["tool_calls"] = [
                {"id": f"call_{len(self.asked)}_{at}", "type": "function",
                 "function": {"name": tool, "arguments": json.dumps(args)}}
                for at, (tool, args) in enumerate(calls)
            ]  # fmt: skip
        return 200, {"choices": [{"index": 0, "message": message}], "usage": {"total_tokens": 5}}

    def _publish(self, key: str, body: Any) -> tuple[int, Any]:
        return 201, {"title": self.published.setdefault(key, body)["title"]}


@contextmanager
def serving(outside: Outside) -> Iterator[Outside]:
    """The other side, while it is needed."""

    class Door(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answered = outside.answer(self.path, self.headers.get("Idempotency-Key"), body)
            if answered is None:
                return
            status, said = answered
            data = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    outside.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield outside
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

"""A tiny forge on loopback, in a process of its own: it outlives the agents, and counts what really reached it.

It prints its port and ends when its standard input does. One repository for each agent:

    POST /REPO/pulls               opens one. Knows idempotency keys, as payment services do: the same key, the same answer
    POST /REPO/pulls/N/comments    adds one, every time it is asked to, as most services do
    GET  /REPO/comments/KEY        the comment that came with this key, or 404
    POST /REPO/pulls/N/merge       merges it
    GET  /REPO                     what it has: {"pulls", "comments", "requests"}
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

BODY_MAX_BYTES = 64 * 1024
Answer = tuple[int, dict[str, Any]]


class ForgeRepository:
    """The things that one agent made on the forge. requests: those that wanted to change something."""

    def __init__(self) -> None:
        self.pulls: list[dict[str, Any]] = []
        self.comments: list[dict[str, Any]] = []
        self.requests = 0
        self._answers: dict[str, Answer] = {}

    def post(self, path: list[str], body: dict[str, Any], key: str) -> Answer:
        """Change something; pulls and merges once for each key."""
        self.requests += 1
        match path:
            case ["pulls"]:
                return self._once(key, lambda: self._open(body))
            case ["pulls", number, "comments"]:
                return self._comment(int(number), str(body.get("text", "")), key)
            case ["pulls", number, "merge"]:
                return self._once(key, lambda: self._merge(int(number)))
        return 404, {}

    def get(self, path: list[str]) -> Answer:
        """The listing, or one comment."""
        if not path:
            return 200, {"pulls": len(self.pulls), "comments": len(self.comments), "requests": self.requests}
        found = [each for each in self.comments if path == ["comments", each["key"]]]
        return (200, found[0]) if found else (404, {})

    def _once(self, key: str, act: Any) -> Answer:
        if key and key in self._answers:
            return self._answers[key]
        answer = act()
        if key:
            self._answers[key] = answer
        return answer

    def _open(self, body: dict[str, Any]) -> Answer:
        pull = {"number": len(self.pulls) + 1, "title": body.get("title"), "head": body.get("head"), "merged": False}
        self.pulls.append(pull)
        return 201, dict(pull)

    def _comment(self, number: int, text: str, key: str) -> Answer:
        comment = {"id": len(self.comments) + 1, "pull": number, "text": text, "key": key}
        self.comments.append(comment)
        return 201, comment

    def _merge(self, number: int) -> Answer:
        if not 0 < number <= len(self.pulls):
            return 404, {}
        self.pulls[number - 1]["merged"] = True
        return 200, dict(self.pulls[number - 1])


class Forge(ThreadingHTTPServer):
    """The repositories, behind one door."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Request)
        self._repositories: dict[str, ForgeRepository] = {}
        self._mutex = threading.Lock()

    def answer(self, method: str, path: str, body: dict[str, Any], key: str) -> Answer:
        """One request after the other."""
        name, *rest = path.strip("/").split("/")
        with self._mutex:
            found = self._repositories.setdefault(name, ForgeRepository())
            return found.post(rest, body, key) if method == "POST" else found.get(rest)


class Request(BaseHTTPRequestHandler):
    """One request."""

    def do_GET(self) -> None:
        """Look."""
        self._reply(*self._forge.answer("GET", self.path, {}, ""))

    def do_POST(self) -> None:
        """Change."""
        data = self.rfile.read(min(int(self.headers.get("Content-Length", 0)), BODY_MAX_BYTES))
        key = self.headers.get("Idempotency-Key", "")
        self._reply(*self._forge.answer("POST", self.path, json.loads(data or b"{}"), key))

    @property
    def _forge(self) -> Forge:
        assert isinstance(self.server, Forge)
        return self.server

    def _reply(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its signature
        """Nothing: it counts."""


def main() -> None:
    """Serve until whoever started it is gone. A Ctrl-C is for the story, which ends the forge last."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Forge() as forge:
        threading.Thread(target=forge.serve_forever, daemon=True).start()
        os.write(1, json.dumps({"port": forge.server_port}).encode() + b"\n")
        sys.stdin.read()
        forge.shutdown()


if __name__ == "__main__":
    main()

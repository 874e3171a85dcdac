"""What the makers of samples of npm's programs share: installing one, a model for it to talk to, and scrubbing its files.

A program runs with a home of its own and nothing of the caller's environment but the path. Its model is a server on this
machine that says what it is told to say, and keeps what it was asked: that is what a sample is compared with.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

TEXT_MAX_CHARS = 300  # of prompts and lists that the programs bring along: a sample needs their places, not their words

Event = dict[str, Any]


def install(package: str, into: Path) -> str:
    """Get a package from npm into a folder, without running its scripts; which version it is."""
    into.mkdir(parents=True, exist_ok=True)
    command = [
        "npm",
        "install",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--prefix",
        str(into),
        f"{package}@latest",
    ]
    subprocess.run(command, check=True, capture_output=True)
    found = json.loads((into / "node_modules" / package / "package.json").read_text())
    return f"{package} {found['version']}"


def environment(home: Path, **more: str) -> dict[str, str]:
    """The environment of a program."""
    home.mkdir(parents=True, exist_ok=True)
    return {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "TZ": "UTC", **more}


@contextmanager
def model(answer: Callable[[dict[str, Any]], Iterator[Event]]) -> Iterator[str]:
    """A server that streams the events of an answer to whatever is posted; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            for event in answer(asked):
                self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

        def log_message(self, *about: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def scrubbed(value: Any, names: dict[str, str]) -> Any:
    """The same with other names for what is of this machine, and long texts cut."""
    if isinstance(value, dict):
        return {scrubbed(key, names): scrubbed(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [scrubbed(each, names) for each in value]
    if not isinstance(value, str):
        return value
    for found, instead in names.items():
        value = value.replace(found, instead)
    return value if len(value) <= TEXT_MAX_CHARS else value[:TEXT_MAX_CHARS] + "…"


def keep_lines(source: Path, target: Path, names: dict[str, str]) -> None:
    """Keep a file of JSON lines, scrubbed, record by record."""
    lines = [json.dumps(scrubbed(json.loads(line), names), ensure_ascii=False, separators=(",", ":"))
             for line in source.read_text().splitlines()]  # fmt: skip
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("".join(f"{line}\n" for line in lines))


def write_expected(folder: Path, told: dict[str, Any]) -> None:
    """Keep what the program itself read back, or what its model was asked and answered."""
    (folder / "expected.json").write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")

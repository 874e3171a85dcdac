"""Measure `say` over HTTP beside a bare handler on the same server that commits one row.

`python benchmarks/http_say.py [--url URL] [--seconds 4] [--rounds 3] [--clients 1,64]`. The server
is uvicorn in a process of its own, the clients another process with raw sockets. Both handlers take the same 1 KiB body; the bare
one decodes it and commits one row of it to a SQLite file of its own, at full sync, on a thread. Rounds alternate. Prints one
JSON document: requests a second (best of the rounds), median times, CPU of the server a request, and the ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import socket
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import msgspec
import uvicorn
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import perdure
from perdure.planes.access import tokens
from perdure.planes.access.tokens import CONTROL, TokenRole
from perdure_server.http.app import make_app
from perdure_server.http.serving import Serving

BODY = msgspec.json.encode({"role": "user", "content": "x" * 1_000})
SAY, BARE = "/v1/sessions/s/turns", "/bare"
TICKS = os.sysconf("SC_CLK_TCK")


def bare_route(folder: str) -> Route:
    """The floor: decode, commit one row, answer."""
    thread = ThreadPoolExecutor(1)
    database = apsw.Connection(f"{folder}/bare.db")
    for text in (
        "PRAGMA journal_mode=WAL",
        "PRAGMA synchronous=FULL",
        "CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT)",
    ):
        database.execute(text).fetchall()

    def commit(content: str) -> int:
        database.execute("INSERT INTO t (body) VALUES (?)", (content,)).fetchall()
        return database.last_insert_rowid()

    async def bare(request: Request) -> Response:
        given = msgspec.json.decode(await request.body())
        made = await asyncio.get_running_loop().run_in_executor(thread, commit, given["content"])
        return Response(msgspec.json.encode({"id": made}), 201, media_type="application/json")

    return Route(BARE, bare, methods=["POST"])


def serve(url: str, folder: str, listening: Any) -> None:
    """The server, until it is told to stop."""
    app = make_app(Serving(url), [bare_route(folder)])
    config = uvicorn.Config(app, http="httptools", ws="none", log_config=None, access_log=False)
    uvicorn.Server(config).run(sockets=[listening])


async def one_client(port: int, request: bytes, until: float, took: list[float]) -> None:
    """Send the request again and again on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.perf_counter() < until:
        began = time.perf_counter()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 201"), head
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        took.append(time.perf_counter() - began)
    writer.close()


def load(port: int, path: str, text: str, clients: int, seconds: float, found: Any) -> None:
    """A process of clients: gives the number of requests and their median time."""
    headers = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {text}\r\nContent-Type: application/json\r\n"
    request = f"{headers}Content-Length: {len(BODY)}\r\n\r\n".encode() + BODY
    took: list[float] = []

    async def all_of_them() -> None:
        until = time.perf_counter() + seconds
        await asyncio.gather(*(one_client(port, request, until, took) for _ in range(clients)))

    asyncio.run(all_of_them())
    found.put((len(took) / seconds, statistics.median(took) * 1000))


def cpu_seconds(pid: int) -> float:
    """The CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def measured(server: Any, port: int, path: str, text: str, clients: int, seconds: float) -> dict[str, float]:
    """One round."""
    context = multiprocessing.get_context("spawn")
    found = context.SimpleQueue()
    program = context.Process(target=load, args=(port, path, text, clients, seconds, found))
    before = cpu_seconds(server.pid)
    program.start()
    program.join(seconds * 5 + 30)
    assert not found.empty(), "the clients came to no end"
    rate, median_ms = found.get()
    cpu = (cpu_seconds(server.pid) - before) / (rate * seconds)
    return {"per_second": round(rate, 1), "p50_ms": round(median_ms, 2), "cpu_us": round(cpu * 1e6, 1)}


def prepared(url: str) -> str:
    """A store with a session, and a token for it."""
    with perdure.open(url) as store:
        store.session("s")
    with perdure.open(url, tenant=CONTROL) as store:
        return store._caller.write(tokens.create, "default", TokenRole.WRITER, "bot")[0]


def main() -> None:
    """Measure, and print."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--url")
    asked.add_argument("--seconds", type=float, default=4.0)
    asked.add_argument("--rounds", type=int, default=3)
    asked.add_argument("--clients", default="1,64")
    given = asked.parse_args()
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        url = given.url or f"sqlite:///{folder}/a.db"
        text = prepared(url)
        listening = socket.create_server(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        server = context.Process(target=serve, args=(url, folder, listening), daemon=True)
        server.start()
        told: dict[str, Any] = {}
        for clients in map(int, given.clients.split(",")):
            rounds: dict[str, list[dict[str, float]]] = {SAY: [], BARE: []}
            for _ in range(given.rounds):
                for path, each in rounds.items():
                    each.append(measured(server, port, path, text, clients, given.seconds))
            say, bare = (max(each, key=lambda one: one["per_second"]) for each in rounds.values())
            ratio = round(say["per_second"] / bare["per_second"], 2)
            told[f"{clients} clients"] = {"say": say, "bare": bare, "ratio": ratio}
        server.terminate()
        server.join()
        print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()

"""Acknowledged writes, and calls of the HTTP tool, behind a way that cuts answers at every byte, refuses as gateways do, and to a
server that is killed: nothing acknowledged is lost, nothing is done twice by a caller who repeats with the key of the error.

All of it: `PERDURE_ROUNDS=100 pytest tests/remote/test_hostile_way.py -n 0 -s -o faulthandler_timeout=0` (10,000 writes).
"""

from __future__ import annotations

import http.client
import json
import os
import random
import subprocess
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import perdure
from doors.http.serving_kit import make_token
from forked import Program
from hostile_http import ANSWER_IS_LOST, IS_LOST, PASSES, Fate, HostileProxy
from perdure.errors import InDoubt, Unavailable
from perdure.runtime.callers import Caller
from perdure_agents.ready.http_tool import http_probe, http_tool
from remote import test_own_loop

ROUNDS = int(os.environ.get("PERDURE_ROUNDS", "0"))
SEED = int(os.environ.get("PERDURE_SEED", "0"))
WRITES = 100 * ROUNDS or 24
CALLS = 20 * ROUNDS or 25
WRITES_PER_SERVER = 199 if ROUNDS else 24  # in the middle of them it is killed
PATIENCE_SECONDS = 0.25  # of the first attempt: it is to be given up often
STEP_BYTES = 37  # between two cuts: a prime, so that each byte has its turn


class Troubles:
    """The fate of each request, by a seed: about half pass. The cuts go through all bytes up to a number."""

    def __init__(self, seed: int, bytes_max: int) -> None:
        self._chance = random.Random(seed)
        self._bytes_max = bytes_max
        self._upto = 0
        self.counts: Counter[str] = Counter()

    def fate(self, _number: int, _request: bytes) -> Fate:
        kind = self._chance.choice(["passes"] * 5 + ["is lost", "answer is lost", "is cut", "is cut", "gateway"])
        self.counts[kind] += 1
        if kind == "is cut":
            self._upto = (self._upto + STEP_BYTES) % self._bytes_max
            return Fate(upto=self._upto)
        if kind == "gateway":
            return Fate(arrives=self._chance.random() < 0.5, status=self._chance.choice([502, 503, 504]))
        return {"passes": PASSES, "is lost": IS_LOST, "answer is lost": ANSWER_IS_LOST}[kind]


class Served:
    """A server in a process of its own, behind the way; `restart` kills it and begins another one."""

    def __init__(self, url: str, fate: Callable[[int, bytes], Fate]) -> None:
        self._url = url
        self.kills = -1
        self.way = HostileProxy(0, fate)
        self.restart()

    def restart(self) -> None:
        self.close()
        self.kills += 1
        beside = str(Path(test_own_loop.__file__).parents[1])
        self._program = Program("-c", test_own_loop.SERVER, self._url, beside, stdout=subprocess.PIPE).__enter__()
        self.way.target = int(self._program.stdout.readline().strip().rpartition(":")[2])

    def close(self) -> None:
        if self.kills >= 0:
            self._program.kill()
            self._program.__exit__(None, None, None)


@perdure.agent
def nothing(run: perdure.Run, text: str) -> None: ...


# A verb with a `key=` each, or without; what it writes carries its text, by which it is counted below.
KEYED: dict[str, Callable[..., Any]] = {
    "turn.said": lambda client, text, **key: client.session.say("user", text, **key),
    "task.added": lambda client, text, **key: client.session.task(text, **key),
    "memory.made": lambda client, text, **key: client.session.remember(text, **key),
    "run.started": lambda client, text, **key: client.store.start(nothing, text, **key),
}
KEYLESS: dict[str, Callable[..., Any]] = {
    "deploy.done": lambda client, text: client.session.emit("deploy.done", text),
    "decision.made": lambda client, text: client.session.decide(text, because="b"),
}
KINDS = (*KEYED, *KEYED, *KEYLESS)


class Client:
    """Writes until it is acknowledged: a verb with a key by the key of the error, any other counting its repetitions.

    Each attempt has twice the time of the one before: a slow machine may answer nothing in the time of the first.
    """

    def __init__(self, store: perdure.Store) -> None:
        self.store, self.session = store, store.session("s")
        self.acknowledged: list[tuple[str, str]] = []
        self.repeated: Counter[str] = Counter()
        self.wrong: list[str] = []

    def write(self, kind: str, text: str) -> None:
        key: dict[str, str] = {}
        while True:
            try:
                (KEYED.get(kind) or KEYLESS[kind])(self, text, **key)
            except Unavailable as error:
                self._try_again("with the key" if kind in KEYED else "without a key")
                key = {"key": error.key} if kind in KEYED else {}
            else:
                self.patience_seconds = PATIENCE_SECONDS
                return self.acknowledged.append((kind, text))

    def look(self, number: int) -> None:
        """A value and a checkpoint, and listings, read back through the same way."""
        newest_turns = min(3, sum(kind == "turn.said" for kind, _ in self.acknowledged))
        for verb, expected in (
            (lambda session: session.set("n", number).value, number),
            (lambda session: session.checkpoint({"n": number}).name, "default"),
            (lambda session: session.get("n"), number),
            (lambda session: session.restore(), {"n": number}),
            (lambda session: len(session.turns(limit=3)), newest_turns),
            (lambda session: [each.title for each in session.tasks(limit=1)], self._newest("task.added")),
        ):
            if (found := self._until_answered(verb)) != expected:
                self.wrong.append(f"{found!r} instead of {expected!r}")

    def _newest(self, kind: str) -> list[str]:
        return [text for each, text in reversed(self.acknowledged) if each == kind][:1]

    def _until_answered(self, verb: Callable[[perdure.Session], Any]) -> Any:
        while True:
            try:
                answer = verb(self.session)
            except Unavailable:
                self._try_again("safe to repeat")
            else:
                self.patience_seconds = PATIENCE_SECONDS
                return answer

    def _try_again(self, how: str) -> None:
        self.repeated[how] += 1
        self.patience_seconds *= 2

    @property
    def patience_seconds(self) -> float:
        return self.store._caller.core._connections._timeout_seconds

    @patience_seconds.setter
    def patience_seconds(self, seconds: float) -> None:
        self.store._caller.core._connections._timeout_seconds = seconds


def test_every_acknowledged_write_is_there_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    token, troubles = make_token(url), Troubles(SEED, 599)
    served = Served(url, lambda *given: troubles.fate(*given) if is_hostile else PASSES)
    is_hostile = False
    try:
        with served.way as way, perdure.open(way.url, token=token) as store:
            client = Client(store)
            is_hostile = True
            client.patience_seconds = PATIENCE_SECONDS
            for number in range(WRITES):
                dying = threading.Thread(
                    target=served.restart if number % WRITES_PER_SERVER == WRITES_PER_SERVER // 2 else lambda: None
                )
                dying.start()
                client.write(KINDS[number % len(KINDS)], f"w{number}")
                dying.join()
                if number % 12 == 11:
                    client.look(number)
    finally:
        served.close()
    with perdure.open(url, read_only=True) as store:
        session = store.session("s")
        stored = Counter(
            [("turn.said", each.content) for each in perdure.every(session.turns)]
            + [("task.added", each.title) for each in perdure.every(session.tasks)]
            + [("memory.made", each.text) for each in perdure.every(session.memories)]
            + [("run.started", each.record.args[0]) for each in perdure.every(store.runs)]
            + [("deploy.done", each.data) for each in perdure.every(session.events, emitted=True)]
            + [("decision.made", each.text) for each in perdure.every(session.decisions)]
        )
    lost = [each for each in client.acknowledged if not stored[each]]
    twice = [each for each in stored if stored[each] > 1 and each[0] in KEYED]
    again = sum(count - 1 for each, count in stored.items() if each[0] in KEYLESS)
    figures = {
        "acknowledged": len(client.acknowledged), "kills": served.kills, "fates": dict(troubles.counts),
        "repeated": dict(client.repeated), "twice by a repetition without a key": again, "wrong": len(client.wrong),
        "lost": len(lost), "twice": len(twice),
    }  # fmt: skip
    print(figures)  # noqa: T201 - of a sweep
    assert (len(client.acknowledged), client.wrong, lost, twice) == (WRITES, [], [], [])
    assert again <= client.repeated["without a key"]


class Orders(BaseHTTPRequestHandler):
    """The other side of the tool: it knows no keys, so each POST is another order; GET finds those of a key."""

    protocol_version = "HTTP/1.1"
    orders: Counter[str] = Counter()  # noqa: RUF012 - emptied by the fixture

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.orders[self.headers["Idempotency-Key"]] += 1
        self._reply(201, {"n": 1})

    def do_GET(self) -> None:
        self._reply(200 if self.orders[self.path[1:]] else 404, {"n": 1})

    def _reply(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    Orders.orders.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Orders) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def ordered(port: int, probe_of: Callable[[str], Any]) -> Counter[str]:
    """Each key called until it has a result; how often the other side was told of each."""
    with HostileProxy(port, Troubles(SEED, 173).fate) as way, perdure.open("memory:") as store:
        tool = http_tool("order", probe=probe_of(way.url), lands_within=0, retries=1_000)
        for number in range(CALLS):
            while True:
                try:
                    store.session("s").act(tool, "POST", way.url, body="x", key=f"k{number}")
                except InDoubt:
                    continue
                break
    return Orders.orders


def ready(url: str) -> Any:
    return http_probe(f"{url}/{{key}}", found=lambda body: body["n"])


def naive(url: str) -> Any:
    """A probe by a client that does not notice that the headers of an answer were cut."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def probe(*, key: str = "", **_: object) -> Any:
        try:
            with opener.open(f"{url}/{key}", timeout=30) as answer:
                return perdure.Happened(1) if answer.read() else perdure.Absent()
        except urllib.error.HTTPError as error:
            return perdure.Absent() if error.code == 404 else perdure.Unknown("?")
        except (OSError, http.client.HTTPException):
            return perdure.Unknown("?")

    return probe


@pytest.mark.parametrize(("probe_of", "most"), [(ready, 1), (naive, 2)], ids=["ready", "control"])
def test_a_tool_with_a_probe_does_it_once(
    orders: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch, probe_of: Callable[[str], Any], most: int
) -> None:
    monkeypatch.setattr(Caller, "pause", lambda *_: None)
    counts = ordered(orders.server_port, probe_of)
    assert (len(counts), max(counts.values()) >= most, max(counts.values()) > 1) == (CALLS, True, most > 1)

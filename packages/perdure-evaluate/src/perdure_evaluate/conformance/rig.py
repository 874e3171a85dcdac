"""The rig: a server, workers under test behind a proxy each, and the faults that strike between the two.

A fault strikes at a request, not at a time: before it is passed on, or after it was carried out and before its answer is given.
So the points that matter are reached on any machine. Callers: `program`.
"""

from __future__ import annotations

import contextlib
import enum
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import perdure
from perdure.errors import Unavailable
from perdure.model.http_client import BROKEN, PlainConnection
from perdure.planes.access import tokens
from perdure.planes.access.tokens import CONTROL, TokenRole
from perdure.runtime.callers import caller_of
from perdure_evaluate.conformance.outside import Arrivals, JsonConnection, LocalServer, Severed, outside

PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.02
TAKEN_SECONDS = 5.0  # for another worker to take a run whose lease is over


class WireFault(enum.StrEnum):
    """The faults, each at one request of a worker."""

    KILL_BEFORE = "kill-before"  # the worker is killed, and the request is not passed on
    KILL_AFTER = "kill-after"  # the request is carried out, and the worker is killed without its answer
    KILL_SENDING = "kill-sending"  # the worker is killed while its call to the outside is under way: it arrives
    KILL_UNSENT = "kill-unsent"  # as before, and the call does not arrive
    PAUSE_BEFORE = "pause-before"  # the worker is stopped until its lease is another's; then its request is passed on
    PAUSE_AFTER = "pause-after"  # as before, and it is the answer that comes then
    LOSE_ANSWER = "lose-answer"  # the request is carried out, and its connection is cut
    REPEAT = "repeat"  # the request is carried out twice: the answers must be equal
    STALE = "stale"  # a copy with an older token and one of another holder are sent: each must be refused
    SERVER_AFTER = "server-after"  # the server is killed after the request was carried out, and started anew


KILLS = frozenset({WireFault.KILL_BEFORE, WireFault.KILL_AFTER, WireFault.KILL_SENDING, WireFault.KILL_UNSENT})
PAUSES = frozenset({WireFault.PAUSE_BEFORE, WireFault.PAUSE_AFTER})
AT_OUTSIDE = {WireFault.KILL_SENDING: "outside-after", WireFault.KILL_UNSENT: "outside-before"}


class ServerAnswer(NamedTuple):
    """An answer of the server."""

    status: int
    body: bytes

    @property
    def content(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body) if self.body else None


class ServedStore:
    """`perdure serve` over a store of its own, which can be killed and comes back at the same address."""

    def __init__(self, folder: Path, lease_seconds: float) -> None:
        self.url = f"sqlite:///{folder}/conformance.db"
        self._lease_seconds = lease_seconds
        self._folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        with perdure.open(self.url):
            pass
        with perdure.open(self.url, tenant=CONTROL) as store:
            make = caller_of(store).write
            self.worker_token = make(tokens.create, "default", TokenRole.WORKER, "worker", None)[0]
            self.admin_token = make(tokens.create, "default", TokenRole.ADMIN, "person", None)[0]
        self._process: subprocess.Popen[bytes] | None = None
        self.kills = 0
        self._closed = False
        self._mutex = threading.Lock()
        self._log = (folder / "server.log").open("ab")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [sys.executable, "-m", "perdure", "serve", "--store", self.url, "--port", str(self.port)]
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            [*command, "--lease", f"{self._lease_seconds:g}s"], stdout=self._log, stderr=self._log, cwd=self._folder
        )
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(*BROKEN):
                if self.send("GET", "/healthz", {}, b"").status == 200:
                    return
            if self._process.poll() is not None:
                break
            time.sleep(LOOK_SECONDS)
        raise Unavailable("the server did not begin", path="serve", hint=f"see {self._folder}/server.log")

    def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> ServerAnswer:
        """One request, on a connection of its own. OSError if the server is away."""
        connection = PlainConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        try:
            connection.request(method, path, body or None, dict(headers))
            response = connection.getresponse()
            return ServerAnswer(response.status, response.read())
        finally:
            connection.close()

    def ask(self, method: str, path: str, body: Any = None, key: str | None = None) -> ServerAnswer:
        """A request of the person, repeated while the server is away."""
        headers = {"authorization": f"Bearer {self.admin_token}", "content-type": "application/json"}
        headers |= {} if key is None else {"idempotency-key": key}
        sent = b"" if body is None else json.dumps(body).encode()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return self.send(method, path, headers, sent)
            except BROKEN:
                if time.monotonic() > deadline:
                    raise
                time.sleep(LOOK_SECONDS)

    def kill(self) -> None:
        """Kill it, and start it anew."""
        with self._mutex:
            if self._closed:
                return
            self.stop()
            self.kills += 1
            self.start()

    def stop(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        """Kill it for good."""
        with self._mutex:
            self._closed = True
            self.stop()
        self._log.close()


class Faults:
    """Which fault strikes next, by a seeded choice; none once the plan is fulfilled."""

    def __init__(self, least: int, seed: int) -> None:
        self._random = random.Random(seed)
        self._mutex = threading.Lock()
        self._least = least
        self._bag: list[WireFault] = []
        self._due: WireFault | None = None
        self.pausing = threading.Lock()  # one worker at a time: another one must be there to take its run
        self._gap = self._bags = 0
        self.struck: Counter[WireFault] = Counter()

    @property
    def hard(self) -> int:
        """Kills and pauses so far."""
        return sum(count for fault, count in self.struck.items() if fault in KILLS | PAUSES)

    @property
    def done(self) -> bool:
        """Whether the plan is fulfilled."""
        return self.hard >= self._least

    def at_request(self, path: str) -> WireFault | None:
        """The fault that strikes at this request. A stop before a request strikes where it matters most: before an effect."""
        with self._mutex:
            due = self._next()
            if due is None or due in AT_OUTSIDE or (due is WireFault.PAUSE_BEFORE and not path.endswith("/effects")):
                return None
            return self._strike(due)

    def at_outside(self, where: str) -> WireFault | None:
        """The fault that strikes at this call to the outside."""
        with self._mutex:
            due = self._next()
            return self._strike(due) if due is not None and AT_OUTSIDE.get(due) == where else None

    def take_back(self, fault: WireFault) -> None:
        """It could not strike here."""
        with self._mutex:
            self.struck[fault] -= 1

    def _next(self) -> WireFault | None:
        if self.done:
            return None
        if self._due is None:
            if not self._bag:
                self._bag = [fault for fault in WireFault if fault is not WireFault.SERVER_AFTER or self._bags % 3 == 0]
                self._random.shuffle(self._bag)
                self._bags += 1
            self._due, self._gap = self._bag.pop(), self._random.randrange(4)
        if self._gap:
            self._gap -= 1
            return None
        return self._due

    def _strike(self, fault: WireFault) -> WireFault:
        self._due = None
        self.struck[fault] += 1
        return fault


class Slot:
    """One worker under test: its process, the proxy in front of the server, and its outside world."""

    def __init__(
        self, served: ServedStore, arrivals: Arrivals, faults: Faults, command: Sequence[str], log: Path
    ) -> None:
        self._served = served
        self._faults = faults
        self._command = [*command]
        self._log = log.open("ab")
        self._mutex = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False
        self._quiet = threading.Event()
        self._quiet.set()
        self.holders: set[str] = set()  # of the process that runs now
        self.unequal: list[str] = []
        self.unfenced: list[str] = []
        self._proxy = _proxy(self)
        self._outside = outside(arrivals, self._at_outside)

    def start(self) -> None:
        """Start the worker."""
        environment = {
            "PERDURE_URL": self._proxy.url, "PERDURE_TOKEN": self._served.worker_token,
            "PERDURE_OUTSIDE": self._outside.url,
        }  # fmt: skip
        with self._mutex:
            if self._closed:  # it was killed by a fault, and the trial ended meanwhile
                return
            self.holders = set()
            self._process = subprocess.Popen(  # noqa: S603 - the worker under test, as the caller gave it
                self._command, env={**os.environ, **environment}, stdout=self._log, stderr=self._log
            )

    def kill(self, *, again: bool = True, wait: bool = True) -> None:
        """Kill the worker, and start it anew. When this returns, nothing that it sent can arrive any more.

        wait: not from a thread that serves one of its calls, which must end first.
        """
        with self._mutex:
            process, self._process = self._process, None
            if process is not None:
                self._quiet.clear()
                process.kill()
                process.wait()
        if process is None:
            self._quiet.wait(PATIENCE_SECONDS)
        elif wait:
            self._revive(again)
        else:
            threading.Thread(target=self._revive, args=(again,), daemon=True).start()

    def _revive(self, again: bool) -> None:
        self._outside.until_quiet()
        if again:
            self.start()
        self._quiet.set()

    def is_dead(self, holder: str) -> bool:
        """Whether the process of a holder is gone."""
        return not any(holder.endswith(f"-{own_name}") for own_name in self.holders)

    @property
    def failure(self) -> str:
        """Why the worker is not there: it ended by itself."""
        process = self._process
        ended = process is not None and process.poll() not in (None, -signal.SIGKILL)
        return f"a worker ended by itself with {process.returncode}" if ended and process is not None else ""

    # -- faults ----------------------------------------------------------------------------------------------------

    def _at_outside(self, where: str) -> None:
        if self._faults.at_outside(where) is not None:
            self.kill(wait=False)
            raise Severed

    def pass_on(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> ServerAnswer:
        """A request of the worker, with what strikes at it. Raises Severed if it gets no answer."""
        message = json.loads(body) if body else {}
        if "holder" in message:
            self.holders.add(message["holder"])
        is_verb = path.startswith("/v1/runs/") and method == "POST"
        fault = self._faults.at_request(path) if is_verb else None
        if fault is WireFault.KILL_BEFORE:
            self.kill()
            raise Severed
        if fault is WireFault.PAUSE_BEFORE:
            self._pause(path, message)
        answer = self._forward(method, path, headers, body)
        if fault is not None and answer.status == 200:
            self._after(fault, (method, path, headers, message, answer))
        return answer

    def _forward(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> ServerAnswer:
        necessary = {
            name: value for name, value in headers.items() if name.lower() in ("authorization", "content-type")
        }
        try:
            return self._served.send(method, path, necessary, body)
        except BROKEN:
            raise Severed from None

    def _after(self, fault: WireFault, about: tuple[str, str, Mapping[str, str], dict[str, Any], ServerAnswer]) -> None:
        method, path, headers, message, answer = about
        match fault:
            case WireFault.KILL_AFTER:
                self.kill()
                raise Severed
            case WireFault.LOSE_ANSWER:
                raise Severed
            case WireFault.SERVER_AFTER:
                self._served.kill()
                raise Severed
            case WireFault.PAUSE_AFTER:
                self._pause(path, message)
            case WireFault.REPEAT:
                again = self._forward(method, path, headers, json.dumps(message).encode())
                if _lasting(path, again) != _lasting(path, answer):
                    self.unequal.append(f"{path}: {answer.body[:300]!r} and {again.body[:300]!r}")
            case WireFault.STALE:
                self._send_stale(method, path, headers, message)
            case _:
                pass

    def _send_stale(self, method: str, path: str, headers: Mapping[str, str], message: dict[str, Any]) -> None:
        for wrong in ({"token": message["token"] + 7}, {"holder": "a-thief"}, {"token": message["token"] - 1}):
            if wrong.get("token") == 0 or path.endswith(("finish", "fail", "park", "rest", "release")):
                continue
            sent = self._forward(method, path, headers, json.dumps(message | wrong).encode())
            if sent.status != 409:
                self.unfenced.append(f"{path} with {wrong}: {sent.status} {sent.body[:300]!r}")

    def _pause(self, path: str, message: dict[str, Any]) -> None:
        """Stop the worker until its lease is over, and its run most often another's."""
        with self._faults.pausing:
            with self._mutex:
                process = self._process
                if process is None or process.poll() is not None:
                    return
                process.send_signal(signal.SIGSTOP)
            self._until_lost(path.split("/")[3], message["token"])
            with self._mutex:
                if self._process is process and process.poll() is None:
                    process.send_signal(signal.SIGCONT)

    def _until_lost(self, run: str, token: int) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            record = self._served.ask("GET", f"/v1/runs/{run}").content
            if record["token"] != token or record["status"] != "running":
                return
            if record["abandoned"]:
                deadline = min(deadline, time.monotonic() + TAKEN_SECONDS)
            time.sleep(LOOK_SECONDS)

    def stop(self) -> None:
        """Kill the worker for good."""
        with self._mutex:
            self._closed = True
        self.kill(again=False)
        self._proxy.close()
        self._outside.close()
        self._log.close()


def _lasting(path: str, answer: ServerAnswer) -> Any:
    """The part of an answer that must be the same again: a wait may be over by then, and a run that rests be taken."""
    verb, body = path.rpartition("/")[2], answer.content
    if verb in ("rest", "release"):
        return None
    if verb in ("asks", "waits", "sleeps", "children"):
        return (answer.status, body["wait"]["seq"])
    if verb == "effects" and body["effect"]["kind"] in ("unsafe", "probed"):
        return (answer.status, body["effect"]["seq"])  # a person may have settled it by then
    return (answer.status, {**body, "now": 0})


def _proxy(slot: Slot) -> LocalServer:
    class Proxy(JsonConnection):
        def do_POST(self) -> None:  # noqa: N802 - the name is the base class's
            try:
                answer = slot.pass_on(self.command, self.path, dict(self.headers.items()), self.body())
            except (Severed, OSError):
                self.close_connection = True
            else:
                self.reply(answer.status, answer.body)

        do_GET = do_POST  # noqa: N815 - as above

    return LocalServer(Proxy)

"""http_request against a real server on loopback that counts what arrived, by key."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.errors import Error, Failed, InDoubt, Invalid, Unavailable
from perdure.model import http_client
from perdure.model.records.effects import Absent, Happened, ToolKind, Unknown
from perdure.model.values import encode
from perdure.runtime.callers import Caller
from perdure_agents.ready import http_tool as module
from perdure_agents.ready.http_tool import BODY_MAX_BYTES, http_probe, http_request, http_tool


class Answers(BaseHTTPRequestHandler):
    """Does what the path says. Orders are kept once per key."""

    server: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def handle_any(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        key = self.headers.get("Idempotency-Key", "")
        self.server.arrived[key] += 1
        self.server.seen.append((self.command, self.path, dict(self.headers), body))
        name, _, rest = self.path.strip("/").partition("/")
        getattr(self, f"on_{name}")(rest, key, body)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self.handle_any
        raise AttributeError(name)

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content_Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def on_orders(self, rest: str, key: str, body: bytes) -> None:
        if self.command == "GET":
            found = self.server.orders.get(rest)
            return self.answer(404) if found is None else self.answer(200, found, Content_Type="application/json")
        if key not in self.server.orders:
            self.server.orders[key] = json.dumps(
                {"number": len(self.server.orders) + 1, "said": body.decode()}
            ).encode()
        if self.server.deaf:  # it landed, and the answer is lost
            self.server.deaf -= 1
            self.close_connection = True
            return None
        return self.answer(201, self.server.orders[key], Content_Type="application/json", Location=f"/orders/{key}")

    def on_status(self, rest: str, key: str, body: bytes) -> None:
        status, _, where = rest.partition("/")
        self.answer(int(status), b"because", **({"Location": f"/{where}"} if where else {}))

    def on_busy(self, rest: str, key: str, body: bytes) -> None:
        self.answer(429, b"busy", Retry_After=rest)

    def on_hang(self, rest: str, key: str, body: bytes) -> None:
        self.server.released.wait(30)
        self.close_connection = True

    def on_drip(self, rest: str, key: str, body: bytes) -> None:
        """A byte now and then, never quiet for long: headers for ever, or a body for ever."""
        self.wfile.write(b"HTTP/1.1 200 OK\r\n" + (b"Content-Length: 100000\r\n\r\n" if rest == "body" else b"X: "))
        while not self.server.released.wait(0.05):
            try:
                self.wfile.write(b"a")
                self.wfile.flush()
            except OSError:
                break
        self.close_connection = True

    def on_short(self, rest: str, key: str, body: bytes) -> None:
        self.answer(int(rest), b"half", Content_Length="1000")
        self.close_connection = True

    def on_big(self, rest: str, key: str, body: bytes) -> None:
        self.answer(200, b"a" * int(rest), Content_Type="application/json")

    def on_raw(self, rest: str, key: str, body: bytes) -> None:
        self.answer(200, body, Content_Type=self.headers["X-Answer-As"])

    def on_tagged(self, rest: str, key: str, body: bytes) -> None:
        self.answer(200, ETag="a\0b", Location="/here")

    def on_leave(self, rest: str, key: str, body: bytes) -> None:
        self.answer(int(rest), Location=self.server.elsewhere())


class Server(ThreadingHTTPServer):
    daemon_threads = True
    deaf = 0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.arrived: Counter[str] = Counter()
        self.orders: dict[str, bytes] = {}
        self.seen: list[tuple[str, str, dict[str, str], bytes]] = []
        self.released = threading.Event()

    def url(self, path: str = "") -> str:
        return f"http://127.0.0.1:{self.server_port}/{path}"

    def elsewhere(self) -> str:
        """The same server by another origin."""
        return f"http://localhost:{self.server_port}/status/200"

    def handle_error(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield running
        running.released.set()
        running.shutdown()
        thread.join()


def test_its_declaration() -> None:
    assert (http_request.kind, http_request.name, http_request.takes) == (ToolKind.KEYED, "http_request", {"key"})
    assert http_request.rule.keeps_keys == 24 * 3_600 * 1_000_000
    assert http_tool("a", probe=http_probe("http://a/{key}")).kind is ToolKind.PROBED
    assert "Idempotency-Key" in (http_request.__doc__ or "")


def test_it_sends_the_key_and_gives_the_answer(server: Server) -> None:
    found = http_request("POST", server.url("orders"), key="k 1", body={"a": [1]}, headers={"X-A": "b"})
    assert (found["status"], found["body"]["number"], found["truncated"]) == (201, 1, False)
    assert found["headers"] == {"Content-Type": "application/json", "Location": "/orders/k 1"}
    method, _, headers, body = server.seen[0]
    assert (method, body, headers["Content-Type"], headers["X-A"]) == ("POST", b'{"a":[1]}', "application/json", "b")
    assert server.arrived == {"k 1": 1}
    encode(found)


def test_a_lost_answer_is_doubt_and_called_again_it_lands_once(server: Server) -> None:
    server.deaf = 1
    with pytest.raises(InDoubt):
        http_request("POST", server.url("orders"), key="k", body="x")
    assert server.arrived == {"k": 1}  # no hidden second
    assert http_request("POST", server.url("orders"), key="k", body="x")["body"]["number"] == 1
    assert (server.arrived, len(server.orders)) == ({"k": 2}, 1)
    http_request("POST", server.url("orders"), key="other", body="x")  # the control: another key is another order
    assert len(server.orders) == 2


SENDER = (
    "import sys; from perdure_agents.ready.http_tool import http_request\n"
    "http_request('POST', sys.argv[1], key='k', body='x')"
)


def test_a_sender_killed_while_it_waits_has_sent_once(server: Server) -> None:
    with subprocess.Popen([sys.executable, "-c", SENDER, server.url("hang")]) as sender:
        while not server.arrived:
            assert sender.poll() is None
            time.sleep(0.01)
        sender.send_signal(signal.SIGKILL)
    assert server.arrived == {"k": 1}


FAILED = [400, 401, 403, 404, 405, 410, 412, 413, 422, 300, 304, 307, 308]
DOUBT = [102, 103, 408, 409, 500, 502, 503, 504, 301, 302]
LATER = [425, 429]


@pytest.mark.parametrize(
    ("status", "error"),
    [(s, Failed) for s in FAILED] + [(s, InDoubt) for s in DOUBT] + [(s, Unavailable) for s in LATER],
)
def test_every_status_is_a_no_or_later_or_doubt(server: Server, status: int, error: type[Error]) -> None:
    with pytest.raises(error) as refused:
        http_request("POST", server.url(f"status/{status}/orders"), key="k", body="x")
    assert type(refused.value) is error
    assert refused.value.facts["status"] == status
    assert str(status) in str(refused.value)
    assert server.arrived == {"k": 1}  # neither a retry nor a redirect


AT_NOON = "Wed, 21 Oct 2026 12:00:00 GMT"


@pytest.mark.parametrize(
    ("later", "now", "seconds"),
    [
        ("30", "", 30),
        ("9" * 5_000, "", 9_999_999_999),
        ("Wed, 21 Oct 2026 12:01:30 GMT", AT_NOON, 90),
        ("Wed, 21 Oct 2026 11:00:00 GMT", AT_NOON, 0),
        ("Wed, 21 Oct 9999999 12:00:00 GMT", AT_NOON, 0),
        ("-5", "", 0),
        ("soon", AT_NOON, 0),
        ("\u0661\u0662", "", 0),
    ],
)
def test_when_to_come_back_is_told_in_seconds_or_by_their_clock(later: str, now: str, seconds: int) -> None:
    assert module._seconds_until(later, now) == seconds


def test_it_comes_back_when_it_is_told_to(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    paused: list[float] = []
    monkeypatch.setattr(Caller, "pause", lambda _caller, seconds, _check=None: paused.append(seconds))
    with perdure.open("memory:") as store, pytest.raises(Failed, match="429: busy"):
        store.session("s").act(http_tool("busy", retries=2), "POST", server.url("busy/30"), key="k")
    assert paused == [30.0, 30.0]
    assert server.arrived.total() == 3


@pytest.mark.parametrize("status", [200, 202, 204, 303])
def test_a_yes_is_a_result(server: Server, status: int) -> None:
    assert http_request("POST", server.url(f"status/{status}"), key="k")["status"] == status


def test_redirects_are_followed_for_get_and_only_within_the_origin(server: Server) -> None:
    there = server.url("status/302/status/200")
    assert http_request("GET", there, key="k")["status"] == 200
    with pytest.raises(InDoubt, match="moved to"):
        http_request("POST", there, key="p")
    assert server.arrived == {"k": 2, "p": 1}
    with pytest.raises(Failed, match="a redirect that is not followed"):
        http_request("GET", server.url("status/302/status/302"), key="loop", timeout=5)
    bound = http_tool("bound", origin=server.url(), secrets=lambda: {"Authorization": "canary"})
    bound("GET", there, key="s")
    assert [headers.get("Authorization") for *_, headers, _ in server.seen][-2:] == ["canary", "canary"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_redirect_to_another_origin_is_a_clear_no(server: Server, method: str, status: int) -> None:
    """What stands there must neither be asked by this machine nor come back as the answer of the origin."""
    leave = server.url(f"leave/{status}")
    for each in (http_request, http_tool("bound", origin=server.url())):
        with pytest.raises(Failed, match=f"{status}: a redirect") as refused:
            each(method, leave, key="k")
        assert server.elsewhere() in refused.value.hint
    assert {path for _, path, *_ in server.seen} == {f"/leave/{status}"}
    verdict = http_probe(leave)()
    assert isinstance(verdict, Unknown), verdict


@contextmanager
def unheard() -> Iterator[int]:
    """A port at which nobody listens, and that nobody else gets meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def test_no_connection_means_nothing_was_sent() -> None:
    with unheard() as port, pytest.raises(Unavailable, match="no connection"):
        http_request("POST", f"http://127.0.0.1:{port}/", key="k")
    with pytest.raises(Unavailable):
        http_request("POST", "http://no-such-host.invalid/", key="k", timeout=5)


@pytest.mark.parametrize("path", ["hang", "drip/headers", "drip/body"])
def test_one_deadline_holds_for_everything(server: Server, path: str) -> None:
    """A server that says a byte now and then is never late by the socket's own timeout: only the deadline ends it."""
    check_overdue(server, server.url(path))


def check_overdue(server: Server, url: str) -> None:
    """A call that is in doubt at its deadline arrived once. A busy machine may need longer even to send it."""
    for seconds in (0.4, 4.0, 40.0):
        key = f"{url} {seconds}"
        with pytest.raises((InDoubt, Unavailable), match=rf"within {seconds:g} s") as late:
            http_request("POST", url, key=key, timeout=seconds)
        for _ in range(200):
            if late.type is InDoubt and server.arrived[key]:
                assert server.arrived[key] == 1
                return
            time.sleep(0.01)
    pytest.fail("it was never sent")


def test_control_without_the_wire_a_drip_is_not_noticed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client._Wire, "_cut", lambda self: None)

    def call() -> None:
        with suppress(Error):
            http_request("POST", server.url("drip/body"), key="k", timeout=0.4)

    def goes_on() -> bool:
        thread = threading.Thread(target=call)
        thread.start()
        thread.join(1.5)
        found = thread.is_alive()
        server.released.set()
        thread.join()
        server.released.clear()
        return found

    assert any(goes_on() for _ in range(10))  # a server that was quiet for so long, on a busy machine, is noticed


def test_a_connection_that_comes_too_late_sends_nothing(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    real = http_client.PlainConnection.connect

    def slow(self: Any) -> None:
        real(self)
        time.sleep(0.5)

    monkeypatch.setattr(http_client.PlainConnection, "connect", slow)
    with pytest.raises(Unavailable, match=r"within 0\.2 s"):
        http_request("POST", server.url("orders"), key="k", timeout=0.2)
    assert server.arrived == {}


def test_half_an_answer_is_doubt_after_a_yes_and_after_a_no(server: Server) -> None:
    for status in (200, 404):
        with pytest.raises(InDoubt):
            http_request("POST", server.url(f"short/{status}"), key="k")
    assert http_request("HEAD", server.url("short/200"), key="k")["body"] == ""  # the control: nothing was to come


def test_a_long_answer_is_cut_and_says_so(server: Server) -> None:
    found = http_request("GET", server.url(f"big/{BODY_MAX_BYTES + 1}"), key="k")
    assert (len(found["body"]), found["truncated"]) == (BODY_MAX_BYTES, True)
    found = http_request("GET", server.url(f"big/{BODY_MAX_BYTES}"), key="k")
    assert (len(found["body"]), found["truncated"]) == (BODY_MAX_BYTES, False)


@pytest.mark.parametrize(
    ("sent", "kind", "kept"),
    [
        (b'{"a": 1}', "application/json", {"a": 1}), (b"[1]", "application/problem+json", [1]), (b"{", "application/json", "{"),
        (b'{"a": 1}', "text/plain", '{"a": 1}'),
        (b'"\\u0000"', "application/json", '"\\u0000"'), (b"\xff", "text/plain", b"\xff"),
        (b"a\0", "text/plain", b"a\0"), (b"", "application/json", ""), (b'"\xff"', "application/json", b'"\xff"'),
        (b"[" * 9_999, "application/json", "[" * 9_999),
        (b"[[" * 999 + b"]]" * 999, "application/json", "[[" * 999 + "]]" * 999),
    ],
)  # fmt: skip
def test_every_answer_can_be_kept(server: Server, sent: bytes, kind: str, kept: Any) -> None:
    found = http_request("POST", server.url("raw"), key="k", body=sent, headers={"X-Answer-As": kind})
    assert found["body"] == kept
    encode(found)


def test_a_header_that_cannot_be_kept_is_left_out(server: Server) -> None:
    found = http_request("POST", server.url("tagged"), key="k")
    assert found["headers"] == {"Location": "/here"}
    encode(found)


def test_secrets_are_sent_and_never_arguments(server: Server) -> None:
    bound = http_tool("bound", origin=server.url(), secrets=lambda: {"Authorization": "Bearer canary"})
    bound("POST", server.url("orders"), key="k")
    assert server.seen[0][2]["Authorization"] == "Bearer canary"
    assert "canary" not in repr(bound.bind(("POST", server.url("orders")), {}))
    with pytest.raises(Invalid, match="only"):
        bound("POST", f"http://localhost:{server.server_port}/orders", key="k")
    with pytest.raises(Invalid, match="recorded"):
        http_request("POST", server.url("orders"), key="k", headers={"authorization": "Bearer canary"})
    with pytest.raises(Invalid, match="origin"):
        http_tool("loose", secrets=dict)
    assert server.arrived == {"k": 1}


HOSTILE: list[tuple[str, Any]] = [
    ("method", "get"), ("method", "BREW\r\n"), ("url", "ftp://a/b"), ("url", "file:///etc"), ("url", "http://a b/"),
    ("url", "http://a/\r\nX: y"), ("url", "http:///a"), ("url", "http://u:p@a/"), ("url", "http://a:99999/"), ("url", 7),
    ("headers", {"A\n": "b"}), ("headers", {"A": "b\r\nC: d"}), ("headers", {"Idempotency-Key": "x"}), ("headers", {"Host": "x"}),
    ("headers", [1]), ("headers", {"A": "ä"}), ("body", {"a": object()}), ("timeout", 0), ("timeout", 301),
    ("key", "a\nb"), ("key", ""),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), HOSTILE)
def test_hostile_arguments_are_refused(server: Server, name: str, value: Any) -> None:
    good: dict[str, Any] = {"method": "POST", "url": server.url("orders"), "key": "k"}
    with pytest.raises(Invalid) as refused:
        http_request(**{**good, name: value})
    assert refused.value.path.partition(".")[0] == name
    assert server.arrived == {}
    assert http_request(**good)["status"] == 201  # the control


def asked(probe: Callable[..., Any], key: str = "k", **args: Any) -> Any:
    declared = http_tool("asked", probe=probe)
    return declared.call(probe, {"method": "POST", "url": "http://a/", **args}, key=key)


def test_a_probe_in_all_its_answers(server: Server) -> None:
    probe = http_probe(server.url("orders/{key}"), found=lambda body: body.get("number"), timeout=5)
    assert isinstance(asked(probe), Absent)  # 404
    http_request("POST", server.url("orders"), key="k")
    assert asked(probe) == Happened(1)
    assert isinstance(asked(http_probe(server.url("orders/{key}"), found=lambda body: body.get("none"))), Absent)
    whole = asked(http_probe(server.url("orders/{key}")))
    assert whole.result["status"] == 200
    assert isinstance(asked(http_probe(server.url("status/410"))), Absent)
    for path in ("status/500", "status/403", "status/429", f"big/{BODY_MAX_BYTES + 1}", "short/200", "short/404"):
        assert isinstance(asked(http_probe(server.url(path))), Unknown), path
    assert isinstance(asked(http_probe(server.url("hang"), timeout=0.2)), Unknown)
    assert isinstance(asked(http_probe("http://no-such-host.invalid/{key}")), Unknown)


def test_what_fills_a_probes_url_is_quoted(server: Server) -> None:
    asked(http_probe(server.url("status/200/{key}?of={method}")), key="../a b?c#d")
    assert server.seen[-1][1] == "/status/200/..%2Fa%20b%3Fc%23d?of=POST"
    assert isinstance(asked(http_probe(server.url("{none}"))), Unknown)


def test_a_probe_sends_no_key_and_secrets_of_its_own(server: Server) -> None:
    asked(http_probe(server.url("status/200"), secrets=lambda: {"Authorization": "canary"}))
    headers = server.seen[-1][2]
    assert headers["Authorization"] == "canary"
    assert "Idempotency-Key" not in headers


def test_the_proxy_of_the_environment_is_used(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that is not there means that nothing was sent."""
    monkeypatch.delenv("no_proxy", raising=False)
    with unheard() as port:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{port}")
        with pytest.raises(Unavailable):
            http_request("POST", server.url("orders"), key="k")
    assert (server.arrived, os.environ["http_proxy"][-1]) == ({}, str(port)[-1])


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("no openssl here: not tested over TLS")
    path = tmp_path / "both.pem"
    kind = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost"]
    made = [program, "req", *kind, *names, "-keyout", path, "-out", tmp_path / "cert.pem"]
    subprocess.run(made, check=True, capture_output=True)
    path.write_text(path.read_text() + (tmp_path / "cert.pem").read_text())
    return path


def test_over_tls_the_same_holds(server: Server, certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    url = f"https://localhost:{server.server_port}"
    with pytest.raises(Unavailable, match="certificate"):  # nobody whom we trust: nothing was sent
        http_request("POST", f"{url}/orders", key="k")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.with_name("cert.pem")))
    assert http_request("POST", f"{url}/orders", key="k")["status"] == 201
    for path in ("hang", "drip/headers", "drip/body"):
        check_overdue(server, f"{url}/{path}")
    assert server.arrived["k"] == 1

"""News over the network: a remote handle hears what comes, over cut connections and restarts, with nothing lost or twice."""

from __future__ import annotations

import asyncio
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import pytest

import perdure
from doors.http.serving_kit import LiveServer, make_token
from perdure.planes.reading import durations
from perdure.remote import listening
from perdure.runtime import patience
from remote.test_store import address_of, server, url

__all__ = ["server", "url"]

STEPS = 60


class Severing:
    """A way to the server that carries everything both ways, until all of it is cut at once."""

    def __init__(self, port: int) -> None:
        self.target = port
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self.requests: list[bytes] = []
        self._mutex = threading.Lock()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            try:
                ahead = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()
                continue
            with self._mutex:
                self._pairs.append((client, ahead))
            threading.Thread(target=self._join, args=(client, ahead), daemon=True).start()

    def _join(self, client: socket.socket, ahead: socket.socket) -> None:
        with client, ahead:
            back = threading.Thread(target=self._carry, args=(ahead, client, None), daemon=True)
            back.start()
            self._carry(client, ahead, self.requests)
            back.join()

    def _carry(self, source: socket.socket, sink: socket.socket, noted: list[bytes] | None) -> None:
        with suppress(OSError):
            while piece := source.recv(1 << 16):
                if noted is not None:
                    noted.append(piece)
                sink.sendall(piece)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """Cut all connections."""
        with self._mutex:
            pairs, self._pairs = self._pairs, []
        for each in (each for pair in pairs for each in pair):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def asked(self, path: bytes) -> int:
        """How many requests there were for this path."""
        return sum(piece.startswith(b"GET " + path) for piece in self.requests)

    def close(self) -> None:
        self.cut()
        self._socket.close()


@pytest.fixture
def way(server: LiveServer) -> Iterator[Severing]:
    made = Severing(int(address_of(server).rpartition(":")[2]))
    yield made
    made.close()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks by itself: only what the server tells lets a waiting verb look again."""
    monkeypatch.setattr(patience, "LOOK_SECONDS", 3600.0)
    monkeypatch.setattr(durations, "_FIRST_PAUSE_SECONDS", 3600.0)


def opened(way: Severing, url: str) -> perdure.Store:
    return perdure.open(f"http://127.0.0.1:{way.port}", token=make_token(url))


PATIENCE_SECONDS = 120.0  # for what another thread does: only a hang takes so long


def until(said: Callable[[], Any], work: Future[Any] | None = None) -> None:
    """Wait for something. work: brings it about; its error is raised here."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not said():
        if work is not None and work.done():
            work.result()
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.005)


def beside(work: Callable[..., Any], *args: Any) -> Future[Any]:
    """Do it on a thread, whose error is not lost."""
    done: Future[Any] = Future()

    def run() -> None:
        try:
            done.set_result(work(*args))
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return done


def follow(store: perdure.Store, cursor: str, seen: list[Any], enough: Callable[[], bool]) -> None:
    while not enough():
        page = store.feed(cursor, wait="1h")
        seen += [each.data["n"] for each in page if each.kind == "deploy.step"]
        cursor = page.next or cursor


def test_a_feed_that_is_cut_many_times_has_everything_once_and_in_order(way: Severing, url: str, slow: None) -> None:
    dice, seen = random.Random(3), []
    with perdure.open(url) as local, opened(way, url) as store:
        session = local.session("s")
        reader = beside(follow, store, store.feed_end(), seen, lambda: len(seen) >= STEPS)
        for n in range(STEPS):
            if dice.random() < 0.5:  # in the middle of a stream; else at whatever goes on just now
                streams = way.asked(b"/v1/stream")
                way.cut()
                until(lambda streams=streams: way.asked(b"/v1/stream") > streams)
            session.emit("deploy.step", {"n": n})
            if dice.random() < 0.3:
                until(lambda n=n: len(seen) > n, reader)
            way.cut()
        reader.result(PATIENCE_SECONDS)
    assert seen == [*range(STEPS)]
    begun = [piece for piece in way.requests if piece.startswith(b"GET /v1/stream")]
    assert len(begun) > STEPS / 3
    assert any(b"Last-Event-ID" in piece for piece in begun)  # it came back with its place


def test_control_without_news_nobody_looks_again(
    way: Severing, url: str, slow: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening.StreamNews, "_tell", lambda self: None)
    seen: list[Any] = []
    with perdure.open(url) as local:
        store = opened(way, url)
        reader = beside(follow, store, store.feed_end(), seen, lambda: bool(seen))
        until(lambda: way.asked(b"/v1/stream"), reader)
        local.session("s").emit("deploy.step", {"n": 1})
        with pytest.raises(TimeoutError):
            reader.result(1.0)
        assert not seen
        monkeypatch.undo()
        store.close()


def test_a_server_that_starts_again_loses_and_repeats_nothing(way: Severing, url: str, slow: None) -> None:
    """Its port is another one, and the way leads there."""
    seen: list[Any] = []
    with perdure.open(url) as local, opened(way, url) as store:
        session = local.session("s")
        reader = beside(follow, store, store.feed_end(), seen, lambda: len(seen) >= 4)
        until(lambda: way.asked(b"/v1/stream"), reader)
        for n in range(4):
            way.cut()
            session.emit("deploy.step", {"n": n})
            with LiveServer(url) as other:
                way.target = int(address_of(other).rpartition(":")[2])
                until(lambda n=n: len(seen) > n, reader)
        reader.result(PATIENCE_SECONDS)
    assert seen == [0, 1, 2, 3]


def test_a_subscription_hears_of_its_events(way: Severing, url: str, slow: None) -> None:
    with perdure.open(url) as local, opened(way, url) as store:
        session = local.session("s")
        found: list[Any] = []

        def take() -> None:
            for event in store.subscribe("ci", "end", kinds=["deploy.*"]).follow(wait="1h"):
                found.append(event.data["n"])
                if len(found) == 3:
                    return

        reader = beside(take)
        until(lambda: way.asked(b"/v1/stream"), reader)
        for n in range(3):
            way.cut()
            session.emit("other.kind")
            session.emit("deploy.step", {"n": n})
            until(lambda n=n: len(found) > n, reader)
        reader.result(PATIENCE_SECONDS)
        assert found == [0, 1, 2]


def test_a_result_is_heard_of_and_other_runs_are_not(way: Severing, url: str, slow: None) -> None:
    @perdure.agent(name="quick")
    def quick(run: perdure.Run, n: int) -> int:
        return run.step(abs, -n)

    with perdure.open(url) as local, opened(way, url) as store:
        handle, other = store.start(quick, 7, key="a"), store.start(quick, 8, key="b")
        results: list[Any] = []
        reader = beside(lambda: results.append(handle.result(timeout="1h")))
        until(lambda: way.asked(b"/v1/stream"), reader)
        before = way.asked(b"/v1/runs/" + handle.id.encode())
        local.drive(quick, 8, key="b")
        assert other.result() == 8
        asked = way.asked(b"/v1/runs/" + handle.id.encode())
        local.drive(quick, 7, key="a")
        reader.result(PATIENCE_SECONDS)
    assert results == [7]
    assert asked <= before + 1  # the first look after the stream began, if it came that late


def test_async_callers_hear_and_can_be_cancelled(way: Severing, url: str, slow: None) -> None:
    async def listen() -> list[Any]:
        async with perdure.aopen(f"http://127.0.0.1:{way.port}", token=make_token(url)) as store:
            cursor = await store.feed_end()
            given_up = asyncio.create_task(store.feed(cursor, wait="1h"))
            kept = asyncio.create_task(store.feed(cursor, wait="1h"))
            await asyncio.to_thread(until, lambda: way.asked(b"/v1/stream"))
            given_up.cancel()
            with suppress(asyncio.CancelledError):
                await given_up
            await asyncio.to_thread(emit)
            return [each.kind for each in await kept]

    def emit() -> None:
        with perdure.open(url) as local:
            local.session("s").emit("deploy.step", {"n": 1})

    assert asyncio.run(listen())


def test_closing_ends_the_stream_and_who_waits(way: Severing, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "LOOK_SECONDS", 3600.0)
    store = opened(way, url)
    ended: list[Any] = []

    def wait() -> None:
        try:
            store.feed(store.feed_end(), wait="1h")
        except perdure.Error as error:
            ended.append(type(error).__name__)

    reader = beside(wait)
    until(lambda: any(each.name == "perdure-news" for each in threading.enumerate()))
    store.close()
    reader.result(PATIENCE_SECONDS)
    assert ended == ["Refused"]  # the store is closed
    until(lambda: not any(each.name == "perdure-news" for each in threading.enumerate()))


def test_a_stream_that_nobody_waits_for_ends(way: Severing, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "IDLE_SECONDS", 0.0)
    with opened(way, url) as store:
        assert not store.feed(store.feed_end(), wait="300ms")
        until(lambda: not any(each.name == "perdure-news" for each in threading.enumerate()))


def test_where_nobody_may_listen_it_is_looked_at_again(
    way: Severing, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "LOOK_SECONDS", 3600.0)
    real = listening.get
    monkeypatch.setattr(listening, "get", lambda _path, *given, **asked: real("/v1/nowhere", *given, **asked))
    seen: list[Any] = []
    with perdure.open(url) as local, opened(way, url) as store:
        reader = beside(follow, store, store.feed_end(), seen, lambda: bool(seen))
        until(lambda: way.asked(b"/v1/nowhere"))
        local.session("s").emit("deploy.step", {"n": 5})
        reader.result(PATIENCE_SECONDS)
    assert seen == [5]


@pytest.mark.parametrize("cut", [b"id: abc", b"id: abc\n", b"id: abc\ndata: 1\n"])
def test_a_message_that_was_cut_off_is_none(cut: bytes) -> None:
    whole = b"id: first\ndata: 1\n\n: alive\nid: second\n\n"
    found = [*listening._messages((whole + cut).splitlines(keepends=True))]
    assert found == [("first", True), ("second", False)]

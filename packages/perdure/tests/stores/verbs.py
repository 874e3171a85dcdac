"""Plain verbs to test lanes and stores with, and the check that nothing was lost, doubled or bent."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from perdure.log.change import Change, Op, Stream
from perdure.log.event import decode_body
from perdure.planes.audit.verify import verify
from perdure.planes.tables import SESSIONS, TURNS
from perdure.stores.core import Core, open_core
from perdure.stores.job import Job
from perdure.stores.sqlite import BUSY_WAIT_MS, SqliteConnection
from perdure.stores.statements import Statements
from perdure.stores.store import event_of
from perdure.stores.tx import LOG, Tx

READS = Statements("stores", "verbs.sql")


def begin(tx: Tx, name: str) -> Stream:
    """Get or create the stream of a session."""
    stream = tx.find_stream("session", name)
    if stream is None:
        stream = tx.new_stream("session", name)
        columns = {"name": name, "title": "", "status": "active", "creator": tx.actor, "labels": "[]"}
        tx.record(Change("session.opened", stream, SESSIONS, set={**columns, "created_at": tx.now}))
    return stream


def append(tx: Tx, stream: Stream, content: Any, key: str | None = None) -> int:
    """Say something; the row and the event."""
    return tx.record(Change("turn.said", stream, TURNS, set={"role": "user", "key": key}, doc={"content": content}))


def begin_and_append(tx: Tx, name: str, content: Any) -> int:
    """Both in one commit."""
    return append(tx, begin(tx, name), content)


def retitle(tx: Tx, stream: Stream, title: str) -> None:
    """Change the session's row, whatever is in it."""
    tx.record(Change("session.titled", stream, SESSIONS, op=Op.SET, set={"title": title}))


def count_turns(reads: Any, stream: Stream) -> int:
    """How many turns there are; own writes are seen, because the query says what it touches."""
    return reads.query(READS.turns_count, touches=[(TURNS, stream.id)], stream=stream.id)[0][0]


class Opened:
    """An open core with an actor and a tenant, so that tests say only what they mean."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.tenant = core.tenant_id("default")

    def write(self, verb: Callable[..., Any], *args: Any) -> Any:
        return self.core.write(verb, *args, actor="me", tenant=self.tenant)

    def submit(self, verb: Callable[..., Any], *args: Any) -> Any:
        return self.core.lane.submit(Job(verb, args, {}, "me", self.tenant))

    def read(self, verb: Callable[..., Any], *args: Any) -> Any:
        return self.core.read(verb, *args, tenant=self.tenant)

    def contents(self, stream: Stream) -> list[Any]:
        """What was said in a stream, in order."""
        return self.read(_contents, stream)


def _contents(reads: Any, stream: Stream) -> list[Any]:
    rows = reads.query(LOG.events_page, stream=stream.id, after=0, upto=2**62, limit=1_000_000)
    bodies = [decode_body(event.body) for event in map(event_of, rows) if event.body and event.table == "turns"]
    return [body.doc["content"] for body in bodies]


@contextlib.contextmanager
def opened(url: str, **options: Any) -> Iterator[Opened]:
    core = open_core(url, **options)
    try:
        yield Opened(core)
    finally:
        core.close()


def everything(url: str) -> Counter[Any]:
    """Every content in the store with how often it is there; the store is verified on the way (P5, P6)."""
    with opened(url) as store:
        report = verify(lambda verb, *args: store.core.read(verb, *args, tenant=0))
        assert report.ok, report
        rows = store.read(lambda reads: reads.query(READS.streams_all))
        return Counter(content for row in rows for content in store.contents(Stream(*row)))


@contextlib.contextmanager
def impatient(store: Opened, seconds: float = 0.2) -> Iterator[None]:
    """A store that has written waits no longer than this, for now: what must go well keeps the time that a busy machine takes."""
    lane, connection = store.core.lane, store.core.lane._connection
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(store.core, "timeout_seconds", seconds)
        patched.setattr(lane, "_timeout_seconds", seconds)
        if isinstance(connection, SqliteConnection):
            patched.setattr(connection, "_wait_seconds", seconds, raising=False)
            connection.raw.set_busy_timeout(int(seconds * 1000))
        yield
    if isinstance(connection, SqliteConnection):
        connection.raw.set_busy_timeout(BUSY_WAIT_MS)


class Gate:
    """A verb that holds the lane until the gate is opened."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self._open = threading.Event()

    def __call__(self, tx: Tx) -> None:
        self.entered.set()
        assert self._open.wait(60), "the gate was never opened"

    def open(self) -> None:
        self._open.set()


class Called(threading.Thread):
    """A call on a thread of its own; `outcome` is what it returned or raised."""

    def __init__(self, call: Callable[..., Any], *args: Any) -> None:
        super().__init__(daemon=True)
        self._call, self._args = call, args
        self._result: Any = None
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._result = self._call(*self._args)
        except BaseException as error:
            self._error = error

    def outcome(self) -> Any:
        self.join(60)
        assert not self.is_alive(), "the call hangs"
        if self._error is not None:
            raise self._error
        return self._result


def until(condition: Callable[[], bool]) -> None:
    """Give other threads the time to get there."""
    for _ in range(60_000):
        if condition():
            return
        time.sleep(0.001)
    raise AssertionError("it never came about")

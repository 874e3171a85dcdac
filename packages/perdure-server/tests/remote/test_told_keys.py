"""A write that nobody answered may have been carried out: its error has the key under which the caller repeats it (P1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import perdure
from hostile_http import ANSWER_IS_LOST, PASSES, Fate, HostileProxy
from perdure.errors import Damaged, Full, Imported, Limited, NotFound, TimedOut, Unauthenticated, Unavailable
from remote.test_store import kinds, make_token, port_of, server, url

__all__ = ["server", "url"]


@perdure.agent
def fix(run: perdure.Run) -> None: ...


# Each verb that takes a `key=`, and the event that it makes.
VERBS: dict[str, Callable[..., Any]] = {
    "turn.said": lambda store, **key: store.session("s").say("user", "hello", **key),
    "run.started": lambda store, **key: store.start(fix, **key),
    "task.added": lambda store, **key: store.session("s").task("deploy", **key),
    "memory.made": lambda store, **key: store.session("s").remember("it rains", **key),
    "effect.planned": lambda store, **key: store.session("s").begin("send", **key),
    "run.signalled": lambda store, **key: next(iter(store.runs())).signal("go", **key),
}


class Cutting:
    """Lets everything pass until it is told to lose the answers of all writes, for which nobody then waits long."""

    def __init__(self, port: int) -> None:
        self._is_on = False
        self.way = HostileProxy(
            port, lambda _, request: ANSWER_IS_LOST if self._is_on and request[:3] != b"GET" else PASSES
        )

    def turn(self, store: perdure.Store, *, on: bool) -> None:
        self._is_on = on
        store._caller.core._connections._timeout_seconds = 0.3 if on else 30.0


@pytest.mark.parametrize("kind", VERBS)
def test_a_caller_repeats_a_keyless_write_with_the_key_of_its_error(url, server, kind: str) -> None:
    cutting = Cutting(port_of(server))
    with cutting.way as way, perdure.open(way.url, token=make_token(url)) as store:
        session = store.session("s")
        session.say("user", "before")
        store.start(fix)
        before = kinds(url).count(kind)
        cutting.turn(store, on=True)
        with pytest.raises(Unavailable, match="may have been carried out") as raised:
            VERBS[kind](store)
        assert raised.value.key
        assert raised.value.key in str(raised.value)
        cutting.turn(store, on=False)
        VERBS[kind](store, key=raised.value.key)
        assert kinds(url).count(kind) == before + 1
        VERBS[kind](store)  # the control: without the key it is another one
        assert kinds(url).count(kind) == before + 2


def test_the_key_that_the_caller_gave_is_the_one_that_it_is_told(url, server) -> None:
    cutting = Cutting(port_of(server))
    with cutting.way as way, perdure.open(way.url, token=make_token(url)) as store:
        session = store.session("s")
        cutting.turn(store, on=True)
        for verb in (lambda: session.say("user", "x", key="mine"), lambda: session.task("x", key="mine")):
            with pytest.raises(Unavailable) as raised:
                verb()
            assert raised.value.key == "mine"


def test_a_verb_without_a_key_tells_it_too(url, server) -> None:
    cutting = Cutting(port_of(server))
    with cutting.way as way, perdure.open(way.url, token=make_token(url)) as store:
        session = store.session("s")
        cutting.turn(store, on=True)
        with pytest.raises(Unavailable, match="look first") as raised:
            session.emit("deploy.done")
        assert raised.value.key in str(raised.value)


def test_an_error_that_says_what_was_done_tells_no_key(url, server) -> None:
    """A read changes nothing, and a refusal of the server wrote nothing."""
    with perdure.open(server.address, token=make_token(url)) as store:
        session = store.session("s")
        with pytest.raises(NotFound) as raised:
            session.say("user", "x", parent=99)
        assert raised.value.key is None


@pytest.mark.parametrize("first", [ANSWER_IS_LOST, PASSES], ids=["after a lost answer", "control"])
@pytest.mark.parametrize("kind", [Limited, TimedOut, Full, Unauthenticated])
def test_a_refusal_after_a_lost_answer_leaves_the_write_unknown(url, server, kind, first) -> None:
    """The refusal is about the second attempt alone: taken for the whole, a caller writes again under another key."""
    fates = [first] if first is ANSWER_IS_LOST else []
    problem = b'{"title": "%s", "status": %d, "detail": "no"}' % (kind.__name__.encode(), kind.http_status)
    refused = Fate(arrives=False, status=kind.http_status, body=problem)
    is_on = False

    def fate(_: int, request: bytes) -> Fate:
        return PASSES if not is_on or b"/turns" not in request else fates.pop() if fates else refused

    with HostileProxy(port_of(server), fate) as way, perdure.open(way.url, token=make_token(url)) as store:
        session = store.session("s")
        is_on, store._caller.core._connections._timeout_seconds = True, 0.3
        with pytest.raises(kind) as raised:
            session.say("user", "x")
        is_on, key = False, raised.value.key
        assert (key is not None, "may have been carried out" in str(raised.value)) == (first is not PASSES,) * 2
        session.say("user", "x", **({"key": key} if key else {}))
        assert kinds(url).count("turn.said") == 1


def test_a_key_that_a_copy_holds_is_no_key_to_repeat_with() -> None:
    assert Imported("held", key="k").key is None


def test_another_program_that_answers_a_write_leaves_it_unknown(url, server) -> None:
    trouble = HostileProxy(port_of(server), lambda _, request: PASSES if b"/turns" not in request else Fate(status=200))
    with trouble as way, perdure.open(way.url, token=make_token(url)) as store:
        with pytest.raises(Damaged) as raised:
            store.session("s").say("user", "x")
        assert raised.value.key in str(raised.value)

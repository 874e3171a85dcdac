"""The identity of a request: what was given alone, made in one place, and marks that were made before that (P1)."""

from __future__ import annotations

from typing import ClassVar

import msgspec
import pytest

import perdure
from doors.http.serving_kit import client
from perdure.planes.execution import requests
from perdure.planes.execution.imported import REQUESTS
from perdure.planes.execution.requests import differing, given_of
from perdure.planes.memory import values
from perdure_server.http import call as calls

UNSET = msgspec.UNSET


class Part(msgspec.Struct, kw_only=True):
    name: str
    exact: bool = False


class Before(msgspec.Struct, kw_only=True):
    text: str
    kind: str = "fact"
    priority: int = 0
    tags: list[str] = []
    parts: list[Part] = []
    share: float | None = None


class After(Before, kw_only=True):
    importance: int = 5
    force: bool = False
    labels: list[str] | msgspec.UnsetType = UNSET


@pytest.mark.parametrize(
    ("given", "default", "stays"),
    [
        (False, False, False), (0, 0, False), ((), [], False), ([], [], False), ("fact", "fa" + "ct", False), (None, None, False),
        (1_000_000, 10**6, False), (0.5, 0.5, False),
        (10**30, None, True), (None, UNSET, True),
        ("\ud800", "", True), (float("nan"), None, True),
        (False, 0, True), (0, False, True), ([], None, True), ("", None, True), (None, [], True), (True, 1, True), (1, 0, True),
    ],
)  # fmt: skip
def test_what_equals_its_default_is_left_out_and_false_is_not_zero(given, default, stays) -> None:
    assert ("x" in differing({"x": given}, {"x": default})) is stays


def test_an_argument_without_a_default_is_always_part_of_it() -> None:
    assert differing({"x": None, "y": UNSET}, {}) == {"x": None}


def test_an_argument_that_comes_with_an_upgrade_changes_no_request_that_does_not_use_it() -> None:
    given = {"text": "a", "tags": ["t"], "parts": [Part(name="p"), Part(name="q", exact=True)]}
    assert given_of(Before(**given)) == given_of(After(**given)) == {
        "text": "a", "tags": ["t"], "parts": [{"name": "p"}, {"name": "q", "exact": True}],
    }  # fmt: skip
    assert given_of(After(**given, kind="fact", importance=5, force=False)) == given_of(Before(**given))
    assert given_of(After(**given, importance=4)) != given_of(Before(**given))


# -- over HTTP ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def http(tmp_path):
    with client(f"sqlite:///{tmp_path}/a.db") as found:
        found.put("/v1/sessions/s", json={})
        yield found


def decided(http, key: str = "k", **body):
    answer = http.post(
        "/v1/sessions/s/decisions", json={"text": "A", "because": "b", **body}, headers={"Idempotency-Key": key}
    )
    return answer.status_code, answer.json().get("seq")


def test_a_default_that_is_said_aloud_is_the_same_request(http) -> None:
    first = decided(http)
    assert first[0] == 201
    assert decided(http, then=None, tags=None, about=[]) == first
    assert decided(http, then="c")[0] == 422
    assert decided(http, key="other", then="c") != first


@pytest.mark.parametrize("before", [False, True], ids=["marks of now", "marks of before"])
def test_the_version_that_a_request_names_is_part_of_it(http, monkeypatch, before) -> None:
    """If-Match is an argument like any other: it was dropped, and a write for another version got the first one's answer.

    A mark of before does not have it, and is compared without.
    """
    request = calls.HttpCall.request

    def put(value, **headers):
        return http.put(
            "/v1/sessions/s/values/n", json={"value": value}, headers={"Idempotency-Key": "k", **headers}
        ).status_code

    with monkeypatch.context() as old:
        if before:
            old.setattr(calls.HttpCall, "request", lambda *args: request(*args).before)
        assert put(1, **{"If-None-Match": "*"}) == 200
    again = put(1, **{"If-None-Match": "*"}), put(1, **{"If-Match": '"1"'}), put(1)
    assert again == ((200, 200, 200) if before else (200, 422, 422))


def test_the_head_that_a_request_names_is_part_of_it(http) -> None:
    head = http.get("/v1/sessions/s").headers["ETag"]

    def decided_at(**headers):
        body = {"text": "A", "because": "b"}
        return http.post("/v1/sessions/s/decisions", json=body, headers={"Idempotency-Key": "k", **headers}).status_code

    assert [decided_at(**{"If-Match": head}), decided_at(**{"If-Match": head}), decided_at()] == [201, 201, 422]


@pytest.mark.parametrize("before", [False, True], ids=["marks of now", "marks of before"])
def test_whom_a_signal_is_about_is_part_of_it(tmp_path, monkeypatch, before) -> None:
    @perdure.agent
    def waits(run: perdure.Run) -> None: ...

    keep = requests.keep
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        run = store.start(waits)
        with monkeypatch.context() as old:
            if before:
                old.setattr(
                    requests, "keep", lambda tx, run, key, asked, *more: keep(tx, run, key, asked.before, *more)
                )
            run.signal("go", 1, key="k", about=["user:ann"])
        run.signal("go", 1, key="k", about=["user:ann"])
        if before:
            run.signal("go", 1, key="k", about=["user:bob"])
        else:
            with pytest.raises(perdure.KeyReused):
                run.signal("go", 1, key="k", about=["user:bob"])
        with pytest.raises(perdure.KeyReused):
            run.signal("go", 2, key="k", about=["user:ann"])
        assert [each.kind for each in store.feed()].count("run.signalled") == 1


def test_a_mark_of_before_is_compared_as_it_was_made(http, monkeypatch) -> None:
    """Such a mark holds the digest of the whole body, and no form."""
    request = calls.HttpCall.request
    with monkeypatch.context() as old:
        old.setattr(calls.HttpCall, "request", lambda *args: request(*args).before)
        first = decided(http, then="c")
    assert first[0] == 201
    assert decided(http, then="c") == decided(http, then="c", about=[]) == first
    assert decided(http, then="d")[0] == 422


class Later(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    kind: str = "fact"
    importance: int = 5

    LATER: ClassVar[frozenset[str]] = frozenset({"importance"})


def test_a_mark_of_before_holds_no_field_that_came_later() -> None:
    call = calls.HttpCall(None, None, {"session": "s"}, {})  # type: ignore[arg-type]
    assert call.request("v", Later(text="a")).before["body"] == {"text": "a", "kind": "fact"}
    assert call.request("v", Later(text="a", importance=1)).before["body"]["importance"] == 1


def test_the_mark_says_its_form(tmp_path) -> None:
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        session = store.session("s")
        asked = requests.KeyedRequest({"verb": "v"}, {"verb": "v", "tags": []})
        assert session.once("k", lambda _: 1, asked=asked) == 1
        assert session.once("own", lambda _: 2, asked={"x": 1}) == 2
        scope = store._caller.read(values.find_scope, f"{REQUESTS}{session._stream.uid.hex()}")
        marks = {name: store._caller.read(values.entry, scope, name).value for name in ("k", "own")}
    assert marks["k"]["form"] == requests.GIVEN_ALONE
    assert "form" not in marks["own"]

"""Limits of tenants: bytes, runs and workers. A request beyond one is 429 with the way out; what was begun can be ended (P15)."""

from __future__ import annotations

import os
from contextlib import contextmanager

import pytest

import perdure
from doors.http.serving_kit import client
from installed import stores_here
from perdure.planes.access import limits, usage
from perdure.planes.access.tokens import CONTROL
from perdure.planes.recovery import presence
from perdure.runtime.callers import caller_of


@pytest.fixture
def url(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/a.db"


# -- bytes -----------------------------------------------------------------------------------------------------------


@contextmanager
def limited_client(url, **given):
    """A client whose tenant is limited, and the clock of the server's counts."""
    with perdure.open(url, tenant=CONTROL) as store:
        caller_of(store).write(limits.set_limits, "default", given)
    with client(url) as http:
        now = [0.0]
        http.app.state.serving.admission._clock = lambda: now[0]
        yield http, now


def text(size):
    """One that was never stored: equal bytes are kept once."""
    return os.urandom(size // 2).hex()


def say(http, content, **headers):
    return http.post("/v1/sessions/s/turns", json={"role": "user", "content": content}, headers=headers)


def test_a_tenant_that_has_stored_too_much_reads_ends_and_deletes_but_adds_nothing(url) -> None:
    with limited_client(url, bytes=60_000) as (http, now):
        http.put("/v1/sessions/s", json={})
        http.put("/v1/sessions/s/values/v", json={"value": 1})
        begun = http.post("/v1/sessions/s/effects", json={"tool": "mail", "kind": "unsafe", "args": {}}).json()
        said = [say(http, text(20_000)).status_code for _ in range(4)]
        assert said == [201, 201, 429, 429]  # by the sizes of the bodies: nothing was counted since
        refused = say(http, text(20_000))
        assert (refused.json()["facts"]["limit"], "retain" in refused.json()["hint"]) == ("bytes", True)
        assert int(refused.headers["retry-after"]) >= 60
        assert http.post("/v1/work/claim", json={"holder": "w", "agents": {"a": "1"}}).status_code == 204
        now[0] += 10
        assert say(http, text(10_000)).status_code == 201  # the count knows what the bodies came to
        now[0] += 10
        assert say(http, text(10_000)).status_code == 429
        assert http.get("/v1/sessions/s/turns").status_code == 200
        place = begun["id"].replace("/", "%2F").replace(":", "%3A")
        assert http.post(f"/v1/effects/{place}/dispatch", json={}).status_code == 200
        assert http.post(f"/v1/effects/{place}/outcome", json={"outcome": "happened"}).status_code == 200
        assert http.delete("/v1/sessions/s/values/v").status_code == 200


def test_an_artifact_that_does_not_fit_is_refused_before_it_is_read(url) -> None:
    with limited_client(url, bytes=60_000) as (http, _now):
        http.put("/v1/sessions/s", json={})
        assert http.put("/v1/sessions/s/artifacts/a", content=b"x" * 100_000).status_code == 429
        assert http.put("/v1/sessions/s/artifacts/a", content=b"x" * 30_000).status_code == 200


def test_control_what_is_not_counted_is_not_refused(url, monkeypatch) -> None:
    monkeypatch.setattr("perdure_server.http.byte_counts.ByteCount.takes", lambda *_: True)
    with limited_client(url, bytes=1_000) as (http, _now):
        http.put("/v1/sessions/s", json={})
        assert say(http, text(20_000)).status_code == 201


def test_a_new_count_sees_what_was_deleted(url) -> None:
    with limited_client(url, bytes=50_000) as (http, now):
        counts = http.app.state.serving.admission._bytes
        http.put("/v1/sessions/s", json={})
        assert [say(http, text(30_000)).status_code for _ in range(2)] == [201, 429]
        counts["default"]._so_far = counts["default"]._so_far._replace(bytes=10**9)  # as if all of it were gone by now
        for seconds, status in ((10, 429), (60, 429), (1, 201)):  # refused, counted anew, let in
            now[0] += seconds
            assert say(http, "x").status_code == status


def test_the_runs_of_a_tenant_are_limited_whoever_starts_them_and_a_lost_answer_is_given_again(url) -> None:
    with limited_client(url, runs=2) as (http, _now):
        worker = {"holder": "w1"}
        first = http.post("/v1/runs", json={"agent": "fix"}, headers={"Idempotency-Key": "k"})
        claimed = http.post("/v1/work/claim", json={**worker, "agents": {"fix": "v1"}}).json()
        child = {**worker, "token": claimed["token"], "place": "0//1", "agent": "fix"}
        assert http.post(f"/v1/runs/{claimed['run']}/children", json=child).status_code == 200
        assert http.post(f"/v1/runs/{claimed['run']}/children", json=child).status_code == 200  # it is there already
        more = http.post(f"/v1/runs/{claimed['run']}/children", json={**child, "place": "0//2"})
        assert (more.status_code, more.json()["facts"]["limit"]) == (429, "runs")
        assert http.post("/v1/runs", json={"agent": "fix"}).status_code == 429
        again = http.post("/v1/runs", json={"agent": "fix"}, headers={"Idempotency-Key": "k"})
        assert (again.status_code, again.json()["id"]) == (201, first.json()["id"])


def test_a_token_has_a_bounded_number_of_workers(url, monkeypatch) -> None:
    monkeypatch.setattr("perdure_server.http.working.HOLDERS_MAX", 3)

    def signs(path, names, **body):
        return [http.post(f"/v1/work/{path}", json={"holder": name, **body}).status_code for name in names]

    with client(url) as http:
        assert signs("heartbeat", "ab") == [200, 200]
        assert signs("claim", "bcd", agents={"fix": "v1"}) == [204, 204, 429]
        assert signs("heartbeat", "abcd") == [200, 200, 200, 429]  # those that live go on
        assert signs("leave", "a") == [200]
        assert signs("heartbeat", "d") == [200]
        store = http.app.state.serving
        assert len([*http.portal.call(store.control.core.awork, _holders, store)]) == 3


def _holders(serving):
    core = caller_of(serving._stores["default"]).core
    tenant = caller_of(serving._stores["default"]).tenant
    return core.read(
        lambda reads: reads.query(presence.Q.holders_under, tenant=tenant, prefix="remote-"), tenant=tenant
    )


# -- counting --------------------------------------------------------------------------------------------------------


@pytest.fixture(params=stores_here("sqlite", "postgres", "files"))
def store_url(request, tmp_path) -> str:
    urls = {"sqlite": lambda: f"sqlite:///{tmp_path}/b.db", "files": lambda: f"files:///{tmp_path}/b",
            "postgres": lambda: request.getfixturevalue("postgres_store")}  # fmt: skip
    return urls[request.param]()


def counted(store, so_far=usage.NOTHING):
    return caller_of(store).read(usage.count, so_far)


def test_bytes_are_counted_on_from_the_last_count_and_of_one_tenant_alone(store_url, monkeypatch) -> None:
    with perdure.open(store_url, tenant="one") as one, perdure.open(store_url, tenant="two") as two:
        for store in (one, two):
            store.session("s").say("user", "x" * 1_000)
        first = counted(one)
        assert (first.complete, 1_000 < first.bytes < 5_000) == (True, True)
        two.session("s").say("user", "y" * 100_000)
        two.session("s").attach("big", os.urandom(50_000))
        assert counted(one, first).bytes == first.bytes
        assert counted(two).bytes > 150_000
        one.session("s").attach("big", os.urandom(20_000))
        further = counted(one, first)
        assert 20_000 < further.bytes - first.bytes < 22_000
        monkeypatch.setattr(usage, "STEP", 2)
        so_far, parts = usage.NOTHING, 0
        while not so_far.complete:
            so_far, parts = counted(one, so_far), parts + 1
        assert (so_far.bytes, parts > 2) == (further.bytes, True)

"""Many tenants at one server: their files stay open while they are used, and no auditor learns about another tenant (P11)."""

from __future__ import annotations

import asyncio

import pytest

import perdure
from doors.http.serving_kit import bearer, client, make_token
from perdure.errors import Unavailable
from perdure.planes.execution import leases, runs
from perdure.runtime.callers import caller_of, stream_of
from perdure.upkeep import load
from perdure_server.http import serving as module
from perdure_server.http.serving import Serving

# -- a file for each tenant ------------------------------------------------------------------------------------------


@pytest.fixture
def url(tmp_path, monkeypatch) -> str:
    monkeypatch.setattr(module, "OPEN_FILES_MAX", 2)
    return f"sqlite:///{tmp_path}/{{tenant}}.db"


async def _used_while_others_come(url):
    """A slow request of one tenant, and quick ones of four others; then the slow one writes."""
    server = await Serving(url).open()
    try:
        with server.request():
            slow = await server.store("slow")
            for name in ("a", "b", "c", "d"):
                with server.request():
                    await (await server.store(name)).session("s")
            await (await slow.session("s")).say("user", "still here")
        return [*server._stores]
    finally:
        await server.close()


def test_a_store_that_a_request_uses_is_not_closed(url) -> None:
    assert asyncio.run(_used_while_others_come(url)) == ["slow", "d"]


def test_control_the_least_used_one_was_closed_under_it(url, monkeypatch) -> None:
    monkeypatch.setattr(Serving, "_make_room", _least_used)
    with pytest.raises(perdure.Refused, match="closed"):
        asyncio.run(_used_while_others_come(url))


async def _least_used(self):
    if len(self._stores) >= module.OPEN_FILES_MAX:
        await self._stores.popitem(last=False)[1].close()


async def _all_in_use(url):
    server = await Serving(url).open()
    try:
        with server.request():
            await server.store("a")
            await server.store("b")
            with pytest.raises(Unavailable, match="2 tenants"):
                await server.store("c")
        return (await server.store("c")) is not None
    finally:
        await server.close()


def test_one_more_than_can_be_open_is_told_to_come_back(url) -> None:
    assert asyncio.run(_all_in_use(url))


def test_a_request_lets_its_store_go_when_it_is_answered(url) -> None:
    texts = [make_token(url, f"t{number}") for number in range(5)]
    with client(url, tenant="t0") as http:
        for text in texts * 2:
            assert http.get("/v1/whoami", headers=bearer(text)).status_code == 200
        server = http.app.state.serving
        assert (sum(server._in_use.values()), len(server._stores)) == (0, 2)


# -- the doctor of a tenant ------------------------------------------------------------------------------------------


def park_one(store, name):
    """A run that waits for people."""

    @perdure.agent(name=name)
    def idle(run): ...

    handle, core = store.start(idle), caller_of(store).core
    about = {"holder": core.holder, "program": "p", "epoch": core.epoch}
    caller_of(store).write(lambda tx: runs.park(tx, leases.claim(tx, stream_of(handle), **about).stream, "why", "so"))


def told(http):
    return {(each["check"], each["says"]) for each in http.get("/v1/doctor").json()["findings"]}


@pytest.fixture(params=["sqlite", "postgres"])
def shared_url(request, tmp_path) -> str:
    return f"sqlite:///{tmp_path}/a.db" if request.param == "sqlite" else request.getfixturevalue("postgres_store")


def test_an_auditor_hears_of_the_own_tenant_alone(shared_url, monkeypatch) -> None:
    with perdure.open(shared_url, tenant="other") as other:
        park_one(other, "parked_elsewhere")
    with client(shared_url, role="auditor") as http:
        found = told(http)
        assert {check for check, _ in found} == {"leases", "runs", "unread"}
        assert ("runs", "no stalled runs") in found
        with perdure.open(shared_url) as own:
            park_one(own, "parked_here")
        assert ("runs", "parked: 1") in told(http)
        monkeypatch.setattr(load, "is_alone", lambda _reader: True)  # the control: the whole store
        assert ("runs", "parked: 2") in told(http)


def test_a_tenant_alone_in_its_store_hears_of_the_store(tmp_path) -> None:
    with client(f"sqlite:///{tmp_path}/a.db", role="auditor") as http:
        assert {"file", "space", "structure"} <= {check for check, _ in told(http)}

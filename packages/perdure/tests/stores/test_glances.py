"""Glances: what was read a moment ago is read on the thread of the event loop, everything else on a thread (P11)."""

from __future__ import annotations

import asyncio
import threading

import pytest

import perdure
from installed import stores_here
from perdure.errors import Damaged
from perdure.planes.conversation import sessions
from perdure.stores import glances
from perdure.stores.store import Fault, FaultKind


def where(reads, name):
    """The thread that reads, and what it found; None if there is no such session."""
    found = sessions.find_session(reads, name)
    return None if found is None else (threading.current_thread() is threading.main_thread(), found[0].name)


async def _glances(url, *names, verb=where, between=lambda: None):
    store = await perdure.aopen(url)
    try:
        await store.session("s")
        found = []
        for name in names:
            found.append(await store._caller.glance(verb, name))
            between()
        return found
    finally:
        await store.close()


def test_the_second_look_is_on_this_thread(tmp_path) -> None:
    found = asyncio.run(_glances(f"sqlite:///{tmp_path}/a.db", "s", "s", "s"))
    assert found == [(False, "s"), (True, "s"), (True, "s")]


@pytest.mark.parametrize("kind", stores_here("files", "memory"))
def test_a_store_whose_reads_may_wait_is_read_on_a_thread(tmp_path, kind) -> None:
    url = f"files:///{tmp_path}/a" if kind == "files" else "memory:"
    assert [name for _, name in asyncio.run(_glances(url, "s", "s"))] == ["s", "s"]
    assert [here for here, _ in asyncio.run(_glances(url, "s", "s"))] == [False, False]


def test_a_server_is_read_on_a_thread(postgres_url) -> None:
    assert asyncio.run(_glances(postgres_url, "s", "s")) == [(False, "s"), (False, "s")]


def test_what_is_not_there_is_asked_on_a_thread_each_time(tmp_path) -> None:
    asked = []

    def noted(reads, name):
        asked.append(threading.current_thread() is threading.main_thread())
        return where(reads, name)

    assert asyncio.run(_glances(f"sqlite:///{tmp_path}/a.db", "none", "none", verb=noted)) == [None, None]
    assert asked == [False, False]


def test_after_a_while_a_thread_reads_it_first(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(glances, "AT_HAND_SECONDS", 0.0)
    assert asyncio.run(_glances(f"sqlite:///{tmp_path}/a.db", "s", "s")) == [(False, "s"), (False, "s")]


def test_so_many_are_remembered(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(glances, "AT_HAND_MAX", 1)
    found = asyncio.run(_glances(f"sqlite:///{tmp_path}/a.db", "s", "s"))
    assert found == [(False, "s"), (True, "s")]


@pytest.mark.parametrize("trouble", [Fault(FaultKind.BUSY, "locked"), Damaged("torn", path="session")])
def test_whatever_fails_here_is_tried_on_a_thread(tmp_path, trouble) -> None:
    def failing(reads, name):
        if threading.current_thread() is threading.main_thread():
            raise trouble
        return where(reads, name)

    found = asyncio.run(_glances(f"sqlite:///{tmp_path}/a.db", "s", "s", "s", verb=failing))
    assert found == [(False, "s")] * 3


async def _waiting_for_locks(url):
    store = await perdure.aopen(url)
    try:
        await store.session("s")
        core = store._caller.core
        quick, plain = core.engine.quick_reader(), core.engine.reader()
        try:
            return [each.raw.pragma("busy_timeout") for each in (quick, plain)]
        finally:
            quick.close()
            plain.close()
    finally:
        await store.close()


def test_its_connection_waits_for_no_lock(tmp_path) -> None:
    quick, plain = asyncio.run(_waiting_for_locks(f"sqlite:///{tmp_path}/a.db"))
    assert quick == 0 < plain


async def _beside_a_writer(url):
    """A glance while another connection holds the write lock, with a write that is not committed."""
    store = await perdure.aopen(url)
    try:
        await store.session("s")
        glance = store._caller.glance
        await glance(where, "s")
        writer = store._caller.core.engine.connect()
        try:
            writer.begin()
            writer.raw.execute("UPDATE streams SET name = 'renamed' WHERE kind = 'session'")
            return await glance(where, "s")
        finally:
            writer.rollback()
            writer.close()
    finally:
        await store.close()


def test_it_waits_for_no_writer(tmp_path) -> None:
    assert asyncio.run(_beside_a_writer(f"sqlite:///{tmp_path}/a.db")) == (True, "s")

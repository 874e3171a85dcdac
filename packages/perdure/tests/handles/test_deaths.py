"""A process that is proved dead holds nothing: its attendance, claims and locks end at once (P13, P15)."""

from __future__ import annotations

import pytest

import forked
import perdure
from installed import stores_here
from perdure.errors import Conflict
from perdure_testing.clock import FakeClock

DIES = """
import os, signal, sys, perdure
store = perdure.open(sys.argv[1], actor="first")
session = store.session("s")
session.say("user", "hello")
session.task("write it").claim()
session.lock("deploy", ttl="1h").__enter__()
store.scope("project:acme").lock("deploy", ttl="1h").__enter__()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(params=stores_here("sqlite", "files", "postgres"))
def url(request, tmp_path):
    if request.param == "postgres":
        return request.getfixturevalue("postgres_store")
    return f"sqlite:///{tmp_path}/a.db" if request.param == "sqlite" else f"files:///{tmp_path}/a"


def test_what_a_dead_process_held_is_free_at_once(url):
    assert forked.run("-c", DIES, url).returncode == -9
    with perdure.open(url, actor="second") as store:
        session = store.session("s")
        (task,) = session.ready()
        assert task.abandoned
        assert [each.abandoned for each in session.tasks()] == [True]
        assert session.claim_next().claimed_by == "second"
        with session.lock("deploy") as lock, store.scope("project:acme").lock("deploy") as other:
            assert (lock.token, other.token) == (2, 2)


def test_a_session_that_was_closed_cleanly_after_a_death_has_not_crashed(url):
    assert forked.run("-c", DIES, url).returncode == -9
    with perdure.open(url, actor="second") as store:
        store.session("s").say("user", "and on")
    with perdure.open(
        url, actor="third", clock=FakeClock(2_000_000_000 * 1_000_000)
    ) as store:  # long after every lapse
        assert store.session("s").status == "active"
        assert list(store.sessions(status="crashed")) == []


def test_a_claim_and_a_lock_of_the_living_stay(url):
    with perdure.open(url, actor="first") as first, perdure.open(url, actor="second") as second:
        session = first.session("s")
        session.task("write it").claim()
        with session.lock("deploy"):
            other = second.session("s")
            assert other.ready() == []
            assert other.claim_next() is None
            with pytest.raises(Conflict):
                other.lock("deploy").__enter__()

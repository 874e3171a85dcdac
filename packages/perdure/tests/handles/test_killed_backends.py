"""A backend that is killed says nothing about the process behind it: its claims, locks and effects stay its own (P3, P4, P7)."""

from __future__ import annotations

import pytest

import perdure
from perdure.errors import Conflict, Stale
from perdure.stores.url import parse

psycopg = pytest.importorskip("psycopg")
END = """SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity
WHERE application_name LIKE 'perdure%' AND datname = current_database()"""


@pytest.fixture
def kill(postgres_store):
    """Kill every backend of ours."""

    def kill() -> None:
        with psycopg.connect(parse(postgres_store).conninfo) as admin:
            assert admin.execute(END).fetchone()[0] > 0

    return kill


def test_what_a_process_holds_stays_its_own(postgres_store, kill):
    with perdure.open(postgres_store) as store, perdure.open(postgres_store) as other:
        mine, theirs = store.session("a"), other.session("a")
        task = mine.task("x").claim()
        effect = mine.begin("mail", {"to": "x"}, key="k", kind="keyed").dispatch()
        with mine.lock("deploy", ttl="10m"):
            kill()
            with pytest.raises(Conflict, match="claimed by"):
                theirs.get_task(task.id).claim()
            with pytest.raises(Conflict, match="is held by"), theirs.lock("deploy", ttl="10m"):
                pass
            assert theirs.begin("mail", {"to": "x"}, key="k", kind="keyed").state == "dispatched"
            kill()
            mine.say("user", "still here")  # fenced by the lock
        assert (task.done().status, effect.commit(1).state) == ("done", "committed")


def test_what_a_process_left_is_free_and_its_old_token_is_stale(postgres_store, kill):
    """The control: it is its end that frees a task, whatever became of its backends."""
    with perdure.open(postgres_store) as other:
        with perdure.open(postgres_store) as store:
            task = store.session("a").task("x").claim()
            token = task.record.token
            kill()
        again = other.session("a").get_task(task.id).claim()
        with pytest.raises(Stale):
            other.session("a").get_task(task.id, token=token).done()
        assert again.done().status == "done"

"""A store of every earlier schema is migrated with runs in flight: it verifies, no chain changes, and the runs are carried to
their end by the code of today, on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import old_stores
import perdure
from furnished import _fix, _open_pr  # noqa: F401 - declared where this test runs
from old_stores import CALLS, FIRST_KEYS, NUMBERS, charge, mail, order  # noqa: F401 - as above
from perdure.stores import schema_upgrade, url
from perdure.stores.core import engine_for
from perdure.stores.store import Engine
from perdure_testing.clock import FakeClock

IN_FLIGHT = sorted(FIRST_KEYS)
RESULTS = {
    "issue-42": "Fix 42: merge",
    "keyed": "charged 10, mailed ann@example.org",
    "unsafe": "charged 20, mailed by hand",
    "sleep": "charged 30, mailed ann@example.org",
}


@pytest.fixture(params=["sqlite", "postgres"])
def old(
    request: pytest.FixtureRequest, tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Engine]:
    """The store of a schema, not migrated yet. Each has the identity of the fixture, so none knows the marks of another one."""
    CALLS.clear()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "old.db"
    old_stores.write(path, number, events=200)
    where = f"sqlite:///{path}" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    engine = engine_for(url.parse(where))
    if request.param == "postgres":
        old_stores.copy_to_postgres(path, number, engine)
    yield engine
    engine.close()


@pytest.mark.parametrize("number", NUMBERS)
def test_a_migration_keeps_every_chain_and_folds_to_the_same_rows(old: Engine, number: int) -> None:
    before = old_stores.heads(old)
    assert schema_upgrade.schema_of(old) == number
    assert schema_upgrade.bring_up_to_date(old)
    assert old_stores.heads(old) == before
    with perdure.open(old.url, read_only=True) as store:
        report = store.verify()
        assert report.problems == []
        assert report.counts.events == 200


@pytest.mark.parametrize("number", NUMBERS[-1:])
def test_control_a_migration_that_forgets_whose_rows_are_is_noticed(old: Engine, number: int) -> None:
    schema_upgrade.bring_up_to_date(old)
    with schema_upgrade.changing(old) as script:
        script.run("UPDATE turns SET tenant = 0 WHERE seq = 120")
    with perdure.open(old.url, read_only=True) as store:
        assert len(store.verify().problems) == 1


@pytest.mark.parametrize("number", IN_FLIGHT)
def test_runs_in_flight_are_carried_to_their_end(old: Engine, number: int) -> None:
    with perdure.open(old.url, clock=FakeClock()) as store:
        assert old_stores.resume(store, number) == RESULTS
        assert [*store.effects(state="in_doubt")] == []
        assert store.verify().problems == []
    mails = ["mail ann@example.org"] * 2  # of `keyed` and `sleep`; that of `unsafe` may have gone out before it died
    assert sorted(CALLS) == [f"charge 10 {FIRST_KEYS[number]}", *mails]


@pytest.mark.parametrize("number", IN_FLIGHT[-1:])
def test_control_a_run_that_forgot_what_it_did_is_noticed(
    old: Engine, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(old_stores, "ORDERS", {"keyed": 11, "unsafe": 12, "sleep": 13})
    with perdure.open(old.url, clock=FakeClock()) as store, pytest.raises(perdure.KeyReused):
        old_stores.resume(store, number)

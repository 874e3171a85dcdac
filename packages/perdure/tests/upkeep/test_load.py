"""What a living store suffers from: each is provoked for real and found with its remedy, and a healthy store is quiet."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

import perdure
from perdure.model.instants import SECOND_US, system_clock
from perdure.model.records.workers import About
from perdure.planes.execution import workers
from perdure.stores import url
from perdure.stores.sqlite import opened_to_read
from perdure.upkeep import health, load, lock_owners
from perdure.upkeep.findings import Finding, Severity
from perdure.upkeep.lock_owners import Contention
from perdure.upkeep.remedies import Remedy

DAY_US = 86_400 * SECOND_US
ADVICE = Remedy(url.parse("sqlite:///a.db"))
BESIDE = str(Path(__file__).parent.parent)


def earlier() -> int:
    """Two hours ago. `stores.strained` has the same, and is not imported: its agent would be driven here, and dies."""
    return system_clock() - 2 * load.HOUR_US


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request, tmp_path) -> str:
    return f"sqlite:///{tmp_path}/a.db" if request.param == "sqlite" else request.getfixturevalue("postgres_store")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    fill(f"sqlite:///{tmp_path}/a.db")
    return tmp_path / "a.db"


def fill(store_url: str) -> None:
    with perdure.open(store_url) as store:
        session = store.session("s")
        session.say("user", "x")
        session.set("flat", {"a": [1, 2]})
        session.task("t")
        store.drive(greets, key="k")
        session.close("completed")


@perdure.agent(name="greets")
def greets(run: perdure.Run) -> str:
    return run.step(str, "hello")


def complaints(store_url: str) -> dict[str, list[Finding]]:
    """The complaints of the checks of a living store, by check. Other tests on the server may hold back its feed."""
    found: dict[str, list[Finding]] = {}
    for finding in health.examine(store_url).findings:
        if finding.severity is not Severity.OK and finding.check not in ("fsync", "role", "checksums", "feed"):
            found.setdefault(finding.check, []).append(finding)
    return found


def test_a_healthy_store_is_quiet(store_url) -> None:
    fill(store_url)
    assert complaints(store_url) == {}
    checks = {finding.check for finding in health.examine(store_url).findings}
    assert {"writer", "size", "growth", "indexes", "leases", "runs", "unread", "nested"} <= checks
    assert health.examine(store_url).outgrown == []


def test_a_store_at_work_is_quiet_too(path) -> None:
    with perdure.open(f"sqlite:///{path}") as store:
        session = store.session("busy")
        session.task("t").claim()
        session.say("user", "y")
        assert complaints(f"sqlite:///{path}") == {}


# -- who waits ---------------------------------------------------------------------------------------------------


@contextmanager
def writing(path: Path) -> Iterator[None]:
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


def test_a_writer_who_does_not_let_others_in(path) -> None:
    with writing(path):
        found = health.examine(f"sqlite:///{path}")
    [finding] = found.outgrown
    assert (finding.check, finding.severity) == ("writer", Severity.WARNING)
    assert f"process {os.getpid()}" in finding.says
    assert finding.fix == f"perdure move sqlite:///{path} postgresql://USER@HOST/DATABASE"
    assert found.sound


@pytest.mark.parametrize(
    ("looks", "severity"), [(0, Severity.OK), (19, Severity.OK), (20, Severity.WARNING), (40, Severity.WARNING)]
)
def test_how_often_somebody_writes(looks, severity) -> None:
    assert load.writing(Contention(40, looks, frozenset({7}), frozenset()), ADVICE).severity is severity


def test_locks_are_read_and_never_taken(path) -> None:
    """Nothing is opened: closing a descriptor of the -shm file would drop the locks that this process has on it."""
    with perdure.open(f"sqlite:///{path}") as store, writing(path):
        opened: list[str] = []
        lock_owners.watch(path, looks=2, listing=lambda: opened.append("look") or Path("/proc/locks").read_text())
        assert opened == ["look", "look"]
        seen = lock_owners.watch(path, looks=2)
        assert seen is not None
        assert seen.writing == 2  # the lock is still there
        assert store.session("s").turns()


LISTED = """1: POSIX  ADVISORY  WRITE 10 fe:00:7 120 120
2: POSIX  ADVISORY  READ 11 fe:00:7 124 124
3: POSIX  ADVISORY  READ 12 fe:00:7 128 128
4: POSIX  ADVISORY  WRITE 13 fe:00:8 120 120
5: FLOCK  ADVISORY  WRITE 14 fe:00:7 0 EOF
6: POSIX  ADVISORY  READ 15 fe:00:7 120 127
7: POSIX  ADVISORY  WRITE 16 fe:00:7 121 EOF
8: OFDLCK ADVISORY  READ -1 fe:00:7 0 EOF
9: -> POSIX  ADVISORY  WRITE 17 fe:00:9 120 120
nonsense
"""


def test_the_systems_list_of_locks() -> None:
    assert lock_owners.held(7, LISTED) == ({10}, {11, 15})
    assert lock_owners.held(1, LISTED) == (set(), set())


def test_the_same_number_on_another_device_is_another_file() -> None:
    twins = LISTED.replace("READ 11 fe:00:7", "READ 11 fd:01:7")
    assert lock_owners.held(7, twins, me=12) == ({10}, {15})
    assert lock_owners.held(7, twins, me=11) == (set(), {11})
    assert lock_owners.held(7, twins, me=99) == ({10}, {11, 15})  # nothing to tell them apart by


def test_where_the_system_lists_no_locks_nothing_is_said(path, monkeypatch) -> None:
    def missing() -> str:
        raise FileNotFoundError

    assert lock_owners.watch(path, listing=missing) is None
    monkeypatch.setattr(lock_owners, "watch", lambda _path: None)
    assert complaints(f"sqlite:///{path}") == {}
    assert "cannot be named" in load.backlog(load.STARVED_FRAMES, frozenset()).fix


def test_a_reader_who_keeps_the_wal_from_being_moved_in(path) -> None:
    reader = opened_to_read(path)
    reader.begin_reading()
    reader.query(health.Q.counts, {})
    writer = apsw.Connection(str(path))
    writer.execute("CREATE TABLE much (data)")
    writer.execute("INSERT INTO much VALUES (zeroblob(?))", ((load.STARVED_FRAMES + 100) * 4096,))
    [finding] = complaints(f"sqlite:///{path}")["wal"]
    assert finding.fix == f"end the long read of process {os.getpid()}; the next commit moves it in"
    reader.rollback()
    writer.execute("INSERT INTO much VALUES (1)")  # the next commit moves it in
    writer.execute("INSERT INTO much VALUES (1)")
    assert "wal" not in complaints(f"sqlite:///{path}")
    writer.close()
    reader.close()


def test_measuring_moves_nothing_in(path) -> None:
    with perdure.open(f"sqlite:///{path}") as store:
        store.session("more").say("user", "x" * 5000)
        before = path.read_bytes(), path.with_name("a.db-wal").read_bytes()
        health.examine(f"sqlite:///{path}")
        assert (path.read_bytes(), path.with_name("a.db-wal").read_bytes()) == before


def test_connections_of_a_server_that_wait(postgres_store, monkeypatch) -> None:
    import psycopg

    fill(postgres_store)
    address = url.parse(postgres_store)
    lock = f"SELECT 1 FROM {address.schema}.streams FOR UPDATE"
    monkeypatch.setattr(load, "WAITING_SESSIONS", 1)
    monkeypatch.setattr(load, "LONG_TRANSACTION_SECONDS", 0)
    with psycopg.connect(address.conninfo) as first, psycopg.connect(address.conninfo) as second:
        first.execute(lock)  # type: ignore[arg-type]
        waiter = threading.Thread(target=lambda: second.execute(lock))  # type: ignore[arg-type]
        waiter.start()
        while not (found := complaints(postgres_store)).get("writer"):
            assert waiter.is_alive()
        first.rollback()
        waiter.join(30)
        second.rollback()
    assert "wait for a lock" in found["writer"][0].says
    assert "pg_terminate_backend" in found["transaction"][0].fix


@pytest.mark.parametrize(
    ("waiting", "seconds", "checks"), [(0, 0, set()), (2, 59, set()), (3, 60, {"writer", "transaction"})]
)
def test_bars_of_a_server(waiting, seconds, checks) -> None:
    found = load.waiting_sessions(waiting, 4711, seconds)
    assert {finding.check for finding in found if finding.severity is Severity.WARNING} == checks


# -- what grows ----------------------------------------------------------------------------------------------------


def test_a_large_log(path, monkeypatch) -> None:
    monkeypatch.setattr(load, "LOG_LARGE_BYTES", path.stat().st_size)
    [finding] = complaints(f"sqlite:///{path}")["size"]
    assert "perdure move" in finding.fix
    assert "perdure retain" in finding.fix
    assert [found.check for found in health.examine(f"sqlite:///{path}").outgrown] == ["size"]
    monkeypatch.undo()
    assert load.log_size(load.LOG_LARGE_BYTES, ADVICE).severity is Severity.WARNING
    assert load.log_size(load.LOG_LARGE_BYTES - 1, ADVICE).severity is Severity.OK


def test_growth_is_measured_from_the_last_events(store_url, monkeypatch) -> None:
    with perdure.open(store_url, clock=earlier) as store:
        store.atomic(lambda tx: [tx.session("s").say("user", "x") for _ in range(99)])
    found = {finding.check: finding for finding in health.examine(store_url).findings}
    assert found["growth"].says.startswith(("1,188 events a day", "1,187 events a day", "1,200 events a day"))
    monkeypatch.setattr(load, "DISK_FULL_DAYS", 10**12)
    full = complaints(store_url).get("growth", [])
    assert ["the disk is full in" in finding.says for finding in full] == (
        [] if store_url.startswith("postgresql") else [True]
    )


@pytest.mark.parametrize(
    ("span_us", "free", "severity"),
    [(DAY_US, 10**9, "warning"), (DAY_US, 10**11, "ok"), (DAY_US, None, "ok"), (load.HOUR_US - 1, 1, "ok")],
)
def test_when_the_disk_is_full(span_us, free, severity) -> None:
    assert load.growing(1_000, 100_000, span_us, free, ADVICE).severity == severity


# -- what stands still -----------------------------------------------------------------------------------------------


@pytest.fixture
def left(store_url) -> str:
    environment = {**os.environ, "PYTHONPATH": BESIDE}
    died = subprocess.run([sys.executable, "-m", "stores.strained", store_url], env=environment, check=False)
    assert died.returncode == 9
    return store_url


def test_leases_of_the_dead(left) -> None:
    found = complaints(left)
    assert {finding.says.partition(" ")[0] for finding in found["leases"]} == {"runs", "tasks", "sessions"}
    assert any("perdure worker MODULE" in finding.fix for finding in found["leases"])
    assert "runs" not in found  # nobody holds it alive: it is a lease, not a run that stands still


@pytest.mark.parametrize("lapsed_us", [-60_000_000, 60_000_000, 30 * 60_000_000])
def test_a_lease_is_reported_when_listings_call_its_run_abandoned(tmp_path, lapsed_us) -> None:
    """For an hour after a death the console's first page said abandoned, and its health that nothing was held by the dead."""
    url, environment = f"sqlite:///{tmp_path}/a.db", {**os.environ, "PYTHONPATH": BESIDE}
    subprocess.run([sys.executable, "-m", "stores.strained", url], env=environment, check=False)
    database = apsw.Connection(str(tmp_path / "a.db"))
    database.execute("UPDATE holders SET expires_at = ?", (system_clock() - lapsed_us,))
    database.close()
    with perdure.open(url, read_only=True) as store:
        abandoned = any(each.record.abandoned for each in store.runs())
    said = [finding.says for finding in complaints(url).get("leases", [])]
    assert any(each.startswith("runs held by processes") for each in said) is abandoned is (lapsed_us > 0)


def test_an_effect_in_doubt_waits_for_a_person(left) -> None:
    with perdure.open(left) as store:
        store.recover([])
        [effect] = store.effects(state="in_doubt")
        [finding] = complaints(left)["effects"]
        assert "perdure effects --state in_doubt" in finding.fix
        effect.settle(perdure.Happened({}), by="alice")
        assert "effects" not in complaints(left)


def test_a_run_that_is_held_and_stands_still(tmp_path) -> None:
    store_url = f"sqlite:///{tmp_path}/a.db"
    subprocess.run(
        [sys.executable, "-m", "stores.strained", store_url], env={**os.environ, "PYTHONPATH": BESIDE}, check=False
    )
    database = apsw.Connection(str(tmp_path / "a.db"))
    database.execute("UPDATE holders SET expires_at = ?", (system_clock() + DAY_US,))  # a heart that goes on beating
    database.close()
    found = complaints(store_url)
    assert "recorded nothing for 120 minutes" in found["runs"][0].says
    assert "perdure workers --stuck" in found["runs"][0].fix
    assert "leases" not in found


def test_runs_that_nobody_takes(store_url) -> None:
    with perdure.open(store_url, clock=earlier) as store:
        store.start(greets, key="k")
    [finding] = complaints(store_url)["runs"]
    assert "1 of agent 'greets' wait for a worker, the oldest for 120 minutes" in finding.says
    assert "perdure worker MODULE" in finding.fix


def test_a_run_that_is_pinned_to_a_program_that_nobody_has(store_url) -> None:
    with perdure.open(store_url) as store:
        had, lost = store.start(greets), store.start(greets)
        had.pin("1" * 16)
        lost.pin("2" * 16)
        store._caller.write(workers.introduce, "a" * 32, About(1, ("greets",), 1, programs=("1" * 16,)))
    [finding] = complaints(store_url)["runs"]
    assert finding.says == f"run {lost.id!r} is pinned to program 222222222222, which no living worker has"
    assert f"perdure pin {lost.id} --any" in finding.fix


def test_a_run_that_became_ready_just_now_is_no_complaint(store_url) -> None:
    with perdure.open(store_url) as store:
        store.start(greets, key="k")
    assert complaints(store_url) == {}


@perdure.agent(name="parks")
def parks(run: perdure.Run) -> None:
    raise perdure.Parked("no", reason="x")


def test_parked_runs(store_url) -> None:
    with perdure.open(store_url) as store, pytest.raises(perdure.Parked):
        store.drive(parks, key="k")
    [finding] = complaints(store_url)["runs"]
    assert finding.fix.startswith("perdure runs --status parked")


# -- what nobody needs ------------------------------------------------------------------------------------------------


def test_values_of_sessions_that_are_long_over(store_url, monkeypatch) -> None:
    def keep(tx: Any) -> None:
        for number in range(20):
            tx.session("old").set(f"v{number}", number)

    with perdure.open(store_url, clock=lambda: system_clock() - 40 * DAY_US) as store:
        store.atomic(keep)
        store.session("old").close("completed")
    assert complaints(store_url) == {}  # a few are no burden
    monkeypatch.setattr(load, "UNREAD_MAX", 20)
    [finding] = complaints(store_url)["unread"]
    assert finding.says.startswith("20 values")
    assert "perdure sessions --status completed --until 30d" in finding.fix
    monkeypatch.setattr(load, "UNREAD_AGE_US", 50 * DAY_US)
    assert complaints(store_url) == {}


def nest(depth: int) -> Any:
    return 1 if depth == 0 else [nest(depth - 1)] if depth % 2 else {"a": nest(depth - 1)}


def test_values_that_are_nested_too_deeply(store_url) -> None:
    with perdure.open(store_url) as store:
        store.session("s").set("fine", nest(load.NESTED_DEEP))
        assert complaints(store_url) == {}
        store.session("s").set("deep", nest(load.NESTED_DEEP + 1))
    [finding] = complaints(store_url)["nested"]
    assert "'deep' of 's': 9" in finding.says


@pytest.mark.parametrize(
    ("document", "depth"),
    [
        (b"1", 0),
        (b"[]", 1),
        (b'{"a":[1]}', 2),
        (b'"[[[["', 0),
        (rb'["\"[[", {}]', 2),
        (rb'"\\"', 0),
        (rb'["\\\\",[]]', 2),
    ],
)
def test_how_deep(document, depth) -> None:
    assert load.depth_and_name(b'{"key":{"name":"n"},"doc":' + document + b"}") == (depth, "n")


@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b'{"doc', b'{"key": 3}'])
def test_a_damaged_body_is_not_our_concern_here(body) -> None:
    assert load.depth_and_name(body) == (0, "")


# -- indexes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "severity"), [("events_by_kind", Severity.WARNING), ("turns_by_key", Severity.ERROR)]
)
def test_a_missing_index_is_named_and_its_remedy_works(path, index, severity) -> None:
    database = apsw.Connection(str(path))
    database.execute(f"DROP INDEX {index}")
    [finding] = complaints(f"sqlite:///{path}")["indexes"]
    assert (finding.says.split()[0], finding.severity) == (index, severity)
    program, file, statement = shlex.split(finding.fix)
    assert (program, file) == ("sqlite3", str(path))
    database.execute(statement)
    database.close()
    assert "indexes" not in complaints(f"sqlite:///{path}")


def test_a_missing_index_of_a_server(postgres_store) -> None:
    import psycopg

    fill(postgres_store)
    address = url.parse(postgres_store)
    with psycopg.connect(address.conninfo, autocommit=True) as connection:
        connection.execute(f"DROP INDEX {address.schema}.events_by_actor")  # type: ignore[arg-type]
        [finding] = complaints(postgres_store)["indexes"]
        connection.execute(shlex.split(finding.fix)[-1])  # type: ignore[arg-type]
    assert finding.fix.startswith("psql ")
    assert "indexes" not in complaints(postgres_store)


# -- the page --------------------------------------------------------------------------------------------------------


def test_the_guide_names_the_bars_that_hold() -> None:
    page = (Path(__file__).parents[4] / "docs" / "guide" / "choosing.md").read_text()
    assert f"{lock_owners.LOOKS} looks" in page
    assert f"keeps {load.STARVED_FRAMES:,} pages" in page
    assert f"{load.LOG_LARGE_BYTES // (1024 * load.MIB)} GiB" in page
    assert f"last {load.GROWTH_SPAN:,} events" in page
    assert f"within {load.DISK_FULL_DAYS} days" in page
    assert f"{load.UNREAD_MAX:,} values" in page
    assert f"deeper than {load.NESTED_DEEP}" in page

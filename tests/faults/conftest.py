"""The grounds of the sweeps, on each store. The witness is shared by all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from faults.sweeps import PREFIX, Ground
from perdure_testing.scratch import scratch
from perdure_testing.witness import Witness


@pytest.fixture(scope="session")
def the_witness() -> Iterator[Witness]:
    with scratch(PREFIX) as folder, Witness.start(folder / "witness") as witness:
        yield witness


@pytest.fixture(params=["sqlite", "files", "postgres"])
def swept(request: pytest.FixtureRequest, the_witness: Witness) -> Iterator[Ground]:
    url = request.getfixturevalue("postgres_store") if request.param == "postgres" else None
    with scratch(PREFIX) as folder:
        yield Ground(folder, the_witness, url, request.param)


@pytest.fixture
def on_sqlite(the_witness: Witness) -> Iterator[Ground]:
    with scratch(PREFIX) as folder:
        yield Ground(folder, the_witness, None)

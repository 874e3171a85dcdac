"""A host's ground in this process, and cases by their id."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perdure_evaluate.recovery import SCRATCH, host, plan
from perdure_evaluate.recovery.host import ShownCase
from perdure_evaluate.recovery.lives import Lives
from perdure_evaluate.recovery.story import Ground
from perdure_evaluate.recovery.subjects import sqlite_blob
from perdure_testing.scratch import scratch
from perdure_testing.witness import Witness

SEED = 1
Show = Callable[[str], ShownCase]


@pytest.fixture(scope="session")
def ground() -> Iterator[Ground]:
    with scratch(SCRATCH) as folder, Witness.start(folder / "witness") as witness:
        made = Ground(SEED, witness, Lives(host.LATER), folder)
        with made.closing:
            yield made


@pytest.fixture
def show(ground: Ground) -> Show:
    """Run a case by its id; skip it loudly where it cannot be tried."""

    def shown(case_id: str) -> ShownCase:
        case = plan.parse_case(case_id, SEED)
        if why := plan.impossible(case):
            pytest.skip(f"{case.fault} is not tried: {why}")
        found = host.show(ground, case)
        assert not found.broken, found.broken
        return found

    return shown


@pytest.fixture
def blob() -> str:
    return str(Path(sqlite_blob.__file__))

"""Shared by the plugins of all suites: a URL of the store under test for each place that a test names, and counting.

PERDURE_SUITE_STORE is sqlite, files or a URL of a PostgreSQL server; each place gets a store of its own there. On a server it is
a copy of a database in which a store was made: to make the tables anew took most of the time of a suite.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import perdure

KIND = os.environ.get("PERDURE_SUITE_STORE", "sqlite")
_root = Path(tempfile.mkdtemp(prefix="perdure-suite-"))
_made: set[str] = set()
_open: list[Any] = []
_databases: dict[str, str] = {}
_passing: list[str] = []  # databases that go with their test: nobody can name them again
_numbers = iter(range(1 << 30))


def url_for(place: object) -> str:
    """The URL of the store that stands for a database of the test; for one in memory a new one each time."""
    name = str(place) if str(place) != ":memory:" else f"memory-{next(_numbers)}-{_root.name}"
    mark = hashlib.sha256(name.encode()).hexdigest()[:16]
    if KIND in ("sqlite", "files"):
        return f"{KIND}:///{_root}/{mark}" + (".db" if KIND == "sqlite" else "")
    if mark not in _databases:
        _databases[mark] = _copied(f"suite_{mark}")
        _passing.extend([f"suite_{mark}"] * (str(place) == ":memory:"))
    return _databases[mark]


@cache
def _server() -> Any:
    """A connection for upkeep, with the database that others begin as copies of."""
    import psycopg  # noqa: PLC0415 - only on a server

    connection = psycopg.connect(KIND, autocommit=True)
    connection.execute("CREATE DATABASE suite_blank")
    perdure.open(_url_of("suite_blank")).close()
    return connection


def _copied(name: str) -> str:
    _server().execute(f"CREATE DATABASE {name} TEMPLATE suite_blank STRATEGY file_copy")
    return _url_of(name)


def _url_of(database: str) -> str:
    return urlsplit(KIND)._replace(path=f"/{database}").geturl()


def used(ours: Any) -> None:
    """The running test made one of our objects: it counts, and is closed when the test is over."""
    _open.append(ours)
    _made.add(os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0])


class Counting:
    """Leaves out what a list of exceptions names, and counts tests that used our class; all of them, where they are ours."""

    def __init__(self, except_: Mapping[str, str], *, ours: bool = False) -> None:
        self._except = except_
        self._ours = ours
        self._outcomes: dict[str, str] = {}

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect what is argued in the list."""
        gone = [item for item in items if any(name in item.nodeid for name in self._except)]
        config.hook.pytest_deselected(items=gone)
        items[:] = [item for item in items if item not in gone]

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Remember how each test ended: a failure of its setup or teardown is one."""
        known = self._outcomes.get(report.nodeid)
        if report.when == "call" or report.outcome != "passed":
            self._outcomes[report.nodeid] = "failed" if "failed" in (known, report.outcome) else report.outcome

    def pytest_runtest_logfinish(self) -> None:
        """Close what the test left open: a server has only so many connections."""
        while _open:
            with contextlib.suppress(AttributeError):  # one whose construction was refused
                _open.pop().close()
        while _passing:
            _server().execute(f"DROP DATABASE {_passing.pop()} WITH (FORCE)")

    def pytest_sessionfinish(self) -> None:
        """Write the counts where the caller reads them."""
        ours = {name: how for name, how in self._outcomes.items() if self._ours or name in _made}
        counts = {how: sum(each == how for each in ours.values()) for how in ("passed", "failed", "skipped")}
        failed = sorted(name for name, how in ours.items() if how == "failed")
        Path(os.environ["PERDURE_SUITE_REPORT"]).write_text(json.dumps({**counts, "failures": failed}))

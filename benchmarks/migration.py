"""Measures migrations: each kept schema, filled to so many events, is brought up to date; time and disk are printed.

    .venv/bin/python benchmarks/migration.py --events 1000000                     every kept schema, on SQLite
    .venv/bin/python benchmarks/migration.py --events 1000000 --store postgres    on a PostgreSQL of its own

The store of a schema gets turns in its session until it has the events; their chain is a real one. Three runs of it died in
the code of that schema, and one waits for an answer. After the migration every chain must end as before, everything is folded
and compared (`verify`), the runs are carried to their end, and all is verified again. Exit 1 when something is not as it was.
Times are of this machine; compare them with `copy`, the time that a plain copy of the data takes.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

import old_stores  # noqa: E402 # pyright: ignore[reportMissingImports] - after the path is known
import perdure  # noqa: E402 - as above
from perdure.stores import schema_upgrade, url  # noqa: E402 - as above
from perdure.stores.core import engine_for  # noqa: E402 - as above
from perdure.stores.store import Engine  # noqa: E402 - as above
from perdure_testing.clock import FakeClock  # noqa: E402 - as above
from perdure_testing.postgres import PostgresServer  # noqa: E402 - as above


def size(folder: Path) -> int:
    """The megabytes of all files in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) // 10**6


def seconds(work: Callable[[], Any]) -> float:
    """The time that something takes."""
    began = time.perf_counter()
    work()
    return round(time.perf_counter() - began, 2)


@contextmanager
def on_sqlite(file: Path, number: int) -> Iterator[tuple[Engine, Path]]:  # noqa: ARG001 - as the other takes it
    """The store as it is, and the folder that it fills."""
    yield engine_for(url.parse(f"sqlite:///{file}")), file.parent


@contextmanager
def on_postgres(file: Path, number: int) -> Iterator[tuple[Engine, Path]]:
    """Its copy in a server of its own, and the folder of its tables."""
    with PostgresServer.start(file.parent, settings={"max_wal_size": "4GB"}) as server:
        engine = engine_for(url.parse(server.address.url(schema="old")))
        old_stores.copy_to_postgres(file, number, engine)
        file.unlink()
        yield engine, server.data / "base"


STORES = {"sqlite": on_sqlite, "postgres": on_postgres}


def measure(number: int, events: int, store: str, place: str | None) -> dict[str, Any]:
    """One schema: the time of its migration, the disk that it takes, and whether all is as it was."""
    with tempfile.TemporaryDirectory(dir=place) as name:
        file = Path(name) / "store" / "a.db"
        file.parent.mkdir()
        old_stores.write(file, number, events)
        with STORES[store](file, number) as (engine, folder):
            found: dict[str, Any] = {"schema": number, "store": store, "events": events, "MB before": size(folder)}
            found["copy s"] = seconds(lambda: _copied(folder, Path(name) / "copy"))
            before = old_stores.heads(engine)
            found["migration s"] = seconds(lambda: schema_upgrade.bring_up_to_date(engine, keep_copy=False))
            found["MB after"] = size(folder)
            found["chains"] = "same" if old_stores.heads(engine) == before else "CHANGED"
            return found | _used(engine, number)


def _copied(folder: Path, to: Path) -> None:
    subprocess.run(["cp", "-r", folder, to], check=True)
    shutil.rmtree(to)


def _used(engine: Engine, number: int) -> dict[str, Any]:
    """Verify, carry the runs to their end, verify again."""
    found: dict[str, Any] = {}
    with perdure.open(engine.url, clock=FakeClock()) as store:
        found["verify s"] = seconds(lambda: found.update({"problems": len(store.verify().problems)}))
        found["runs resumed"] = len([each for each in old_stores.resume(store, number).values() if each])
        found["problems after"] = len(store.verify().problems)
    engine.close()
    return found


def is_as_it_was(found: dict[str, Any]) -> bool:
    """Whether nothing was lost on the way."""
    expected = 4 if found["schema"] in old_stores.FIRST_KEYS else 0
    return (
        found["chains"] == "same"
        and not found["problems"] + found["problems after"]
        and found["runs resumed"] == expected
    )


def main() -> int:
    """Measure every kept schema but the newest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--schema", type=int, choices=old_stores.NUMBERS, help="one schema only, such as 4")
    parser.add_argument("--store", choices=[*STORES], default="sqlite")
    parser.add_argument("--place", help="the folder in which databases are made")
    asked = parser.parse_args()
    good = True
    for number in [asked.schema] if asked.schema else old_stores.NUMBERS:
        found = measure(number, asked.events, asked.store, asked.place)
        good &= is_as_it_was(found)
        print(json.dumps(found), flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

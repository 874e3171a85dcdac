"""Writes the fixture database of the current schema: tests/fixtures/schema/NNNN.sql, a dump that SQLite can
load.

    .venv/bin/python tools/make_fixture.py           write the fixture of the newest schema
    .venv/bin/python tools/make_fixture.py --check   change nothing; exit 1 if it is missing

The content is deterministic (a fake clock, a counted source of randomness) and uses every table. A fixture
is written once, when its schema is released, and never again: the tests migrate, fold and verify all of
them. While a schema is still being made, run this after every change of it.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
from pathlib import Path

import apsw

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), *map(str, ROOT.glob("packages/*/src"))]

import perdure  # noqa: E402 - after the path is known
from furnished import furnish  # noqa: E402
from perdure.model import ids  # noqa: E402
from perdure.stores import migrate  # noqa: E402
from perdure_testing.clock import FakeClock  # noqa: E402
from perdure_testing.embedding import HashedEmbedding  # noqa: E402

EPHEMERAL = (
    "INSERT INTO holders VALUES (1, '{holder}', 'me', 'host', 1800000000000000, 1800000060000000)",
    "INSERT INTO workers VALUES (1, '{holder}', '{{}}')",
    "INSERT INTO attendance (stream, tenant, holder) SELECT min(id), 1, '{holder}' FROM streams",
    "INSERT INTO fold_snapshots (stream, tenant, reducer, seq, state) SELECT min(id), 1, 'count', 3, x'33' FROM streams",
    "INSERT INTO blob_pins SELECT 1, address, '{holder}', 1800000060000000 FROM blobs WHERE id = 1",
)


class Counted:
    """Bytes that look random and are the same in every run."""

    def __init__(self) -> None:
        self.drawn = 0

    def __call__(self, count: int) -> bytes:
        """The next bytes."""
        self.drawn += 1
        return hashlib.shake_256(str(self.drawn).encode()).digest(count)


def make(path: Path) -> None:
    """A furnished store in a file."""
    random, ids.random_bytes = ids.random_bytes, Counted()
    try:
        with perdure.open(f"sqlite:///{path}", clock=FakeClock(), embed=HashedEmbedding()) as store:
            furnish(store, large=b"small enough to be kept inside")
    finally:
        ids.random_bytes = random
    connection = apsw.Connection(str(path))
    for table, text in zip(("holders", "workers", "attendance", "fold_snapshots", "blob_pins"), EPHEMERAL, strict=True):
        connection.execute(f"DELETE FROM {table}")
        connection.execute(text.format(holder="ab" * 16))
    connection.close()


def dump(path: Path) -> str:
    """The database as text: the schema, then the rows in the order of their keys."""
    connection = apsw.Connection(str(path))
    objects = [*connection.execute("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid")]
    tables = [name for kind, name, _ in objects if kind == "table"]
    lines = ["BEGIN;", *(f"{sql};" for kind, _, sql in objects if kind == "table")]
    for table in tables:
        rows = connection.execute(f"SELECT * FROM {table}")  # in the order of the key, or of rowid
        lines += [f"INSERT INTO {table} VALUES ({', '.join(map(apsw.format_sql_value, row))});" for row in rows]
    lines += [f"{sql};" for kind, _, sql in objects if kind != "table"]
    return "\n".join([*lines, "COMMIT;", ""])


def main() -> int:
    """Write or check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    number = migrate.latest(migrate.migrations())
    target = ROOT / "tests" / "fixtures" / "schema" / f"{number:04}.sql"
    if parser.parse_args().check:
        return 0 if target.exists() else 1
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder) / "a.db")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(dump(Path(folder) / "a.db"), "utf-8")
    print(f"written: {target.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets of bytes are in the order of their hashes
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"PYTHONHASHSEED": "0"})
    sys.exit(main())

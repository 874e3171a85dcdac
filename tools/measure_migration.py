"""Measures migrations: each kept schema, filled to so many events, is brought up to date; time and disk are printed.

    .venv/bin/python tools/measure_migration.py --events 1000000            every kept schema, on SQLite
    .venv/bin/python tools/measure_migration.py --events 10000 --verify     and folds everything afterwards

The fixture of a schema gets turns in its session until it has the events. Their chain is a real one, so that verify
passes. Times are of this machine; compare them with `copy`, the time that a plain copy of the file takes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import apsw

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src")]

import perdure  # noqa: E402 - after the path is known
from perdure.log.event import commit_to, hash_header  # noqa: E402 - as above
from perdure.stores import schema_upgrade  # noqa: E402 - as above
from perdure.stores.sqlite import SqliteEngine  # noqa: E402 - as above

FIXTURES = ROOT / "tests" / "fixtures" / "schema"
PAGE = 20_000


def fill(path: Path, fixture: Path, events: int) -> None:
    """A database of an old schema with so many events, nearly all of them turns of one session."""
    raw = apsw.Connection(str(path))
    for _ in raw.execute(fixture.read_text("utf-8")):
        pass
    raw.execute("PRAGMA journal_mode = WAL").get  # noqa: B018 - the row must be read for the pragma to run
    raw.execute("PRAGMA synchronous = OFF")
    have = raw.execute("SELECT count(*) FROM events").get
    stream, uid, tenant, seq, head = raw.execute(
        "SELECT id, uid, tenant, seq, hash FROM streams WHERE kind = 'session' AND name = 'main'"
    ).get
    at = raw.execute("SELECT max(at) FROM events").get
    while have < events:
        rows, turns = [], []
        for _ in range(min(PAGE, events - have)):
            seq, at, have = seq + 1, at + 1000, have + 1
            body = json.dumps({"set": {"role": "user"}, "doc": {"content": f"turn {seq} " + "x" * 200}}).encode()
            salt = os.urandom(16)
            commitment = commit_to(salt, body)
            head = hash_header(uid, seq, head, "turn.said", "turns", "me", at, 1, commitment)
            rows.append((tenant, stream, seq, "turn.said", "turns", "me", at, 1, salt, commitment, head, salt, body))
            turns.append((stream, seq, "user"))
        raw.execute("BEGIN")
        raw.executemany(
            "INSERT INTO events (tenant, stream, seq, kind, tbl, actor, at, codec, tx, commitment, hash, salt, body)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
        raw.executemany("INSERT INTO turns (stream, seq, role) VALUES (?, ?, ?)", turns)
        raw.execute("UPDATE streams SET seq = ?, hash = ? WHERE id = ?", (seq, head, stream))
        raw.execute("COMMIT")
    raw.close()


def size(folder: Path) -> int:
    """The bytes of a folder's files."""
    return sum(file.stat().st_size for file in folder.iterdir())


def measure(fixture: Path, events: int, *, verify: bool, place: str | None) -> dict[str, object]:
    """One schema: the time of its migration, and the disk that it takes."""
    with tempfile.TemporaryDirectory(dir=place) as name:
        folder = Path(name)
        path = folder / "a.db"
        fill(path, fixture, events)
        before = size(folder)
        began = time.perf_counter()
        shutil.copyfile(path, folder / "copy")
        copied = time.perf_counter() - began
        (folder / "copy").unlink()
        began = time.perf_counter()
        schema_upgrade.bring_up_to_date(SqliteEngine(f"sqlite:///{path}", path), keep_copy=False)
        took = time.perf_counter() - began
        found = {"schema": fixture.stem, "events": events, "copy s": round(copied, 2), "migration s": round(took, 2)}
        found |= {"MB before": before // 10**6, "MB after": size(folder) // 10**6}
        if verify:
            with perdure.open(f"sqlite:///{path}") as store:
                report = store.verify()
                found |= {"verifies": report.ok, "plain actors": report.counts.plain_actors}
        return found


def main() -> int:
    """Measure every kept schema but the newest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--schema", help="one schema only, such as 0004")
    parser.add_argument("--verify", action="store_true", help="fold and compare everything afterwards")
    parser.add_argument("--place", help="the folder in which databases are made")
    asked = parser.parse_args()
    for fixture in sorted(FIXTURES.glob("*.sql"))[:-1]:
        if asked.schema in (None, fixture.stem):
            print(json.dumps(measure(fixture, asked.events, verify=asked.verify, place=asked.place)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

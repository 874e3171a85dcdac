"""Measure the learning export: `python tools/measure_learning.py [turns [sessions [folder]]]`, by default 1,000,000 in 1,000.

Fills a SQLite store, exports it twice in each format by processes of their own, and prints one JSON document: seconds, bytes, the
most memory that the process held, and whether the bytes were equal.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import perdure
from perdure.planes.conversation import sessions, turns

SHAPES = ("openai", "trl", "atif")
EXPORT = """
import json, resource, sys, time, perdure
url, out, shape = sys.argv[1:]
with perdure.open(url, read_only=True) as store:
    began = time.perf_counter()
    done = store.export_learning(out, shape, everything=True)
    took = time.perf_counter() - began
most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
print(json.dumps({"seconds": round(took, 1), "memory_mb": most, "digest": done.digest, "turns": done.turns, "rows": done.rows}))
"""


def fill(url: str, count: int, among: int) -> None:
    """Turns of a user and an assistant with a tool call now and then, many in one commit."""
    with perdure.open(url) as store:
        for number in range(among):

            def put(tx: Any, name: str = f"session-{number}") -> None:
                stream, _ = sessions.open_session(tx, name)
                for at in range(count // among):
                    role = "user" if at % 2 == 0 else "assistant"
                    turns.say(tx, stream, role, f"turn {at} of {name}: " + "something that somebody says. " * 6)

            store._caller.write(put)


def exported(url: str, out: Path, shape: str) -> dict[str, Any]:
    """One export, by a process of its own."""
    words = [sys.executable, "-c", EXPORT, url, str(out), shape]
    done = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    return done | {"bytes": out.stat().st_size}


def main(count: int, among: int, folder: Path) -> None:
    """Fill, then export each format twice."""
    url = f"sqlite:///{folder}/a.db"
    fill(url, count, among)
    found = {}
    for shape in SHAPES:
        first, second = (exported(url, folder / f"{shape}-{number}", shape) for number in (1, 2))
        found[shape] = {**first, "equal": first["digest"] == second["digest"], "memory_mb_second": second["memory_mb"]}
        for number in (1, 2):
            (folder / f"{shape}-{number}").unlink()
    print(json.dumps({"turns": count, "sessions": among, "formats": found}, indent=2))


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:3]] + [1_000_000, 1_000][len(sys.argv[1:3]) :]
    with tempfile.TemporaryDirectory(dir=sys.argv[3] if len(sys.argv) > 3 else None) as made:
        main(given[0], given[1], Path(made))

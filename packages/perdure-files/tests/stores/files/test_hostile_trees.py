"""Whatever lies in a cloned folder: nothing outside it is touched, and time and memory are bounded (P10, P15).

Each case runs in a process of its own user, where this one may become another, with a home that is watched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from forked import environment
from stores.files import hostile_trees

CASES = dict(hostile_trees.cases())
SHARDS = 6  # processes: each loads all that it needs before it becomes another user
NAMES = sorted(CASES)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("original") / "store"
    hostile_trees.original(folder)
    return folder


@pytest.fixture
def ground() -> Iterator[Path]:
    """A folder that another user can reach: pytest's own are closed to all others."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else "/var/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def watched_home(ground: Path) -> Path:
    home = ground / "home"
    (home / "folder").mkdir(parents=True)
    (home / "precious.txt").write_text("precious")
    (home / "folder" / "inside.txt").write_text("inside")
    return home


def look(home: Path) -> dict[str, tuple[object, ...]]:
    """Everything below a home: names, contents, and when it was changed."""
    found = {str(home): home.stat().st_mtime_ns}
    return {
        **{
            str(path): (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
            for path in home.rglob("*")
        },
        **{place: (when,) for place, when in found.items()},
    }


def owned(*folders: Path) -> None:
    if os.geteuid() == 0:
        for folder in folders:
            subprocess.run(["chown", "-R", "-h", "65534:65534", str(folder)], check=True)


def run(folders: list[Path], home: Path, state: Path) -> subprocess.CompletedProcess[str]:
    known = {**environment(), "HOME": str(home), "XDG_STATE_HOME": str(state), "TMPDIR": str(state)}
    program = [sys.executable, hostile_trees.__file__, *map(str, folders)]
    return subprocess.run(program, env=known, cwd=state, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_hostile_clone_touches_nothing_outside_it(original, ground, shard):
    home, state = watched_home(ground), ground / "state"
    state.mkdir()
    clones = []
    for number, name in enumerate(NAMES[shard::SHARDS]):
        clone = ground / f"clone-{number}"
        shutil.copytree(original, clone)
        CASES[name](clone, home)
        clones.append(clone)
    owned(home, state, *clones)
    before = look(home)
    done = run(clones, home, state)
    assert done.returncode == 0, (NAMES[shard::SHARDS], done.stdout[-3000:], done.stderr[-3000:])
    assert "MemoryError" not in done.stderr
    assert done.stdout.count("done ") == len(clones)
    assert look(home) == before


def test_there_are_enough_of_them():
    assert len(CASES) >= 150


def test_control_a_write_through_a_link_is_seen(ground):
    home = watched_home(ground)
    before = look(home)
    (ground / "link").symlink_to(home / "made-by-us")
    (ground / "link").write_text("x")
    assert look(home) != before

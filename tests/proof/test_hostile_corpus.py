"""The hostile corpus, run as another user with a watched home: nothing is executed, touched outside or shown (P10, P15).

Repositories, bundles, databases, files to import and URLs are generated here and handed to a process of their own. It has little
memory and time and, where we are root, becomes nobody once it has loaded its program. The control plants a
case that does what all others must not.
"""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import apsw
import pytest

import perdure
from interchange import test_bundle_hostile as bundles
from runtime import test_hostile_workspace as workspaces
from runtime.test_workspace import repository
from stores.test_url import MALFORMED, SECRET

ROOT = Path(__file__).parents[2]
SECONDS, MEMORY_BYTES = 240, 3 * 1024**3
SEED = 15
CHILD = Path(__file__).with_name("hostile_child.py")


@pytest.fixture
def stage() -> Iterator[Path]:
    """A folder that another user can reach: pytest's own are closed to others."""
    with tempfile.TemporaryDirectory(prefix="perdure-hostile-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        for name in ("work", "home"):
            (Path(folder) / name).mkdir()
        yield Path(folder)


def repositories(work: Path, trap: Path) -> Iterator[dict[str, str]]:
    for number, (setting, where) in enumerate(
        (setting, where)
        for setting in workspaces.TRAPS
        for where in (workspaces.itself, workspaces.nested, workspaces.deep, workspaces.linked)
    ):
        place = work / f"repo-{number}"
        place.mkdir()
        repo = repository(place / "repo")
        setting(repo, trap)
        yield {"kind": "workspace", "what": str(where(repo))}


def files(work: Path) -> Iterator[dict[str, str]]:
    """Bundles by who knows the format, databases and other files, whole or broken at a random place."""
    sound = bundles.exported(bundles.furnish, everything=True)
    for number, (_, case) in enumerate(bundles.CORPUS[::3]):
        path = bundles.made(case, sound, work / f"b{number}.perdure")
        yield {"kind": "import", "what": str(path)}
    yield from broken(work, sound)


def broken(work: Path, sound: bundles.Members) -> Iterator[dict[str, str]]:
    dice = random.Random(SEED)
    with perdure.open(f"sqlite:///{work}/sound.db") as store:
        store.session("a").say("user", "hi")
    talk = [{"role": "user", "content": "hi \ud800"}, {"role": "assistant", "tool_calls": [{"id": 1, "function": []}]}]
    whole = {
        "db": (work / "sound.db").read_bytes(), "json": json.dumps(talk).encode(), "deep.json": b"[" * 100_000,
        "jsonl": b'{"type":"user","message":{"role":"user","content":"x"}}\n' * 50, "perdure": bundles.packed(sound),
    }  # fmt: skip
    for number in range(100):
        name, data = list(whole.items())[number % len(whole)]
        at = dice.randrange(len(data))
        edited = data[:at] + dice.randbytes(dice.randrange(1, 64)) + data[at + dice.randrange(64) :]
        path = work / f"broken-{number}.{name}"
        path.write_bytes(edited)
        yield {"kind": "open" if name == "db" else "import", "what": str(path)}


# Planted by somebody who could write the file: each does something when a row is written, read or looked for.
HARMS = (
    "SELECT load_extension('{trap}')", "SELECT writefile('{home}/planted', 'x')", "SELECT randomblob(2000000000)",
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n",
)  # fmt: skip
TABLES = ("events", "streams", "sessions", "turns", "blobs", "meta", "tenants", "texts")
PLANTS = (
    *(f"CREATE TRIGGER planted AFTER INSERT ON {table} BEGIN {harm}; END" for table in TABLES for harm in HARMS),
    *(f"DROP VIEW v_turns; CREATE VIEW v_turns AS {harm}" for harm in HARMS),
    *(f"ALTER TABLE {table} RENAME TO {table}_real; CREATE VIEW {table} AS {HARMS[3]}" for table in ("turns", "meta")),
    "UPDATE meta SET value = '{trap}'", "UPDATE sessions SET name = '{home}/../x'", "UPDATE streams SET parent = id",
    "PRAGMA writable_schema = on; UPDATE sqlite_schema SET sql = 'CREATE TABLE turns (x DEFAULT (writefile(1, 2)))'",
)  # fmt: skip


def databases(work: Path, home: Path, trap: Path) -> Iterator[dict[str, str]]:
    for number, plant in enumerate(PLANTS):
        path = work / f"planted-{number}.db"
        with perdure.open(f"sqlite:///{path}") as store:
            store.session("a").say("user", "hi")
        # Some are refused by a trigger of ours.
        with closing(apsw.Connection(str(path))) as connection, suppress(apsw.Error):
            connection.execute(plant.format(trap=trap, home=home))
        yield {"kind": "open", "what": str(path)}


ODD = ("", "@", "%", "#", "?", "\\", "\0", "\n", "\u202e", "%00", "[", " ")


def urls() -> Iterator[dict[str, str]]:
    for text in MALFORMED:
        if text not in ("{}://h", "{}@h"):  # there it is no password
            yield {"kind": "url", "what": text.format(SECRET)}
    for odd in ODD:
        for text in ("postgresql://me:{}{}@127.0.0.1:1/d", "postgresql://127.0.0.1:1/d?password={}{}", "sqlite:///x?password={}{}",
                     "files:///x?artifacts=s3://k:{}{}@b", "mysql://me:{}{}@h/d"):  # fmt: skip
            yield {"kind": "url", "what": text.format(odd, SECRET)}
            yield {"kind": "url", "what": text.format(SECRET, odd)}


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (512 * 1024**2, 512 * 1024**2))


def given_to(user: pwd.struct_passwd, folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user.pw_uid, user.pw_gid, follow_symlinks=False)


def seen(folder: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "" for path in folder.rglob("*")
    }


def ran(stage: Path, cases: list[dict[str, str]]) -> list[dict[str, str]]:
    """What each case said. As nobody, if we may."""
    (stage / "cases.json").write_text(json.dumps(cases))
    env = {"HOME": str(stage / "home"), "PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT}/src", "TMPDIR": str(stage / "work"),
           "PYTHONDONTWRITEBYTECODE": "1", "GIT_CONFIG_NOSYSTEM": "1"}  # fmt: skip
    user = pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    if os.geteuid() == 0:
        given_to(user, stage / "work")
    command = [sys.executable, str(CHILD), str(stage / "cases.json"), str(stage / "work"), str(user.pw_uid)]
    done = subprocess.run(
        command, cwd=stage / "work", env=env, preexec_fn=limited, capture_output=True, text=True, timeout=3 * SECONDS, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert SECRET not in done.stderr
    return json.loads(done.stdout)


def trap_in(stage: Path) -> Path:
    """A program that leaves a trace wherever anybody may write."""
    (stage / "trap").mkdir()
    (stage / "trap").chmod(0o777)
    trap = stage / "trap" / "run"
    trap.write_text(f"#!/bin/sh\ntouch {stage}/trap/sprung\n")
    trap.chmod(0o755)
    return trap


def test_nothing_is_executed_touched_or_shown(stage):
    trap = trap_in(stage)
    planted = databases(stage / "work", stage / "home", trap)
    cases = [*repositories(stage / "work", trap), *files(stage / "work"), *planted, *urls()]
    assert len(cases) >= 500, len(cases)
    (trap.parent / "sprung").unlink(missing_ok=True)  # git may have run it while it was set
    (stage / "home" / "kept").write_text("mine")
    before = seen(stage / "home")
    said = ran(stage, cases)
    assert len(said) == len(cases)
    assert [each for each in said if each["bug"] or SECRET in each["said"]] == []
    assert seen(stage / "home") == before
    assert not (trap.parent / "sprung").exists()


def test_control_the_watch_sees_what_a_filter_does(stage):
    trap = trap_in(stage)
    repo = repository(stage / "work" / "repo")
    workspaces.clean_filter(repo, trap)
    (trap.parent / "sprung").unlink(missing_ok=True)
    ran(stage, [{"kind": "control", "what": str(repo)}])
    assert (trap.parent / "sprung").exists()

"""What the last commit before the split into packages left is opened and finished by the code of today, with the same log.

`tests/fixtures/before` holds a database, a folder of lines and a bundle, each with the same life: sessions, and runs that are
over, wait, sleep, are parked, or were killed in the middle of an effect. Beside them stand the lines that the code of that
commit itself adds when it finishes them (`tools/make_before.py`). A change that renames what is stored or sent fails here.
"""

from __future__ import annotations

import gzip
import json
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import msgspec
import pytest

import before_packages as life
import perdure
from perdure.stores.tx import Tx

FOLDER = Path(__file__).parent / "fixtures" / "before"
KINDS = ("sqlite", "files", "bundle")
RANDOM = r"[0-9a-f-]{12,}"  # where the lines have a star: drawn anew each time
LEFT = 228  # events
ENDS = {"completed": 21, "cancelled": 2}

Place = tuple[str, int, str, str]  # uid of the stream, number, kind, hash


class Left(NamedTuple):
    """One form of what was left: how it is opened, and every event of it as it lies there."""

    kind: str
    url: str
    bundle: str
    events: list[Place]
    expected: list[str]


@pytest.fixture(params=KINDS)
def left(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Left:
    """It, on a machine that has never seen it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "marks"))
    return unpacked(request.param, tmp_path)


def unpacked(kind: str, folder: Path) -> Left:
    """One form of it in this folder, read without any code of ours."""
    expected = (FOLDER / f"{kind}.txt").read_text("utf-8").splitlines()
    if kind == "sqlite":
        path = folder / "agent.db"
        path.write_bytes(gzip.decompress((FOLDER / "agent.db.gz").read_bytes()))
        return Left(kind, f"sqlite:///{path}", "", in_database(path), expected)
    if kind == "files":
        with tarfile.open(FOLDER / "state.tar.gz") as tar:
            tar.extractall(folder / "state", filter="data")
        return Left(kind, f"files:///{folder}/state", "", in_lines(folder / "state" / "log"), expected)
    path = folder / "all.perdure"
    path.write_bytes(gzip.decompress((FOLDER / "all.perdure.gz").read_bytes()))
    return Left(kind, f"sqlite:///{folder}/new.db", str(path), in_bundle(path), expected)


def in_database(path: Path) -> list[Place]:
    raw = apsw.Connection(str(path))
    rows: list[Any] = raw.execute(
        "SELECT streams.uid, events.seq, events.kind, events.hash FROM events JOIN streams ON streams.id = events.stream"
    ).fetchall()
    raw.close()
    return [(uid.hex(), seq, kind, digest.hex()) for uid, seq, kind, digest in rows]


def in_lines(log: Path) -> list[Place]:
    (segment,) = log.iterdir()
    lines = map(json.loads, segment.read_text("utf-8").splitlines())
    return [place(each) for line in lines for each in line.get("events", ())]


def in_bundle(path: Path) -> list[Place]:
    with zipfile.ZipFile(path) as members:
        lines = map(json.loads, members.read("log.jsonl").decode().splitlines())
        return [place(each) for each in lines if "seq" in each]


def place(event: dict[str, Any]) -> Place:
    return event["stream"], event["seq"], event["kind"], event["hash"]


def shown(store: perdure.Store) -> list[Place]:
    """Every event as the store shows it."""
    return [(each["stream_uid"], each["seq"], each["kind"], each["hash"]) for each in life.events(store)]


def unlike(lines: list[str], expected: list[str]) -> list[tuple[str, str]]:
    """The lines that are not as they should be, with how they should be."""
    longer = max(len(lines), len(expected))
    pairs = zip(lines + [""] * (longer - len(lines)), expected + [""] * (longer - len(expected)), strict=True)
    return [(line, wanted) for line, wanted in pairs if not is_like(line, wanted)]


def is_like(line: str, wanted: str) -> bool:
    return re.fullmatch(re.escape(wanted).replace(r"\*", RANDOM), line) is not None


# -- opened ----------------------------------------------------------------------------------------------------------


def test_all_that_was_left_is_found_and_verifies(left: Left) -> None:
    with life.opened(left.url, 1440) as (store, _):
        if left.bundle:
            store.import_(left.bundle)
        assert store.verify().problems == []
        found = shown(store)
        assert [each for each in left.events if each not in set(found)] == []
        assert len(store.runs(limit=200)) == 22
        session = store.session("main")
        assert [turn.role for turn in session.turns()][:4] == ["user", "assistant", "tool", "tool"]
        assert session.artifact("build.log").read() == b"all good"
        assert session.restore() == {"cursor": 2, "log": ["entry 2"]}
        assert session.get("branch") == "fix-1"
        assert [each.record.text for each in session.memories()] == ["Tests run with tox"]
        assert [hit.memory.text for hit in store.recall("dark mode")] == ["Prefers dark mode"]


# -- finished --------------------------------------------------------------------------------------------------------


def test_it_is_finished_with_the_same_log(left: Left, tmp_path: Path) -> None:
    assert unlike(life.finished(left.url, left.bundle), left.expected) == []
    with life.opened(left.url, 4000) as (store, _):
        assert store.verify().problems == []
        found = shown(store)
        assert [each for each in left.events if each not in set(found)] == []
        assert ends(store) == ENDS
        assert [*store.effects(in_doubt=True)] == []
        assert [*store.asks()] == []
        store.export(tmp_path / "finished.perdure", everything=True)
    imported_elsewhere(tmp_path / "finished.perdure", f"sqlite:///{tmp_path}/elsewhere.db", found)


def ends(store: perdure.Store) -> dict[str, int]:
    statuses = [each.record.status for each in store.runs(limit=200)]
    return {each: statuses.count(each) for each in sorted(set(statuses), reverse=True)}


def imported_elsewhere(bundle: Path, url: str, expected: list[Place]) -> None:
    """A fresh store has every event that the finished one could give away."""
    with life.opened(url, 5000) as (store, _):
        store.import_(bundle)
        assert store.verify().problems == []
        tenants = {uid for uid, _, kind, _ in expected if kind.startswith(("tenant.", "store.", "actor."))}
        missing = {each for each in expected if each[0] not in tenants} - set(shown(store))
        assert missing == set()


# -- controls --------------------------------------------------------------------------------------------------------


def renamed_kind(change: Any) -> Any:
    return msgspec.structs.replace(change, kind="run.roused") if change.kind == "run.woken" else change


def renamed_step(change: Any) -> Any:
    is_it = change.kind == "step.done" and change.doc.get("value") == 80
    return msgspec.structs.replace(change, doc={**change.doc, "name": "fare"}) if is_it else change


def renamed_column(change: Any) -> Any:
    is_it = change.kind == "effect.committed" and isinstance(change.doc, dict) and "result" in change.doc
    return msgspec.structs.replace(change, doc={"outcome": change.doc["result"], **change.doc}) if is_it else change


@pytest.mark.parametrize("rename", [renamed_kind, renamed_step, renamed_column])
@pytest.mark.parametrize("kind", KINDS)
def test_control_a_new_name_is_noticed(
    kind: str, rename: Callable[[Any], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "marks"))
    found = unpacked(kind, tmp_path)
    record = Tx.record
    monkeypatch.setattr(Tx, "record", lambda tx, change: record(tx, rename(change)))
    assert unlike(life.finished(found.url, found.bundle), found.expected) != []


@pytest.fixture
def otherwise() -> Iterator[None]:
    """A step of the program goes by another name."""
    life.price.__name__ = "fare"
    yield
    life.price.__name__ = "price"


def test_control_a_run_that_does_not_know_its_step_is_noticed(otherwise: None, tmp_path: Path) -> None:
    found = unpacked("sqlite", tmp_path)
    with pytest.raises((AssertionError, perdure.Error)):
        life.finished(found.url)

"""Verify finds every way of changing a store behind its back, and names the stream and the event (P5, P6)."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import perdure
from furnished import Models, furnish
from perdure.errors import Damaged, Invalid, Unavailable
from perdure.log import chain
from perdure.log.table import TableClass
from perdure.model.records.integrity import Problem, ProblemKind, Report
from perdure.planes.audit import rebuild, verify
from perdure.planes.tables import ALL, RECORDED
from perdure_testing.clock import FakeClock
from planes.tampering import Intruder
from schemas import Schemas

K = ProblemKind
DERIVED = [table for table in ALL if table.table_class is TableClass.DERIVED]


OPTIONS: dict[str, Any] = {"clock": FakeClock()}  # nobody moves it


def build(url: str, blobs: Path) -> None:
    """What every scene begins with."""
    with perdure.open(url, artifacts=f"file://{blobs}", **OPTIONS) as store:
        furnish(store)
        tail = store.session("tail")
        for number in range(8):
            tail.emit("work.done", {"number": number})


class Scene:
    """A furnished store, the intruder, and how to look again."""

    def __init__(self, url: str, blobs: Path) -> None:
        self.url = url
        self.blobs = blobs
        self.options = {"artifacts": f"file://{blobs}", **OPTIONS}
        self.intruder = Intruder(url)
        self.main, self.tail = self.stream("main"), self.stream("tail")

    def open(self):
        return perdure.open(self.url, **self.options)

    def stream(self, name: str) -> int:
        return self.intruder.one("SELECT id FROM streams WHERE name = ?", name)

    def verify(self, **options: Any) -> Report:
        with self.open() as store:
            return store.verify(**options)

    def head(self, stream: int) -> int:
        return self.intruder.one("SELECT seq FROM streams WHERE id = ?", stream)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    return Models(tmp_path_factory.mktemp("models"), build)


@pytest.fixture
def file_scene(models: Models, tmp_path: Path) -> Scene:
    return Scene(models.file(tmp_path), tmp_path / "blobs")


@pytest.fixture
def postgres_scene(models: Models, schemas: Schemas, tmp_path: Path) -> Iterator[Scene]:
    with models.schema(schemas, tmp_path) as url:
        scene = Scene(url, tmp_path / "blobs")
        with scene.intruder.staying():
            yield scene


@pytest.fixture(params=["sqlite", "postgres"])
def scene(request: pytest.FixtureRequest) -> Scene:
    return request.getfixturevalue("postgres_scene" if request.param == "postgres" else "file_scene")


def first(report: Report) -> tuple[str, str, int | None]:
    problem = report.problems[0]
    return problem.kind, problem.stream, problem.seq


def seen(report: Report) -> set[tuple[str, str, int | None]]:
    return {(it.kind, it.stream, it.seq) for it in report.problems}


def flipped(data: bytes, place: int = 0, bit: int = 0) -> bytes:
    changed = bytearray(data)
    changed[place % len(changed)] ^= 1 << bit
    return bytes(changed)


# -- nothing was touched ---------------------------------------------------------------------------


def test_control_an_untouched_store_is_clean(scene: Scene) -> None:
    told: list[tuple[int, int]] = []
    report = scene.verify(progress=lambda done, total: told.append((done, total)))
    assert report.problems == []
    assert report.ok
    assert report.counts.streams == 7
    assert report.counts.rows > 20
    assert report.counts.derived > 10
    assert report.counts.blobs > 5
    assert told[-1] == (report.counts.events, report.counts.events)
    assert told == sorted(told)


@pytest.mark.parametrize("wrong", [{"a": 1}, "{}", b"", 0, [], Path("anchor.json")])
def test_what_is_no_anchor_is_refused(wrong: object) -> None:
    with perdure.open("memory:") as store, pytest.raises(Invalid) as refused:
        store.verify(wrong)  # type: ignore[arg-type] - wrong on purpose
    assert (refused.value.path, "from_json" in refused.value.hint) == ("anchor", True)


def test_what_was_pruned_is_listed_and_no_problem(scene: Scene) -> None:
    report = scene.verify()
    assert {it.stream for it in report.unverifiable} == {"main"}
    assert len(report.unverifiable) == 2


def test_a_store_in_memory_is_clean(tmp_path: Path) -> None:
    with perdure.open("memory:", artifacts=f"file://{tmp_path}/blobs") as store:
        furnish(store)
        assert store.verify(anchor=store.anchor()).ok


def test_verify_beside_writers_is_clean(scene: Scene) -> None:
    """Each stream is read in one snapshot: rows that are newer than the head that was read are never seen."""
    stop = threading.Event()

    def write(name: str) -> None:
        with scene.open() as store:
            session = store.session(name)
            number = 0
            while not stop.is_set():
                number += 1
                session.set("n", number)
                session.say("user", "x")

    writers = [threading.Thread(target=write, args=(f"w{n}",)) for n in range(2)]
    for writer in writers:
        writer.start()
    try:
        reports = [scene.verify() for _ in range(4)]
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert [report.problems for report in reports] == [[]] * 4
    assert scene.verify().ok


def test_control_without_a_snapshot_a_writer_in_between_shows(
    file_scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = file_scene
    real = rebuild.Rebuild.differences
    with scene.open() as store, scene.open() as other:
        session = other.session("main")

        def interrupted(self: Any, *args: Any) -> Iterator[Any]:
            session.set("branch", "late")
            return real(self, *args)

        monkeypatch.setattr(rebuild.Rebuild, "differences", interrupted)
        assert store.verify().ok
        monkeypatch.setattr(type(store._caller.core), "snapshot", type(store._caller.core).read)
        assert {it.kind for it in store.verify().problems} == {K.ROW_ALTERED}


# -- events ----------------------------------------------------------------------------------------


EVENT_EDITS = {
    "kind": (lambda old: old + "x", K.EVENT_ALTERED),
    "tbl": (lambda old: "turns" if old != "turns" else "tasks", K.EVENT_ALTERED),
    "actor": (lambda old: "eve", K.EVENT_ALTERED),
    "at": (lambda old: old + 1, K.EVENT_ALTERED),
    "codec": (lambda old: old + 70_000, K.EVENT_ALTERED),
    "commitment": (flipped, K.EVENT_ALTERED),
    "hash": (flipped, K.EVENT_ALTERED),
    "salt": (flipped, K.BODY_ALTERED),
    "body": (lambda old: old.replace(b'"number"', b'"NUMBER"'), K.BODY_ALTERED),
}


@pytest.mark.parametrize("column", EVENT_EDITS)
def test_an_edited_event(scene: Scene, column: str) -> None:
    change, kind = EVENT_EDITS[column]
    for seq in (1, 4, scene.head(scene.tail)):
        where = (scene.tail, seq)
        old = scene.intruder.one(f"SELECT {column} FROM events WHERE stream = ? AND seq = ?", *where)
        new = change(old) if column != "body" else old.replace(b"{", b"{ ", 1)
        scene.intruder.run(f"UPDATE events SET {column} = ? WHERE stream = ? AND seq = ?", new, *where)
        assert first(scene.verify()) == (kind, "tail", seq)
        scene.intruder.run(f"UPDATE events SET {column} = ? WHERE stream = ? AND seq = ?", old, *where)
    assert scene.verify().ok


def test_an_event_given_to_another_tenant(scene: Scene) -> None:
    scene.intruder.run("UPDATE events SET tenant = 99 WHERE stream = ? AND seq = 4", scene.tail)
    assert seen(scene.verify()) == {(K.EVENT_ALTERED, "tail", 4)}


@pytest.mark.parametrize("seq", [1, 4])
def test_a_deleted_event(scene: Scene, seq: int) -> None:
    scene.intruder.run("DELETE FROM events WHERE stream = ? AND seq = ?", scene.tail, seq)
    assert first(scene.verify()) == (K.EVENT_MISSING, "tail", seq)


def test_a_deleted_last_event_that_the_head_names(scene: Scene) -> None:
    last = scene.head(scene.tail)
    scene.intruder.run("DELETE FROM events WHERE stream = ? AND seq = ?", scene.tail, last)
    assert seen(scene.verify()) == {(K.EVENT_MISSING, "tail", last)}


def cut(scene: Scene, stream: int, keep: int) -> None:
    """Cut a tail and adjust the head: the chain itself is whole again."""
    scene.intruder.run("DELETE FROM events WHERE stream = ? AND seq > ?", stream, keep)
    digest = scene.intruder.one("SELECT hash FROM events WHERE stream = ? AND seq = ?", stream, keep)
    scene.intruder.run("UPDATE streams SET seq = ?, hash = ? WHERE id = ?", keep, digest, stream)


def test_a_cut_tail_shows_against_an_anchor_only(scene: Scene) -> None:
    with scene.open() as store:
        anchor = store.anchor()
    last = scene.head(scene.tail)
    cut(scene, scene.tail, last - 2)
    assert scene.verify().ok
    assert seen(scene.verify(anchor=anchor)) == {(K.TAIL_CUT, "tail", last - 1)}


def test_a_tail_that_was_written_anew_shows_against_an_anchor(scene: Scene) -> None:
    with scene.open() as store:
        anchor = store.anchor()
    last = scene.head(scene.tail)
    cut(scene, scene.tail, last - 2)
    with scene.open() as store:
        for _ in range(4):
            store.session("tail").emit("work.done", {"number": 666})
    assert scene.verify().ok
    assert seen(scene.verify(anchor=anchor)) == {(K.REWRITTEN, "tail", last)}


def test_a_lost_stream_shows_against_an_anchor(scene: Scene) -> None:
    with scene.open() as store:
        anchor = store.anchor()
    uid = scene.intruder.one("SELECT uid FROM streams WHERE id = ?", scene.tail).hex()
    for table in ("events", "sessions", "streams"):
        column = "id" if table == "streams" else "stream"
        scene.intruder.run(f"DELETE FROM {table} WHERE {column} = ?", scene.tail)
    assert scene.verify().ok
    found = scene.verify(anchor=anchor).problems
    assert [(it.kind, it.uid) for it in found] == [(K.STREAM_MISSING, uid)]


def swap(scene: Scene, left: int, right: int) -> None:
    move = "UPDATE events SET seq = ? WHERE stream = ? AND seq = ?"
    for new, old in ((10_000, left), (left, right), (right, 10_000)):
        scene.intruder.run(move, new, scene.tail, old)


@pytest.mark.parametrize(("left", "right"), [(4, 5), (2, 7)])
def test_a_moved_pair(scene: Scene, left: int, right: int) -> None:
    swap(scene, left, right)
    assert seen(scene.verify()) == {(K.EVENT_MOVED, "tail", left), (K.EVENT_MOVED, "tail", right)}


def test_an_emptied_body_that_no_prune_names(scene: Scene) -> None:
    scene.intruder.run("UPDATE events SET salt = NULL, body = NULL WHERE stream = ? AND seq = 4", scene.tail)
    report = scene.verify()
    assert seen(report) == {(K.BODY_EMPTIED, "tail", 4)}
    assert "tail" not in {it.stream for it in report.unverifiable}


def test_a_head_that_lies(scene: Scene) -> None:
    last = scene.head(scene.tail)
    scene.intruder.run("UPDATE streams SET hash = ? WHERE id = ?", bytes(32), scene.tail)
    assert seen(scene.verify()) == {(K.HEAD_WRONG, "tail", last)}


def test_control_without_the_chain_an_edited_event_passes(file_scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = file_scene
    scene.intruder.run("UPDATE events SET actor = 'eve' WHERE stream = ? AND seq = 4", scene.tail)
    monkeypatch.setattr(chain.Chain, "_check_link", lambda *_: None)
    monkeypatch.setattr(chain.Chain, "end", lambda *_: None)
    assert scene.verify().ok


# -- streams and forks -----------------------------------------------------------------------------


def test_a_renamed_session(scene: Scene) -> None:
    scene.intruder.run("UPDATE streams SET name = 'other' WHERE id = ?", scene.tail)
    assert (K.STREAM_ALTERED, "other", None) in seen(scene.verify())


def test_a_fork_that_was_hung_elsewhere(scene: Scene) -> None:
    fork = scene.stream("try-b")
    begin = scene.intruder.one("SELECT fork_seq FROM streams WHERE id = ?", fork)
    scene.intruder.run("UPDATE streams SET parent = ? WHERE id = ?", scene.tail, fork)
    assert first(scene.verify()) == (K.FORK_BROKEN, "try-b", begin + 1)
    scene.intruder.run("UPDATE streams SET parent = ? WHERE id = ?", fork, fork)
    assert first(scene.verify()) == (K.FORK_BROKEN, "try-b", begin + 1)


def test_a_deleted_event_that_a_fork_goes_on_from(scene: Scene) -> None:
    begin = scene.intruder.one("SELECT fork_seq FROM streams WHERE name = 'try-b'")
    scene.intruder.run("DELETE FROM events WHERE stream = ? AND seq = ?", scene.main, begin)
    found = seen(scene.verify())
    assert {(K.EVENT_MISSING, "main", begin), (K.FORK_BROKEN, "try-b", begin + 1)} <= found


def test_events_and_rows_without_their_stream(scene: Scene) -> None:
    scene.intruder.run("DELETE FROM streams WHERE id = ?", scene.tail)
    found = {(it.kind, it.table) for it in scene.verify().problems}
    assert found == {(K.EVENT_ASTRAY, "events"), (K.EVENT_ASTRAY, "sessions")}


def test_a_guard_that_does_nothing_is_none(scene: Scene) -> None:
    if scene.intruder.sqlite:
        scene.intruder.raw("DROP TRIGGER events_keep")
        scene.intruder.raw("CREATE TRIGGER events_keep BEFORE DELETE ON events BEGIN SELECT 1; END")
        with pytest.raises(Damaged, match="events_keep"):
            scene.open()
        return
    gutted = "CREATE OR REPLACE FUNCTION events_guard() RETURNS trigger LANGUAGE plpgsql AS "
    scene.intruder.raw(gutted + "'BEGIN RETURN NEW; END'")
    assert {(it.kind, it.table) for it in scene.verify().problems} == {(K.GUARD_MISSING, "events")}


def test_a_prune_that_never_ends(scene: Scene) -> None:
    scene.intruder.run("INSERT INTO pruning (tenant) VALUES (1)")
    assert [(it.kind, it.table) for it in scene.verify().problems] == [(K.GUARD_MISSING, "pruning")]


def test_scopes_that_were_swapped(scene: Scene) -> None:
    with scene.open() as store:
        store.scope("user:bob").set("colour", "red")
    for old, new in (("user:bob", "tmp"), ("user:alice", "user:bob"), ("tmp", "user:alice")):
        scene.intruder.run("UPDATE streams SET name = ? WHERE name = ?", new, old)
    found = [(it.kind, it.stream) for it in scene.verify().problems]
    assert sorted(found) == [(K.STREAM_ALTERED, "user:alice"), (K.STREAM_ALTERED, "user:bob")]


@pytest.mark.parametrize("name", ["main", "try-b", "user:alice", "store"])
def test_a_stream_of_another_kind(scene: Scene, name: str) -> None:
    scene.intruder.run("UPDATE streams SET kind = 'run' WHERE name = ?", name)
    assert (K.STREAM_ALTERED, name, None) in seen(scene.verify())


def test_a_kept_row_that_went_after_a_prune(scene: Scene) -> None:
    kept = scene.intruder.one("SELECT min(seq) FROM checkpoints WHERE stream = ?", scene.main)
    scene.intruder.run("DELETE FROM checkpoints WHERE stream = ? AND seq = ?", scene.main, kept)
    assert (K.ROW_MISSING, "main", kept) in seen(scene.verify())


@pytest.mark.parametrize("place", [-5, 10**6])
def test_a_place_in_the_feed(scene: Scene, place: int) -> None:
    scene.intruder.run("UPDATE events SET pos = ? WHERE stream = ? AND seq = 3", place, scene.tail)
    assert seen(scene.verify()) == {(K.EVENT_ALTERED, "tail", 3 if place < 0 else 4)}


def test_a_transaction_of_the_feed(postgres_scene: Scene) -> None:
    scene = postgres_scene
    scene.intruder.run("UPDATE events SET xid = '3' WHERE stream = ? AND seq = 3", scene.tail)
    assert seen(scene.verify()) == {(K.EVENT_ALTERED, "tail", 3)}


def test_a_guard_that_was_taken_off(scene: Scene) -> None:
    if scene.intruder.sqlite:
        scene.intruder.raw("DROP TRIGGER events_fixed")
    else:
        scene.intruder.raw("ALTER TABLE events DISABLE TRIGGER events_guard")
    assert [it.kind for it in scene.verify().problems] == [K.GUARD_MISSING]


# -- rows ------------------------------------------------------------------------------------------


def other(value: Any) -> Any:
    match value:
        case int():
            return value + 7_000
        case bytes():
            return flipped(value)
    return value + "x"


def edits(scene: Scene, table: Any) -> Iterator[tuple[str, Any, Any, dict[str, Any]]]:
    """One row of a table, every column that can be edited in place: column, old, new, the row."""
    columns = table.all_columns
    values = scene.intruder.ask(f"SELECT {', '.join(columns)} FROM {table.name} ORDER BY stream LIMIT 1")[0]
    row = dict(zip(columns, values, strict=True))
    for column in columns:
        if column != "stream":
            absent = "1" if column in TEXTS else 1
            yield column, row[column], absent if row[column] is None else other(row[column]), row


def where(table: Any, row: dict[str, Any]) -> tuple[str, list[Any]]:
    names = ["stream", *table.key]
    return " AND ".join(f"{name} = ?" for name in names), [row[name] for name in names]


WITH_ROWS = [table for table in RECORDED.values() if not table.rowless]
TEXTS = {
    "role",
    "key",
    "call",
    "title",
    "name",
    "holder",
    "claimed_by",
    "labels",
    "pin",
    "status",
    "place",
    "error",
    "session",
    "parent",
    "reason",
    "digest",
    "met_by",
}


@pytest.mark.parametrize("table", WITH_ROWS, ids=lambda table: table.name)
def test_every_edited_column_of_every_recorded_table(scene: Scene, table: Any) -> None:
    scene.intruder.drop_checks(table.name)
    with scene.open() as store:
        for column, old, new, row in [*edits(scene, table)]:
            before = where(table, row)
            after = where(table, row | {column: new})
            scene.intruder.run(f"UPDATE {table.name} SET {column} = ? WHERE {before[0]}", new, *before[1])
            problems = [it for it in store.verify(blobs=False).problems if it.table == table.name]
            keyed = column in table.key
            expected = {K.ROW_MISSING, K.ROW_UNRECORDED} if keyed else {K.ROW_ALTERED}
            assert {it.kind for it in problems} == expected, (column, problems)
            altered = [it for it in problems if it.kind is not K.ROW_UNRECORDED]
            assert all(writes(scene, it, table.name) for it in altered)
            scene.intruder.run(f"UPDATE {table.name} SET {column} = ? WHERE {after[0]}", old, *after[1])
    assert scene.verify(blobs=False).ok


def writes(scene: Scene, problem: Problem, table: str) -> bool:
    """Whether the event that a problem names is one that wrote this table."""
    found = scene.intruder.ask(
        "SELECT e.tbl FROM events e JOIN streams s ON s.id = e.stream WHERE s.uid = ? AND e.seq = ?",
        bytes.fromhex(problem.uid),
        problem.seq,
    )
    return found == [(table,)]


@pytest.mark.parametrize("table", WITH_ROWS, ids=lambda table: table.name)
def test_a_deleted_row(scene: Scene, table: Any) -> None:
    _, _, _, row = next(iter([*edits(scene, table)]))
    clause, params = where(table, row)
    scene.intruder.run(f"DELETE FROM {table.name} WHERE {clause}", *params)
    found = [it for it in scene.verify(blobs=False).problems if it.table == table.name]
    assert [it.kind for it in found] == [K.ROW_MISSING]
    assert writes(scene, found[0], table.name)


@pytest.mark.parametrize("table", [it for it in WITH_ROWS if it.key], ids=lambda table: table.name)
def test_a_row_written_past_the_log(scene: Scene, table: Any) -> None:
    _, _, _, row = next(iter([*edits(scene, table)]))
    forged = (
        row
        | {table.key[0]: 7_777 if table.sequenced else "forged"}
        | {"key": "forged" if table.name == "effects" else None}
        | {"call": row.get("call")}
    )
    values = [forged[column] for column in table.all_columns]
    marks = ", ".join("?" for _ in values)
    columns = ", ".join(table.all_columns)
    if table.name == "turns":
        values[table.all_columns.index("call")] = None
    scene.intruder.run(f"INSERT INTO {table.name} ({columns}) VALUES ({marks})", *values)
    found = [it for it in scene.verify(blobs=False).problems if it.table == table.name]
    assert [it.kind for it in found] == [K.ROW_UNRECORDED]
    assert found[0].stream == scene.intruder.one("SELECT name FROM streams WHERE id = ?", row["stream"])
    assert not table.sequenced or found[0].seq == 7_777


@pytest.mark.parametrize("table", DERIVED, ids=lambda table: table.name)
def test_a_derived_row_that_is_wrong(scene: Scene, table: Any) -> None:
    column, _, new, row = [*edits(scene, table)][-1]
    clause, params = where(table, row)
    scene.intruder.drop_checks(table.name)
    scene.intruder.run(f"UPDATE {table.name} SET {column} = ? WHERE {clause}", new, *params)
    found = [it for it in scene.verify(blobs=False).problems if it.table == table.name]
    assert {it.kind for it in found} == {K.DERIVED_WRONG}
    clause, params = where(table, row | {column: new})
    scene.intruder.run(f"DELETE FROM {table.name} WHERE {clause}", *params)
    found = [it for it in scene.verify(blobs=False).problems if it.table == table.name]
    assert [it.kind for it in found] == [K.DERIVED_WRONG]


def test_control_without_the_fold_an_edited_row_passes(file_scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = file_scene
    scene.intruder.run("UPDATE turns SET role = 'system' WHERE role = 'user'")
    assert not scene.verify().ok
    monkeypatch.setattr(rebuild, "_compare", lambda *_: None)
    assert scene.verify().ok


def test_every_table_with_streams_is_looked_at_for_strays() -> None:
    """Its statement lists them by hand: a new table must be added there."""
    named = [table.name for table in ALL if table.table_class is not TableClass.EPHEMERAL]
    assert all(f"'{name}'" in verify.Q.rows_astray.source for name in named)
    assert [table.name for table in rebuild.CHECKED] == named


# -- blobs -----------------------------------------------------------------------------------------


def test_an_altered_or_missing_blob(scene: Scene) -> None:
    found = "SELECT b.id, r.seq FROM blob_refs r JOIN blobs b ON b.address = r.address WHERE b.data IS NOT NULL"
    for number, _ in scene.intruder.ask(found):
        data = scene.intruder.one("SELECT data FROM blobs WHERE id = ?", number)
        needed = {
            seq
            for (seq,) in scene.intruder.ask(
                "SELECT r.seq FROM blob_refs r JOIN blobs b ON b.address = r.address WHERE b.id = ?", number
            )
        }
        scene.intruder.run("UPDATE blobs SET data = ? WHERE id = ?", flipped(data, len(data) - 1), number)
        problems = scene.verify().problems
        assert {it.kind for it in problems} == {K.BLOB_ALTERED}
        assert {it.seq for it in problems} <= needed
        scene.intruder.run("UPDATE blobs SET data = ? WHERE id = ?", data, number)
    number = scene.intruder.ask(found)[0][0]
    scene.intruder.run("DELETE FROM blobs WHERE id = ?", number)
    assert {it.kind for it in scene.verify().problems} == {K.BLOB_MISSING}
    assert scene.verify(blobs=False).ok


def test_every_node_of_a_state_is_looked_at(scene: Scene) -> None:
    nodes = "SELECT id, data FROM blobs WHERE address NOT IN (SELECT address FROM blob_refs) AND data IS NOT NULL"
    with scene.open() as store:
        store.collect(grace="1h", dry_run=False)
        kept = len(scene.intruder.ask(nodes))
    assert kept > 1
    for number, data in scene.intruder.ask(nodes):
        scene.intruder.run("UPDATE blobs SET data = ? WHERE id = ?", flipped(data, len(data) // 2), number)
        found = scene.verify().problems
        assert {(it.kind, it.table) for it in found} == {(K.BLOB_ALTERED, "checkpoints")}
        assert {it.stream for it in found} == {"main"}
        scene.intruder.run("UPDATE blobs SET data = ? WHERE id = ?", data, number)


def test_a_blob_outside_that_is_altered_or_missing(scene: Scene) -> None:
    (file,) = [path for path in scene.blobs.rglob("*") if path.is_file() and len(path.name) > 40]
    seq = scene.intruder.one("SELECT seq FROM artifacts WHERE name = 'core.bin'")
    data = file.read_bytes()
    file.write_bytes(flipped(data, len(data) // 2))
    assert seen(scene.verify()) == {(K.BLOB_ALTERED, "main", seq)}
    file.unlink()
    assert seen(scene.verify()) == {(K.BLOB_MISSING, "main", seq)}
    shutil.rmtree(scene.blobs)  # all of the place: it may only not be mounted
    with pytest.raises(Unavailable):
        scene.verify()


# -- anchors ---------------------------------------------------------------------------------------


def pems() -> tuple[bytes, bytes]:
    key = ed25519.Ed25519PrivateKey.generate()
    pem = serialization.Encoding.PEM
    return (
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
        key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo),
    )


def test_a_signed_anchor(scene: Scene) -> None:
    private, public = pems()
    with scene.open() as store:
        anchor = perdure.log.anchor.Anchor.from_json(store.anchor(private).to_json())
        assert store.verify(anchor, public).signature == "good"
        assert store.verify(anchor).signature == "unchecked"
        assert store.verify(store.anchor()).signature == "unsigned"
        report = store.verify(anchor, pems()[1])
        assert (report.signature, [it.kind for it in report.problems]) == ("bad", [K.ANCHOR_INVALID])
    found = scene.intruder.ask("SELECT root, heads FROM anchors ORDER BY seq")
    assert (anchor.root, len(anchor.heads)) in found


def test_an_anchor_still_holds_when_the_store_has_grown(scene: Scene) -> None:
    with scene.open() as store:
        anchor = store.anchor()
        store.session("tail").emit("more.happened")
        store.session("new")
        assert store.verify(anchor).ok


# -- anything at all -------------------------------------------------------------------------------


HASHED = ["kind", "tbl", "actor", "at", "codec", "commitment", "hash", "salt", "body"]
ANY_BYTES = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def open_scene(file_scene: Scene) -> Iterator[tuple[Scene, Any]]:
    """A scene for many changes: the store stays open, and so does the door that the intruder came through."""
    with file_scene.intruder.staying(), file_scene.open() as store:
        yield file_scene, store


@ANY_BYTES
@given(data=st.data())
def test_any_flipped_byte_of_any_event_is_found(open_scene: tuple[Scene, Any], data: st.DataObject) -> None:
    scene, store = open_scene
    events = scene.intruder.ask("SELECT pos, stream, seq FROM events WHERE body IS NOT NULL ORDER BY pos")
    position, stream, seq = data.draw(st.sampled_from(events))
    column = data.draw(st.sampled_from(HASHED))
    old = scene.intruder.one(f"SELECT {column} FROM events WHERE pos = ?", position)
    new = data.draw(changed(old))
    set_it = f"UPDATE events SET {column} = ? WHERE pos = ?"
    scene.intruder.run(set_it, new, position)
    try:
        found = {(it.stream, it.seq) for it in store.verify(blobs=False).problems}
        assert (scene.intruder.one("SELECT name FROM streams WHERE id = ?", stream), seq) in found
    finally:
        scene.intruder.run(set_it, old, position)


def changed(old: Any) -> st.SearchStrategy[Any]:
    if isinstance(old, bytes):
        flips = st.tuples(st.integers(0, len(old) - 1), st.integers(0, 7))
        return flips.map(lambda it: flipped(old, *it))
    if isinstance(old, int):
        return st.integers(-(2**62), 2**62).filter(lambda it: it != old)
    return st.text(max_size=20).filter(lambda it: it != old and "\0" not in it)


@ANY_BYTES
@given(data=st.data())
def test_any_change_of_any_row_is_found(open_scene: tuple[Scene, Any], data: st.DataObject) -> None:
    scene, store = open_scene
    table = data.draw(st.sampled_from([it for it in rebuild.CHECKED if it.all_columns != ("stream", *it.key)]))
    columns = [it for it in table.all_columns if it != "stream" and it not in table.key]
    column = data.draw(st.sampled_from(columns))
    names = ["stream", *table.key]
    rows = scene.intruder.ask(f"SELECT {', '.join([column, *names])} FROM {table.name} ORDER BY stream")
    old, *key = data.draw(st.sampled_from(rows))
    new = data.draw(changed(old)) if old is not None else "5" if column in TEXTS else 5
    clause = " AND ".join(f"{name} = ?" for name in names)
    set_it = f"UPDATE {table.name} SET {column} = ? WHERE {clause}"
    scene.intruder.run(set_it, new, *key)
    try:
        found = {(it.stream, it.table) for it in store.verify(blobs=False).problems}
        assert (scene.intruder.one("SELECT name FROM streams WHERE id = ?", key[0]), table.name) in found
    finally:
        scene.intruder.run(set_it, old, *key)


def test_a_damaged_page_is_a_finding(file_scene: Scene) -> None:
    scene = file_scene
    assert scene.intruder.address.path is not None
    root = scene.intruder.one("SELECT rootpage FROM sqlite_schema WHERE name = 'turns'")
    with scene.intruder.address.path.open("r+b") as file:
        file.seek((root - 1) * 4096)
        file.write(b"\xff" * 2048)
    with scene.open() as store:
        kinds = {it.kind for it in store.verify(blobs=False).problems}
    assert K.DATABASE_DAMAGED in kinds


def test_problems_are_bounded() -> None:
    findings = verify.Findings()
    for number in range(verify.PROBLEMS_MAX + 5):
        findings.add(Problem(K.ROW_ALTERED, "a", "", number, "turns", ""))
    report = findings.report(0, "")
    assert (len(report.problems), report.left_out, report.ok) == (verify.PROBLEMS_MAX, 5, False)


def test_a_problem_reads_well() -> None:
    assert str(Problem(K.ROW_ALTERED, "main", "", 3, "turns", "differs")) == "row-altered: main seq 3 turns: differs"
    assert str(Problem(K.ANCHOR_INVALID, "", "", None, "", "why")) == "anchor-invalid: why"

"""Backup and restore: complete while others write, verified before anybody sees it, never over something
else (P1, P6, P10)."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from furnished import LARGE, Models, furnish, whole_feed
from perdure.errors import Conflict, Damaged, Error, Invalid, NewerSchema, NotFound, Refused, Unavailable
from perdure.handles.restoring import restore
from perdure.stores import atomic_files, schema_upgrade
from perdure.stores.core import open_core
from perdure.stores.schema_upgrade import Q as SCRIPTS
from perdure.upkeep import restore as restoring
from perdure.upkeep.backup import backup
from perdure_testing.contract.sync.collection import make_old
from planes.tampering import Intruder
from schemas import Schemas


class Scene:
    """A furnished store, a place for its backup, and a new place to restore into."""

    def __init__(self, url: str, target: str, folder: Path) -> None:
        self.url, self.target, self.folder = url, target, folder
        self.backup = folder / "backup"
        self.artifacts = {"artifacts": f"file://{folder}/blobs"}
        self.new_artifacts = {"artifacts": f"file://{folder}/new-blobs"}

    def open(self):
        return perdure.open(self.url, **self.artifacts)

    def open_restored(self):
        return perdure.open(self.target, **self.new_artifacts)

    def back_up(self, **options: Any):
        with self.open() as store:
            return store.backup(self.backup, **options)

    def restore(self, **options: Any):
        return restore(self.backup, self.target, **self.new_artifacts, **options)

    def nothing_there(self) -> bool:
        if self.target.startswith("sqlite"):
            leftovers = [path.name for path in self.folder.iterdir() if "restor" in path.name]
            return leftovers == [] and not (self.folder / "new-blobs").exists()
        intruder = Intruder(self.target)
        count = "SELECT count(*) FROM pg_namespace WHERE nspname = ?"
        return intruder.one(count, intruder.address.schema) == 0 and not (self.folder / "new-blobs").exists()


def build(url: str, blobs: Path) -> None:
    """What every scene begins with."""
    with perdure.open(url, artifacts=f"file://{blobs}") as store:
        furnish(store)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    return Models(tmp_path_factory.mktemp("models"), build)


@pytest.fixture
def file_scene(models: Models, tmp_path: Path) -> Scene:
    return Scene(models.file(tmp_path), f"sqlite:///{tmp_path}/restored.db", tmp_path)


@pytest.fixture
def postgres_scene(models: Models, schemas: Schemas, postgres_url: str, tmp_path: Path) -> Iterator[Scene]:
    with models.schema(schemas, tmp_path) as url:
        yield Scene(url, postgres_url, tmp_path)


@pytest.fixture(params=["sqlite", "postgres"])
def scene(request: pytest.FixtureRequest) -> Scene:
    return request.getfixturevalue("file_scene" if request.param == "sqlite" else "postgres_scene")


def content(store: Any) -> dict[str, Any]:
    main, fork = store.session("main"), store.session("try-b")
    return {
        "turns": [(it.seq, it.role, it.content, it.at) for it in main.turns(limit=100)],
        "fork": [(it.seq, it.content) for it in fork.turns(limit=100)],
        "value": (main.entry("branch").version, main.get("branch"), fork.get("branch")),
        "state": main.restore(),
        "large": main.artifact("core.bin").read(),
        "tasks": sorted((it.id, it.status, it.title) for it in main.tasks()),
        "decisions": sorted((it.seq, it.status, it.text) for it in store.decisions()),
        "events": len(main.events(limit=1000)),
    }


# -- there and back --------------------------------------------------------------------------------


def test_there_and_back(scene: Scene) -> None:
    told: list[tuple[int, int]] = []
    with scene.open() as store:
        anchor = store.anchor()
        before = content(store)
        made = store.backup(scene.backup, progress=lambda *it: told.append(it))
    assert told[-1][0] == told[-1][1] > 0
    assert (made.epoch, made.blobs, Path(made.path)) == (1, 1, scene.backup)
    assert stat.S_IMODE(scene.backup.stat().st_mode) == 0o600
    restored = scene.restore(anchor=anchor)
    assert (restored.store, restored.epoch, restored.blobs) == (made.store, 2, 1)
    assert restored.report.ok
    with scene.open_restored() as store:
        assert content(store) == before
        assert before["large"] == LARGE
        assert store.verify(anchor=anchor).ok


def test_a_postgres_backup_says_what_it_is_not(postgres_scene: Scene) -> None:
    note = postgres_scene.back_up().note
    for word in ("logical", "Not a physical backup", "no point in time", "no roles"):
        assert word in note


def test_a_restored_store_goes_on(scene: Scene) -> None:
    """Ids, positions and the feed go on after what was restored; an old cursor is from another epoch."""
    with scene.open() as store:
        cursor = store.feed_end()
    seen = Intruder(scene.url).one("SELECT count(*) FROM events WHERE tbl <> 'actors'")
    scene.back_up()
    scene.restore()
    with scene.open_restored() as store:
        assert len(whole_feed(store, seen)) == seen
        with pytest.raises(Error):
            store.feed(after=cursor)
        session = store.session("fresh")
        session.say("user", "hello")
        store.session("main").say("user", "more")
        session.attach("x", b"y" * 100_000)
        store.session("main").fork(name="again").say("user", "z")
        count = Intruder(scene.target).one("SELECT count(*) FROM events WHERE tbl <> 'actors'")
        assert len(whole_feed(store, count)) == count > seen + 4
        assert store.verify().ok


def test_a_store_moved_by_a_dump_is_mended_by_backup_and_restore(postgres_scene: Scene) -> None:
    """A dump keeps the transaction ids of the old cluster, for which the feed would wait; a restore gives new ones."""
    scene = postgres_scene
    intruder = Intruder(scene.url)
    count = intruder.one("SELECT count(*) FROM events WHERE tbl <> 'actors'")
    intruder.run("UPDATE events SET xid = (xid::text::bigint + 4000000000)::text::xid8")
    with pytest.raises(Refused, match="another cluster"):
        scene.open()
    with perdure.open(scene.url, read_only=True, **scene.artifacts) as store:
        assert [*store.feed(limit=1000)] == []  # the control: this is the silence that is meant
        store.backup(scene.backup)
    scene.restore()
    with scene.open_restored() as store:
        assert len(whole_feed(store, count)) == count


def test_restoring_a_restored_store_raises_the_epoch_again(scene: Scene) -> None:
    scene.back_up()
    scene.restore()
    with scene.open_restored() as store:
        again = store.backup(scene.folder / "second")
    assert again.epoch == 2


def test_a_store_in_memory_can_be_backed_up(tmp_path: Path) -> None:
    with perdure.open("memory:", artifacts=f"file://{tmp_path}/blobs") as store:
        furnish(store)
        before = content(store)
        store.backup(tmp_path / "b")
    restore(tmp_path / "b", f"sqlite:///{tmp_path}/r.db")
    with perdure.open(f"sqlite:///{tmp_path}/r.db") as store:
        assert content(store) == before


def test_a_backup_beside_writers_is_consistent(scene: Scene) -> None:
    stop = threading.Event()

    def write() -> None:
        with scene.open() as store:
            session = store.session("busy")
            for number in range(100_000):
                if stop.is_set():
                    return
                session.set("n", number)
                session.attach(f"file-{number}", os.urandom(70_000) if number % 5 == 0 else b"x")

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    try:
        with scene.open() as store:
            while store.session("busy").entry("n") is None:
                pass
        scene.back_up()
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert scene.restore().report.ok


# -- nothing is ever overwritten -------------------------------------------------------------------


def test_a_backup_does_not_overwrite(scene: Scene) -> None:
    scene.backup.write_text("precious")
    with pytest.raises(Conflict):
        scene.back_up()
    assert scene.backup.read_text() == "precious"
    scene.backup.unlink()
    beside = scene.folder / "backup.blobs"
    beside.mkdir()
    with pytest.raises(Conflict):
        scene.back_up()
    assert not scene.backup.exists()
    assert beside.exists()


def test_a_backup_into_a_folder_that_is_not_there(scene: Scene) -> None:
    with scene.open() as store, pytest.raises(NotFound, match=r"there is no folder .*/no/such"):
        store.backup(scene.folder / "no" / "such" / "b")


def test_a_restore_into_a_folder_that_is_not_there(file_scene: Scene) -> None:
    file_scene.back_up()
    with pytest.raises(NotFound, match=r"there is no folder .*/nowhere"):
        restore(file_scene.backup, f"sqlite:///{file_scene.folder}/nowhere/r.db")


def test_two_backups_into_one_file_do_not_meet(file_scene: Scene) -> None:
    with atomic_files.unfinished(file_scene.backup):
        with pytest.raises(Conflict, match="another process"):
            file_scene.back_up()
    assert not file_scene.backup.exists()
    file_scene.back_up()


def test_a_store_is_never_restored_over_another(scene: Scene) -> None:
    scene.back_up()
    scene.restore()
    with pytest.raises(Conflict):
        restore(scene.backup, scene.target, artifacts=f"file://{scene.folder}/third")
    with pytest.raises(Conflict):
        restore(scene.backup, scene.url, artifacts=f"file://{scene.folder}/third")
    assert not (scene.folder / "third").exists()
    with scene.open_restored() as store:
        assert store.verify().ok


def test_a_file_or_blobs_in_the_way_are_kept(file_scene: Scene) -> None:
    scene = file_scene
    scene.back_up()
    target = scene.folder / "restored.db"
    target.write_text("precious")
    with pytest.raises(Conflict):
        scene.restore()
    assert target.read_text() == "precious"
    target.unlink()
    beside = scene.folder / "restored.db.blobs"
    beside.mkdir()
    with pytest.raises(Conflict):
        restore(scene.backup, scene.target)
    assert not target.exists()
    assert beside.exists()


def test_what_cannot_be_restored_is_said(scene: Scene) -> None:
    with pytest.raises(NotFound):
        scene.restore()
    scene.back_up()
    with pytest.raises(Invalid):
        restore(scene.backup, "memory:")
    with pytest.raises(Invalid):
        restore(scene.backup, "mysql://x")


def test_a_backup_of_one_kind_is_not_restored_as_the_other(file_scene: Scene, postgres_url: str) -> None:
    file_scene.back_up()
    with pytest.raises(Invalid):
        restore(file_scene.backup, postgres_url)


# -- blobs -----------------------------------------------------------------------------------------


def outside_file(folder: Path) -> Path:
    (found,) = [path for path in folder.rglob("*") if path.is_file() and len(path.name) > 40]
    return found


def test_a_blob_that_is_lost_fails_the_backup_and_leaves_nothing(scene: Scene) -> None:
    outside_file(scene.folder / "blobs").unlink()
    with pytest.raises(Damaged):
        scene.back_up()
    assert [path for path in scene.folder.iterdir() if path.name.startswith("backup")] == []


def test_a_blob_collected_meanwhile_asks_for_another_run(file_scene: Scene) -> None:
    scene = file_scene
    outside_file(scene.folder / "blobs").unlink()
    intruder = Intruder(scene.url)
    with scene.open() as store:
        real = store._caller.core.blobs.open

        def collected(*args: Any) -> Any:
            intruder.run("DELETE FROM blobs WHERE data IS NULL")
            return real(*args)

        store._caller.core.blobs.open = collected
        with pytest.raises(Unavailable):
            store.backup(scene.backup)


@pytest.mark.parametrize("damage", ["alter", "remove", "remove all"])
def test_a_damaged_blob_of_a_backup_is_refused(scene: Scene, damage: str) -> None:
    scene.back_up()
    file = outside_file(scene.folder / "backup.blobs")
    if damage == "alter":
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    elif damage == "remove":
        file.unlink()
    else:
        shutil.rmtree(scene.folder / "backup.blobs")
    with pytest.raises(Damaged):
        scene.restore()
    assert scene.nothing_there()


def test_large_blobs_need_a_place(postgres_scene: Scene) -> None:
    postgres_scene.back_up()
    with pytest.raises(Refused) as caught:
        restore(postgres_scene.backup, postgres_scene.target)
    assert caught.value.path == "artifacts"
    assert postgres_scene.nothing_there()


# -- hostile backups of SQLite ---------------------------------------------------------------------


def tamper(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA ignore_check_constraints = ON")
    triggers = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        connection.execute(statement)
    for _, text in triggers:
        connection.execute(text)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("UPDATE turns SET role = 'system' WHERE role = 'user'", Damaged),
        ("UPDATE events SET actor = 'eve' WHERE seq = 2", Damaged),
        ("DELETE FROM events WHERE seq = 2", Damaged),
        ("UPDATE meta SET value = '4711' WHERE name = 'schema'", NewerSchema),
        ("UPDATE meta SET value = 'x' WHERE name = 'epoch'", Damaged),
        ("DELETE FROM meta", Invalid),
        ("CREATE TRIGGER evil AFTER INSERT ON turns BEGIN DELETE FROM turns; END", Invalid),
        ("DROP TABLE anchors", Invalid),
        ("ALTER TABLE turns ADD COLUMN more TEXT", Invalid),
        ("DELETE FROM streams WHERE name = 'main'", Damaged),
    ],
)
def test_a_backup_that_was_changed_is_refused(file_scene: Scene, statement: str, error: type[Error]) -> None:
    file_scene.back_up()
    tamper(file_scene.backup, statement)
    before = file_scene.backup.read_bytes()
    with pytest.raises(error):
        file_scene.restore()
    assert file_scene.nothing_there()
    assert file_scene.backup.read_bytes() == before


def test_control_the_same_backup_unchanged_is_restored(file_scene: Scene) -> None:
    file_scene.back_up()
    tamper(file_scene.backup)
    assert file_scene.restore().report.ok


def test_an_index_or_view_of_the_users_own_is_no_reason_to_refuse(file_scene: Scene) -> None:
    file_scene.back_up()
    tamper(file_scene.backup, "CREATE INDEX mine ON turns (role)", "CREATE VIEW own AS SELECT 1 AS one")
    assert file_scene.restore().report.ok


def test_a_cut_tail_is_refused_with_an_anchor(file_scene: Scene) -> None:
    scene = file_scene
    with scene.open() as store:
        session = store.session("tail")
        session.emit("one.happened")
        session.emit("two.happened")
        anchor = store.anchor()
    scene.back_up()
    tail = "(SELECT id FROM streams WHERE name = 'tail')"
    last = "(SELECT seq FROM streams WHERE name = 'tail')"
    digest = f"(SELECT hash FROM events WHERE stream = {tail} ORDER BY seq DESC LIMIT 1)"
    tamper(
        scene.backup,
        f"DELETE FROM events WHERE stream = {tail} AND seq = {last}",
        f"UPDATE streams SET seq = seq - 1, hash = {digest} WHERE name = 'tail'",
    )
    with pytest.raises(Damaged, match="tail-cut"):
        scene.restore(anchor=anchor)
    assert scene.nothing_there()


@pytest.mark.parametrize("data", [b"", b"text", b"x" * 5000, b"SQLite format 3\0" + b"\xff" * 5000])
def test_what_is_no_backup_is_refused(scene: Scene, data: bytes) -> None:
    scene.backup.write_bytes(data)
    with pytest.raises(Invalid, match="backup is not a backup that Perdure made"):
        scene.restore()
    assert scene.nothing_there()


def test_the_database_of_somebody_else_is_no_backup(file_scene: Scene) -> None:
    connection = sqlite3.connect(file_scene.backup)
    connection.execute("CREATE TABLE customers (id INTEGER)")
    connection.close()
    with pytest.raises(Invalid, match="is not a backup that Perdure made"):
        file_scene.restore()


def test_a_backup_of_a_damaged_store_blames_the_store(file_scene: Scene) -> None:
    path = file_scene.folder / "a.db"
    page = Intruder(file_scene.url).one("SELECT rootpage FROM sqlite_schema WHERE name = 'turns'") - 1
    data = bytearray(path.read_bytes())
    data[page * 4096 : page * 4096 + 64] = b"\xee" * 64
    path.write_bytes(data)
    core = open_core(file_scene.url, read_only=True)
    with pytest.raises(Damaged) as caught:
        backup(core, file_scene.backup)
    core.close()
    assert str(path) in caught.value.message
    assert "unfinished" not in str(caught.value)
    assert caught.value.path == "store"
    assert [it.name for it in file_scene.folder.iterdir() if "backup" in it.name] == []


def test_a_damaged_page_is_refused(file_scene: Scene) -> None:
    file_scene.back_up()
    data = bytearray(file_scene.backup.read_bytes())
    for page in range(20, len(data) // 4096):
        data[page * 4096 + 8 : page * 4096 + 64] = b"\xee" * 56
    file_scene.backup.write_bytes(data)
    with pytest.raises((Damaged, Invalid)):
        file_scene.restore()
    assert file_scene.nothing_there()


# -- hostile archives ------------------------------------------------------------------------------

Members = dict[str, bytes]


def rewritten(path: Path, change: Callable[[Members], None]) -> None:
    """Take an archive apart, change it, and put it together again."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def editing(**fields: Any) -> Callable[[Members], None]:
    def change(members: Members) -> None:
        members["manifest.json"] = json.dumps(json.loads(members["manifest.json"]) | fields).encode()

    return change


def honest(members: Members, table: str, data: bytes) -> None:
    """Replace a table and its sums: a forger who knows the format."""
    manifest = json.loads(members["manifest.json"])
    for member in manifest["tables"]:
        if member["table"] == table:
            member |= {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    members[f"tables/{table}.copy"] = data
    members["manifest.json"] = json.dumps(manifest).encode()


def flip(members: Members) -> None:
    data = bytearray(members["tables/events.copy"])
    data[-20] ^= 1
    members["tables/events.copy"] = bytes(data)


def without_columns(members: Members) -> None:
    manifest = json.loads(members["manifest.json"])
    manifest["tables"][0]["columns"] = ["id; DROP TABLE x"]
    members["manifest.json"] = json.dumps(manifest).encode()


CHANGES: dict[str, tuple[Callable[[Members], Any], tuple[type[Error], ...]]] = {
    "flipped": (flip, (Damaged,)),
    "truncated": (
        lambda it: it.update({"tables/events.copy": it["tables/events.copy"][:-9]}),
        (Damaged, Invalid),
    ),
    "missing": (lambda it: it.pop("tables/turns.copy"), (Invalid,)),
    "more": (lambda it: it.update({"tables/more.copy": b""}), (Invalid,)),
    "dotted": (lambda it: it.update({"../../evil": b"x"}), (Invalid,)),
    "absolute": (lambda it: it.update({"/etc/evil": b"x"}), (Invalid,)),
    "no manifest": (lambda it: it.pop("manifest.json"), (Invalid,)),
    "bad manifest": (lambda it: it.update({"manifest.json": b"[" * 100_000}), (Invalid,)),
    "bad text": (lambda it: it.update({"manifest.json": b'{"kind": "\xe9"}'}), (Invalid,)),
    "format": (editing(format=2), (Invalid,)),
    "kind": (editing(kind="other"), (Invalid,)),
    "newer": (editing(schema=4711), (NewerSchema,)),
    "no schema": (editing(schema=0), (Invalid,)),
    "store": (editing(store="../../x"), (Invalid,)),
    "epoch": (editing(epoch=2**40), (Invalid,)),
    "no tables": (editing(tables=[]), (Invalid,)),
    "columns": (without_columns, (Invalid,)),
    "nonsense": (lambda it: honest(it, "turns", b"nonsense"), (Invalid,)),
    "emptied": (lambda it: honest(it, "turns", it["tables/holders.copy"]), (Invalid, Damaged)),
    "lost": (lambda it: honest(it, "events", b"PGCOPY\n\xff\r\n\0" + bytes(8) + b"\xff\xff"), (Damaged,)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_archive_is_refused_and_nothing_is_left(postgres_scene: Scene, name: str) -> None:
    scene = postgres_scene
    scene.back_up()
    change, errors = CHANGES[name]
    rewritten(scene.backup, change)
    with pytest.raises(errors):
        scene.restore()
    assert scene.nothing_there()


def test_control_an_archive_put_together_again_is_restored(postgres_scene: Scene) -> None:
    postgres_scene.back_up()
    rewritten(postgres_scene.backup, lambda _: None)
    assert postgres_scene.restore().report.ok


def test_bombs_and_tricks_with_members_are_refused(postgres_scene: Scene) -> None:
    scene = postgres_scene
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", b"0" * 50_000_000)
    many = io.BytesIO()
    with zipfile.ZipFile(many, "w") as archive:
        for number in range(1_000):
            archive.writestr(f"tables/t{number}.copy", b"")
    twice = io.BytesIO()
    with zipfile.ZipFile(twice, "w") as archive:
        archive.writestr("manifest.json", b"{}")
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("manifest.json", b"{}")
    for hostile in (bomb, many, twice):
        scene.backup.write_bytes(hostile.getvalue())
        with pytest.raises(Invalid):
            scene.restore()
    assert scene.nothing_there()


# -- dying in the middle ---------------------------------------------------------------------------

BACKUP = """
import sys, perdure
url, artifacts, backup = sys.argv[1:]
perdure.open(url, artifacts=artifacts).backup(backup)
"""
RESTORE = """
import sys
from perdure.handles.restoring import restore
url, artifacts, backup = sys.argv[1:]
restore(backup, url, artifacts=artifacts)
"""


def killed(program: str, point: str, *args: str) -> bool:
    environment = os.environ | {"PERDURE_CRASH_AT": point}
    ran = subprocess.run([sys.executable, "-c", program, *args], env=environment, capture_output=True, check=False)
    return ran.returncode == -signal.SIGKILL


@pytest.mark.parametrize("point", ["copy.filled", "copy.published"])
def test_a_backup_killed_in_the_middle_is_whole_or_not_there(file_scene: Scene, point: str) -> None:
    scene = file_scene
    assert killed(BACKUP, point, scene.url, scene.artifacts["artifacts"], str(scene.backup))
    assert scene.backup.exists() == (point == "copy.published")
    assert (scene.folder / "backup.blobs").exists()
    if not scene.backup.exists():
        scene.back_up()
        assert [it.name for it in scene.folder.iterdir() if it.name.startswith(".")] == []
    assert scene.restore().report.ok


def test_what_a_killed_backup_left_behind_is_only_its_own(file_scene: Scene) -> None:
    """A target that got its name, by whomever, keeps the blobs beside it."""
    scene = file_scene
    assert killed(BACKUP, "copy.filled", scene.url, scene.artifacts["artifacts"], str(scene.backup))
    scene.backup.write_text("precious")
    with pytest.raises(Conflict):
        scene.back_up()
    assert (scene.folder / "backup.blobs").exists()
    assert scene.backup.read_text() == "precious"


@pytest.mark.parametrize("point", ["restore.loaded", "copy.published"])
def test_a_restore_killed_in_the_middle_leaves_no_half_store(file_scene: Scene, point: str) -> None:
    scene = file_scene
    scene.back_up()
    assert killed(RESTORE, point, scene.target, scene.new_artifacts["artifacts"], str(scene.backup))
    if point == "copy.published":
        with scene.open_restored() as store:
            assert store.verify().ok
    else:
        assert not (scene.folder / "restored.db").exists()
        assert scene.restore().report.ok
        assert scene.folder / ".restored.db.unfinished" not in [*scene.folder.iterdir()]


RESTORE_BESIDE = RESTORE.replace(", artifacts=artifacts", "")


def test_a_killed_restore_does_not_block_the_next_one_with_its_blobs(file_scene: Scene) -> None:
    scene = file_scene
    scene.back_up()
    assert killed(RESTORE_BESIDE, "restore.loaded", scene.target, "", str(scene.backup))
    assert (scene.folder / "restored.db.blobs").exists()
    assert restore(scene.backup, scene.target).report.ok
    left = [path.name for path in scene.folder.iterdir() if "restored" in path.name]
    assert sorted(left) == ["restored.db", "restored.db.blobs"]


def test_a_restore_into_postgres_killed_in_the_middle_leaves_nothing(postgres_scene: Scene) -> None:
    scene = postgres_scene
    scene.back_up()
    assert killed(RESTORE, "restore.loaded", scene.target, scene.new_artifacts["artifacts"], str(scene.backup))
    assert scene.restore().report.ok


def test_a_full_disk_leaves_nothing(file_scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic_files, "sync", full)
    with pytest.raises(perdure.Full):
        file_scene.back_up()
    assert [path for path in file_scene.folder.iterdir() if path.name.startswith("backup")] == []


def test_statements_for_one_database_say_so() -> None:
    only = [statement.name for statement in SCRIPTS if " only" in statement.doc]
    assert {"copy_into", "schema_make", "numbers_forward"} <= set(only)


def test_collecting_in_a_restored_copy_takes_nothing_from_its_original(tmp_path: Path) -> None:
    """Both may use one place: what one of them does not know of belongs to the other."""
    place = f"file://{tmp_path}/place"
    with perdure.open(f"sqlite:///{tmp_path}/original.db", artifacts=place) as original:
        session = original.session("s")
        session.attach("one.bin", os.urandom(200_000))
        original.backup(tmp_path / "copy.bak")
        perdure.restore(tmp_path / "copy.bak", f"sqlite:///{tmp_path}/staging.db", artifacts=place)
        later = os.urandom(200_000)
        session.attach("two.bin", later)
        with perdure.open(f"sqlite:///{tmp_path}/staging.db", artifacts=place) as staging:
            make_old(staging)
            assert staging.collect(dry_run=False).files == 0
        assert session.artifact("two.bin").read() == later
        assert original.verify().ok


def test_an_interrupt_after_the_commit_leaves_the_blobs(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a store can be seen, or may have been committed, nobody takes its blobs away."""
    scene.back_up()
    published, committed = restoring.publish, schema_upgrade._say

    def publish(partial: Path, target: Path) -> None:
        published(partial, target)
        raise KeyboardInterrupt

    def say(connection: Any, text: str) -> None:
        committed(connection, text)
        if text == "COMMIT" and connection.dialect == "postgres":
            raise KeyboardInterrupt

    monkeypatch.setattr(restoring, "publish", publish)
    monkeypatch.setattr(schema_upgrade, "_say", say)
    with pytest.raises(KeyboardInterrupt):
        scene.restore()
    monkeypatch.undo()
    with scene.open_restored() as store:
        assert store.verify().ok
        assert store.session("main").artifact("core.bin").read() == LARGE


def test_a_journal_in_the_way_is_not_poured_into_a_restored_store(file_scene: Scene) -> None:
    file_scene.back_up()
    left = file_scene.folder / "restored.db-journal"
    left.write_bytes(b"of somebody else")
    with pytest.raises(Conflict, match=r"restored\.db-journal"):
        file_scene.restore()
    assert left.read_bytes() == b"of somebody else"
    left.unlink()
    assert file_scene.restore().report.ok  # the control

"""SQLite: busy files, full disks, failing syncs, damaged and read-only files (P1, P15)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import stat
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import perdure
from installed import stores_here
from perdure.errors import Conflict, Damaged, Full, Invalid, NotFound, ReadOnly, Refused, TimedOut, Unavailable
from perdure.stores import sqlite
from perdure.stores.core import open_core
from perdure.stores.lane import Lane
from perdure.stores.sqlite import SqliteConnection, SqliteEngine
from planes.tampering import Intruder
from stores.verbs import Called, Gate, Opened, append, begin, count_turns, everything, impatient, opened

FAULTY_VFS = "perdure-test-faulty"


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "agent.db"


@pytest.fixture
def url(path) -> str:
    return f"sqlite:///{path}"


# -- settings -----------------------------------------------------------------------------------------------


def test_what_durability_rests_on_is_set(url):
    with opened(url) as store:
        store.write(begin, "a")
        raw = store.core.lane._connection.raw
        assert raw.pragma("journal_mode") == "wal"
        assert raw.pragma("synchronous") == 2  # FULL
        assert raw.pragma("foreign_keys") == 1


@pytest.mark.parametrize(("kind", "made", "again"), stores_here(("sqlite", 3, 2), ("files", 4, 4)))
def test_an_opening_connects_no_more_often_than_it_must(kind, made, again, tmp_path, monkeypatch):
    """Each connection parses the whole schema, which takes longer than all that an opening reads."""
    seen, real = Counter(), sqlite.configured
    monkeypatch.setattr(
        sqlite, "configured", lambda *args, **kwargs: (seen.update(["connected"]), real(*args, **kwargs))[1]
    )
    for most in (made, again):
        seen.clear()
        perdure.open(f"{kind}:///{tmp_path}/agent").close()
        assert seen["connected"] <= most


def test_a_reader_that_nobody_asked_for_goes_with_the_engine(url, path):
    perdure.open(url).close()
    engine = SqliteEngine(url, path)
    reader = engine.reader()
    engine.spare(reader)
    engine.close()
    with pytest.raises(apsw.ConnectionClosedError):
        reader.raw.execute("SELECT 1")


@pytest.mark.parametrize("kind", stores_here("memory", "sqlite", "files"))
def test_stores_that_one_process_makes_are_different_ones(kind, tmp_path):
    """They begin as copies of one blank store."""
    urls = ["memory:"] * 2 if kind == "memory" else [f"{kind}:///{tmp_path}/{name}" for name in ("one", "other")]
    with opened(urls[0]) as one, opened(urls[1]) as other:
        assert one.core.uid != other.core.uid


def test_files_are_for_their_owner_alone(url, path):
    old = os.umask(0)
    try:
        with opened(url) as store:
            store.write(begin, "a")
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    finally:
        os.umask(old)
    assert set(modes) >= {"agent.db", "agent.db-wal", "agent.db-shm"}
    assert {name: mode for name, mode in modes.items() if mode & 0o077} == {}


# -- busy ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def locked(path: Path) -> Iterator[apsw.Connection]:
    """Somebody else, as another process would, writes for a long time."""
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    try:
        yield other
    finally:
        other.close()


def test_a_busy_file_is_waited_for(url, path):
    with opened(url) as store:
        stream = store.write(begin, "a")
        with locked(path) as other:
            writer = Called(store.write, append, stream, "x")
            writer.join(0.05)
            assert writer.is_alive()
            other.execute("ROLLBACK")
            assert writer.outcome() == 2


def test_a_file_that_stays_busy_is_an_error_after_the_deadline_and_nothing_before(url, path):
    with opened(url) as store:
        stream = store.write(begin, "a")
        with locked(path):
            with pytest.raises(TimedOut, match="busy") as caught, impatient(store):
                store.write(append, stream, "x")
            assert caught.value.path == "store"
            assert caught.value.hint
            assert store.read(count_turns, stream) == 0
        assert store.write(append, stream, "y") == 2


def test_a_batch_shares_its_deadline(url, path, monkeypatch):
    """A thousand callers behind a busy file wait as long as one, not a thousand times as long."""
    begins = []
    begin_transaction = SqliteConnection.begin
    monkeypatch.setattr(SqliteConnection, "begin", lambda self: (begins.append(1), begin_transaction(self))[1])

    async def main() -> None:
        with opened(url) as store:
            stream = await store.submit(begin, "a")
            with locked(path), impatient(store):
                gate = Gate()
                jobs = [store.submit(gate), *(store.submit(append, stream, number) for number in range(200))]
                gate.open()
                del begins[:]
                outcomes = await asyncio.gather(*jobs, return_exceptions=True)
            assert {type(outcome) for outcome in outcomes} == {TimedOut}
            assert len(begins) < 40

    asyncio.run(main())


# -- full disks ---------------------------------------------------------------------------------------------


class FaultyFile(apsw.VFSFile):
    """Fails when told to: `full` on writes, `io` on syncs."""

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        if FaultyVFS.full_after is not None:
            FaultyVFS.full_after -= 1
            if FaultyVFS.full_after < 0:
                raise apsw.FullError
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        FaultyVFS.syncs += 1
        if FaultyVFS.fail_syncs:
            FaultyVFS.fail_syncs -= 1
            raise apsw.IOError
        super().xSync(flags)


class FaultyVFS(apsw.VFS):
    """Stands between SQLite and the system."""

    full_after: int | None = None
    fail_syncs = 0
    syncs = 0

    def __init__(self) -> None:
        self._system = apsw.vfs_names()[0]
        super().__init__(FAULTY_VFS, self._system, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> FaultyFile:  # noqa: N802 - SQLite's name
        return FaultyFile(self._system, name, flags)

    @classmethod
    def heal(cls) -> None:
        cls.full_after, cls.fail_syncs, cls.syncs = None, 0, 0


@pytest.fixture
def faulty() -> Iterator[type[FaultyVFS]]:
    """Every file that is opened from here on can be made to fail."""
    default = apsw.vfs_names()[0]
    vfs = FaultyVFS()
    FaultyVFS.heal()
    yield FaultyVFS
    FaultyVFS.heal()
    apsw.set_default_vfs(default)
    vfs.unregister()


def acknowledged(store: Opened, jobs: list[Any]) -> list[Any]:
    """Write all of these at once; the contents whose callers were told that they are stored."""

    async def main() -> list[Any]:
        outcomes = await asyncio.gather(*(store.submit(*job) for job in jobs), return_exceptions=True)
        return [job[2] for job, outcome in zip(jobs, outcomes, strict=True) if isinstance(outcome, int)]

    return asyncio.run(main())


@pytest.mark.parametrize("after", [0, 1, 2, 5, 11])
def test_a_disk_that_fills_up_in_a_batch_acknowledges_nobody_falsely(url, faulty, after):
    with opened(url) as store:
        stream = store.write(begin, "a")
        store.write(append, stream, "before")
        faulty.full_after = after
        acked = acknowledged(store, [(append, stream, number) for number in range(100)])
        with pytest.raises(Full) as caught:
            store.write(append, stream, "full")
        assert "agent.db" in str(caught.value)
        assert caught.value.path == "store"
        assert "free some space" in caught.value.hint
        assert store.contents(stream) == ["before", *acked]  # reads go on
        faulty.heal()
        store.write(append, stream, "after")  # and so does writing, once there is room
    assert everything(url) == Counter(["before", *acked, "after"])


def test_nothing_half_done_is_kept_by_a_full_disk(url, faulty):
    def several(tx: Any, stream: Any) -> None:
        for number in range(50):
            append(tx, stream, "x" * 3000 + str(number))

    with opened(url) as store:
        stream = store.write(begin, "a")
        faulty.full_after = 20
        with pytest.raises(Full):
            store.write(several, stream)
        faulty.heal()
        assert store.contents(stream) == []
    assert everything(url) == Counter()


class EagerLane(Lane):
    """The control: acknowledges before the commit."""

    def _attempt(self, jobs, lock=()) -> None:
        if super()._attempt(jobs, lock) is not None:
            for job in jobs:
                job.result, job.done = 0, True


def test_control_acknowledging_before_the_commit_is_found(url, faulty):
    with opened(url) as store:
        stream = store.write(begin, "a")
        old = store.core.lane
        store.core.lane = EagerLane(old._engine, old._blobs, old._clocks, 30.0)
        faulty.full_after = 0
        acked = acknowledged(store, [(append, stream, number) for number in range(5)])
        faulty.heal()
        assert store.contents(stream) != acked
        old.close()


@pytest.fixture
def small(tmp_path) -> Iterator[Path]:
    """A file system of its own that is soon full."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small filesystem needs root: not tested on a truly full one")
    place = tmp_path / "small"
    place.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(place)], capture_output=True, check=False
    )
    if mount.returncode:
        pytest.skip(f"no mounting here, so not tested on a truly full filesystem: {mount.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_truly_full_filesystem(small):
    url = f"sqlite:///{small}/agent.db"
    with opened(url) as store:
        stream = store.write(begin, "a")
        ballast = fill(small, leave=400_000)
        jobs = [(append, stream, f"{number}:{os.urandom(4000).hex()}") for number in range(200)]
        acked = acknowledged(store, jobs)
        assert len(acked) < 200
        with pytest.raises((Full, Unavailable)):
            store.write(append, stream, os.urandom(100_000).hex())
        assert store.contents(stream) == acked
        ballast.unlink()
        store.write(append, stream, "after")
    assert everything(url) == Counter([*acked, "after"])


def fill(place: Path, leave: int) -> Path:
    ballast = place / "ballast"
    free = os.statvfs(place)
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize - leave)
    return ballast


# -- failing syncs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failures", [1, 2, 3, 1000])
@pytest.mark.parametrize("readers", [False, True])
def test_a_failing_sync_is_never_acknowledged(url, faulty, failures, readers):
    with opened(url) as store:
        stream = store.write(begin, "a")
        if readers:
            store.read(count_turns, stream)  # leaves a connection open, so that the WAL outlives the writer's
        faulty.fail_syncs = failures
        acked, failed = [], 0
        for number in range(10):
            synced = faulty.syncs - 0
            try:
                store.write(append, stream, number)
                acked.append(number)
                assert faulty.syncs > synced
            except Unavailable:
                failed += 1
        assert failed == 10 if failures == 1000 else len(acked) >= 8
        faulty.heal()
        store.write(append, stream, "after")
    stored = everything(url)
    assert set(stored.values()) == {1}
    assert set(acked) <= set(stored)
    assert "after" in stored


def test_one_sync_for_each_commit_of_one_writer(url, faulty):
    with opened(url) as store:
        stream = store.write(begin, "a")
        faulty.heal()
        for number in range(100):
            store.write(append, stream, number)
        assert faulty.syncs <= 105


def test_control_without_syncs_nothing_notices_the_disk(url, faulty):
    with opened(url) as store:
        stream = store.write(begin, "a")
        store.core.lane._connection.raw.pragma("synchronous", 0)
        faulty.heal()
        faulty.fail_syncs = 1000
        store.write(append, stream, "x")  # acknowledged, though no sync could have succeeded
        assert faulty.syncs == 0


# -- files that are not what they should be -----------------------------------------------------------------


def test_a_file_that_is_no_database(path, url):
    path.write_bytes(b"Dear diary, " * 1000)
    with pytest.raises(Damaged) as caught:
        open_core(url)
    assert caught.value.message == f"{path}: this is not an SQLite database"
    assert caught.value.path == "store"
    assert "name another file" in caught.value.hint
    assert path.read_bytes().startswith(b"Dear diary")


def test_a_directory_is_no_database(path, url):
    path.mkdir()
    for read_only in (False, True):
        with pytest.raises(Invalid, match="is a folder") as caught:
            open_core(url, read_only=read_only)
        assert caught.value.path == "store"


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(NotFound, match=r"there is no folder .*/nowhere") as caught:
        open_core(f"sqlite:///{tmp_path}/nowhere/agent.db")
    assert caught.value.path == "store"


def test_a_corrupted_page_is_named(path, url):
    with opened(url) as store:
        stream = store.write(begin, "a")
        for number in range(300):
            store.write(append, stream, f"{number}" * 200)
    data = bytearray(path.read_bytes())
    for page in range(4096, len(data), 4096):
        data[page : page + 64] = os.urandom(64)
    path.write_bytes(data)
    with pytest.raises(Damaged) as caught:
        with opened(url) as store:
            store.contents(stream)
    assert str(path) in str(caught.value)
    assert caught.value.path == "store"
    assert "perdure restore BACKUP --store URL" in caught.value.hint


@pytest.mark.parametrize("place", [20, 100, 5000])
def test_a_truncated_file_is_never_taken_for_a_good_one(path, url, place):
    with opened(url) as store:
        stream = store.write(begin, "a")
        store.write(append, stream, "x")
    os.truncate(path, place)
    with pytest.raises(Damaged):
        with opened(url) as store:
            store.write(append, stream, "y")


@pytest.fixture
def read_only_folder(tmp_path) -> Iterator[Path]:
    """Mounted read-only when root, whom modes do not stop; else without write permission."""
    folder = tmp_path / "fixed"
    folder.mkdir()
    with opened(f"sqlite:///{folder}/agent.db") as store:
        stream = store.write(begin, "a")
        store.write(append, stream, "x")
    with made_read_only(folder):
        yield folder


def test_a_read_only_folder_refuses_writing(read_only_folder):
    with pytest.raises((ReadOnly, Refused)) as caught:
        with opened(f"sqlite:///{read_only_folder}/agent.db") as store:
            store.write(begin, "b")
    assert "agent.db" in str(caught.value)


def test_a_read_only_folder_refuses_a_new_file(read_only_folder):
    with pytest.raises((ReadOnly, Refused)) as caught:
        open_core(f"sqlite:///{read_only_folder}/new.db")
    assert caught.value.path == "store"


def test_a_store_opened_for_reading_only(url):
    with opened(url) as store:
        stream = store.write(begin, "a")
        store.write(append, stream, "x")
    with opened(url, read_only=True) as store:
        assert store.contents(stream) == ["x"]
        with pytest.raises(ReadOnly) as caught:
            store.write(append, stream, "y")
        assert caught.value.path == "store"


def test_a_store_that_somebody_else_is_changing_is_waited_for_no_longer_than_asked(url, path, monkeypatch):
    with opened(url) as store:
        store.write(begin, "a")
    waits = []
    configured = sqlite.configured

    def noted(raw: apsw.Connection, **settings: Any) -> apsw.Connection:
        waits.append(settings["busy_wait_ms"])
        return configured(raw, **settings)

    monkeypatch.setattr(sqlite, "configured", noted)
    other = apsw.Connection(str(path))
    other.pragma("journal_mode", "delete")
    other.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(TimedOut) as caught:
            open_core(url, timeout_seconds=0.2)
    finally:
        other.close()
    assert caught.value.path == "store"
    assert set(waits) == {200}


def test_a_broken_unique_key_is_a_conflict(url):
    with opened(url) as store:
        stream = store.write(begin, "a")
        store.write(append, stream, "x", "key")
        with pytest.raises(Conflict):
            store.write(append, stream, "y", "key")


def test_a_closed_store_says_so(url):
    with opened(url) as store:
        stream = store.write(begin, "a")
    for call in (lambda: store.read(count_turns, stream), lambda: store.write(append, stream, "x")):
        with pytest.raises(Refused, match="closed") as caught:
            call()
        assert caught.value.path == "store"


# -- where nothing can be written -----------------------------------------------------------------------------


def test_a_store_on_a_read_only_medium_is_read(read_only_folder):
    url = f"sqlite:///{read_only_folder}/agent.db"
    with perdure.open(url, read_only=True) as store:
        assert [session.name for session in store.sessions()] == ["a"]
        assert store.verify().ok
        with pytest.raises(ReadOnly) as caught:
            store.session("a").say("user", "y")
        assert caught.value.path == "store"


def test_writing_to_a_read_only_medium_is_told_how_to_read(read_only_folder):
    with pytest.raises(ReadOnly) as caught:
        perdure.open(f"sqlite:///{read_only_folder}/agent.db")
    assert caught.value.path == "store"
    assert "read_only=True" in caught.value.hint


@contextlib.contextmanager
def made_read_only(folder: Path) -> Iterator[None]:
    """Mounted read-only when root, whom modes do not stop; else without write permission."""
    if os.geteuid():
        modes = {path: path.stat().st_mode for path in (*folder.iterdir(), folder)}
        for path in modes:
            path.chmod(0o555 if path == folder else 0o444)
        try:
            yield
        finally:
            for path in reversed(modes):
                path.chmod(modes[path])
        return
    steps = (["mount", "--bind", str(folder), str(folder)], ["mount", "-o", "remount,bind,ro", str(folder)])
    for step in steps:
        done = subprocess.run(step, capture_output=True, check=False)
        if done.returncode:
            pytest.skip(f"no mounting here, so not tested on a read-only folder: {done.stderr.decode().strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextlib.contextmanager
def copied_in_use(url: str, path: Path, folder: Path, *suffixes: str) -> Iterator[tuple[str, Any]]:
    """A copy of a store whose last turn is only in its WAL, where nothing can be written; the stream comes along."""
    folder.mkdir()
    with opened(url) as store:
        stream = store.write(begin, "a")
        store.core.lane._connection.raw.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        store.write(append, stream, "only in the WAL")
        for suffix in ("", *suffixes):
            shutil.copy(f"{path}{suffix}", folder / f"agent.db{suffix}")
    with made_read_only(folder):
        yield f"sqlite:///{folder}/agent.db", stream


def test_a_wal_on_a_read_only_medium_is_read(url, path, tmp_path):
    with copied_in_use(url, path, tmp_path / "fixed", "-wal", "-shm") as (copy, stream):
        with opened(copy, read_only=True) as store:
            assert store.contents(stream) == ["only in the WAL"]


def test_a_wal_that_cannot_be_read_there_is_said_the_way_out(url, path, tmp_path):
    with copied_in_use(url, path, tmp_path / "fixed", "-wal") as (copy, _):
        with pytest.raises(ReadOnly) as caught:
            open_core(copy, read_only=True)
    assert caught.value.path == "store"
    assert "copy the file, with its -wal, to a writable folder" in caught.value.hint


def test_control_a_wal_that_is_ignored_loses_what_is_in_it(url, path, tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "_is_still", lambda _: True)
    with copied_in_use(url, path, tmp_path / "fixed", "-wal") as (copy, stream):
        with opened(copy, read_only=True) as store:
            assert store.contents(stream) == []


def test_a_folder_that_can_be_written_is_never_taken_for_a_still_one(url, path):
    with opened(url) as store:
        stream = store.write(begin, "a")
    with opened(url, read_only=True) as reader, opened(url) as writer:
        assert reader.contents(stream) == []
        writer.write(append, stream, "x")
        assert reader.contents(stream) == ["x"]


# -- new stores -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leave", [0, 4096, 40_960, 200_000])
def test_a_new_store_on_a_full_disk_leaves_nothing_behind(small, leave):
    ballast = fill(small, leave=leave)
    with pytest.raises(Full) as caught:
        open_core(f"sqlite:///{small}/agent.db")
    assert caught.value.path == "store"
    assert "free some space" in caught.value.hint
    assert [*small.iterdir()] == [ballast]
    ballast.unlink()
    with opened(f"sqlite:///{small}/agent.db") as store:
        store.write(begin, "a")


def test_an_artifact_place_that_is_none_leaves_no_store_behind(url, path):
    with pytest.raises(Invalid):
        open_core(url, artifacts="ftp://x")
    assert [*path.parent.iterdir()] == []


def test_what_a_killed_maker_left_behind_goes_with_the_next_one(url, path):
    left = path.with_name(".agent.db.unfinished")
    left.mkdir()
    (left / "agent.db").write_bytes(b"half")
    with opened(url) as store:
        store.write(begin, "a")
    assert {file.name for file in path.parent.iterdir()} == {"agent.db", "agent.db.live"}


@pytest.mark.parametrize("size", [100, 200_000])
@pytest.mark.parametrize("damage", ["missing", "altered"])
def test_a_damaged_blob_is_named_alike_however_it_is_damaged(url, path, size, damage):
    with perdure.open(url) as store:
        artifact = store.session("a").attach("x.bin", os.urandom(size))
    if size > 100_000:
        (file,) = path.parent.rglob(artifact.hash)
        file.unlink() if damage == "missing" else file.write_bytes(file.read_bytes()[:-1] + b"?")
    else:
        change = "DELETE FROM blobs" if damage == "missing" else "UPDATE blobs SET data = zeroblob(size), codec = 0"
        Intruder(url).run(change)
    with perdure.open(url) as store:
        with pytest.raises(Damaged) as caught:
            store.session("a").artifact("x.bin").read()
    assert caught.value.path == f"blob:{artifact.hash}"
    assert "backup" in caught.value.hint


def test_a_read_only_store_collects_nothing(url, path):
    content = os.urandom(200_000)
    with perdure.open(url) as store:
        store.session("a").attach("x.bin", content)
        place = store._caller.core.blobs
        place.place.put(place.partition(store._caller.tenant), [b"nobody refers to this" * 10_000])
    files = {file for file in path.parent.rglob("*") if file.is_file()}
    for file in files:
        os.utime(file, (0, 0))
    with perdure.open(url, read_only=True) as store:
        assert store.session("a").artifact("x.bin").read() == content
        with pytest.raises(ReadOnly) as caught:
            store.collect(dry_run=False)
        assert caught.value.path == "store"
        with pytest.raises(ReadOnly):
            store.session("a").attach("y.bin", iter([os.urandom(100_000)]))
    assert files <= {file for file in path.parent.rglob("*") if file.is_file()}


def test_a_connection_that_was_lost_is_replaced(url):
    """After a rollback that failed the connection is closed: the next call opens another one."""
    with opened(url) as store:
        stream = store.write(begin, "a")
        store.core.lane._connection.close()
        assert store.write(append, stream, "x") == 2


def plans_made(raw):
    """How often a statement is planned while only its values change, in a database that was analysed."""
    raw.execute("CREATE TABLE t (a, b); CREATE INDEX t_by_a ON t (a)")
    raw.executemany("INSERT INTO t VALUES (?, ?)", [(number % 7, number) for number in range(500)])
    raw.execute("ANALYZE")
    seen = []
    raw.authorizer = lambda action, *_: seen.append(action) or apsw.SQLITE_OK
    for number in range(5):
        assert raw.execute("SELECT count(b) FROM t WHERE a = ?", (number,)).get > 70
    return seen.count(apsw.SQLITE_SELECT)


def test_other_values_do_not_mean_another_plan():
    assert plans_made(sqlite.configured(apsw.Connection(":memory:"))) == 1
    control = sqlite.configured(apsw.Connection(":memory:"))
    control.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 0)
    assert plans_made(control) >= 5

"""Findings: each check says what is wrong when it is, and lets pass what is well. Looking changes nothing."""

from __future__ import annotations

import hashlib
from pathlib import Path

import apsw
import pytest

import perdure
from perdure.stores import mounts
from perdure.stores.store import Fault, FaultKind, History
from perdure.upkeep import health
from perdure.upkeep.health import Severity
from perdure_files.store.layout import Layout

MOUNTS = """/dev/sda1 / ext4 rw 0 0
tmpfs /tmp tmpfs rw 0 0
server:/x /mnt/share nfs4 rw 0 0
//server/x /mnt/win cifs rw 0 0
me@host: /mnt/ssh fuse.sshfs rw 0 0
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        store.session("s").say("user", "x")
    return tmp_path / "a.db"


def found(path: Path) -> dict[str, health.Finding]:
    return {finding.check: finding for finding in health.examine(f"sqlite:///{path}").findings}


def wrong(path: Path) -> set[str]:
    return {check for check, finding in found(path).items() if finding.severity is Severity.ERROR}


def damaged(path: Path, *statements: str) -> None:
    connection = apsw.Connection(str(path))
    for statement in statements:
        list(connection.execute(statement))
    connection.close()


def test_control_a_sound_store(path) -> None:
    assert wrong(path) == set()
    assert health.examine(f"sqlite:///{path}").sound


def test_looking_changes_nothing(path) -> None:
    before = hashlib.sha256(path.read_bytes()).digest()
    health.examine(f"sqlite:///{path}")
    assert hashlib.sha256(path.read_bytes()).digest() == before


def test_memory_and_postgres_can_be_examined(private_postgres, postgres_store) -> None:
    url = private_postgres.url(schema="perdure")
    for store_url in (url, postgres_store):
        with perdure.open(store_url) as store:
            store.session("s").say("user", "x")
    health_of_server = health.examine(url)
    assert health_of_server.sound
    assert not health.examine(postgres_store).sound  # the control: the server that tests share does not sync
    assert {"server", "guards", "heads", "contents"} <= {finding.check for finding in health_of_server.findings}
    assert not any(finding.severity is Severity.ERROR for finding in health.examine("memory:").findings)


@pytest.mark.parametrize("trigger", ["events_keep", "events_fixed"])
def test_a_missing_guard(path, trigger) -> None:
    damaged(path, f"DROP TRIGGER {trigger}")
    assert wrong(path) == {"guards"}


def test_a_head_that_is_not_the_last_event(path) -> None:
    damaged(path, "UPDATE streams SET seq = seq + 1 WHERE kind = 'session'")
    assert wrong(path) == {"heads"}
    assert "'s'" in found(path)["heads"].says


def test_events_beyond_the_head(path) -> None:
    first = "(SELECT e.hash FROM events e WHERE e.stream = streams.id AND e.seq = 1)"
    damaged(path, f"UPDATE streams SET seq = 1, hash = {first} WHERE kind = 'session'")
    assert wrong(path) == {"heads"}


def test_a_newer_and_an_unknown_schema(path) -> None:
    damaged(path, "UPDATE meta SET value = '999' WHERE name = 'schema'")
    assert wrong(path) == {"schema"}
    damaged(path, "UPDATE meta SET value = 'x' WHERE name = 'schema'")
    assert wrong(path) == {"open"}


def test_somebody_elses_database(tmp_path) -> None:
    damaged(tmp_path / "b.db", "CREATE TABLE theirs (x)")
    assert wrong(tmp_path / "b.db") == {"open"}


def test_an_empty_file_wants_to_be_migrated(tmp_path) -> None:
    (tmp_path / "b.db").touch()
    assert found(tmp_path / "b.db")["schema"].fix == f"perdure migrate --store sqlite:///{tmp_path}/b.db"


def test_a_torn_page(path) -> None:
    pages = bytearray(path.read_bytes())
    middle = len(pages) // 2 // 4096 * 4096
    pages[middle : middle + 4096] = b"\xff" * 4096
    path.write_bytes(pages)
    assert wrong(path)


def test_a_check_that_fails_does_not_keep_the_others_from_looking(path, monkeypatch) -> None:
    def broken(kind: FaultKind):
        def check(*_):
            yield health.ok("structure", "so far")
            raise Fault(kind, "malformed")

        return check

    monkeypatch.setitem(health.CHECKS, "structure", broken(FaultKind.DAMAGED))
    assert wrong(path) == {"structure"}
    assert {"guards", "heads", "contents"} <= found(path).keys()
    monkeypatch.setitem(health.CHECKS, "structure", broken(FaultKind.LOST))
    assert "guards" not in found(path)  # there is nobody left to ask


@pytest.mark.parametrize("table", ["events", "streams", "blobs", "turns", "tenants"])
def test_a_torn_page_of_any_table_is_a_finding(path, table) -> None:
    connection = apsw.Connection(str(path))
    root = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).get
    connection.close()
    pages = bytearray(path.read_bytes())
    pages[(root - 1) * 4096 : root * 4096] = b"\xff" * 4096
    path.write_bytes(pages)
    assert "structure" in wrong(path)
    assert found(path)["guards"].severity is Severity.OK


@pytest.mark.parametrize(("more", "severity"), [(b"half a line", Severity.ERROR), (b"\r", Severity.WARNING)])
def test_a_log_that_lost_something_is_wrong_and_one_with_a_blank_line_is_not(tmp_path, more, severity) -> None:
    url = f"files:///{tmp_path}/store"
    with perdure.open(url) as store:
        store.session("a")
    log = tmp_path / "store" / "log" / "000001.jsonl"
    log.write_bytes(log.read_bytes() + more + b"\n")
    health_of = health.examine(url)
    assert [each.severity for each in health_of.findings if each.check == "log"] == [severity]
    assert health_of.sound is (severity is not Severity.ERROR)


def test_an_empty_folder_is_no_store_yet_and_that_is_all_that_is_wrong_with_it(tmp_path) -> None:
    found = health.examine(f"files:///{tmp_path}")
    [wrong] = [each for each in found.findings if each.severity != "ok"]
    assert (wrong.check, wrong.says) == ("log", f"there is no store yet at files:///{tmp_path}")
    assert [*tmp_path.iterdir()] == []


def test_a_files_store_of_a_newer_perdure_is_wrong_and_not_read(tmp_path) -> None:
    url = f"files:///{tmp_path}/store"
    with perdure.open(url) as store:
        store.session("a")
    assert health.examine(url).sound
    damaged(Layout(tmp_path / "store").cache, "UPDATE meta SET value = '999' WHERE name = 'schema'")
    fixes = {each.check: each.fix for each in health.examine(url).findings if each.severity is Severity.ERROR}
    assert fixes["schema"] == "pip install --upgrade perdure"
    for read_only in (True, False):
        with pytest.raises(perdure.errors.NewerSchema):
            perdure.open(url, read_only=read_only)


@pytest.mark.parametrize(("synchronous", "sound"), [(0, False), (1, False), (2, True), (3, True)])
def test_commits_that_are_not_synced_are_wrong(path, monkeypatch, synchronous, sound) -> None:
    real = health._pragma

    def pragma(connection, name, *value):
        return synchronous if name == "synchronous" else real(connection, name, *value)

    monkeypatch.setattr(health, "_pragma", pragma)
    assert ("synchronous" not in wrong(path)) is sound


def test_others_may_read_the_file(path) -> None:
    assert "mode" not in found(path)
    path.chmod(0o644)
    assert found(path)["mode"].fix == f"chmod 600 {path}"


@pytest.mark.parametrize(
    ("version", "fixed"),
    [
        ("3.51.3", True),
        ("3.54.1", True),
        ("4.0.0", True),
        ("3.50.7", True),
        ("3.44.6", True),
        ("3.51.2", False),
        ("3.50.6", False),
        ("3.49.9", False),
        ("3.44.5", False),
        ("3.40.1", False),
    ],
)
def test_the_wal_reset_fix(version, fixed) -> None:
    assert (health.library(version).severity is Severity.OK) == fixed


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/srv/a.db", "ext4"),
        ("/tmp/a.db", "tmpfs"),
        ("/tmpx/a.db", "ext4"),
        ("/mnt/share/d/a.db", "nfs4"),
        ("/mnt/win/a.db", "cifs"),
        ("/mnt/ssh/a.db", "fuse.sshfs"),
    ],
)
def test_network_file_systems(path, kind) -> None:
    assert mounts.filesystem_of(Path(path), MOUNTS) == kind
    local = kind in ("ext4", "tmpfs")
    assert (health.network(Path(path), MOUNTS).severity is Severity.OK) == local


def test_an_unknown_file_system_is_not_accused() -> None:
    assert health.network(Path("/a.db"), "").severity is Severity.OK


@pytest.mark.parametrize(
    ("free", "severity"),
    [(10**12, Severity.OK), (100 * health.MIB, Severity.WARNING), (health.MIB, Severity.ERROR)],
)
def test_room_on_the_disk(free, severity) -> None:
    assert health.space(Path("a.db"), free).severity is severity


GOOD = ("180000", "18.0", "off", "on", "on", "on", "on", 0, 1, "100")


@pytest.mark.parametrize(
    ("place", "value", "check", "severity"),
    [
        (0, "140000", "server", Severity.WARNING),
        (2, "on", "role", Severity.WARNING),
        (3, "off", "fsync", Severity.ERROR),
        (4, "off", "fsync", Severity.ERROR),
        (6, "off", "checksums", Severity.WARNING),
        (7, 1, "replica", Severity.ERROR),
    ],
)
def test_settings_of_a_server(place, value, check, severity) -> None:
    assert [finding.severity for finding in health.server(GOOD)] == [Severity.OK]
    row = (*GOOD[:place], value, *GOOD[place + 1 :])
    assert (check, severity) in {(finding.check, finding.severity) for finding in health.server(row)}


@pytest.mark.parametrize(
    ("history", "severity", "word"),
    [
        (History("7", 2, synchronous=True), Severity.OK, "time line 2; commits wait for a standby"),
        (History("7", 2), Severity.OK, "may lose"),
        (History("7", None, recovers=True), Severity.OK, "standby"),
        (History(None, None), Severity.WARNING, "does not say its time line"),
    ],
)
def test_the_history_of_a_server(history, severity, word) -> None:
    found = health.history(history)
    assert found.severity is severity
    assert word in found.says


def test_whether_data_that_is_put_back_would_be_noticed(tmp_path: Path) -> None:
    assert health.mark(None).severity is Severity.WARNING
    assert health.mark(tmp_path).severity is Severity.WARNING
    (tmp_path / "tide").touch()
    assert health.mark(tmp_path).severity is Severity.OK

"""Advice: what to do depends on what is wrong, and names the store but never its password."""

from __future__ import annotations

import pytest

from perdure import errors
from perdure.stores import url
from perdure.stores.store import FaultKind
from perdure.upkeep import health, remedies
from perdure.upkeep.remedies import Remedy

SERVER = Remedy(url.parse("postgresql://me:secret@db.example:5433/agents?schema=team"))


def file_advice(tmp_path) -> Remedy:
    return Remedy(url.parse(f"sqlite:///{tmp_path}/a.db"))


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (FaultKind.LOST, "start the server, or check host and port"),
        (FaultKind.REFUSED, "check user, password, database"),
        (FaultKind.DAMAGED, "rename the schema, then perdure restore BACKUP --store"),
    ],
)
def test_a_server(kind, says) -> None:
    fix = SERVER.about(kind)
    assert fix.startswith(says)
    assert "db.example:5433" in fix
    assert "secret" not in fix


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (FaultKind.READ_ONLY, "mount the disk for writing, or copy"),
        (FaultKind.FULL, "make room"),
        (FaultKind.BUSY, "another program"),
        (FaultKind.IO, "look after the disk"),
        (FaultKind.DAMAGED, "move the file away, then perdure restore BACKUP --store sqlite:///"),
        (FaultKind.REFUSED, "chmod u+rw "),
    ],
)
def test_a_file(tmp_path, kind, says) -> None:
    assert file_advice(tmp_path).about(kind).startswith(says)


def test_every_kind_of_fault_has_its_own_way_out(tmp_path) -> None:
    for found in (SERVER, file_advice(tmp_path)):
        assert all(found.about(kind) for kind in FaultKind)


def test_what_keeps_a_file_from_being_opened(tmp_path, monkeypatch) -> None:
    path = tmp_path / "a.db"
    assert remedies.way_in(path, read_only_disk=True) == remedies.REMOUNT
    assert remedies.way_in(tmp_path, read_only_disk=False) == "name a file: this is a folder"
    assert remedies.way_in(path, read_only_disk=False) == f"chmod u+rw {path}"
    monkeypatch.setattr(remedies.os, "access", lambda *_: False)
    assert remedies.way_in(path, read_only_disk=False) == f"chmod u+rwx {tmp_path}"


def test_a_disk_that_can_only_be_read(tmp_path, monkeypatch) -> None:
    assert not remedies.is_read_only(tmp_path / "a.db")
    assert not remedies.is_read_only(tmp_path / "no" / "such" / "a.db")
    flags = type("Flags", (), {"f_flag": remedies.os.ST_RDONLY})
    monkeypatch.setattr(remedies.os, "statvfs", lambda _: flags)
    assert file_advice(tmp_path).about(FaultKind.REFUSED) == remedies.REMOUNT


def test_an_error_that_knows_better_is_believed(tmp_path) -> None:
    found = file_advice(tmp_path)
    assert found.about_error(errors.Refused("no", hint="do this")) == "do this"
    assert found.about_error(errors.Damaged("no")) == found.restore
    assert found.about_error(errors.ReadOnly("no")) == remedies.REMOUNT
    assert SERVER.about_error(errors.Unavailable("no")).startswith("start the server")


def test_names_are_quoted_for_the_shell() -> None:
    assert (
        Remedy(url.parse("sqlite:///my agent.db")).command("verify") == "perdure verify --store 'sqlite:///my agent.db'"
    )


# -- as doctor says it ---------------------------------------------------------------------------------------


def opened(store_url: str) -> health.Finding:
    (found,) = [finding for finding in health.examine(store_url).findings if finding.check == "open"]
    assert found.severity is health.Severity.ERROR
    return found


def test_no_server() -> None:
    found = opened("postgresql://me:secret@127.0.0.1:1/db")
    assert found.fix == "start the server, or correct host and port (tried 127.0.0.1, port 1)"
    assert "secret" not in found.says


@pytest.mark.parametrize("content", [b"x", b"not a database" * 500])
def test_no_database(tmp_path, content) -> None:
    (tmp_path / "a.db").write_bytes(content)
    expected = f"move the file away, then perdure restore BACKUP --store sqlite:///{tmp_path}/a.db"
    assert opened(f"sqlite:///{tmp_path}/a.db").fix == expected


def test_a_folder(tmp_path) -> None:
    assert opened(f"sqlite:///{tmp_path}").fix.startswith("name a file")


def test_a_folder_that_may_not_be_entered(tmp_path, monkeypatch) -> None:
    def refuse(*_args, **_options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(health, "_beside", refuse)
    found = health.examine(f"sqlite:///{tmp_path}/a.db").findings
    assert [(finding.check, finding.severity) for finding in found][1] == ("file", health.Severity.ERROR)

"""write_file: whole or not at all, found by its content, and never through a link."""

from __future__ import annotations

import hashlib
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import Damaged, Failed, InDoubt, Invalid, Unavailable
from perdure.model import crash_points
from perdure.model.records.effects import Absent, Happened, ToolKind, Unknown
from perdure_agents.ready.files import POINTS, write_file


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def probe(path: object, content: str, **rest: Any) -> Any:
    return write_file.call(write_file.probe, {"path": str(path), "content": content, **rest}, key="k")


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_its_declaration() -> None:
    assert (write_file.kind, write_file.rule.lands_within, write_file.undo) == (ToolKind.PROBED, 0, None)


def test_it_writes_and_replaces_and_keeps_the_mode(tmp_path: Path) -> None:
    path = tmp_path / "a.sh"
    assert write_file(str(path), "one") == {"path": str(path), "sha256": sha256("one"), "bytes": 3}
    fresh = stat.S_IMODE(path.stat().st_mode)
    path.chmod(0o751)
    write_file(str(path), b"two")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("two", 0o751)
    assert fresh == 0o666 & ~current_umask()  # the control: not every file has that mode
    assert names(tmp_path) == ["a.sh"]


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_the_probe_in_all_its_answers(tmp_path: Path) -> None:
    path = tmp_path / "a"
    assert isinstance(probe(path, "new"), Absent)  # no file
    path.write_text("old")
    assert isinstance(probe(path, "new"), Absent)  # other content
    assert isinstance(probe(path, "new", expect=sha256("old")), Absent)
    assert isinstance(probe(path, "new", expect=sha256("older")), Unknown)  # somebody else's
    assert isinstance(probe(path, "new", expect=""), Unknown)
    path.write_text("new")
    assert probe(path, "new") == Happened({"path": str(path), "sha256": sha256("new"), "bytes": 3})
    assert isinstance(probe(path, "new", expect=sha256("old")), Happened)


def test_where_the_place_is_missing_the_probe_does_not_know(tmp_path: Path) -> None:
    assert isinstance(probe(tmp_path / "gone" / "a", "x"), Unknown)
    assert isinstance(probe("b/a", "x", root=str(tmp_path / "gone")), Unknown)
    assert isinstance(probe("b/a", "x", root=str(tmp_path)), Absent)  # the control: the root is there, b would be made
    (tmp_path / "dir").mkdir()
    assert isinstance(probe(tmp_path / "dir", "x"), Unknown)


def test_expect_refuses_what_somebody_else_wrote(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_file(str(path), "one", expect="")
    write_file(str(path), "two", expect=sha256("one"))
    write_file(str(path), "two", expect=sha256("one"))  # its own content: as good as done
    path.write_text("theirs")
    with pytest.raises(Failed, match=sha256("theirs")) as refused:
        write_file(str(path), "three", expect=sha256("two"))
    assert refused.value.code == "Changed"
    assert (path.read_text(), names(tmp_path)) == ("theirs", ["a"])
    write_file(str(path), "three")  # the control: without it, it is overwritten
    assert path.read_text() == "three"


def test_below_a_root_no_link_is_followed(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "way").symlink_to(outside)
    (root / "file").symlink_to(outside / "file")
    for path in ("way/a", "way/b/a", "file"):
        with pytest.raises(Failed):
            write_file(path, "x", root=str(root))
        assert isinstance(probe(path, "x", root=str(root)), Unknown)
    assert names(outside) == []
    write_file("real/deep/a", "x", root=str(root))  # the control: folders that are none are made
    assert (root / "real" / "deep" / "a").read_text() == "x"


def test_without_a_root_the_file_itself_is_no_link(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("safe")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(Failed, match="symbolic link"):
        write_file(str(tmp_path / "link"), "x")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Failed, match="no regular file"):
        write_file(str(tmp_path / "pipe"), "x")
    assert (tmp_path / "target").read_text() == "safe"
    assert names(tmp_path) == ["link", "pipe", "target"]


@pytest.mark.parametrize(
    ("path", "root", "where"),
    [
        ("a", None, "path"), ("-a", "/tmp", "path"), ("/x/../a", None, "path"), ("../a", "/tmp", "path"),
        ("/a", "/tmp", "path"), ("a\nb", "/tmp", "path"), ("", "/tmp", "path"), ("/tmp/x/", None, "path"), ("a", "tmp", "root"),
        ("a/", "/tmp", "path"), ("/tmp/a\0", None, "path"), (7, None, "path"),
    ],
)  # fmt: skip
def test_hostile_paths_are_refused(path: Any, root: str | None, where: str) -> None:
    with pytest.raises(Invalid) as refused:
        write_file(path, "x", root=root)
    assert refused.value.path == where


@pytest.mark.parametrize("content", [7, None, "\ud800"])
def test_content_that_is_none_is_refused(tmp_path: Path, content: Any) -> None:
    with pytest.raises(Invalid, match="content"):
        write_file(str(tmp_path / "a"), content)


def test_a_missing_folder_is_a_clear_no(tmp_path: Path) -> None:
    with pytest.raises(write_file.fails, match="no such folder"):
        write_file(str(tmp_path / "gone" / "a"), "x")


def failing_sync(fail_at: int) -> Any:
    real, calls = os.fsync, []

    def fsync(fd: int) -> None:
        calls.append(fd)
        if len(calls) == fail_at:
            raise OSError(5, "Input/output error")
        real(fd)

    return fsync


def test_before_the_rename_it_is_a_no_and_after_it_doubt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", failing_sync(1))  # of the temporary file
    with pytest.raises(Unavailable):
        write_file(str(path), "new")
    assert (path.read_text(), names(tmp_path)) == ("old", ["a"])
    monkeypatch.setattr(os, "fsync", failing_sync(2))  # of the folder
    with pytest.raises(InDoubt):
        write_file(str(path), "new")
    monkeypatch.setattr(os, "fsync", failing_sync(2))
    assert isinstance(probe(path, "new"), Unknown)  # it is there, but cannot be made durable
    monkeypatch.undo()
    assert isinstance(probe(path, "new"), Happened)


def test_a_full_disk_is_no_failure_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Unavailable):
        write_file(str(tmp_path / "a"), "x")


WRITER = "import sys; from perdure_agents.ready.files import write_file; write_file(sys.argv[1], 'new')"
HAPPENED = {"file.after_rename", "file.after_sync"}


@pytest.mark.parametrize("point", POINTS)
def test_killed_anywhere_it_is_old_or_new_and_the_probe_says_which(tmp_path: Path, point: str) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    killed = subprocess.run(
        [sys.executable, "-c", WRITER, path], env={**os.environ, "PERDURE_CRASH_AT": point}, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert path.read_text() == ("new" if point in HAPPENED else "old")
    left = [each for each in names(tmp_path) if each != "a"]
    assert len(left) == (point == "file.before_rename")
    assert isinstance(probe(path, "new"), Happened if point in HAPPENED else Absent)
    assert names(tmp_path) == ["a"]


def test_the_probe_leaves_what_others_are_writing(tmp_path: Path) -> None:
    """Only what can be locked was left by the dead; and a name of ours that is a folder or a link is none of ours."""
    foreign = tmp_path / f".perdure-{'0' * 32}"
    foreign.mkdir()
    (tmp_path / f".perdure-{'1' * 32}").symlink_to("nowhere")
    during: list[list[str]] = []

    def look() -> None:
        assert isinstance(probe(tmp_path / "b", "x"), (Absent, Unknown))
        during.append(names(tmp_path))

    disarm = crash_points.arm("file.before_rename", look)
    write_file(str(tmp_path / "a"), "new")
    disarm()
    assert len(during[0]) == 3
    assert names(tmp_path) == [foreign.name, f".perdure-{'1' * 32}", "a"]


def test_every_point_is_reached(tmp_path: Path) -> None:
    """The control of the sweep: a point that is never reached would prove nothing."""
    reached: list[str] = []
    disarm = [crash_points.arm(name, lambda name=name: reached.append(name)) for name in POINTS]
    write_file(str(tmp_path / "a"), "x")
    for each in disarm:
        each()
    assert tuple(reached) == POINTS


def test_control_a_write_in_place_is_torn() -> None:
    """What the rename is for: the same kill between truncation and writing leaves neither the old nor the new."""
    script = "import os, sys, signal; f = open(sys.argv[1], 'w'); os.kill(os.getpid(), signal.SIGKILL); f.write('new')"
    path = Path(os.path.realpath(os.environ.get("TMPDIR", "/tmp"))) / f"torn-{os.getpid()}"
    path.write_text("old")
    try:
        subprocess.run([sys.executable, "-c", script, path], check=False)
        assert path.read_text() == ""
        assert isinstance(probe(path, "new", expect=sha256("old")), Unknown)
    finally:
        path.unlink()


def test_damaged_is_never_raised_by_the_call(tmp_path: Path) -> None:
    """Errors of the file system come out in the three words that the ledger knows."""
    (tmp_path / "file").write_text("")
    with pytest.raises(Failed) as refused:
        write_file("file/a", "x", root=str(tmp_path))
    assert refused.value.code == Damaged.__name__

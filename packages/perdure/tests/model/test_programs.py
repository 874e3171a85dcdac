"""Programs within their bounds: what they read and write, their deadline, and what they leave behind (P10, P15)."""

from __future__ import annotations

import errno
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from perdure.model import programs

MEGABYTE = 1 << 20
ECHO = "import sys; data = sys.stdin.buffer.read(); sys.stdout.buffer.write(data)"
CHILD = "sleep 1000 & echo $! > child; "


@pytest.fixture(params=["the kernel tells of the end", "it has to be looked for"], autouse=True)
def ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "it has to be looked for":
        monkeypatch.delattr(os, "pidfd_open", raising=False)


def run(*argv: str, seconds: float = 60.0, **how: Any) -> programs.ProgramEnd:
    return programs.run(argv, env=os.environ, seconds=seconds, **how)


def python(code: str, **how: Any) -> programs.ProgramEnd:
    return run(sys.executable, "-S", "-c", code, **how)


def goes(pid: int) -> bool:
    """Whether it goes: a signal that was sent need not have arrived."""
    for _ in range(6_000):
        if is_gone(pid):
            return True
        time.sleep(0.01)
    return False


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_input_larger_than_a_pipe_comes_back_whole() -> None:
    data = os.urandom(3 * MEGABYTE)
    end = python(ECHO, stdin=data, most_bytes=4 * MEGABYTE)
    assert (end.status, bytes(end.out) == data, end.timed_out, end.too_much) == (0, True, False, False)


def test_a_program_need_not_read_its_input() -> None:
    end = python("import os; os.close(0); print('done')", stdin=b"x" * MEGABYTE)
    assert (end.status, str(end.out)) == (0, "done\n")


def test_without_input_it_reads_the_end_at_once() -> None:
    assert bytes(python(ECHO).out) == b""


def test_the_beginning_and_the_end_of_much_output_are_kept() -> None:
    end = python(f"import sys; sys.stdout.write('a' * {MEGABYTE} + 'z' * {MEGABYTE})")
    assert end.out.count == 2 * MEGABYTE
    assert len(bytes(end.out)) == programs.FIRST_BYTES + programs.LAST_BYTES
    assert str(end.out).startswith("aaa")
    assert str(end.out).endswith("zzz")


def test_who_writes_without_end_is_killed_and_that_is_no_deadline() -> None:
    end = run("sh", "-c", "while :; do echo yyyyyyyyyyyyyyyy; done", most_bytes=MEGABYTE)
    assert (end.too_much, end.timed_out) == (True, False)
    assert end.out.count <= MEGABYTE + programs.CHUNK_BYTES


def test_at_the_deadline_all_that_it_began_is_killed(tmp_path: Path) -> None:
    end = run("sh", "-c", f"trap '' TERM; {CHILD} wait; wait", seconds=0.5, cwd=str(tmp_path), grace_seconds=0)
    assert (end.timed_out, end.signal, end.status) == (True, 9, -9)
    assert goes(int((tmp_path / "child").read_text()))


def test_it_is_asked_to_end_before_it_is_made_to(tmp_path: Path) -> None:
    end = run("sh", "-c", "trap 'echo asked; exit 3' TERM; sleep 1000 & wait", seconds=0.5, cwd=str(tmp_path))
    assert (end.timed_out, end.status, str(end.out)) == (True, 3, "asked\n")


def test_what_it_leaves_behind_is_killed_when_it_ends(tmp_path: Path) -> None:
    end = run("sh", "-c", f"{CHILD} echo over", cwd=str(tmp_path))
    assert (end.status, str(end.out)) == (0, "over\n")
    assert goes(int((tmp_path / "child").read_text()))


LEAVES = """
import os, time
there, tell = os.pipe()
if os.fork() == 0:
    os.setsid()
    print(os.getpid(), flush=True)
    os.write(tell, b"x")
    time.sleep(1000)
os.read(there, 1)
"""


def test_who_left_the_group_and_holds_the_pipes_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "GRACE_SECONDS", 0.2)
    end = python(LEAVES)
    assert end.status == 0
    assert not is_gone(int(str(end.out)))  # the control
    os.kill(int(str(end.out)), 9)


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_no_descriptor_is_left_open() -> None:
    before = descriptors()
    for _ in range(3):
        python(ECHO, stdin=b"x")
    assert descriptors() == before


@pytest.mark.parametrize("path", ["", ".", "bin", ":bin"])
def test_a_relative_entry_of_path_is_passed_over(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (tmp_path / "bin", tmp_path):
        place.mkdir(exist_ok=True)
        (place / "tool").write_text("#!/bin/sh\necho trapped\n")
        (place / "tool").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError) as missing:
        programs.run(["tool"], env={"PATH": path}, seconds=60, cwd=str(tmp_path))
    assert missing.value.errno == errno.ENOENT
    end = programs.run(["tool"], env={"PATH": f"{path}:{tmp_path}"}, seconds=60)
    assert str(end.out) == "trapped\n"  # the control

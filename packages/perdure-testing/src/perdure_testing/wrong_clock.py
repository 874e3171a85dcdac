"""A process whose clock is wrong: by as many whole seconds as a file says, from the moment on that the file says so.

The evaluation calls it, in a process that it is about to strike. The system's clock cannot be moved for one process alone,
and a patch of Python's modules would miss what compiled code asks. So the three functions of the C library that tell the time of
day are redirected to code that asks the kernel and adds the seconds; what measures durations (CLOCK_MONOTONIC) stays as it is.
Other processes, those that it starts included, and the times of files keep the right time. For Linux on x86-64.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import sys
import tempfile
import time
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from perdure.model import programs

PAGE = mmap.PAGESIZE
ALL = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
SECOND_BYTES = 8
PROBE_SECONDS = 60.0
# The work of each: the system call; if it concerns the time of day, add the word at {seconds} to the seconds; return.
CODES = {
    "clock_gettime": "b8e4000000 0f05 4885c0 7514 85ff 7510 48b9{seconds} 488b09 48010e c3",
    "gettimeofday": "b860000000 0f05 4885ff 7410 48b9{seconds} 488b09 48010f c3",
    "time": "b8c9000000 0f05 48b9{seconds} 480301 4885ff 7403 488907 c3",
}


@cache
def missing() -> str:
    """Why no clock can be moved here; nothing, if it can. Tried in a process of its own."""
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        return "the clock of a process can be moved on Linux on x86-64 only"
    tried = programs.run([sys.executable, "-m", __name__], env=os.environ, seconds=PROBE_SECONDS)
    return "" if tried.exit == 0 else "the clock of a process cannot be moved here"


def move(path: Path, seconds: int) -> None:
    """Processes that follow this file are wrong by so much from now on. Atomic: one word."""
    path.touch()
    with path.open("r+b") as file:
        os.pwrite(file.fileno(), seconds.to_bytes(SECOND_BYTES, "little", signed=True), 0)


def follow(path: Path) -> None:
    """Let this process's clock be wrong by what the file says, until it ends. Called while it has one thread."""
    with path.open("r+b") as file:
        seconds = mmap.mmap(file.fileno(), SECOND_BYTES)
    code = mmap.mmap(-1, PAGE, prot=ALL)
    for memory in (seconds, code):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))  # it stays until the process has ended
    where = _address(seconds).to_bytes(8, "little").hex()
    for name, text in CODES.items():
        begins = _address(code) + code.tell()
        code.write(bytes.fromhex(text.format(seconds=where)))
        _redirect(name, begins)


def _address(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _redirect(name: str, target: int) -> None:
    """Let a function of the C library begin with a jump: mov rax, target; jmp rax."""
    library = ctypes.CDLL(None, use_errno=True)
    address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
    first = address // PAGE * PAGE
    if library.mprotect(ctypes.c_void_p(first), ctypes.c_size_t(2 * PAGE), ALL) != 0:
        raise OSError(ctypes.get_errno(), f"{name} cannot be changed")
    jump = b"\x48\xb8" + target.to_bytes(8, "little") + b"\xff\xe0"
    ctypes.memmove(address, jump, len(jump))


def _try(path: Path) -> None:
    before, ticks = time.time(), time.monotonic()
    move(path, 0)
    follow(path)
    for hour in (1, -1):
        move(path, hour * 3600)
        for now in (time.time(), datetime.now(UTC).timestamp(), time.mktime(time.localtime())):
            if abs(now - before - hour * 3600) > 60:
                raise OSError("the clock was not moved")
    if not 0 <= time.monotonic() - ticks < 60:
        raise OSError("the clock that measures durations was moved")


if __name__ == "__main__":
    with tempfile.NamedTemporaryFile() as _file:
        _try(Path(_file.name))

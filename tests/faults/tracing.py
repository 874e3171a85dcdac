"""A tracer that strikes at single system calls of a process: attached while that is held, before its first own call."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator


@contextlib.contextmanager
def tracer(strace: str, pid: int, *flags: str, output: str = os.devnull) -> Iterator[bool]:
    """Attach one, and wait for its end, which is that of the process. Gives whether it may trace here."""
    command = [strace, "-f", "-o", output, *flags, "-p", str(pid)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as program:
        assert program.stderr is not None
        yield "attached" in program.stderr.readline()
        program.communicate()

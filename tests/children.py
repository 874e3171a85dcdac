"""Children of a program, each a fork that says what it found: for programs that kill them at crash points.

A fork has what its parent has imported. The parent imports the modules of its first child after it, so that no other has to:
in the door for coding agents, seven eighths of a child's time went there. Tests themselves have threads; they take `forked.py`.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any


def child(work: Callable[[], Any]) -> tuple[Any, int]:
    """The output of a process of its own, and how it ended. One that is killed says nothing."""
    read, write = os.pipe()
    had = set(sys.modules)
    pid = os.fork()
    if pid == 0:
        os.close(read)
        found = work()
        os.write(write, json.dumps([found, [name for name in sys.modules if name not in had]]).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(pid, 0)
    found, modules = json.loads(said) if said else (None, [])
    for name in modules:
        with contextlib.suppress(Exception):  # some are made by others, and cannot be asked for by name
            importlib.import_module(name)
    return found, os.waitstatus_to_exitcode(status)

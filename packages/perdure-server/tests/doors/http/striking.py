"""A program: sends a POST to a real server, which is killed at one system call of it, and sends it again to its successor.

Prints one JSON line a case: thread and call, whether the server was killed, its answer, those of its successor, and the kinds of
the store's events with those of a POST that nobody disturbed. argv: a folder; `every` call, `some` or `late` ones; `keyed`, or
`bare` for the control, which sends no key. It forks, so it is a program of its own. A line says if no tracer may be attached.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn
from killing import copied, kinds, prepared

from children import child
from perdure_server.http.app import make_app
from perdure_server.http.serving import Serving

PATH = "/v1/sessions/s/decisions"
BODY = json.dumps({"text": "A", "because": "b"})
PATIENCE_SECONDS = 30
THREADS_MAX = 8
CALL = re.compile(r"^(\w+)\(", re.MULTILINE)
RESUMED = ("restart_syscall",)  # waited in before the tracer came
SOME = 2  # calls of each thread, when it is a sample


class Strike(NamedTuple):
    """The n-th call of one kind in one thread: the tracer counts each kind of call in each thread apart."""

    thread: int
    call: str
    nth: int


def serve(store: Path) -> tuple[int, int]:
    """A server in a process of its own: its pid and port."""
    listening = socket.create_server(("127.0.0.1", 0))
    pid = os.fork()
    if pid == 0:
        app = make_app(Serving(f"sqlite:///{store}"))
        config = uvicorn.Config(app, http="httptools", ws="none", lifespan="on", log_config=None, access_log=False)
        uvicorn.Server(config).run(sockets=[listening])
        os._exit(0)
    port = listening.getsockname()[1]
    listening.close()
    return pid, port


def ask(port: int, text: str, method: str = "GET", key: str | None = None) -> Any:
    """Send one request; None if no answer came."""
    headers = {"Authorization": f"Bearer {text}", "Content-Type": "application/json"}
    with contextlib.suppress(OSError, http.client.HTTPException):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
        connection.request(
            method, PATH, BODY if method == "POST" else None, {**headers, **({"Idempotency-Key": key} if key else {})}
        )
        answer = connection.getresponse()
        return [answer.status, json.loads(answer.read())]
    return None


def end(pid: int, *, silent: bool = False) -> bool:
    """End a server; whether it was dead already. silent: it did not answer, so it is dying if it is not dead."""
    ends = select.poll()  # `select` takes no descriptor above 1023
    ends.register(gone := os.pidfd_open(pid), select.POLLIN)
    found = ends.poll(5_000 if silent else 0)
    os.close(gone)
    if not found:
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return bool(found)


@contextlib.contextmanager
def traced(*words: str) -> Iterator[bool]:
    """A tracer around a request; whether it was allowed."""
    strace = shutil.which("strace")
    assert strace is not None
    with subprocess.Popen([strace, *words], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as program:
        assert program.stderr is not None
        yield "attached" in program.stderr.readline()
        program.terminate()
        program.communicate()


def warm(store: Path, text: str) -> tuple[int, int]:
    """A server that has answered: its threads are there."""
    pid, port = serve(store)
    for _ in range(2):
        assert ask(port, text)[0] == 200
    return pid, port


def threads_of(pid: int) -> list[int]:
    return sorted(int(each.name) for each in Path(f"/proc/{pid}/task").iterdir())


def counted(folder: Path, store: Path, text: str, thread: int) -> list[Strike]:
    """The system calls of one thread while one POST is answered. None: there is no such thread, or no tracer may be attached.
    One thread at a time: a tracer of all of them makes them wait for each other, which is calls, too.
    """
    pid, port = warm(store, text)
    threads = threads_of(pid)
    if thread >= len(threads):
        end(pid)
        return []
    with traced("-o", str(folder / "calls"), "-p", str(threads[thread])) as allowed:
        if allowed:
            assert ask(port, text, "POST", "k")[0] == 201
    end(pid)
    names = CALL.findall((folder / "calls").read_text()) if allowed else []
    return [Strike(thread, name, names[: at + 1].count(name)) for at, name in enumerate(names) if name not in RESUMED]


def struck(store: Path, text: str, at: Strike, key: str | None) -> tuple[Any, bool]:
    """One POST to a server that is killed at a call: its answer, and whether it was killed."""
    pid, port = warm(store, text)
    victim = str(threads_of(pid)[at.thread])
    with traced("-o", os.devnull, "-e", f"inject={at.call}:signal=KILL:when={at.nth}", "-p", victim):
        answer = ask(port, text, "POST", key)
    return answer, end(pid, silent=answer is None)


def again(store: Path, text: str, key: str | None) -> list[Any]:
    """The POST once more to a new server, and with a key a second time."""
    pid, port = serve(store)
    answers = [ask(port, text, "POST", key) for _ in range(2 if key else 1)]
    end(pid)
    return answers


def chosen(calls: list[Strike], which: str) -> list[Strike]:
    """All calls of a thread; or some from its middle on; or late ones of the main thread: the work is done, and not yet told."""
    if which == "late":
        return calls[-14:-2:3] if calls[0].thread == 0 else []
    return calls if which == "every" else calls[len(calls) // 2 :: max(1, len(calls) // 2 // SOME)]


def main(folder: Path, which: str, how: str) -> None:
    first, text, _ = prepared(folder)
    plains = [copied(folder, first, f"plain-{thread}") for thread in range(THREADS_MAX)]
    calls = [*itertools.takewhile(bool, (counted(folder, each, text, at) for at, each in enumerate(plains)))]
    if not calls:
        sys.stdout.write(json.dumps({"skip": "no tracer may be attached here"}) + "\n")
        return
    expected = child(partial(kinds, plains[0]))[0]
    key = "k" if how == "keyed" else None
    for at in [strike for each in calls for strike in chosen(each, which)]:
        store = copied(folder, first, "-".join(map(str, at)))
        answer, killed = struck(store, text, at, key)
        found = {"at": at, "killed": killed, "first": answer, "expected": expected}
        answers = again(store, text, key)
        sys.stdout.write(json.dumps({**found, "answers": answers, "kinds": child(partial(kinds, store))[0]}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])

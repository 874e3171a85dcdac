"""Python programs for tests, forked from a process that has imported everything: one begins in milliseconds.

`Program` stands for `subprocess.Popen([sys.executable, *words])` and `run` for `subprocess.run`. words: a file, `-m module` or
`-c text`, and arguments. Each is a process of its own, with the environment, folder and descriptors of its caller; only the hash
seed and what was imported are those of the server (this file as a program), which has no threads and no store. A test that is
about the start of an interpreter, its options or its imports takes `subprocess`.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import gc
import importlib
import io
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple, NoReturn, Self, TextIO

HERE = Path(__file__).parent
BESIDE = (HERE, *sorted(HERE.parent.glob("packages/*/tests")))  # what tests have in common lies in all of them
IMPORTED = (
    "asyncio", "concurrent.futures.thread", "encodings.idna",
    "perdure.handles.sync.store", "perdure.handles.sync.run", "perdure.handles.aio.store", "perdure.handles.aio.run",
    "perdure.runtime.shells", "perdure.handles.opening", "perdure.effects.rolled_back",
    "perdure.artifacts.local", "perdure.stores.postgres", "perdure_files.store.engine",
    "perdure.cli.main", "perdure.cli.worker", "perdure.runtime.logs", "perdure.runtime.supervisor",
    "faults.forks", "faults.writer",
)  # fmt: skip
STOPPED = "stopped"
ORDER_BYTES = 1 << 16
PR_SET_PTRACER = 0x59616D61
CLONE_NEWNS = 0x00020000


# -- the test's side -------------------------------------------------------------------------------------------------


class Program:
    """A program that was begun. A context manager, which kills it.

    env, cwd, stdin, stdout, stderr: as for `subprocess.Popen`. held: it waits for `go`, and may be traced by who is not its
    parent.
    """

    def __init__(
        self,
        *words: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | str | None = None,
        stdin: int | IO[Any] | None = None,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
        start_new_session: bool = False,
        held: bool = False,
    ) -> None:
        order = {
            "words": words, "env": dict(os.environ if env is None else env), "cwd": str(cwd or Path.cwd()),
            "session": start_new_session, "held": held, "mounts": f"/proc/{os.getpid()}/task/{threading.get_native_id()}/ns/mnt",
        }  # fmt: skip
        self.returncode: int | None = None
        self.args = words
        with contextlib.ExitStack() as theirs:
            (read, self.stdin), (self.stdout, write), (self.stderr, errors) = (
                _ends(number, given, theirs) for number, given in enumerate((stdin, stdout, stderr))
            )
            status, say = os.pipe()
            gate, self._gate = os.pipe()
            for number in (say, gate):
                theirs.callback(os.close, number)
            server().begin(order, [read, write, errors, say, gate])
        self._status = os.fdopen(status, "rb", buffering=0)
        self.pid = int(self._heard(None))
        if not held:
            self.go()

    def go(self) -> None:
        """Let one that is held begin."""
        os.write(self._gate, b"!")
        os.close(self._gate)

    def poll(self) -> int | None:
        """How it ended, if it did: as `subprocess.Popen.poll` says it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""
        while self.returncode is None:
            self._told_stopped(timeout)
        return self.returncode

    def wait_stopped(self) -> bool:
        """Wait until it is stopped, all its threads; False if it ended instead."""
        return self.returncode is None and self._told_stopped(None)

    def send_signal(self, number: int) -> None:
        """Unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    def _told_stopped(self, timeout: float | None) -> bool:
        said = self._heard(timeout)
        if said != STOPPED:
            self.returncode = int(said)
            self._status.close()
        return said == STOPPED

    def _heard(self, timeout: float | None) -> str:
        """The next that the server says of it: its number, that it was stopped, or how it ended."""
        ready = select.poll()  # `select` takes no descriptor above 1023, and a worker of the suite has more of them
        ready.register(self._status, select.POLLIN)
        if not ready.poll(None if timeout is None else timeout * 1000):
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        said = self._status.readline().decode().strip()
        assert said, "the program that forks is gone"
        return said

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.kill()
        self.wait()
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()


def run(
    *words: str,
    env: Mapping[str, str] | None = None,
    cwd: Path | str | None = None,
    input: str = "",  # noqa: A002 - as subprocess calls it
    timeout: float | None = 60,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; what it said, and how it ended."""
    with _text() as given, _text() as out, _text() as errors:
        given.write(input)
        given.seek(0)
        with Program(*words, env=env, cwd=cwd, stdin=given, stdout=out, stderr=errors) as program:
            status = program.wait(timeout)
        out.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(words, status, out.read(), errors.read())


def _text() -> IO[str]:
    return tempfile.TemporaryFile("w+")


def _ends(number: int, given: int | IO[Any] | None, theirs: contextlib.ExitStack) -> tuple[Any, Any]:
    """The (read, write) ends of a standard stream: the program's as a descriptor, ours as a text stream, or None."""
    if given is None:
        given = number
    if given == subprocess.DEVNULL:
        given = theirs.enter_context(open(os.devnull, "r+b", buffering=0))  # noqa: PTH123, SIM115
    if given != subprocess.PIPE:
        fd = given if isinstance(given, int) else given.fileno()
        return (fd, None) if number == 0 else (None, fd)
    read, write = os.pipe()
    theirs.callback(os.close, read if number == 0 else write)
    return (read, os.fdopen(write, "w")) if number == 0 else (os.fdopen(read), write)


def environment(**more: str) -> dict[str, str]:
    """This one's, for programs that import what tests have in common."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, BESIDE)), **more}


class Server:
    """The program that forks. It ends, and whatever it has forked, with the process that began it."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._line, theirs = socket.socketpair()
        with theirs:
            self._program = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment(),
            )  # fmt: skip

    @property
    def pid(self) -> int:
        """Its number."""
        return self._program.pid

    def close(self) -> None:
        """End it."""
        self._line.close()
        self._program.wait()

    def begin(self, order: dict[str, Any], descriptors: Sequence[int]) -> None:
        """Have a child forked, which says all else itself."""
        said = json.dumps(order).encode() + b"\n"
        with self._mutex:
            sent = socket.send_fds(self._line, [said], descriptors)
            self._line.sendall(said[sent:])


@functools.cache
def server() -> Server:
    """The one of this process, begun when it is needed."""
    return Server()


def cpu_seconds() -> float:
    """The CPU that programs of this process have used which ended; nothing where a system has no /proc."""
    if not server.cache_info().currsize:
        return 0.0
    try:
        fields = Path(f"/proc/{server().pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")  # of its children, and of theirs


def end() -> None:
    """End the server, if there is one."""
    if server.cache_info().currsize:
        server().close()
        server.cache_clear()


# -- the program that forks ---------------------------------------------------------------------------------------


class Order(NamedTuple):
    """What a child is to be: the words of its command line, its environment, folder and descriptors, and how it begins."""

    words: list[str]
    env: dict[str, str]
    cwd: str
    session: bool
    held: bool
    mounts: str
    descriptors: list[int]


def serve(line: socket.socket) -> Order | None:
    """Fork a child an order. Returns in each child with what it is to be, and in the server when its caller is gone."""
    bell, button = os.pipe()
    os.set_blocking(bell, False)
    os.set_blocking(button, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the tests, which end it
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(button, warn_on_full_buffer=False)
    told: dict[int, int] = {}  # where to say what becomes of a child
    while True:
        ready = select.select([line, bell], [], [])[0]
        if bell in ready:
            os.read(bell, ORDER_BYTES)
            tell(told)
        if line not in ready:
            continue
        order = received(line)
        if order is None:
            break
        pid = os.fork()
        if pid == 0:
            line.detach()
            return order
        *ours, told[pid], gate = order.descriptors
        os.write(told[pid], f"{pid}\n".encode())
        for number in (*ours, gate):
            os.close(number)
    for pid in told:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return None


def received(line: socket.socket) -> Order | None:
    """The next order; None if there will be no more."""
    said, descriptors, _, _ = socket.recv_fds(line, ORDER_BYTES, 5)
    while said and not said.endswith(b"\n"):
        said += line.recv(ORDER_BYTES)
    return Order(**json.loads(said), descriptors=descriptors) if said else None


def tell(told: dict[int, int]) -> None:
    """Say of every child that was stopped or has ended, to whoever began it and still listens."""
    while told:
        pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        if pid == 0:
            return
        stopped = os.WIFSTOPPED(status)
        said = STOPPED if stopped else os.waitstatus_to_exitcode(status)
        with contextlib.suppress(BrokenPipeError):
            os.write(told[pid], f"{said}\n".encode())
        if not stopped:
            os.close(told.pop(pid))


def prepare() -> None:
    """Import what programs import when they get there, so that no child has to."""
    for name in IMPORTED:
        with contextlib.suppress(ImportError):  # a store whose driver is not installed
            importlib.import_module(name)
    gc.freeze()


# -- being a child -------------------------------------------------------------------------------------------------


def become(order: Order) -> None:
    """Be as a process that has just begun."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if order.session:
        os.setsid()
    if order.held:
        allow_tracing()
    *standard, _, gate = order.descriptors
    os.read(gate, 1)
    for number, given in enumerate(standard):
        os.dup2(given, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    see_mounts(order.mounts)
    os.chdir(order.cwd)
    os.environ.clear()
    os.environ.update(order.env)
    time.tzset()
    tempfile.tempdir = None
    importlib.reload(crash_points)  # which reads the environment
    importlib.invalidate_caches()
    sys.stdin = sys.__stdin__ = opened(sys.stdin)
    sys.stdout = sys.__stdout__ = opened(sys.stdout)
    sys.stderr = sys.__stderr__ = opened(sys.stderr)


def opened(stream: Any) -> TextIO:
    """A standard stream anew: what is buffered, and when, depends on what it is."""
    number, direct = stream.fileno(), stream.write_through
    raw = open(number, "wb" if number else "rb", buffering=0 if direct else -1, closefd=False)  # noqa: SIM115
    lines = not direct and (number == 2 or raw.isatty())
    return io.TextIOWrapper(raw, stream.encoding, stream.errors, line_buffering=lines, write_through=direct)


def see_mounts(theirs: str) -> None:
    """See the file systems that the caller sees, if it has mounts of its own (perdure_testing.disk)."""
    if not os.path.exists(theirs) or os.path.samefile(theirs, "/proc/self/ns/mnt"):  # noqa: PTH110, PTH121
        return
    with open(theirs, "rb") as namespace:  # noqa: PTH123
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNS) != 0:
            raise OSError(ctypes.get_errno(), "cannot see the caller's mounts")


def allow_tracing() -> None:
    """Let any process of this user trace this one, where only its parents may (Yama)."""
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(-1), 0, 0, 0)


def lived(words: list[str]) -> int:
    """Live; the exit status. Whoever has no simple one ends as any program of Python does, by what is raised."""
    try:
        live(words)
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            raise
        return ended.code or 0
    return 0


def live(words: list[str]) -> None:
    """What Python does with its command line."""
    sys.path[:] = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), *sys.path]
    match words:
        case ["-m", name, *rest]:
            sys.path.insert(0, str(Path.cwd()))
            sys.argv = [name, *rest]
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        case ["-c", text, *rest]:
            sys.path.insert(0, "")
            sys.argv = ["-c", *rest]
            sys.modules["__main__"] = module = types.ModuleType("__main__")
            exec(compile(text, "<string>", "exec"), vars(module))
        case _:
            sys.path.insert(0, str(Path(words[0]).absolute().parent))
            sys.argv = words
            runpy.run_path(words[0], run_name="__main__")


def leave(status: int) -> NoReturn:
    """End as multiprocessing ends its children: all is done that others could see, but nothing is taken apart, which takes longer
    than a short life."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def main(number: int) -> None:
    """Serve; in each child, be what was ordered."""
    prepare()
    own = {*map(str, BESIDE), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))}
    sys.path[:] = [each for each in sys.path if each not in own]
    order = serve(socket.socket(fileno=number))
    if order is not None:
        become(order)
        leave(lived(order.words))


if __name__ == "__main__":
    from perdure.model import crash_points

    main(int(sys.argv[1]))

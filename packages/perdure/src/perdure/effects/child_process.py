"""Tools in a process of their own: called there, and killed at their deadline with all that they started.

Called by `runtime.isolating` (as a module) and started by it (as a program: `main`). Keeps P4: when its process group is
gone, nothing of the call can send any more, so doubt about it is quiet. Keeps P10: arguments and results are values
(`model.values`), and what is imported is named by the caller's own code, never by data.

THE PIPES carry frames: eight bytes of length, then a value. Standard output is none of them: what a tool prints goes to
standard error. The order pipe stays open after its one frame; when it closes, the caller is dead, and the child kills its
group. The child also inherits the lock of its caller's holder: a holder is not proved dead while its child may still send.

    order    {"module", "path", "name", "args", "handed"}    args: encoded; they are read when the tool's types are known
    answer   {"result"} | {"unstorable": {"kept", "message", "path"}} | {"raised": {"classes", "code", "message"}}
             | {"not_begun": {"code", "message"}}
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import json
import math
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module, util
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from perdure.errors import Failed, Invalid, Unavailable
from perdure.model import programs
from perdure.model.limits import CHECK_SECONDS
from perdure.model.values import decode, encode

if TYPE_CHECKING:
    from perdure.effects.tool import Tool

LENGTH_BYTES = 8
CHUNK_BYTES = 65_536
GRACE_SECONDS = 5.0  # for the kernel to end what was killed
ESCAPED_SECONDS = 0.5  # waited only when something left the group and lives on
MAIN = "__main__"
_BY_PATH = "__perdure_main__"  # the name of a script in the child, so that its guarded part does not run
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from perdure.effects.child_process import main; main(*map(int, sys.argv[2:]))"
)
_ELSEWHERE = "define it with `def` at the top of a module that can be imported"
_GUARD = 'put what the script does below `if __name__ == "__main__":`, or move the tool into a module of its own'


# -- where a function is found again ---------------------------------------------------------------------------------------


class FunctionAddress(NamedTuple):
    """Where a child finds a function: in a module, or in a script by its path."""

    module: str
    path: str | None
    name: str


def address_of(fn: Any) -> FunctionAddress:
    """Where a child finds this function. Invalid, with the way out, for what cannot be imported by its name."""
    module, name = getattr(fn, "__module__", None), getattr(fn, "__qualname__", None)
    if not (isinstance(module, str) and isinstance(name, str)) or "<" in name:
        said = (
            f"{name or type(fn).__name__} cannot be called in a process of its own: it cannot be imported by its name"
        )
        raise Invalid(said, path="isolate", hint=_ELSEWHERE)
    return _of_script(name) if module == MAIN else FunctionAddress(module, None, name)


def _of_script(name: str) -> FunctionAddress:
    """The address of a function of the running program, if its file can be loaded without running the program."""
    main = sys.modules[MAIN]
    file, spec = getattr(main, "__file__", None), getattr(main, "__spec__", None)
    if file is None or not Path(file).is_file():
        raise Invalid(f"{name} was typed in: a child process cannot import it", path="isolate", hint=_ELSEWHERE)
    if not _is_guarded(Path(file)):
        raise Invalid(f"a child process that imports {file} would run it", path="isolate", hint=_GUARD)
    return (
        FunctionAddress(spec.name, None, name)
        if spec is not None
        else FunctionAddress(MAIN, str(Path(file).absolute()), name)
    )


def _is_guarded(file: Path) -> bool:
    tests = [ast.unparse(node.test) for node in ast.parse(file.read_bytes()).body if isinstance(node, ast.If)]
    return any("__name__" in test and MAIN in test for test in tests)


def _name_of(found: type) -> str:
    """A class as both sides call it, also one of the running program."""
    module = found.__module__
    if module == MAIN and (spec := getattr(sys.modules[MAIN], "__spec__", None)) is not None:
        module = spec.name
    return f"{MAIN if module == _BY_PATH else module}:{found.__qualname__}"


def _find(address: FunctionAddress) -> Any:
    """The object at an address. Raises whatever importing it raises."""
    found: Any = import_module(address.module) if address.path is None else _loaded(address.path)
    for name in address.name.split("."):
        found = getattr(found, name)
    return found


def _loaded(path: str) -> Any:
    if _BY_PATH not in sys.modules:
        spec = util.spec_from_file_location(_BY_PATH, path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[_BY_PATH] = util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[_BY_PATH]


def _check_found(tool: Tool, address: FunctionAddress) -> None:
    """The name must lead to this very function: another one would be called in its place."""
    found: Any = sys.modules.get(tool.fn.__module__)
    for name in address.name.split("."):
        found = getattr(found, name, None)
    if getattr(found, "fn", found) is not tool.fn:
        said = f"{address.module}.{address.name} is not the function of the tool {tool.name!r}"
        raise Failed(said, code="Invalid", path="isolate", hint=_ELSEWHERE)


# -- the caller's side -----------------------------------------------------------------------------------------------------


class Killed(Exception):
    """No answer came in time, or nobody wanted one any more."""


class IsolatedCall:
    """One call in a process of its own. `result` blocks; `kill` may come from any other thread."""

    def __init__(
        self, tool: Tool, args: Mapping[str, Any], handed: Mapping[str, Any], keep: Sequence[int] = ()
    ) -> None:
        self._tool = tool
        self._keep = tuple(keep)  # descriptors that the child inherits: the lock of its caller's holder
        self._unsent = memoryview(_framed(_order(tool, args, handed)))
        self._got = bytearray()
        self._process: subprocess.Popen[bytes] | None = None
        self._order_fd = self._answer_fd = -1
        self._killed = False
        self._over = threading.Event()
        self._mutex = threading.Lock()
        self.quiet = True  # whether everything that could still send is proved to be gone

    def result(self, seconds: float | None, check: Callable[[], None]) -> Any:
        """Start it and wait for what the tool gives. Its whole group is dead when this returns or raises, whatever ended it.

        Raises what `check` does, which is asked meanwhile, Killed at the deadline, Failed and Unavailable as the tool raised
        them, and for any other exception one of the same name: it is doubt.
        """
        try:
            self._start()
            in_time = self._converse(seconds, check)
        finally:
            status = self._end()
        frame = self._frame()
        if frame is None and (self._killed or not in_time):
            raise Killed
        if frame is None:
            how = f"by signal {-status}" if status < 0 else f"with status {status}"
            raise _namesake("Crashed", f"its process ended {how} before it answered")
        return self._judged(decode(frame, "answer"))

    def kill(self) -> bool:
        """End it now; whether everything that could send is proved to be gone. Waits a moment for that."""
        with self._mutex:
            self._killed = True
            self._kill_group()
        return self._over.wait(2 * GRACE_SECONDS) and self.quiet

    # -- talking --

    def _start(self) -> None:
        order, self._order_fd = os.pipe()
        self._answer_fd, answer = os.pipe()
        fds = (order, answer)
        program = [sys.executable, "-c", _PROGRAM, json.dumps(sys.path), *map(str, fds)]
        try:
            with self._mutex:
                if not self._killed:
                    self._process = programs.start(program, env=os.environ, stdout=2, keep=(*fds, *self._keep))
                    self.quiet = False
        except OSError as error:
            raise Unavailable(f"no process could be started: {error}", path="isolate") from error
        finally:
            os.close(order)
            os.close(answer)
        os.set_blocking(self._order_fd, False)

    def _converse(self, seconds: float | None, check: Callable[[], None]) -> bool:
        """Send the order and hear the answer, until it is whole or the child is gone; whether that was in time."""
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        poll = select.poll()
        poll.register(self._answer_fd, select.POLLIN)
        poll.register(self._order_fd, select.POLLOUT)
        hearing = True
        while hearing and self._frame() is None:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            check()
            for fd, _ in poll.poll(min(left, CHECK_SECONDS) * 1000):
                if fd == self._answer_fd:
                    hearing = self._hear()
                elif not self._tell():
                    poll.unregister(fd)
        return True

    def _tell(self) -> bool:
        """Send some more of the order; whether there is more to send."""
        try:
            self._unsent = self._unsent[os.write(self._order_fd, self._unsent[:CHUNK_BYTES]) :]
        except BrokenPipeError:
            return False
        return bool(self._unsent)

    def _hear(self) -> bool:
        """Take in some more of the answer; whether there may be more."""
        data = os.read(self._answer_fd, CHUNK_BYTES)
        self._got += data
        return bool(data)

    def _frame(self) -> bytes | None:
        """The answer, if it is whole."""
        size = int.from_bytes(self._got[:LENGTH_BYTES]) if len(self._got) >= LENGTH_BYTES else None
        whole = size is not None and len(self._got) >= LENGTH_BYTES + size
        return bytes(self._got[LENGTH_BYTES : LENGTH_BYTES + (size or 0)]) if whole else None

    # -- ending --

    def _end(self) -> int:
        """Kill the group and see it gone; how the child ended. One that had ended by itself keeps its own status."""
        status = 0
        if self._process is not None:
            with self._mutex, contextlib.suppress(subprocess.TimeoutExpired):
                self._kill_group()
                status = self._process.wait(GRACE_SECONDS)
            self.quiet = self._process.returncode is not None and self._drained(ESCAPED_SECONDS)
        for fd in (self._order_fd, self._answer_fd):
            if fd >= 0:
                os.close(fd)
        self._order_fd = self._answer_fd = -1
        self._over.set()
        return status

    def _kill_group(self) -> None:
        """Its number is nobody else's before the child is waited for."""
        if self._process is not None and self._process.returncode is None:
            programs.kill_group(self._process)

    def _drained(self, seconds: float) -> bool:
        """Whether nobody has the answer pipe any more: a fork that left the group would still hold it."""
        poll = select.poll()
        poll.register(self._answer_fd, select.POLLIN)
        deadline = time.monotonic() + seconds
        while poll.poll(max(deadline - time.monotonic(), 0) * 1000):
            if not self._hear():
                return True
        return False

    # -- judging --

    def _judged(self, said: dict[str, Any]) -> Any:
        if "result" in said:
            return said["result"]
        if "unstorable" in said:
            from perdure.model.storable import Unkept  # noqa: PLC0415 - only for what cannot be kept

            return Unkept(**said["unstorable"])
        if "not_begun" in said:
            raise Failed(said["not_begun"]["message"], code=said["not_begun"]["code"], path="isolate")
        raise self._raised(**said["raised"])

    def _raised(self, classes: list[str], code: str, message: str) -> Exception:
        """The tool's exception, as its declaration judges it."""
        if {_name_of(each) for each in (Failed, *self._tool.fails)} & {*classes}:
            return Failed(message, code=code)
        return Unavailable(message) if _name_of(Unavailable) in classes else _namesake(code, message)


def _order(tool: Tool, args: Mapping[str, Any], handed: Mapping[str, Any]) -> bytes:
    address = address_of(tool.fn)
    _check_found(tool, address)
    return encode({**address._asdict(), "args": encode(dict(args), "args"), "handed": dict(handed)}, "order")


def _framed(data: bytes) -> bytes:
    return len(data).to_bytes(LENGTH_BYTES) + data


def _namesake(code: str, message: str) -> Exception:
    """An exception that is recorded under the name of the one that it stands for, which is in another process."""
    return type(code, (Exception,), {})(message)


# -- the child's side ------------------------------------------------------------------------------------------------------


def main(order: int, answer: int) -> NoReturn:
    """Be the child: carry out the order and answer. A fork that a tool made and let return ends here without a word."""
    own = os.getpid()
    read = _exactly(order, int.from_bytes(_exactly(order, LENGTH_BYTES)))
    threading.Thread(target=_die_with, args=(order,), name="perdure-caller", daemon=True).start()
    data = encode(_carried_out(**decode(read, "order")), "answer")
    if os.getpid() == own:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        with os.fdopen(answer, "wb") as pipe:
            pipe.write(_framed(data))
    os._exit(0)


def _exactly(fd: int, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = os.read(fd, count - len(data))
        if not more:
            os._exit(1)  # the caller is gone before it has said what is to be done
        data += more
    return data


def _die_with(order: int) -> None:
    """Nothing more is ever sent on the pipe: it ends with the caller. The child began its group, which has its number."""
    while os.read(order, CHUNK_BYTES):
        continue
    with contextlib.suppress(ProcessLookupError):
        os.killpg(os.getpid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def _carried_out(module: str, path: str | None, name: str, args: bytes, handed: dict[str, Any]) -> dict[str, Any]:
    """Call the tool: the answer. A failure before the call has done nothing."""
    from perdure.effects.tool import as_tool  # noqa: PLC0415 - which imports this module where it needs it

    try:
        tool = as_tool(_find(FunctionAddress(module, path, name)))
        given = decode(args, "args")
    except BaseException as error:  # noqa: BLE001 - whatever importing a module raises
        return {"not_begun": _said(error)}
    try:
        result = _finished(lambda: tool.call(tool.fn, given, **handed))
    except BaseException as error:  # noqa: BLE001 - the caller judges it
        return {"raised": {**_said(error), "classes": _classes(error)}}
    try:
        encode(result, "result")
    except Invalid as error:
        from perdure.model.storable import storable  # noqa: PLC0415 - as above

        return {"unstorable": {"kept": storable(result), "message": error.message, "path": error.path}}
    return {"result": result}


def _classes(error: BaseException) -> list[str]:
    """The names of its class and bases, by which the caller judges it; a Failed or Unavailable only if it is the tool's own
    word.
    """
    from perdure.effects.outcomes import is_own_word  # noqa: PLC0415 - as below

    said = () if is_own_word(error) else (Failed, Unavailable)
    return [_name_of(each) for each in type(error).__mro__ if each not in said]


def _said(error: BaseException) -> dict[str, str]:
    from perdure.effects.ledger import error_of  # noqa: PLC0415 - much to load, and only for what went wrong

    said = error_of(error)
    return {"code": said.code, "message": said.message}


def _finished(call: Callable[[], Any]) -> Any:
    """The result of the tool, awaited if it is async: here is an event loop for it alone."""
    result = call()
    if not inspect.isawaitable(result):
        return result
    import asyncio  # noqa: PLC0415 - only async tools pay for it

    async def wait() -> Any:
        return await result

    return asyncio.run(wait())

"""A shell command with a marker: a file, named by the key, that says whether the command began and how it ended.

Called through the ledger (`session.act(shell, "make test")`). The marker is made by a process of its own (`wrapper`) that
outlives its caller, and comes into being once: under one key a command runs at most once on this machine, however many
processes call it, and a second call joins the first. Markers may be deleted when their effects are settled; not before.
Keeps P3, P4 and P15.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec

from perdure.effects.tool import tool
from perdure.errors import Failed, InDoubt, Invalid, KeyReused, Unavailable
from perdure.model import programs
from perdure.model.ids import new_uid
from perdure.model.limits import KEY_MAX_CHARS, check_name, check_text
from perdure.model.records.effects import Absent, Happened, Unknown
from perdure.model.values import digest
from perdure.planes.reading.durations import Duration
from perdure_agents.ready import wrapper
from perdure_agents.ready.checks import absolute, argument, nothing_done_yet, seconds, shortened

TIMEOUT_MAX_SECONDS: Final = 3_600.0
_LATE_SECONDS = 30.0  # for the wrapper to start, and to kill and record after the deadline
_PAUSE_SECONDS = 0.02
_NAME_MAX_CHARS = 200
# The folders of the two packages.
_PACKAGES = str(Path(programs.__file__).parents[2]), str(Path(wrapper.__file__).parents[2])
_WRAPPER = "import sys; sys.path += sys.argv[1:]; from perdure_agents.ready.wrapper import main; sys.exit(main())"

Command = str | Sequence[str]


class Marker(msgspec.Struct, frozen=True):
    """The content of a marker. digest: of the command and where it runs. ended: None while nobody knows how it ended."""

    key: str
    digest: str
    ended: Mapping[str, Any] | None = None


def marker_folder(path: str | None = None) -> str:
    """Make the folder for markers, durably, and return it. Idempotent; call it when your program starts.

    None: `perdure/markers` below $XDG_STATE_HOME, or ~/.local/state. A probe that finds no folder cannot say Absent.
    """
    folder = _folder(path)
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    for parent in reversed(missing):
        parent.mkdir(mode=0o700, exist_ok=True)
        wrapper.sync(parent.parent)
    return str(folder)


def find_marker(
    command: Command, *, key: str, cwd: str | None = None, env: Mapping[str, str] | None = None,
    ok: Sequence[int] = (0,), markers: str | None = None, **_: object,
) -> Happened | Absent | Unknown:  # fmt: skip
    """The probe: no marker is Absent, a good end is Happened, begun and not ended is Unknown.

    A bad end is Absent too: a verdict has no better word for it, and the next call finds the marker and fails as the first
    would have, running nothing.
    """
    folder = _folder(markers)
    if not folder.is_dir():
        return Unknown(f"no folder for markers at {folder}: did it begin on another machine?")
    path = folder / _name(key)
    try:
        running = _is_running(path)  # before reading: what ends in between is read as ended
        marker = _read(path)
    except (OSError, ValueError) as error:
        return Unknown(f"the marker cannot be read: {error}")
    if marker is None:
        return Absent("the command did not begin")
    if (marker.key, marker.digest) != (key, _digest(command, cwd, env)):
        return Absent("the marker of this key is another command's")
    return _verdict(marker.ended, ok, running=running)


def _verdict(ended: Mapping[str, Any] | None, ok: Sequence[int], *, running: bool) -> Happened | Absent | Unknown:
    if ended is None:
        return Unknown(
            "it is still running" if running else "it began, and its processes died before the end was recorded"
        )
    if _is_good(ended, ok):
        return Happened(_result(ended))
    return Absent(f"it {_how(ended)}: called again it fails, and does not run")


@tool(
    probe=find_marker,
    timeout=TIMEOUT_MAX_SECONDS + 2 * _LATE_SECONDS,
    lands_within=0,
    retries=2,
    fails=(Invalid, KeyReused),
)
def shell(
    command: Command, *, key: str, cwd: str | None = None, env: Mapping[str, str] | None = None,
    timeout: Duration = 600, ok: Sequence[int] = (0,), markers: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Run a command once under its key; returns {"exit", "stdout", "stderr"}, each output {"text", "bytes", "sha256"}.

    command: a text for /bin/sh, or a list, which needs no quoting. Standard input is empty. env: added to the environment
    (it is recorded: no secrets). ok: exit statuses that are no failure. timeout: then it is killed with its children, as is
    what it leaves behind when it ends. Of an output the first 8 KiB and the last 24 KiB are kept. Idempotent under its key.
    Raises Failed (another exit status, killed; what it did until then stays), KeyReused (the key had another command),
    Unavailable (it did not begin), InDoubt (it began, and nobody knows how it ended).
    """
    order = _order(command, cwd, env, seconds(timeout, TIMEOUT_MAX_SECONDS))
    _check_ok(ok)
    deadline = time.monotonic() + order["seconds"] + _LATE_SECONDS
    with nothing_done_yet():
        path = _made_folder(markers) / _name(key)
        begun = {"key": key, "digest": _digest(command, cwd, env)}
    if not path.exists():
        temporary = path.with_name(f".begun-{new_uid().hex()}")
        _carry_out({**order, "marker": str(path), "temporary": str(temporary), "begun": begun})
    ended = _ended(path, begun, deadline)
    if not _is_good(ended, ok):
        raise _failure(ended)
    return _result(ended)


# What comes in -----------------------------------------------------------------------------------------------


def _order(command: object, cwd: str | None, env: object, limit_seconds: float) -> dict[str, Any]:
    return {
        "argv": _argv(command),
        "cwd": None if cwd is None else absolute(cwd, "cwd"),
        "env": {**os.environ, **_env(env)},
        "seconds": limit_seconds,
    }


def _argv(command: object) -> list[str]:
    if isinstance(command, str):
        if not check_text(command, "command").strip():
            raise Invalid("a command cannot be empty", path="command")
        return ["/bin/sh", "-c", command]
    if not isinstance(command, list | tuple) or not command:
        raise Invalid("expected a command as text, or as a list of texts", path="command")
    argument(command[0], "command[0]")
    return [check_text(word, f"command[{at}]") for at, word in enumerate(command)]


def _env(env: object) -> dict[str, str]:
    if env is None:
        return {}
    if not isinstance(env, Mapping):
        raise Invalid(f"expected a dict of texts, got {type(env).__name__}", path="env")
    for name, value in env.items():
        if "=" in check_name(name, "env"):
            raise Invalid(f"{name[:40]!r} is no name of a variable", path="env")
        check_text(value, f"env.{name}")
    return dict(env)


def _check_ok(ok: object) -> None:
    if not isinstance(ok, list | tuple) or not all(type(status) is int and 0 <= status <= 255 for status in ok):
        raise Invalid(f"expected exit statuses from 0 to 255, got {ok!r}", path="ok")


def _digest(command: Command, cwd: str | None, env: Mapping[str, str] | None) -> str:
    """The parts that must be the same for a marker to be this command's. How long it may take and what is a good end may
    change.
    """
    plain = command if isinstance(command, str) else list(command)
    return digest([plain, cwd, dict(env or {})], "command").hex()


def _name(key: str) -> str:
    """The marker's name: the key as it is where that is a plain file name."""
    name = quote(check_name(key, "key", KEY_MAX_CHARS), safe="").replace(".", "%2E", key.startswith("."))
    return name if len(name) <= _NAME_MAX_CHARS else f"sha256-{digest(key).hex()}"


def _folder(path: str | None) -> Path:
    if path is not None:
        return Path(absolute(path, "markers"))
    state = os.environ.get("XDG_STATE_HOME") or ""
    return (Path(state) if state.startswith("/") else Path.home() / ".local" / "state") / "perdure" / "markers"


def _made_folder(path: str | None) -> Path:
    try:
        return Path(marker_folder(path))
    except OSError as error:
        raise Failed(f"no folder for markers: {error}", code="NoMarkers", path="markers") from error


# The marker --------------------------------------------------------------------------------------------------


def _read(path: Path) -> Marker | None:
    """The content of the marker; None if there is none. A line that is not whole was not written."""
    try:
        begun, *rest = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return None
    ended = json.loads(rest[0]) if len(rest) > 1 else None  # text after the last line break is nothing, or torn
    return msgspec.convert({**json.loads(begun), "ended": ended}, Marker)  # ValidationError is a ValueError


def _is_running(path: Path) -> bool:
    """Whether anything of the command holds the marker's lock; not without a marker."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _ended(path: Path, begun: Mapping[str, str], deadline: float) -> Mapping[str, Any]:
    """How it ended, waiting for it if somebody else runs it. InDoubt if nobody knows, KeyReused if it is another's."""
    while True:
        running = _is_running(path)  # before reading, as above
        marker = _read(path)
        if marker is None:
            raise InDoubt("the marker is gone", path=str(path))
        if (marker.key, marker.digest) != (begun["key"], begun["digest"]):
            raise KeyReused("this key has the marker of another command", path="key", first=marker.digest, **begun)
        if marker.ended is not None:
            return marker.ended
        if not running or time.monotonic() > deadline:
            hint = "look what it did, then settle it"
            state = "is still running" if running else "died before its end was recorded"
            raise InDoubt(f"the command began and {state}", path=str(path), hint=hint)
        time.sleep(_PAUSE_SECONDS)


def _carry_out(order: Mapping[str, Any]) -> None:
    """Run the wrapper to its end. Unavailable if it did not begin; how the command ended is in the marker."""
    child = _started()
    try:
        _, output = child.communicate(json.dumps(order).encode(), timeout=order["seconds"] + _LATE_SECONDS)
    except subprocess.TimeoutExpired:
        return  # the marker says what is known
    finally:
        _leave(child)
    if child.returncode not in (wrapper.BEGAN, wrapper.EXISTS) and not Path(order["marker"]).exists():
        raise Unavailable(f"the command did not begin: {shortened(output.decode(errors='replace'))}", path="markers")


def _started() -> subprocess.Popen[bytes]:
    """The wrapper, waiting for its order; in a session of its own, so that it outlives us."""
    argv = [sys.executable, "-I", "-S", "-c", _WRAPPER, *_PACKAGES]
    try:
        return programs.start(
            argv, env=os.environ, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
    except OSError as error:
        raise Unavailable(f"the command did not begin: {error}") from error


def _leave(child: subprocess.Popen[bytes]) -> None:
    """When the call is interrupted, or the wrapper is late: it ends its command and records that."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(2 * programs.GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    for pipe in (child.stdin, child.stderr):
        if pipe is not None:
            pipe.close()


# What comes out ----------------------------------------------------------------------------------------------


def _is_good(ended: Mapping[str, Any], ok: Sequence[int]) -> bool:
    return ended["exit"] in ok and not ended["timed_out"] and not ended["stopped"]


def _result(ended: Mapping[str, Any]) -> dict[str, Any]:
    return {name: ended[name] for name in ("exit", "stdout", "stderr")}


def _how(ended: Mapping[str, Any]) -> str:
    if ended["stopped"]:
        return "was stopped with its caller"
    if ended["timed_out"]:
        return "was killed at its deadline"
    return f"was killed by signal {ended['signal']}" if ended["exit"] is None else f"ended with status {ended['exit']}"


def _failure(ended: Mapping[str, Any]) -> Failed:
    output = shortened((ended["stderr"] or {}).get("text") or (ended["stdout"] or {}).get("text") or "")
    code = "Stopped" if ended["stopped"] else "TimedOut" if ended["timed_out"] else "ExitStatus"
    return Failed(f"the command {_how(ended)}" + (f": {output}" if output else ""), code=code, exit=ended["exit"])

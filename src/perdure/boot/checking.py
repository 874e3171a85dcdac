"""Running checks: whether what a memory rests on is still so. Looks, within a bound, and changes nothing.

Stored text is hostile, so a check can do little: a file is read if it is a regular one, git is asked with plumbing that runs no
hook, filter, alias or helper and fetches nothing, and a command runs only if the reader named that very command. A check that
hangs, fails, lacks its program or is not allowed is unknown. Callers: `making`, and the handles of memories. Keeps P10, P15.
"""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from perdure.errors import Error, Invalid, NotFound
from perdure.log.change import Stream
from perdure.model.instants import duration_us, instant_us
from perdure.model.records.checks import Age, Check, CheckResult, Command, FileHash, GitRef, ValueIs
from perdure.model.records.memories import MemoryRecord, Validity
from perdure.model.values import to_plain
from perdure.planes import values
from perdure.planes.spans import store_now
from perdure.stores.core import Core

ALL_SECONDS = 1.0  # for all checks of one reading
FILE_MAX_BYTES = 64 * 1024 * 1024
CHUNK_BYTES = 1 << 20
_GIT_ENV = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_GIT = ("git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.alternateRefsCommand=")

ValueOf = Callable[[str], Any]
Outcomes = tuple[CheckResult, ...]


class Looking(NamedTuple):
    """How checks are run. root: what relative paths start from, instead of the folder that the writer was in. commands: the
    argument lists that may be run.
    """

    root: str | None = None
    commands: Collection[tuple[str, ...]] = ()
    seconds: float = ALL_SECONDS


class _Unclear(Exception):
    """Why it cannot be told whether something is so."""


class _Gone(Exception):
    """Why something is not so any more."""


# -- before writing ------------------------------------------------------------------------------------------


def observed(checks: Iterable[object]) -> list[object]:
    """The checks with what they are to be compared with: the content of files, the working folder."""
    if isinstance(checks, (str, bytes)) or not isinstance(checks, Iterable):
        return checks  # type: ignore[return-value] - refused where it is written down, with its path
    return [_observed(each, f"checks[{i}]") for i, each in enumerate(checks)]


def _observed(check: object, path: str) -> object:
    if not isinstance(check, (FileHash, GitRef, Command)):
        return check
    seen = check if check.folder else replace(check, folder=str(Path.cwd()))
    if not isinstance(seen, FileHash) or seen.sha256:
        return seen
    try:
        return replace(seen, sha256=_digest(Path(seen.folder) / seen.path, time.monotonic() + ALL_SECONDS))
    except (_Gone, FileNotFoundError):
        raise NotFound(f"there is no file {str(seen.path)[:200]!r}", path=f"{path}.path") from None
    except (_Unclear, OSError, ValueError, TypeError) as error:
        raise Invalid(f"it cannot be read: {error}", path=f"{path}.path") from None


# -- when reading --------------------------------------------------------------------------------------------


def judged(core: Core, tenant: int, found: Sequence[tuple[Stream, MemoryRecord]], looking: Looking) -> list[Outcomes]:
    """The outcome of the checks of each of these memories, one by one. Blocks, at most as long as `looking` says."""
    if not any(record.checks for _, record in found):
        return [()] * len(found)
    deadline = time.monotonic() + looking.seconds
    now_us = core.read(store_now, tenant=tenant)
    return [_outcomes(core, tenant, stream, record, now_us, looking, deadline) for stream, record in found]


def looking_at(root: object, commands: object) -> Looking:
    """The reader's settings for running checks. Invalid with the path of what makes no sense."""
    if root is not None and not isinstance(root, (str, os.PathLike)):
        raise Invalid(f"expected a folder, got {type(root).__name__}", path="root")
    if isinstance(commands, (str, bytes)) or not isinstance(commands, Iterable):
        hint = "each is a list: commands=[['make', '--version']]"
        raise Invalid(f"expected a list of commands, got {type(commands).__name__}", path="commands", hint=hint)
    for i, each in enumerate(allowed := list(commands)):
        if isinstance(each, (str, bytes)) or not isinstance(each, Iterable):
            raise Invalid("a command is a list: a program and its arguments", path=f"commands[{i}]")
    return Looking(None if root is None else os.fspath(root), [tuple(each) for each in allowed])  # type: ignore[arg-type]


def _outcomes(
    core: Core, tenant: int, stream: Stream, record: MemoryRecord, now_us: int, looking: Looking, deadline: float
) -> Outcomes:
    def value_of(name: str) -> Any:
        found = core.read(values.entry, stream, name, tenant=tenant)
        return None if found is None else found.value

    age_us = now_us - instant_us(record.confirmed_at or record.at, 0)
    return tuple(_outcome(check, age_us, looking, deadline, value_of) for check in record.checks)


def _outcome(check: Check, age_us: int, looking: Looking, deadline: float, value_of: ValueOf) -> CheckResult:
    try:
        _look(check, age_us, looking, deadline, value_of)
    except _Gone as gone:
        return CheckResult(check, Validity.STALE, str(gone))
    except (_Unclear, OSError, ValueError, Error) as unclear:
        return CheckResult(check, Validity.UNKNOWN, str(unclear)[:300])
    return CheckResult(check, Validity.HOLDS)


def _look(check: Check, age_us: int, looking: Looking, deadline: float, value_of: ValueOf) -> None:
    if time.monotonic() > deadline:
        raise _Unclear("there was no time left to look")
    match check:
        case Age(limit):
            if age_us > duration_us(limit):
                raise _Gone(f"older than {limit}")
        case ValueIs(name, value):
            if to_plain(value_of(name), name) != value:
                raise _Gone(f"the value {name!r} is another one")
        case FileHash(path, sha256, folder):
            if _digest(_folder(looking, folder) / path, deadline) != sha256:
                raise _Gone(f"{path} has changed")
        case GitRef(name, commit, folder):
            _look_at_ref(_folder(looking, folder), name, commit, deadline)
        case Command(argv, code, folder):
            _run(argv, code, _folder(looking, folder), looking, deadline)
        case _:
            raise _Unclear("this version does not know the check")


def _folder(looking: Looking, folder: str) -> Path:
    place = Path(looking.root or folder)
    if not place.is_dir():
        raise _Unclear(f"there is no folder {str(place)[:200]!r} here")
    return place


def _digest(path: Path, deadline: float) -> str:
    """The sha256 of a regular file. Opening never waits, whatever stands there."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise _Gone(f"{path.name} is not there") from None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _Unclear(f"{path.name} is no regular file")
        if found.st_size > FILE_MAX_BYTES:
            raise _Unclear(f"{path.name} is larger than {FILE_MAX_BYTES} bytes")
        digest, left = hashlib.sha256(), FILE_MAX_BYTES
        while data := file.read(min(CHUNK_BYTES, left)):
            digest.update(data)
            left -= len(data)
            if time.monotonic() > deadline:
                raise _Unclear("there was no time left to look")
        return digest.hexdigest()


def head_of(folder: str, seconds: float = ALL_SECONDS) -> tuple[str, str]:
    """The commit and the branch that a folder is at now; empty where git cannot tell."""
    deadline = time.monotonic() + seconds
    try:
        commit = _asked(Path(folder), deadline, "rev-parse", "--verify", "--quiet", "HEAD^{commit}", ok=(0, 1))
        return commit, _asked(Path(folder), deadline, "symbolic-ref", "--quiet", "--short", "HEAD", ok=(0, 1))
    except (_Unclear, OSError, ValueError):
        return "", ""


def _look_at_ref(folder: Path, name: str, commit: str, deadline: float) -> None:
    """Plumbing alone. A folder without a repository says nothing about a branch."""
    _asked(folder, deadline, "rev-parse", "--git-dir")
    found = _asked(
        folder, deadline, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", ok=(0, 1)
    )
    if not found:
        raise _Gone(f"{name} is gone")
    if commit and not found.startswith(commit):
        raise _Gone(f"{name} is at {found[:12]}")


def _asked(folder: Path, deadline: float, *command: str, ok: Collection[int] = (0,)) -> str:
    kept = {name: os.environ[name] for name in ("PATH",) if name in os.environ}
    code, out = _ended([*_GIT, *command], folder, kept | _GIT_ENV, deadline)
    if code not in ok:
        raise _Unclear("git cannot tell")
    return out.decode(errors="replace").strip()


def _run(argv: tuple[str, ...], code: int, folder: Path, looking: Looking, deadline: float) -> None:
    if argv not in looking.commands:
        raise _Unclear("its command was not allowed")
    ended, _ = _ended(list(argv), folder, dict(os.environ), deadline)
    if ended != code:
        raise _Gone(f"{argv[0]} ended with {ended}, not {code}")


def _ended(command: list[str], folder: Path, env: dict[str, str], deadline: float) -> tuple[int, bytes]:
    """How a program ended, and what it wrote. Killed at the deadline, with all that it began."""
    left = deadline - time.monotonic()
    try:
        with subprocess.Popen(  # noqa: S603 - a list, never a shell's
            command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as running:  # fmt: skip
            try:
                out, _ = running.communicate(timeout=max(left, 0.01))
            except subprocess.TimeoutExpired:
                raise _Unclear(f"{command[0]} did not end in time") from None
            finally:
                _kill_group(running)
            return running.returncode, out
    except (FileNotFoundError, PermissionError):
        raise _Unclear(f"there is no program {command[0][:100]!r} here") from None


def _kill_group(running: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(running.pid, 9)
    except (ProcessLookupError, PermissionError):
        return

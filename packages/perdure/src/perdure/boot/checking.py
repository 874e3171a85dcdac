"""Running checks: whether what a memory, value, decision or task rests on is still so. Looks within a bound, changes nothing.

Stored text is hostile, so a check can do little: a file is read if it is a regular one, git is asked with plumbing that runs no
hook, filter, alias or helper and fetches nothing, a command runs only if the reader named that very command, and a page is asked
for only below an address that the reader named. A check that hangs, fails, lacks its program or is not allowed is unknown.

A few threads look at files, git, programs and pages side by side, at each thing once, however many rest on it. A check without
an answer at the deadline is unknown; its thread is left. Callers: `making`, and the handles. Keeps P10, P15.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias
from urllib.parse import urlsplit

from msgspec.structs import replace

from perdure.errors import Error, Invalid, NotFound
from perdure.log.change import Stream
from perdure.model import programs
from perdure.model.instants import duration_us, instant_us
from perdure.model.records.checks import (
    Age,
    AtCommit,
    Check,
    CheckResult,
    ClaimerAlive,
    Command,
    FileHash,
    GitRef,
    ModelOffered,
    UrlEtag,
    ValueIs,
)
from perdure.model.records.memories import MemoryRecord, Validity
from perdure.model.records.tasks import TaskRecord, TaskStatus
from perdure.model.values import to_plain
from perdure.planes.execution import tasks
from perdure.planes.memory import values
from perdure.planes.reading.durations import store_now
from perdure.stores import git
from perdure.stores.core import Core

ALL_SECONDS = 1.0  # for all checks of one recall or boot
LATE_SECONDS = 0.2  # beyond that, in which what was stopped at the deadline can say so
THREADS_MAX = 8
FILE_MAX_BYTES = 64 * 1024 * 1024
CHUNK_BYTES = 1 << 20
OUTPUT_MAX_BYTES = 16 * 1024 * 1024  # of a program, which is killed when it writes more

_GONE_STATUSES = (404, 410)

Outside: TypeAlias = FileHash | GitRef | Command | AtCommit | UrlEtag  # looked at outside the store
Outcomes = tuple[CheckResult, ...]


class Looking(NamedTuple):
    """How checks are run. root: what relative paths start from, instead of the folder that the writer was in. commands: the
    argument lists that may be run. urls: the addresses below which pages may be asked for. models: those that are offered.
    """

    root: str | None = None
    commands: Collection[tuple[str, ...]] = ()
    urls: Collection[str] = ()
    models: Collection[str] | None = None
    seconds: float = ALL_SECONDS


class Carrier(NamedTuple):
    """Something that rests on checks. since_us: when it was written, changed or confirmed. task: its number, if it is one."""

    stream: Stream
    checks: tuple[Check, ...]
    since_us: int
    task: int = 0


class _Unclear(Exception):
    """Why it cannot be told whether something is so."""


class _Gone(Exception):
    """Why something is not so any more."""


# -- before writing ------------------------------------------------------------------------------------------


def observed(checks: Iterable[object]) -> list[object]:
    """The checks with what they are to be compared with: the content of files, the working folder."""
    if isinstance(checks, (str, bytes)) or not isinstance(checks, Iterable):
        return checks  # type: ignore[return-value] - refused where it is written down, with its path
    return [_observed(check, f"checks[{i}]") for i, check in enumerate(checks)]


def _observed(check: object, path: str) -> object:
    deadline = time.monotonic() + ALL_SECONDS
    if isinstance(check, UrlEtag):
        return check if check.etag else replace(check, etag=_etag_now(check.url, f"{path}.url", deadline))
    if not isinstance(check, (FileHash, GitRef, Command, AtCommit)):
        return check
    placed = check if check.folder else replace(check, folder=str(Path.cwd()))
    if isinstance(placed, AtCommit) and not placed.commit:
        return replace(placed, commit=head_of(placed.folder)[0])
    if not isinstance(placed, FileHash) or placed.sha256:
        return placed
    try:
        return replace(placed, sha256=_digest(Path(placed.folder) / placed.path, deadline))
    except (_Gone, FileNotFoundError):
        raise NotFound(f"there is no file {str(placed.path)[:200]!r}", path=f"{path}.path") from None
    except (_Unclear, OSError, ValueError, TypeError) as error:
        raise Invalid(f"it cannot be read: {error}", path=f"{path}.path") from None


def _etag_now(url: object, path: str, deadline: float) -> str:
    try:
        return _etag(url, deadline) if isinstance(url, str) else ""
    except (_Gone, _Unclear, OSError, ValueError) as error:
        raise Invalid(f"its ETag cannot be asked for: {error}", path=path, hint="give it: etag='…'") from None


# -- when reading --------------------------------------------------------------------------------------------


def carrier_of(stream: Stream, record: MemoryRecord) -> Carrier:
    """A memory as something that rests on checks."""
    return Carrier(stream, record.checks, instant_us(record.confirmed_at or record.at, 0))


def judged(core: Core, tenant: int, carriers: Sequence[Carrier], looking: Looking) -> list[Outcomes]:
    """The outcomes of the checks of each of these, one by one. Blocks, at most as long as `looking` says and a little."""
    if not any(carrier.checks for carrier in carriers):
        return [()] * len(carriers)
    deadline = time.monotonic() + looking.seconds
    now_us = core.read(store_now, tenant=tenant)
    checks = (check for carrier in carriers for check in carrier.checks)
    results = _looked_together({check for check in checks if isinstance(check, Outside)}, looking, deadline)

    def outcome(check: Check, carrier: Carrier) -> CheckResult:
        if isinstance(check, Outside):
            return results.get(check) or CheckResult(check, Validity.UNKNOWN, "there was no time left to look")
        return _outcome(check, lambda: _look_inside(core, tenant, check, carrier, now_us, looking))

    return [tuple(outcome(check, carrier) for check in carrier.checks) for carrier in carriers]


def _looked_together(checks: Collection[Outside], looking: Looking, deadline: float) -> dict[Outside, CheckResult]:
    """The outcome of each until the deadline. A thread that hangs is left to itself."""
    results: dict[Outside, CheckResult] = {}
    remaining, lock = iter(list(checks)), threading.Lock()

    def look_on() -> None:
        while True:
            with lock:
                check = next(remaining, None)
            if check is None:
                return
            results[check] = _outcome(check, lambda check=check: _look_outside(check, looking, deadline))

    threads = [threading.Thread(target=look_on, daemon=True) for _ in range(min(THREADS_MAX, len(checks)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline + LATE_SECONDS - time.monotonic()))
    return dict(results)


def looking_at(
    root: object, commands: object, urls: object = (), models: object = None, seconds: float | None = None
) -> Looking:
    """The reader's settings for running checks. Invalid with the path of what makes no sense."""
    if root is not None and not isinstance(root, (str, os.PathLike)):
        raise Invalid(f"expected a folder, got {type(root).__name__}", path="root")
    if isinstance(commands, (str, bytes)) or not isinstance(commands, Iterable):
        hint = "each is a list: commands=[['make', '--version']]"
        raise Invalid(f"expected a list of commands, got {type(commands).__name__}", path="commands", hint=hint)
    for i, command in enumerate(allowed := list(commands)):
        if isinstance(command, (str, bytes)) or not isinstance(command, Iterable):
            raise Invalid("a command is a list: a program and its arguments", path=f"commands[{i}]")
    return Looking(
        None if root is None else os.fspath(root),
        [tuple(command) for command in allowed],  # type: ignore[arg-type]
        _texts(urls, "urls"),
        None if models is None else _texts(models, "models"),
        ALL_SECONDS if seconds is None else seconds,
    )


def _texts(texts: object, path: str) -> list[str]:
    if isinstance(texts, (str, bytes)) or not isinstance(texts, Iterable):
        raise Invalid(f"expected a list of texts, got {type(texts).__name__}", path=path)
    for i, text in enumerate(listed := list(texts)):
        if not isinstance(text, str):
            raise Invalid(f"expected a text, got {type(text).__name__}", path=f"{path}[{i}]")
    return listed


def _outcome(check: Check, look: Callable[[], None]) -> CheckResult:
    try:
        look()
    except _Gone as reason:
        return CheckResult(check, Validity.STALE, str(reason))
    except (_Unclear, OSError, ValueError, Error) as unclear:
        return CheckResult(check, Validity.UNKNOWN, str(unclear)[:300])
    return CheckResult(check, Validity.HOLDS)


def _look_inside(core: Core, tenant: int, check: Check, carrier: Carrier, now_us: int, looking: Looking) -> None:
    match check:
        case Age(limit):
            if now_us - carrier.since_us > duration_us(limit):
                raise _Gone(f"older than {limit}")
        case ValueIs(name, value):
            entry = core.read(values.entry, carrier.stream, name, tenant=tenant)
            if to_plain(None if entry is None else entry.value, name) != value:
                raise _Gone(f"the value {name!r} is another one")
        case ModelOffered(model):
            if looking.models is None:
                raise _Unclear("the reader did not say which models are offered")
            if model not in looking.models:
                raise _Gone(f"{model} is not offered any more")
        case ClaimerAlive(task):
            _look_at_claim(core.read(tasks.task, carrier.stream, task or carrier.task, tenant=tenant))
        case _:
            raise _Unclear("this version does not know the check")


def _look_at_claim(task: TaskRecord) -> None:
    if task.status is not TaskStatus.DOING:
        raise _Unclear(f"task {task.id} is {task.status}: nobody has claimed it")
    if task.abandoned:
        raise _Gone(f"the claimer of task {task.id} is gone")


def _look_outside(check: Outside, looking: Looking, deadline: float) -> None:
    if time.monotonic() > deadline:
        raise _Unclear("there was no time left to look")
    match check:
        case FileHash(path, sha256, folder):
            if _digest(_folder(looking, folder) / path, deadline) != sha256:
                raise _Gone(f"{path} has changed")
        case GitRef(name, commit, folder):
            _look_at_ref(_folder(looking, folder), name, commit, deadline)
        case AtCommit(commit, folder):
            _look_at_ref(_folder(looking, folder), "HEAD", commit, deadline)
        case Command(argv, code, folder):
            _run(argv, code, _folder(looking, folder), looking, deadline)
        case UrlEtag(url, etag):
            _look_at_page(url, etag, looking, deadline)


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
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _Unclear(f"{path.name} is no regular file")
        if status.st_size > FILE_MAX_BYTES:
            raise _Unclear(f"{path.name} is larger than {FILE_MAX_BYTES} bytes")
        digest, room = hashlib.sha256(), FILE_MAX_BYTES
        while data := file.read(min(CHUNK_BYTES, room)):
            digest.update(data)
            room -= len(data)
            if time.monotonic() > deadline:
                raise _Unclear("there was no time left to look")
        return digest.hexdigest()


def head_of(folder: str) -> tuple[str, str]:
    """The commit and the branch that a folder is at now; empty where git cannot tell."""
    deadline = time.monotonic() + ALL_SECONDS
    try:
        commit = _git_output(Path(folder), deadline, "rev-parse", "--verify", "--quiet", "HEAD^{commit}", ok=(0, 1))
        return commit, _git_output(Path(folder), deadline, "symbolic-ref", "--quiet", "--short", "HEAD", ok=(0, 1))
    except (_Unclear, OSError, ValueError):
        return "", ""


def _look_at_ref(folder: Path, name: str, commit: str, deadline: float) -> None:
    """Plumbing alone. A folder without a repository says nothing about a branch."""
    _git_output(folder, deadline, "rev-parse", "--git-dir")
    commit_now = _git_output(
        folder, deadline, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", ok=(0, 1)
    )
    if not commit_now:
        raise _Gone(f"{name} is gone")
    if commit and not commit_now.startswith(commit):
        raise _Gone(f"{name} is at {commit_now[:12]}")


def _git_output(folder: Path, deadline: float, *command: str, ok: Collection[int] = (0,)) -> str:
    try:
        answer = git.ask(folder, deadline - time.monotonic(), *command)
    except (FileNotFoundError, PermissionError):
        raise _Unclear("there is no program 'git' here") from None
    if answer.status not in ok:
        raise _Unclear(f"git cannot tell: {answer.complaint}")
    return answer.out.decode(errors="replace").strip()


def _look_at_page(url: str, etag: str, looking: Looking, deadline: float) -> None:
    if not any(_is_below(url, allowed) for allowed in looking.urls):
        raise _Unclear("its address was not allowed")
    etag_now = _etag(url, deadline)
    if not etag_now:
        raise _Unclear("the page has no ETag")
    if etag_now != etag:
        raise _Gone(f"{url[:200]} has changed")


def _is_below(url: str, allowed: str) -> bool:
    """Whether a page is the one that was allowed, or lies below it."""
    page, place = urlsplit(url), urlsplit(allowed)
    folder = place.path if place.path.endswith("/") else f"{place.path}/"
    inside = page.path == place.path or page.path.startswith(folder)
    return (page.scheme, page.netloc) == (place.scheme, place.netloc) and inside and "/../" not in f"{page.path}/"


def _etag(url: str, deadline: float) -> str:
    """The ETag of a page, by one request that takes no body and follows nothing; empty if it has none."""
    from urllib.request import Request  # noqa: PLC0415 - few stores have such a check

    from perdure.model.http_client import NotAnswered, NotSent, exchange  # noqa: PLC0415 - as above

    page = urlsplit(url)
    if page.scheme not in ("http", "https") or not page.hostname or page.username is not None:
        raise _Unclear("it is no address of a page")
    try:
        answer = exchange(Request(url, method="HEAD"), max(deadline - time.monotonic(), 0.01), 0)  # noqa: S310 - as above
    except (NotSent, NotAnswered) as error:
        raise _Unclear(f"the server cannot be understood: {error}") from None
    if answer.status in _GONE_STATUSES:
        raise _Gone(f"{url[:200]} is not there")
    if answer.status != 200:
        raise _Unclear(f"the server says {answer.status}")
    return answer.headers.get("ETag", "")


def _run(argv: tuple[str, ...], code: int, folder: Path, looking: Looking, deadline: float) -> None:
    if argv not in looking.commands:
        raise _Unclear("its command was not allowed")
    try:
        end = programs.run(
            argv, cwd=str(folder), env=os.environ, most_bytes=OUTPUT_MAX_BYTES, grace_seconds=0,
            seconds=max(deadline - time.monotonic(), 0.01),
        )  # fmt: skip
    except (FileNotFoundError, PermissionError):
        raise _Unclear(f"there is no program {argv[0][:100]!r} here") from None
    if end.timed_out or end.too_much:
        raise _Unclear(f"{argv[0]} " + ("did not end in time" if end.timed_out else "writes without end"))
    if end.status != code:
        raise _Gone(f"{argv[0]} ended with {end.status}, not {code}")

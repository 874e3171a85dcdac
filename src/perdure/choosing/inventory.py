"""The state that a project has already: which files hold it, how they change, what is lost with each and how it comes back.

Called by `perdure advise FOLDER --inventory`. Looks at names, sizes, times and the first bytes of files; runs, unpickles,
opens and changes nothing, follows no link, and stops at bounds that it names. Keeps P10, P15.
"""

from __future__ import annotations

import enum
import itertools
import os
import re
import shlex
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from perdure.choosing.forms import OURS, FileForm, form_of, writer_of
from perdure.choosing.tracked import tracked

LOOK_BYTES = 32 * 1024
FILES_LOOKED_AT_MAX = 50_000
FILES_LISTED_MAX = 2_000
DEPTH_MAX = 16
DAY_SECONDS = 86_400
STALE_AFTER_DAYS, DOUBTFUL_AFTER_DAYS = 7, 1
LARGE_BYTES = 10 * 1024 * 1024  # above this a file that is rewritten whole costs more than what changed
NOT_ENTERED = {
    ".git", ".hg", ".svn", "node_modules", ".venv", "venv", "env", "__pycache__", ".tox", ".nox", ".mypy_cache", ".ruff_cache",
    ".pytest_cache", ".hypothesis", "site-packages", "target", "dist", "build", ".next", ".cache", ".idea", ".vscode",
    ".perdure",
}  # fmt: skip
NOT_STATE = re.compile(
    r"(package(-lock)?|tsconfig.*|composer|pyrightconfig|jsconfig|deno|renovate|manifest|schema)\.json"
    r"|(poetry|uv|cargo|pdm|yarn|gemfile|composer|flake|pnpm-lock|pipfile)\.(lock|yaml|yml)"
    r"|\.?(pre-commit-config|docker-compose|compose|mkdocs|readthedocs|codecov|eslintrc|prettierrc|golangci|travis|gitlab-ci)\.?"
    r"(ya?ml|json)?|.*\.(schema|config|tsbuildinfo)\.json",
    re.IGNORECASE,
)


class Category(enum.StrEnum):
    """The purpose of a state file."""

    BOOT = "boot"
    CONVERSATION = "conversation"
    CHECKPOINT = "checkpoint"
    DECISIONS = "decisions"
    TASKS = "tasks"
    MEMORY = "memory"
    EVENTS = "events"
    RUNTIME = "runtime"
    LOCK = "lock"
    LOG = "log"
    DATABASE = "database"
    DATA = "data"


class Updates(enum.StrEnum):
    """How a file changes."""

    REWRITTEN = "rewriting it whole"
    APPENDED = "appending"
    TRANSACTIONS = "transactions"
    HELD = "being there"


class Staleness(enum.StrEnum):
    """How far what it says may be from what is."""

    LOW = "low"
    DOUBTFUL = "doubtful"
    HIGH = "high"


class StateFile(msgspec.Struct, frozen=True):
    """One state file. `why` says where the risk comes from; `next` brings it into a store, if an importer knows it."""

    path: str
    category: Category
    form: FileForm
    writer: str
    updates: Updates
    size: int
    tracked: str
    loses: str
    recovers: str
    stale: Staleness
    why: str
    next: str


class Inventory(msgspec.Struct, frozen=True):
    """All that was found, the riskiest first; `left_out` says what was not looked at."""

    folder: str
    files: list[StateFile]
    looked_at: int
    left_out: list[str]


class _Seen(msgspec.Struct, frozen=True):
    """A file as a walk meets it."""

    path: str  # below the folder, with /
    size: int
    changed_at: float
    form: FileForm | None
    writer: str


BOOT_NAMES = re.compile(r"(^|/)(agents|claude|gemini|copilot-instructions)\.md$", re.IGNORECASE)
# Name -> category, the first that is found in the path counts. Folders count as well: .checkpoints/7.json is one.
NAMES: tuple[tuple[re.Pattern[str], Category], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), category)
    for pattern, category in (
        (r"checkpoint|snapshot", Category.CHECKPOINT),
        (r"decision|(^|/)adr[-_/]", Category.DECISIONS),
        (r"backlog|todo|task|plan\b|queue", Category.TASKS),
        (r"memor|knowledge|embedding|preference|profile", Category.MEMORY),
        (r"session|conversation|transcript|message|chat|thread|rollout", Category.CONVERSATION),
        (r"event|history|audit|journal|ledger|changes", Category.EVENTS),
        (r"state|status|cursor|progress|runtime|(^|/)run[-_./]", Category.RUNTIME),
        (r"[-_.]log\.|(^|/)logs?/", Category.LOG),
    )
)
BY_WRITER = {
    "Claude Code": Category.CONVERSATION, "Codex": Category.CONVERSATION, "OpenAI Agents": Category.CONVERSATION,
    "Google ADK": Category.CONVERSATION, "MCP memory": Category.MEMORY, "LangGraph": Category.CHECKPOINT,
}  # fmt: skip
BY_FORM = {
    FileForm.LOG: Category.LOG, FileForm.LOCK: Category.LOCK, FileForm.TEXT: Category.BOOT, FileForm.SQLITE: Category.DATABASE,
}  # fmt: skip
LOSES = {
    Category.BOOT: "the beginning of every new session",
    Category.CONVERSATION: "the conversation, and the calls and results in it",
    Category.CHECKPOINT: "the place to continue from: work is done again",
    Category.DECISIONS: "the decisions and their reasons: they are taken again, otherwise",
    Category.TASKS: "the tasks that are done and those that are left",
    Category.MEMORY: "the lessons of all sessions",
    Category.EVENTS: "history: nobody can say what happened",
    Category.RUNTIME: "where it was; defaults take its place",
    Category.LOCK: "nothing; but what it kept apart can meet",
    Category.LOG: "how it came about",
    Category.DATABASE: "everything in it",
    Category.DATA: "its content: its name does not say",
}
UPDATES = {
    FileForm.JSON_LINES: Updates.APPENDED, FileForm.LOG: Updates.APPENDED, FileForm.TABLE: Updates.APPENDED,
    FileForm.SQLITE: Updates.TRANSACTIONS, FileForm.LOCK: Updates.HELD,
}  # fmt: skip
HISTORY = {Category.EVENTS, Category.LOG, Category.CONVERSATION}  # the past stays true


def take(folder: Path) -> Inventory:
    """The inventory of a folder. Reads at most LOOK_BYTES of a file; what cannot be read is named in `left_out`."""
    left_out: list[str] = []
    entries = _files(folder, left_out)
    seen = [_looked_at(entry, folder) for entry in itertools.islice(entries, FILES_LOOKED_AT_MAX)]
    if next(entries, None) is not None:
        left_out.append(f"looked at {len(seen)} files, and at no more")
    in_git = tracked(folder)
    newest = _newest_by_folder(seen)
    files = sorted((_described(file, in_git, newest) for file in seen if file.form is not None), key=_risk)
    if len(files) > FILES_LISTED_MAX:
        left_out.append(f"{len(files) - FILES_LISTED_MAX} state files with less risk are not listed")
    return Inventory(str(folder), files[:FILES_LISTED_MAX], len(seen), left_out)


# -- looking ----------------------------------------------------------------------------------------


def _files(folder: Path, left_out: list[str]) -> Iterator[os.DirEntry[str]]:
    """Every regular file below, level by level."""
    level = [folder]
    for _ in range(DEPTH_MAX):
        below: list[Path] = []
        for entry in itertools.chain.from_iterable(_entries(place, left_out) for place in level):
            if entry.is_file(follow_symlinks=False):
                yield entry
            elif entry.is_dir(follow_symlinks=False) and entry.name not in NOT_ENTERED:
                below.append(Path(entry.path))
        level = below
    if level:
        left_out.append(f"folders deeper than {DEPTH_MAX} were not entered")


def _entries(place: Path, left_out: list[str]) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(place) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        left_out.append(f"{place}: {error.strerror}")
        return []


def _looked_at(entry: os.DirEntry[str], folder: Path) -> _Seen:
    path = Path(entry.path).relative_to(folder).as_posix()
    try:
        found = entry.stat(follow_symlinks=False)
        form, writer = (None, "") if NOT_STATE.fullmatch(entry.name) else _recognised(path, _start_of(entry.path))
    except OSError:
        return _Seen(path, 0, 0.0, None, "")
    return _Seen(path, found.st_size, found.st_mtime, form, writer)


def _recognised(path: str, start: bytes) -> tuple[FileForm | None, str]:
    """Its form, and what wrote it. Prose counts only where its name says that sessions begin with it."""
    form = FileForm.TEXT if BOOT_NAMES.search(path) else form_of(path.rpartition("/")[2], start)
    return form, writer_of(form, start) if form else ""


def _start_of(path: str) -> bytes:
    """The first bytes of a regular file. A file that took its place meanwhile is not waited for and not followed."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(descriptor, LOOK_BYTES) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    finally:
        os.close(descriptor)


# -- judging ----------------------------------------------------------------------------------------


def category_of(path: str, form: FileForm, writer: str) -> Category:
    """The purpose of a file: by its writer, by its name, by its form."""
    if writer == OURS:
        return Category.DATABASE
    if writer in BY_WRITER:
        return BY_WRITER[writer]
    if form in (FileForm.LOCK, FileForm.TEXT):
        return BY_FORM[form]
    named = next((category for pattern, category in NAMES if pattern.search(path)), None)
    return named or BY_FORM.get(form, Category.DATA)


def _newest_by_folder(seen: Iterable[_Seen]) -> dict[str, float]:
    """When anything but state changed last, by folder; "" is the whole project. State is compared with what it is about."""
    newest: dict[str, float] = {}
    for file in seen:
        if file.form is None:
            for place in ("", file.path.rpartition("/")[0]):
                newest[place] = max(newest.get(place, 0.0), file.changed_at)
    return newest


def _described(file: _Seen, in_git: frozenset[str] | None, newest: dict[str, float]) -> StateFile:
    assert file.form is not None
    category = category_of(file.path, file.form, file.writer)
    updates = Updates.TRANSACTIONS if file.writer == OURS else UPDATES.get(file.form, Updates.REWRITTEN)
    known = "?" if in_git is None else "yes" if file.path in in_git else "no"
    beside = newest.get(file.path.rpartition("/")[0], newest.get("", 0.0))
    stale, why = staleness(category, (beside - file.changed_at) / DAY_SECONDS)
    return StateFile(
        path=file.path, category=category, form=file.form, writer=file.writer, updates=updates, size=file.size, tracked=known,
        loses=LOSES[category], recovers=recovery(file.form, updates, known, file.size), stale=stale, why=why,
        next=f"perdure import {shlex.quote(file.path)} --dry-run" if file.writer in BY_WRITER else "",
    )  # fmt: skip


def staleness(category: Category, behind_days: float) -> tuple[Staleness, str]:
    """How stale a file may be that changed so many days before what lies beside it."""
    if category in HISTORY:
        return Staleness.LOW, "history stays true"
    if category is Category.LOCK:
        held = behind_days > 0
        return (Staleness.HIGH, "its maker may be gone") if held else (Staleness.DOUBTFUL, "does its maker still live?")
    if behind_days > STALE_AFTER_DAYS:
        return Staleness.HIGH, f"files beside it changed {behind_days:.0f} days later"
    if behind_days > DOUBTFUL_AFTER_DAYS:
        return Staleness.DOUBTFUL, f"files beside it changed {behind_days:.0f} days later"
    return Staleness.LOW, "as new as what lies beside it"


def recovery(form: FileForm, updates: Updates, known: str, size: int) -> str:
    """How a file comes back after a crash or a loss."""
    crash = {
        Updates.REWRITTEN: "a crash while it is written leaves half of it"
        + (", or all of it late" if size > LARGE_BYTES else ""),
        Updates.APPENDED: "a crash tears the last line",
        Updates.TRANSACTIONS: "commits survive a crash"
        + (", with the -wal beside it" if form is FileForm.SQLITE else ""),
        Updates.HELD: "made anew",
    }[updates]
    if updates is Updates.HELD:
        return crash
    back = {"yes": "git has what was committed", "no": "nothing else has it", "?": "git was not asked"}[known]
    code = "; loading it runs what it holds" if form is FileForm.PICKLE else ""
    return f"{crash}; {back}{code}"


def _risk(file: StateFile) -> tuple[object, ...]:
    """The riskiest first: stale, then without a copy, then by path."""
    return -list(Staleness).index(file.stale), file.tracked == "yes", file.path

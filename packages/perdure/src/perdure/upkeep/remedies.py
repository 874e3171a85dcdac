"""Advice for a store that cannot be opened or read: the step that mends it, by the kind of the fault.

Called by `upkeep/health.py`. Only advises: nothing is changed. Keeps P15.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import msgspec

from perdure.errors import Damaged, Error, ReadOnly, Refused, Unavailable
from perdure.stores import url
from perdure.stores.entry_points import files_kind
from perdure.stores.store import FaultKind

REMOUNT = "mount the disk for writing, or copy the store to another one"
KINDS: tuple[tuple[type[Error], FaultKind], ...] = (
    (Damaged, FaultKind.DAMAGED),
    (ReadOnly, FaultKind.READ_ONLY),
    (Refused, FaultKind.REFUSED),
    (Unavailable, FaultKind.LOST),
)


class Remedy(msgspec.Struct, frozen=True):
    """The way out, with the store's own URL (never its password) in the commands."""

    address: url.Address

    @property
    def shown(self) -> str:
        """The URL as a shell takes it."""
        return shlex.quote(url.without_password(self.address.url))

    @property
    def _cache(self) -> Path | None:
        """The tables of a files store, which can be made again."""
        folder = self.address.log_folder
        return None if folder is None else files_kind().cache(folder)

    def command(self, verb: str) -> str:
        """A command on this store."""
        return f"perdure {verb} --store {self.shown}"

    @property
    def restore(self) -> str:
        """How to go back to a backup: nothing is restored over anything. Of a files store the log is what counts."""
        if self._cache is not None:
            return files_kind().remake(self._cache)
        away = "rename the schema" if self.address.path is None else "move the file away"
        return f"{away}, then {self.command('restore BACKUP')}"

    @property
    def move(self) -> str:
        """How to leave for a larger store."""
        larger = "sqlite:///agent.db" if self.address.log_folder is not None else "postgresql://USER@HOST/DATABASE"
        return f"perdure move {self.shown} {larger}"

    @property
    def retain(self) -> str:
        """How to let old checkpoints and turns that a summary stands for go."""
        return self.command("retain --checkpoints 5 --turns 50 --older-than 30d")

    def run_sql(self, statement: str, file: Path | None) -> str:
        """How to run a statement on the database itself: on a file, or on the server that the URL names."""
        if file is not None:
            return f"sqlite3 {shlex.quote(str(file))} {shlex.quote(statement)}"
        within = shlex.quote(f"set search_path to {self.address.schema}; {statement}")
        return f"psql {shlex.quote(url.without_password(self.address.conninfo))} -c {within}"

    def about(self, kind: FaultKind) -> str:
        """The advice for a failed call."""
        path = self._cache or self.address.path
        if path is not None and (kind is FaultKind.REFUSED or path.is_dir()):
            return way_in(path, is_read_only(path))
        return {
            FaultKind.LOST: f"start the server, or check host and port in {self.shown}",
            FaultKind.BUSY: "another program holds the database: end it, or try later",
            FaultKind.FULL: "make room on the disk",
            FaultKind.IO: f"look after the disk; if it lost something: {self.restore}",
            FaultKind.READ_ONLY: REMOUNT,
            FaultKind.REFUSED: f"check user, password, database and the role's rights in {self.shown}",
        }.get(kind, self.restore)

    def about_error(self, error: Error) -> str:
        """The advice for an error of the tree, which may know better."""
        kind = next((kind for error_class, kind in KINDS if isinstance(error, error_class)), FaultKind.BROKEN)
        return error.hint or self.about(kind)


def way_in(path: Path, read_only_disk: bool) -> str:
    """The obstacle to opening a file: its disk, its folder or itself."""
    if read_only_disk:
        return REMOUNT
    if path.is_dir():
        return "name a file: this is a folder"
    folder = path.absolute().parent
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return f"chmod u+rwx {shlex.quote(str(folder))}"
    return f"chmod u+rw {shlex.quote(str(path))}"


def is_read_only(path: Path) -> bool:
    """Whether the disk that a file lies on can only be read."""
    try:
        return bool(os.statvfs(path.absolute().parent).f_flag & os.ST_RDONLY)
    except OSError:
        return False

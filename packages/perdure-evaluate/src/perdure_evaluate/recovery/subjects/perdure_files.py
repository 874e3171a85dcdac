"""Perdure on files: the same, in a folder that could be a git work tree. A backup is a copy of what git would keep."""
# ruff: noqa: D102 - the verbs are described by the interface

from __future__ import annotations

import shutil
from pathlib import Path

from perdure_evaluate.recovery.subjects.perdure_sqlite import PerdureSqlite

OWN = ".perdure"  # files of this machine and this moment


class PerdureFiles(PerdureSqlite):
    """One folder, `state`."""

    about = "Perdure on files"

    @property
    def folder(self) -> Path:
        """Where the store is."""
        return self.place.folder / "state"

    @property
    def url(self) -> str:
        return f"files:///{self.folder}"

    def backup(self, target: Path) -> None:
        shutil.copytree(self.folder, target, ignore=shutil.ignore_patterns(OWN))

    def restore(self, source: Path) -> None:
        for lost in self.folder.iterdir():  # with what this machine had seen of the log: docs/files.md, "Damage"
            shutil.rmtree(lost) if lost.is_dir() else lost.unlink()
        shutil.copytree(source, self.folder, dirs_exist_ok=True)

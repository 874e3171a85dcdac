"""A session JSON file that is replaced as one should: a new file, synced, renamed into place, and the folder synced."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from perdure_evaluate.recovery.subjects.json_file import JsonFile


class JsonRenamed(JsonFile):
    """One file that is whole at every moment."""

    about = "a session JSON file: temporary file, fsync, rename, fsync of the folder"

    def keep(self, section: str, name: str, value: Any) -> None:  # noqa: ARG002 - all of it is written again
        """Replace it."""
        self.replace(self.path)

    def replace(self, path: Path) -> None:
        """Write all of it: the old file or the new one is there."""
        fresh = path.with_suffix(f".{os.getpid()}")
        with fresh.open("w") as file:
            file.write(json.dumps(self.kept))
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(path)
        folder = os.open(self.place.folder, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

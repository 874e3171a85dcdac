"""An append-only log of JSON lines, synced after every line. A last line that is torn is left out."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from perdure_evaluate.recovery.interface import Remembering


class JsonlLog(Remembering):
    """One file, `session.jsonl`; a line is [section, name, value]."""

    about = "an append-only JSON-lines log, fsync after every line"

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.place.folder / "session.jsonl"

    def load(self) -> dict[str, dict[str, Any]]:
        """Fold the lines. The line after a torn one begins on a line of its own, see `keep`."""
        sections: dict[str, dict[str, Any]] = {}
        for line in self.path.read_bytes().split(b"\n") if self.path.exists() else ():
            try:
                section, name, value = json.loads(line)
            except ValueError:
                continue
            sections.setdefault(section, {})[name] = value
        return sections

    def keep(self, section: str, name: str, value: Any) -> None:
        """Append one line. It begins with a line break, so that it cannot be lost with a torn line before it."""
        with self.path.open("ab") as file:
            file.write(b"\n" + json.dumps([section, name, value]).encode() + b"\n")
            file.flush()
            self.sync(file.fileno())

    def sync(self, file: int) -> None:
        """Make it durable."""
        os.fsync(file)

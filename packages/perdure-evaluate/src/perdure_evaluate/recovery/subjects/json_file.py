"""A session JSON file, rewritten in place after every operation: what one writes first.

A file that cannot be read is taken for none, as somebody would do who finds it so: delete it and begin anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from perdure_evaluate.recovery.interface import Remembering


class JsonFile(Remembering):
    """One file, `session.json`."""

    about = "a session JSON file, rewritten in place"

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.place.folder / "session.json"

    def load(self) -> dict[str, dict[str, Any]]:
        """The last saved state."""
        try:
            return json.loads(self.path.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return {}

    def keep(self, section: str, name: str, value: Any) -> None:  # noqa: ARG002 - all of it is written again
        """Rewrite it. Opening it for writing has emptied it: until the last byte, nothing is there."""
        with self.path.open("w") as file:
            file.write(json.dumps(self.kept))

"""An agent on a session file that is never torn: a new file is written, synced and renamed into place.

This is the best that a file can do. It remembers all that was saved, and not what was done and not saved yet.
"""

from __future__ import annotations

import json
import os
from typing import Any

from demo.naive import SessionFile, live
from perdure.model.crash_points import reach


class RenamedFile(SessionFile):
    """The actions done so far, in one JSON file: the old one or the new one, whatever crashes."""

    def save(self, done: list[dict[str, Any]]) -> None:
        """Put a new file in the place of the old one."""
        reach("effect.commit.before")
        beside = self.path.with_suffix(".new")
        with beside.open("w") as file:
            json.dump(done, file)
            file.flush()
            os.fsync(file.fileno())
        reach("lane.before_commit")
        beside.replace(self.path)
        reach("effect.commit.after")


def main() -> None:
    """Resume from the session file, and work to the end."""
    live(RenamedFile)


if __name__ == "__main__":
    main()

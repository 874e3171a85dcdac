"""A SQLite row that holds the whole session as one blob, written anew after every operation."""

from __future__ import annotations

import json
from typing import Any

import apsw

from perdure_evaluate.recovery.interface import Remembering


class SqliteBlob(Remembering):
    """One file, `session.db`, one table, one row; full sync."""

    about = "a SQLite row holding the session as one blob"

    def load(self) -> dict[str, dict[str, Any]]:
        """The last saved state."""
        rows = list(self.open().execute("SELECT body FROM session"))
        return json.loads(rows[0][0]) if rows else {}

    def keep(self, section: str, name: str, value: Any) -> None:  # noqa: ARG002 - all of it is written again
        """Write the row anew."""
        self.open().execute("INSERT OR REPLACE INTO session VALUES (1, ?)", (json.dumps(self.kept),))

    def open(self) -> apsw.Connection:
        """The database of this life."""
        if not hasattr(self, "raw"):
            self.raw = apsw.Connection(str(self.place.folder / "session.db"))
            self.raw.set_busy_timeout(5_000)
            self.raw.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
            self.raw.execute("CREATE TABLE IF NOT EXISTS session (id INTEGER PRIMARY KEY, body TEXT)")
        return self.raw

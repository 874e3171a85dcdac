"""Perdure on PostgreSQL: the same, in one schema for all cases, on a server that was started for it."""
# ruff: noqa: D102 - the verbs are described by the interface

from __future__ import annotations

import hashlib
from pathlib import Path

import perdure
from perdure_evaluate.recovery.subjects.perdure_sqlite import PerdureSqlite


class PerdurePostgres(PerdureSqlite):
    """Runs are named by the folder, as on SQLite. Its writes are those of the server."""

    about = "Perdure on PostgreSQL"
    needs = "postgres"
    written = False

    @property
    def schema(self) -> str:
        """The file `schema` of the folder says which, if it has one to itself."""
        own = self.place.folder / "schema"
        return own.read_text() if own.exists() else "evaluated"

    @property
    def url(self) -> str:
        return f"{self.place.server}?schema={self.schema}"

    def apart(self) -> None:
        own = hashlib.sha256(str(self.place.folder).encode()).hexdigest()[:16]
        (self.place.folder / "schema").write_text(f"own_{own}")
        perdure.open(self.url).close()

    def restore(self, source: Path) -> None:
        import psycopg  # noqa: PLC0415 - only where there is a server

        with psycopg.connect(self.place.server, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA {self.schema} CASCADE")  # type: ignore[arg-type] - our own name
        perdure.restore(source, self.url)

"""Perdure on PostgreSQL: the same, in one schema for all cases, on a server that was started for it."""
# ruff: noqa: D102 - the verbs are described by the interface

from __future__ import annotations

from perdure.evaluation.recovery.subjects.perdure_sqlite import PerdureSqlite


class PerdurePostgres(PerdureSqlite):
    """Runs are named by the folder, as on SQLite. What it writes is written by the server."""

    about = "Perdure on PostgreSQL"
    needs = "postgres"
    written = False

    @property
    def url(self) -> str:
        return f"{self.place.server}?schema=evaluated"

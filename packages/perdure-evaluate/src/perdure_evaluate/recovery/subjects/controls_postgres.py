"""Broken on purpose, on PostgreSQL: a row for every operation (`Rows`) would be sound but for effects that it did not keep.

Unlogged     the rows are in a table that a crash of the server empties
Unflushed    commits that do not wait for the disk
Deaf         errors of the server are not heeded
Again        what was not answered is done again
"""
# ruff: noqa: D102 - the verbs are described by the interface

from __future__ import annotations

import contextlib
import json
from typing import Any

import psycopg

from perdure_evaluate.recovery.interface import Remembering


class Rows(Remembering):
    """One table for all cases; a row is [case, section, name, value]."""

    needs = "postgres"
    written = False
    kind = ""
    settings = ""

    @property
    def table(self) -> str:
        return f"{type(self).__name__.lower()}_rows"

    def open(self) -> psycopg.Connection[Any]:
        """The connection of this life."""
        if not hasattr(self, "raw") or self.raw.closed:
            self.raw = psycopg.connect(self.place.server, autocommit=True, options=self.settings)
            columns = "story text, section text, name text, value text, PRIMARY KEY (story, section, name)"
            self.raw.execute(f"CREATE {self.kind} TABLE IF NOT EXISTS {self.table} ({columns})".encode())
        return self.raw

    def load(self) -> dict[str, dict[str, Any]]:
        sections: dict[str, dict[str, Any]] = {}
        query = f"SELECT section, name, value FROM {self.table} WHERE story = %s".encode()  # noqa: S608 - our own name
        for section, name, value in self.open().execute(query, [self.place.folder.name]):
            sections.setdefault(section, {})[name] = json.loads(value)
        return sections

    def keep(self, section: str, name: str, value: Any) -> None:
        row = (self.place.folder.name, section, name, json.dumps(value))
        written = f"INSERT INTO {self.table} VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING".encode()  # noqa: S608
        with self.open().transaction():
            self.raw.execute(written, row)


class Unlogged(Rows):
    """Fast, until the server dies."""

    about = "control: PostgreSQL rows in an unlogged table"
    kind = "UNLOGGED"


class Unflushed(Rows):
    """Fast, until the power goes."""

    about = "control: PostgreSQL rows; a commit does not wait for the disk"
    settings = "-c synchronous_commit=off"


class Deaf(Rows):
    """Continues whatever the server says."""

    about = "control: PostgreSQL rows; errors are not heeded"

    def keep(self, section: str, name: str, value: Any) -> None:
        with contextlib.suppress(psycopg.Error):
            super().keep(section, name, value)


class Again(Rows):
    """Takes no answer for a no."""

    about = "control: PostgreSQL rows; an effect whose COMMIT was not answered is done again"

    def act(self, name: str, kind: str, payload: Any) -> Any:
        with contextlib.suppress(psycopg.OperationalError):
            return super().act(name, kind, payload)
        del self.kept["effects"][name]
        return super().act(name, kind, payload)

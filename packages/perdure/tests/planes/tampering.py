"""An intruder with full rights on the database: changes anything past triggers and constraints, and covers
it up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import apsw

from perdure.stores.url import parse


class Intruder:
    """Runs statements on a store's database; `?` marks parameters on both."""

    def __init__(self, url: str) -> None:
        self.address = parse(url)
        self.sqlite = self.address.scheme == "sqlite"
        self._held: Any = None

    @contextmanager
    def staying(self) -> Iterator[None]:
        """Come in once, not for each statement."""
        with self._connected() as self._held:
            yield
        self._held = None

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        if self._held is not None:
            yield self._held
        elif self.sqlite:
            connection = apsw.Connection(str(self.address.path))
            try:
                yield connection
            finally:
                connection.close()
        else:
            import psycopg

            options = f"-c search_path={self.address.schema} -c session_replication_role=replica"
            with psycopg.connect(self.address.conninfo, autocommit=True, options=options) as connection:
                yield connection

    def run(self, text: str, *params: Any) -> None:
        """Change something, with every guard off while it happens and back afterwards."""
        with self._connected() as connection:
            if not self.sqlite:
                for part in filter(None, map(str.strip, text.split(";"))):
                    count = part.count("?")
                    connection.execute(part.replace("?", "%s"), params[:count])
                    params = params[count:]
                return
            connection.execute("PRAGMA ignore_check_constraints = ON")
            triggers = [*connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")]
            for name, _ in triggers:
                connection.execute(f"DROP TRIGGER {name}")
            for _ in connection.execute(text, params):
                pass
            for _, sql in triggers:
                connection.execute(sql)

    def ask(self, text: str, *params: Any) -> list[tuple[Any, ...]]:
        """Read something."""
        with self._connected() as connection:
            found = connection.execute(text if self.sqlite else text.replace("?", "%s"), params)
            return list(found)

    def one(self, text: str, *params: Any) -> Any:
        """The one value that a question has for an answer."""
        return self.ask(text, *params)[0][0]

    def raw(self, text: str) -> None:
        """Run something as it is, guards and all."""
        with self._connected() as connection:
            connection.execute(text)

    def drop_checks(self, table: str) -> None:
        """Take the constraints off a table of PostgreSQL (on SQLite they are off while the intruder
        works)."""
        if self.sqlite:
            return
        named = "SELECT conname FROM pg_constraint WHERE contype = 'c' AND conrelid = to_regclass(?)"
        for (name,) in self.ask(named, table):
            self.raw(f"ALTER TABLE {table} DROP CONSTRAINT {name}")

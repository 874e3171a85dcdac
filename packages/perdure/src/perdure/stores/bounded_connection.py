"""A psycopg connection whose waits are bounded, and whose commits are believed only without a warning (docs/decisions/0146).

Callers: `postgres`. Keeps P1, P15.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import psycopg
from psycopg import waiting

_INTERRUPT_SECONDS = 0.1  # how often a wait looks whether it is interrupted
_NO_WARNINGS = ("NOTICE", "INFO", "LOG", "DEBUG")  # as no locale translates them
# Nothing, where commits wait for nobody. An empty transaction would not wait: it writes no WAL.
CONFIRM = """SELECT CASE WHEN current_setting('synchronous_standby_names') <> ''
  AND current_setting('transaction_read_only') = 'off' THEN pg_logical_emit_message(true, 'perdure', '') END"""


class BoundedConnection(psycopg.Connection[Any]):
    """Every wait for an answer ends, also when the server or the network has gone silent without closing."""

    wait_seconds = 60.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._commits = False
        self._warnings: list[str] = []
        self.add_notice_handler(partial(_keep_warning, self._warnings))

    def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:
        """Drive a conversation with the server; OperationalError when it takes too long.

        An interrupt cancels the statement in the server, but never a commit, which would end its wait for a standby.
        """
        if not self._commits:
            return super().wait(gen, *args, **{"timeout": self.wait_seconds, **kwargs})
        try:
            return waiting.wait(gen, self.pgconn.socket, interval=_INTERRUPT_SECONDS, timeout=self.wait_seconds)
        except BaseException as error:
            if not isinstance(error, Exception):
                self.pgconn.finish()
            raise

    @contextlib.contextmanager
    def committing(self) -> Iterator[None]:
        """The statement inside commits. OperationalError when a warning comes with its reply, whatever it says: the server may
        have stopped waiting for a standby (docs/decisions/0146). The connection is dropped then.
        """
        self._warnings.clear()
        self._commits = True
        try:
            yield
        finally:
            self._commits = False
        if self._warnings:
            self.close()
            raise psycopg.OperationalError(
                f"it may have been written, but not confirmed by a standby ({self._warnings[0]})"
            )


def _keep_warning(warnings: list[str], notice: psycopg.errors.Diagnostic) -> None:
    if notice.severity_nonlocalized not in _NO_WARNINGS:
        warnings.append(notice.message_primary or "")

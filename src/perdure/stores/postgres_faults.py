"""The meaning of a failure of PostgreSQL for the next step, by its SQLSTATE. Callers: `postgres` and `scripts`."""

from __future__ import annotations

import psycopg

from perdure.stores.store import Fault, FaultKind

_FAULTS = {
    "08": FaultKind.LOST,  # connection exceptions
    "57P01": FaultKind.LOST,  # admin shutdown
    "57P02": FaultKind.LOST,  # crash shutdown
    "57P03": FaultKind.LOST,  # cannot connect now
    "57P05": FaultKind.LOST,  # idle session timeout
    "25P03": FaultKind.LOST,  # idle in transaction timeout
    "25P04": FaultKind.LOST,  # transaction timeout
    "26000": FaultKind.LOST,  # no such prepared statement: a pooler gave us another backend
    "40": FaultKind.RACED,  # serialisation failure, deadlock
    "22012": FaultKind.RACED,  # division by zero: the guard of a head that had moved
    "23505": FaultKind.RACED,  # somebody else made the same row
    "55P03": FaultKind.BUSY,  # lock timeout
    "57014": FaultKind.BUSY,  # statement timeout
    "53100": FaultKind.FULL,
    "53": FaultKind.BUSY,  # too many connections, out of memory
    "25006": FaultKind.READ_ONLY,
    "28": FaultKind.REFUSED,  # authorisation
    "3D": FaultKind.REFUSED,  # no such database
    "42501": FaultKind.REFUSED,
    "58": FaultKind.IO,
    "XX00": FaultKind.DAMAGED,
}


RIGHTS = (
    "GRANT the role USAGE on the schema, SELECT, INSERT, UPDATE and DELETE on its tables and USAGE on its sequences (for reading"
    " only: SELECT); CREATE is for who makes or migrates the store"
)


_HINTS = {
    "42501": RIGHTS,
    "25006": "open it without read_only; if it was, this server is a standby: name the primary, or all of them with"
    " target_session_attrs=read-write",
}


def fault_of(error: psycopg.Error) -> Fault:
    """The kind of a failure, by its SQLSTATE."""
    state = error.sqlstate or ""
    for length in (5, 4, 2):
        kind = _FAULTS.get(state[:length])
        if kind is not None:
            return Fault(kind, error, _HINTS.get(state, ""))
    lost = not state and isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
    return Fault(FaultKind.LOST if lost else FaultKind.BROKEN, error)

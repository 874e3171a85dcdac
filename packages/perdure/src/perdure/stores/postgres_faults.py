"""The meaning of a failure of PostgreSQL for the next step, by its SQLSTATE. Callers: `postgres` and `scripts`."""

from __future__ import annotations

import os
import re

import psycopg
from psycopg.conninfo import conninfo_to_dict

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


# Failures of a new connection, by their text: whether it may be tried again, and the next step.
_DIALLED: tuple[tuple[str, FaultKind, str], ...] = (
    ("failed to resolve host|could not translate host name", FaultKind.LOST,
     "no such host: correct its name (tried {where})"),
    ("password authentication failed|no password supplied", FaultKind.REFUSED,
     "correct user or password; PGPASSWORD or ~/.pgpass keeps it out of URLs"),
    ("database .* does not exist", FaultKind.REFUSED, "correct the database's name, or make it: createdb {dbname}"),
    ("role .* does not exist", FaultKind.REFUSED, "correct the user's name, or make the role: createuser {user}"),
    (r"no pg_hba\.conf entry", FaultKind.REFUSED,
     "the server lets this user in from other addresses or with other means only: see its pg_hba.conf"),
    ("permission denied|not permitted to log in|does not exist|authentication failed", FaultKind.REFUSED,
     "check user, database and the role's rights"),
    ("certificate", FaultKind.REFUSED, "check sslmode and sslrootcert, and the server's certificate"),
    ("timeout expired|timed out", FaultKind.LOST, "check host and port, and firewalls on the way (tried {where})"),
    ("Connection refused|No such file or directory", FaultKind.LOST,
     "start the server, or correct host and port (tried {where})"),
    ("invalid response|does not support SSL|unexpected message", FaultKind.LOST,
     "check host, port and sslmode: something else may answer there (tried {where})"),
)  # fmt: skip
_LIBPQ_ASKS = re.compile(r"\s*Is the server running[^?]*\?")  # our hint says it


def dial_fault(error: psycopg.Error, conninfo: str) -> Fault:
    """The failure of a new connection, with the next step: where it was tried, never with which password."""
    known = fault_of(error)
    said = _LIBPQ_ASKS.sub("", str(error))
    for pattern, kind, hint in _DIALLED:
        if re.search(pattern, said):
            return Fault(known.kind if error.sqlstate else kind, said, hint.format(**_tried(conninfo)))
    return Fault(known.kind, said, known.hint)


def _tried(conninfo: str) -> dict[str, str]:
    """The address and names of a connection that failed, as libpq takes them. A URL that lacks its host or an escape has part of
    the password in other places: a port that may be such is not shown.
    """
    given = conninfo_to_dict(conninfo)
    host = str(given.get("host") or given.get("hostaddr") or os.environ.get("PGHOST") or "the local socket")
    port = str(given.get("port") or os.environ.get("PGPORT") or 5432)
    user = str(given.get("user") or os.environ.get("PGUSER") or "NAME")
    # A malformed URL may have its password where the port belongs.
    is_port = port.replace(",", "").isdecimal() and "@" not in str(given.get("dbname"))
    return {
        "where": f"{host}, port {port}" if is_port else host,
        "user": user,
        "dbname": str(given.get("dbname") or user),
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

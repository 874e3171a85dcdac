"""The duties of a database that is to be a store. `sqlite` and `postgres` implement this; `lane` and `tx` use nothing else.

A connection belongs to whoever holds it: the lane has one for writing, readers borrow others. Keeps P1 and P9.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from perdure.errors import Conflict, Damaged, Error, Full, Invalid, ReadOnly, Refused, TimedOut, Unavailable
from perdure.log.change import Stream
from perdure.log.event import Event
from perdure.log.table import Table
from perdure.model.records.integrity import Aside
from perdure.stores.blobs import BlobRow
from perdure.stores.statements import Statement

if TYPE_CHECKING:
    from perdure.stores.clocks import Clocks

Params = Mapping[str, Any]
Rows = list[tuple[Any, ...]]
Head = tuple[int, bytes]  # sequence and hash
# In place of a tenant's number: the reader looks at all of them; or at no tenant's rows, but at names and facts of the store.
WHOLE_STORE, NO_TENANT = 0, -1


class FaultKind(enum.StrEnum):
    """Why a database call did not work, as far as the next step depends on it."""

    BUSY = "busy"  # somebody else writes: try again
    LOST = "lost"  # the connection is gone: connect and try again
    RACED = "raced"  # a head moved or a row appeared meanwhile: run the verbs again
    FULL = "full"
    IO = "io"
    READ_ONLY = "read-only"
    DAMAGED = "damaged"
    FOREIGN = "foreign"  # not a database at all
    TAKEN = "taken"  # such a row is there already, and no race put it there
    REFUSED = "refused"
    BROKEN = "broken"  # a constraint or a bug


RETRYABLE = frozenset({FaultKind.BUSY, FaultKind.LOST, FaultKind.RACED})

_LATER = "somebody else holds it: try again later, or open the store with a longer timeout"
_ROOM = "free some space; nothing was written, and reads continue"
_WRITABLE = "open it without read_only, where file and folder may be written; for reading, read_only=True is enough"
_RESTORE = "perdure doctor says more; perdure restore BACKUP --store URL makes a new store from a backup"
_ANOTHER = "name another file; if it was a store once, move it away and restore a backup"

# The errors that callers get: the class, the words before the database's own, and the way out.
_ERRORS: dict[FaultKind, tuple[type[Error], str, str]] = {
    FaultKind.BUSY: (TimedOut, "the database stayed busy", _LATER),
    FaultKind.LOST: (Unavailable, "the database does not answer", ""),
    FaultKind.RACED: (Conflict, "others kept writing the same stream", ""),
    FaultKind.FULL: (Full, "the disk is full", _ROOM),
    FaultKind.IO: (Unavailable, "reading or writing the disk failed", ""),
    FaultKind.READ_ONLY: (ReadOnly, "the store can only be read", _WRITABLE),
    FaultKind.DAMAGED: (Damaged, "the database is damaged", _RESTORE),
    FaultKind.FOREIGN: (Damaged, "", _ANOTHER),
    FaultKind.TAKEN: (Conflict, "there is such a row already", ""),
    FaultKind.REFUSED: (Refused, "the database refuses", ""),
    FaultKind.BROKEN: (Invalid, "the database refused the change", ""),
}


class Fault(Exception):
    """A failed database call. The lane decides what follows; what cannot be retried becomes an error of the tree.

    `hint` is the way out, where it is another than the usual one of this kind.
    """

    def __init__(self, kind: FaultKind, cause: BaseException | str, hint: str = "") -> None:
        super().__init__(str(cause))
        self.kind = kind
        self.hint = hint

    def as_error(self, path: str = "store") -> Error:
        """The error that a caller gets."""
        error_class, what, hint = _ERRORS[self.kind]
        return error_class(f"{what}: {self}" if what else str(self), path=path, hint=self.hint or hint)


class NewEvent(NamedTuple):
    """An event on its way in, in the order of EVENT_COLUMNS."""

    tenant: int
    stream: int
    seq: int
    kind: str
    tbl: str
    actor: str
    at: int
    codec: int
    tx: bytes
    commitment: bytes
    hash: bytes
    salt: bytes | None
    body: bytes | None


class HeadMove(NamedTuple):
    """A head on its way from one place to the next; the store moves it only from `before`."""

    stream: int
    before: Head
    after: Head


class NewStream(NamedTuple):
    """A stream that begins in this transaction."""

    stream: Stream
    head: Head


class Writes(msgspec.Struct):
    """Everything that one flush writes, set-wise."""

    streams: list[NewStream] = []
    heads: list[HeadMove] = []
    events: list[NewEvent] = []
    blobs: list[tuple[Any, ...]] = []
    puts: dict[Table, list[list[Any]]] = {}
    deletes: dict[Table, list[list[Any]]] = {}
    empties: list[tuple[int, int]] = []  # stream and seq of events whose body goes, and with it what only they gave

    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return not (
            self.heads or self.events or self.puts or self.deletes or self.streams or self.blobs or self.empties
        )


class History(NamedTuple):
    """Which history of a database a connection leads to, as far as the server says so: None where it does not.

    recovers: it is a standby. synchronous: its commits wait for another server. followed: it followed another server until it was
    promoted, and was not taken back to a chosen point.
    """

    system: str | None
    line: int | None
    recovers: bool = False
    synchronous: bool = False
    followed: bool = False

    @property
    def name(self) -> str:
        """The history in one word, as `meta` keeps it; "" where it is not told."""
        return "" if self.system is None or self.line is None else f"{self.system}/{self.line}"


class Connection(Protocol):
    """One connection. Every method raises Fault and nothing else when the database fails.

    tenants: whose rows the next transaction may see and write, for a database that has a wall of its own around tenants.
    walled: whether that wall holds for this connection's role, so that it sees these tenants alone.
    """

    dialect: str
    is_server: bool  # as its engine's
    file: str  # of the database; "" where there is none
    is_cache: bool  # whether all in it can be made again: then nothing of the user's belongs into it
    tenants: Sequence[int]
    walled: bool

    def query(self, statement: Statement, params: Params) -> Rows:
        """Run one read; inside `begin` it sees the transaction."""
        ...

    def select_row(self, table: Table, stream: int, tenant: int, key: Sequence[Any]) -> tuple[Any, ...] | None:
        """One row by its key, in the order of `all_columns`."""
        ...

    def begin(self) -> None:
        """Begin to write. SQLite takes its lock here; PostgreSQL waits until the first statement needs it."""
        ...

    def begin_reading(self) -> None:
        """See one state of the database from the first query on, until `rollback`."""
        ...

    def heads(self, streams: Sequence[int], *, lock: bool) -> dict[int, Head]:
        """The heads of these streams, in order, locked if asked."""
        ...

    def new_stream_ids(self, count: int) -> list[int]:
        """Ids that nobody else gets."""
        ...

    def new_tenant(self, name: str, uid: bytes) -> int:
        """Insert a tenant inside the transaction; returns its number."""
        ...

    def write(self, writes: Writes, *, commit: bool) -> None:
        """Flush; with `commit`, also commit: afterwards it is durable (P1), and so is all that was to be seen before, also when
        there was nothing to write. RACED if a head had moved.
        """
        ...

    def backlog(self) -> int:
        """How many pages of a WAL beside the file are not in it yet; 0 where there is none. Asking moves nothing."""
        ...

    def share_blobs(self, tenant: int) -> None:
        """Inside a transaction: no blob row of a tenant goes before it ends. A flush that keeps blobs does this by itself."""
        ...

    def claim_blobs(self, tenant: int) -> None:
        """Inside a transaction: wait until nobody shares, and until its end nobody can (the collector's side)."""
        ...

    def drop_blobs(self, tenant: int, addresses: Sequence[bytes]) -> None:
        """Delete blob rows, at once; only after `claim_blobs`."""
        ...

    def rollback(self) -> None:
        """Forget what was not committed; never raises."""
        ...

    def close(self) -> None:
        """Let the connection go; never raises."""
        ...


class Engine(Protocol):
    """A database as a store: connections, and what it promises about them."""

    dialect: str
    url: str
    exact_heads: bool  # whether heads read inside a transaction cannot move before it commits
    one_connection: bool  # whether readers must share the lane's connection (memory)
    is_server: bool  # its clock decides, its users are on many machines, and it tells them of commits
    joins_transactions: bool  # whether our writes can be part of a transaction of the user's (`user_transaction`)
    quick_reads: bool  # whether a row that was just read is read again in microseconds, waiting for nobody (`glances`)
    blobs_inside_max_bytes: int  # larger ones lie in the artifact place, if there is one; -1: all of them do
    plain_text_blobs: (
        bool  # documents in blobs are not compressed by us: SQL can read them, and the server compresses them
    )

    def prepare(self) -> None:
        """Before anything else: make ready what lies beside the database. Mostly nothing."""
        ...

    def asides(self) -> list[Aside]:
        """Lines beside the database that should be in it and could not be loaded. Only a log of lines can have such."""
        ...

    def contradictions(self) -> list[str]:
        """Contradictions between the database and the log of lines beside it. Only a cache of such a log can say so."""
        ...

    def lingering(self) -> int:
        """How many bodies that went still stand beside the database. Only a log of lines can hold such."""
        ...

    def purge(self) -> int:
        """Take those out of there; returns how many stay because they cannot be. Repeatable, also after a crash."""
        ...

    def history_of(self, connection: Any) -> History | None:
        """The history that a connection leads to; None where the database has none but its own file (`rollback_guard`)."""
        ...

    def look_back(self, connection: Any, event: tuple[int, int]) -> tuple[str | None, str | None, bytes | None]:
        """The store's epoch, the history that it says it is of, and the hash of an event: only with `history_of`."""
        ...

    def raise_wall(self) -> None:
        """Wall tenants off inside the database. Idempotent. Invalid where it has no roles."""
        ...

    def check_wall(self) -> None:
        """Refused where this role could see every tenant of a database that has roles."""
        ...

    def connect(self) -> Connection:
        """A connection that may write.

        It is given out only when nothing that a lost one had sent can still happen: so whoever asks on it what
        became of a COMMIT without a reply gets the last word. The lane rests on this (P1, P3).
        """
        ...

    def reader(self) -> Connection:
        """A connection for reading."""
        ...

    def quick_reader(self) -> Connection:
        """A connection for reading that waits for no lock: whoever meets one gets a Fault. Only with `quick_reads`."""
        ...

    def close(self) -> None:
        """Let everything go."""
        ...


class WithoutQuickReads:
    """An engine whose reads may wait: for a network, a log of lines, or the connection that all share."""

    quick_reads = False

    def quick_reader(self) -> Connection:
        """Nobody asks for it."""
        raise NotImplementedError


class WithoutLines:
    """An engine without a log of lines beside its database."""

    def prepare(self) -> None:
        """Nothing: there is only the database."""

    def asides(self) -> list[Aside]:
        """Nothing, likewise."""
        return []

    def contradictions(self) -> list[str]:
        """Nothing, likewise."""
        return []

    def lingering(self) -> int:
        """None, likewise."""
        return 0

    def purge(self) -> int:
        """Nothing, likewise."""
        return 0

    def history_of(self, connection: Any) -> History | None:  # noqa: ARG002 - for those that have one
        """None: a database in a file has no server."""
        return None

    def look_back(self, connection: Any, event: tuple[int, int]) -> tuple[str | None, str | None, bytes | None]:
        """Never asked: there is no history."""
        raise AssertionError(connection, event)


def check_sees_all(connection: Connection) -> None:
    """Refuse a role that row-level security leaves blind: a store looks empty to it. Every reader of a whole store comes by here
    before it reads or changes anything.
    """
    if connection.walled:
        raise Refused(
            "row-level security hides tenants from this role, so it would not see the whole store", path="store",
            hint="connect as the keeper (perdure_keeper): docs/deploy.md says which role is for which command",
        )  # fmt: skip


class WithoutRoles:
    """An engine whose database has no roles: a tenant is walled off by a file of its own."""

    def raise_wall(self) -> None:
        """Never."""
        hint = "on SQLite a tenant is a file of its own: perdure serve --store 'sqlite:///folder/{tenant}.db'"
        raise Invalid("only PostgreSQL has roles", path="roles", hint=hint)

    def check_wall(self) -> None:
        """Nothing: who may open the file sees all of it."""


class Reads(Protocol):
    """The reads of a verb: a transaction and a plain reader both offer them."""

    def query(self, statement: Statement, *, touches: Iterable[tuple[Table, int]] = (), **params: Any) -> Rows:
        """Run a named statement. `touches` names the tables and streams it looks at, so that own writes are seen."""
        ...

    @property
    def tenant(self) -> int:
        """The tenant whose state is read; verbs put it into every query across streams."""
        ...

    @property
    def clocks(self) -> Clocks:
        """The clocks that decide whether a lease is over: the time, and the proof that a holder is dead."""
        ...

    def row(self, table: Table, stream: Stream, *key: Any) -> dict[str, Any] | None:
        """One row by key."""
        ...

    def blob(self, address: str) -> bytes:
        """The bytes of a blob, verified."""
        ...

    def open_blob(self, address: str) -> Iterator[bytes]:
        """Read a blob piece by piece; Damaged comes before the last one."""
        ...

    def known(self, addresses: Collection[bytes]) -> set[bytes]:
        """Which of these blobs are stored. In a transaction they then stay until its end; elsewhere it is only a hint."""
        ...

    def fetch(self, addresses: Collection[bytes]) -> dict[bytes, bytes]:
        """The bytes of these blobs, verified; those that are not stored are left out."""
        ...

    def pack(self, data: bytes) -> BlobRow:
        """The row that keeps these bytes, for `tx.keep_row`: what costs time is done here, outside the lane."""
        ...


def event_of(row: tuple[Any, ...]) -> Event:
    """An event from a row in the order of `event_columns` in log.sql."""
    return Event(*row)

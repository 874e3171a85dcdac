"""A program that books orders in a table of its own and in the ledger, and is killed before each statement in turn.

booker.py URL together   both in one transaction: `tx.sql` on SQLite, `store.atomic(fn, on=connection)` on PostgreSQL
booker.py URL apart      a control: the row in one transaction, the ledger in another

One order for each point: booked by a child that is killed there, looked at, booked again by one that is not, looked at again;
until there is no such point any more, or the two differ. Prints as JSON how many points there were, what it saw ([rows,
committed effects] after each kill, and in the end), and whether the store verifies.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import perdure
from perdure.handles.sync import store as loaded_once  # noqa: F401 - not in every child
from perdure.runtime.callers import caller_of
from perdure.stores.url import parse

try:
    import psycopg
except ImportError:
    psycopg = None

Book = Callable[[Any, int], None]


class Countdown:
    """Kills this process before the n-th statement from now; 0: never."""

    left = 0

    @classmethod
    def tick(cls, *_: object) -> bool:
        cls.left -= 1
        if cls.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return True


def book(tx: Any, order: int, insert: Callable[[], object]) -> None:
    effect = tx.session("orders").begin("book", {"order": order}, key=f"book-{order}")
    if not effect.settled:
        effect.dispatch()
        insert()
        effect.commit({"order": order})


# -- SQLite -------------------------------------------------------------------------------------------------


def sqlite_prepared(store: Any) -> None:
    store.atomic(lambda tx: tx.sql("CREATE TABLE bookings (number INTEGER NOT NULL)"))


def counting(store: Any) -> None:
    store.atomic(lambda tx: None)  # connects
    caller_of(store).core.lane._connection.raw.exec_trace = Countdown.tick


def sqlite_together(store: Any, order: int) -> None:
    store.atomic(lambda tx: book(tx, order, lambda: tx.sql("INSERT INTO bookings VALUES (?)", (order,))))


def sqlite_apart(store: Any, order: int) -> None:
    store.atomic(lambda tx: tx.sql("INSERT INTO bookings VALUES (?)", (order,)))
    store.atomic(lambda tx: book(tx, order, lambda: None))


def sqlite_rows(store: Any, order: int) -> int:
    return store.atomic(lambda tx: tx.sql("SELECT count(*) FROM bookings WHERE number = ?", (order,)))[0][0]


# -- PostgreSQL ---------------------------------------------------------------------------------------------


if psycopg is not None:

    class Counted(psycopg.Connection[Any]):
        """The user's own connection. Everything that goes to the server is waited for here."""

        def wait(self, *args: Any, **kwargs: Any) -> Any:
            Countdown.tick()
            return super().wait(*args, **kwargs)


def connected(store: Any) -> Any:
    core = caller_of(store).core
    return Counted.connect(parse(core.engine.url).conninfo, options=f"-c search_path={core.engine.schema}_own")


def postgres_prepared(store: Any) -> None:
    own = f"{caller_of(store).core.engine.schema}_own"
    with connected(store) as connection:
        connection.execute(f"CREATE SCHEMA {own}")
        connection.execute("CREATE TABLE bookings (number bigint NOT NULL)")


def postgres_together(store: Any, order: int) -> None:
    with connected(store) as connection:
        insert = lambda: connection.execute("INSERT INTO bookings VALUES (%s)", (order,))  # noqa: E731
        store.atomic(lambda tx: book(tx, order, insert), on=connection)


def postgres_apart(store: Any, order: int) -> None:
    with connected(store) as connection:
        connection.execute("INSERT INTO bookings VALUES (%s)", (order,))
    with connected(store) as connection:
        store.atomic(lambda tx: book(tx, order, lambda: None), on=connection)


def postgres_rows(store: Any, order: int) -> int:
    with connected(store) as connection:
        return connection.execute("SELECT count(*) FROM bookings WHERE number = %s", (order,)).fetchone()[0]


# -- the sweep ----------------------------------------------------------------------------------------------


def forked(work: Callable[..., Any], *args: Any) -> tuple[int, Any]:
    """Do it in a child: how that ended, and what it gave."""
    said, say = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(say, json.dumps(work(*args)).encode())
        os._exit(0)
    os.close(say)
    with os.fdopen(said) as pipe:
        text = pipe.read()
    return os.waitpid(pid, 0)[1], json.loads(text or "null")


def kind(url: str) -> str:
    return "sqlite" if url.startswith("sqlite") else "postgres"


def prepared(url: str) -> None:
    with perdure.open(url) as store:
        globals()[f"{kind(url)}_prepared"](store)
        store.session("orders")


def booked(url: str, work: Book, order: int, nth: int) -> None:
    with perdure.open(url) as store:
        if kind(url) == "sqlite":
            counting(store)
        Countdown.left = nth
        work(store, order)
        Countdown.left = 0


def after(url: str, work: Book, order: int) -> list[list[int]]:
    """What a kill left, and what there is when it was done again."""
    with perdure.open(url) as store:
        left = seen(store, order)
        work(store, order)
        return [left, seen(store, order)]


def seen(store: Any, order: int) -> list[int]:
    rows = globals()[f"{kind(caller_of(store).core.engine.url)}_rows"](store, order)
    return [rows, sum(each.key == f"book-{order}" for each in store.effects(state="committed", limit=1000))]


def verified(url: str) -> bool:
    with perdure.open(url) as store:
        if kind(url) == "postgres":
            with connected(store) as connection:
                connection.execute(f"DROP SCHEMA {caller_of(store).core.engine.schema}_own CASCADE")
        return store.verify().ok


def main(url: str, how: str) -> None:
    work = globals()[f"{kind(url)}_{how}"]
    forked(prepared, url)
    killed, ended = [], []
    for order in itertools.count(1):
        status, _ = forked(booked, url, work, order, order)
        left, then = forked(after, url, work, order)[1]
        killed.append(left)
        ended.append(then)
        if status == 0 or left[0] != left[1]:
            break
        assert os.WIFSIGNALED(status), status
    ok = forked(verified, url)[1]
    said = {"points": len(killed) - 1, "killed": killed, "ended": ended, "verified": ok}
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    main(*sys.argv[1:])

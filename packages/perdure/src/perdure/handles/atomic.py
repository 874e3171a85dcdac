"""Several verbs in one commit: sync handles that write into a transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, NoReturn, ParamSpec, TypeVar

from perdure.errors import Invalid, Refused
from perdure.log.change import Stream
from perdure.planes.conversation import sessions
from perdure.planes.execution import runs, steps
from perdure.planes.memory import values
from perdure.planes.reading.durations import Duration
from perdure.planes.recovery import locks
from perdure.runtime import fences
from perdure.runtime.callers import Args, AsyncCaller, Caller, Check, Kwargs
from perdure.runtime.heartbeat import Heartbeat, HeldBack
from perdure.stores.core import Reader
from perdure.stores.job import Job
from perdure.stores.tx import Tx
from perdure.stores.user_sql import run_sql

if TYPE_CHECKING:
    from perdure.handles.sync.effects import Effect
    from perdure.handles.sync.run_handle import RunHandle
    from perdure.handles.sync.session import Scope, Session

T = TypeVar("T")
P = ParamSpec("P")


class TxCaller(Caller):
    """Calls verbs inside one transaction: nothing is committed before the function returns.

    Handles that outlive it are refused (by the transaction, which is over), unless `settle` says that it was
    committed and that they may go on by themselves.
    """

    __slots__ = ("_settled", "_tx")

    def __init__(self, tx: Tx, caller: Caller | AsyncCaller) -> None:
        super().__init__(caller.core, tx.actor, tx.tenant, HeldBack(caller.heartbeat), for_client=caller.for_client)
        self._tx = tx
        self._settled = False
        self.road = _Inside(self)

    def settle(self, heartbeat: Heartbeat) -> None:
        """The commit is done, and sync code got the handles: each verb is a commit of its own from here on."""
        self.heartbeat = heartbeat
        self.road = self.core.lane
        self._settled = True

    def inside(self, verb: Callable[..., T], *args: Any, pin: str = "", **kwargs: Any) -> T:
        """Run a verb in this transaction and nowhere else."""
        self._tx.pin = pin
        return verb(self._tx, *args, **kwargs)

    def read(self, verb: Callable[Concatenate[Reader, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a read verb in this transaction: it sees what was written in it."""
        if self._settled:
            return super().read(verb, *args, **kwargs)
        reads: Any = self._tx  # handles that read in a session ask for no more than `Reads`
        return verb(reads, *args, **kwargs)

    def work(self, task: Callable[..., T], *args: Any) -> T:
        """Do blocking work, while there is a transaction to do it for."""
        if not self._settled:
            _ = self._tx.uid  # refused when it is over
        return super().work(task, *args)

    def pause(self, seconds: float, check: Check | None = None) -> None:
        """Nothing waits inside a transaction: everybody else would wait with it."""
        if self._settled:
            return super().pause(seconds, check)
        raise Refused(f"store.atomic cannot wait (here for {seconds:g} s)", path="wait")

    def fenced(self, verb: Callable[Concatenate[Tx, P], T]) -> Callable[Concatenate[Tx, P], T]:
        """The verb as it is, inside the transaction: that is fenced whole, and another's thread may be carrying it out."""
        return super().fenced(verb) if self._settled else verb

    def enter(self, fence: locks.Fence) -> fences.LockBlock | None:
        """Nothing, inside the transaction: nobody can lose a lock in the middle of it."""
        return super().enter(fence) if self._settled else None

    def check_may_send(self) -> None:
        """Refused inside the transaction: the intent of an effect would not be durable before it is sent (P2)."""
        if not self._settled:
            hint = "act before or after store.atomic; an effect on rows of your own: begin, dispatch, tx.sql, commit"
            raise Refused("no external system can be called inside store.atomic", path="act", hint=hint)

    def check_may_search(self) -> None:
        """Refused inside the transaction: only what is committed is searched, and the index is brought up to date by others."""
        if not self._settled:
            raise Refused(
                "recall and search are not possible inside store.atomic",
                path="search",
                hint="call them before or after it",
            )


class _Inside:
    """The road of a job inside an open transaction."""

    __slots__ = ("_caller",)

    def __init__(self, caller: TxCaller) -> None:
        self._caller = caller

    def run(self, job: Job) -> Any:
        """Run its verb in this transaction."""
        return self._caller.inside(job.verb, *job.args, pin=job.pin, **job.kwargs)

    def submit(self, job: Job) -> NoReturn:
        """Nothing: `fn` of `store.atomic` is sync code."""
        raise AssertionError(job.verb)


class JoinedCaller(TxCaller):
    """Calls verbs inside the user's own transaction. Attendance of a session is not written there: it may stay open long.

    mark: called after each verb. A rollback of the user's to a savepoint before that verb is noticed by it.
    """

    __slots__ = ("_mark",)

    def __init__(self, tx: Tx, caller: Caller | AsyncCaller, mark: Callable[[], object]) -> None:
        super().__init__(tx, caller)
        self._mark = mark

    def inside(self, verb: Callable[..., T], *args: Any, pin: str = "", **kwargs: Any) -> T:
        """Run a verb in this transaction and nowhere else."""
        result = super().inside(verb, *args, pin=pin, **kwargs)
        self._mark()
        return result

    def write_in(self, stream: Stream, verb: Callable[..., T], args: Args, kwargs: Kwargs, pin: str = "") -> T:
        """Run a verb on a stream."""
        return self.run(verb, (stream, *args), kwargs, pin)


class Atomic:
    """The argument that `store.atomic(fn)` passes to `fn`: all writes through its sessions and scopes land in one commit.

    It is valid until `fn` returns; afterwards it raises Refused.
    """

    __slots__ = ("_caller",)

    def __init__(self, caller: TxCaller) -> None:
        self._caller = caller

    def session(
        self,
        name: str,
        *,
        title: str = "",
        labels: Iterable[str] = (),
        goal: str | None = None,
        ttl: Duration | None = None,
        pins: Mapping[str, Any] | None = None,
    ) -> Session:
        """Get or create a session, in this commit. The options are for its creation, as in `store.session`."""
        from perdure.handles.sync.session import Session  # noqa: PLC0415 - sync handles import this module

        stream, pin = self._caller.inside(
            sessions.open_session, name, title=title, labels=labels, goal=goal, ttl=ttl, pins=pins
        )
        return Session(self._caller, stream, pin)

    def scope(self, name: str) -> Scope:
        """Get or create a scope (values and memories that outlive a session), in this commit."""
        from perdure.handles.sync.session import Scope  # noqa: PLC0415 - as above

        return Scope(self._caller, self._caller.inside(values.open_scope, name))

    def inside(self, verb: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Run a verb of a plane in this commit."""
        return self._caller.inside(verb, *args, **kwargs)

    def effect(self, name: str) -> Effect:
        """Get an effect by the name that people use (`session:issue-42/12`), in this commit."""
        from perdure.effects import ledger, operator_verbs  # noqa: PLC0415 - as above
        from perdure.handles.sync.effects import Effect  # noqa: PLC0415 - as above

        stream, seq = self._caller.read(operator_verbs.locate, name, "effect")
        return Effect(self._caller, stream, "", self._caller.read(ledger.effect, stream, seq))

    def sql(self, statement: str, params: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[Any, ...]]:
        """Run SQL on tables of your own in the store's SQLite file, in this commit: your rows and ours land together or not at
        all.

        Raises Refused for the store's own tables, attached and temporary ones, pragmas and transaction control, and on other
        stores (PostgreSQL: `store.atomic(fn, on=connection)`). Raises Invalid or Conflict for a statement that the database
        refuses.
        """
        return self._caller.inside(run_sql, statement, params)


def run_in(tx: Atomic, name: str) -> RunHandle:
    """A run by its id, in this commit. For the door that carries out a keyed write of it."""
    from perdure.handles.sync.run_handle import RunHandle  # noqa: PLC0415 - as above

    stream = tx.inside(runs.find, name)
    return RunHandle(tx._caller, stream, tx.inside(runs.run, stream))


class Done(NamedTuple):
    """The result of `run_atomic`: the function's result, and what the commit that follows still has to be told to."""

    result: Any
    inside: TxCaller
    held_back: HeldBack


def run_atomic(tx: Tx, fn: Callable[[Atomic], Any], caller: Caller | AsyncCaller) -> Done:
    """The verb behind `store.atomic`."""
    inside = TxCaller(tx, caller)
    held_back = inside.heartbeat
    assert isinstance(held_back, HeldBack)
    return Done(fn(Atomic(inside)), inside, held_back)


def run_inside(
    tx: Tx, fn: Callable[[Atomic], Any], caller: Caller | AsyncCaller, mark: Callable[[], object] = lambda: None
) -> Any:
    """The verb behind `store.atomic(fn, on=connection)`. Handles made in it are over when it returns.

    mark: called after each verb. A transaction of our own needs none: nobody else can roll a part of it back.
    """
    return fn(Atomic(JoinedCaller(tx, caller, mark)))


def run_on(caller: Caller | AsyncCaller, verb: Callable[..., Any], fn: Callable[[Atomic], Any], connection: Any) -> Any:
    """Run `run_inside`, fenced or not, in a transaction of the user.

    The heartbeat is kept up until the store is closed: nobody says when the user commits what `fn` has dispatched or claimed.
    """
    core = caller.core
    if not core.engine.joins_transactions:
        hint = "on SQLite, tx.sql(…) inside store.atomic(fn) runs your statements in the same transaction"
        raise Refused("only a PostgreSQL store joins a transaction of yours", path="on", hint=hint)
    from perdure.stores.user_transaction import run_joined  # noqa: PLC0415 - an extra, loaded where it is used

    caller.heartbeat.keep_up(run_joined)
    return run_joined(core, connection, partial(verb, fn=fn, caller=caller), actor=caller.actor, tenant=caller.tenant)


def run_atomic_step(
    tx: Tx, stream: Stream, fn: Callable[..., Any], caller: Caller | AsyncCaller, place: str, name: str
) -> Done:
    """The verb behind `run.atomic`: the same as a step of a run. Invalid if its result cannot be kept."""
    done = run_atomic(tx, fn, caller)
    try:
        doc = steps.document(place, name, "", done.result, None, {})
    except Invalid as error:  # mostly a handle, or a record: they are of this moment
        error.hint = "return what the program needs of it (its .seq, .id, .value), or None"
        raise
    steps.done(tx, stream, doc)
    return done

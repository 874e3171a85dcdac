"""Several verbs in one commit: the sync handles on a transaction instead of a store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.errors import Refused
from perdure.handles.callers import AsyncCaller, Caller
from perdure.handles.heartbeat import HeldBack
from perdure.planes import conversation, values
from perdure.planes.spans import Duration
from perdure.stores.tx import Tx

if TYPE_CHECKING:
    from perdure.handles.sync.session import Scope, Session

T = TypeVar("T")


class TxCaller(Caller):
    """Calls verbs inside one transaction: nothing is committed before the function returns."""

    __slots__ = ("_tx",)

    def __init__(self, tx: Tx, caller: Caller | AsyncCaller) -> None:
        super().__init__(caller.core, tx.actor, tx.tenant, HeldBack(caller.heartbeat))
        self._tx = tx

    def write(self, verb: Callable[..., T], *args: Any, pin: str = "", **kwargs: Any) -> T:
        """Run a verb in this transaction."""
        self._tx.pin = pin
        return verb(self._tx, *args, **kwargs)

    def read(self, verb: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Run a read verb in this transaction: it sees what was written in it."""
        return verb(self._tx, *args, **kwargs)

    def pause(self, seconds: float) -> None:
        """Nothing waits inside a transaction: everybody else would wait with it."""
        raise Refused(f"nothing waits inside atomic (here for {seconds:g} s)", path="wait")


class Atomic:
    """What `store.atomic(fn)` passes to `fn`: sessions and scopes whose verbs all land in one commit."""

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
        """Get or create a session, in this commit. The options are for its creation, as in
        `store.session`.
        """
        from perdure.handles.sync.session import Session  # noqa: PLC0415 - sync handles import this module

        stream, pin = self._caller.write(
            conversation.open_session, name, title=title, labels=labels, goal=goal, ttl=ttl, pins=pins
        )
        return Session(self._caller, stream, pin)

    def scope(self, name: str) -> Scope:
        """Values that outlive a session, in this commit."""
        from perdure.handles.sync.session import Scope  # noqa: PLC0415 - as above

        return Scope(self._caller, self._caller.write(values.open_scope, name))


def run_atomic(tx: Tx, fn: Callable[[Atomic], T], caller: Caller | AsyncCaller) -> tuple[T, HeldBack]:
    """The verb behind `store.atomic`: the function's result, and what the heartbeat is to hear of after
    the commit.
    """
    inside = TxCaller(tx, caller)
    assert isinstance(inside.heartbeat, HeldBack)
    return fn(Atomic(inside)), inside.heartbeat

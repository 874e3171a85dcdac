# Generated from handles/aio/store.py by tools/unasync.py: edit that one.
"""The store as users hold it: sessions, scopes, and asking across everything."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from perdure.handles.atomic import Atomic, run_atomic
from perdure.handles.callers import Caller
from perdure.handles.sync.artifacts import ArtifactsAcross
from perdure.handles.sync.conversation import ConversationAcross
from perdure.handles.sync.decisions import DecisionsAcross
from perdure.handles.sync.happenings import HappeningsAcross
from perdure.handles.sync.session import Scope, Session
from perdure.handles.sync.upkeep import Upkeep
from perdure.handles.sync.work import WorkAcross
from perdure.model.limits import check_name
from perdure.planes import conversation, values

T = TypeVar("T")


class Store(
    ConversationAcross,
    WorkAcross,
    DecisionsAcross,
    HappeningsAcross,
    ArtifactsAcross,
    Upkeep,
):
    """An open store. Use it as a context manager, or call `close`."""

    def __init__(self, caller: Caller, *, owner: bool) -> None:
        super().__init__(caller)
        self._owner = owner

    @property
    def actor(self) -> str:
        """Who acts through this handle: every event names it."""
        return self._caller.actor

    def as_(self, actor: str) -> Store:
        """The same store, another actor. Closing it does nothing: the handle that was opened closes the store."""
        caller = Caller(self._caller.core, check_name(actor, "actor"), self._caller.tenant)
        return Store(caller, owner=False)

    def session(self, name: str, **options: Any) -> Session:
        """Get the session of this name, or create it. Options: see `planes.conversation.open_session`."""
        stream, pin = conversation_open(self._caller, name, options)
        return Session(self._caller, stream, pin)

    def scope(self, name: str) -> Scope:
        """Values that outlive a session: `user:alice`, `project:acme`."""
        stream = self._caller.write(values.open_scope, name)
        return Scope(self._caller, stream)

    def atomic(self, fn: Callable[[Atomic], T]) -> T:
        """Several verbs in one commit: `fn(tx)` gets the same verbs through `tx.session(…)` and `tx.scope(…)`.

        All of it or nothing. `fn` is sync and quick, calls nothing outside, and may be run again.
        """
        return self._caller.write(run_atomic, fn, self._caller.core)

    def close(self) -> None:
        """Finish what is queued and let the store go. Calling it again does nothing."""
        if self._owner:
            self._caller.work(self._caller.core.close)

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def conversation_open(caller: Caller, name: str, options: dict[str, Any]) -> Any:
    """Read first: opening a session that exists writes nothing."""
    found = caller.read(conversation.find_session, name)
    return found or caller.write(conversation.open_session, name, **options)

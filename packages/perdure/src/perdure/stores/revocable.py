"""A verb that can be taken back: it remembers what it did for its caller.

A caller that is stopped while its job lies on the lane does not know whether the job was carried out: whether it has the lock,
the task or the batch, whether the effect is dispatched. Its second job comes to the same lane later, and finds here what the
first one did. Callers: the engine of effects, and the handles of locks, tasks and subscriptions. Keeps P4, P15.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from perdure.log.change import Stream
from perdure.stores.tx import Tx

T = TypeVar("T")


class RevocableVerb(Generic[T]):
    """The verb of one call, and the verb that undoes what it did. pick: the part of its result that counts; None is nothing.

    made: that part, as the verb gave it when it last ran.
    """

    __slots__ = ("_pick", "_undo", "_verb", "made")

    def __init__(
        self, verb: Callable[..., T], undo: Callable[..., Any], pick: Callable[[T], Any] | None = None
    ) -> None:
        self._verb = verb
        self._undo = undo
        self._pick = pick
        self.made: Any = None

    def __call__(self, tx: Tx, about: Stream | str, *args: Any, **kwargs: Any) -> T:
        """Run the verb."""
        self.made = None
        found = self._verb(tx, about, *args, **kwargs)
        self.made = found if self._pick is None else self._pick(found)
        return found

    def take_back(self, tx: Tx, about: Stream | str, *args: Any) -> None:
        """Undo what the verb did when it last ran; nothing if it did nothing."""
        if self.made is not None:
            self._undo(tx, about, self.made, *args)

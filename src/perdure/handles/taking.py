"""A verb that takes something for its caller, a lock or a task, and remembers what it took.

A caller that is stopped while its job lies on the lane does not know whether it got it, and nobody else could give it back. Its
second job comes to the same lane later, and finds here what the verb did. Callers: the handles of locks and tasks. Keeps P15.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from perdure.log.change import Stream
from perdure.stores.tx import Tx

T = TypeVar("T")


class Taking(Generic[T]):
    """The verb of one call. back: gives back what it took, if that stands as it was taken."""

    __slots__ = ("_back", "_taken", "_verb")

    def __init__(self, verb: Callable[..., T], back: Callable[[Tx, Stream, Any], None]) -> None:
        self._verb = verb
        self._back = back
        self._taken: T | None = None

    def __call__(self, tx: Tx, stream: Stream, *args: Any, **kwargs: Any) -> T:
        """Run the verb."""
        self._taken = None
        taken = self._verb(tx, stream, *args, **kwargs)
        self._taken = taken
        return taken

    def give_back(self, tx: Tx, stream: Stream) -> None:
        """Give back what it took when it was last run; nothing if it took nothing."""
        if self._taken is not None:
            self._back(tx, stream, self._taken)

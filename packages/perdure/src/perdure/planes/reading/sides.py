"""The other side of a comparison: a session or run in the same state, or in another one (the past). Callers: handles, `diff`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from perdure.log.change import Stream
from perdure.stores.store import Reads

T = TypeVar("T")


class OtherSide(NamedTuple):
    """The side that something is compared with. is_here: it is read where the first one is, in the same state."""

    core: Any
    tenant: int
    stream: Stream
    is_here: bool

    def read(self, reads: Reads, verb: Callable[..., T], *args: Any) -> T:
        """Run a read verb on it."""
        if self.is_here:
            return verb(reads, self.stream, *args)
        return self.core.read(verb, self.stream, *args, tenant=self.tenant)

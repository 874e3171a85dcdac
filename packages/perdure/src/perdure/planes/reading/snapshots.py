"""Snapshots: a read verb that asks more than once sees one state of the store all the while (P9).

Verbs that answer with a single query need none, and pay for none. Inside a transaction nothing is begun: a
transaction that reads and then writes is run again if what it read has moved. The planes use it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from perdure.stores.core import Reader
from perdure.stores.store import Reads

P = ParamSpec("P")
T = TypeVar("T")


def one_state(verb: Callable[Concatenate[Reads, P], T]) -> Callable[Concatenate[Reads, P], T]:
    """Run a read verb in a snapshot of its own, unless it is in one already."""

    @wraps(verb)
    def reading(reads: Reads, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if not isinstance(reads, Reader):
            return verb(reads, *args, **kwargs)
        with reads.snapshot():
            return verb(reads, *args, **kwargs)

    return reading

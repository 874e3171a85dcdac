"""The locks that the running code is inside of: what its writes are fenced by. Keeps P7.

A block belongs to a context (`contextvars`): the thread, or the async task with the tasks that it starts. A thread that is
started inside does not inherit it. Callers: locks enter and leave; the callers of the handles ask for every write.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

from perdure.planes.recovery.locks import Fence

if TYPE_CHECKING:
    from perdure.stores.core import Core


class LockBlock(NamedTuple):
    """One block that holds a lock, until `left` is marked: tasks that were started inside may outlive it."""

    core: Core
    fence: Fence
    left: list[bool]


INSIDE: ContextVar[tuple[LockBlock, ...]] = ContextVar("perdure_locks", default=())


def enter(core: Core, fence: Fence) -> LockBlock:
    """The running code holds this lock from here on."""
    block = LockBlock(core, fence, [])
    INSIDE.set((*INSIDE.get(), block))
    return block


def leave(block: LockBlock) -> None:
    """The block is over, in every context that knows of it."""
    block.left.append(True)
    INSIDE.set(tuple(each for each in INSIDE.get() if each is not block))


def around(core: Core) -> list[Fence]:
    """The locks of this store that the running code is inside of."""
    return [block.fence for block in INSIDE.get() if block.core is core and not block.left]

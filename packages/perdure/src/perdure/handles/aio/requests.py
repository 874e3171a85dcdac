"""Handles for requests: work that is carried out once for a key, and questions to people in a session."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from perdure.handles.aio.base import AsyncStreamHandle
from perdure.handles.aio.made import gives
from perdure.handles.atomic import Atomic, run_atomic
from perdure.handles.later import requests
from perdure.model.functions import plain
from perdure.model.records.runs import WaitRecord
from perdure.planes.execution import waits
from perdure.verbs import work as verbs

T = TypeVar("T")


class AsyncRequests(AsyncStreamHandle):
    """Verbs of a session for requests that a caller may repeat after a lost answer."""

    __slots__ = ()

    async def once(self, key: str, fn: Callable[[Atomic], T], *, asked: Any = None, about: Iterable[str] = ()) -> T:
        """Run `fn(tx)` as `store.atomic` does, once for this key. A repetition returns the first answer.

        Atomic: the answer is recorded in the commit of the work, so a crash leaves both or neither. The answer is plain data
        (Invalid if it is not). An exception of `fn` is not kept: a repetition tries again. Keys belong to the session.
        asked: the input that the key stands for. The same key with other input raises KeyReused.
        about: subjects of the answer, besides those of the session.
        """
        work = plain(fn, "fn")

        def answer(tx: Atomic) -> Any:
            known = tx.inside(requests.answered, self._stream, key, asked)
            if known is not None:
                return known.answer
            made = work(tx)
            tx.inside(requests.keep, self._stream, key, asked, made, about)
            return made

        done = await self._caller.write(self._caller.fenced(run_atomic), answer, self._caller)
        done.held_back.tell()
        # sync: done.inside.settle(self._caller.heartbeat)
        return done.result

    ask = gives(verbs.ask)

    async def asked(self, seq: int) -> WaitRecord:
        """Return the question with this number, as it stands now. Raises NotFound."""
        return await self._read(waits.wait, seq)

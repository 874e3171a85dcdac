"""`PerdureSession`: a conversation of OpenAI Agents in a session of Perdure, one turn an item.

Adding is one commit for all items; popping and clearing retract turns, which stay in the log until retention empties them. An
item that a turn cannot say in full comes back verbatim, encrypted reasoning too. Safe under threads, tasks and processes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from agents.memory.session import _await_mutation, _CompactionSnapshot  # pyright: ignore[reportMissingImports, reportPrivateUsage]
from agents.memory.session_settings import SessionSettings, coerce_session_settings, resolve_session_limit  # pyright: ignore[reportMissingImports]

from perdure.errors import Refused
from perdure.handles.aio.session import AsyncSession
from perdure.handles.atomic import Atomic
from perdure.handles.listing import aevery, every
from perdure.model.records.conversation import Turn
from perdure_adapters.forms.openai_items import ITEMS
from perdure_adapters.neutral_messages import keep, records_of, show
from perdure_adapters.shared_store import SharedStore

PAGE = 1_000
T = TypeVar("T")


class PerdureSession:
    """A session for `Runner.run(…, session=…)`. store: a URL or an open store.

    repair: a call that never got its result is given one that says so, so that a crash does not end the conversation.
    """

    session_settings: SessionSettings | None = None

    def __init__(
        self,
        session_id: str,
        store: Any,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        repair: bool = True,
    ) -> None:
        self.session_id = session_id
        self.session_settings = (
            SessionSettings() if session_settings is None else coerce_session_settings(session_settings)
        )
        self._repair = repair
        self._opened = SharedStore(store)
        self._closed = False

    # -- the protocol ----------------------------------------------------------------------------------------------

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """The items in order; the newest `limit` of them, all with a negative one."""
        self._check_open()
        return await self.items_before(limit, None)

    async def add_items(self, items: list[Any]) -> None:
        """Add items, all or none, durable when it returns."""
        self._check_open()
        if items:
            await self.atomic(lambda tx: self._keep(tx, items))

    async def pop_item(self) -> Any | None:
        """Take back the newest item and give it."""
        return await self._pop_item_with_validation()

    async def clear_session(self) -> None:
        """Take back every item."""
        await self.atomic(self._clear)

    # -- what its wrappers look for: encrypted sessions, compaction --------------------------------------------------

    async def _pop_item_with_validation(self, validate: Callable[[Any], None] | None = None) -> Any | None:
        """Take back the newest item, unless `validate` raises."""
        return await self.atomic(lambda tx: self._pop(tx, validate))

    async def _get_compaction_snapshot(
        self, limit: int, *, prune_prefix: Callable[[Any], bool] | None = None
    ) -> _CompactionSnapshot | None:
        """The newest items, and how to replace the end of them as long as nobody else wrote. None where another framework
        spoke, whose turns are no items.
        """
        self._check_open()
        session = await self.session()
        page = await session.turns(last=limit)
        items = [records_of(ITEMS, turn) for turn in page]
        if any(records is None or len(records) != 1 for records in items):
            return None

        async def replace_suffix(start: int, output: list[Any]) -> bool:
            expected = [turn.seq for turn in page[start:]]
            return bool(expected) and await self.atomic(lambda tx: self._replace(tx, expected, output, prune_prefix))

        return _CompactionSnapshot([records[0] for records in items if records], page.next is None, replace_suffix)

    def _replace(
        self, tx: Atomic, expected: list[int], output: list[Any], is_expired: Callable[[Any], bool] | None
    ) -> bool:
        session = tx.session(self.session_id)
        if [turn.seq for turn in session.turns(last=len(expected))] != expected:
            return False
        if is_expired is not None:
            for turn in every(session.turns, after=0):
                if turn.seq >= expected[0] or not all(map(is_expired, records_of(ITEMS, turn) or ())):
                    break
                session.retract(turn, because="expired")
        session.retract(*expected, because="compaction")
        self._keep(tx, output)
        return True

    # -- how -------------------------------------------------------------------------------------------------------

    async def session(self) -> AsyncSession:
        """The session of Perdure that holds the conversation."""
        return await self._opened.aio.session(self.session_id)

    async def atomic(self, fn: Callable[[Atomic], T]) -> T:
        """Several verbs in one commit; see `store.atomic`."""
        self._check_open()
        return await _await_mutation(self._opened.aio.atomic(fn))

    async def items_before(self, limit: int | None, before: int | None) -> list[Any]:
        """The newest items before an event; read in pages, so that a limit costs what it gives."""
        count = resolve_session_limit(limit, self.session_settings)
        if count == 0:
            return []
        session = await self.session()
        if count is None or count < 0:
            turns = [turn async for turn in aevery(session.turns, after=0) if before is None or turn.seq < before]
            return show(ITEMS, turns, completes=self._repair).records
        turns = await self._newest(session, count, before)
        return show(ITEMS, turns, completes=self._repair).records[-count:]

    async def _newest(self, session: AsyncSession, count: int, before: int | None) -> list[Turn]:
        """Back so far that there are enough items, and no result without its call."""
        turns: list[Turn] = []
        items, upto = 0, before
        while items < count:
            page = await session.turns(last=min(count, PAGE)) if upto is None else await session.turns(
                before=upto, limit=min(count, PAGE)
            )  # fmt: skip
            if not page:
                break
            turns, upto = [*page, *turns], page[0].seq
            items += sum(len(records_of(ITEMS, turn) or ()) for turn in page)
        return turns

    def _keep(self, tx: Atomic, items: Sequence[Any]) -> None:
        session = tx.session(self.session_id)
        for item in items:
            keep(session, ITEMS, item)

    def _pop(self, tx: Atomic, validate: Callable[[Any], None] | None) -> Any | None:
        session = tx.session(self.session_id)
        upto: int | None = None
        while page := session.turns(last=1) if upto is None else session.turns(before=upto, limit=1):
            turn, upto = page[0], page[0].seq
            records = records_of(ITEMS, turn)
            if records:
                if validate is not None:
                    validate(records[-1])
                session.retract(turn, because="pop_item")
                return records[-1]
        return None

    def _clear(self, tx: Atomic) -> None:
        session = tx.session(self.session_id)
        session.retract(*every(session.turns, after=0), because="clear_session")

    # -- the store -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let the store go. Every call after it is refused."""
        self._closed = True
        self._opened.close()

    def _check_open(self) -> None:
        if self._closed:
            raise Closed(f"{type(self).__name__} is closed", path="session")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Closed(Refused, RuntimeError):
    """The session was closed before."""

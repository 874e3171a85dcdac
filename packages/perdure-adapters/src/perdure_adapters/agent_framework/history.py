"""`PerdureHistoryProvider`: conversations of Agent Framework that last. A message is a turn of the session of the same id.

With `require_per_service_call_history_persistence=True` the framework saves each answer before it carries out the calls in it:
a call is a turn before it is an effect. The ledger records the result of a call with its effect; the framework saves its own
message of the results with the next answer. A conversation shows each result once: the framework's own, or else the ledger's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from agent_framework import HistoryProvider, Message  # pyright: ignore[reportMissingImports]

from perdure.errors import Invalid
from perdure.handles.atomic import Atomic
from perdure.handles.listing import aevery
from perdure_adapters import tool_calls
from perdure_adapters.agent_framework.conversation import StoredConversation, record_of
from perdure_adapters.agent_framework.middleware import PerdureChatMiddleware, PerdureFunctionMiddleware
from perdure_adapters.forms.agent_framework_messages import FORM
from perdure_adapters.neutral_messages import keep
from perdure_adapters.shared_store import ClosedByBlock, SharedStore


class PerdureHistoryProvider(HistoryProvider, ClosedByBlock):
    """For `Agent(context_providers=[PerdureHistoryProvider("sqlite:///agent.db")], …)`. store: a URL or an open store.

    The session of the framework is the session of Perdure of the same id; one that another framework began is continued. options:
    those of the framework's HistoryProvider (`store_inputs`, `load_messages`, …). Saving is one commit, durable when it returns.
    """

    def __init__(self, store: Any, *, source_id: str = "perdure", **options: Any) -> None:
        super().__init__(source_id, **options)
        self._shared = SharedStore(store)

    def middleware(self, *, kinds: tool_calls.Kinds | None = None) -> list[Any]:
        """The middleware by which the agent's tools go through the ledger of this store. See PerdureFunctionMiddleware."""
        store = self._shared.sync
        return [PerdureChatMiddleware(store), PerdureFunctionMiddleware(store, kinds=kinds)]

    async def get_messages(self, session_id: str | None, **_options: Any) -> list[Message]:
        """The messages of a session, in order. A call that was cut off has a result that says so."""
        session = await self._shared.aio.session(_checked(session_id))
        turns = [turn async for turn in aevery(session.turns, after=0)]
        return [Message.from_dict(record) for record in StoredConversation(turns).records()]

    async def save_messages(self, session_id: str | None, messages: Sequence[Message], **_options: Any) -> None:
        """Keep messages, each as a turn: one commit. Invalid, with the path, for a message that holds what is no JSON."""
        name, records = _checked(session_id), [record_of(message) for message in messages]

        def save(tx: Atomic) -> None:
            session = tx.session(name)
            for record in records:
                keep(session, FORM, record)

        await self._shared.aio.atomic(save)

    async def before_run(self, *, agent: Any, session: Any, context: Any, state: dict[str, Any]) -> None:
        """Load the history, without what the framework brings along itself: results that the ledger has recorded too."""
        await super().before_run(agent=agent, session=session, context=context, state=state)
        brought = [content for message in context.input_messages for content in message.contents]
        loaded = context.context_messages.get(self.source_id)
        if loaded:
            context.context_messages[self.source_id] = without(loaded, brought)

    def close(self) -> None:
        """Let the store go, if it was opened here."""
        self._shared.close()


def _checked(session_id: str | None) -> str:
    if session_id is None:
        raise Invalid("a history needs the id of its session", path="session_id", hint="agent.run(…, session=…)")
    return session_id


def without(messages: Iterable[Message], brought: Iterable[Any]) -> list[Message]:
    """Messages without the results and the calls that are among these contents."""
    removed = {
        (content.type, content.call_id) for content in brought if content.type in ("function_result", "function_call")
    }
    kept_messages = []
    for message in messages:
        remaining = [part for part in message.contents if (part.type, part.call_id) not in removed]
        if len(remaining) == len(message.contents):
            kept_messages.append(message)
        elif remaining:
            data = {**message.to_dict(), "contents": [part.to_dict() for part in remaining]}
            kept_messages.append(Message.from_dict(data))
    return kept_messages

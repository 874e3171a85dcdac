"""The messages of a thread as turns of its session, so that other frameworks, search and people read the conversation.

The session shows the messages of the newest checkpoint of the graph itself (not of subgraphs): a message that came is said under
its id, one that was replaced is said anew, one that was removed is retracted. A message that `messages` gave of a turn is that
turn: it is not said again. `PerdureSaver(store, turns=True)` does it in the
commit of each checkpoint; `saver.say_turns(thread)` does it once, for a thread that was written without. Keeps P5, P14.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict
from pydantic_core import to_jsonable_python

from perdure.handles.atomic import Atomic, run_inside
from perdure.handles.listing import every
from perdure.handles.sync.session import Session
from perdure.log.change import Stream
from perdure.model.records.conversation import Turn
from perdure.planes.recovery.keyed import Laid
from perdure.runtime.callers import Caller
from perdure.stores.tx import Tx
from perdure_adapters.forms.langchain_messages import FORM
from perdure_adapters.langgraph import threads
from perdure_adapters.langgraph.layout import KeptChannel
from perdure_adapters.langgraph.marks import marked_id
from perdure_adapters.neutral_messages import is_missing_result, keep, says_the_same, show, turn_named

PREFIX = "langgraph:"  # of the keys of turns that are messages of the thread


def messages(session: Session, *, after: int = 0, provider: str | None = None) -> list[BaseMessage]:
    """A session that any framework wrote, as messages; those after an event, to bring them into a graph by `update_state`.

    provider: whose model reads them ("anthropic", "openai", "google"): its own signed reasoning is among them then.
    """
    turns = [*every(session.turns, after=after)]
    return messages_from_dict(show(FORM, turns, provider=provider).records)


class ChangedMessages:
    """The messages of a checkpoint that differ from those before it, as records.

    before: the channels of that one, if they are remembered. now: those of this one, which say how much of them is the same.
    """

    __slots__ = ("gone", "new")

    def __init__(
        self,
        values: Mapping[str, Any],
        before: Mapping[str, KeptChannel] | None = None,
        now: Mapping[str, KeptChannel] = MappingProxyType({}),
    ) -> None:
        self.new: dict[str, Any] = {}
        for channel, value in values.items():
            same = now[channel].same if channel in now else 0
            if _are_messages(value, same, now.get(channel)):
                self.new |= {_key(message, place): _record(message) for place, message in enumerate(value[same:], same)}
        self.gone = None if before is None else self._removed_keys(values, before, now)  # None: to be looked for

    def _removed_keys(
        self, values: Mapping[str, Any], before: Mapping[str, KeptChannel], now: Mapping[str, KeptChannel]
    ) -> set[str]:
        """The keys of messages that stood behind those that are the same, and stand nowhere now."""
        keys = {
            key for channel, last in before.items() for key in _marked(last, now[channel].same if channel in now else 0)
        } - self.new.keys()
        if not keys:
            return keys
        lists = [value for value in values.values() if _are_messages(value)]
        return keys - {_key(message, place) for value in lists for place, message in enumerate(value)}

    def say(self, session: Session) -> int:
        """Say what is new, and retract what is gone; gives how many turns changed."""
        doomed = self._doomed(session)
        session.retract(*doomed, because="removed from the thread")
        changed = len(doomed)
        for key, record in self.new.items():
            name = key.removeprefix(PREFIX)
            if is_missing_result(name):
                continue
            stands = session.said(key) or turn_named(session, name)
            if stands is not None and says_the_same(FORM, stands, record):
                continue
            if stands is not None:
                session.retract(stands, because="replaced in the thread")
            keep(session, FORM, record, key=key)
            changed += 1
        return changed

    def _doomed(self, session: Session) -> list[Any]:
        if self.gone is not None:
            return [turn for key in sorted(self.gone) if (turn := _removed(session, key)) is not None]
        return [turn for turn in own(session) if turn.key not in self.new]


def _removed(session: Session, key: str) -> Turn | None:
    """The turn of a message that was removed. A result that only said that it is missing is none."""
    name = key.removeprefix(PREFIX)
    return None if is_missing_result(name) else session.said(key) or turn_named(session, name)


def own(session: Session) -> list[Any]:
    """The turns of a session that are messages of its thread."""
    return [turn for turn in every(session.turns, after=0) if (turn.key or "").startswith(PREFIX)]


def save(
    tx: Tx, stream: Stream, laid: Laid, name: str, key: str, parent: str | None, document: Any, changed: ChangedMessages,
    caller: Caller,
) -> int:  # fmt: skip
    """Save a checkpoint, and what it changes of the conversation: one commit."""
    saved = threads.save(tx, stream, laid, name, key, parent, document)
    run_inside(tx, lambda atomic: changed.say(atomic.session(stream.name)), caller)
    return saved


def retract_all(tx: Tx, stream: Stream, caller: Caller) -> None:
    """Take the conversation of a deleted thread back; retention empties it."""

    def retract(atomic: Atomic) -> None:
        session = atomic.session(stream.name)
        session.retract(*own(session), because="the thread was deleted")

    run_inside(tx, retract, caller)


def _are_messages(value: Any, same: int = 0, channel: KeptChannel | None = None) -> bool:
    """Whether a value is a list of messages; of those in front that are the same, their marks tell it."""
    if type(value) is not list or (channel is not None and None in channel.marks[:same]):
        return False
    return all(isinstance(message, BaseMessage) for message in value[same:])


def _key(message: BaseMessage, place: int) -> str:
    return f"{PREFIX}{message.id or f'#{place}'}"


def _marked(last: KeptChannel, same: int) -> set[str]:
    """The keys of the messages that stood behind those that are the same."""
    behind = enumerate(last.marks[same:], same)
    return {f"{PREFIX}{marked_id(mark) or f'#{place}'}" for place, mark in behind if mark is not None}


def _record(message: BaseMessage) -> Any:
    return to_jsonable_python(message_to_dict(message), fallback=repr, inf_nan_mode="strings")

"""A stored conversation as Agent Framework sees it: its messages in order, its open calls, and which call repeats which.

Everything is found out from the turns alone, so that every life of a program finds the same. A call is **cut off** when somebody
speaks while it has no result: a message was sent again after a crash. The next call of the same tool and arguments takes its
place, once: it has the same effect, and the one that was cut off stays without a result. Other frameworks say each call of one
answer in a turn of its own: such turns in a row are one answer. Callers: `history`, `middleware`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from perdure.errors import Invalid
from perdure.model.records.conversation import Call, Role, Turn
from perdure.model.records.effects import key_of_call
from perdure.model.values import to_plain
from perdure.planes.conversation.transcript import INTERRUPTED
from perdure_adapters.forms.agent_framework_messages import FORM, lean, merged, results_in
from perdure_adapters.neutral_messages import Message, records_of


class StoredCall:
    """One call of a turn, and what became of it."""

    __slots__ = ("call", "end", "has_result", "is_cut_off", "is_own", "key", "seq", "taken_by")

    def __init__(self, seq: int, call: Call) -> None:
        self.seq = self.end = seq  # the turn, and the last turn of its answer
        self.call = call
        self.has_result = False
        self.is_own = False  # a message of the framework itself carries its result
        self.is_cut_off = False
        self.key = key_of_call(call.id)  # of its effect
        self.taken_by: StoredCall | None = None

    @property
    def repeats(self) -> bool:
        """Whether it takes the place of another call."""
        return self.key != key_of_call(self.call.id)

    def is_like(self, other: StoredCall) -> bool:
        """Whether the other is a later call of the same tool and arguments."""
        return self.seq < other.seq and (self.call.tool, self.call.args) == (other.call.tool, other.call.args)


class StoredConversation:
    """The turns of a session, read once."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self._turns = turns
        self._asked: list[StoredCall] = []
        self._newest: dict[str, StoredCall] = {}  # by the id of the call, which may repeat
        self._results: dict[int, list[StoredCall]] = {}  # by the turn that has them
        self._said: Turn | None = None  # by the user, the last one
        self._answer: list[Turn] = []  # the last one
        self._open: list[StoredCall] = []  # its calls
        self._goes_on = False  # whether the next turn may belong to it
        for turn in turns:
            self._read(turn)
        self._take_places()

    def _read(self, turn: Turn) -> None:
        own = _own_record(turn)
        carried = results_in(own) if own else []
        if turn.call is not None or carried:
            calls = [self._newest[call_id] for call_id in {*carried, turn.call} if call_id in self._newest]
            self._results[turn.seq] = calls
            self._goes_on = False
            for stored in calls:
                stored.has_result = True
                stored.is_own = stored.is_own or stored.call.id in carried
        elif turn.content is not None or turn.calls:
            self._hear(turn, is_own=own is not None)

    def _hear(self, turn: Turn, *, is_own: bool) -> None:
        if not (self._goes_on and not is_own and turn.role is Role.ASSISTANT):
            for stored in self._open:
                stored.is_cut_off = not stored.has_result
            self._answer, self._open = [], []
        if turn.role is Role.USER:
            self._said = turn
        self._answer.append(turn)
        calls = [StoredCall(turn.seq, call) for call in turn.calls]
        self._open += calls
        for stored in self._open:
            stored.end = turn.seq
        self._newest |= {stored.call.id: stored for stored in calls}
        self._asked += calls
        self._goes_on = bool(self._open) and not is_own

    def _take_places(self) -> None:
        open_calls: list[StoredCall] = []
        for this in self._asked:
            earlier = next((call for call in open_calls if call.is_like(this)), None)
            if earlier is not None:
                earlier.taken_by, this.key = this, earlier.key
                open_calls.remove(earlier)
            if this.is_cut_off:
                open_calls.append(this)

    def find(self, call_id: str | None, tool: str) -> StoredCall | None:
        """The newest call of this id, if it is one of this tool."""
        stored = self._newest.get(call_id or "")
        return stored if stored is not None and stored.call.tool == tool else None

    def open_answer(self) -> tuple[Any, set[str]] | None:
        """The record of the last answer and the ids of its calls without a result; None if there is none, or it has all."""
        open_ids = {stored.call.id for stored in self._open if not stored.has_result}
        records = [record for turn in self._answer for record in records_of(FORM, turn) or ()] if open_ids else []
        return (merged(records)[-1], open_ids) if records else None

    def question(self) -> Any:
        """The record of the user's last message, to which the open answer is; None if there is none."""
        records = records_of(FORM, self._said) if self._said is not None else None
        return records[0] if records and len(records) == 1 else None

    def records(self) -> list[Any]:
        """The framework's messages. Results stand after their calls, each once; a call without one has one that says so."""
        placed = sorted(self._placed(), key=lambda place: place[:2])
        return merged(record for _, _, record in placed)

    def _placed(self) -> Iterator[tuple[int, int, Any]]:
        tools = {stored.call.id: stored.call.tool for stored in self._asked}
        for turn in self._turns:
            of = self._results.get(turn.seq, [])
            if of and _own_record(turn) is None and any(stored.is_own or stored.taken_by for stored in of):
                continue  # the framework's own message has it; or the call that took its place
            makers = {stored.end for stored in of}
            seq, rank = (makers.pop(), 1) if len(makers) == 1 else (turn.seq, 0)
            for record in records_of(FORM, turn, tool=tools.get(turn.call or "")) or ():
                yield seq, rank, record
        for stored in self._asked:
            if not stored.is_own and (stored.taken_by or not stored.has_result):
                for record in FORM.render(Message("tool", INTERRUPTED, call=stored.call.id, error=True)):
                    yield stored.end, 1, record


def _own_record(turn: Turn) -> Any:
    if turn.native is None or turn.native.form != FORM.name:
        return None
    return (records_of(FORM, turn) or [None])[0]


def record_of(message: Any) -> Any:
    """A message of the framework as plain data. Invalid, with the path, for what is no JSON."""
    contents = [part.to_dict() for part in message.contents]  # the message's own to_dict leaves out what is no JSON
    record = lean({**message.to_dict(), "contents": contents})
    if any(content["type"] == "function_call" for content in contents):
        record.setdefault("additional_properties", {})  # so it is kept whole, and is known as the framework's own
    try:
        return json.loads(json.dumps(record))
    except (TypeError, ValueError):
        to_plain(record, "message")
        raise Invalid("it is no JSON", path="message") from None

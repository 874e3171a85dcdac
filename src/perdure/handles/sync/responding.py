# Generated from handles/aio/responding.py by tools/unasync.py: edit that one.
"""Carrying out what a model answered, in a session: its turn and its calls, each once. See `effects.batch`. Keeps P2, P14."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from perdure.effects import batch as batches
from perdure.effects import permitting
from perdure.effects.batch import Meant, next_free
from perdure.effects.judging import outcome_of
from perdure.effects.ledger import error_of
from perdure.effects.meaning import intend
from perdure.errors import Invalid
from perdure.handles.invoking import Invoker
from perdure.handles.sync.acting import Acting
from perdure.handles.sync.effects import Effects
from perdure.model.records.conversation import Call
from perdure.model.records.effects import Answer, EffectError
from perdure.planes import turns


class Responding(Effects):
    """A model's answers, carried out in a session."""

    __slots__ = ()

    def respond(
        self,
        content: Any = None,
        *,
        calls: Sequence[Call | Mapping[str, Any]],
        tools: Iterable[Callable[..., Any]],
        key: str | None = None,
    ) -> list[Answer]:
        """Say what a model answered and carry out its calls, in order and each once. Returns an Answer for each.

        The turn lands with all calls planned, and each result with the next dispatch: N effects take N + 1 commits. A call that
        fails, is refused, or means nothing has an error for its answer, in the conversation too, and the others go on. Tools
        that only read are called where they stand. The same calls again, after a crash or after InDoubt or Waiting, go on where
        they were, known by the id of the first: `turn = session.pending().turn` has them. key: of the turn, as for `say`. calls:
        each a Call, or a mapping of id, tool and args. Raises KeyReused when they were part of another turn, Invalid when one
        has no id of its own.
        """
        self._caller.check_may_send()
        acting = Acting(self._caller, self._stream, self._write)
        batch = batches.mean(calls, tools)
        for meant in batch:
            if meant.answer is None and not meant.reads:
                tool = meant.sends
                intent = intend(tool.name, tool.kind, meant.args, tool.rule, None, meant.call)
                meant.intent, meant.asked = acting.guarded_call(tool, intent)
        told = acting.begin_all(batch, batches.respond, content, key)
        for meant in batch:
            meant.answer = told.get(meant.call.id, meant.answer)
        for at, meant in enumerate(batch):
            if meant.answer is None:
                self._answer(acting, meant, lambda at=at: next_free(batch, at + 1))
        return [meant.answer for meant in batch if meant.answer is not None]

    def _answer(self, acting: Acting, meant: Meant, then: Callable[[], Meant | None]) -> None:
        if meant.reads:
            self._read_for(meant)
            return
        assert meant.record is not None
        record, mine = meant.record, meant.mine
        if not mine:
            if meant.asked is not None:
                record = self._write(permitting.ask, record, acting.sender.epoch, meant.asked)
            record, mine = acting.dispatch_permitted(meant.sends, record)
        meant.record = acting.conclude(meant.tool, record, mine=mine, then=then)
        meant.settle(outcome_of)

    def _read_for(self, meant: Meant) -> None:
        """Call a tool that only reads, and put what it gives into the conversation."""
        tool = meant.sends
        try:
            value = Invoker(None).read(tool.named, (), meant.args, is_async=tool.is_async)
        except Exception as error:  # noqa: BLE001 - whatever it raises is what the model is told
            self._tell(meant, error_of(error))
            return
        try:
            self._write(turns.result, meant.call.id, value)
        except Invalid as error:
            self._tell(meant, error_of(error))
        else:
            meant.gave(value)

    def _tell(self, meant: Meant, error: EffectError) -> None:
        self._write(turns.result, meant.call.id, str(error), error=True)
        meant.failed(error)

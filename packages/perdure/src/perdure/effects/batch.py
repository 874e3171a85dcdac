"""A model's batch of calls: what each means, and the commit in which all of them are planned with the response (P2, P14).

    commit 1: the response, every call planned, the first dispatched;  commit k + 1: call k ended, call k + 1 dispatched

so that N calls take N + 1 commits, and a process that dies leaves every call known. A model's answer is hostile: a call of an
unknown tool, or with arguments that do not fit, is answered with an error and nothing is done. Callers: `respond`, of sessions
and runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from perdure.effects import ledger
from perdure.effects.composed import made_anew
from perdure.effects.intents import named_args
from perdure.effects.ledger import Intent, Sender, error_of
from perdure.effects.tool import Refuse, Tool, as_tool
from perdure.errors import Failed, Invalid
from perdure.log.change import Stream
from perdure.model.limits import REFS_MAX, check_name
from perdure.model.records.conversation import Call
from perdure.model.records.effects import Answer, EffectError, EffectRecord, EffectState, ToolKind, text_of
from perdure.planes.conversation import turns
from perdure.planes.execution import steps
from perdure.stores.tx import Tx

Planned = list[tuple[EffectRecord, bool]]  # each effect, and whether it was dispatched by this very commit


class BatchCall:
    """One call of a batch, from its tool and arguments to its answer. asked: what must come before it is sent.

    mine: this batch dispatched its effect, and so must send it. wary: a restore may have forgotten that it was sent.
    """

    __slots__ = ("answer", "args", "asked", "call", "intent", "mine", "record", "tool", "wary")

    def __init__(self, call: Call, tool: Tool | None = None, args: dict[str, Any] | None = None) -> None:
        self.call = call
        self.tool = tool
        self.args = args or {}
        self.intent: Intent | None = None
        self.asked: Refuse | str | None = None
        self.record: EffectRecord | None = None
        self.mine = self.wary = False
        self.answer: Answer | None = None

    @property
    def reads(self) -> bool:
        """Whether it only reads: it is no effect, and is called where it stands."""
        return self.tool is not None and self.tool.kind is ToolKind.READ

    @property
    def free(self) -> bool:
        """Whether it may be sent as soon as its turn comes: no person has to be asked, and it is neither refused nor begun."""
        is_new = self.record is None or self.record.state is EffectState.PLANNED
        return self.intent is not None and self.asked is None and is_new and not self.wary

    @property
    def sends(self) -> Tool:
        """The tool that it calls."""
        assert self.tool is not None
        return self.tool

    def gave(self, result: Any) -> None:
        """The call was answered."""
        self.answer = Answer(self.call.id, self.call.tool, result)

    def failed(self, error: EffectError) -> None:
        """The call has an error for an answer."""
        self.answer = Answer(self.call.id, self.call.tool, None, error)

    def settle(self, outcome: Callable[[EffectRecord], Any]) -> None:
        """The effect of the call is settled: its result, or why there is none, is the answer."""
        assert self.record is not None
        try:
            self.gave(outcome(self.record))
        except Failed as error:
            self.failed(EffectError(error.code, error.message))
        except Invalid:  # it happened: what it was is all that is known of its result
            self.gave(self.record.result)


def mean(calls: object, tools: Iterable[Callable[..., Any]]) -> list[BatchCall]:
    """Match each call with its tool and arguments. A call that matches nothing has an error for its answer already."""
    known = tools_by_name(tools)
    return [_meant(call, known) for call in _checked(calls)]


def tools_by_name(tools: object) -> dict[str, Tool]:
    """The tools that calls can name. Invalid for what is no list of them."""
    if isinstance(tools, (str, bytes, Mapping)) or not isinstance(tools, Iterable):
        raise Invalid(f"expected a list of tools, got {type(tools).__name__}", path="tools")
    return {found.name: found for found in map(as_tool, tools)}


def _checked(calls: object) -> list[Call]:
    if not isinstance(calls, (list, tuple)) or len(calls) > REFS_MAX:
        what = f"{len(calls)} calls" if isinstance(calls, (list, tuple)) else type(calls).__name__
        raise Invalid(f"expected a list of at most {REFS_MAX} calls, got {what}", path="calls")
    found = [_call(each, f"calls[{at}]") for at, each in enumerate(calls)]
    seen: set[str] = set()
    for at, call in enumerate(found):
        if check_name(call.id, f"calls[{at}].id") in seen:
            hint = "a reader of the answers could not tell which answer belongs to which call"
            raise Invalid(f"the call {call.id!r} is made twice", path=f"calls[{at}].id", hint=hint)
        seen.add(call.id)
    return found


def _call(made: object, path: str) -> Call:
    """A call as it is given: a Call, or a mapping of id, tool and args."""
    if type(made) is Call:
        return made
    if not isinstance(made, Mapping):
        raise Invalid(f"expected a Call, or a mapping of id, tool and args, got {type(made).__name__}", path=path)
    try:
        return msgspec.convert(made, Call)
    except msgspec.ValidationError as error:
        has = ", ".join(text_of(name)[:40] for name in [*made][:10])
        raise Invalid(
            f"expected a Call, or a mapping of id, tool and args: {error}", path=path, hint=f"it has {has or 'nothing'}"
        ) from None


def _meant(call: Call, known: dict[str, Tool]) -> BatchCall:
    tool = known.get(call.tool)
    if tool is None:
        return _wrong(
            call, EffectError("NotFound", f"there is no tool {call.tool!r}; there are {', '.join(known) or 'none'}")
        )
    try:
        return BatchCall(call, tool, tool.bind((), named_args(call.args)))
    except Invalid as error:
        return _wrong(call, error_of(error))


def _wrong(call: Call, error: EffectError) -> BatchCall:
    meant = BatchCall(call)
    meant.failed(error)
    return meant


def calls_in(value: object) -> object:
    """The `calls` of a model's answer; an empty list if it makes none."""
    made = value.get("calls") if isinstance(value, Mapping) else getattr(value, "calls", None)
    return [] if made is None else made


def next_free(batch: Sequence[BatchCall], at: int) -> BatchCall | None:
    """The first call from `at` on that has no answer, if it may be sent as it is."""
    following = next((meant for meant in batch[at:] if meant.answer is None), None)
    return following if following is not None and following.free else None


# -- the first commit ----------------------------------------------------------------------------------------------------


def plan_all(tx: Tx, stream: Stream, batch: Sequence[BatchCall], sender: Sender, *, first: bool) -> Planned:
    """Plan the effects of a batch, in its order. first: whether the first of them is dispatched too.

    An effect whose key stands already is given as it stands.
    """
    intents = [made_anew(tx, stream, meant.intent) for meant in batch if meant.intent is not None]
    begun = [ledger.dispatch(tx, stream, intent, sender) for intent in intents[:first]]
    return begun + [(ledger.plan(tx, stream, intent, sender.epoch), False) for intent in intents[first:]]


def keep_and_plan(
    tx: Tx, stream: Stream, step: tuple[Any, ...], batch: Sequence[BatchCall], sender: Sender, *, first: bool
) -> tuple[Planned, dict[str, Answer]]:
    """Record the step in which a model answered (what `steps.done` takes), and plan its calls."""
    steps.done(tx, stream, *step)
    return plan_all(tx, stream, batch, sender, first=first), {}


def respond(
    tx: Tx, stream: Stream, content: Any, key: str | None, about: tuple[str, ...], batch: Sequence[BatchCall], sender: Sender,
    *, first: bool,
) -> tuple[Planned, dict[str, Answer]]:  # fmt: skip
    """Record a model's answer as a turn, plan its calls, and answer those that match no tool. Gives the effects, and the answers
    that the conversation has already, by the ids of their calls.
    """
    turns.answered(tx, stream, content, key, [meant.call for meant in batch], about)
    others = [(meant, _answered(tx, stream, meant.call)) for meant in batch if meant.intent is None]
    for meant, standing in others:
        if standing is None and meant.answer is not None and meant.answer.error is not None:
            turns.result(tx, stream, meant.call.id, str(meant.answer.error), error=True)
    planned = plan_all(tx, stream, batch, sender, first=first)
    return planned, {meant.call.id: standing for meant, standing in others if standing is not None}


def _answered(tx: Tx, stream: Stream, call: Call) -> Answer | None:
    """The answer that the conversation has for a call; None if there is none yet."""
    turn = turns.result_of(tx, stream, call.id)
    if turn is None:
        return None
    if not turn.error:
        return Answer(call.id, call.tool, turn.content)
    code, _, message = str(turn.content).partition(": ")
    return Answer(call.id, call.tool, None, EffectError(code, message))

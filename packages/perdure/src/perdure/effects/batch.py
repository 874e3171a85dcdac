"""A model's batch of calls: what each means, and which may be sent next. Pure. Keeps P2, P14.

    commit 1: the response, every call planned, the first dispatched;  commit k + 1: call k ended, call k + 1 dispatched

so that N calls take N + 1 commits (`commits`), and a process that dies leaves every call known. A model's answer is hostile: a
call of an unknown tool, or with arguments that do not fit, is answered with an error and nothing is done. Callers: `respond`, of
sessions and runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from perdure.effects.ledger import Intent, error_of
from perdure.effects.tool import Refuse, Tool, as_tool
from perdure.errors import Failed, Invalid
from perdure.model.functions import named_args
from perdure.model.limits import REFS_MAX, check_name
from perdure.model.records.conversation import Call
from perdure.model.records.effects import Answer, EffectError, EffectRecord, EffectState, ToolKind, text_of


class BatchCall:
    """One call of a batch, from its tool and arguments to its answer. precondition: what must come before it is sent.

    must_send: this batch dispatched its effect. maybe_forgotten: a restore may have forgotten that it was sent.
    """

    __slots__ = ("answer", "args", "call", "intent", "maybe_forgotten", "must_send", "precondition", "record", "tool")

    def __init__(self, call: Call, tool: Tool | None = None, args: dict[str, Any] | None = None) -> None:
        self.call = call
        self.tool = tool
        self.args = args or {}
        self.intent: Intent | None = None
        self.precondition: Refuse | str | None = None
        self.record: EffectRecord | None = None
        self.must_send = self.maybe_forgotten = False
        self.answer: Answer | None = None

    @property
    def reads(self) -> bool:
        """Whether it only reads: it is no effect, and is called where it stands."""
        return self.tool is not None and self.tool.kind is ToolKind.READ

    @property
    def free(self) -> bool:
        """Whether it may be sent as soon as its turn comes: no person has to be asked, and it is neither refused nor begun."""
        is_new = self.record is None or self.record.state is EffectState.PLANNED
        return self.intent is not None and self.precondition is None and is_new and not self.maybe_forgotten

    @property
    def sends(self) -> Tool:
        """The tool that it calls."""
        assert self.tool is not None
        return self.tool

    def answer_with(self, result: Any) -> None:
        """The call was answered."""
        self.answer = Answer(self.call.id, self.call.tool, result)

    def answer_with_error(self, error: EffectError) -> None:
        """The call has an error for an answer."""
        self.answer = Answer(self.call.id, self.call.tool, None, error)

    def settle(self, outcome: Callable[[EffectRecord], Any]) -> None:
        """The effect of the call is settled: its result, or why there is none, is the answer."""
        assert self.record is not None
        try:
            self.answer_with(outcome(self.record))
        except Failed as error:
            self.answer_with_error(EffectError(error.code, error.message))
        except Invalid:  # it happened: what it was is all that is known of its result
            self.answer_with(self.record.result)


def match_calls(calls: object, tools: Iterable[Callable[..., Any]]) -> list[BatchCall]:
    """Match each call with its tool and arguments. A call that matches nothing has an error for its answer already."""
    known = tools_by_name(tools)
    return [_match(call, known) for call in _checked(calls)]


def tools_by_name(tools: object) -> dict[str, Tool]:
    """The tools that calls can name. Invalid for what is no list of them."""
    if isinstance(tools, (str, bytes, Mapping)) or not isinstance(tools, Iterable):
        raise Invalid(f"expected a list of tools, got {type(tools).__name__}", path="tools")
    return {tool.name: tool for tool in map(as_tool, tools)}


def _checked(calls: object) -> list[Call]:
    if not isinstance(calls, (list, tuple)) or len(calls) > REFS_MAX:
        what = f"{len(calls)} calls" if isinstance(calls, (list, tuple)) else type(calls).__name__
        raise Invalid(f"expected a list of at most {REFS_MAX} calls, got {what}", path="calls")
    checked = [_call(call, f"calls[{at}]") for at, call in enumerate(calls)]
    seen: set[str] = set()
    for at, call in enumerate(checked):
        if check_name(call.id, f"calls[{at}].id") in seen:
            hint = "a reader of the answers could not tell which answer belongs to which call"
            raise Invalid(f"the call {call.id!r} is made twice", path=f"calls[{at}].id", hint=hint)
        seen.add(call.id)
    return checked


def _call(call: object, path: str) -> Call:
    """A call: a Call, or a mapping of id, tool and args."""
    if type(call) is Call:
        return call
    if not isinstance(call, Mapping):
        raise Invalid(f"expected a Call, or a mapping of id, tool and args, got {type(call).__name__}", path=path)
    try:
        return msgspec.convert(call, Call)
    except msgspec.ValidationError as error:
        has = ", ".join(text_of(name)[:40] for name in [*call][:10])
        raise Invalid(
            f"expected a Call, or a mapping of id, tool and args: {error}", path=path, hint=f"it has {has or 'nothing'}"
        ) from None


def _match(call: Call, known: dict[str, Tool]) -> BatchCall:
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
    call_in_batch = BatchCall(call)
    call_in_batch.answer_with_error(error)
    return call_in_batch


def calls_in(value: object) -> object:
    """The `calls` of a model's answer; an empty list if it makes none."""
    calls = value.get("calls") if isinstance(value, Mapping) else getattr(value, "calls", None)
    return [] if calls is None else calls


def next_free(batch: Sequence[BatchCall], at: int) -> BatchCall | None:
    """The first call from `at` on that has no answer, if it may be sent as it is."""
    following = next((call for call in batch[at:] if call.answer is None), None)
    return following if following is not None and following.free else None

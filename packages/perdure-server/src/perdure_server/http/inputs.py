"""Bodies of the writing routes. A field that is not listed is refused; a field of any type holds a value of the user.

Checks of memories and values are not taken here: they would look at files of the server's machine.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec

from perdure.model.limits import LABELS_MAX, TEXT_MAX_CHARS
from perdure.model.pins import OnChangeName
from perdure.model.records.conversation import Call
from perdure.model.records.effects import ToolKindName
from perdure.model.records.memories import MemoryKind
from perdure.model.refs import Ref
from perdure_server.http.queries import Name, Seq, When

Text = Annotated[str, msgspec.Meta(max_length=TEXT_MAX_CHARS)]
Names = Annotated[list[Name], msgspec.Meta(max_length=LABELS_MAX)]
Span = Annotated[str, msgspec.Meta(min_length=1, max_length=40, description='A time such as "30s" or "2d".')]


class Input(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """A body: unknown fields are refused, so that nothing is passed over in silence.

    LATER: optional fields that came when marks of requests no longer held defaults; older marks do not have them.
    """

    LATER: ClassVar[frozenset[str]] = frozenset()


class RecordInput(Input, frozen=True, kw_only=True):
    """A body that becomes a record. about: the people and things that it is about."""

    about: Names = []


class PinsInput(Input, frozen=True, kw_only=True):
    """The software versions in force; a field that is not given stays as it is. prompt: its text, which is hashed."""

    model: Text | None = None
    prompt: Text | None = None
    tools: dict[str, str] | None = None
    commit: Text | None = None


class SessionInput(RecordInput, frozen=True, kw_only=True):
    """A session that is made, if there is none of its name: the options are for its creation."""

    title: Text = ""
    labels: Names = []
    goal: Text | None = None
    ttl: Span | None = None
    pins: PinsInput | None = None


class SessionPatch(RecordInput, frozen=True, kw_only=True):
    """Changes to a session; a field that is not given stays as it is."""

    title: Text | msgspec.UnsetType = msgspec.UNSET
    goal: Text | msgspec.UnsetType | None = msgspec.UNSET
    labels: Names | msgspec.UnsetType = msgspec.UNSET
    status: Literal["active", "waiting", "completed", "failed"] | msgspec.UnsetType = msgspec.UNSET
    archived: bool | msgspec.UnsetType = msgspec.UNSET


class SessionMoveInput(Input, frozen=True, kw_only=True):
    """A change of a session's state, as the library has it: one that its state does not allow is a conflict."""

    move: Literal["mark_waiting", "mark_active", "completed", "failed", "reopen", "archive", "unarchive"]


class LabelsInput(Input, frozen=True, kw_only=True):
    """Labels that are added, and labels that are taken away."""

    add: Names = []
    remove: Names = []


class SubjectsInput(Input, frozen=True, kw_only=True):
    """Persons or things that all of it is about."""

    subjects: Names


class NativeInput(Input, frozen=True, kw_only=True):
    """A turn as its framework has it: the name of the form, and the body."""

    form: Name
    body: Any


class RetractionInput(RecordInput, frozen=True, kw_only=True):
    """Turns that are taken back, by their numbers."""

    turns: Annotated[list[Seq], msgspec.Meta(max_length=10_000)]
    because: Text | None = None


class TurnInput(RecordInput, frozen=True, kw_only=True):
    """A turn, as `session.say` takes it. calls: tool calls of an assistant turn. about: the people that it is about."""

    role: Literal["system", "user", "assistant"]
    content: Any = None
    calls: Annotated[list[Call], msgspec.Meta(max_length=1_000)] = []
    shown: list[Ref] = []
    native: NativeInput | None = None
    usage: dict[str, Any] | None = None
    model: Text | None = None
    parent: Seq | None = None


class ResultInput(RecordInput, frozen=True, kw_only=True):
    """The result of a call. error: it failed. key: a name of its own."""

    value: Any = None
    error: bool = False
    key: Name | None = None
    native: NativeInput | None = None


class SummaryInput(RecordInput, frozen=True, kw_only=True):
    """A text that stands for the turns from `first` (by default the first one) to `upto`."""

    upto: Seq
    text: Text
    first: Seq | None = None
    keys: Annotated[list[Text], msgspec.Meta(max_length=10_000)] | None = None


class ValueInput(RecordInput, frozen=True, kw_only=True):
    """A value. ttl: it is gone after this time. derived: it was made of the version before, so it is about the same people."""

    value: Any
    ttl: Span | None = None
    derived: bool = False


class DecisionInput(RecordInput, frozen=True, kw_only=True):
    """A decision, with its reason. refs: what it refers to, as [uid, seq]."""

    text: Text
    because: Text
    then: Text | None = None
    refs: list[Ref] = []
    tags: Names | None = None


class CloseInput(RecordInput, frozen=True, kw_only=True):
    """The outcome of a decision."""

    outcome: Text
    note: Text | None = None


class TaskInput(RecordInput, frozen=True, kw_only=True):
    """A task. needs, parent: numbers of tasks of the same session."""

    title: Text
    detail: Any = None
    priority: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31)] = 0
    needs: Annotated[list[int], msgspec.Meta(max_length=1_000)] = []
    parent: int | None = None
    labels: Names = []
    key: Name | None = None


class TaskPatch(RecordInput, frozen=True, kw_only=True):
    """Changes to a task; a field that is not given stays as it is. need, unneed: another task. token: of a claim."""

    title: Text | msgspec.UnsetType = msgspec.UNSET
    priority: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31)] | msgspec.UnsetType = msgspec.UNSET
    labels: Names | msgspec.UnsetType = msgspec.UNSET
    detail: Any | msgspec.UnsetType = msgspec.UNSET
    parent: Seq | msgspec.UnsetType | None = msgspec.UNSET
    need: Seq | None = None
    unneed: Seq | None = None
    token: Seq | None = None


class MoveInput(RecordInput, frozen=True, kw_only=True):
    """A move of a task. token: of the claim that this caller has; a claim that was lost changes nothing."""

    move: Literal["done", "fail", "block", "unblock", "cancel", "reopen", "release"]
    note: Text | None = None
    token: Seq | None = None


class ClaimInput(Input, frozen=True, kw_only=True):
    """A claim on a task, or on the most urgent one that is ready. ttl: it is free again after this time."""

    ttl: Span
    task: Seq | None = None
    label: Name | None = None


class CheckpointInput(RecordInput, frozen=True, kw_only=True):
    """A whole state. key: a name of its own; parent: the key of the checkpoint that it follows."""

    state: Any
    name: Name = "default"
    key: Name | None = None
    parent: Name | None = None
    document: Any = None


class EventInput(RecordInput, frozen=True, kw_only=True):
    """An event of your own, such as `deploy.finished`. expect: the last number that you have seen in the session."""

    kind: Name
    data: Any = None
    refs: list[Ref] = []
    expect: Seq | None = None


class AskInput(RecordInput, frozen=True, kw_only=True):
    """A question to a person. choices: what may be answered; without, anything."""

    question: Text
    choices: Annotated[list[Text], msgspec.Meta(max_length=100)] | None = None
    detail: Any = None
    timeout: Span | None = None


class AnswerInput(RecordInput, frozen=True, kw_only=True):
    """An answer to a question; of an approval, "approve" or "refuse" as its choices say."""

    value: Any


class EffectInput(RecordInput, frozen=True, kw_only=True):
    """An effect that the client carries out: it is planned first, dispatched next, then done. call: the id of a model's call
    that it answers; the outcome then becomes its result, too.
    """

    tool: Name
    args: dict[str, Any] = {}
    kind: ToolKindName = "unsafe"
    call: Name | None = None


class OutcomeInput(RecordInput, frozen=True, kw_only=True):
    """The outcome of an effect that was dispatched. failed: it is known not to have happened. code: a short name of the error.

    attempt: the one that it is the outcome of, as the dispatch answered it; if it is not the newest by now, this changes nothing.
    """

    outcome: Literal["happened", "failed"]
    result: Any = None
    attempt: Annotated[int, msgspec.Meta(ge=1)] | None = None
    error: Text = "failed"
    code: Name = "Failed"


class SettleInput(RecordInput, frozen=True, kw_only=True):
    """A verdict about an effect in doubt. force: absent though its sender lives, because it will not send."""

    verdict: Literal["happened", "absent", "declined"]
    result: Any = None
    reason: Text = ""
    force: bool = False


class ForkInput(Input, frozen=True, kw_only=True):
    """The name of the fork, and the point from which it continues (by default now)."""

    name: Name
    at: Seq | When | None = None


class RunForkInput(Input, frozen=True, kw_only=True):
    """A run that continues from a place of another one, as if that had given `replace`."""

    at: Seq | Name
    replace: Any = None
    allow_effects: bool = False


class RunInput(RecordInput, frozen=True, kw_only=True):
    """A run of an agent, left to the workers. The Idempotency-Key is its key. pins, on_change: what the agent declares, if the
    caller knows that.
    """

    agent: Name
    args: Annotated[list[Any], msgspec.Meta(max_length=1_000)] = []
    kwargs: dict[str, Any] = {}
    session: Name | None = None
    timeout: Span | None = None
    pins: dict[str, Any] = {}
    on_change: OnChangeName | None = None


class SignalInput(RecordInput, frozen=True, kw_only=True):
    """A signal, which waits until the run takes it."""

    name: Name
    payload: Any = None


class WhyInput(Input, frozen=True, kw_only=True):
    """A reason."""

    why: Text = ""


class ResumeInput(Input, frozen=True, kw_only=True):
    """vouch: after a restore, all that the run did outside is recorded here."""

    vouch: bool = False


class PinInput(Input, frozen=True, kw_only=True):
    """The digest of the one program that may continue a run; null: any."""

    program: Name | None


class MemoryInput(RecordInput, frozen=True, kw_only=True):
    """A memory. source: texts such as "file:Makefile", or references as [uid, seq]."""

    text: Text
    kind: MemoryKind = MemoryKind.FACT
    key: Name | None = None
    source: Annotated[list[Name | Ref], msgspec.Meta(max_length=LABELS_MAX)] = []
    tags: Names = []
    confidence: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    valid_from: When | None = None
    valid_to: When | None = None


class SupersedeInput(Input, frozen=True, kw_only=True):
    """The text that replaces a memory, and why."""

    text: Text
    because: Text
    key: Name | None = None
    kind: MemoryKind | None = None
    source: Annotated[list[Name | Ref], msgspec.Meta(max_length=LABELS_MAX)] = []
    about: Names | None = None
    tags: Names | None = None
    confidence: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    valid_from: When | None = None
    valid_to: When | None = None


class ConfirmInput(RecordInput, frozen=True, kw_only=True):
    """Why a memory still holds."""

    because: Text | None = None


class CorrectionInput(RecordInput, frozen=True, kw_only=True):
    """A correction of the agent, and the rule that follows from it."""

    text: Text
    rule: Text
    key: Name | None = None
    source: Annotated[list[Name | Ref], msgspec.Meta(max_length=LABELS_MAX)] = []
    tags: Names = []


class ForgetInput(RecordInput, frozen=True, kw_only=True):
    """Why a memory is to be found no more."""

    because: Text


class SubscriptionInput(Input, frozen=True, kw_only=True):
    """A reader of the feed. start: of a new one. kinds, stream: only these events. consumers: batches under way at once."""

    start: Text = "beginning"
    kinds: Annotated[list[Name], msgspec.Meta(max_length=1_000)] | None = None
    stream: Name | None = None
    consumers: int | None = None


class TakeInput(Input, frozen=True, kw_only=True):
    """How many events, and for how long they are this taker's."""

    limit: int = 100
    lease: Span = "30s"


class BatchInput(Input, frozen=True, kw_only=True):
    """The token of a batch."""

    token: Seq


class StartInput(Input, frozen=True, kw_only=True):
    """Where a reader begins."""

    start: Literal["beginning", "end"]


class TokenInput(Input, frozen=True, kw_only=True):
    """A token of this tenant. actor: the name that its events carry."""

    role: Literal["viewer", "writer", "operator", "worker", "auditor", "admin"]
    actor: Name
    expires: Span | None = None

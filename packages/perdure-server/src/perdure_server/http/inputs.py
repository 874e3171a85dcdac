"""Bodies of the writing routes. A field that is not listed is refused; a field of any type holds a value of the user.

Checks of memories and values are not taken here: they would look at files of the server's machine.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec

from perdure.model.limits import LABELS_MAX, TEXT_MAX_CHARS
from perdure.model.pins import OnChangeName
from perdure.model.records.effects import ToolKindName
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


class NativeInput(Input, frozen=True, kw_only=True):
    """A turn as its framework has it: the name of the form, and the body."""

    form: Name
    body: Any


class RetractionInput(RecordInput, frozen=True, kw_only=True):
    """Turns that are taken back, by their numbers."""

    turns: Annotated[list[Seq], msgspec.Meta(max_length=10_000)]
    because: Text | None = None


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

"""Bodies and answers of the claim protocol: the routes by which a worker in any language drives runs (`working`)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from perdure.model.pins import OnChangeName
from perdure.model.records.effects import EffectError
from perdure.model.records.runs import StepRecord
from perdure.runtime.remote import Next
from perdure_server.http.answers import AskAnswer, EffectAnswer
from perdure_server.http.inputs import Names, Span, Text
from perdure_server.http.queries import WAIT_MAX_SECONDS, Name, Seq

HELD_MAX = 1_000
Holder = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[A-Za-z0-9._-]{1,64}$",
        description="The name of a worker process, chosen when it starts and never used again: something random.",
    ),
]
Place = Annotated[
    str,
    msgspec.Meta(
        min_length=1, max_length=300, description="cut/branch/ordinal, such as 0//1; the same at every replay."
    ),
]
Token = Annotated[int, msgspec.Meta(ge=1, le=2**62, description="The token of the lease, as the claim gave it.")]
Digest = Annotated[str, msgspec.Meta(max_length=128, description="Of the arguments: at a replay it must be the same.")]


# -- bodies ----------------------------------------------------------------------------------------------------------


class HolderInput(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """A worker. Unknown fields are refused, as in every body."""

    holder: Holder


class WorkClaimInput(HolderInput, frozen=True, kw_only=True):
    """A worker that wants a run. agents: what it can drive, each with the digest of its program.

    pins: the versions of each agent, such as {"fix": {"model": "m1"}}; an agent without any has unknown versions. on_change: what
    is done with a run that had other versions; default: as its run says.
    held: the runs that it has. A run that it holds without knowing, because an answer was lost, is given first.
    """

    agents: Annotated[
        dict[Name, Annotated[str, msgspec.Meta(max_length=128)]], msgspec.Meta(min_length=1, max_length=500)
    ]
    pins: Annotated[dict[Name, dict[Name, Any]], msgspec.Meta(max_length=500)] = {}
    on_change: Annotated[dict[Name, OnChangeName], msgspec.Meta(max_length=500)] = {}
    held: Annotated[list[Name], msgspec.Meta(max_length=HELD_MAX)] = []
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=HELD_MAX)] = 1
    wait: Annotated[int, msgspec.Meta(ge=0, le=WAIT_MAX_SECONDS, description="Seconds to wait for a run.")] = 0


class HoldInput(HolderInput, frozen=True, kw_only=True):
    """A worker and the token of its lease on the run of the path."""

    token: Token


class StepInput(HoldInput, frozen=True, kw_only=True):
    """A step that was done. error: it failed; say so only if the program continues. model: the pins of a model's call, whose
    input is kept.
    """

    place: Place
    name: Name
    digest: Digest
    value: Any = None
    error: EffectError | None = None
    shape: Annotated[str, msgspec.Meta(max_length=200)] = ""
    model: dict[str, Any] | None = None
    args: list[Any] = []
    kwargs: dict[str, Any] = {}


class RunEffectInput(HoldInput, frozen=True, kw_only=True):
    """An effect at its place, with what its tool declares. approve: the question to a person before it is sent.

    can_probe: this worker can ask the other side whether it happened.
    """

    place: Place
    tool: Name
    args: dict[str, Any] = {}
    kind: Literal["idempotent", "keyed", "probed", "unsafe"] = "unsafe"
    timeout: Span | None = None
    lands_within: Span | None = None
    keeps_keys: Span | None = None
    retries: Annotated[int, msgspec.Meta(ge=0, le=1_000)] = 0
    can_probe: bool = False
    approve: Text | None = None
    approve_within: Span | None = None
    about: Names = []


class RunOutcomeInput(HoldInput, frozen=True, kw_only=True):
    """The outcome of a call. failed: the tool said no. unsent: nothing was sent. unknown: it may have happened.

    over: whether the call has come back, so that it can send nothing more.
    """

    attempt: Seq
    outcome: Literal["happened", "failed", "unsent", "unknown"]
    result: Any = None
    code: Annotated[str, msgspec.Meta(max_length=200)] = ""
    message: Text = ""
    over: bool = True


class ProbeInput(HoldInput, frozen=True, kw_only=True):
    """The word of the other side about an effect in doubt. asked_at: the `now` of the answer that told to probe."""

    attempt: Seq
    verdict: Literal["happened", "absent", "declined", "unknown"]
    asked_at: Seq
    result: Any = None
    reason: Text = ""


class RunAskInput(HoldInput, frozen=True, kw_only=True):
    """A question to a person. default: the answer after `timeout`."""

    place: Place
    question: Text
    choices: Annotated[list[Text], msgspec.Meta(max_length=100)] | None = None
    default: Any = None
    detail: Any = None
    timeout: Span | None = None
    about: Names = []


class SleepInput(HoldInput, frozen=True, kw_only=True):
    """Some time."""

    place: Place
    duration: Span


class WaitInput(HoldInput, frozen=True, kw_only=True):
    """A signal to wait for."""

    place: Place
    name: Name
    timeout: Span | None = None


class ChildInput(HoldInput, frozen=True, kw_only=True):
    """A run to start and to wait for."""

    place: Place
    agent: Name
    args: Annotated[list[Any], msgspec.Meta(max_length=1_000)] = []
    kwargs: dict[str, Any] = {}
    timeout: Span | None = None
    about: Names = []


class CutInput(HoldInput, frozen=True, kw_only=True):
    """A state to continue from. cut: the number of the cut that the worker is at."""

    cut: Seq
    state: Any
    about: Names = []


class FinishInput(HoldInput, frozen=True, kw_only=True):
    """The result of a run."""

    result: Any = None


class FailInput(HoldInput, frozen=True, kw_only=True):
    """The error that a run ends by. effect, step: by whose failure, as a number and a place: `retry` does that anew."""

    code: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    message: Text = ""
    effect: Seq | None = None
    step: Place | None = None


class ParkInput(HoldInput, frozen=True, kw_only=True):
    """The reason why a person must look at a run. changed: the program does not do what the run did."""

    reason: Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z-]{0,39}$")]
    message: Text
    hint: Text = ""


class RestInput(HoldInput, frozen=True, kw_only=True):
    """A rest: the waits and the effects in doubt that the program is at, by number.

    cancelling: the worker knows that the run was cancelled.
    """

    reason: Literal["ask", "approval", "sleep", "signal", "child", "doubt", "landing"]
    awaited: Annotated[list[Seq], msgspec.Meta(max_length=HELD_MAX)] = []
    doubts: Annotated[list[Seq], msgspec.Meta(max_length=HELD_MAX)] = []
    wake_at: Seq | None = None
    cancelling: bool = False


class JournalQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A page of a journal: what was begun after an event."""

    after: Seq = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 500


# -- answers ---------------------------------------------------------------------------------------------------------


class JournalItem(msgspec.Struct, frozen=True, kw_only=True):
    """The record at one place. what: step, effect, ask, sleep, signal or child; one of the three fields is there."""

    place: str
    what: str
    name: str
    digest: str
    seq: int
    step: StepRecord | None = None
    effect: EffectAnswer | None = None
    wait: AskAnswer | None = None


class JournalAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The work of a run since its last checkpoint, in the order in which it was begun. next: the `after` of the next page."""

    items: list[JournalItem]
    next: int | None


class WorkClaimAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A run to drive, the token of its lease, and what it did already. restored: the state of its last checkpoint.

    lease_seconds: a heartbeat must come sooner than that. cut: the number with which its places begin.
    """

    run: str
    token: int
    agent: str
    args: list[Any]
    kwargs: dict[str, Any]
    session: str | None
    cut: int
    has_checkpoint: bool
    restored: Any
    cancelling: bool
    timeout_at: datetime | None
    lease_seconds: float
    journal: JournalAnswer


class HeldAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A run that a worker has."""

    run: str
    token: int
    cancelling: bool


class HeartbeatAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The runs that this worker has; it leaves any other that it drives. draining: this server is about to end."""

    runs: list[HeldAnswer]
    draining: bool
    lease_seconds: float


class ReachedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The next thing to do, and the record at the place. pause_seconds: before another attempt.

    why, awaited, wake_at: for a rest. now: the store's time in microseconds.
    """

    next: Next
    cancelling: bool
    why: str = ""
    awaited: list[int] = []
    wake_at: int | None = None
    pause_seconds: float = 0.0
    now: int = 0
    step: StepRecord | None = None
    effect: EffectAnswer | None = None
    wait: AskAnswer | None = None


class CutAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The cut that places begin with from here on. next: `end` if the run is to end, and nothing was saved."""

    next: Next
    cut: int
    cancelling: bool

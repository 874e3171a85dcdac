"""Records of runs, of their waits and of their steps. See docs/decisions/0007."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec

from perdure.model.pins import Moved, OnChange, Versions
from perdure.model.records.effects import EffectError
from perdure.model.refs import Ref


class RunStatus(enum.StrEnum):
    """The status of a run."""

    READY = "ready"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    PARKED = "parked"


RunStatusName: TypeAlias = Literal["ready", "running", "waiting", "completed", "failed", "cancelled", "parked"]


CALLED_OFF = "Cancelled"  # the code of what ends because its run was cancelled
ENDED = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED})


class WaitKind(enum.StrEnum):
    """The things that a run can wait for: a person's answer or approval, a time, a signal, a child run."""

    ASK = "ask"
    APPROVAL = "approval"
    SLEEP = "sleep"
    SIGNAL = "signal"
    CHILD = "child"


class WaitState(enum.StrEnum):
    """A wait is opened once, and ends once."""

    OPEN = "open"
    MET = "met"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"


WaitStateName: TypeAlias = Literal["open", "met", "expired", "withdrawn"]


class WhatIf(msgspec.Struct, frozen=True):
    """The supposition of a what-if run: that another run had another result at a place (`seq`: its entry there).

    uid: of the run from which both draw random numbers.
    acts: it may act like any other run. Otherwise a person approves of every act.
    """

    run: str
    uid: str
    seq: int
    place: str
    acts: bool


class PinsDecision(enum.StrEnum):
    """The decision about a change of versions. accepted: by a person; withdrawn: the old versions came back first."""

    CONTINUED = "continued"
    UNDECIDED = "undecided"
    ACCEPTED = "accepted"
    WITHDRAWN = "withdrawn"


class PinsChange(msgspec.Struct, frozen=True):
    """The last change of versions that a run met: what differed, by name, before and after (None: unknown).

    number: of the changes that it met so far.
    """

    number: int
    moved: Moved
    decision: PinsDecision


class RunRecord(msgspec.Struct, frozen=True):
    """One run. `id` is unique in its tenant.

    reason: why it is parked, or what it waits for, as a short code.
    program: the digest of the code that drove it last.
    deaths: processes that died with it without any progress.
    abandoned: it is running, but its holder's heartbeat has lapsed.
    what_if: it was forked from another run, to see what would happen.
    hint: what can be decided about a parked run, if that is known.
    outcome_at: when its result, its failure or the reason of its parking was recorded.
    copy: it came by import, and nobody took it over (`unpark`).
    numbering: how its branches are numbered, for life: 2, or 1 if it began before this was recorded.
    pins: the versions under which it was driven last, or, before that, started. Empty: unknown.
    pins_change: the last change of them that it met.
    on_change: what its agent says is done then. None: continue.
    """

    id: str
    agent: str
    status: RunStatus
    key: str | None
    args: Any
    kwargs: Any
    result: Any
    error: EffectError | None
    session: str | None
    parent: str | None
    creator: str
    created_at: datetime
    ended_at: datetime | None
    wake_at: datetime | None
    timeout_at: datetime | None
    holder: str | None
    token: int
    deaths: int
    suspect: bool
    cancelling: bool
    cuts: int
    cut_seq: int
    program: str
    pinned: bool
    epoch: int
    reason: str | None
    abandoned: bool
    ref: Ref
    what_if: WhatIf | None = None
    hint: str = ""
    outcome_at: datetime | None = None
    copy: bool = False
    numbering: int = 1
    pins: Versions = {}
    pins_change: PinsChange | None = None
    on_change: OnChange | None = None

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self.status in ENDED


class WaitRecord(msgspec.Struct, frozen=True):
    """A wait of a run, open or over. `id` names it on its store: `perdure answer` takes it.

    question: the question to a person.
    choices: the possible answers; any text when there are none.
    name: of the signal or the child.
    effect: the number of the effect that an approval is for.
    """

    seq: int
    stream_kind: str
    stream: str
    kind: WaitKind
    state: WaitState
    name: str
    question: str
    choices: tuple[str, ...]
    default: Any
    detail: Any
    place: str | None
    effect: int | None
    digest: str | None
    actor: str
    at: datetime
    expires_at: datetime | None
    met_by: str | None
    met_at: datetime | None
    answer: Any
    ref: Ref

    @property
    def id(self) -> str:
        """The name that people use."""
        return f"{self.stream_kind}:{self.stream}/{self.seq}"


class StepRecord(msgspec.Struct, frozen=True):
    """One recorded step of a run.

    notes: of a model step, its pins and its usage.
    input: the address of a model's input (`RunHandle.input_of` reads it).
    gave: the digest of its value, if only that is kept.
    shape: the names, types and lengths of its arguments, without their contents; empty if it had none.
    took_us: how long its call took, in microseconds; 0 if it took less than a millisecond, or this is unknown.
    """

    seq: int
    place: str
    name: str
    digest: str
    value: Any
    error: EffectError | None
    notes: dict[str, Any]
    input: str | None = None
    gave: str | None = None
    shape: str = ""
    took_us: int = 0

"""Records of the effect ledger: an effect and its state, and the verdicts that settle it."""

from __future__ import annotations

import enum
import hashlib
from datetime import datetime
from typing import Any, Literal, NoReturn, TypeAlias

import msgspec

from perdure.errors import Invalid
from perdure.model.refs import Ref
from perdure.model.registered_types import registered

CODE_MAX_CHARS = 200
MESSAGE_MAX_CHARS = 4_000


class EffectState(enum.StrEnum):
    """The state of an effect (docs/decisions/0006). Planned, dispatched and committed are different facts; doubt is a state."""

    PLANNED = "planned"
    DISPATCHED = "dispatched"
    IN_DOUBT = "in_doubt"
    COMMITTED = "committed"
    FAILED = "failed"
    WITHDRAWN = "withdrawn"
    UNDOING = "undoing"
    UNDONE = "undone"


EffectStateName: TypeAlias = Literal[
    "planned", "dispatched", "in_doubt", "committed", "failed", "withdrawn", "undoing", "undone"
]


SETTLED = frozenset({EffectState.COMMITTED, EffectState.FAILED, EffectState.WITHDRAWN, EffectState.UNDONE})


class ToolKind(enum.StrEnum):
    """The kind of a tool. It decides how doubt about a call is settled after a crash (docs/tools.md)."""

    READ = "read"  # changes nothing in the world: run again
    IDEMPOTENT = "idempotent"  # twice is as good as once: call again
    KEYED = "keyed"  # the other side deduplicates on our key: call again with it
    PROBED = "probed"  # one can ask the other side
    UNSAFE = "unsafe"  # none of these: a person settles it


ToolKindName: TypeAlias = Literal["read", "idempotent", "keyed", "probed", "unsafe"]


class Verdict(msgspec.Struct, frozen=True):
    """The statement of a probe or a person about an effect in doubt. Never true or false: there are more than two answers."""

    def __bool__(self) -> NoReturn:
        raise Invalid(
            f"a verdict is not true or false: {self!r}",
            path="verdict",
            hint="compare with isinstance(verdict, perdure.Happened), perdure.Absent or perdure.Unknown",
        )


class Happened(Verdict, frozen=True):
    """The call took effect, with this result."""

    result: Any = None


class Absent(Verdict, frozen=True):
    """The call did not take effect. It may be tried again."""

    reason: str = ""


class Unknown(Verdict, frozen=True):
    """The other side cannot tell. A person settles the effect."""

    reason: str = ""


class Declined(Verdict, frozen=True):
    """The call did not take effect and shall not: the effect failed. Only a person says so."""

    reason: str = ""


class Rule(msgspec.Struct, frozen=True, omit_defaults=True):
    """The declaration of a tool when its effect was planned, kept with the plan: how doubt about it may be settled.

    Times are in microseconds. undo: the name of the tool that undoes it. undo_idempotent: the undo may run even while it is in
    doubt whether the effect happened.
    """

    timeout: int | None = None
    lands_within: int = 60_000_000
    keeps_keys: int | None = None
    retries: int = 0
    undo: str = ""
    undo_idempotent: bool = False


def key_of_call(call: str) -> str:
    """The key of the effect that answers a call."""
    return f"call:{call}"


def sent_key_of(stream_uid: str, key: str) -> str:
    """Return the key that is sent to the other side for an effect with this key of a stream."""
    return hashlib.sha256(f"{stream_uid} {key}".encode()).hexdigest()[:32]


def text_of(value: object) -> str:
    """Return anything as text that every database takes; an object that cannot be printed is named by its type."""
    try:
        text = str(value)
    except Exception:  # noqa: BLE001 - whatever an odd object raises
        text = f"a {type(value).__name__} that cannot be printed"
    return str.encode(text, "utf-8", "replace").decode().replace("\0", "")


@registered("perdure.EffectError")
class EffectError(msgspec.Struct, frozen=True, dict=True):
    """Why an effect failed or is in doubt: a short code (mostly the exception's name) and a message.

    It can always be stored: both are bounded text, without characters that no database takes.
    """

    code: str
    message: str

    def __post_init__(self) -> None:
        """An error must never be lost because it was said oddly."""
        msgspec.structs.force_setattr(self, "code", text_of(self.code)[:CODE_MAX_CHARS])
        msgspec.structs.force_setattr(self, "message", text_of(self.message)[:MESSAGE_MAX_CHARS])

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


@registered("perdure.Answer")
class Answer(msgspec.Struct, frozen=True, dict=True):
    """The outcome of one call in a model's answer: a result, or an error if it failed, was refused, or fitted no tool."""

    call: str
    tool: str
    result: Any = None
    error: EffectError | None = None


@registered("perdure.Reply")
class Reply(msgspec.Struct, frozen=True, dict=True):
    """A model's answer in a run, and the outcomes of its calls."""

    value: Any
    answers: list[Answer]


class EffectRecord(msgspec.Struct, frozen=True):
    """One effect. `id` names it on its store: the kind and name of its stream, and its number there.

    key, sent_key: `key` is unique in its stream; its tool, and so the other side, gets `sent_key`, which is unique in all the
        world.
    attempt: dispatches so far.
    mishaps: attempts that ended through no fault of the tool.
    quiet_at: since when its caller is known to be unable to send.
    place: where in its run it stands.
    unkept: why its result is not the one that its tool returned.
    doubtful: an attempt before the last one may have happened.
    what_if: a what-if fork copied it, and nothing was done here.
    outcome_at: when its latest outcome was recorded: a result, a failure, doubt.
    copy: it came by import, and nobody took its session or run over (`unpark`).
    sagas: of a run, the sagas that it was done in, by where they began, the outermost first; None: they were not recorded.
    """

    seq: int
    stream_kind: str
    stream: str
    tool: str
    kind: ToolKind
    state: EffectState
    key: str
    digest: str
    args: dict[str, Any]
    rule: Rule
    attempt: int
    holder: str | None
    place: str | None
    call: str | None
    undoes: int | None
    epoch: int
    actor: str
    at: datetime
    dispatched_at: datetime | None
    deadline_at: datetime | None
    quiet_at: datetime | None
    result: Any
    error: EffectError | None
    settled_by: str | None
    ref: Ref
    mishaps: int = 0
    first_dispatched_at: datetime | None = None
    unkept: str | None = None
    doubtful: bool = False
    sent_key: str = ""
    what_if: bool = False
    outcome_at: datetime | None = None
    copy: bool = False
    sagas: tuple[str, ...] | None = None

    @property
    def failures(self) -> int:
        """How often its tool has failed by itself, once the last attempt is over. These use up its retries."""
        return self.attempt - self.mishaps

    @property
    def id(self) -> str:
        """The name that people use: `perdure settle` takes it."""
        return f"{self.stream_kind}:{self.stream}/{self.seq}"

    @property
    def settled(self) -> bool:
        """Whether nothing is left to do or to find out."""
        return self.state in SETTLED

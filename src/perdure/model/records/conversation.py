"""The records of the conversation plane: sessions, turns, summaries, pins. Frozen; instants are aware, in
UTC.
"""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec

from perdure.model.refs import Ref
from perdure.model.registered_types import registered


class Status(enum.StrEnum):
    """The state of a session. CRASHED is never stored: it is how an open session reads when who was at it has
    died.

        active ⇄ waiting        mark_waiting, mark_active
        active, waiting ──▶ completed | failed        close
        completed, failed ──▶ active                  reopen
    """

    ACTIVE = "active"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    CRASHED = "crashed"


StatusName: TypeAlias = Literal["active", "waiting", "completed", "failed", "crashed"]


class Role(enum.StrEnum):
    """The speaker of a turn. TOOL turns are made by `result` only."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


Speaker: TypeAlias = Literal["system", "user", "assistant", Role.SYSTEM, Role.USER, Role.ASSISTANT]
Ending: TypeAlias = Literal["completed", "failed", Status.COMPLETED, Status.FAILED]
Shape: TypeAlias = Literal["openai", "anthropic"]  # of a transcript


@registered("perdure.Call")
class Call(msgspec.Struct, frozen=True, dict=True):
    """A tool call that an assistant turn makes. `id` names it until it has its result. A value like any other, so that steps
    give it.
    """

    id: str
    tool: str
    args: Any = {}


class Native(msgspec.Struct, frozen=True):
    """A turn as the framework that wrote it has it: the name of its form, and the body. For what the turn cannot say itself."""

    form: str
    body: Any


class Turn(msgspec.Struct, frozen=True):
    """One turn. `call` and `error` belong to tool turns: which call this is the result of, and whether it
    failed.

    `ref` is what decisions, tasks and others refer to it by. `origin` is where an imported turn came from: its format
    there, its id and its instant. `shown` refers to what its speaker was shown before: memories, turns, decisions.
    `native` is its form in the framework that wrote it. `usage` and `model`: what saying it took, and of which model.
    `parent`: the turn that it follows, where that is not the one before it.
    """

    seq: int
    role: Role
    content: Any
    calls: tuple[Call, ...]
    at: datetime
    actor: str
    key: str | None = None
    call: str | None = None
    error: bool = False
    ref: Any = None
    origin: Any = None
    shown: tuple[Ref, ...] = ()
    native: Native | None = None
    usage: dict[str, Any] | None = None
    model: str | None = None
    parent: int | None = None


class Cover(msgspec.Struct, frozen=True):
    """A summary that stands for the turns from first_seq to last_seq; they stay readable.

    keys: identifiers of what it covers that its text does not say.
    """

    seq: int
    first_seq: int
    last_seq: int
    text: str
    at: datetime
    actor: str
    ref: Any = None
    keys: tuple[str, ...] = ()


class Due(msgspec.Struct, frozen=True):
    """The range to summarise next: the turns from `first_seq` to `last_seq`. covers: the summaries among them, which the new
    one swallows; without any, it is the turns themselves that are to be read.
    """

    first_seq: int
    last_seq: int
    covers: tuple[Cover, ...] = ()


class PendingKind(enum.StrEnum):
    """The kind of thing that a session waits for."""

    ANSWER = "answer"  # the assistant's
    RESULTS = "results"  # of tool calls


class Pending(msgspec.Struct, frozen=True):
    """The open end of a conversation: `turn` waits for an answer, or made the `calls` that have no result yet."""

    kind: PendingKind
    turn: Turn
    calls: tuple[Call, ...] = ()


class Pins(msgspec.Struct, frozen=True):
    """The software versions in force. `prompt` is the sha256 of its text; `digest` is what events carry."""

    model: str | None
    prompt: str | None
    tools: dict[str, str]
    commit: str | None
    digest: str


class SessionHeader(msgspec.Struct, frozen=True):
    """A session as listings show it. `last_seq` and `last_at` are of its newest event. archived_at: since when listings leave it
    out, unless they are asked for it.
    """

    name: str
    title: str
    status: Status
    creator: str
    labels: tuple[str, ...]
    created_at: datetime
    ended_at: datetime | None
    expires_at: datetime | None
    last_seq: int
    last_at: datetime
    archived_at: datetime | None

    def __repr__(self) -> str:
        title = f", {self.title[:60]!r}" if self.title else ""
        events = f"{self.last_seq} event{'' if self.last_seq == 1 else 's'}"
        return (
            f"{type(self).__name__}({self.name!r}{title}, {self.status}, {events}, last {self.last_at:%Y-%m-%d %H:%M})"
        )


class Origin(msgspec.Struct, frozen=True):
    """The session that a session continues: its name (None: it is not here), its uid, and the last event that both have.

    branch: whose way on this is, if it came by a merge; "" for a fork.
    """

    session: str | None
    uid: str
    seq: int
    branch: str = ""


class SessionRecord(SessionHeader, frozen=True):
    """A session with its goal and its pins."""

    goal: str | None
    pins: Pins | None

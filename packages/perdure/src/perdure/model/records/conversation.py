"""The records of the conversation plane: sessions, turns, summaries, pins. Frozen; instants are aware, in UTC."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec

from perdure.model.refs import Ref
from perdure.model.registered_types import registered


class Status(enum.StrEnum):
    """The state of a session. CRASHED is never stored: an open session reads so when the process at work in it has died.

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
    """The speaker of a turn. Only `session.result` makes TOOL turns."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


Speaker: TypeAlias = Literal["system", "user", "assistant", Role.SYSTEM, Role.USER, Role.ASSISTANT]
Ending: TypeAlias = Literal["completed", "failed", Status.COMPLETED, Status.FAILED]
Shape: TypeAlias = Literal["openai", "anthropic"]  # of a transcript


@registered("perdure.Call")
class Call(msgspec.Struct, frozen=True, dict=True):
    """A tool call in an assistant turn. `id` names it until it has its result.

        perdure.Call("call_1", "open_pr", {"title": "Fix login"})

    It is a value like any other, so steps may return it.
    """

    id: str
    tool: str
    args: Any = {}


class Native(msgspec.Struct, frozen=True):
    """A message in its framework's own form: the name of the form, and the body. For parts that a turn cannot express."""

    form: str
    body: Any


class Turn(msgspec.Struct, frozen=True):
    """One message of a conversation.

    call, error: of a tool turn: the call that it is the result of, and whether that failed.
    ref: the reference by which decisions, tasks and others name it.
    origin: of an imported turn: its format, id and instant in the other program.
    shown: references to what its speaker was shown before: memories, turns, decisions.
    native: its form in the framework that wrote it.
    usage, model: the tokens that it took, and the model that said it.
    parent: the turn that it follows, if not the one before it.
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
    """A summary that stands for the turns from first_seq to last_seq. The turns stay readable.

    keys: identifiers in these turns that its text does not mention.
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
    """The range to summarise next: the turns from `first_seq` to `last_seq`.

    covers: the summaries among them, which the new one covers. Without any, read the turns themselves.
    """

    first_seq: int
    last_seq: int
    covers: tuple[Cover, ...] = ()


class PendingKind(enum.StrEnum):
    """The thing that a conversation waits for."""

    ANSWER = "answer"  # the assistant's
    RESULTS = "results"  # of tool calls


class Pending(msgspec.Struct, frozen=True):
    """The open end of a conversation: `turn` waits for an answer, or made the `calls` that have no result yet."""

    kind: PendingKind
    turn: Turn
    calls: tuple[Call, ...] = ()


class Pins(msgspec.Struct, frozen=True):
    """The software versions in force. `prompt` is the sha256 of its text; events carry the `digest`."""

    model: str | None
    prompt: str | None
    tools: dict[str, str]
    commit: str | None
    digest: str


class SessionHeader(msgspec.Struct, frozen=True):
    """A session as listings show it. `last_seq` and `last_at` are those of its newest event.

    archived_at: since when listings leave it out, unless they are asked for it.
    copy: it came by import, and nobody took it over (`session.unpark`).
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
    copy: bool = False

    def __repr__(self) -> str:
        title = f", {self.title[:60]!r}" if self.title else ""
        events = f"{self.last_seq} event{'' if self.last_seq == 1 else 's'}"
        return (
            f"{type(self).__name__}({self.name!r}{title}, {self.status}, {events}, last {self.last_at:%Y-%m-%d %H:%M})"
        )


class Origin(msgspec.Struct, frozen=True):
    """The session that a session continues: its name (None: it is not here), its uid, and the last event that both have.

    branch: the branch that a merge brought it from; "" for a fork.
    """

    session: str | None
    uid: str
    seq: int
    branch: str = ""


class SessionRecord(SessionHeader, frozen=True):
    """A session with its goal and its pins."""

    goal: str | None = None
    pins: Pins | None = None

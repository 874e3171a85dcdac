"""Records of tasks, as the verbs of `planes.execution.tasks` return them."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec

from perdure.model.refs import Ref


class TaskStatus(enum.StrEnum):
    """The status of a task. `planes.execution.tasks` draws how it moves."""

    TODO = "todo"
    DOING = "doing"
    BLOCKED = "blocked"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


TaskStatusName: TypeAlias = Literal["todo", "doing", "blocked", "done", "failed", "cancelled"]


class TaskRecord(msgspec.Struct, frozen=True):
    """A task. `id`, `needs` and `parent` are sequence numbers in its session.

    note: the note of its last move (done, failed, blocked …).
    holder, claimed_by: the open store that holds the claim, and the actor that claimed through it.
    abandoned: the claim is void, because its time is over or its holder has died; the task is then as good as todo.
    changed_at: when it was last changed.
    closed_at: when it was done, failed or cancelled, unless an older Perdure did that.
    key: the key that makes adding it idempotent.
    """

    id: int
    session: str
    title: str
    status: TaskStatus
    priority: int
    parent: int | None
    needs: tuple[int, ...]
    labels: tuple[str, ...]
    detail: Any
    note: str | None
    actor: str
    at: datetime
    holder: str | None
    claimed_by: str | None
    claim_expires_at: datetime | None
    token: int
    abandoned: bool
    ref: Ref
    changed_at: datetime
    closed_at: datetime | None = None
    key: str | None = None

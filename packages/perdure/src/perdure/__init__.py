"""Perdure: the durable state layer and runtime for long-running AI agents.

    with perdure.open("sqlite:///agent.db") as store:
        session = store.session("issue-42")
        session.say("user", "Login fails on Safari")

Where to begin: `help(perdure.open)`, `help(perdure.Session)` for state, `help(perdure.tool)` for external calls,
`help(perdure.agent)` for runs that survive restarts, `help(perdure.Error)` for errors. The guide is in docs/guide.

This module is the public surface and nothing else; names are loaded when they are first used.
"""

from __future__ import annotations

import importlib as _importlib
import sys as _sys
import typing as _typing

if _sys.platform == "win32":  # its locks, renames and syncs are not those that the promises rest on
    raise ImportError(
        "Perdure runs on Linux and macOS, and not on Windows: use it in WSL 2, with the store on a disk of WSL"
    )

from perdure.version import VERSION as __version__  # noqa: F401, N811 - Python looks for this name

# fmt: off
# isort: off
if _typing.TYPE_CHECKING:  # `X as X`: a checker takes it for public
    from perdure.effects.tool import Refuse as Refuse, RequireApproval as RequireApproval, Tool as Tool, tool as tool
    from perdure.errors import (
        Cancelled as Cancelled, Changed as Changed, Conflict as Conflict, Damaged as Damaged, Error as Error,
        Failed as Failed, Full as Full, Imported as Imported, InDoubt as InDoubt, Invalid as Invalid,
        KeyReused as KeyReused, Limited as Limited, NewerSchema as NewerSchema, NotFound as NotFound,
        Parked as Parked, ReadOnly as ReadOnly, Refused as Refused, Stale as Stale, TimedOut as TimedOut,
        TooLarge as TooLarge, Unauthenticated as Unauthenticated, Unavailable as Unavailable,
        Waiting as Waiting,
    )
    from perdure.handles.aio.artifacts import AsyncArtifact as AsyncArtifact
    from perdure.handles.aio.decisions import AsyncDecision as AsyncDecision
    from perdure.handles.aio.effects import AsyncEffect as AsyncEffect
    from perdure.handles.aio.feed import AsyncBatch as AsyncBatch, AsyncSubscription as AsyncSubscription
    from perdure.handles.aio.memory import (
        AsyncChecked as AsyncChecked, AsyncHit as AsyncHit, AsyncMemory as AsyncMemory,
    )
    from perdure.handles.aio.run import AsyncChild as AsyncChild, AsyncRun as AsyncRun
    from perdure.handles.aio.run_handle import AsyncRunHandle as AsyncRunHandle
    from perdure.handles.aio.session import AsyncScope as AsyncScope, AsyncSession as AsyncSession
    from perdure.handles.aio.store import AsyncStore as AsyncStore
    from perdure.handles.aio.tasks import AsyncTask as AsyncTask
    from perdure.handles.aio.values import AsyncLock as AsyncLock
    from perdure.handles.atomic import Atomic as Atomic
    from perdure.handles.listing import acount as acount, aevery as aevery, count as count, every as every
    from perdure.handles.opening import aopen as aopen, open as open  # noqa: A004
    from perdure.handles.restoring import arestore as arestore, restore as restore
    from perdure.handles.sync.artifacts import Artifact as Artifact
    from perdure.handles.sync.decisions import Decision as Decision
    from perdure.handles.sync.effects import Effect as Effect
    from perdure.handles.sync.feed import Batch as Batch, Subscription as Subscription
    from perdure.handles.sync.memory import Checked as Checked, Hit as Hit, Memory as Memory
    from perdure.handles.sync.run import Child as Child, Run as Run
    from perdure.handles.sync.run_handle import RunHandle as RunHandle
    from perdure.handles.sync.session import Scope as Scope, Session as Session
    from perdure.handles.sync.store import Store as Store
    from perdure.handles.sync.tasks import Task as Task
    from perdure.handles.sync.values import Lock as Lock
    from perdure.interchange.move import move as move
    from perdure.log.anchor import Anchor as Anchor
    from perdure.model.records.actors import ActorRecord as ActorRecord
    from perdure.model.records.artifacts import ArtifactRecord as ArtifactRecord, CollectReport as CollectReport
    from perdure.model.records.bundles import Exported as Exported, ImportedBundle as ImportedBundle
    from perdure.model.records.checkpoints import CheckpointRecord as CheckpointRecord, PruneReport as PruneReport
    from perdure.model.records.checks import (
        Age as Age, AtCommit as AtCommit, CheckResult as CheckResult, ClaimerAlive as ClaimerAlive,
        Command as Command, FileHash as FileHash, GitRef as GitRef, ModelOffered as ModelOffered,
        UrlEtag as UrlEtag, ValueIs as ValueIs,
    )
    from perdure.model.records.conversation import (
        Call as Call, Cover as Cover, Due as Due, Native as Native, Origin as Origin, Pending as Pending,
        PendingKind as PendingKind, Pins as Pins, Role as Role, SessionHeader as SessionHeader,
        SessionRecord as SessionRecord, Status as Status, Turn as Turn,
    )
    from perdure.model.records.decisions import (
        DecisionRecord as DecisionRecord, DecisionStatus as DecisionStatus, Reference as Reference,
    )
    from perdure.model.records.differences import Difference as Difference, How as How, SessionDiff as SessionDiff
    from perdure.model.records.effects import (
        Absent as Absent, Answer as Answer, Declined as Declined, EffectError as EffectError,
        EffectRecord as EffectRecord, EffectState as EffectState, Happened as Happened, Reply as Reply,
        ToolKind as ToolKind, Unknown as Unknown,
    )
    from perdure.model.records.emitted import EventRecord as EventRecord
    from perdure.model.records.envelope import (
        Envelope as Envelope, PendingEffect as PendingEffect, RunVerdict as RunVerdict, Standing as Standing,
    )
    from perdure.model.records.integrity import (
        Backup as Backup, Problem as Problem, Report as Report, Restored as Restored,
    )
    from perdure.model.records.memories import (
        Found as Found, MemoryKind as MemoryKind, MemoryRecord as MemoryRecord, MemoryStatus as MemoryStatus,
        SearchKind as SearchKind, Validity as Validity, Why as Why,
    )
    from perdure.model.records.moves import Moved as Moved
    from perdure.model.records.recovery import Recovered as Recovered
    from perdure.model.records.retention import (
        RetainReport as RetainReport, Retained as Retained, Retention as Retention,
    )
    from perdure.model.records.runs import (
        RunRecord as RunRecord, RunStatus as RunStatus, StepRecord as StepRecord, WaitKind as WaitKind,
        WaitRecord as WaitRecord, WaitState as WaitState, WhatIf as WhatIf,
    )
    from perdure.model.records.subjects import SubjectRecord as SubjectRecord
    from perdure.model.records.tasks import TaskRecord as TaskRecord, TaskStatus as TaskStatus
    from perdure.model.records.timeline import TimelineRecord as TimelineRecord
    from perdure.model.records.values import Entry as Entry
    from perdure.model.refs import Ref as Ref
    from perdure.model.registered_types import Unregistered as Unregistered, registered as registered
    from perdure.planes.conversation.transcript import Transcript as Transcript
    from perdure.planes.memory.search import Results as Results
    from perdure.planes.reading.paging import Page as Page
    from perdure.runtime.agent import Agent as Agent, agent as agent
# fmt: on
# isort: on

# module -> the names of this one that it has
_HOMES = {
    "perdure.effects.tool": "Refuse RequireApproval Tool tool",
    "perdure.errors":
        "Cancelled Changed Conflict Damaged Error Failed Full Imported InDoubt Invalid KeyReused Limited "
        "NewerSchema NotFound Parked ReadOnly Refused Stale TimedOut TooLarge Unauthenticated Unavailable Waiting",
    "perdure.handles.aio.artifacts": "AsyncArtifact",
    "perdure.handles.aio.decisions": "AsyncDecision",
    "perdure.handles.aio.effects": "AsyncEffect",
    "perdure.handles.aio.feed": "AsyncBatch AsyncSubscription",
    "perdure.handles.aio.memory": "AsyncChecked AsyncHit AsyncMemory",
    "perdure.handles.aio.run": "AsyncChild AsyncRun",
    "perdure.handles.aio.run_handle": "AsyncRunHandle",
    "perdure.handles.aio.session": "AsyncScope AsyncSession",
    "perdure.handles.aio.store": "AsyncStore",
    "perdure.handles.aio.tasks": "AsyncTask",
    "perdure.handles.aio.values": "AsyncLock",
    "perdure.handles.atomic": "Atomic",
    "perdure.handles.listing": "acount aevery count every",
    "perdure.handles.opening": "aopen open",
    "perdure.handles.restoring": "arestore restore",
    "perdure.handles.sync.artifacts": "Artifact",
    "perdure.handles.sync.decisions": "Decision",
    "perdure.handles.sync.effects": "Effect",
    "perdure.handles.sync.feed": "Batch Subscription",
    "perdure.handles.sync.memory": "Checked Hit Memory",
    "perdure.handles.sync.run": "Child Run",
    "perdure.handles.sync.run_handle": "RunHandle",
    "perdure.handles.sync.session": "Scope Session",
    "perdure.handles.sync.store": "Store",
    "perdure.handles.sync.tasks": "Task",
    "perdure.handles.sync.values": "Lock",
    "perdure.interchange.move": "move",
    "perdure.log.anchor": "Anchor",
    "perdure.model.records.actors": "ActorRecord",
    "perdure.model.records.artifacts": "ArtifactRecord CollectReport",
    "perdure.model.records.bundles": "Exported ImportedBundle",
    "perdure.model.records.checkpoints": "CheckpointRecord PruneReport",
    "perdure.model.records.checks":
        "Age AtCommit CheckResult ClaimerAlive Command FileHash GitRef ModelOffered UrlEtag ValueIs",
    "perdure.model.records.conversation":
        "Call Cover Due Native Origin Pending PendingKind Pins Role SessionHeader SessionRecord Status Turn",
    "perdure.model.records.decisions": "DecisionRecord DecisionStatus Reference",
    "perdure.model.records.differences": "Difference How SessionDiff",
    "perdure.model.records.effects":
        "Absent Answer Declined EffectError EffectRecord EffectState Happened Reply ToolKind Unknown",
    "perdure.model.records.emitted": "EventRecord",
    "perdure.model.records.envelope": "Envelope PendingEffect RunVerdict Standing",
    "perdure.model.records.integrity": "Backup Problem Report Restored",
    "perdure.model.records.memories": "Found MemoryKind MemoryRecord MemoryStatus SearchKind Validity Why",
    "perdure.model.records.moves": "Moved",
    "perdure.model.records.recovery": "Recovered",
    "perdure.model.records.retention": "RetainReport Retained Retention",
    "perdure.model.records.runs": "RunRecord RunStatus StepRecord WaitKind WaitRecord WaitState WhatIf",
    "perdure.model.records.subjects": "SubjectRecord",
    "perdure.model.records.tasks": "TaskRecord TaskStatus",
    "perdure.model.records.timeline": "TimelineRecord",
    "perdure.model.records.values": "Entry",
    "perdure.model.refs": "Ref",
    "perdure.model.registered_types": "Unregistered registered",
    "perdure.planes.conversation.transcript": "Transcript",
    "perdure.planes.memory.search": "Results",
    "perdure.planes.reading.paging": "Page",
    "perdure.runtime.agent": "Agent agent",
}  # fmt: skip
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

if not _typing.TYPE_CHECKING:  # a checker sees the imports above, and so finds a name that is misspelt
    __all__ = list(_HOME)

    def __getattr__(name: str) -> _typing.Any:
        home = _HOME.get(name)
        if home is None:
            raise AttributeError(f"module 'perdure' has no attribute {name!r}")
        value = getattr(_importlib.import_module(home), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted([*_HOME, "__version__"])

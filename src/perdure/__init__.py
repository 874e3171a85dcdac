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

if _typing.TYPE_CHECKING:
    from perdure.effects.tool import Refuse, RequireApproval, Tool, tool
    from perdure.errors import (
        Cancelled,
        Changed,
        Conflict,
        Damaged,
        Error,
        Failed,
        Full,
        Imported,
        InDoubt,
        Invalid,
        KeyReused,
        Limited,
        NewerSchema,
        NotFound,
        Parked,
        ReadOnly,
        Refused,
        Stale,
        TimedOut,
        TooLarge,
        Unauthenticated,
        Unavailable,
        Waiting,
    )
    from perdure.handles.aio.artifacts import AsyncArtifact
    from perdure.handles.aio.decisions import AsyncDecision
    from perdure.handles.aio.effects import AsyncEffect
    from perdure.handles.aio.feed import AsyncBatch, AsyncSubscription
    from perdure.handles.aio.memory import AsyncChecked, AsyncHit, AsyncMemory
    from perdure.handles.aio.run import AsyncChild, AsyncRun
    from perdure.handles.aio.run_handle import AsyncRunHandle
    from perdure.handles.aio.session import AsyncScope, AsyncSession
    from perdure.handles.aio.store import AsyncStore
    from perdure.handles.aio.tasks import AsyncTask
    from perdure.handles.aio.values import AsyncLock
    from perdure.handles.atomic import Atomic
    from perdure.handles.listing import acount, aevery, count, every
    from perdure.handles.opening import aopen, open  # noqa: A004
    from perdure.handles.restoring import arestore, restore
    from perdure.handles.sync.artifacts import Artifact
    from perdure.handles.sync.decisions import Decision
    from perdure.handles.sync.effects import Effect
    from perdure.handles.sync.feed import Batch, Subscription
    from perdure.handles.sync.memory import Checked, Hit, Memory
    from perdure.handles.sync.run import Child, Run
    from perdure.handles.sync.run_handle import RunHandle
    from perdure.handles.sync.session import Scope, Session
    from perdure.handles.sync.store import Store
    from perdure.handles.sync.tasks import Task
    from perdure.handles.sync.values import Lock
    from perdure.interchange.move import move
    from perdure.log.anchor import Anchor
    from perdure.model.records.actors import ActorRecord
    from perdure.model.records.artifacts import ArtifactRecord, CollectReport
    from perdure.model.records.bundles import Exported, ImportedBundle
    from perdure.model.records.checkpoints import CheckpointRecord, PruneReport
    from perdure.model.records.checks import (
        Age,
        AtCommit,
        CheckResult,
        ClaimerAlive,
        Command,
        FileHash,
        GitRef,
        ModelOffered,
        UrlEtag,
        ValueIs,
    )
    from perdure.model.records.conversation import (
        Call,
        Cover,
        Due,
        Native,
        Origin,
        Pending,
        PendingKind,
        Pins,
        Role,
        SessionHeader,
        SessionRecord,
        Status,
        Turn,
    )
    from perdure.model.records.decisions import DecisionRecord, DecisionStatus, Reference
    from perdure.model.records.differences import Difference, How, SessionDiff
    from perdure.model.records.effects import (
        Absent,
        Answer,
        Declined,
        EffectError,
        EffectRecord,
        EffectState,
        Happened,
        Reply,
        ToolKind,
        Unknown,
    )
    from perdure.model.records.emitted import EventRecord
    from perdure.model.records.envelope import Envelope, PendingEffect, RunVerdict, Standing
    from perdure.model.records.integrity import Backup, Problem, Report, Restored
    from perdure.model.records.memories import (
        Found,
        MemoryKind,
        MemoryRecord,
        MemoryStatus,
        SearchKind,
        Validity,
        Why,
    )
    from perdure.model.records.moves import Moved
    from perdure.model.records.recovery import Recovered
    from perdure.model.records.retention import Retained, RetainReport, Retention
    from perdure.model.records.runs import RunRecord, RunStatus, StepRecord, WaitKind, WaitRecord, WaitState, WhatIf
    from perdure.model.records.subjects import SubjectRecord
    from perdure.model.records.tasks import TaskRecord, TaskStatus
    from perdure.model.records.timeline import TimelineRecord
    from perdure.model.records.values import Entry
    from perdure.model.refs import Ref
    from perdure.model.registered_types import Unregistered, registered
    from perdure.planes.conversation.transcript import Transcript
    from perdure.planes.memory.search import Results
    from perdure.planes.reading.paging import Page
    from perdure.runtime.agent import Agent, agent

_HOMES = {
    "perdure.errors": (
        "Cancelled", "Changed", "Failed", "Parked", "Waiting",
        "Conflict", "Damaged", "Error", "Full", "Imported", "InDoubt", "Invalid", "KeyReused", "Limited",
        "NewerSchema", "NotFound", "ReadOnly", "Refused", "Stale", "TimedOut", "TooLarge", "Unauthenticated", "Unavailable",
    ),
    "perdure.handles.aio.artifacts": ("AsyncArtifact",),
    "perdure.handles.aio.decisions": ("AsyncDecision",),
    "perdure.handles.aio.feed": ("AsyncBatch", "AsyncSubscription"),
    "perdure.handles.aio.memory": ("AsyncChecked", "AsyncHit", "AsyncMemory"),
    "perdure.handles.aio.session": ("AsyncScope", "AsyncSession"),
    "perdure.handles.aio.store": ("AsyncStore",),
    "perdure.handles.aio.values": ("AsyncLock",),
    "perdure.handles.aio.tasks": ("AsyncTask",),
    "perdure.handles.atomic": ("Atomic",),
    "perdure.handles.listing": ("acount", "aevery", "count", "every"),
    "perdure.handles.opening": ("aopen", "open"),
    "perdure.handles.restoring": ("arestore", "restore"),
    "perdure.handles.sync.artifacts": ("Artifact",),
    "perdure.handles.sync.decisions": ("Decision",),
    "perdure.handles.sync.feed": ("Batch", "Subscription"),
    "perdure.handles.sync.memory": ("Checked", "Hit", "Memory"),
    "perdure.handles.sync.session": ("Scope", "Session"),
    "perdure.handles.sync.store": ("Store",),
    "perdure.handles.sync.values": ("Lock",),
    "perdure.handles.sync.tasks": ("Task",),
    "perdure.interchange.move": ("move",),
    "perdure.log.anchor": ("Anchor",),
    "perdure.model.records.actors": ("ActorRecord",),
    "perdure.model.records.artifacts": ("ArtifactRecord", "CollectReport"),
    "perdure.model.records.bundles": ("Exported", "ImportedBundle"),
    "perdure.model.records.checkpoints": ("CheckpointRecord", "PruneReport"),
    "perdure.model.records.checks": (
        "Age", "AtCommit", "CheckResult", "ClaimerAlive", "Command", "FileHash", "GitRef", "ModelOffered", "UrlEtag", "ValueIs",
    ),
    "perdure.model.records.conversation": (
        "Call", "Cover", "Due", "Native", "Origin", "Pending", "PendingKind", "Pins", "Role", "SessionHeader", "SessionRecord",
        "Status", "Turn",
    ),
    "perdure.model.records.decisions": ("DecisionRecord", "DecisionStatus", "Reference"),
    "perdure.model.records.differences": ("Difference", "How", "SessionDiff"),
    "perdure.model.records.envelope": ("Envelope", "PendingEffect", "RunVerdict", "Standing"),
    "perdure.model.records.emitted": ("EventRecord",),
    "perdure.model.records.memories": (
        "Found", "MemoryKind", "MemoryRecord", "MemoryStatus", "SearchKind", "Validity", "Why",
    ),
    "perdure.model.records.moves": ("Moved",),
    "perdure.model.records.recovery": ("Recovered",),
    "perdure.model.records.retention": ("RetainReport", "Retained", "Retention"),
    "perdure.model.records.timeline": ("TimelineRecord",),
    "perdure.model.records.integrity": ("Backup", "Problem", "Report", "Restored"),
    "perdure.model.records.values": ("Entry",),
    "perdure.model.records.subjects": ("SubjectRecord",),
    "perdure.model.records.tasks": ("TaskRecord", "TaskStatus"),
    "perdure.model.refs": ("Ref",),
    "perdure.model.registered_types": ("Unregistered", "registered"),
    "perdure.planes.memory.search": ("Results",),
    "perdure.planes.reading.paging": ("Page",),
    "perdure.planes.conversation.transcript": ("Transcript",),
    "perdure.effects.tool": ("Refuse", "RequireApproval", "Tool", "tool",),
    "perdure.handles.aio.effects": ("AsyncEffect",),
    "perdure.handles.sync.effects": ("Effect",),
    "perdure.handles.aio.run": ("AsyncChild", "AsyncRun",),
    "perdure.handles.sync.run": ("Child", "Run",),
    "perdure.handles.aio.run_handle": ("AsyncRunHandle",),
    "perdure.handles.sync.run_handle": ("RunHandle",),
    "perdure.model.records.effects": (
        "Absent", "Answer", "Declined", "EffectError", "EffectRecord", "EffectState", "Happened", "Reply", "ToolKind",
        "Unknown",
    ),
    "perdure.model.records.runs": ("RunRecord", "RunStatus", "StepRecord", "WaitKind", "WaitRecord", "WaitState", "WhatIf",),
    "perdure.runtime.agent": ("Agent", "agent",),
}  # fmt: skip
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Absent",
    "ActorRecord",
    "Age",
    "Agent",
    "Anchor",
    "Answer",
    "Artifact",
    "ArtifactRecord",
    "AsyncArtifact",
    "AsyncBatch",
    "AsyncChecked",
    "AsyncChild",
    "AsyncDecision",
    "AsyncEffect",
    "AsyncHit",
    "AsyncLock",
    "AsyncMemory",
    "AsyncRun",
    "AsyncRunHandle",
    "AsyncScope",
    "AsyncSession",
    "AsyncStore",
    "AsyncSubscription",
    "AsyncTask",
    "AtCommit",
    "Atomic",
    "Backup",
    "Batch",
    "Call",
    "Cancelled",
    "Changed",
    "CheckResult",
    "Checked",
    "CheckpointRecord",
    "Child",
    "ClaimerAlive",
    "CollectReport",
    "Command",
    "Conflict",
    "Cover",
    "Damaged",
    "Decision",
    "DecisionRecord",
    "DecisionStatus",
    "Declined",
    "Difference",
    "Due",
    "Effect",
    "EffectError",
    "EffectRecord",
    "EffectState",
    "Entry",
    "Envelope",
    "Error",
    "EventRecord",
    "Exported",
    "Failed",
    "FileHash",
    "Found",
    "Full",
    "GitRef",
    "Happened",
    "Hit",
    "How",
    "Imported",
    "ImportedBundle",
    "InDoubt",
    "Invalid",
    "KeyReused",
    "Limited",
    "Lock",
    "Memory",
    "MemoryKind",
    "MemoryRecord",
    "MemoryStatus",
    "ModelOffered",
    "Moved",
    "Native",
    "NewerSchema",
    "NotFound",
    "Origin",
    "Page",
    "Parked",
    "Pending",
    "PendingEffect",
    "PendingKind",
    "Pins",
    "Problem",
    "PruneReport",
    "ReadOnly",
    "Recovered",
    "Ref",
    "Reference",
    "Refuse",
    "Refused",
    "Reply",
    "Report",
    "RequireApproval",
    "Restored",
    "Results",
    "RetainReport",
    "Retained",
    "Retention",
    "Role",
    "Run",
    "RunHandle",
    "RunRecord",
    "RunStatus",
    "RunVerdict",
    "Scope",
    "SearchKind",
    "Session",
    "SessionDiff",
    "SessionHeader",
    "SessionRecord",
    "Stale",
    "Standing",
    "Status",
    "StepRecord",
    "Store",
    "SubjectRecord",
    "Subscription",
    "Task",
    "TaskRecord",
    "TaskStatus",
    "TimedOut",
    "TimelineRecord",
    "TooLarge",
    "Tool",
    "ToolKind",
    "Transcript",
    "Turn",
    "Unauthenticated",
    "Unavailable",
    "Unknown",
    "Unregistered",
    "UrlEtag",
    "Validity",
    "ValueIs",
    "WaitKind",
    "WaitRecord",
    "WaitState",
    "Waiting",
    "WhatIf",
    "Why",
    "acount",
    "aevery",
    "agent",
    "aopen",
    "arestore",
    "count",
    "every",
    "move",
    "open",
    "registered",
    "restore",
    "tool",
]

if not _typing.TYPE_CHECKING:  # a checker sees the imports above, and so finds a name that is misspelt

    def __getattr__(name: str) -> _typing.Any:
        home = _HOME.get(name)
        if home is None:
            raise AttributeError(f"module 'perdure' has no attribute {name!r}")
        value = getattr(_importlib.import_module(home), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])

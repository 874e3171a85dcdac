"""Perdure: the durable state layer and runtime for long-running AI agents.

    with perdure.open("sqlite:///agent.db") as store:
        session = store.session("issue-42")
        session.say("user", "Login fails on Safari")

This module is the public surface and nothing else; names are loaded when they are first used.
"""

from __future__ import annotations

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from perdure.errors import (
        Conflict,
        Damaged,
        Error,
        Full,
        InDoubt,
        Invalid,
        KeyReused,
        NewerSchema,
        NotFound,
        ReadOnly,
        Refused,
        Stale,
        TimedOut,
        TooLarge,
        Unavailable,
    )
    from perdure.handles.aio.session import AsyncScope, AsyncSession
    from perdure.handles.aio.store import AsyncStore
    from perdure.handles.atomic import Atomic
    from perdure.handles.opening import aopen, open  # noqa: A004
    from perdure.handles.restoring import arestore, restore
    from perdure.handles.sync.session import Scope, Session
    from perdure.handles.sync.store import Store
    from perdure.log.anchor import Anchor
    from perdure.model.records.conversation import Call
    from perdure.model.records.integrity import Report
    from perdure.model.refs import Ref
    from perdure.model.types import Unregistered, registered

_HOMES = {
    "perdure.errors": (
        "Conflict", "Damaged", "Error", "Full", "InDoubt", "Invalid", "KeyReused", "NewerSchema", "NotFound", "ReadOnly",
        "Refused", "Stale", "TimedOut", "TooLarge", "Unavailable",
    ),
    "perdure.handles.aio.session": ("AsyncScope", "AsyncSession"),
    "perdure.handles.aio.store": ("AsyncStore",),
    "perdure.handles.atomic": ("Atomic",),
    "perdure.handles.opening": ("aopen", "open"),
    "perdure.handles.restoring": ("arestore", "restore"),
    "perdure.handles.sync.session": ("Scope", "Session"),
    "perdure.handles.sync.store": ("Store",),
    "perdure.log.anchor": ("Anchor",),
    "perdure.model.records.conversation": ("Call",),
    "perdure.model.records.integrity": ("Report",),
    "perdure.model.refs": ("Ref",),
    "perdure.model.types": ("Unregistered", "registered"),
}  # fmt: skip
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__version__ = "0.1.0"
__all__ = [
    "Anchor",
    "AsyncScope",
    "AsyncSession",
    "AsyncStore",
    "Atomic",
    "Call",
    "Conflict",
    "Damaged",
    "Error",
    "Full",
    "InDoubt",
    "Invalid",
    "KeyReused",
    "NewerSchema",
    "NotFound",
    "ReadOnly",
    "Ref",
    "Refused",
    "Report",
    "Scope",
    "Session",
    "Stale",
    "Store",
    "TimedOut",
    "TooLarge",
    "Unavailable",
    "Unregistered",
    "aopen",
    "arestore",
    "open",
    "registered",
    "restore",
]


def __getattr__(name: str) -> _typing.Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'perdure' has no attribute {name!r}")
    value = getattr(_importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])

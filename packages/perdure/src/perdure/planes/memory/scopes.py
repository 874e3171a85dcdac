"""Scopes: which memories are read from where. Written narrow, read upward.

A session reads its own memories, then those of the scopes that its labels name, then those of the scope `tenant`. Narrow ones go
first: of two memories that answer equally well, that of the branch goes before that of the project. Callers: `search`.
"""

from __future__ import annotations

from collections.abc import Iterable

from perdure.errors import Invalid, NotFound
from perdure.log.change import Stream
from perdure.model.limits import LABELS_MAX, check_name
from perdure.planes.memory.memories import Q
from perdure.planes.memory.values import find_scope
from perdure.planes.reading.labels import from_labels
from perdure.planes.tables import SESSIONS
from perdure.stores.store import Reads

TENANT = "tenant"
OWN = "session"  # in a list of scopes: the session or scope itself
_NARROW_FIRST = ("branch", "repository", "project", "user", TENANT)


def read_from(reads: Reads, stream: Stream, scopes: Iterable[str] | None) -> list[Stream]:
    """The streams whose memories a session or scope reads, narrow ones first. NotFound when a scope of that name is not there."""
    return [stream, *_above(reads, stream)] if scopes is None else named_scopes(reads, stream, scopes)


def named_scopes(reads: Reads, own: Stream | None, scopes: Iterable[str]) -> list[Stream]:
    """The streams of some scopes. own: the session or scope that `session` stands for. NotFound when one is not there."""
    if isinstance(scopes, (str, bytes)) or not isinstance(scopes, Iterable):
        raise Invalid(f"expected a list of names of scopes, got {type(scopes).__name__}", path="scopes")
    names = [check_name(name, f"scopes[{i}]") for i, name in enumerate(scopes)][:LABELS_MAX]
    return [
        own if name == OWN and own is not None else _existing_scope(reads, name, f"scopes[{i}]")
        for i, name in enumerate(names)
    ]


def _above(reads: Reads, stream: Stream) -> list[Stream]:
    rows = reads.query(Q.session_labels, touches=[(SESSIONS, stream.id)], stream=stream.id)
    labels = from_labels(rows[0][0], stream.name) if rows else ()
    scopes = [find_scope(reads, name) for name in sorted({*labels, TENANT}, key=_width)]
    return [scope for scope in scopes if scope is not None and scope.id != stream.id]


def _width(name: str) -> tuple[int, str]:
    kind = name.partition(":")[0]
    return (_NARROW_FIRST.index(kind) if kind in _NARROW_FIRST else 2, name)


def _existing_scope(reads: Reads, name: str, path: str) -> Stream:
    scope = find_scope(reads, name)
    if scope is None:
        raise NotFound(
            f"there is no scope {name!r}", path=path, hint="store.scope(name) makes it; 'session' is this session"
        )
    return scope

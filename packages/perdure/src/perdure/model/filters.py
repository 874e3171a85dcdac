"""The filters of listings: a frozen record for each listing says what can be asked for, in which words, and what it means.

A record is the one place of its filters. The handle takes its fields as keywords (`handles.filtered`), the plane gets it, and its
statement gets `wanted(record)`. The command line makes options of it, the server parameters. Keeps P15: values are checked here.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from functools import cache
from typing import Annotated, Any, NamedTuple, Protocol, TypeAlias, get_type_hints

import msgspec

from perdure.model.instants import Instant
from perdure.model.limits import check_name, check_one_of
from perdure.model.records.conversation import Status, StatusName
from perdure.model.records.decisions import DecisionStatus, DecisionStatusName
from perdure.model.records.effects import EffectState, EffectStateName
from perdure.model.records.memories import MemoryKind, MemoryStatus, SearchKind
from perdure.model.records.runs import RunStatus, RunStatusName, WaitState, WaitStateName
from perdure.model.records.tasks import TaskStatus, TaskStatusName


class FilterSort(enum.Enum):
    """The sort of value that a filter takes. Numbers, instants, lists and OWN ones are read by the plane."""

    NAME = enum.auto()
    WORD = enum.auto()
    FLAG = enum.auto()
    NUMBER = enum.auto()
    INSTANT = enum.auto()
    SEVERAL = enum.auto()
    OWN = enum.auto()


class Filter(NamedTuple):
    """A filter for people and machines: what it does, the words that it takes, and what stands for its value in help."""

    sort: FilterSort
    says: str
    words: type[enum.StrEnum] | None = None
    metavar: str = "NAME"


def _name(says: str, metavar: str = "NAME") -> Filter:
    return Filter(FilterSort.NAME, says, metavar=metavar)


def _word(words: type[enum.StrEnum], says: str) -> Filter:
    return Filter(FilterSort.WORD, says, words)


def _flag(says: str) -> Filter:
    return Filter(FilterSort.FLAG, says)


def _several(says: str, words: type[enum.StrEnum] | None = None) -> Filter:
    return Filter(FilterSort.SEVERAL, says, words)


class HasNumber(Protocol):
    """A task as a handle or a record: it has its number."""

    @property
    def id(self) -> int:
        """Its number."""
        ...


_About: TypeAlias = Annotated[str | None, _name("Only those about this person or thing.")]
_Tag: TypeAlias = Annotated[str | None, _name("Only those with this tag.")]
_Label: TypeAlias = Annotated[str | None, _name("Only those with this label.")]
_TaskStatus: TypeAlias = Annotated[
    TaskStatus | TaskStatusName | None, _word(TaskStatus, "Only those with this status.")
]
_Stuck: TypeAlias = Annotated[bool, _flag("Only those that need a failed or cancelled task.")]
_Since: TypeAlias = Annotated[
    Instant | None,
    Filter(FilterSort.INSTANT, "Not older: an age (90s, 24h, 7d) or an instant (2026-01-31T12:00Z).", metavar="WHEN"),
]
_Until: TypeAlias = Annotated[
    Instant | None, Filter(FilterSort.INSTANT, "Not newer: an age or an instant.", metavar="WHEN")
]
_OfMemories: TypeAlias = Annotated[str | None, _word(MemoryKind, "Only of this kind.")]
_LiveMemories: TypeAlias = Annotated[str | None, _word(MemoryStatus, "Only those with this status.")]
_Unread: TypeAlias = Annotated[bool, _flag("Only those that no recall has returned yet.")]


class FilterRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The filters of one verb."""


class ListingFilters(FilterRecord, frozen=True, kw_only=True):
    """One page of a listing. after: the `next` of another page."""

    limit: int = 100
    after: str | None = None
    about: _About = None


class SpanFilters(ListingFilters, frozen=True, kw_only=True):
    """One page of a listing of a whole store, within a range of time."""

    since: _Since = None
    until: _Until = None


# -- listings of a store -------------------------------------------------------------------------------------------------


class SessionFilters(SpanFilters, frozen=True, kw_only=True):
    """Which sessions."""

    status: Annotated[Status | StatusName | None, _word(Status, "Only those with this status.")] = None
    label: _Label = None
    creator: Annotated[str | None, _name("Only those that this actor created.")] = None
    expired: Annotated[bool, _flag("Also those whose ttl is over.")] = False
    archived: Annotated[bool, _flag("Also those that were archived.")] = False
    limit: int = 50


class RunFilters(SpanFilters, frozen=True, kw_only=True):
    """Which runs."""

    status: Annotated[RunStatus | RunStatusName | None, _word(RunStatus, "Only those with this status.")] = None
    agent: Annotated[str | None, _name("Only those of this agent.")] = None
    session: Annotated[str | None, _name("Only those of this session.")] = None
    parent: Annotated[str | None, _name("Only those that this run started.", "RUN")] = None
    version: Annotated[
        str | None,
        Filter(FilterSort.OWN, "Only those that last had this version of something, such as model=m1.", metavar="NAME=VALUE"),
    ] = None  # fmt: skip
    errors: Annotated[bool, _flag("Only those that failed or are parked, the last trouble first.")] = False


class EffectFilters(SpanFilters, frozen=True, kw_only=True):
    """Which effects."""

    in_doubt: Annotated[bool, _flag("Only those whose outcome is unknown.")] = False
    state: Annotated[EffectState | EffectStateName | None, _word(EffectState, "Only those in this state.")] = None
    tool: Annotated[str | None, _name("Only those of this tool.")] = None
    errors: Annotated[bool, _flag("Only those that went wrong.")] = False
    what_if: Annotated[bool, _flag("Also those that a what-if fork copied: nothing was done for them.")] = False


class DecisionFilters(SpanFilters, frozen=True, kw_only=True):
    """Which decisions."""

    status: Annotated[
        DecisionStatus | DecisionStatusName | None, _word(DecisionStatus, "Only those with this status.")
    ] = None
    actor: Annotated[str | None, _name("Only those that this actor made.")] = None
    tag: _Tag = None


class TaskFilters(SpanFilters, frozen=True, kw_only=True):
    """Which tasks."""

    status: _TaskStatus = None
    label: _Label = None
    actor: Annotated[str | None, _name("Only those that this actor wrote down.")] = None
    stuck: _Stuck = False


class MemoryFilters(SpanFilters, frozen=True, kw_only=True):
    """Which memories; by default the live ones."""

    kind: _OfMemories = None
    status: _LiveMemories = "live"
    unread: _Unread = False
    tag: _Tag = None
    actor: Annotated[str | None, _name("Only those that this actor wrote down.")] = None


class EventFilters(SpanFilters, frozen=True, kw_only=True):
    """Which events."""

    kind: Annotated[
        str | None, Filter(FilterSort.OWN, "Only this kind (turn.said), or all below a word ('deploy.*').", metavar="KIND")
    ] = None  # fmt: skip
    actor: Annotated[str | None, _name("Only those of this actor.")] = None
    session: Annotated[str | None, _name("Only those of this session.")] = None
    run: Annotated[str | None, _name("Only those of this run.", "RUN")] = None
    emitted: Annotated[bool | None, _flag("Only what session.emit made.")] = None
    limit: int = 50


class ArtifactFilters(SpanFilters, frozen=True, kw_only=True):
    """Which artifacts."""

    name: Annotated[str | None, _name("Only those of this name.")] = None
    media_type: Annotated[str | None, _name("Only those of this media type.", "TYPE")] = None
    actor: Annotated[str | None, _name("Only those that this actor attached.")] = None
    limit: int = 50


class AskFilters(ListingFilters, frozen=True, kw_only=True):
    """Which questions; by default the open ones."""

    state: Annotated[WaitState | WaitStateName | None, _word(WaitState, "Only those in this state.")] = "open"
    session: Annotated[str | None, _name("Only those of this session and its runs.")] = None


# -- listings of one session or scope ------------------------------------------------------------------------------------


class SessionDecisionFilters(ListingFilters, frozen=True, kw_only=True):
    """Which decisions of a session. open: those left open, or (False) the others."""

    open: Annotated[bool | None, _flag("Only those left open.")] = None
    tag: _Tag = None


class SessionTaskFilters(ListingFilters, frozen=True, kw_only=True):
    """Which tasks of a session."""

    status: _TaskStatus = None
    label: _Label = None
    parent: Annotated[HasNumber | int | None, Filter(FilterSort.NUMBER, "Only parts of this task.")] = None
    stuck: _Stuck = False


class OwnMemoryFilters(ListingFilters, frozen=True, kw_only=True):
    """Which memories of a session or scope; by default the live ones."""

    kind: _OfMemories = None
    status: _LiveMemories = "live"
    unread: _Unread = False
    tag: _Tag = None


# -- searching -----------------------------------------------------------------------------------------------------------


class SearchFilters(FilterRecord, frozen=True, kw_only=True):
    """Which texts a search finds. Lists name all that one must have (tags, about), or of which it must be one (kinds, scopes).

    session and scopes say where to look: what stands in any of them is found.
    """

    kinds: Annotated[Iterable[str] | None, _several("Only of this kind.", SearchKind)] = None
    session: Annotated[str | None, _name("In this session and its runs.")] = None
    scopes: Annotated[Iterable[str] | None, _several("In this scope, such as user:alice or project:acme.")] = None
    actor: Annotated[str | None, _name("Only what this actor said or did.")] = None
    tags: Annotated[Iterable[str], _several("Only those with this tag; of a task, this label.")] = ()
    about: Annotated[Iterable[str], _several("Only those about this person or thing.")] = ()
    since: _Since = None
    until: _Until = None
    limit: int = 10


# -- reading them --------------------------------------------------------------------------------------------------------


@cache
def filters_of(record: type[FilterRecord]) -> dict[str, Filter]:
    """The filters of a listing by their names, without those that say which page of it."""
    hints = get_type_hints(record, include_extras=True)
    metadata = {name: getattr(hints[name], "__metadata__", (None,))[0] for name in record.__struct_fields__}
    return {name: entry for name, entry in metadata.items() if isinstance(entry, Filter)}


_READ_BY_PLANE = frozenset({FilterSort.NUMBER, FilterSort.INSTANT, FilterSort.SEVERAL, FilterSort.OWN})


def filter_params(filters: ListingFilters) -> dict[str, Any]:
    """The filters as parameters of a statement, None where nothing is asked for. Invalid names the one that makes no sense."""
    declarations = filters_of(type(filters))
    return {name: _checked(declaration, getattr(filters, name), name) for name, declaration in declarations.items()}


def _checked(declaration: Filter, value: Any, path: str) -> Any:
    if value is None or declaration.sort in _READ_BY_PLANE:
        return None
    if declaration.sort is FilterSort.FLAG:
        return 1 if value else None
    return check_name(value, path) if declaration.words is None else check_one_of(declaration.words, value, path).value

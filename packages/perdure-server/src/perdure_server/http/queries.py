"""Parameters of the reading routes. A parameter that is not listed is refused: a misspelt filter must not read as no filter."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Optional, get_type_hints

import msgspec

from perdure.model.filters import (
    AskFilters,
    Filter,
    FilterRecord,
    FilterSort,
    ListingFilters,
    OwnMemoryFilters,
    RunFilters,
    SearchFilters,
    SessionDecisionFilters,
    SessionTaskFilters,
    filters_of,
)
from perdure.model.limits import NAME_MAX_CHARS, PAGE_MAX_ROWS
from perdure.model.records.conversation import Shape
from perdure.model.records.memories import SearchKind

WAIT_MAX_SECONDS = 60

Limit = Annotated[int, msgspec.Meta(ge=1, le=PAGE_MAX_ROWS, description="Rows of the page.")]
CursorText = Annotated[str, msgspec.Meta(max_length=400, description="The `next` of another page.")]
Seq = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_MAX_CHARS)]
When = Annotated[str, msgspec.Meta(min_length=1, max_length=64, description='An instant, or an age such as "7d".')]
Several = Annotated[list[Name], msgspec.Meta(max_length=100, description="Given once for each.")]
About = Annotated[
    str, msgspec.Meta(min_length=1, max_length=NAME_MAX_CHARS, description="Only what is about this subject.")
]
At = Annotated[
    str, msgspec.Meta(min_length=1, max_length=64, description="As it was after an event, at an instant, or at an age.")
]
Wait = Annotated[int, msgspec.Meta(ge=0, le=WAIT_MAX_SECONDS, description="Seconds to wait for something to come.")]


class PageQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One page of a list."""

    limit: Limit = 50
    after: CursorText | None = None


class AsksQuery(AskFilters, frozen=True, kw_only=True):
    """Which questions. wait: for one to come, if there is none."""

    wait: Wait = 0


class TurnsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which turns: the last ones, or those after or before a sequence number or a cursor."""

    at: At | None = None
    about: About | None = None
    limit: Limit = 100
    last: Limit | None = None
    after: CursorText | None = None
    before: CursorText | None = None


class NumberedQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A page of what has sequence numbers."""

    limit: Limit = 100
    after: CursorText | None = None


class SessionEventsQuery(NumberedQuery, forbid_unknown_fields=True, kw_only=True):
    """Which events of a session."""

    at: At | None = None
    about: About | None = None
    kind: Name | None = None
    emitted: bool | None = None


class FeedQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """From where to read the feed. after: a cursor; "end" for what comes from now on; without, from the beginning."""

    limit: Limit = 100
    after: CursorText | None = None
    wait: Wait = 0


class StreamQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """From where to follow the feed, and which events of it. kinds: separated by commas; `run.*` is all below a word.
    form: `ag-ui` renders the events of a run for front ends that speak AG-UI, from its beginning unless a place is given; `news`
    says only that something came, once for many events.
    """

    after: CursorText | None = None
    kinds: Annotated[str, msgspec.Meta(max_length=2_000)] | None = None
    session: Name | None = None
    run: Name | None = None
    form: Literal["events", "ag-ui", "news"] = "events"


class SummariesQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which summaries. nested: also those that others have swallowed."""

    nested: bool = False
    about: About | None = None
    at: At | None = None


class DueQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How many turns a summary covers, and how many summaries the next level swallows."""

    width: Limit = 50
    fan: Limit = 10
    at: At | None = None


class LineQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How much of a branch: so many of its newest turns."""

    limit: Limit = 100
    at: At | None = None


class StateQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which state: of the newest checkpoint of a name, or of the one that has a key."""

    name: Name = "default"
    key: Name | None = None
    at: At | None = None


class AttachQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The people and things that an artifact is about. media_type: one that the Content-Type cannot carry."""

    about: Several | None = None
    media_type: Name | None = None


class RefQuery(PageQuery, forbid_unknown_fields=True, kw_only=True):
    """The thing that is referred to: the uid of its stream, and its number there."""

    uid: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
    seq: Seq


class TranscriptQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """In which shape, and how much of it."""

    at: At | None = None
    format: Shape = "openai"
    full: bool = False
    last: Limit | None = None


class PastQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A moment of the past: the number of an event, an instant, or an age."""

    at: At | None = None


class DiffQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """From which point, to which point. other: another session or run, else this one."""

    at: At | None = None
    other: Name | None = None
    other_at: At | None = None


class EntriesQuery(PageQuery, forbid_unknown_fields=True, kw_only=True):
    """Which values."""

    at: At | None = None
    about: About | None = None
    prefix: Name | None = None


class SessionDecisionsQuery(SessionDecisionFilters, frozen=True, kw_only=True):
    """Which decisions of a session."""

    at: At | None = None


class SessionTasksQuery(SessionTaskFilters, frozen=True, kw_only=True):
    """Which tasks of a session. ready: those that can be begun now, most urgent first."""

    at: At | None = None
    ready: bool = False


class CheckpointsQuery(PageQuery, forbid_unknown_fields=True, kw_only=True):
    """Which checkpoints."""

    at: At | None = None
    about: About | None = None
    name: Name | None = None


class RunsQuery(RunFilters, frozen=True, kw_only=True):
    """Which runs. key: the one of an agent that has it."""

    key: Name | None = None


class TimelineQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which events of a run: the last ones before a sequence number or a cursor."""

    at: At | None = None
    last: Limit = 100
    before: CursorText | None = None


class StepsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which steps: those since the last checkpoint, or after an event (0: all)."""

    at: At | None = None
    after: Seq | None = None


class ResultQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How long to wait for the end of a run."""

    wait: Wait = 0


class RunEffectsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which effects of a run: those after an event. open: those that are not settled."""

    after: Seq = 0
    open: bool = False
    at: At | None = None


class SessionEffectsQuery(NumberedQuery, forbid_unknown_fields=True, kw_only=True):
    """Which effects of a session. open: those that are not settled."""

    at: At | None = None
    about: About | None = None
    open: bool = False


class StreamMemoriesQuery(OwnMemoryFilters, frozen=True, kw_only=True):
    """Which memories of a session or scope."""

    at: At | None = None


class RecallQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A question, and where to look. at: the memories that held at that instant."""

    q: Annotated[str, msgspec.Meta(min_length=1, max_length=2_000)]
    k: Limit = 10
    kinds: Several | None = None
    scopes: Several | None = None
    tags: Several | None = None
    about: Several | None = None
    since: When | None = None
    at: When | None = None


class SearchQuery(SearchFilters, frozen=True, kw_only=True):
    """Words, and where to look. kind: one more of `kinds`."""

    q: Annotated[str, msgspec.Meta(min_length=1, max_length=2_000)]
    kind: SearchKind | None = None
    limit: Limit = 10


class VerifyQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How much to verify. blobs: read every blob too."""

    blobs: bool = True


class BootQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The budget of a boot, in tokens, and what it is for."""

    budget: Annotated[int, msgspec.Meta(ge=1, le=200_000)] = 4_000
    task: Annotated[str, msgspec.Meta(max_length=4_000)] | None = None
    max_chars: Annotated[int, msgspec.Meta(ge=1, le=2**31)] | None = None
    profile: Literal["full", "small", "without-memory"] = "full"


# -- filters of listings as parameters --------------------------------------------------------------------------------

_EVERY = "all"  # the word for None, where a filter has another default


def parameters_of(filters: type[FilterRecord]) -> type[msgspec.Struct]:
    """The parameters of a listing: one for each field of its record, with the sentence that explains it."""
    hints, known = get_type_hints(filters, include_extras=True), filters_of(filters)
    page = PageQuery if issubclass(filters, ListingFilters) else msgspec.Struct
    return msgspec.defstruct(
        filters.__name__,
        [
            (each.name, _parameter(known[each.name], each.default) if each.name in known else hints[each.name], each.default)
            for each in msgspec.structs.fields(filters)
            if each.name not in page.__struct_fields__
        ],
        bases=(page,),
        forbid_unknown_fields=True,
        kw_only=True,
    )  # fmt: skip


def _parameter(each: Filter, default: object) -> Any:
    """The type of one parameter."""
    if each.sort is FilterSort.SEVERAL:
        kind = Optional[Several] if default is None else Several  # noqa: UP045 - made at run time
    elif each.sort is FilterSort.FLAG:
        kind = bool if default is False else bool | None
    elif each.words is not None:
        words = [word.value for word in each.words]
        kind = Optional[Literal[tuple(words)]] if default is None else Literal[(*words, _EVERY)]  # noqa: UP045 - made at run time
    else:
        kind = {FilterSort.INSTANT: When, FilterSort.NUMBER: Seq}.get(each.sort, Name) | None
    return Annotated[kind, msgspec.Meta(description=each.says)]


def filters_given(filters: type[FilterRecord], query: msgspec.Struct) -> FilterRecord:
    """The record of a listing, of the parameters that were given."""
    worded = {name for name, each in filters_of(filters).items() if each.words is not None}
    given: dict[str, Any] = msgspec.structs.asdict(query)
    every: dict[str, Any] = {name: None for name in worded if given[name] == _EVERY}
    return filters(**given | every)

"""Values, memories, search and boot: the routes that answer their verbs."""

from __future__ import annotations

from http import HTTPMethod
from typing import Any

import msgspec

from perdure.boot import checking, making
from perdure.boot.manifest import PackManifest
from perdure.boot.pack import Pack, PackRequest
from perdure.errors import Invalid, NotFound
from perdure.log.change import Stream
from perdure.model.filters import MemoryFilters, SearchFilters
from perdure.model.limits import check_name
from perdure.model.records.memories import Found, MemoryRecord, Why
from perdure.planes import subjects
from perdure.planes.memory import memories, search, values
from perdure.planes.reading.paging import Page
from perdure.remote.asking import (
    AlreadyKnown,
    Asking,
    RouteRequest,
    address,
    answers,
    filters,
    get,
    instant,
    path_of,
    post,
    several,
)
from perdure.remote.elsewhere import elsewhere
from perdure.remote.verbs.conversation import ScopeFound, stream_of

# -- values ----------------------------------------------------------------------------------------------------------


DELETE = HTTPMethod.DELETE.value


@answers(values.find_scope)
def find_scope(name: str) -> Asking:
    try:
        found = yield get(address("scopes", check_name(name, "scope")), ScopeFound)
    except NotFound:
        return None
    return stream_of("scope", found.name, found.uid)


@answers(values.open_scope)
def open_scope(name: str, about: Any = ()) -> Asking:
    named = subjects.named(about)
    found = yield RouteRequest("PUT", address("scopes", check_name(name, "scope")), ScopeFound, key=None)
    stream = stream_of("scope", found.name, found.uid)
    if named:
        yield post(path_of(stream, "subjects"), list[str], subjects=named)
    return stream


# -- memories --------------------------------------------------------------------------------------------------------


@answers(memories.memories_of_store)
def memories_of_store(asked: MemoryFilters) -> Asking:
    found = yield get(address("memories"), Page[MemoryRecord], **filters(asked) | {"status": asked.status or "all"})
    return found.each(lambda each: (stream_of(each.scope_kind, each.scope, each.ref.uid), each))


# -- looking for -----------------------------------------------------------------------------------------------------


class HitFound(msgspec.Struct, frozen=True):
    """A memory that was recalled."""

    memory: MemoryRecord
    score: float
    why: Why


@answers(search.recall)
def recall(
    _core: Any, _tenant: int, stream: Stream | None, query: str, *, k: int = 10, at: Any = None, since: Any = None,
    kinds: Any = None, scopes: Any = None, tags: Any = (), about: Any = (),
) -> Asking:  # fmt: skip
    path = address("recall") if stream is None else path_of(stream, "recall")
    lists = {"kinds": kinds, "scopes": scopes, "tags": tags, "about": about}
    asked = {name: several(given, name) for name, given in lists.items() if given is not None}
    when = {"at": instant(at, "at"), "since": instant(since, "since")}
    if [] in (asked.get("kinds"), asked.get("scopes")):
        return search.Results()
    found = yield from _sought(get(path, search.Results[HitFound], q=_words(query), k=k, **asked, **when))
    hits = (
        search.Recalled(stream_of(each.memory.scope_kind, each.memory.scope, each.memory.ref.uid), *_fields(each))
        for each in found
    )
    return search.Results(hits, damaged=found.damaged)


def _words(query: Any) -> str:
    if type(query) is not str or not query.strip() or "\0" in query:
        raise Invalid("expected words to look for", path="query")
    return query


def _sought(request: RouteRequest) -> Asking:
    try:
        return (yield request)
    except Invalid as error:
        error.path = {"q": "query"}.get(error.path, error.path)
        raise


def _fields(hit: HitFound) -> tuple[MemoryRecord, float, Why]:
    return hit.memory, hit.score, hit.why


@answers(checking.judged)
def judged(_core: Any, _tenant: int, carriers: Any, _looking: Any) -> AlreadyKnown:
    return AlreadyKnown([()] * len(carriers))  # checks look at files where they were written


@answers(search.search)
def find(_core: Any, _tenant: int, query: str, asked: SearchFilters) -> Asking:
    lists = {"kinds": asked.kinds, "scopes": asked.scopes, "tags": asked.tags, "about": asked.about}
    named = {
        name: [check_name(each, f"{name}[{i}]") for i, each in enumerate(several(given, name))]
        for name, given in lists.items()
        if given is not None
    }
    if named.get("kinds") == [] or (named.get("scopes") == [] and asked.session is None):
        return search.Results()
    request = get(address("search"), search.Results[Found], q=_words(query), **filters(asked) | named)
    return (yield from _sought(request))


# -- boot ------------------------------------------------------------------------------------------------------------


class PackFound(msgspec.Struct, frozen=True):
    """A pack: its text and what is in it."""

    text: str
    manifest: PackManifest


@answers(making.boot)
def boot(_core: Any, _tenant: int, stream: Stream, task: Any, asked: PackRequest, looking: checking.Looking) -> Asking:
    if not asked.adds_up or looking.root is not None or looking.commands or looking.urls or looking.models:
        raise elsewhere("boot_with")
    told = {"budget": asked.budget, "max_chars": asked.max_chars, "profile": asked.profile, "task": task}
    found = yield get(path_of(stream, "boot"), PackFound, **told)
    return Pack(found.text, found.manifest, [("", [found.text])], [])

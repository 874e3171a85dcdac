"""Values, memories, search and boot: the routes that answer their verbs."""

from __future__ import annotations

from http import HTTPMethod
from math import isfinite
from typing import Any

import msgspec

from perdure.boot import checking, making
from perdure.boot.manifest import PackManifest
from perdure.boot.pack import Pack, PackRequest
from perdure.errors import Invalid, NotFound
from perdure.log.change import Stream
from perdure.model.filters import MemoryFilters, OwnMemoryFilters, SearchFilters
from perdure.model.limits import check_name
from perdure.model.records.memories import Found, MemoryRecord, Why
from perdure.model.records.values import Entry
from perdure.planes import subjects
from perdure.planes.execution import memory_making as made_of
from perdure.planes.memory import memories, search, values
from perdure.planes.reading.origins import check_seq
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
    no_checks,
    path_of,
    plain,
    post,
    put,
    several,
    sources,
    span,
)
from perdure.remote.elsewhere import elsewhere
from perdure.remote.verbs.conversation import ScopeFound, stream_of

# -- values ----------------------------------------------------------------------------------------------------------


DELETE = HTTPMethod.DELETE.value


class WasChanged(msgspec.Struct, frozen=True):
    """Whether anything was different before."""

    changed: bool


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


def _expected(expect: int | None) -> dict[str, str]:
    if expect is None:
        return {}
    if type(expect) is not int or expect < 0:
        raise Invalid(f"expected a version (0: not there), got {expect!r}", path="expect")
    return {"If-Match": f'"{expect}"'} if expect else {"If-None-Match": "*"}


@answers(values.put)
def put_value(
    stream: Stream, name: str, value: Any, *, expect: int | None = None, ttl: Any = None, checks: Any = (), about: Any = (),
    derived: bool = False,
) -> RouteRequest:  # fmt: skip
    no_checks(checks)
    told = {"value": plain(value, "value"), "ttl": span(ttl, "ttl"), "about": subjects.named(about), "derived": derived}
    path = path_of(stream, "values", check_name(name, "name"))
    return put(path, Entry, **told)._replace(headers=_expected(expect))


@answers(values.delete)
def delete(stream: Stream, name: str, *, expect: int | None = None) -> Asking:
    path = path_of(stream, "values", check_name(name, "name"))
    return (yield RouteRequest(DELETE, path, WasChanged, headers=_expected(expect))).changed


@answers(values.entry)
def entry(stream: Stream, name: str) -> Asking:
    try:
        return (yield get(path_of(stream, "values", check_name(name, "name")), Entry))
    except NotFound as error:
        if error.path != "name":
            raise
        return None


@answers(values.entries)
def entries(stream: Stream, *, prefix: Any = None, **asked: Any) -> RouteRequest:
    start = None if prefix is None else check_name(prefix, "prefix")
    return get(path_of(stream, "values"), Page[Entry], prefix=start, **asked)


# -- memories --------------------------------------------------------------------------------------------------------


def _told(
    kind: Any = None, key: Any = None, source: Any = (), about: Any = None, tags: Any = None, confidence: Any = None,
    valid_from: Any = None, valid_to: Any = None, checks: Any = (),
) -> dict[str, Any]:  # fmt: skip
    no_checks(checks)
    if isinstance(confidence, float) and not isfinite(confidence):
        raise Invalid("expected a number from 0 to 1", path="confidence")
    return {
        "kind": kind, "key": key, "source": sources(source), "about": None if about is None else subjects.named(about),
        "tags": None if tags is None else several(tags, "tags"), "confidence": confidence,
        "valid_from": instant(valid_from, "valid_from"), "valid_to": instant(valid_to, "valid_to"),
    }  # fmt: skip


@answers(memories.remember)
def remember(stream: Stream, text: str, **asked: Any) -> RouteRequest:
    return post(path_of(stream, "memories"), MemoryRecord, text=text, **_told(**asked))


@answers(memories.supersede)
def supersede(stream: Stream, seq: int, text: str, *, because: str, **asked: Any) -> Asking:
    path = path_of(stream, "memories", seq)
    new = yield post(f"{path}/supersede", MemoryRecord, text=text, because=because, **_told(**asked))
    return (yield get(path, MemoryRecord)), new


@answers(memories.confirm)
def confirm(stream: Stream, seq: int, *, because: str | None = None, about: Any = ()) -> RouteRequest:
    named = subjects.named(about)
    return post(path_of(stream, "memories", seq, "confirm"), MemoryRecord, because=because, about=named)


@answers(memories.forget)
def forget(stream: Stream, seq: int, *, because: str, about: Any = ()) -> RouteRequest:
    named = subjects.named(about)
    return post(path_of(stream, "memories", seq, "forget"), MemoryRecord, because=because, about=named)


@answers(made_of.correct)
def correct(
    stream: Stream, text: str, *, rule: str, key: Any = None, source: Any = (), about: Any = (), tags: Any = ()
) -> Asking:
    told = {"text": text, "rule": rule, "key": key, "source": sources(source), "tags": several(tags, "tags")}
    return None, (yield post(path_of(stream, "corrections"), MemoryRecord, **told, about=subjects.named(about)))


@answers(memories.memory)
def memory(stream: Stream, seq: int) -> RouteRequest:
    return get(path_of(stream, "memories", check_seq(seq, "memory")), MemoryRecord)


@answers(memories.memories)
def list_memories(stream: Stream, asked: OwnMemoryFilters) -> RouteRequest:
    return get(path_of(stream, "memories"), Page[MemoryRecord], **filters(asked) | {"status": asked.status or "all"})


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


@answers(making.manifests)
def manifests(stream: Stream) -> RouteRequest:
    return get(path_of(stream, "boots"), list[PackManifest])

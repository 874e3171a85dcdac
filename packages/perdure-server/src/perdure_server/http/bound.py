"""Routes that follow from declarations (`verbs`): the body, the parameters, the function and the answer of each address.

A route calls the method of the handle that users call, in the one transaction of a keyed write or on the open store. A route
that no row can say is written by hand (`@route`), in the same table. Callers: `app`, by import. Keeps P11, P15.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from types import UnionType
from typing import Any, NamedTuple, Optional, Union, get_args, get_origin

import msgspec

from perdure.errors import NotFound
from perdure.handles.atomic import Atomic, run_in
from perdure.model.arguments import WordForm
from perdure.model.records.effects import EffectRecord
from perdure.model.records.emitted import EventRecord
from perdure.model.records.runs import RunRecord, WaitRecord
from perdure.planes.reading.paging import Page
from perdure.verbs.declaring import RUN, SCOPE, SESSION, Argument, Endpoint, Key, Kind, Verb, VerbPlace
from perdure.verbs.table import VERBS
from perdure_server.http.answers import (
    AskAnswer,
    CountAnswer,
    DoneAnswer,
    EffectAnswer,
    EventAnswer,
    Paged,
    RunAnswer,
    ask_answer,
    effect_answer,
    event_answer,
    run_answer,
)
from perdure_server.http.call import HttpCall
from perdure_server.http.forms import READS, Read, body_type, field
from perdure_server.http.queries import At, parameters_of
from perdure_server.http.table import ROUTES, IfMatch, MarkedIn, NoQuery, Route
from perdure_server.http.writing import scope_in, session_in

EXPECT, KEY = "expect", "key"
PAST = frozenset({SESSION.mark, SCOPE.mark, RUN.mark})  # streams that can be read as they were

PastMoment = Optional[At]  # noqa: UP045 - made at run time

# -- answers ---------------------------------------------------------------------------------------------------------

ANSWERS: dict[Any, tuple[Any, Callable[[Any], Any]]] = {
    WaitRecord: (AskAnswer, ask_answer),
    RunRecord: (RunAnswer, run_answer),
    EffectRecord: (EffectAnswer, effect_answer),
    EventRecord: (EventAnswer, event_answer),
    bool: (DoneAnswer, DoneAnswer),
    int: (CountAnswer, CountAnswer),
    type(None): (DoneAnswer, lambda _: DoneAnswer()),
}


def answer_type(hint: Any) -> Any:
    """The type of an answer, of what a verb answers. Of a record that was replaced and the new one, the new one."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Page:
        return Paged[answer_type(args[0])]  # type: ignore[misc]
    if origin is list or (origin is tuple and args[-1] is ...):
        return list[answer_type(args[0])]  # type: ignore[misc]
    if origin is tuple:
        return answer_type(args[-1])
    if origin in (Union, UnionType):
        return Optional[answer_type(args[0])]  # noqa: UP045 - made at run time
    return ANSWERS[hint][0] if hint in ANSWERS else hint


def answerer(hint: Any) -> Callable[[HttpCall, Any], Any]:
    """How an answer is written, by what the verb answers. A handle shows its record."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Page:
        inner = answerer(args[0])
        return lambda call, page: call.paged(page.each(lambda each: inner(call, each)))
    if origin is list:
        inner = answerer(args[0])
        return lambda call, found: [inner(call, each) for each in found]
    if origin in (Union, UnionType):
        inner = answerer(args[0])
        return lambda call, found: None if found is None else inner(call, found)
    shown = ANSWERS[hint][1] if hint in ANSWERS else lambda record: record
    return lambda _, found: shown(getattr(found, "record", found))


# -- arguments -------------------------------------------------------------------------------------------------------


class PathArgument(NamedTuple):
    """An argument that comes in the path."""

    name: str
    part: str
    is_number: bool

    def read(self, call: HttpCall) -> Any:
        """Its value."""
        return call.number(self.part) if self.is_number else call.parts[self.part]


class BodyArgument(NamedTuple):
    """An argument that comes in a body or a parameter. read: what is made of it."""

    name: str
    field: str
    read: Read | None
    takes_none: bool

    def given(self, body: Any) -> Iterable[tuple[str, Any]]:
        """It and its value, if it was sent or has a default."""
        value = getattr(body, self.field)
        if value is not msgspec.UNSET and (value is not None or self.takes_none):
            yield self.name, value if self.read is None or value is None else self.read(value, f"body.{self.field}")


class Plan(NamedTuple):
    """How one address of a verb is served."""

    verb: Verb
    address: Endpoint
    placed: list[PathArgument]
    sent: list[BodyArgument]
    cursors: dict[str, Callable[[HttpCall], Callable[[Any], Any]]]
    match: IfMatch
    takes_key: bool

    several: str

    def call(self, method: Callable[..., Any], call: HttpCall, given: Any) -> Any:
        """Call the method of a handle with what was sent. given: the body, or the parameters."""
        named = self.arguments(call, given)
        return method(*named.pop(self.several, ()), **named)

    def arguments(self, call: HttpCall, given: Any) -> dict[str, Any]:
        """The arguments of the verb, by name."""
        found: dict[str, Any] = {each.name: each.read(call) for each in self.placed}
        for each in self.sent:
            found.update(each.given(given))
        for name, way in self.cursors.items():
            found[name] = way(call)(found[name])
        if self.match is IfMatch.VERSION:
            found[EXPECT] = call.version
        if self.takes_key:
            found[KEY] = call.key
        return found


CURSORS: dict[WordForm, Callable[[HttpCall], Callable[[Any], Any]]] = {
    WordForm.CURSOR: lambda call: call.after,
    WordForm.PLACE: lambda call: call.after_number,
}


def _path(address: Endpoint) -> str:
    return address.place.path + address.path


def _in_path(address: Endpoint) -> list[str]:
    return re.findall(r"{(\w+)}", address.path)


def _travels(verb: Verb, address: Endpoint) -> list[Argument]:
    """The arguments that come in the body or the parameters."""
    elsewhere = {*_in_path(address), *([EXPECT] if _names_version(verb) else [])}
    elsewhere |= {KEY} if verb.key is Key.HEADER else set()
    return [
        each
        for each in verb.arguments.values()
        if each.word.form is not WordForm.LOCAL
        and verb.name_at("http", each.name) not in elsewhere
        and not verb.why_without("http", each.name)
    ]


def _names_version(verb: Verb) -> bool:
    """Whether If-Match carries the version of a value."""
    said = verb.arguments.get(EXPECT)
    return said is not None and said.word.metavar == "VERSION"


def _match(verb: Verb, address: Endpoint) -> IfMatch:
    if verb.kind is Kind.READ or verb.key is Key.HEADER:
        return IfMatch.NONE
    if _names_version(verb):
        return IfMatch.VERSION
    return IfMatch.HEAD if address.place.mark == SESSION.mark else IfMatch.NONE


def plan_of(verb: Verb, address: Endpoint) -> Plan:
    """How an address is served."""
    known, travels = verb.arguments, _travels(verb, address)
    placed = [
        PathArgument(verb_name, name, known[verb_name].word.form is WordForm.NUMBER)
        for name in _in_path(address)
        for verb_name in [next(each for each in known if verb.name_at("http", each) == name)]
    ]
    sent = [
        BodyArgument(each.name, verb.name_at("http", each.name), READS.get(each.word.form), each.takes_none)
        for each in travels
    ]
    cursors = {each.name: CURSORS[each.word.form] for each in travels if each.word.form in CURSORS}
    several = next((each.name for each in travels if each.several), "")
    return Plan(
        verb=verb, address=address, placed=placed, sent=sent, cursors=cursors, match=_match(verb, address),
        takes_key=verb.key is Key.HEADER, several=several,
    )  # fmt: skip


# -- functions --------------------------------------------------------------------------------------------------------


def _of(holder: Any, place: VerbPlace, call: HttpCall) -> Any:
    return getattr(holder, place.finder)(call.number(place.part)) if place.part else holder


HOLDERS: dict[str, Callable[[Atomic, HttpCall], Any]] = {
    "session": session_in,
    "scope": scope_in,
    "run": lambda tx, call: run_in(tx, call.parts["run"]),
}


def holder_in(tx: Atomic, call: HttpCall, place: VerbPlace) -> Any:
    """The handle whose verb it is, in this transaction."""
    return _of(HOLDERS[place.mark](tx, call), place, call)


async def holder_of(call: HttpCall, place: VerbPlace, at: str | None = None) -> Any:
    """The handle whose verb it is, now or as it was."""
    if not place.mark:
        return call.store
    found: Any = await {"session": call.session, "scope": call.scope, "run": call.run}[place.mark](at)
    return await _of(found, place, call) if place.part else found


def _writer(plan: Plan) -> Callable[..., Any]:
    """A write in one transaction."""
    answer, name, place = answerer(plan.verb.answer), plan.verb.name, plan.address.place

    def write(tx: Atomic, call: HttpCall, body: Any = None) -> Any:
        return answer(call, plan.call(getattr(holder_in(tx, call, place), name), call, body))

    return write


def _keyed_writer(plan: Plan) -> Callable[..., Any]:
    """A write whose key is that of the request: it stands for itself, in a commit of its own."""
    answer, name, place = answerer(plan.verb.answer), plan.verb.name, plan.address.place

    async def write(call: HttpCall, body: Any = None) -> Any:
        holder = await holder_of(call, place)
        return answer(call, await plan.call(getattr(holder, name), call, body))

    return write


def _reader(plan: Plan) -> Callable[..., Any]:
    answer, name, place, missing = answerer(plan.verb.answer), plan.verb.name, plan.address.place, plan.address.missing

    async def answered(call: HttpCall, query: Any = None) -> Any:
        holder = await holder_of(call, place, getattr(query, "at", None))
        found = await plan.call(getattr(holder, name), call, query)
        if found is None and missing:
            asked = plan.placed[-1]
            raise NotFound(missing.format(asked.read(call)), path=f"path.{asked.part}")
        return answer(call, found)

    return answered


def _lister(plan: Plan) -> Callable[..., Any]:
    """A listing: its parameters are the filters of its record."""
    answer, name, place = answerer(plan.verb.answer), plan.verb.name, plan.address.place

    async def answered(call: HttpCall, query: Any) -> Any:
        asked = call.asked(query)
        holder = await holder_of(call, place, asked.pop("at", None))
        return answer(call, await getattr(holder, name)(**asked))

    return answered


# -- the table -------------------------------------------------------------------------------------------------------


def _query(verb: Verb, address: Endpoint) -> type[msgspec.Struct]:
    """The parameters of a read: its arguments, and a moment of the past where a stream has one."""
    own = [
        field(each, verb.name_at("http", each.name), dict(address.defaults), says=True)
        for each in _travels(verb, address)
    ]
    past = [("at", PastMoment, None)] if address.place.mark in PAST and not address.place.part else []
    if not own and not past:
        return NoQuery
    made: Any = msgspec.defstruct(
        f"{address.name}_query", [*own, *past], module=__name__, forbid_unknown_fields=True, kw_only=True
    )
    return made


def _filters(verb: Verb, address: Endpoint) -> Any:
    """The record of a listing, with a moment of the past where a stream has one."""
    if address.place.mark not in PAST:
        return verb.filters
    assert verb.filters is not None
    return msgspec.defstruct(
        f"{address.name}_query", [("at", PastMoment, None)], bases=(verb.filters,), module=__name__, frozen=True,
        kw_only=True,
    )  # fmt: skip


def bind(verb: Verb, address: Endpoint, body: type[msgspec.Struct] | None) -> Route:
    """The route of one address."""
    reads, own_key = verb.kind is Kind.READ, verb.key is Key.HEADER
    plan = plan_of(verb, address)
    filters = _filters(verb, address) if verb.filters is not None else None
    query = parameters_of(filters) if filters else _query(verb, address) if reads else NoQuery
    verb_at = (
        _lister(plan) if filters else _reader(plan) if reads else _keyed_writer(plan) if own_key else _writer(plan)
    )
    verb_at.__name__ = verb_at.__qualname__ = address.name
    verb_at.__doc__ = address.says
    target = None if reads or own_key else MarkedIn(address.place.mark)
    path = _path(address)
    assert verb.right is not None
    return Route(
        name=address.name, method=address.method, path=path, right=verb.right, verb=verb_at,
        answer=_required(verb, address), query=query, filters=filters, body=body, status=address.status, target=target,
        takes_key=own_key or target is not None, tag=path.split("/")[2], media_type="application/json",
        match=plan.match, takes="", names_damage=False,
    )  # fmt: skip


def _required(verb: Verb, address: Endpoint) -> Any:
    hint = verb.answer
    return answer_type(get_args(hint)[0] if address.missing else hint)


def bind_all(verbs: Iterable[Verb], into: list[Route] = ROUTES) -> None:
    """Enter the addresses of declared verbs into the table. The addresses of one verb share one body."""
    for verb in verbs:
        body = None
        if verb.at and verb.kind is not Kind.READ:
            body = body_type(verb, _travels(verb, verb.at[0]))
        into.extend(bind(verb, address, body) for address in verb.at)


bind_all(VERBS)

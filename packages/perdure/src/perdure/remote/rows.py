"""Requests that follow from declarations (`verbs`): the address of a stream, and the arguments by their forms.

Arguments that equal their defaults are left out, so that an older server takes the calls of a newer client; arguments of this
process are refused here. A verb whose plane is answered by hand (`remote.verbs`) stays so. Callers: `core`, by import. Keeps P15.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from inspect import Parameter, Signature
from math import isfinite
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin

import msgspec

from perdure.errors import Invalid, NotFound, Refused
from perdure.log.change import Stream
from perdure.model.arguments import WordForm
from perdure.model.limits import check_name
from perdure.model.records.conversation import Call, Native
from perdure.planes import subjects
from perdure.planes.reading.origins import check_seq
from perdure.remote.asking import (
    ANSWERED,
    Asking,
    RouteRequest,
    address,
    instant,
    keyed,
    no_checks,
    number,
    path_of,
    plain,
    ref_of,
    refs_of,
    several,
    sources,
    span,
)
from perdure.verbs.declaring import Argument, Endpoint, Key, Verb
from perdure.verbs.table import VERBS

ALL = "all"  # the word for None, where a filter has another default
GET = "GET"


class WasChanged(msgspec.Struct, frozen=True):
    """Whether anything was different before."""

    changed: bool


# -- arguments, by their forms ---------------------------------------------------------------------------------------


def _names(given: Any, path: str) -> list[Any]:
    return list(subjects.named(given)) if path == "about" else several(given, path)


def _fraction(given: Any, path: str) -> Any:
    if isinstance(given, float) and not isfinite(given):
        raise Invalid("expected a number from 0 to 1", path=path)
    return given


def _fields(given: Any, path: str) -> Any:
    return plain(dict(given), path)


def _calls(given: Any, path: str) -> list[dict[str, Any]]:
    return [_call(each, f"{path}[{i}]") for i, each in enumerate(several(given, path))]


def _call(given: object, path: str) -> dict[str, Any]:
    if not isinstance(given, Call):
        raise Invalid(f"expected a Call, got {type(given).__name__}", path=path)
    return {"id": given.id, "tool": given.tool, "args": plain(given.args, f"{path}.args")}


def _native(given: Any, path: str) -> dict[str, Any]:
    if not isinstance(given, Native) and not (isinstance(given, tuple) and len(given) == 2):
        raise Invalid("expected the name of a form and a body", path=path)
    form, body = (given.form, given.body) if isinstance(given, Native) else given
    return {"form": form, "body": plain(body, f"{path}.body")}


def _numbers(given: Any, path: str) -> list[Any]:
    return [number(each, f"{path}[{i}]") for i, each in enumerate(several(given, path))]


def _run(given: object, path: str) -> str:
    name = given if isinstance(given, str) else getattr(given, "id", None)
    if not isinstance(name, str):
        raise Invalid(f"expected a run or its id, got {type(given).__name__}", path=path)
    return name


def _as_it_is(given: Any, _path: str) -> Any:
    return given


WAYS: dict[WordForm, Callable[[Any, str], Any]] = {
    WordForm.NAMES: _names,
    WordForm.TEXTS: several,
    WordForm.WORDS: several,
    WordForm.NUMBER: number,
    WordForm.NUMBERS: _numbers,
    WordForm.FRACTION: _fraction,
    WordForm.INSTANT: instant,
    WordForm.SPAN: span,
    WordForm.FIELDS: _fields,
    WordForm.REF: ref_of,
    WordForm.REFS: refs_of,
    WordForm.RUN: _run,
    WordForm.SOURCES: sources,
    WordForm.CALLS: _calls,
    WordForm.NATIVE: _native,
}


def _same(value: Any, default: Any) -> bool:
    if default == ():
        return value in ([], ())
    return value is default or (type(value) is type(default) and value == default)


class SentArgument(NamedTuple):
    """An argument as it is sent. default: what its absence means at the server."""

    argument: Argument
    field: str
    default: Any

    def into(self, body: dict[str, Any], values: Mapping[str, Any]) -> None:
        """Put it into a body or into parameters, unless that says no more than its absence."""
        value = values.get(self.argument.name, self.argument.default)
        if value is ...:
            return
        if self.argument.word.form is WordForm.VALUE:
            told = plain(value, self.argument.name)
        else:
            told = None if value is None else WAYS.get(self.argument.word.form, _as_it_is)(value, self.argument.name)
        if not _same(told, self.default):
            body[self.field] = told


def _expected(expect: Any) -> dict[str, str]:
    if expect is None:
        return {}
    if type(expect) is not int or expect < 0:
        raise Invalid(f"expected a version (0: not there), got {expect!r}", path="expect")
    return {"If-Match": f'"{expect}"'} if expect else {"If-None-Match": "*"}


# -- requests --------------------------------------------------------------------------------------------------------


class RowRequest:
    """The request of one address: it is called with the arguments of the plane, but for the transaction."""

    def __init__(self, verb: Verb, at: Endpoint) -> None:
        self.verb = verb
        self.at = at
        self._names = [*verb.arguments]
        self._parts = [each for each in at.path.split("/") if each]

    @cached_property
    def _placed(self) -> dict[str, Argument]:
        """The arguments in the path, by the names of its parts."""
        named = {self.verb.name_at("http", each.name): each for each in self.verb.arguments.values()}
        return {part: named[part] for part in re.findall(r"{(\w+)}", self.at.path)}

    @cached_property
    def _sent(self) -> list[SentArgument]:
        elsewhere = {each.name for each in self._placed.values()} | (
            {"key"} if self.verb.key is not Key.NONE else set()
        )
        elsewhere |= {"expect"} if self._matches else set()
        return [
            SentArgument(each, self.verb.name_at("http", each.name), self.at.absent(each))
            for each in self.verb.arguments.values()
            if each.word.form is not WordForm.LOCAL and each.name not in elsewhere
        ]

    @cached_property
    def _local(self) -> list[Argument]:
        return [each for each in self.verb.arguments.values() if each.word.form is WordForm.LOCAL]

    @cached_property
    def _matches(self) -> bool:
        said = self.verb.arguments.get("expect")
        return said is not None and said.word.metavar == "VERSION"

    def _path(self, stream: Stream | None, number: int | None, values: Mapping[str, Any]) -> str:
        parts = [] if stream is None else re.findall(r"{\w+}/(\w+)/{\w+}$", self.at.place.path)
        parts += [] if number is None else [str(number)]
        for part in self._parts:
            if not part.startswith("{"):
                parts.append(part)
                continue
            placed = self._placed[part[1:-1]]
            value = values[placed.name]
            parts.append(
                self._number(value, placed.name)
                if placed.word.form is WordForm.NUMBER
                else check_name(value, placed.name)
            )
        return address(*parts) if stream is None else path_of(stream, *parts)

    def _number(self, value: object, name: str) -> str:
        return str(
            check_seq(value, self.verb.name.removeprefix("get_")) if name in ("seq", "task") else number(value, name)
        )

    def __call__(self, *args: Any, **kwargs: Any) -> RouteRequest | Asking:
        """The request, or what asks several and turns their answers."""
        place = self.at.place
        stream: Stream | None = args[0] if place.mark else None
        number = args[1] if place.part else None
        rest = args[bool(place.mark) + bool(place.part) :]
        if self.verb.filters is not None:
            return _listed(self.verb, self._path(stream, number, {}), rest[0])
        values = dict(zip(self._names, rest, strict=False)) | kwargs
        for each in self._local:
            _refuse(each, values.get(each.name, each.default))
        request = self._request(self._path(stream, number, values), values)
        return _answered(self, request, number)

    def _request(self, path: str, values: Mapping[str, Any]) -> RouteRequest:
        sent: dict[str, Any] = {}
        for each in self._sent:
            each.into(sent, values)
        answer = answer_of(self.verb, self.at)
        if self.at.method == GET:
            return RouteRequest(GET, path, answer, {name: value for name, value in sent.items() if value is not None})
        headers = _expected(values.get("expect")) if self._matches else {}
        if self.verb.key is Key.BODY:
            sent["key"] = values.get("key")
        takes_body = bool(self._sent) or self.verb.key is Key.BODY
        request = RouteRequest(self.at.method, path, answer, body=sent if takes_body else None, headers=headers)
        return keyed(request, values.get("key")) if self.verb.key is Key.HEADER else request

    @property
    def __signature__(self) -> Signature:
        """The arguments of the plane, for the tests that compare them."""
        kinds = {True: Parameter.POSITIONAL_OR_KEYWORD, False: Parameter.KEYWORD_ONLY}
        before = ["stream"] if self.at.place.mark else []
        before += [self.at.place.part] if self.at.place.part else []
        own = [Parameter(name, Parameter.POSITIONAL_ONLY) for name in before]
        if self.verb.filters is not None:
            return Signature([*own, Parameter("asked", Parameter.POSITIONAL_OR_KEYWORD)])
        taken = [
            Parameter(each.name, kinds[each.positional], default=Parameter.empty if each.required else each.default)
            for each in self.verb.arguments.values()
        ]
        return Signature([*own, *sorted(taken, key=lambda each: each.kind)])


def _refuse(argument: Argument, value: Any) -> None:
    """Things of this process do not travel: they are refused once, here."""
    if argument.name == "checks":
        no_checks(value)
    elif value != argument.default:
        raise Refused(f"{argument.name} is of this process, and cannot be sent", path=argument.name)


def _listed(verb: Verb, path: str, asked: msgspec.Struct) -> RouteRequest:
    """A listing: its filters as parameters, and the word for none where a filter has another default."""
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(type(asked)):
        value = getattr(asked, field.name)
        if field.name in ("since", "until"):
            value = instant(value, field.name)
        if field.name == "parent":
            value = number(value, field.name)
        found[field.name] = ALL if value is None and isinstance(field.default, str) else value
    return RouteRequest(GET, path, verb.answer, found)


# -- answers ---------------------------------------------------------------------------------------------------------


def answer_of(verb: Verb, at: Endpoint) -> Any:
    """The type of an answer on the wire."""
    hint = verb.answer
    if hint is type(None):
        return Any
    if hint is bool:
        return WasChanged
    if get_origin(hint) is tuple and get_args(hint)[-1] is not ...:
        return get_args(hint)[-1]
    if at.missing and get_origin(hint) in (Union, UnionType):
        return get_args(hint)[0]
    return hint


def _answered(row: RowRequest, request: RouteRequest, number: int | None) -> RouteRequest | Asking:
    """The request alone, where its answer is that of the plane; else what is made of it."""
    hint = row.verb.answer
    if hint is bool:
        return _changed(request)
    if hint is type(None):
        return _nothing(request)
    if get_origin(hint) is tuple and get_args(hint)[-1] is not ...:
        return _replaced(request, "" if number is None else row.at.path)
    return _or_none(request, re.findall(r"{(\w+)}", row.at.path)[-1]) if row.at.missing else request


def _changed(request: RouteRequest) -> Asking:
    return (yield request).changed


def _nothing(request: RouteRequest) -> Asking:
    yield request


def _or_none(request: RouteRequest, part: str) -> Asking:
    try:
        return (yield request)
    except NotFound as error:
        if error.path != part:
            raise
        return None


def _replaced(request: RouteRequest, below: str) -> Asking:
    """The old one as it stands now, at the address above, and the new one."""
    new = yield request
    if not below:
        return None, new
    return (yield RouteRequest(GET, request.path.removesuffix(below), type(new))), new


# -- the table -------------------------------------------------------------------------------------------------------


class _Places:
    """The verbs of one plane's function, by the kind of stream."""

    def __init__(self) -> None:
        self.rows: dict[str, RowRequest] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        kind = args[0].kind if args and isinstance(args[0], Stream) else ""
        return self.rows[kind](*args, **kwargs)

    @property
    def __signature__(self) -> Signature:
        return next(iter(self.rows.values())).__signature__


def enter_rows(verbs: tuple[Verb, ...] = VERBS) -> None:
    """Let the declared verbs be answered whose planes nothing answers by hand."""
    made: dict[Callable[..., Any], _Places] = {}
    for verb in verbs:
        if not verb.at or verb.plane is None:
            continue
        plane = verb.plane()
        if plane not in ANSWERED or plane in made:
            places = made.setdefault(plane, _Places())
            for at in verb.at:
                places.rows.setdefault(at.place.mark, RowRequest(verb, at))
            ANSWERED[plane] = places


enter_rows()

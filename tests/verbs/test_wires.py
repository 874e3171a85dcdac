"""Absent, None and a value are three states of every argument on every wire: the method of the handle gets what a client sent.

Each declared address is asked as a remote store asks it; its body, or its parameters, are read as the server reads them. Nothing
is sent: the server's own tests do that.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner

from perdure.cli.arguments import arguments_of
from perdure.errors import Invalid, TooLarge
from perdure.log.change import Stream
from perdure.model.arguments import WordForm
from perdure.model.instants import duration_us
from perdure.model.records.conversation import Call, Native
from perdure.model.refs import Ref
from perdure.remote.asking import RouteRequest, parameter
from perdure.remote.rows import RowRequest
from perdure.verbs.declaring import Argument, Endpoint, Key, Verb
from perdure.verbs.table import VERBS
from perdure_server.http.app import TABLE
from perdure_server.http.bodies import converted
from perdure_server.http.bound import plan_of

ROUTES = {route.name: route for route in TABLE}
REF = Ref("0" * 32, 7)
SAMPLES: dict[WordForm, Any] = {
    WordForm.TEXT: "a text", WordForm.NAME: "name", WordForm.NAMES: ["a", "b"], WordForm.TEXTS: ["a", "b"], WordForm.NUMBER: 7,
    WordForm.NUMBERS: [3, 4], WordForm.FRACTION: 0.5, WordForm.FLAG: True, WordForm.INSTANT: "2026-01-31T00:00:00+00:00",
    WordForm.SPAN: "90s", WordForm.VALUE: {"a": [1, None]}, WordForm.FIELDS: {"tokens": 3}, WordForm.REF: REF,
    WordForm.REFS: [REF], WordForm.RUN: "4f1c", WordForm.SOURCES: ["file:Makefile", REF],
    WordForm.CALLS: [Call("c", "grep", {"a": 1})],
    WordForm.NATIVE: Native("form", {"a": 1}), WordForm.CURSOR: "a-cursor", WordForm.PLACE: "12",
}  # fmt: skip


def addresses() -> list[tuple[Verb, Endpoint]]:
    found = [(verb, at) for verb in VERBS for at in verb.at if verb.filters is None]
    return [(verb, at) for verb, at in found if not any(each.several for each in verb.arguments.values())]


def options(verb: Verb) -> list[Argument]:
    """The arguments that travel and may be left out."""
    return [each for each in verb.arguments.values()
            if each.word.form is not WordForm.LOCAL and not each.required and not each.several
            and not verb.why_without("http", each.name)]  # fmt: skip


def sample(argument: Argument) -> Any:
    words = argument.word.words
    if words:
        return [*words][1].value if isinstance(words, type) else words[-1]
    return SAMPLES[argument.word.form]


def least(verb: Verb) -> dict[str, Any]:
    """What must be given."""
    return {each.name: sample(each) for each in verb.arguments.values() if each.required and not each.several}


def asked(verb: Verb, at: Endpoint, values: dict[str, Any]) -> RouteRequest:
    """The request of a remote store."""
    stream = Stream(0, b"\0" * 16, 0, at.place.mark, "s")
    found = RowRequest(verb, at)(*([stream] if at.place.mark else []), *([7] if at.place.part else []), **values)
    return found if isinstance(found, RouteRequest) else next(found)


def arrived(verb: Verb, at: Endpoint, request: RouteRequest) -> dict[str, Any]:
    """The arguments with which the server calls the method."""
    route, plan = ROUTES[at.name], plan_of(verb, at)
    call = SimpleNamespace(
        parts={each.part: least(verb)[each.name] for each in plan.placed}, key=request.key or None, version=None
    )
    call.number = lambda name: call.parts[name]
    call.after = call.after_number = lambda cursor: cursor
    if match := request.headers.get("If-Match"):
        call.version = int(match.strip('"'))
    if route.body is None:
        given: Any = converted(
            {name: parameter(value)[0] for name, value in request.query.items()}, route.query, "query"
        )
    else:
        given = msgspec.json.decode(msgspec.json.encode(request.body), type=route.body)
    return plan.arguments(call, given)


def alike(argument: Argument, value: Any) -> Any:
    """A value as it can be compared: lists for tuples, microseconds for spans."""
    if value is None:
        return None
    if argument.word.form is WordForm.SPAN:
        return duration_us(value)
    return [*value] if isinstance(value, tuple) else getattr(value, "value", value)


def states(argument: Argument) -> Iterator[Any]:
    """Absent (...), None where it is a value, and a value."""
    yield ...
    if argument.may_be_none:
        yield None
    yield sample(argument)


def assert_travels(verb: Verb, at: Endpoint, chosen: dict[str, Any]) -> None:
    said = {name: value for name, value in chosen.items() if value is not ...}
    request = asked(verb, at, least(verb) | said)
    got = arrived(verb, at, request)
    for argument in options(verb):
        if argument.name == "key" and verb.key is not Key.NONE and argument.name not in said:
            continue  # a remote store makes one when it sends
        wanted = said.get(argument.name, argument.default)
        assert alike(argument, got.get(argument.name, argument.default)) == alike(argument, wanted), (
            verb,
            at.name,
            argument.name,
            request,
        )


def test_there_are_addresses_to_look_at() -> None:
    assert len(addresses()) >= 60
    assert sum(len(options(verb)) for verb, _ in addresses()) >= 141


@pytest.mark.parametrize(("verb", "at"), addresses(), ids=lambda each: getattr(each, "name", ""))
def test_each_argument_arrives_in_each_of_its_states(verb: Verb, at: Endpoint) -> None:
    for argument in options(verb):
        for state in states(argument):
            assert_travels(verb, at, {argument.name: state})


@pytest.mark.parametrize(("verb", "at"), addresses(), ids=lambda each: getattr(each, "name", ""))
def test_arguments_arrive_together(verb: Verb, at: Endpoint) -> None:
    chance = random.Random(at.name)
    for _ in range(30):
        assert_travels(verb, at, {each.name: chance.choice([*states(each)]) for each in options(verb)})


@pytest.mark.parametrize(("verb", "at"), addresses(), ids=lambda each: getattr(each, "name", ""))
def test_an_argument_that_says_no_more_than_its_absence_is_not_sent(verb: Verb, at: Endpoint) -> None:
    bare = asked(verb, at, least(verb))
    aloud = asked(verb, at, least(verb) | {each.name: each.default for each in options(verb)})
    assert (aloud.body, aloud.query, aloud.headers) == (bare.body, bare.query, bare.headers)
    for argument in options(verb):
        if argument.name not in at.defaults and argument.name != "key":
            assert verb.name_at("http", argument.name) not in {**(bare.body or {}), **bare.query}, argument.name


@pytest.mark.parametrize(("verb", "at"), addresses(), ids=lambda each: getattr(each, "name", ""))
def test_null_where_none_is_no_value_and_what_is_unknown_are_refused(verb: Verb, at: Endpoint) -> None:
    route = ROUTES[at.name]
    if route.body is None:
        with pytest.raises(Invalid):
            converted({"unknown": "x"}, route.query, "query")
        return
    body = asked(verb, at, least(verb)).body
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.json.decode(msgspec.json.encode({**body, "unknown": 1}), type=route.body)
    for argument in options(verb):
        field = verb.name_at("http", argument.name)
        if field in route.body.__struct_fields__ and not argument.takes_none and argument.name not in at.defaults:
            with pytest.raises(msgspec.ValidationError):
                msgspec.json.decode(msgspec.json.encode({**body, field: None}), type=route.body)


TYPED: dict[WordForm, list[str]] = {
    WordForm.NAMES: ["a", "b"], WordForm.TEXTS: ["a", "b"], WordForm.NUMBERS: ["3", "4"], WordForm.VALUE: ['{"a": [1, null]}'],
    WordForm.FIELDS: ['{"tokens": 3}'], WordForm.REF: [f"{REF.uid}/7"], WordForm.REFS: [f"{REF.uid}/7"],
    WordForm.CALLS: ['{"id": "c", "tool": "grep", "args": {"a": 1}}'], WordForm.NATIVE: ['{"form": "form", "body": {"a": 1}}'],
    WordForm.SOURCES: ["file:Makefile"],
}  # fmt: skip


@pytest.mark.parametrize("verb", [verb for verb, _ in addresses() if verb.command], ids=repr)
def test_options_that_are_not_typed_are_not_given(verb: Verb) -> None:
    got: list[dict[str, Any]] = []

    @click.command()
    @arguments_of(verb.function)
    def command(**given: Any) -> None:
        got.append(given)

    def run(*typed: str) -> dict[str, Any]:
        answer = CliRunner().invoke(command, [*needed, *typed], standalone_mode=False)
        assert answer.exception is None, answer.exception
        return got.pop()

    made = {each.name: each for each in command.params}
    needed = [word for each in verb.arguments.values() if each.required and not each.positional
              for word in (made[each.name].opts[0], str(sample(each)))]  # fmt: skip
    bare = run()
    assert bare.keys() == {each.name for each in verb.arguments.values() if each.required and not each.positional}
    for argument in (each for each in options(verb) if each.name in made):
        spelt = made[argument.name].opts[0]
        words = TYPED.get(argument.word.form, [str(sample(argument))])
        typed = [spelt] if argument.word.form is WordForm.FLAG else [part for word in words for part in (spelt, word)]
        wanted = ["file:Makefile"] if argument.word.form is WordForm.SOURCES else sample(argument)
        assert alike(argument, run(*typed)[argument.name]) == alike(argument, wanted), argument.name


def test_control_a_bound_holds_on_the_wire() -> None:
    remember = next((verb, at) for verb, at in addresses() if at.name == "remember")
    body = asked(*remember, least(remember[0])).body
    with pytest.raises(msgspec.ValidationError, match="length <= 64"):
        msgspec.json.decode(msgspec.json.encode({**body, "tags": ["t"] * 65}), type=ROUTES["remember"].body)
    with pytest.raises(TooLarge):
        asked(*remember, least(remember[0]) | {"about": [str(i) for i in range(300)]})

"""A store on a server takes every argument of every public verb: by the signatures that users see, and of what answers them.

The functions that answer are compared by name. `bind` would say nothing of one that takes `**anything`: there the names must be
fields of the route.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from surface.reading import gaps, load

TOOL = load()
TABLE = TOOL.offers()
LOCAL = {gap.argument for gap in gaps() if gap.door == "http" and gap.why == "- local"}  # refused by the client, once
RENAMED = {gap.argument for gap in gaps() if gap.door == "http" and gap.why.startswith("as ")}
# Arguments that the handle or the server supplies, so that an answer may do without.
SUPPLIED = {
    "holder",
    "epoch",
    "core",
    "tenant",
    "blobs",
    "here",
    "sender",
    "witness",
    "known_seq",
    "uid",
    "looking",
    "counted",
}


class Asked(NamedTuple):
    """An argument of a public verb, the verb of the plane that takes it, and the function that asks a server instead."""

    verb: str
    argument: str
    function: Callable[..., Any]


def parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function).parameters)


def takes_all(function: Callable[..., Any]) -> bool:
    return any(each.kind is each.VAR_KEYWORD for each in parameters(function).values())


def arguments() -> Iterator[Asked]:
    """Every argument of a public verb that goes to a verb of a plane under its name, where a server answers that."""
    for name, verb in TOOL.verbs("Async").items():
        for plane in TOOL.planes_of(verb):
            if plane in TOOL.ANSWERED:
                names = parameters(plane).keys()
                for argument in verb.arguments if takes_all(plane) else verb.arguments.keys() & names:
                    yield Asked(name.removeprefix("Async"), argument, TOOL.ANSWERED[plane])


def fields(verb: str) -> set[str]:
    """The names that the routes of a public verb take."""
    return set().union(*(TOOL.taken("http", route) for route in TOOL.offerers(TABLE[verb]["http"])))


def is_taken(asked: Asked) -> bool:
    """Whether the function takes this argument by name; or takes all, and the route of the verb has it."""
    names = parameters(asked.function)
    if asked.argument in names:
        return True
    return takes_all(asked.function) and asked.argument in fields(asked.verb) | LOCAL | RENAMED


def lost(pairs: list[Asked]) -> set[tuple[str, str]]:
    """The arguments that none of the functions takes which answer for a verb: some only prepare, and need no request."""
    every = {(asked.verb, asked.argument) for asked in pairs}
    return every - {(asked.verb, asked.argument) for asked in pairs if is_taken(asked) or asked.argument in SUPPLIED}


def test_no_argument_of_a_public_verb_is_lost_on_the_way_to_a_server() -> None:
    pairs = [*arguments()]
    assert len(pairs) >= LEAST
    assert lost(pairs) == UNDER_ANOTHER_NAME


UNDER_ANOTHER_NAME = {("Store.adopt", "envelope")}  # `adopt(made, …)` takes the bytes that were made of it
LEAST = 273  # arguments that were compared; it may not fall


def test_every_answered_verb_is_one_of_a_plane() -> None:
    assert len(TOOL.ANSWERED) > 100
    assert all(verb.__module__.startswith("perdure.") for verb in TOOL.ANSWERED)


@pytest.mark.parametrize(
    "verb", TOOL.ANSWERED, ids=lambda verb: f"{verb.__module__.rpartition('.')[2]}.{verb.__name__}"
)
def test_a_verb_is_answered_with_the_arguments_that_it_must_be_given(verb) -> None:
    needed = [each for each in parameters(verb).values() if each.default is each.empty]
    if needed and needed[0].name in ("tx", "reads"):
        needed = needed[1:]
    named = {each.name: None for each in needed if each.kind is each.KEYWORD_ONLY}
    placed = [None for each in needed if each.kind is each.POSITIONAL_OR_KEYWORD]
    inspect.signature(TOOL.ANSWERED[verb]).bind(*placed, **named)


def test_control_an_argument_that_is_dropped_is_seen() -> None:
    def drops(stream, text, *, because, _tags=()): ...
    def takes_anything(stream, text, **given): ...

    assert lost([Asked("Session.decide", name, drops) for name in ("because", "tags")]) == {("Session.decide", "tags")}
    assert [is_taken(Asked("Session.decide", name, drops)) for name in ("because", "tags")] == [True, False]
    assert [is_taken(Asked("Session.decide", name, takes_anything)) for name in ("tags", "importance")] == [True, False]

"""A declaration is what the handles and the planes have, and what the doors take: names, kinds, defaults, bounds, or a reason."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import perdure
from perdure.model.arguments import WordForm
from perdure.verbs.declaring import (
    REQUIRED,
    SESSION,
    Argument,
    Endpoint,
    Kind,
    Right,
    Verb,
    read,
    shown_signature,
    verb,
)
from perdure.verbs.table import ROWS, VERBS
from surface.reading import load

TOOL = load()
LEAST = 164  # declared verbs; it may not fall
# Public verbs that no declaration has yet; their rows stand in docs/surface/doors.txt. It may not rise.
BY_HAND_MOST = 53
Shape = list[tuple[str, Any, Any]]


def shape(function: Callable[..., Any], *, without: int = 0) -> Shape:
    """The arguments of a function by name, kind and default. without: so many of the first ones are somebody else's."""
    parameters = [*inspect.signature(function).parameters.values()][without:]
    return [(each.name, each.kind, each.default) for each in parameters]


def handles(row: str) -> list[Callable[..., Any]]:
    """The public methods of a row, in both colours."""
    kind, _, name = row.partition(".")
    return [getattr(getattr(perdure, f"{colour}{kind}"), name) for colour in ("", "Async")]


def of_planes() -> list[Verb]:
    """The verbs that one function of a plane does as it is declared."""
    return [each for each in VERBS if each.kind in (Kind.TRANSACTION, Kind.READ) and each.plane and not each.filters]


# -- the table -------------------------------------------------------------------------------------------------------


def test_the_table_alone_has_every_verb() -> None:
    """In a process that has imported nothing else: a table that is filled by import is empty until somebody imports."""
    code = "from perdure.verbs.table import VERBS; print(len(VERBS))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(ran.stdout) == len(VERBS) >= LEAST


def test_a_row_belongs_to_one_declaration() -> None:
    assert len(ROWS) == sum(len(each.rows) for each in VERBS)
    assert ROWS.keys() <= TOOL.verbs().keys()


def test_what_is_not_declared_yet_becomes_less() -> None:
    assert len(TOOL.by_hand()) <= BY_HAND_MOST
    assert not TOOL.by_hand().keys() & ROWS.keys(), "it is declared: its row in docs/surface/doors.txt goes"


def test_a_declaration_loads_no_plane() -> None:
    code = "import sys, perdure.verbs.table; print([m for m in sys.modules if m.startswith('perdure.planes.memory')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_help_of_a_command_with_options_of_a_verb_loads_no_plane_and_no_store() -> None:
    code = """
import sys
from click.testing import CliRunner
from perdure.cli.main import cli
assert "--confidence" in CliRunner().invoke(cli, ["remember", "--help"]).output
print([m for m in sys.modules if m.startswith(("perdure.planes.memory", "perdure.stores", "perdure.model.arguments_by_hand"))])
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# -- handles and planes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", ROWS)
def test_a_declaration_is_the_signature_of_the_handles(row: str) -> None:
    declared = ROWS[row]
    for method in handles(row):
        if declared.filters is not None:
            names = {name for name, _, _ in shape(method, without=1)}
            assert names == {*declared.filters.__struct_fields__}
        else:
            assert shape(method, without=1) == shape(declared.function)


@pytest.mark.parametrize("declared", of_planes(), ids=repr)
def test_a_declaration_is_the_signature_of_its_plane(declared: Verb) -> None:
    assert declared.plane is not None
    place = declared.on[0]
    before = 1 + bool(place.mark) + bool(place.part)
    assert shape(declared.plane(), without=before) == shape(declared.function) or _supplied(declared)


def _supplied(declared: Verb) -> bool:
    """The method of the handle supplies or turns something: it is written by hand, though its plane is one call."""
    return declared.qualified in {"RunHandle.steps", "RunHandle.waits", "Session.get_task", "Store.artifact"}


def test_every_verb_says_what_it_does() -> None:
    for each in VERBS:
        text = inspect.getdoc(each.function)
        assert text, each
        assert text[0].isupper(), each


@pytest.mark.parametrize("row", [row for row, each in ROWS.items() if each.kind is not Kind.ENGINE])
def test_a_method_shows_its_docstring_and_its_name(row: str) -> None:
    for method in handles(row):
        assert method.__name__ == ROWS[row].name
        if TOOL.declaration_of(method) is not None:
            assert method.__doc__ == ROWS[row].function.__doc__


def test_a_misspelt_keyword_is_refused_before_anything_is_queued() -> None:
    with perdure.open("memory://") as store:
        session = store.session("s")
        with pytest.raises(TypeError, match=r"^remember\(\) got an unexpected keyword argument 'txt'$"):
            session.remember("a", txt=1)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match=r"^remember\(\) missing a required argument: 'text'$"):
            session.remember()  # type: ignore[call-arg]
        assert not session.memories()


# -- doors -----------------------------------------------------------------------------------------------------------


def offered() -> Iterator[tuple[Verb, str, Argument]]:
    """The arguments of a verb for each door that offers it."""
    for declared in VERBS:
        cells = {"http": declared.routes, "cli": declared.command, "mcp": declared.tool}
        for door in (door for door, cell in cells.items() if cell):
            for argument in declared.arguments.values():
                yield declared, door, argument


def is_taken(declared: Verb, door: str, argument: str) -> bool:
    row = declared.rows[0]
    names = set().union(*(TOOL.taken(door, name) for name in TOOL.offerers(TOOL.said(declared, row)[door])))
    return declared.name_at(door, argument) in names


def test_every_argument_is_taken_at_every_door_or_has_a_reason() -> None:
    missing = [
        f"{declared.qualified}({argument.name}), {door}"
        for declared, door, argument in offered()
        if argument.word.form is not WordForm.LOCAL
        and not declared.why_without(door, argument.name)
        and not is_taken(declared, door, argument.name)
    ]
    assert missing == [], "offer it, or say in the declaration why not (lacks)"


def test_no_reason_outlives_its_gap() -> None:
    over = [
        f"{declared.qualified}({argument.name}), {door}"
        for declared, door, argument in offered()
        if declared.why_without(door, argument.name) and is_taken(declared, door, argument.name)
    ]
    assert over == []
    for declared in VERBS:
        cells = {"http": declared.routes, "cli": declared.command, "mcp": declared.tool}
        assert [door for door, cell in cells.items() if bool(cell) == bool(declared.why_not(door))] == [], declared


def test_what_is_of_this_process_crosses_no_wire() -> None:
    local = [(declared, argument.name) for declared in VERBS if declared.at for argument in declared.arguments.values()
             if argument.word.form is WordForm.LOCAL]  # fmt: skip
    assert len(local) >= 6
    assert [(declared, name) for declared, name in local if is_taken(declared, "http", name)] == []


# -- controls --------------------------------------------------------------------------------------------------------


def test_control_a_verb_without_a_right_reaches_no_network_door() -> None:
    with pytest.raises(TypeError, match="a verb without a right reaches no network door"):

        @verb(on=(SESSION,), at=(Endpoint(SESSION, "POST", "/x", "x", "X."),))
        def x() -> None: ...


def test_control_a_word_that_a_declaration_does_not_know_is_refused() -> None:
    with pytest.raises(TypeError, match="rihgt says nothing of a verb"):

        @read(on=(SESSION,), rihgt=Right.READ)
        def x() -> None: ...


def test_control_another_default_is_seen() -> None:
    def remember(text: str, *, kind: str = "rule") -> None: ...

    assert shape(remember) != shape(ROWS["Session.remember"].function)[:2]
    assert [name for name, _, _ in shape(remember)] == ["text", "kind"]
    assert ROWS["Session.remember"].arguments["text"].default is REQUIRED
    assert [*shown_signature(ROWS["Session.remember"].function).parameters][:2] == ["self", "text"]

"""Packs that come back in a host's transcript are kept by name, so that a boot never quotes a boot."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure.boot.echoes import without_packs
from perdure.boot.items import block

TEXTS = st.lists(
    st.sampled_from(["~~~", "~~~~ rule x", "## Position", "Event 3 of 2026-01-01T00:00Z.", "a", "\n"])
).map("\n".join)


@pytest.fixture
def session() -> Iterator[perdure.Session]:
    with perdure.open("memory:", actor="me") as store:
        yield store.session('the "first"')


def test_a_pack_is_kept_by_name_and_the_words_around_it_stay(session: perdure.Session) -> None:
    session.remember("Never push to main", kind="rule")
    shown = session.boot().text
    name = '[boot of session "the \\"first\\"", event 2]'
    assert (
        without_packs(f"<hook_context>{shown}</hook_context>\n\nfix it")
        == f"<hook_context>{name}\n</hook_context>\n\nfix it"
    )
    assert without_packs([{"text": f"{shown}\n{shown}"}, 7]) == [{"text": f"{name}\n\n{name}\n"}, 7]


def test_a_pack_inside_a_text_that_is_json(session: perdure.Session) -> None:
    session.remember("Ünlaut: never push", kind="rule")
    result = json.dumps({"session": "s", "text": session.boot().text, "next": "Obey the rules."}, indent=2)
    kept = json.loads(
        without_packs(f"<untrusted>\n{result}\n</untrusted>").removeprefix("<untrusted>").removesuffix("</untrusted>")
    )
    assert kept == {"session": "s", "text": '[boot of session "the \\"first\\"", event 2]\n', "next": "Obey the rules."}


def test_a_pack_that_quotes_a_pack_is_one(session: perdure.Session) -> None:
    session.say("user", f"{session.boot().text}\nfix the login")
    assert without_packs(session.boot().text) == '[boot of session "the \\"first\\"", event 2]\n'


@given(TEXTS)
def test_no_stored_text_ends_a_pack_or_hides_its_end(said: str) -> None:
    with perdure.open("memory:", actor="me") as store:
        session = store.session("s")
        session.say("user", f"{said}.")
        assert without_packs(f"before {session.boot().text}after") == 'before [boot of session "s", event 2]\nafter'


def test_a_text_without_a_whole_pack_stays_as_it_is(session: perdure.Session) -> None:
    session.say("user", "hello")
    shown = session.boot().text
    for said in (
        "",
        "# Boot of session",
        shown[:-3],
        shown.replace("Event", "event"),
        block("turn", "x"),
        f'"{shown[:90]}',
        "\\",
    ):
        assert without_packs(said) == said


def test_hostile_texts_take_one_reading(session: perdure.Session) -> None:
    """Quadratic ones would take minutes."""
    intro = session.boot().text.split("\n## ")[0] + "\n"
    for said in (
        intro * 20_000,
        f'{intro}"' + '\\"' * 1_000_000,
        f"{intro}~~~ x\n" * 20_000,
        f'{intro}{"[" * 100_000}"',
    ):
        assert without_packs(said) == said

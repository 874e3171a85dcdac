"""Every field of an answer has an exposure: a new one is written by no route, and stands in no document, until it is named."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from perdure.verbs.exposed import FIELDS
from perdure_server.http import openapi, wire
from perdure_server.http.app import TABLE

LEAST = {"records": 60, "fields": 500}


class Planted(msgspec.Struct):
    """A record of the core."""

    text: str = "a"
    secret: str = "b"


Planted.__module__ = "perdure.model.records.planted"


class PlantedAnswer(Planted):
    """An answer of the server that stands on it."""

    id: str = "c"


PlantedAnswer.__module__ = "perdure_server.http.answers"


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FIELDS, "Planted", frozenset({"text"}))
    wire._ways.cache_clear()


def records() -> dict[str, Any]:
    return openapi.records_of(each.answer for each in TABLE)


def test_every_field_of_every_answer_is_named() -> None:
    kinds = [kind for kind in records().values() if not kind.__struct_config__.array_like]
    unnamed = [f"{kind.__name__}.{name}" for kind in kinds for name in {*kind.__struct_fields__} - wire.exposed(kind)]
    assert unnamed == [], "name it in perdure.verbs.exposed, so that network doors show it"
    assert len(kinds) >= LEAST["records"]
    assert sum(len(kind.__struct_fields__) for kind in kinds) >= LEAST["fields"]


def test_control_a_field_that_is_not_named_is_not_written(planted) -> None:
    assert wire.wired(Planted()) == {"text": "a"}
    assert wire.wired(PlantedAnswer()) == {"text": "a", "id": "c"}


def test_control_a_field_that_is_not_named_stands_in_no_document(planted) -> None:
    schema = {"properties": {"text": {}, "secret": {}, "id": {}}, "required": ["secret", "text"]}
    assert openapi._shown(schema, PlantedAnswer) == {"properties": {"text": {}, "id": {}}, "required": ["text"]}


def test_control_a_record_that_nothing_names_is_shown_nowhere() -> None:
    wire._ways.cache_clear()
    with pytest.raises(TypeError, match="Planted is shown at no network door"):
        wire.wired(Planted())

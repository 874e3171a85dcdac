"""The schemas of tools are portable: hosts drop a whole list of tools over one that they cannot read.

The root is an object, and nothing refers elsewhere: no `$ref`, no `$defs`, no union, no list of types, no null. A parameter that
is an argument of a declared verb is within the bounds that the verb has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from perdure.model.arguments import WordForm
from perdure.verbs.declaring import Argument
from perdure.verbs.table import VERBS
from perdure_agents.mcp.door import Door
from perdure_agents.mcp.server import TOOLS, make_server

FORBIDDEN = {"$ref", "$defs", "definitions", "oneOf", "allOf", "anyOf", "not", "if"}


def schemas() -> dict[str, dict[str, Any]]:
    door = Door("memory://", actor="me", tenant="default", session="")
    listed = asyncio.run(make_server(door).list_tools())
    return {tool.name: tool.input_schema for tool in listed}


def faults(schema: Any, path: str = "") -> Iterator[str]:
    """What a host may stumble over."""
    if isinstance(schema, dict):
        yield from (f"{path}: {word}" for word in FORBIDDEN & schema.keys())
        if isinstance(schema.get("type"), list) or schema.get("type") == "null":
            yield f"{path}: type {schema['type']}"
        for name, part in schema.items():
            if name != "properties":
                yield from faults(part, f"{path}/{name}")
        for name, part in schema.get("properties", {}).items():
            yield from faults(part, f"{path}/{name}")
    elif isinstance(schema, list):
        for part in schema:
            yield from faults(part, path)


def test_every_schema_is_portable() -> None:
    found = schemas()
    assert found.keys() == TOOLS.keys()
    assert [fault for name, schema in found.items() for fault in faults(schema, name)] == []
    assert {schema["type"] for schema in found.values()} == {"object"}


def parameters() -> Iterator[tuple[str, str, dict[str, Any], Argument]]:
    """The parameters of tools that are arguments of declared verbs."""
    found = schemas()
    for verb in (verb for verb in VERBS if verb.tool):
        for argument in verb.arguments.values():
            for tool in verb.tool.split(", "):
                name = verb.name_at("mcp", argument.name)
                if name in found[tool]["properties"]:
                    yield tool, name, found[tool]["properties"][name], argument


def test_a_parameter_stays_within_the_bounds_of_its_word() -> None:
    wrong = []
    for tool, name, schema, argument in parameters():
        least, most = argument.word.least, argument.word.most
        if argument.word.form is WordForm.NUMBER and schema.get("type") == "integer":
            high, low = schema.get("maximum"), schema.get("minimum")
            wrong += [f"{tool}.{name}"] if high is not None and most is not None and high > most else []
            # -1 and 0 stand for "not given" where a schema has no null.
            wrong += [f"{tool}.{name}"] if low is not None and least is not None and low < min(least, -1) else []
        if argument.word.words and "enum" in schema:
            words = {getattr(word, "value", word) for word in argument.word.words}
            wrong += [f"{tool}.{name}"] if not {*schema["enum"]} <= words else []
    assert wrong == []
    assert len([*parameters()]) >= 40


@pytest.mark.parametrize("schema", [
    {"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}},
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}},
    {"type": "object", "properties": {"a": {"type": ["string", "null"]}}},
    {"anyOf": [{"type": "object"}]},
    {"type": "object", "$defs": {}},
])  # fmt: skip
def test_control_what_hosts_stumble_over_is_seen(schema: dict[str, Any]) -> None:
    assert [*faults(schema)]


def test_control_a_parameter_may_have_a_forbidden_name() -> None:
    assert [*faults({"type": "object", "properties": {"not": {"type": "string"}}})] == []

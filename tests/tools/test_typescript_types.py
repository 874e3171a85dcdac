"""The types of the TypeScript client are those of docs/openapi.json, and a change of the document is noticed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import typescript_types  # noqa: E402 - a script beside the package


def test_the_committed_types_are_those_of_the_document() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "typescript_types.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_control_a_route_more_is_noticed() -> None:
    spec = json.loads(typescript_types.SPEC.read_text())
    about = {"operationId": "extra", "x-right": "read", "responses": {"200": {}}}
    made = typescript_types.files({**spec, "paths": {**spec["paths"], "/v1/extra": {"get": about}}})
    for name, text in made.items():
        assert text != (typescript_types.TARGET / name).read_text()
        assert "extra" in text


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        ({"type": "integer"}, "number"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string | null"),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, '("a" | "b")[]'),
        ({"$ref": "#/components/schemas/Turn"}, 'components["Turn"]'),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "Record<string, number>"),
        ({}, "unknown"),
    ],
)
def test_schemas_as_types(schema, wanted) -> None:
    assert typescript_types.type_of(schema) == wanted

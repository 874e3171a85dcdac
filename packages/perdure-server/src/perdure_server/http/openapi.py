"""The OpenAPI 3.1 document, made from the table of routes and the records. Callers: `app`, `tools/openapi.py`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from perdure.planes.reading.paging import DamagedRow
from perdure.version import VERSION
from perdure_server.http.problems import MEDIA_TYPE, Problem9457
from perdure_server.http.table import RIGHTS, Route
from perdure_server.http.wire import DAMAGED, DAMAGED_MAX_CHARS, exposed

REFS = "#/components/schemas/{name}"
NUMBERS = {"seq", "task"}  # the parts of a path that are whole numbers
REFUSALS = ("4XX", "503", "507")


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """The whole document. The same table gives the same document."""
    kinds = [Problem9457, DamagedRow, *(each.answer for each in routes if each.answer is not None)]
    kinds += [each.body for each in routes if each.body is not None]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=REFS)
    answered = records_of(each.answer for each in routes)
    components = {name: _shown(schema, answered.get(name)) for name, schema in _written(components).items()}
    found = dict(zip(map(repr, kinds), _written(schemas), strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for each in routes:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, found)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Perdure",
            "version": VERSION,
            "description": "The durable state of agents over HTTP. Errors are RFC 9457 problems.",
        },
        "security": [{"token": []}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": dict(sorted(components.items())),
            "responses": {
                "Problem": {
                    "description": "An RFC 9457 problem: `path` is the place of what is wrong, `hint` the way out.",
                    "content": {MEDIA_TYPE: {"schema": found[repr(Problem9457)]}},
                },
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _written(schema: Any) -> Any:
    """Spans of time are written as seconds (`wire`). Descriptions lose the indentation that Python keeps before 3.13."""
    if isinstance(schema, dict):
        if schema.get("format") == "duration":
            return {"type": "number", "description": "Seconds."}
        said = schema.get("description")
        written = {name: _written(item) for name, item in schema.items()}
        return written | {"description": inspect.cleandoc(said)} if isinstance(said, str) else written
    return [*map(_written, schema)] if isinstance(schema, (list, tuple)) else schema


def _shown(schema: Any, kind: Any) -> Any:
    """A record without the fields that no network door shows (`wire.exposed`)."""
    if kind is None or "properties" not in schema:
        return schema
    named = exposed(kind)
    fields = {name: about for name, about in schema["properties"].items() if name in named}
    return schema | {"properties": fields, "required": [each for each in schema.get("required", ()) if each in fields]}


def records_of(hints: Iterable[Any]) -> dict[str, Any]:
    """The records in answers by their names, those inside of others too."""
    found: dict[str, Any] = {}
    left = [*hints]
    while left:
        hint = left.pop()
        left += get_args(hint)
        kind = get_origin(hint) or hint
        if inspect.isclass(kind) and issubclass(kind, msgspec.Struct) and kind.__name__ not in found:
            found[kind.__name__] = kind
            left += get_type_hints(kind).values()
    return found


def _operation(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    first, _, rest = route.about.partition("\n")
    found: dict[str, Any] = {
        "operationId": route.name,
        "summary": first,
        "tags": [route.tag],
        "x-right": route.right.value,
        "x-roles": [role.value for role, rights in RIGHTS.items() if route.right in rights],
        "parameters": [*map(_part, route.parameters), *_query(route), *_headers(route)],
        "responses": _responses(route, schemas),
    }
    if rest.strip():
        found["description"] = rest.strip()
    if route.body is not None:
        found["requestBody"] = {
            "required": route.needs_body, "content": {"application/json": {"schema": schemas[repr(route.body)]}},
        }  # fmt: skip
    if route.takes:
        content = {route.takes: {"schema": {"type": "string", "format": "binary"}}}
        found["requestBody"] = {"required": True, "content": content}
    return found


def _part(name: str) -> dict[str, Any]:
    schema = {"type": "integer", "minimum": 0} if name in NUMBERS else {"type": "string", "minLength": 1}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _query(route: Route) -> list[dict[str, Any]]:
    _, parts = msgspec.json.schema_components([route.query], ref_template=REFS)
    schema = parts[route.query.__name__]
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _inlined(about, parts)}
        for name, about in schema.get("properties", {}).items()
    ]


def _inlined(schema: Any, parts: dict[str, Any]) -> Any:
    """Parameters are small: the words of a state stand in place."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            return parts[re.sub(r"^.*/", "", schema["$ref"])]
        return {name: _inlined(item, parts) for name, item in schema.items()}
    return [_inlined(item, parts) for item in schema] if isinstance(schema, list) else schema


def _headers(route: Route) -> list[dict[str, Any]]:
    if not route.takes_key:
        return []
    about = "Carries the request out once: the same key again gives the same answer."
    schema = {"type": "string", "minLength": 1, "maxLength": 200}
    return [{"name": "Idempotency-Key", "in": "header", "required": False, "schema": schema, "description": about}]


def _responses(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": "Success."}
    if route.answer is not None:
        answer["content"] = {route.media_type: {"schema": schemas[repr(route.answer)]}}
    if route.names_damage:
        about = (
            "The rows that the list leaves out because they cannot be read, as JSON in ASCII; absent if there are none. "
            f"At most {DAMAGED_MAX_CHARS} characters: the last row counts those that do not fit."
        )
        rows = {"type": "array", "items": schemas[repr(DamagedRow)]}
        answer["headers"] = {DAMAGED: {"description": about, "content": {"application/json": {"schema": rows}}}}
    found = {str(route.status): answer}
    if route.method == "GET" or "wait" in getattr(route.body, "__struct_fields__", ()):
        found["204"] = {"description": "Nothing came in time."}
    if route.method == "GET":
        found["304"] = {"description": "Not modified: the copy that If-None-Match names is current."}
    return found | {each: {"$ref": "#/components/responses/Problem"} for each in REFUSALS}

"""Make the types and the table of operations of `clients/typescript` from docs/openapi.json.

    python tools/typescript_types.py            write src/api.d.ts and src/operations.js
    python tools/typescript_types.py --check    exit 1 and say which one lags

The client is plain JavaScript, so that no build stands between its sources and node: see decision 0058.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SPEC = ROOT / "docs" / "openapi.json"
TARGET = ROOT / "clients" / "typescript" / "src"
HEAD = "// Made by tools/typescript_types.py from docs/openapi.json. Do not edit.\n\n"
PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def main() -> int:
    """Write the files, or compare them."""
    if "--check" not in sys.argv[1:]:
        write()
        return 0
    made = files(json.loads(SPEC.read_text()))
    lagging = [name for name, text in made.items() if not _is(TARGET / name, text)]
    for name in lagging:
        print(f"{name} lags behind docs/openapi.json: run python tools/typescript_types.py", file=sys.stderr)
    return 1 if lagging else 0


def write() -> None:
    """Write the files. `tools/openapi.py` does so after the document."""
    for name, text in files(json.loads(SPEC.read_text())).items():
        (TARGET / name).write_text(text)


def _is(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


def files(spec: dict[str, Any]) -> dict[str, str]:
    """The files by name."""
    operations = [
        (about["operationId"], method.upper(), path, about)
        for path, methods in sorted(spec["paths"].items())
        for method, about in sorted(methods.items())
    ]
    return {"api.d.ts": _types(spec, operations), "operations.js": _table(operations)}


def _table(operations: list[tuple[str, str, str, dict[str, Any]]]) -> str:
    rows = [
        f'  {name}: ["{method}", "{path}", "{about["x-right"]}"{", true" if _takes_key(about) else ""}],'
        for name, method, path, about in sorted(operations)
    ]
    says = "/** Each operation: its method, its path, the right that it needs, and whether it takes a key. */\n"
    return HEAD + says + "export const OPERATIONS = {\n" + "\n".join(rows) + "\n};\n"


def _takes_key(about: dict[str, Any]) -> bool:
    return any(each["name"] == "Idempotency-Key" for each in about.get("parameters", ()))


def _types(spec: dict[str, Any], operations: list[tuple[str, str, str, dict[str, Any]]]) -> str:
    schemas = spec["components"]["schemas"]
    records = [f"  {json.dumps(name)}: {type_of(schema, '  ')};" for name, schema in sorted(schemas.items())]
    entries = [f"  {name}: {_operation(path, about)};" for name, _, path, about in sorted(operations)]
    return (
        f"{HEAD}/** Records, by name. */\nexport interface components {{\n"
        + "\n".join(records)
        + "\n}\n\n/** What each operation takes and gives. */\nexport interface operations {\n"
        + "\n".join(entries)
        + "\n}\n"
    )


def _operation(path: str, about: dict[str, Any]) -> str:
    parts = ", ".join(f"{name}: string | number" for name in re.findall(r"{(\w+)}", path))
    asked = [each for each in about.get("parameters", ()) if each["in"] == "query"]
    query = ", ".join(f"{each['name']}{'' if each['required'] else '?'}: {type_of(each['schema'])}" for each in asked)
    given = _schema_in(about.get("requestBody", {}).get("content", {}))
    done = next((about["responses"][code] for code in ("200", "201") if code in about["responses"]), {})
    gave = _schema_in(done.get("content", {}))
    none = " | null" if "204" in about["responses"] else ""
    return f"{{ path: {{ {parts} }}; query: {{ {query} }}; body: {given}; answer: {gave}{none} }}"


def _schema_in(content: dict[str, Any]) -> str:
    schema = content.get("application/json", {}).get("schema")
    return "unknown" if schema is None else type_of(schema, "  ")


def type_of(schema: Any, indent: str = "") -> str:
    """A JSON schema as a type."""
    if not isinstance(schema, dict) or not schema:
        return "unknown"
    if "$ref" in schema:
        return f'components["{schema["$ref"].rpartition("/")[2]}"]'
    if "enum" in schema or "const" in schema:
        return " | ".join(json.dumps(each) for each in schema.get("enum", [schema.get("const")]))
    for joined in ("anyOf", "oneOf"):
        if joined in schema:
            return " | ".join(dict.fromkeys(type_of(each, indent) for each in schema[joined]))
    return _by_type(schema, indent)


def _by_type(schema: dict[str, Any], indent: str) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(type_of({**schema, "type": each}, indent) for each in kind)
    if kind == "array":
        if "prefixItems" in schema:
            return f"[{', '.join(type_of(each, indent) for each in schema['prefixItems'])}]"
        item = type_of(schema.get("items"), indent)
        return f"({item})[]" if "|" in item else f"{item}[]"
    if kind == "object":
        return _object(schema, indent)
    return PLAIN.get(str(kind), "unknown")


def _object(schema: dict[str, Any], indent: str) -> str:
    fields = schema.get("properties")
    if not fields:
        return f"Record<string, {type_of(schema.get('additionalProperties'), indent)}>"
    required = schema.get("required", [])
    rows = [
        f"{indent}  {json.dumps(name)}{'' if name in required else '?'}: {type_of(each, indent + '  ')};"
        for name, each in fields.items()
    ]
    return "{\n" + "\n".join(rows) + f"\n{indent}}}"


if __name__ == "__main__":
    raise SystemExit(main())

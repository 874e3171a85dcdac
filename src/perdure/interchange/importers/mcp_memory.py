"""The knowledge graph of MCP's memory server: `memory.jsonl`, one entity or relation a line. It becomes values of a scope.

An entity is the value `entity/NAME`: its name, type and observations; a relation is the value `relation/FROM/TYPE/TO`. Names
there are any text, so the value has them whole, and its own name is made unique. The server rewrites its file; importing a
changed one updates what changed. An entry deleted there stays here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perdure.interchange.importers.items import ImportedValue, Item, LeftOut, Remark
from perdure.interchange.importers.naming import named, named_apart
from perdure.interchange.importers.reading import FileHead, Record, Source, each_record

NAME = "mcp-memory"
ENTITY = ("name", "entityType", "observations")
RELATION = ("from", "to", "relationType")


def looks_right(record: dict[str, Any]) -> bool:
    """Whether an object can be one of its records. Early versions of the server did not write the type."""
    kind = record.get("type")
    as_entity = all(name in record for name in ENTITY) and kind in ("entity", None)
    return as_entity or (all(name in record for name in RELATION) and kind in ("relation", None))


def recognises(head: FileHead) -> bool:
    """Whether a file is one."""
    return bool(head.records) and all(map(looks_right, head.records))


def read(source: Source) -> Iterator[Item | Remark]:
    """Everything in the file, in its order."""
    return each_record(source, looks_right, _items)


def _items(record: Record) -> Iterator[Item | Remark]:
    yield _value(record) if looks_right(record.data) else LeftOut(record.place, "neither an entity nor a relation")


def _value(record: Record) -> ImportedValue:
    data = record.data
    if all(name in data for name in ENTITY):
        more = {name: value for name, value in data.items() if name not in (*ENTITY, "type")}
        value = {"name": data["name"], "type": data["entityType"], "observations": data["observations"], **more}
        return ImportedValue(named("entity", data["name"]), value, record.place, scope=NAME)
    name = named_apart("relation", data["from"], data["relationType"], data["to"])
    return ImportedValue(name, {field: data[field] for field in RELATION}, record.place, scope=NAME)

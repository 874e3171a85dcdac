"""LangGraph's packed values as plain data: msgpack or JSON that names classes, which are never imported or called (P10).

An object becomes a `Packed`: the name of its class and what it was made of. `plain` turns that into values that a store keeps:
instants, decimals and ids as such where that is exact, anything else as an object with its class's name. Caller: `langgraph.py`.
"""

from __future__ import annotations

import math
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

import msgspec

from perdure.errors import Invalid

CLASS = "class"
_SNAPSHOT = 7  # of a channel that is kept as deltas
_KNOWN = range(6)  # the codes of objects: [module, class, what it is made of, …]
_LISTS = frozenset({"builtins.set", "builtins.frozenset", "collections.deque"})


class PackedObject(msgspec.Struct, frozen=True):
    """An object that was packed: its class, and its fields or arguments."""

    module: str
    name: str
    made_of: Any

    @property
    def path(self) -> str:
        """The class's full name: only ever a text."""
        return f"{self.module}.{self.name}"


def unpack(kind: str, data: bytes) -> Any:
    """A value from the two columns that keep it. Invalid if it is broken, or of a kind that is never read (pickle)."""
    if kind in ("null", ""):
        return None
    if kind in ("bytes", "bytearray"):
        return data
    try:
        if kind == "msgpack":
            return msgspec.msgpack.decode(data, ext_hook=_object)
        if kind == "json":
            return _revived(msgspec.json.decode(data))
    except RecursionError:
        raise Invalid("nested too deep", path=kind) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
        raise Invalid(f"broken {kind}: {str(error)[:80]}", path=kind) from None
    raise Invalid(f"kept as {kind[:20]!r}, which is never read: it could run code", path="type")


def _object(code: int, data: memoryview) -> Any:
    value = msgspec.msgpack.decode(data, ext_hook=_object)
    if code == _SNAPSHOT:
        return value
    if code in _KNOWN and isinstance(value, list) and len(value) > 2:
        return PackedObject(str(value[0]), str(value[1]), value[2])
    return PackedObject("msgpack", f"ext{code}", value)


def _revived(value: Any) -> Any:
    """Objects of the older JSON form: `{"lc": 2, "id": [module…, class], "kwargs": {…}}`."""
    if isinstance(value, list):
        return [_revived(item) for item in value]
    if not isinstance(value, dict):
        return value
    path = value.get("id")
    if "lc" in value and isinstance(path, list) and path:
        made_of = value.get("kwargs") or value.get("args")
        return PackedObject(".".join(map(str, path[:-1])), str(path[-1]), _revived(made_of))
    return {name: _revived(item) for name, item in value.items()}


def plain(value: Any) -> Any:  # noqa: PLR0911 - one line a kind
    """A value that a store keeps."""
    match value:
        case PackedObject():
            return _plain_object(value)
        case dict():
            return {name if isinstance(name, str) else str(name): plain(item) for name, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case bytearray() | memoryview():
            return bytes(value)
        case datetime() if value.tzinfo is None:
            return value.isoformat()
        case float() if not math.isfinite(value):
            return str(value)
    return value


def _plain_object(packed: PackedObject) -> Any:
    made_of = packed.made_of
    if packed.path in _LISTS and isinstance(made_of, (list, tuple)):
        return plain(made_of)
    if isinstance(made_of, str) and packed.path in _SCALARS:
        try:
            return _SCALARS[packed.path](made_of)
        except (ValueError, InvalidOperation):
            pass
    return {CLASS: packed.path, "of": plain(made_of)}


def _instant(text: str) -> Any:
    instant = datetime.fromisoformat(text)
    return instant if instant.tzinfo else text


def _decimal(text: str) -> Any:
    number = Decimal(text)
    return number if number.is_finite() else text


_SCALARS = {"decimal.Decimal": _decimal, "uuid.UUID": UUID, "datetime.datetime": _instant}

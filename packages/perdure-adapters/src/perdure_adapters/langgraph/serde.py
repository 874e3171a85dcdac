"""Strict deserialisation: a checkpoint names classes, and only those that were allowed are built. Keeps P10.

LangGraph's own serializer imports and calls whatever its data names, and in strict mode gives a dict for what is not
allowed. This one refuses instead, with the name of the type; it refuses as early as when such a value is written, because a state
that cannot be read back is lost. It writes LangGraph's own bytes, and never reads or writes pickle.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable
from typing import Any

import ormsgpack
from langgraph.checkpoint.serde import _msgpack as framework
from langgraph.checkpoint.serde import jsonplus
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from perdure.errors import Damaged, Error, Invalid

Allowed = frozenset[tuple[str, ...]]

BUILT_IN: Allowed = frozenset(framework.SAFE_MSGPACK_TYPES)
_METHODS: Allowed = frozenset(framework.SAFE_MSGPACK_METHODS)
_OPTION = ormsgpack.OPT_NON_STR_KEYS


class UnknownType(Invalid):
    """A state holds, or a checkpoint names, a class that was not allowed. Nothing of it is imported or built."""


class StrictSerializer(JsonPlusSerializer):
    """LangGraph's bytes, read back strictly. allow: classes of your own that may stand in a state."""

    def __init__(self, allow: Iterable[type | tuple[str, str]] = ()) -> None:
        super().__init__(allowed_msgpack_modules=None)
        self.allow: Allowed = frozenset(
            (entry.__module__, entry.__name__) if isinstance(entry, type) else tuple(entry) for entry in allow
        )

    def with_msgpack_allowlist(self, extra_allowlist: Iterable[tuple[str, ...] | type]) -> StrictSerializer:
        """This serializer, with more classes allowed: `graph.compile` hands over those of its schema."""
        more = StrictSerializer(extra_allowlist)  # type: ignore[arg-type]
        more.allow |= self.allow
        return self if more.allow == self.allow else more

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """The bytes of a value. UnknownType if it could not be read back."""
        kind, data = super().dumps_typed(obj)
        if kind == "msgpack":
            _Unpacking(self.allow).look(data)
        return kind, bytes(data)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value of these bytes. UnknownType for a class that was not allowed, Damaged for bytes that are none of ours."""
        kind, stored = data
        if kind == "msgpack":
            return _Unpacking(self.allow).build(stored)
        if kind == "json":
            try:
                return json.loads(stored, object_hook=self._revive)
            except (ValueError, RecursionError) as error:
                raise Damaged(f"these bytes cannot be decoded: {error}", path="checkpoint") from None
        if kind in ("null", "bytes", "bytearray"):
            return super().loads_typed(data)
        raise UnknownType(f"the serialisation {kind!r} is not read", path="checkpoint")

    def _revive(self, value: dict[str, Any]) -> Any:
        """Checkpoints of old, in JSON: messages are built, every other class is refused."""
        if "lc" not in value or value.get("type") != "constructor":
            return value
        id_ = value.get("id")
        where = tuple(id_) if isinstance(id_, list) else ()
        name = (".".join(map(str, where[:-1])), str(where[-1])) if where else ("", "")
        if name not in BUILT_IN and name not in self.allow:
            raise UnknownType(f"the type {'.'.join(name)} is not allowed", path="checkpoint")
        return _class(name)(**value.get("kwargs", {}))


class _Unpacking:
    """One value being read. A class is named by an extension: (module, name, argument[, method]).

    The decoder hides what its hook raises, so the first error is kept here.
    """

    __slots__ = ("_allow", "_classes", "_error")

    def __init__(self, allow: Allowed) -> None:
        self._allow = allow
        self._classes: dict[tuple[str, ...], Any] = {}
        self._error: Error | None = None

    def look(self, data: bytes) -> None:
        """Check the names in bytes that are about to be stored, and build nothing."""
        self._unpacked(data, self._look)

    def build(self, data: bytes) -> Any:
        """The value of stored bytes."""
        return self._unpacked(data, self._build)

    def _unpacked(self, data: bytes, hook: Callable[[int, bytes], Any]) -> Any:
        try:
            return ormsgpack.unpackb(data, ext_hook=hook, option=_OPTION)
        except (ValueError, RecursionError) as error:
            damaged = Damaged(f"these bytes cannot be decoded: {error}", path="checkpoint")
            self._error = self._error or damaged
            raise self._error from None

    def _look(self, code: int, data: bytes) -> None:
        fields = self._unpacked(data, self._look)
        if code not in (jsonplus.EXT_NUMPY_ARRAY, jsonplus.EXT_DELTA_SNAPSHOT):
            self._check(code, fields)

    def _build(self, code: int, data: bytes) -> Any:
        fields = self._unpacked(data, self._build)
        if code == jsonplus.EXT_DELTA_SNAPSHOT:
            return _DeltaSnapshot(fields)
        if code != jsonplus.EXT_NUMPY_ARRAY:
            self._check(code, fields)
        try:
            return _array(fields) if code == jsonplus.EXT_NUMPY_ARRAY else _BUILDERS[code](self._class(fields), fields)
        except Exception as error:
            self._error = self._error or Damaged(f"a value cannot be built again: {error}", path="checkpoint")
            raise

    def _class(self, fields: Any) -> Any:
        """The class that an extension names, looked up once for all messages of a value."""
        name = fields[0], fields[1]
        if name not in self._classes:
            self._classes[name] = _class(name)
        return self._classes[name]

    def _check(self, code: int, fields: Any) -> None:
        """Keep the error of a name that is not allowed, and raise it."""
        self._error = self._error or _refusal(self._allow, code, fields)
        if self._error is not None:
            raise self._error


def _refusal(allow: Allowed, code: int, fields: Any) -> Error | None:
    """Why what an extension names is not built; None if it may be."""
    if code not in _BUILDERS or not isinstance(fields, list | tuple) or len(fields) < 3:
        return Damaged(f"an extension {code} of a form that is not known", path="checkpoint")
    name = tuple(map(str, fields[:2]))
    if code == jsonplus.EXT_METHOD_SINGLE_ARG:
        method = (*name, str(fields[3]) if len(fields) > 3 else "")
        return None if method in _METHODS else UnknownType(f"{'.'.join(method)} is not called", path="checkpoint")
    if name in BUILT_IN or name in allow:
        return None
    hint = f"if it is yours, say PerdureSaver(…, allow=[{name[1]}])"
    return UnknownType(f"the type {name[0]}.{name[1]} is not allowed", path="checkpoint", hint=hint)


def _class(name: tuple[str, ...]) -> Any:
    return getattr(importlib.import_module(name[0]), name[1])


def _single(cls: Any, fields: Any) -> Any:
    return cls(fields[2])


def _positional(cls: Any, fields: Any) -> Any:
    if tuple(fields[:2]) == ("langgraph.types", "Send"):
        return jsonplus._send_from_args(fields[2])
    return cls(*fields[2])


def _keywords(cls: Any, fields: Any) -> Any:
    return cls(**fields[2])


def _method(cls: Any, fields: Any) -> Any:
    return getattr(cls, fields[3])(fields[2])


def _model(cls: Any, fields: Any) -> Any:
    """A pydantic model; one that its own validation refuses (it was built without) comes back as it was."""
    try:
        return cls(**fields[2])
    except ValueError:
        return getattr(cls, "model_construct", cls.construct)(**fields[2])


def _array(fields: Any) -> Any:
    import numpy as np  # noqa: PLC0415 - only where a state holds arrays

    dtype, shape, order, data = fields
    return np.frombuffer(data, dtype=np.dtype(dtype)).reshape(shape, order=order)


_BUILDERS = {
    jsonplus.EXT_CONSTRUCTOR_SINGLE_ARG: _single,
    jsonplus.EXT_CONSTRUCTOR_POS_ARGS: _positional,
    jsonplus.EXT_CONSTRUCTOR_KW_ARGS: _keywords,
    jsonplus.EXT_METHOD_SINGLE_ARG: _method,
    jsonplus.EXT_PYDANTIC_V1: _model,
    jsonplus.EXT_PYDANTIC_V2: _model,
}

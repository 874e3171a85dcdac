"""Records as JSON, and JSON as values. Callers: `app`, `streams`.

Instants are ISO 8601 in UTC, spans are seconds, states are text. A field of any type holds a value of the user: it is written
as the log writes it, tagged where JSON has no such type, so that a client can give it back unchanged. Keeps P10.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import cache
from itertools import accumulate
from typing import Any, get_args, get_type_hints

import msgspec

from perdure.errors import Invalid
from perdure.model.values import from_plain, to_plain
from perdure.planes.memory.search import Results
from perdure.planes.reading.paging import DamagedRow
from perdure.verbs.exposed import FIELDS

DAMAGED = "Perdure-Damaged"  # a header of plain lists, which `remote.answers` reads
DAMAGED_MAX_CHARS = 2_000  # proxies take 4 KB of headers
_ENCODER = msgspec.json.Encoder()
_AS_THEY_ARE = frozenset({type(None), bool, int, float, str, datetime})


def encode(value: Any) -> bytes:
    """A record, a page or plain data as JSON bytes."""
    return as_json(wired(value))


def as_json(plain: Any) -> bytes:
    """Builtins of `wired` as JSON bytes."""
    return _ENCODER.encode(plain)


def wired(value: Any) -> Any:  # noqa: PLR0911 - one line a kind
    """A record as builtins that JSON can hold."""
    if type(value) in _AS_THEY_ARE:  # most fields: the patterns below cost ten times as much
        return value
    match value:
        case None | bool() | int() | float() | str() if not isinstance(value, enum.Enum):
            return value
        case enum.Enum():
            return value.value
        case datetime():
            return value
        case timedelta():
            return value.total_seconds()
        case msgspec.Struct():
            return _struct(value)
        case Mapping():
            return {str(key): wired(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [wired(item) for item in value]
    return to_plain(value, from_store=True)


def _struct(value: msgspec.Struct) -> Any:
    if type(value).__struct_config__.array_like:
        return [wired(getattr(value, name)) for name in value.__struct_fields__]
    found = {shown: way(getattr(value, name)) for name, shown, way in _ways(type(value))}
    tag = type(value).__struct_config__.tag
    return found if tag is None else {type(value).__struct_config__.tag_field: tag, **found}


def _value(value: Any) -> Any:
    """A value of the user, or a record of ours in a field that may hold either."""
    try:
        return to_plain(value, from_store=True)
    except Invalid:
        return wired(value)  # a record, or a state of one: differences hold both


def _values(value: Any) -> Any:
    """Values of the user in a list or dict of ours."""
    return [_value(item) for item in value] if isinstance(value, tuple) else _value(value)


def damage_of(found: Any) -> dict[str, str]:
    """The header that names the rows which a plain list leaves out, because they cannot be read. Its last row counts those that
    do not fit.
    """
    if not isinstance(found, Results) or not found.damaged:
        return {}
    rows = [_ascii(row) for row in found.damaged]
    fitting = sum(size <= DAMAGED_MAX_CHARS - 200 for size in accumulate(len(row) + 2 for row in rows))
    if fitting < len(rows):
        reason = "cannot be read, and have no place here: `perdure verify` names them"
        rows[fitting:] = [_ascii(DamagedRow(f"{len(rows) - fitting} more", reason))]
    return {DAMAGED: f"[{', '.join(rows)}]"}


def _ascii(row: DamagedRow) -> str:
    return json.dumps({"where": row.where, "reason": row.reason})


@cache
def _ways(kind: type[msgspec.Struct]) -> list[tuple[str, str, Callable[[Any], Any]]]:
    """The fields of a record, their names in JSON, and how each is written: some hold whatever a user stored."""
    hints, may_be_shown = get_type_hints(kind), exposed(kind)
    names = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    return [(name, shown, _way(hints[name])) for name, shown in names if name in may_be_shown]


def exposed(kind: type[msgspec.Struct]) -> frozenset[str]:
    """The fields of a record that may be shown: those that are named (`verbs.exposed`), and those of answers that are made here.

    TypeError for a record that nothing names: a new one is shown at no network door.
    """
    own, named = kind.__module__.startswith("perdure_server."), FIELDS.get(kind.__name__)
    if named is None and not own and kind.__module__.startswith("perdure."):
        raise TypeError(f"{kind.__name__} is shown at no network door: name its fields in perdure.verbs.exposed")
    shown = frozenset(kind.__struct_fields__) - _of_bases(kind) if named is None else named
    return shown.union(*(exposed(base) for base in kind.__bases__ if _is_record(base)))


def _of_bases(kind: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset().union(*(base.__struct_fields__ for base in kind.__bases__ if _is_record(base)))


def _is_record(kind: Any) -> bool:
    fields = getattr(kind, "__struct_fields__", ())
    return isinstance(fields, tuple) and bool(fields)


def _way(hint: Any) -> Callable[[Any], Any]:
    if hint is Any or hint is object:
        return _value
    return _values if Any in get_args(hint) else wired


def encoded(value: Any) -> Any:
    """A record as JSON gives it back: an answer in this form can be kept under a key, and given again as it was."""
    return msgspec.json.decode(encode(value))


def value_from(given: Any, path: str) -> Any:
    """A value that a client sent. Invalid or TooLarge with the path of what is wrong in it."""
    return from_plain(given, path)

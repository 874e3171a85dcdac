"""Values and their codec: the only way by which what users give us becomes bytes and comes back.

Everything that records or reads a body calls it (`log`, `planes`), and so do the doors for arguments. Keeps P10 (no
code in data: JSON and the tags below, never pickle; a name in data is only looked up, never imported) and P15
(bad input is refused at the border with its path, before anything is encoded).

THE FORMAT, which cannot change: what is stored once must be readable for ever. New tags may be added.

A value is JSON. `null`, booleans, text, whole numbers of 64 bits (signed), finite floats, lists and dicts
with text as keys are written as they are. Anything else is an object with the single key "$" and the value
`[tag, payload]`:

    tag          Python value        payload
    "$"          a dict whose only   the (encoded) value of that key: {"$": 1} is written {"$": ["$", 1]},
                 key is "$"          so that every dict comes back as it was
    "bytes"      bytes               base64 (RFC 4648 §4, padded)
    "date"       date                "2024-02-29"
    "datetime"   datetime, aware     "2024-02-29T12:30:00.000000+02:00": always six digits; the offset as it
                                     was, with seconds and microseconds only where it has them
    "decimal"    Decimal, finite     "1.50", "-0", "1E+3": sign, digits and exponent as they were
    "int"        int past 64 bits    hexadecimal: "ffffffffffffffff", "-8000000000000001"
    "time"       time                "12:30:00.000000", with "+02:00" if it is aware
    "timedelta"  timedelta           seconds with six digits: "90.000000", "-0.000001"
    "tuple"      tuple               array of encoded values
    "type"       a registered type   [name, version, {field: encoded value}]; see `types`
    "uuid"       UUID                "6ba7b810-9dad-11d1-80b4-00c04fd430c8"

Each value has exactly one written form (but for the order of keys); a payload in another form is refused when
read. Subclasses (`IntEnum`, `numpy.float64`, `OrderedDict`) are refused: they come back as another type.

A path is written as in jq: `value.items[3].price`, `value["odd key"]`. Everything raised here is `Invalid`,
or `TooLarge` where a limit is passed; whoever reads its own store turns that into `Damaged`.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from enum import Enum
from math import isfinite
from pathlib import PurePath
from types import CoroutineType, FunctionType
from typing import Any, NoReturn, TypeAlias

import msgspec

from perdure.errors import Error, Invalid, TooLarge
from perdure.model import registered_types
from perdure.model.limits import INLINE_MAX_BYTES, INT_SHOWN_MAX_BITS, VALUE_MAX_BYTES, VALUE_MAX_DEPTH, check_name
from perdure.model.registered_types import INT_MAX, INT_MIN, SCALAR_BY_TAG, SCALAR_OF, Unregistered, read_scalar

Plain: TypeAlias = "dict[str, Plain] | list[Plain] | str | int | float | bool | None"
Value: TypeAlias = Any  # all that `to_plain` accepts; no narrower type says "or a registered class"

TAG = "$"
_DIGEST_DOMAIN = b"perdure value 1\0"
_ENCODER = msgspec.json.Encoder()
_CANONICAL = msgspec.json.Encoder(order="deterministic")
_DECODER = msgspec.json.Decoder()
_TOO_DEEP = f"nested more than {VALUE_MAX_DEPTH} deep (or than the call stack has room for), or it contains itself"
PATH_MAX_CHARS = 120
BARE_MAX = 64  # items of a list that is looked through quickly


def to_plain(value: Value, path: str = "value", *, from_store: bool = False) -> Plain:
    """Validate a value and give it as a tree that JSON can hold, tagged where needed.

    Returns the very same object, uncopied, when nothing in it needs a tag: encode it before it can change.
    Pure and repeatable. Raises `Invalid` or `TooLarge` with the path of what is wrong.

    from_store: the value may come out of a store, where an older version let whole numbers of any length in. They are no longer
    taken as new values, because Python prints none of more than 4,300 digits.
    """
    if type(value) is str and len(value) <= VALUE_MAX_BYTES and value.isascii() and "\0" not in value:
        return value  # most turns are plain: nothing to walk through
    return (_Rewriter if from_store else _Writer)().walk(value, path)


def from_plain(tree: Plain, path: str = "value") -> Value:
    """Turn a tree back into the value it was made from; the same object, uncopied, when it holds no tag.

    Strict: accepts only what `to_plain` can give. Runs no code but that of classes registered here.
    Raises `Invalid` or `TooLarge` with the path of what is wrong.
    """
    return _Reader().walk(tree, path)


def encode(value: Value, path: str = "value") -> bytes:
    """Encode a value as JSON bytes, keys in the order given. Pure. Raises as `to_plain` does for what may be kept."""
    return _json(_ENCODER, to_plain(value, path, from_store=True), path)


def decode(data: bytes, path: str = "value") -> Value:
    """Decode JSON bytes that `encode` made (other white space is accepted).

    Raises `Invalid` for what is not one JSON document, repeats a key, or holds what no value can hold.
    """
    _check_size(len(data), path)
    try:
        tree: Plain = _DECODER.decode(data)
    except RecursionError:
        raise TooLarge(_TOO_DEEP, path=path) from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Invalid(f"not JSON: {error}", path=path) from None
    # The parser keeps the last of two equal keys in silence. A document of `encode` comes out of it unchanged, so only other
    # documents are worth a slow look.
    if b"{" in data and _ENCODER.encode(tree) != data:
        _refuse_repeated_keys(data, path)
    return from_plain(tree, path)


def digest(value: Value, path: str = "value") -> bytes:
    """Give 32 bytes that are equal for equal written forms, whatever the order of keys. Raises as `to_plain`.

    Values that Python calls equal but that are written differently (1 and 1.0, one instant in two offsets)
    differ.
    """
    plain = value if type(value) is list and _is_bare(value) else to_plain(value, path, from_store=True)
    return hashlib.sha256(_DIGEST_DOMAIN + _json(_CANONICAL, plain, path)).digest()


def step(key: object) -> str:
    """Give the part of a path that leads into a dict: `.price`, or `["odd key"]` (shortened when very long).

    A key that is not text has no place of its own: the path ends at its dict.
    """
    if type(key) is not str:
        return ""
    if key.isascii() and key.isidentifier() and len(key) <= 80:
        return f".{key}"
    text = key if len(key) <= 80 else key[:79] + "…"
    readable = text.isprintable()  # surrogates and control characters are not
    return f"[{json.dumps(text, ensure_ascii=not readable)}]"


def _shortened(path: str) -> str:
    """A path that can be read: without its middle, when it is very long."""
    half = PATH_MAX_CHARS // 2
    return path if len(path) <= PATH_MAX_CHARS else f"{path[:half]}…{path[-half:]}"


def _json(encoder: msgspec.json.Encoder, tree: Plain, path: str) -> bytes:
    try:
        data = encoder.encode(tree)
    except RecursionError:
        raise TooLarge(_TOO_DEEP, path=path) from None
    _check_size(len(data), path)
    return data


def _refuse_repeated_keys(data: bytes, path: str) -> None:
    def look(pairs: list[tuple[str, object]]) -> None:
        keys: set[str] = set()
        for key, _ in pairs:
            if key in keys:
                raise Invalid(f"the key {step(key)} occurs twice in one object", path=path)
            keys.add(key)

    try:
        json.loads(data, object_pairs_hook=look, parse_int=len, parse_float=len)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"not JSON: {error}", path=path) from None


def _check_size(size: int, path: str = "") -> None:
    if size > VALUE_MAX_BYTES:
        raise TooLarge(
            f"more than {VALUE_MAX_BYTES} bytes, which is the most that a value may have",
            path=path,
            hint="attach large data as an artifact and keep its name in the value",
        )


# --- the walk, in both directions -----------------------------------------------------------------


class _Walk(ABC):
    """One walk over one value. A container is copied only when something in it changes.

    Errors get their path on the way out, so that good values pay nothing for it.
    """

    __slots__ = ("size",)

    def __init__(self) -> None:
        self.size = 0  # never more than the encoded size: a huge value is refused before it is encoded

    def walk(self, value: Any, path: str) -> Any:
        try:
            return self.visit(value, 0)
        except Error as error:
            error.path = path + _shortened(error.path)
            raise
        except RecursionError:
            raise TooLarge(_TOO_DEEP, path=path) from None

    @abstractmethod
    def visit(self, value: Any, depth: int) -> Any: ...

    def spend(self, size: int) -> None:
        self.size += size
        if self.size > VALUE_MAX_BYTES:
            _check_size(self.size)

    def text(self, text: str) -> str:
        self.size = size = self.size + len(text)
        if size > VALUE_MAX_BYTES:
            _check_size(size)
        if "\0" in text or not text.isascii():
            _check_text(text)
        return text

    def items(self, items: list[Any], depth: int) -> list[Any]:
        self.enter(2 * len(items), depth)
        if len(items) > 8 and _is_numbers(items):
            return items
        out, index = items, 0
        try:
            for index, item in enumerate(items):
                kind = type(item)
                if kind is bool or item is None or (kind is int and INT_MIN <= item <= INT_MAX):
                    continue
                new = self.text(item) if kind is str else self.visit(item, depth + 1)
                if new is not item:
                    out = items.copy() if out is items else out
                    out[index] = new
        except Error as error:
            error.path = f"[{index}]{error.path}"
            raise
        return out

    def fields(self, items: dict[str, Any], depth: int) -> dict[str, Any]:
        """A dict whose keys mean themselves, also when the only one is "$"."""
        self.enter(4 * len(items), depth)
        out, key = items, ""
        try:
            for key, item in items.items():
                if type(key) is not str or not key.isascii() or "\0" in key:
                    _check_key(key)
                self.size += len(key)
                kind = type(item)
                if kind is bool or item is None or (kind is int and INT_MIN <= item <= INT_MAX):
                    continue
                new = self.text(item) if kind is str else self.visit(item, depth + 1)
                if new is not item:
                    out = items.copy() if out is items else out
                    out[key] = new
        except Error as error:
            error.path = step(key) + error.path
            raise
        return out

    def enter(self, size: int, depth: int) -> None:
        if depth >= VALUE_MAX_DEPTH:
            raise TooLarge(_TOO_DEEP)
        self.size = size = self.size + size
        if size > VALUE_MAX_BYTES:
            _check_size(size)


class _Writer(_Walk):
    __slots__ = ()
    INT_MAX_BITS = INT_SHOWN_MAX_BITS

    def visit(self, value: Any, depth: int) -> Plain:
        kind = type(value)
        if kind is str:
            return self.text(value)
        if kind is bool or value is None or (kind is int and INT_MIN <= value <= INT_MAX):
            return value
        if kind is dict:
            plain = self.fields(value, depth)
            return _tag(TAG, plain[TAG]) if _is_tag(plain) else plain
        if kind is list:
            return self.items(value, depth)
        return _finite(value) if kind is float else self.tagged(kind, value, depth)

    def tagged(self, kind: type, value: Any, depth: int) -> Plain:
        if kind is int and value.bit_length() > self.INT_MAX_BITS:
            raise TooLarge(
                f"a whole number of {value.bit_length()} bits, at most {self.INT_MAX_BITS} are kept",
                hint="keep it as text (`hex(number)`) or as bytes",
            )
        if (scalar := SCALAR_OF.get(kind)) is not None:
            self.spend(len(value) if kind is bytes else 1)  # before base64 makes more of it
            return _tag(scalar.tag, self.text(scalar.write(value)))
        if kind is tuple:
            return _tag("tuple", self.items(list(value), depth))
        stored = value if kind is Unregistered else registered_types.dump(value)
        if stored is None:
            _refuse(value)
        payload: list[Any] = [stored.name, stored.version, stored.fields]
        _check_type(payload)
        return _tag("type", [*payload[:2], self.fields(stored.fields, depth)])


class _Rewriter(_Writer):
    """Writes what was read: no number that a store gave is refused."""

    __slots__ = ()
    INT_MAX_BITS = 8 * VALUE_MAX_BYTES


class _Reader(_Walk):
    __slots__ = ("verbatim",)

    def __init__(self) -> None:
        super().__init__()
        self.verbatim = False  # inside a type that nobody registered: types stay as they were stored

    def visit(self, value: Any, depth: int) -> Value:
        kind = type(value)
        if kind is str:
            return self.text(value)
        if kind is dict:
            return self.tagged(value[TAG], depth) if _is_tag(value) else self.fields(value, depth)
        if kind is list:
            return self.items(value, depth)
        if kind is float:
            return _finite(value)
        if kind is int and not INT_MIN <= value <= INT_MAX:
            raise Invalid("a whole number past 64 bits needs the tag 'int'")
        if kind is not int and kind is not bool and value is not None:
            raise Invalid(f"{_name(kind)} is not part of a plain tree")
        return value

    def tagged(self, pair: Any, depth: int) -> Value:
        if type(pair) is not list or len(pair) != 2 or type(pair[0]) is not str:
            raise Invalid('malformed tag: expected {"$": [tag, payload]}')
        tag, payload = pair
        if (scalar := SCALAR_BY_TAG.get(tag)) is not None:
            return read_scalar(scalar, payload)
        if tag == TAG:
            return self.fields({TAG: payload}, depth)
        if tag == "tuple":
            return tuple(self.items(_as_list(payload, tag), depth))
        if tag == "type":
            return self.typed(_as_list(payload, tag), depth)
        raise Invalid(f"unknown tag {tag[:40]!r}", hint="was it written by a newer Perdure?")

    def typed(self, payload: list[Any], depth: int) -> Value:
        _check_type(payload)
        name, version, fields = payload
        outside = self.verbatim
        inside = self.verbatim = outside or not registered_types.is_registered(name)
        stored = Unregistered(name, version, self.fields(fields, depth))
        self.verbatim = outside
        return stored if inside else registered_types.load(stored)


# --- what both sides check ------------------------------------------------------------------------


def _tag(tag: str, payload: Plain) -> Plain:
    return {TAG: [tag, payload]}


def _is_tag(tree: dict[str, Any]) -> bool:
    return len(tree) == 1 and TAG in tree


def _check_key(key: object) -> None:
    if type(key) is not str:
        raise Invalid(f"keys must be text, got {type(key).__name__}", hint="use str(key)")
    _check_text(key)


def _check_text(text: str) -> None:
    if "\0" in text:
        hint = "give it as bytes, or escape it: text.replace('\\0', r'\\x00')"
        raise Invalid(f"NUL at character {text.index(chr(0))}", hint=hint)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Invalid(f"lone surrogate at character {error.start}") from None


def _finite(number: float) -> float:
    if not isfinite(number):
        raise Invalid(f"{number!r} is not a number that JSON can hold", hint="use None or text")
    return number


def _is_numbers(items: list[Any]) -> bool:
    """Say quickly whether a list is nothing but finite floats or 64-bit ints (vectors, token ids)."""
    kinds = set(map(type, items))
    if kinds == {float}:
        return all(map(isfinite, items))
    return kinds == {int} and min(items) >= INT_MIN and max(items) <= INT_MAX


def _is_bare(parts: list[Any]) -> bool:
    """Say quickly whether a list is nothing but plain scalars, or short lists and dicts of them: what most calls are given."""
    for part in parts:
        kind = type(part)
        if kind is list:
            if part and (len(part) > BARE_MAX or not _are_scalars(part)):
                return False
        elif kind is dict:
            if part and (len(part) > BARE_MAX or not (_are_scalars(part.values()) and _are_names(part))):
                return False
        elif not _are_scalars((part,)):
            return False
    return True


def _are_scalars(items: Iterable[Any]) -> bool:
    """Whether these are written as they are: text of ASCII without NUL, 64-bit ints, booleans, None."""
    for item in items:
        kind = type(item)
        if kind is int:
            if not INT_MIN <= item <= INT_MAX:
                return False
        elif kind is str:
            if len(item) > INLINE_MAX_BYTES or not item.isascii() or "\0" in item:
                return False
        elif kind is not bool and item is not None:
            return False
    return True


def _are_names(keys: Iterable[Any]) -> bool:
    """Whether these are keys that mean themselves."""
    return all(type(key) is str and key.isidentifier() and key.isascii() for key in keys)


def _as_list(payload: Any, tag: str) -> list[Any]:
    if type(payload) is not list:
        raise Invalid(f"malformed payload of tag {tag!r}")
    return payload


def _check_type(payload: list[Any]) -> None:
    if len(payload) != 3 or type(payload[2]) is not dict:
        raise Invalid("malformed type: expected name, version and a dict of fields")
    check_name(payload[0], "")
    if type(payload[1]) is not int or not 1 <= payload[1] <= INT_MAX:
        raise Invalid(f"malformed version of type {payload[0]!r}: expected a whole number from 1")


def _refuse(value: object) -> NoReturn:
    kind = type(value)
    for base in (bool, int, float, str, dict, list, tuple, *SCALAR_OF):
        if isinstance(value, base):
            raise Invalid(
                f"{_name(kind)} is a subclass of {base.__name__} and would come back without its class",
                hint=f"convert it to {base.__name__}, or register its class with @perdure.registered",
            )
    instead = next((hint for base, hint in _INSTEAD.items() if isinstance(value, base)), None)
    if instead is not None:
        raise Invalid(f"a {kind.__name__} cannot be kept", hint=instead)
    raise Invalid(
        f"an object of class {_name(kind)} cannot be kept: the class is not registered",
        hint=next((hint for name, hint in _PLAIN_FORM.items() if hasattr(kind, name)), _OWN_CLASS),
    )


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


_INSTEAD: dict[type, str] = {
    set: "use a sorted list",
    frozenset: "use a sorted list",
    bytearray: "use bytes(…)",
    memoryview: "use bytes(…)",
    range: "use list(…)",
    PurePath: "use str(…)",
    Enum: "use its value or its name",
    CoroutineType: "an await is missing",
    FunctionType: "use what it gives",
    BaseException: "use its text",
}
_PLAIN_FORM = {"model_dump": "give its model_dump()", "tolist": "give its tolist()"}  # pydantic; numpy, array
_OWN_CLASS = 'decorate it with @perdure.registered("a-name", version=1), or give plain data'

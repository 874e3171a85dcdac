"""Types beyond JSON: those of Python's own library that have a text form, and the user's own classes.

`values` calls it (`read_scalar`, `dump`, `load`), and so do users (`registered`, `carry`, `kept`). Keeps P10:
nothing that data names is ever imported or called; a name is only looked up among the classes that this
process registered itself.

A user's class is registered under a name and a version; its fields are written with both, and they are values
themselves. How a stored (name, version, fields) is read:

    the name is not registered    an `Unregistered` record; written again, it gives the identical bytes
    version older                 the upgrade functions run in order (1 → 2 → 3); a missing one is `Invalid`
    version equal                 as it is
    version newer                 as it is, if the fields that this class requires are there
    a field missing               the default of the class; without a default `Invalid` with the path
    a field unknown               kept beside the object and written back with it

An object never goes back to a lower version: what was read from newer data is written with the newer version
number and with the fields that this program does not know, so that a program which knows them finds them.

Fields kept beside an object lie in its `__dict__`, which works for frozen dataclasses and for Structs with `dict=True`, and is
not seen by `==`, `repr` or `asdict`. A class without a `__dict__` is refused when it is
registered, because it would lose data in silence. `dataclasses.replace` and `msgspec.structs.replace` make a
new object that knows nothing of it: `carry(old, new)` hands it on.
"""

from __future__ import annotations

import binascii
import dataclasses
import inspect
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import msgspec

from perdure.errors import Invalid
from perdure.model.limits import check_name

Fields = dict[str, Any]
Upgrade = Callable[[Fields], Fields]
T = TypeVar("T")

INT_MIN, INT_MAX = -(2**63), 2**63 - 1  # whole numbers that JSON readers everywhere keep exactly
_KEPT = "_perdure_kept"  # the key in an object's __dict__


class Unregistered(msgspec.Struct, frozen=True):
    """A stored object whose type this process has not registered. It can be read and passed on.

    Types inside it stay `Unregistered` too, so that it gives the identical bytes when it is written again.
    """

    name: str
    version: int
    fields: Fields


class KeptFields(NamedTuple):
    """The fields that an object carries beside its own: the version to write, and the fields it does not know."""

    version: int
    fields: Fields


class TypeForm(msgspec.Struct, frozen=True):
    """How a class gives its fields away and is made from them again."""

    fields_of: Callable[[Any], Fields]
    build: Callable[[Fields], tuple[Any, Fields]]  # → the object and the fields that it did not take


class Registration(msgspec.Struct, frozen=True):
    """A class under its name and version, with the way up from older versions."""

    name: str
    version: int
    cls: type
    upgrades: Mapping[int, Upgrade]
    form: TypeForm


_BY_NAME: dict[str, Registration] = {}
_BY_CLASS: dict[type, Registration] = {}


def registered(
    name: str, *, version: int = 1, upgrades: Mapping[int, Upgrade] | None = None
) -> Callable[[type[T]], type[T]]:
    """Let instances of the decorated class be kept as values, under `name` and `version`.

        @perdure.registered("shop.Cart", version=2, upgrades={1: lambda fields: {**fields, "coupon": None}})
        @dataclass
        class Cart: ...

    For dataclasses, for `msgspec.Struct` with `dict=True`, and for any class with `to_state()` and a classmethod
    `from_state(dict)`, which should ignore fields that it does not know. `upgrades[n]` takes the dict of fields of version n
    and returns that of version n + 1. Idempotent for the same class (a reloaded module replaces it). Writes nothing to any
    store. Raises `Invalid` for a name or class that is taken, a wrong version or upgrade, or a class that cannot be kept.
    """
    check_name(name, "name")
    _check_version(version)
    steps = dict(upgrades or {})
    _check_upgrades(version, steps)

    def register(cls: type[T]) -> type[T]:
        _check_free(name, cls)
        _BY_NAME[name] = _BY_CLASS[cls] = Registration(name, version, cls, steps, _form_of(cls))
        return cls

    return register


def is_registered(name: str) -> bool:
    """Say whether this process has a class under the name."""
    return name in _BY_NAME


def kept(value: object) -> KeptFields | None:
    """Show what rides along with an object that was read, if anything does."""
    return getattr(value, "__dict__", {}).get(_KEPT)


def carry(old: object, new: T) -> T:
    """Hand on to `new` what rides along with `old` (after a `replace`), and return it. Idempotent."""
    if (extra := kept(old)) is not None:
        new.__dict__[_KEPT] = extra
    return new


def dump(value: object) -> Unregistered | None:
    """Give name, version and fields of an object, with all that rides along; None if it is not registered.

    Raises `Invalid` when the class's own `to_state` fails.
    """
    registration = _BY_CLASS.get(type(value))
    if registration is None:
        return None
    fields = registration.form.fields_of(value)
    extra = kept(value)
    if extra is None:
        return Unregistered(registration.name, registration.version, fields)
    unknown = {name: item for name, item in extra.fields.items() if name not in fields}
    return Unregistered(registration.name, max(extra.version, registration.version), fields | unknown)


def load(stored: Unregistered) -> object:
    """Make the object from what was stored, upgraded to today's version; `stored` itself if it has no class.

    Raises only `Invalid`, also when an upgrade or the class's own code fails.
    """
    registration = _BY_NAME.get(stored.name)
    if registration is None:
        return stored
    fields = _upgraded(registration, stored)
    value, unknown = registration.form.build(fields)
    if unknown or stored.version > registration.version:
        value.__dict__[_KEPT] = KeptFields(max(stored.version, registration.version), unknown)
    return value


def _upgraded(registration: Registration, stored: Unregistered) -> Fields:
    fields = dict(stored.fields)
    for version in range(stored.version, registration.version):
        if (upgrade := registration.upgrades.get(version)) is None:
            raise Invalid(
                f"type {stored.name!r} was stored as version {stored.version}, this program has version "
                f"{registration.version}, and there is no upgrade from {version} to {version + 1}",
                hint=f"add it: @perdure.registered({stored.name!r}, …, upgrades={{{version}: …}})",
            )
        what = f"upgrade {version} → {version + 1} of type {stored.name!r}"
        fields = _as_fields(_ask(what, upgrade, fields), what)
    return fields


def _ask(what: str, function: Callable[..., Any], *args: object, **kwargs: object) -> Any:
    try:
        return function(*args, **kwargs)
    except Exception as error:  # the user's code may raise anything; the reader of a store gets one kind of error
        raise Invalid(f"{what} failed: {type(error).__name__}: {error}") from error


def _as_fields(state: object, what: str) -> Fields:
    if type(state) is not dict:
        raise Invalid(f"{what} returned {type(state).__name__}, expected a dict of fields")
    return dict(state)


# --- forms of classes -----------------------------------------------------------------------------


def _form_of(cls: type) -> TypeForm:
    if not getattr(cls, "__dictoffset__", 0):
        raise Invalid(
            f"{cls.__qualname__} has no __dict__, so fields of newer versions could not be kept",
            hint="a Struct needs dict=True; a dataclass must not use slots=True",
        )
    if hasattr(cls, "to_state") and hasattr(cls, "from_state"):
        return _state_form(cls)
    if dataclasses.is_dataclass(cls):
        return _dataclass_form(cls)
    if issubclass(cls, msgspec.Struct):
        return _struct_form(cls)
    raise Invalid(
        f"{cls.__qualname__} is no dataclass, no msgspec.Struct, and lacks to_state() or from_state()",
        hint="write @perdure.registered above @dataclass, or add the two methods",
    )


def _state_form(cls: Any) -> TypeForm:
    """A class with `to_state` and `from_state`: what `to_state` does not give back was unknown to it."""
    to_state, from_state = f"{cls.__qualname__}.to_state", f"{cls.__qualname__}.from_state"

    def fields_of(value: Any) -> Fields:
        state = _as_fields(_ask(to_state, value.to_state), to_state)
        state.pop(_KEPT, None)  # a to_state that gives its whole __dict__
        return state

    def build(fields: Fields) -> tuple[Any, Fields]:
        value = _ask(from_state, cls.from_state, dict(fields))
        if type(value) is not cls:
            raise Invalid(f"{from_state} returned {type(value).__name__}")
        state_fields = fields_of(value)
        return value, {name: item for name, item in fields.items() if name not in state_fields}

    return TypeForm(fields_of, build)


def _dataclass_form(cls: Any) -> TypeForm:
    fields = dataclasses.fields(cls)
    late = {field.name for field in fields if not field.init}
    parameters = inspect.signature(cls).parameters.values()
    required = {p.name for p in parameters if p.default is p.empty and p.kind not in {p.VAR_KEYWORD, p.VAR_POSITIONAL}}
    if strangers := sorted(required - {field.name for field in fields}):
        raise Invalid(
            f"{cls.__qualname__} cannot be made from its fields: it also requires {', '.join(strangers)}",
            hint="give it to_state() and from_state()",
        )
    return _named_form(cls, tuple(field.name for field in fields), required, late)


def _struct_form(cls: type[msgspec.Struct]) -> TypeForm:
    names, defaults = cls.__struct_fields__, cls.__struct_defaults__
    first = len(names) - len(defaults)  # defaults belong to the last fields
    no_default = {name for name, default in zip(names[first:], defaults, strict=True) if default is msgspec.NODEFAULT}
    return _named_form(cls, names, no_default | set(names[:first]), set())


def _named_form(cls: Any, names: tuple[str, ...], required: set[str], late: set[str]) -> TypeForm:
    """A class with declared fields; `late` ones are set after it is made (`field(init=False)`)."""

    def fields_of(value: Any) -> Fields:
        try:
            return {name: getattr(value, name) for name in names}
        except AttributeError as error:
            raise Invalid(f"a {cls.__qualname__} has no value for one of its fields: {error}") from None

    def build(fields: Fields) -> tuple[Any, Fields]:
        for name in names:
            if name in required and name not in fields:
                raise Invalid(f"missing, and {cls.__qualname__} has no default for it", path=f".{name}")
        arguments = {name: fields[name] for name in names if name in fields and name not in late}
        value = _ask(f"making a {cls.__qualname__}", cls, **arguments)
        for name in late & fields.keys():
            object.__setattr__(value, name, fields[name])  # also when it is frozen
        return value, {name: item for name, item in fields.items() if name not in names}

    return TypeForm(fields_of, build)


# --- what registration refuses --------------------------------------------------------------------


def _check_version(version: object) -> None:
    if type(version) is not int or version < 1:
        raise Invalid(f"a version is a whole number from 1, got {version!r}", path="version")


def _check_upgrades(version: int, upgrades: Mapping[int, Upgrade]) -> None:
    for start, upgrade in upgrades.items():
        if type(start) is not int or not 1 <= start < version:
            raise Invalid(f"upgrades start at versions 1 to {version - 1}, got {start!r}", path="upgrades")
        if not callable(upgrade):
            raise Invalid("an upgrade is a function from fields to fields", path=f"upgrades[{start}]")


def _check_free(name: str, cls: type) -> None:
    there = _BY_NAME.get(name)
    if there is not None and _place(there.cls) != _place(cls):
        raise Invalid(f"type name {name!r} is already taken by {_place(there.cls)}", path="name")
    there = _BY_CLASS.get(cls)
    if there is not None and there.name != name:
        raise Invalid(f"{_place(cls)} is already registered as {there.name!r}", path="name")


def _place(cls: type) -> str:
    """Where a class is defined; two classes from one place are one class in a module that was reloaded."""
    return f"{cls.__module__}.{cls.__qualname__}"


# --- types of the standard library with a text form -----------------------------------------------


class Scalar(NamedTuple):
    """A tag, and how its text is written and read."""

    tag: str
    write: Callable[[Any], str]
    read: Callable[[str], Any]


def read_scalar(scalar: Scalar, payload: Any) -> Any:
    """Read and write again: only the one form that we write ourselves is accepted. Raises `Invalid`."""
    try:
        if type(payload) is str and scalar.write(value := scalar.read(payload)) == payload:
            return value
    except (ValueError, ArithmeticError, Invalid):
        pass
    raise Invalid(f"malformed payload of tag {scalar.tag!r}")


def _write_bytes(value: bytes) -> str:
    return binascii.b2a_base64(value, newline=False).decode()


def _write_datetime(value: datetime) -> str:
    if value.utcoffset() is None:
        raise Invalid("a datetime without an offset names no instant", hint="use datetime.now(timezone.utc)")
    return value.isoformat(timespec="microseconds")


def _read_datetime(payload: str) -> datetime:
    return datetime.fromisoformat(payload[:26]).replace(tzinfo=_read_offset(payload[26:]))


def _read_offset(text: str) -> timezone | None:
    # fromisoformat with the offset in it takes one of less than a second for UTC.
    if not text:
        return None
    at = time.fromisoformat(text[1:])
    size = timedelta(hours=at.hour, minutes=at.minute, seconds=at.second, microseconds=at.microsecond)
    return timezone(-size if text[0] == "-" else size)


def _write_decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise Invalid(f"Decimal {value} is not a number that can be kept", hint="use None or text")
    return str(value).upper()  # the decimal context of the thread may ask for a small "e"


def _read_int(payload: str) -> int:
    value = int(payload, 16)  # linear, unlike decimal digits
    if INT_MIN <= value <= INT_MAX:
        raise ValueError("fits into 64 bits")
    return value


def _write_time(value: time) -> str:
    if value.tzinfo is not None and value.utcoffset() is None:
        raise Invalid("the offset of this time depends on the date", hint="keep a datetime, or drop the tzinfo")
    return value.isoformat(timespec="microseconds")


def _read_time(payload: str) -> time:
    return time.fromisoformat(payload[:15]).replace(tzinfo=_read_offset(payload[15:]))


def _write_timedelta(value: timedelta) -> str:
    seconds, microseconds = divmod(abs(value) // timedelta(microseconds=1), 1_000_000)
    return f"{'-' if value < timedelta() else ''}{seconds}.{microseconds:06}"


def _read_timedelta(payload: str) -> timedelta:
    return timedelta(microseconds=int(payload.replace(".", "")))


SCALAR_OF: dict[type, Scalar] = {
    bytes: Scalar("bytes", _write_bytes, binascii.a2b_base64),
    date: Scalar("date", date.isoformat, date.fromisoformat),
    datetime: Scalar("datetime", _write_datetime, _read_datetime),
    Decimal: Scalar("decimal", _write_decimal, Decimal),
    int: Scalar("int", "{:x}".format, _read_int),  # those past 64 bits
    time: Scalar("time", _write_time, _read_time),
    timedelta: Scalar("timedelta", _write_timedelta, _read_timedelta),
    UUID: Scalar("uuid", str, UUID),
}
SCALAR_BY_TAG = {scalar.tag: scalar for scalar in SCALAR_OF.values()}

"""Answers of a server as the records of the library: the other direction of `doors/http/wire`. Callers: `core`.

A field of any type holds a value of the user, in the form of the log. Keeps P10: nothing in an answer is code, and an answer
that does not fit its record is refused.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from perdure import errors
from perdure.errors import Damaged, Error, Unavailable
from perdure.model.instants import instant_us
from perdure.model.records.emitted import EventContent, EventRecord
from perdure.model.refs import Ref
from perdure.model.values import from_plain
from perdure.planes.memory.search import Results
from perdure.planes.reading.paging import DamagedRow, Page


class Visited(msgspec.Struct, frozen=True):
    """The server that answers, and as whom it takes this token."""

    tenant: str
    actor: str
    role: str
    store: str
    epoch: int
    version: str


Reads = Callable[[Any], Any]

DAMAGED = "Perdure-Damaged"  # the rows that a plain list left out
CLASSES: dict[str, type[Error]] = {
    name: found for name, found in vars(errors).items() if inspect.isclass(found) and issubclass(found, Error)
}
_PREFIXES = ("body.", "query.", "path.")


def read_answer(kind: Any, data: bytes, damaged: str | None = None) -> Any:
    """The answer of a request. damaged: what its header says of the rows that a plain list left out.

    Damaged for what is no such record.
    """
    try:
        found = reader_of(kind)(msgspec.json.decode(data))
        if isinstance(found, Results):
            found.damaged = msgspec.json.decode(damaged or "[]", type=tuple[DamagedRow, ...])
        return found
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError) as error:
        hint = "is there another program behind this address, or a server of another version?"
        raise Damaged(f"the answer is not what was expected: {error}"[:300], path="answer", hint=hint) from error


def read_problem(status: int, data: bytes) -> Error:
    """The error that a problem (RFC 9457) tells of: of the same class, with its path and its way out."""
    try:
        told = msgspec.json.decode(data)
        kind = CLASSES[told["title"]]
        made = kind(str(told["detail"]), path=_own_path(told.get("path", "")), hint=str(told.get("hint", "")))
        made.facts |= told.get("facts", {})
        made.facts |= {name: from_plain(value) for name, value in told.get("values", {}).items()}
    except (msgspec.MsgspecError, Error, AttributeError, KeyError, TypeError):
        said = data[:200].decode("utf-8", "replace").strip()
        made = Unavailable(f"the server answered {status}: {said}", path="store", hint="is this a `perdure serve`?")
    return made


def _own_path(path: str) -> str:
    """The place in the arguments of a verb: they are the body or the query of its request."""
    return next((path[len(each) :] for each in _PREFIXES if path.startswith(each)), path)


# -- records by their types ------------------------------------------------------------------------------------------


@cache
def reader_of(hint: Any) -> Reads:  # noqa: PLR0911 - one line a kind
    """The function that reads what a type says."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any or hint is object or Any in args:
        return _read_list if origin is tuple else from_plain
    if hint is EventRecord:
        return read_event
    if origin is Page:
        return _pages_of(reader_of(args[0]))
    if origin in (Union, UnionType):
        return _choice_of(hint, [each for each in args if each is not type(None)])
    if origin in (list, tuple, Results):
        return _all_of(reader_of(args[0]), origin)
    if origin is dict:
        return _dict_of(reader_of(args[1]))
    if inspect.isclass(hint) and issubclass(hint, msgspec.Struct) and hint.__struct_config__.tag is None:
        return _struct_of(hint)
    return lambda plain: msgspec.convert(plain, hint, strict=False)


def _read_list(plain: Any) -> Any:
    return tuple(map(from_plain, plain)) if isinstance(plain, list) else from_plain(plain)


def _pages_of(read: Reads) -> Reads:
    def page(plain: Any) -> Any:
        damaged = tuple(msgspec.convert(each, DamagedRow) for each in plain["damaged"])
        return Page(map(read, plain["items"]), plain["next"], damaged)

    return page


def _choice_of(hint: Any, members: list[Any]) -> Reads:
    if len(members) > 1:
        return lambda plain: msgspec.convert(plain, hint, strict=False)
    read = reader_of(members[0])
    return lambda plain: None if plain is None else read(plain)


def _all_of(read: Reads, made: Callable[..., Any]) -> Reads:
    return lambda plain: made(read(each) for each in plain)


def _dict_of(read: Reads) -> Reads:
    return lambda plain: {name: read(each) for name, each in plain.items()}


def _struct_of(kind: type[msgspec.Struct]) -> Reads:
    hints = get_type_hints(kind)
    if "ref" in hints:
        hints["ref"] = Ref | None  # of turns and summaries it is declared as anything
    fields = [(each.name, each.encode_name, reader_of(hints[each.name])) for each in msgspec.structs.fields(kind)]
    if kind.__struct_config__.array_like:
        return lambda plain: kind(*(read(each) for (_, _, read), each in zip(fields, plain, strict=False)))

    def struct(plain: Any) -> Any:
        return kind(**{name: read(plain[shown]) for name, shown, read in fields if shown in plain})

    return struct


def read_event(plain: Any) -> EventRecord:
    """An event. All that it says came with it."""
    said = EventContent(
        from_plain(plain["data"]), tuple(plain["about"]), tuple(Ref(*each) for each in plain["refs"]), plain["body"]
    )
    return EventRecord(
        seq=plain["seq"], kind=plain["kind"], table=plain["table"], actor=plain["actor"],
        _at_us=instant_us(plain["at"], 0), session=plain["session"], uid=plain["uid"], emptied=plain["emptied"],
        _stored=said, _read=lambda record: record._stored, stream_kind=plain["stream_kind"],
    )  # fmt: skip

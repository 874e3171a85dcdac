"""Reading columns back: what stands in a row may have been altered, so every reading is checked (P6, P15).

Planes turn columns into records with these and nothing else. Data that we cannot have written is Damaged, with the path of where
it stands; a foreign exception never gets out.
"""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from perdure.errors import Damaged
from perdure.model.instants import to_datetime

E = TypeVar("E", bound=enum.StrEnum)

_decode_names = msgspec.json.Decoder(tuple[str, ...]).decode
_decode_numbers = msgspec.json.Decoder(tuple[int, ...]).decode


def stored_names(column: str, path: str) -> tuple[str, ...]:
    """A JSON column that lists names."""
    if column == "[]":
        return ()
    try:
        return _decode_names(column)
    except (msgspec.DecodeError, TypeError, UnicodeError) as error:
        raise Damaged(f"the stored data is no list of names: {error}", path=path) from None


def stored_numbers(column: str, path: str) -> tuple[int, ...]:
    """A JSON column that lists numbers."""
    if column == "[]":
        return ()
    try:
        return _decode_numbers(column)
    except (msgspec.DecodeError, TypeError, UnicodeError) as error:
        raise Damaged(f"the stored data is no list of numbers: {error}", path=path) from None


def stored_address(column: str, path: str) -> bytes:
    """A column that names a blob in hexadecimal digits."""
    try:
        return bytes.fromhex(column)
    except (ValueError, TypeError):
        raise Damaged("the stored data is no address", path=path) from None


def stored_instant(column: int, path: str) -> datetime:
    """A column that holds an instant."""
    try:
        return to_datetime(column)
    except TypeError:
        raise Damaged("the stored data is no instant", path=path) from None


def stored_instant_or_none(column: int | None, path: str) -> datetime | None:
    """An instant that may be empty."""
    return None if column is None else stored_instant(column, path)


def stored_state(states: type[E], column: str, path: str) -> E:
    """A column that holds one of a few words."""
    try:
        return states(column)
    except ValueError:
        raise Damaged(f"the stored data is no {states.__name__.lower()}", path=path) from None


def stored_fields(doc: Any, path: str) -> dict[str, Any]:
    """A document that is a mapping, or was left out."""
    if doc is None:
        return {}
    if type(doc) is not dict:
        raise Damaged(f"the document is a {type(doc).__name__}, not fields by name", path=path)
    return doc


def stored_text(doc: dict[str, Any], name: str, path: str) -> str | None:
    """A field of a document that is a text, or was left out."""
    text = doc.get(name)
    if text is not None and type(text) is not str:
        raise Damaged(f"{name} is a {type(text).__name__}, not a text", path=path)
    return text


def stored_as(kind: Any, tree: Any, what: str, path: str) -> Any:
    """Part of a document that has a form of its own. Damaged when it has another; `what` says what was expected."""
    try:
        return msgspec.convert(tree, kind)
    except msgspec.ValidationError as error:
        raise Damaged(f"the stored data is no {what}: {error}", path=path) from None


def stored_versions(column: str | None, path: str, kind: Any = dict[str, str]) -> Any:
    """A JSON column of pins: versions by name, or (kind) a change of them."""
    try:
        return {} if column is None else msgspec.json.decode(column, type=kind)
    except (msgspec.DecodeError, TypeError, UnicodeError) as error:
        raise Damaged(f"the stored data is no record of versions: {error}", path=path) from None

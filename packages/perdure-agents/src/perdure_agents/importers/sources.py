"""Reading other people's text files: JSON lines and JSON documents, in bounded pieces, with whatever is broken in them.

Every valid record is given; what is not one is a remark with its line. Torn lines, two records on one line, a record behind
a torn one, zeros of a power loss, byte order marks, UTF-16 and bytes that are no UTF-8 are known. Callers: the formats.
Keeps P10, P15.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from perdure.errors import Invalid, TooLarge, Unavailable
from perdure.model.limits import VALUE_MAX_BYTES
from perdure_agents.importers.items import ImportedRepair, Item, LeftOut, Remark

LINE_MAX_BYTES = VALUE_MAX_BYTES
DOCUMENT_MAX_BYTES = 4 * VALUE_MAX_BYTES
HEAD_BYTES = 1 << 18
TRIES = 32  # places of a broken line at which a record is looked for
_SKIP_BYTES = 1 << 20
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_TOO_DEEP = "nested too deep"
_BLANK = re.compile(r"\s*")
_BETWEEN = re.compile(r"[\s,]*")

Looks = Callable[[dict[str, Any]], bool]


class Record(NamedTuple):
    """One record of a file and where it stands."""

    data: dict[str, Any]
    place: str
    line: int


class Source(NamedTuple):
    """A file to import: where it is, what people call it (below what they named), and whether they named the file itself."""

    path: Path
    name: str
    is_named: bool = False


def records(source: Source, looks_right: Looks) -> Iterator[Record | LeftOut | ImportedRepair]:
    """The records of a file of JSON lines, in order. looks_right: whether an object can be one, asked where lines are broken."""
    for number, line in _lines(source.path):
        place = f"{source.name}:{number}"
        if line is None:
            yield LeftOut(place, f"longer than {LINE_MAX_BYTES} bytes")
            continue
        stripped = line.strip(b" \t\r\n\0\xef\xbb\xbf")
        if stripped:
            yield from _parsed(stripped, place, number, looks_right)
        elif b"\0" in line:
            yield LeftOut(place, "zeros, as a power loss leaves them")


def each_record(
    source: Source, looks_right: Looks, read: Callable[[Record], Iterator[Item | Remark]]
) -> Iterator[Item | Remark]:
    """The result of a function for each of the records, and the remarks."""
    for record in records(source, looks_right):
        yield from read(record) if isinstance(record, Record) else [record]


def _lines(path: Path) -> Iterator[tuple[int, bytes | None]]:
    """Numbered lines; None for one that is too long."""
    with path.open("rb") as file:
        if file.read(2) in _UTF16:
            yield from _utf16_lines(path)
            return
        file.seek(0)
        number = 0
        while line := file.readline(LINE_MAX_BYTES + 1):
            number += 1
            fits = len(line) <= LINE_MAX_BYTES
            while not fits and line and not line.endswith(b"\n"):
                line = file.readline(_SKIP_BYTES)
            yield number, line if fits else None


def _utf16_lines(path: Path) -> Iterator[tuple[int, bytes | None]]:
    with path.open(encoding="utf-16", errors="replace") as file:
        number = 0
        while line := file.readline(LINE_MAX_BYTES):
            number += 1
            yield number, line.encode("utf-8", "replace")


def _parsed(line: bytes, place: str, number: int, looks_right: Looks) -> Iterator[Record | LeftOut | ImportedRepair]:
    try:
        data = msgspec.json.decode(line)
    except RecursionError:
        yield LeftOut(place, _TOO_DEEP)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        yield from _salvaged(line, place, number, looks_right)
    else:
        yield Record(data, place, number) if isinstance(data, dict) else LeftOut(place, "no JSON object")


def _salvaged(line: bytes, place: str, number: int, looks_right: Looks) -> Iterator[Record | LeftOut | ImportedRepair]:
    """The whole records on a line that is not whole: records that stand one behind the other, or behind a torn one."""
    text = line.decode("utf-8", "replace")
    if "\ufffd" in text and b"\xef\xbf\xbd" not in line:
        yield ImportedRepair(place, "bytes that are no UTF-8 were replaced")
    at, torn = 0, ""
    for _ in range(TRIES):
        data, after = _object_at(text, at)
        behind = _past(_BLANK, text, after)
        if data is not None and (at == 0 or (looks_right(data) and text[behind : behind + 1] in ("", "{"))):
            yield Record(data, place, number)
            at = behind
        else:
            torn = torn or f"broken JSON at character {at + 1}: {text[at : at + 60]!r}"
            at = text.find("{", at + 1)
        if not 0 <= at < len(text):
            break
    if torn:
        yield LeftOut(place, torn)


def _past(gap: re.Pattern[str], text: str, at: int) -> int:
    """Where the text continues behind a gap. No piece of it is copied: it may be long."""
    match = gap.match(text, at)
    return match.end() if match else at


def _object_at(text: str, at: int) -> tuple[dict[str, Any] | None, int]:
    try:
        data, after = LENIENT.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None, at
    return (data, after) if isinstance(data, dict) else (None, at)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


# Not strict: control characters in text are let pass.
LENIENT = json.JSONDecoder(strict=False, parse_constant=_refuse_constant)


# -- whole documents ---------------------------------------------------------------------------------------------


def text_of(path: Path) -> str:
    """A whole file as text, whatever its encoding. TooLarge past the limit."""
    if path.stat().st_size > DOCUMENT_MAX_BYTES:
        raise TooLarge(f"more than {DOCUMENT_MAX_BYTES} bytes, which is the most that is read whole", path=str(path))
    data = path.read_bytes()
    if data[:2] in _UTF16:
        return data.decode("utf-16", "replace")
    return data.decode("utf-8-sig", "replace").strip("\0")


def document(path: Path) -> Any:
    """A whole file as one JSON document. Invalid if it is none."""
    return parsed_document(text_of(path), path)


def parsed_document(text: str, path: Path) -> Any:
    """A document, from its text. Texts that only a strict reader refuses (half an emoji, a control character) pass: see
    `text_repair`.
    """
    try:
        return msgspec.json.decode(text.encode("utf-8", "replace"))
    except RecursionError:
        raise TooLarge(_TOO_DEEP, path=str(path)) from None
    except msgspec.MsgspecError as error:
        try:
            return LENIENT.decode(text)
        except (ValueError, RecursionError):
            raise Invalid(f"not JSON: {error}", path=str(path)) from None


class Torn(NamedTuple):
    """The whole part of a torn document: the fields before its list, the list's elements, and where it breaks off."""

    fields: dict[str, Any]
    elements: list[Any]
    why: str


def torn_list(text: str, names: tuple[str, ...]) -> Torn | None:
    """The whole elements of the list that a broken document is, or has under one of these names; None if there is none."""
    begin = re.match(r"\s*\[", text) or re.search(rf'"(?:{"|".join(names)})"\s*:\s*\[', text)
    if begin is None:
        return None
    fields = _object_at(text[: begin.start()].rstrip() + '"":0}', 0)[0] or {}
    elements: list[Any] = []
    at = begin.end()
    while (at := _past(_BETWEEN, text, at)) < len(text) and text[at] != "]":
        try:
            element, at = LENIENT.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        elements.append(element)
    fields.pop("", None)
    return Torn(fields, elements, f"broken JSON at character {at + 1}: {text[at : at + 60]!r}")


class FileHead(NamedTuple):
    """The beginning of a file, for recognising it: its first bytes, and the objects on its first lines."""

    data: bytes
    records: list[dict[str, Any]]


def head_of(path: Path) -> FileHead:
    """Read the beginning. Unavailable if it cannot be read."""
    try:
        with path.open("rb") as file:
            data = file.read(HEAD_BYTES)
    except OSError as error:
        raise Unavailable(f"cannot be read: {error.strerror}", path=str(path)) from error
    text = data.decode("utf-16" if data[:2] in _UTF16 else "utf-8-sig", "replace")
    lines = [line.strip() for line in text.split("\n", 50)[:50]]
    entries = [_object_at(line, 0)[0] for line in lines if line[:1] == "{"]
    return FileHead(data, [entry for entry in entries if entry is not None])

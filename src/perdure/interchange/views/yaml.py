"""A page as YAML: a subset of it that is written and read here, so that the core needs no library for it. Pure.

Words are plain, texts stand between double quotes or as a block (`|-`), values are JSON, which is YAML. Read strictly: two
levels, no anchors, no tags, no other blocks; a person may write a text without quotes if it begins with a letter and is
nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from perdure.interchange.views.escapes import quoted, unquoted
from perdure.interchange.views.view import ABOUT, SECTIONS, Holds, PageThing, SessionPage, ordered, wrong

_KEY = re.compile(r"([a-z]+):(?: (.*))?")
_WORD = re.compile(r"[\w.:+-]+", re.ASCII)
_PLAIN = re.compile(r"[^\W\d_].*")
_NOT_TEXT = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_BLOCK = "|-"
Lines = list[tuple[int, str]]


# -- writing ---------------------------------------------------------------------------------------------------------


def lines_of(view: SessionPage) -> list[str]:
    """The page, line by line."""
    page = [line for name, text in ordered(view.about, ABOUT) for line in _field(name, text, ABOUT[name], "")]
    for name, section in SECTIONS.items():
        things = view.things.get(name, [])
        page.append(f"{name}:" if things else f"{name}: []")
        for thing in things:
            page += _thing(thing.fields, section.fields)
    return page


def _thing(fields: dict[str, str], known: dict[str, Holds]) -> list[str]:
    lines = [line for name, text in ordered(fields, known) for line in _field(name, text, known[name], "    ")]
    return [f"  - {lines[0][4:]}", *lines[1:]]


def _field(name: str, text: str, holds: Holds, indent: str) -> list[str]:
    if holds is not Holds.TEXT:
        return [f"{indent}{name}: {text}"]
    if "\n" in text and _fits_a_block(text):
        return [f"{indent}{name}: {_BLOCK}", *(f"{indent}  {line}".rstrip(" ") for line in text.split("\n"))]
    return [f"{indent}{name}: {quoted(text)}"]


def _fits_a_block(text: str) -> bool:
    """Whether nothing of it is lost there: blanks at the ends of lines, or of the text, and what cannot be seen."""
    lines = text.split("\n")
    whole = all(line.isprintable() and line == line.rstrip(" ") for line in lines)
    return whole and bool(lines[0]) and bool(lines[-1]) and not lines[0].startswith(" ")


# -- reading ---------------------------------------------------------------------------------------------------------


class _Pages:
    """The lines that are left, and a look at the next one."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._at = 0

    def __iter__(self) -> Iterator[tuple[int, str]]:
        while self._at < len(self._lines):
            self._at += 1
            number, line = self._lines[self._at - 1]
            if line.strip(" ") and not line.startswith("#"):
                yield number, line.rstrip(" ")

    def block(self, indent: str) -> str:
        """The lines of a block, as a text."""
        found: list[str] = []
        while self._at < len(self._lines):
            line = self._lines[self._at][1].rstrip(" ")
            if line and not line.startswith(indent):
                break
            found.append(line[len(indent) :])
            self._at += 1
        return "\n".join(found).rstrip("\n")


def read_lines(lines: Lines) -> tuple[dict[str, str], dict[str, list[PageThing]]]:
    """Read a page's statements about the session, and the things on it. Raises Invalid with the line of what cannot be read."""
    about: dict[str, str] = {}
    things: dict[str, list[PageThing]] = {}
    section = ""
    pages = _Pages(lines)
    for number, line in pages:
        if not line.startswith(" "):
            section = _top(pages, about, things, number, line)
        elif line.startswith("  - ") and section:
            fields: dict[str, str] = {}
            things[section].append(PageThing(fields, number))
            _put(pages, fields, SECTIONS[section].fields, number, line[4:], "      ")
        elif line.startswith("    ") and section and things[section]:
            _put(pages, things[section][-1].fields, SECTIONS[section].fields, number, line[4:], "      ")
        else:
            raise wrong(
                number, "this line stands under nothing", "things begin with two blanks and -, fields with four"
            )
    return about, {name: things.get(name, []) for name in SECTIONS}


def _top(pages: _Pages, about: dict[str, str], things: dict[str, list[PageThing]], number: int, line: str) -> str:
    """A line at the margin: the section that it begins, or nothing when it is a field of the session."""
    name = line.removesuffix(" []").removesuffix(":")
    if name not in SECTIONS:
        _put(pages, about, ABOUT, number, line, "  ")
        return ""
    if name in things:
        raise wrong(number, f"{name} stands here twice")
    things[name] = []
    return name


def _put(pages: _Pages, fields: dict[str, str], known: dict[str, Holds], number: int, text: str, indent: str) -> None:
    found = _KEY.fullmatch(text)
    if found is None or found[1] not in known:
        raise wrong(
            number, "this line cannot be read", f"a field stands as in note: text; there are {', '.join(known)}"
        )
    name, said = found[1], (found[2] or "").strip(" ")
    if name in fields:
        raise wrong(number, f"{name} stands here twice")
    if known[name] is Holds.TEXT:
        fields[name] = pages.block(indent) if said == _BLOCK else _text(number, said)
    elif known[name] is Holds.WORD and not _WORD.fullmatch(said):
        raise wrong(number, f"{name} is one word or number")
    else:
        fields[name] = said


def _text(number: int, said: str) -> str:
    if said.startswith('"'):
        return unquoted(said, number)
    odd = said.lower() in _NOT_TEXT or ": " in said or " #" in said or said.endswith(":")
    if odd or not _PLAIN.fullmatch(said):
        raise wrong(number, "this may mean something else in YAML", 'put the text in double quotes: "…"')
    return said

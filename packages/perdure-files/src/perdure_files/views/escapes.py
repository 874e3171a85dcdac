"""Text of any kind on one line of a page, and back. Pure. Keeps P10: what somebody stored is no markup and moves no cursor.

`\\` is written twice; what cannot be seen (controls, direction marks, odd spaces) as `\\u{9}`; so are blanks at both ends,
which editors take away. Before punctuation a backslash is nothing but an escape, as in Markdown; before anything else it is
itself, so that a person may write C:\\new.
"""

from __future__ import annotations

import json
import re
from typing import Any

from perdure_files.views.view import wrong

_JOINERS = "\u200c\u200d"  # scripts and emoji need them inside words
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]{0,6})\}|([!-/:-@\[-`{-~]))")
_QUOTED = re.compile(r'\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(["\\/bfnrt]))|(["\\])')
_SHORT = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def _is_visible(character: str) -> bool:
    return character.isprintable() or character in _JOINERS


def _visible(character: str) -> str:
    return character if _is_visible(character) else _code(character)


def _code(character: str) -> str:
    return f"\\u{{{ord(character):x}}}"


def escaped(text: str, special: str = "") -> str:
    """A text on one line. special: ASCII punctuation that means something where it stands."""
    parts = [f"\\{char}" if char == "\\" or char in special else _visible(char) for char in text]
    for end in (0, -1):
        if parts and parts[end] == " ":
            parts[end] = _code(" ")
    return "".join(parts)


def unescaped(text: str, line: int) -> str:
    """The text that a line stands for. Raises Invalid for an escape of what is no character."""

    def one(match: re.Match[str]) -> str:
        return match[2] if match[1] is None else "" if not match[1] else _character(int(match[1], 16), line)

    return _ESCAPE.sub(one, text.strip(" "))


def _character(number: int, line: int) -> str:
    if not 0 < number <= 0x10FFFF or 0xD800 <= number < 0xE000:
        raise wrong(line, f"there is no character {number:x}")
    return chr(number)


def for_markdown(text: str, special: str = "") -> str:
    """On a line of Markdown: no tag, no comment and no image of theirs is one on our page."""
    return escaped(text, "<" + special).replace("![", "!\\[")


def quoted(text: str) -> str:
    """Between double quotes, with the escapes of JSON."""
    return '"' + "".join(_in_quotes(char) for char in text) + '"'


def _in_quotes(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if _is_visible(char):
        return char
    short = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(char)
    return short or (f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}")


def unquoted(text: str, line: int) -> str:
    """The text between double quotes. Raises Invalid for anything that `quoted` or JSON could not have written."""
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        raise wrong(line, "a text that begins with a quotation mark ends with one")

    def one(match: re.Match[str]) -> str:
        if match[4]:
            raise wrong(line, f"a lone {match[4]} in a quoted text", 'write \\" and \\\\')
        code = match[1] or match[2]
        return _character(int(code, 16), line) if code else _SHORT[match[3]]

    return _QUOTED.sub(one, text[1:-1])


def json_line(tree: Any) -> str:
    """JSON on one line, in which everything can be seen, and which is no markup."""
    text = json.dumps(tree, ensure_ascii=False).replace("<", "\\u003c")
    return "".join(char if _is_visible(char) else json.dumps(char)[1:-1] for char in text)

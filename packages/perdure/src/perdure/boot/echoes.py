"""Packs that come back: a host's transcript holds what a hook or the tool `boot` gave to its model.

Kept whole, each boot would quote the one before it, and a search would find every rule once for each context. So a pack in
a text is kept by name: `[boot of session "issue-42", event 117]`. A pack that was cut stays as it is, with all that follows it:
what comes from outside is read once, from its beginning to its end. Pure.
"""

from __future__ import annotations

import json
import re
from typing import Any

from perdure.boot.items import OPENED

MARK = "# Boot of session "
_INTRO = re.compile(rf'{MARK}("(?:[^"\\\n]|\\.)*")\nStored before, for you to continue from\.[^\n]*')
_LINE = re.compile(r"\n([^\n]*)")
_POSITION = re.compile(r"Event (\d+) of \d{4}-.*\.")
_JSON_TEXT = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)


def without_packs(value: Any) -> Any:
    """A value with every pack in its texts kept by name, also inside a text that is JSON."""
    match value:
        case str():
            return _JSON_TEXT.sub(_inside_json, _with_names(value)) if MARK in value else value
        case list():
            return [without_packs(item) for item in value]
        case dict():
            return {key: without_packs(item) for key, item in value.items()}
        case _:
            return value


def _inside_json(literal: re.Match[str]) -> str:
    """A text of JSON with its packs kept by name; one without any, to the letter."""
    try:
        text = json.loads(literal[0]) if MARK in literal[0] else ""
    except ValueError:
        return literal[0]
    shorter = _with_names(text)
    return literal[0] if shorter == text else json.dumps(shorter, ensure_ascii=False)


def _with_names(text: str) -> str:
    """A text with a name in the place of each of its packs."""
    shorter, place = "", 0
    while (intro := _INTRO.search(text, place)) and (last := _last_line(text, intro.end())):
        position, end = last
        shorter += f"{text[place : intro.start()]}[boot of session {intro[1]}, event {position}]"
        place = end
    return shorter + text[place:]


def _last_line(text: str, place: int) -> tuple[str, int] | None:
    """The event that a pack names in its last line, outside of all blocks, and where that line ends. None if it was cut."""
    row, positioned = "", False
    for line in _LINE.finditer(text, place):
        text_of_line = line[1]
        if row:
            row = "" if text_of_line == row else row
        elif opened := OPENED.fullmatch(text_of_line):
            row = opened[1]
        elif positioned and (event := _POSITION.match(text_of_line)):
            return event[1], line.start(1) + event.end()
        else:
            positioned = positioned or text_of_line == "## Position"
    return None

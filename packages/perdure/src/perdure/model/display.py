"""Text from rows as it may be shown: whatever somebody stored, a terminal or a log line gets no command from
it (P10).

Callers: the command line and the log formats. JSON needs none of this; it escapes by itself.
"""

from __future__ import annotations

import logging
import traceback


def visible(text: object) -> str:
    """One line in which control, format and other unprintable characters stand as escapes."""
    line = str(text)
    return line if line.isprintable() else "".join(map(_escaped, line))


def visible_lines(text: object) -> list[str]:
    """Prose of several lines: line breaks and tabs are kept, the rest is escaped."""
    return [visible(line.expandtabs(4)) for line in str(text).replace("\r\n", "\n").split("\n")]


def shortened(text: object, max_chars: int) -> str:
    """The beginning of a text on one line, with a mark when there is more. Looks at no more than it shows."""
    full_text = str(text)
    line = visible(" ".join(full_text[: 4 * max_chars].split()))
    more = len(full_text) > 4 * max_chars
    return f"{line[: max_chars - 1]}…" if more or len(line) > max_chars else line


def whence(error: BaseException, log: logging.Logger, name: str) -> str:
    """Where something was raised, and its class. Its message is content, which stays out of logs below the level debug: the
    store has it under a name, and the line says how to see it.
    """
    where = traceback.format_tb(error.__traceback__)
    if log.isEnabledFor(logging.DEBUG):
        return "".join([*where, *traceback.format_exception_only(error)]).rstrip()
    return "".join([*where, type(error).__name__, f" (its message: perdure show {name}, or --log-level debug)"])


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")

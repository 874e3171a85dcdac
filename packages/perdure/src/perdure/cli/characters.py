"""Output that cannot show every character: PYTHONIOENCODING=latin-1, an old locale, a file name that is no text.

Our own signs get a plain one; everything else is escaped as Python writes it. Nothing ever fails because of a character.
"""

from __future__ import annotations

import codecs
import io
from typing import Any

ERRORS = "perdure.plain"
PLAIN = {
    "✓": "ok", "✗": "x", "…": "...", "→": "->", "–": "-", "—": "-", "·": "-", "≤": "<=", "≥": ">=", "×": "x", "━": "-",
    "─": "-", "│": "|", "•": "*", "‘": "'", "’": "'", "“": '"', "”": '"',
}  # fmt: skip


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(PLAIN.get(each) or each.encode("ascii", "backslashreplace").decode() for each in text), error.end


codecs.register_error(ERRORS, _plain)


def show_all(stream: Any) -> None:
    """Let a stream take every character."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors=ERRORS)

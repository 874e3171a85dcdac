"""Limits on all external input, in one place (P15).

Code that accepts input calls the checkers here; nobody else compares lengths.
"""

from __future__ import annotations

import enum
from reprlib import repr as brief
from typing import TypeVar

from perdure.errors import Invalid, TooLarge

NAME_MAX_CHARS = 200  # names of sessions, scopes, values, tasks, artifacts, actors, labels, kinds
KEY_MAX_CHARS = 200  # client keys
TEXT_MAX_CHARS = 100_000  # titles, goals, reasons: short prose that lives in a body
VALUE_MAX_BYTES = 64 * 1024 * 1024  # one encoded value; larger things are artifacts
VALUE_MAX_DEPTH = 100  # nesting of one value
INT_SHOWN_MAX_BITS = (
    14_000  # Python writes at most 4,300 decimal digits: longer ones are shown in hex, and refused as new
)
INLINE_MAX_BYTES = 8 * 1024  # an encoded value above this becomes a blob
BLOB_IN_DATABASE_MAX_BYTES = 64 * 1024  # a blob above this goes to the artifact store
PAGE_MAX_ROWS = 1_000  # rows of one page
LABELS_MAX = 64  # labels or tags of one thing
LEASE_MIN_SECONDS, LEASE_MAX_SECONDS = 1, 86_400
LEASE_TTL_SECONDS = 60  # a heartbeat that is older than this has lapsed, unless the open store says otherwise
KEEP_SECONDS = 600.0  # how long a result is kept that cannot be recorded, unless the open store says otherwise
CHECK_SECONDS = 0.05  # how often a thread that waits looks whether it still should
REFS_MAX = 256  # references of one event

E = TypeVar("E", bound=enum.StrEnum)


def check_text(value: object, path: str, max_chars: int = TEXT_MAX_CHARS) -> str:
    """Accept short prose: a string without NUL or lone surrogates, within the limit."""
    if type(value) is not str:
        raise Invalid(f"expected text, got {type(value).__name__}", path=path)
    if len(value) > max_chars:
        raise TooLarge(f"{len(value)} characters, at most {max_chars} are kept", path=path)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise Invalid(f"lone surrogate at character {error.start}", path=path) from None
    if "\0" in value:
        raise Invalid(f"NUL at character {value.index(chr(0))}", path=path)
    return value


def check_name(value: object, path: str, max_chars: int = NAME_MAX_CHARS) -> str:
    """Accept a name: text that is not empty. Any printable characters may occur in it; it is only ever data."""
    name = check_text(value, path, max_chars)
    if not name:
        raise Invalid("a name cannot be empty", path=path)
    if not name.isprintable():
        bad = next(i for i, c in enumerate(name) if not c.isprintable())
        raise Invalid(f"control or unprintable character at {bad}", path=path)
    return name


def check_question(value: object, path: str) -> str:
    """Accept what a person is asked: text that says something."""
    question = check_text(value, path)
    if not question.strip():
        raise Invalid("a question cannot be empty", path=path)
    return question


def check_one_of(words: type[E], value: object, path: str) -> E:
    """Accept one of a few words: a state, a kind."""
    try:
        return words(value)
    except ValueError:
        raise Invalid(f"expected one of {', '.join(words)}; got {brief(value)}", path=path) from None


def check_page(limit: int, path: str = "limit") -> int:
    """Accept the size of a page. One that is too large is refused: cut in silence it would read as all there is."""
    if type(limit) is not int or limit < 1:
        raise Invalid(f"expected a positive number of rows, got {brief(limit)}", path=path)
    if limit > PAGE_MAX_ROWS:
        hint = "perdure.every(listing, …) iterates over all of them; a page's `next` goes into `after`"
        raise Invalid(f"a page has at most {PAGE_MAX_ROWS:,} rows, not {limit:,}", path=path, hint=hint)
    return limit

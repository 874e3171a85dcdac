"""Identifiers of a text: what a summary must not lose, because nobody can guess it back.

    identifiers("getUserName fails in src/auth.py since v1.2.3, see #42")
    ['getUserName', 'src/auth.py', 'v1.2.3', '#42']

Addresses, paths, file names, versions, hashes, numbers of issues, and names of code (camelCase, snake_case). Ordinary words are
none. Pure and linear; callers: `planes.conversation.summaries`.
"""

from __future__ import annotations

import re

CHARS_MAX = 200  # longer ones are data, not names
_FOUND = re.compile(
    r"https?://[^\s<>\"'`)\]}]+"
    r"|(?<![\w/])[\w.~-]*(?:/[\w.@+-]+)+"  # paths
    r"|(?<![\w.])v?\d+(?:\.\d+)+(?:[-+][\w.]+)?(?![\w])"  # versions
    r"|(?<!\w)[A-Z][A-Z0-9]*-\d+(?!\w)"  # ABC-123
    r"|(?<![\w&])#\d+(?!\w)"
    r"|(?<!\w)(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,64}(?!\w)"  # hashes
    r"|(?<!\w)[A-Za-z][\w-]*\.(?:[a-z]{1,4}|toml|ipynb|lock)(?![\w.])"  # file names
    r"|(?<!\w)_*[A-Za-z][A-Za-z0-9]*(?:_+[A-Za-z0-9]+)+(?!\w)"  # snake_case
    r"|(?<!\w)[a-z]+[0-9]*(?:[A-Z][a-z0-9]*)+(?!\w)"  # camelCase
    r"|(?<!\w)(?:[A-Z][a-z0-9]+){2,}(?!\w)"  # PascalCase
)


def identifiers(text: str) -> list[str]:
    """The identifiers of a text, each once, in the order in which they come first."""
    candidates = (candidate.rstrip(".,;:-/") for candidate in _FOUND.findall(text))
    return list(dict.fromkeys(candidate for candidate in candidates if 2 <= len(candidate) <= CHARS_MAX))

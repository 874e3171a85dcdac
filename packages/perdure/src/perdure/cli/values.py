"""Values that people type: JSON, or text where it is none; `-` is standard input."""

from __future__ import annotations

import json
import sys
from typing import Any

from perdure.errors import Invalid, TooLarge
from perdure.model.limits import VALUE_MAX_BYTES

STDIN = "-"


def text_of(word: str, path: str) -> str:
    """A text as it was typed, or all of standard input. Its last line break is the shell's, not the text's."""
    if word != STDIN:
        return word
    data = sys.stdin.buffer.read(VALUE_MAX_BYTES + 1)
    if len(data) > VALUE_MAX_BYTES:
        raise TooLarge(f"at most {VALUE_MAX_BYTES} bytes are read", path=path)
    try:
        return data.decode().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise Invalid(f"expected UTF-8: {error.reason} at byte {error.start}", path=path) from None


def value_of(word: str, path: str, *, as_text: bool = False) -> Any:
    """A value: what the JSON says, or the text itself if it is no JSON, or is to be taken as text."""
    text = text_of(word, path)
    if as_text:
        return text
    try:
        return json.loads(text)
    except RecursionError:
        raise Invalid("nested too deeply", path=path) from None
    except ValueError:
        return text

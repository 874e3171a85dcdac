"""External input, checked before anything is done: paths, names, deadlines. Called by the ready-made tools.

Keeps P15 and P10: an argument can never become an option, a second line or another folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath

from perdure.errors import Error, Failed, Invalid, Unavailable
from perdure.model.instants import SECOND_US, duration_us
from perdure.model.limits import check_name
from perdure.planes.reading.durations import Duration

PATH_MAX_CHARS = 4_096
SAID_MAX_CHARS = 2_000


def argument(value: object, path: str, max_chars: int = PATH_MAX_CHARS) -> str:
    """Text that is safe as one argument of a program: printable, not empty, no option. Invalid otherwise."""
    text = check_name(value, path, max_chars)
    if text.startswith("-"):
        raise Invalid(f"{text[:40]!r} begins with a dash and could be read as an option", path=path)
    return text


def absolute(value: object, path: str) -> str:
    """A path that means the same in every process. Invalid otherwise."""
    text = argument(value, path, PATH_MAX_CHARS)
    if not PurePosixPath(text).is_absolute() or ".." in PurePosixPath(text).parts:
        hint = "another process may have to look for it from another folder"
        raise Invalid(f"expected an absolute path without '..', got {text[:80]!r}", path=path, hint=hint)
    return text


def seconds(timeout: Duration, most: float, path: str = "timeout") -> float:
    """A deadline in seconds, at most `most`. Invalid otherwise."""
    limit = duration_us(timeout, path) / SECOND_US
    if limit > most:
        raise Invalid(f"expected at most {most:g} seconds, got {limit:g}", path=path)
    return limit


def shortened(output: str) -> str:
    """The end of what a program said: that is where the reason stands."""
    text = output.strip()
    return text if len(text) <= SAID_MAX_CHARS else f"…{text[-SAID_MAX_CHARS:]}"


@contextmanager
def nothing_done_yet() -> Iterator[None]:
    """A failure in here is a clear no (Failed), or may work later (Unavailable): never doubt."""
    try:
        yield
    except (Failed, Invalid, Unavailable):
        raise
    except Error as error:
        raise Failed(error.message, code=type(error).__name__, path=error.path, hint=error.hint) from error

"""Files that commands are given: read whole, with a bound, because a device or a pipe may have no end. Keeps P10 and P15."""

from __future__ import annotations

from pathlib import Path

from perdure.errors import TooLarge

GIVEN_MAX_BYTES = 256 * 1024**2


def read_given(path: Path) -> bytes:
    """The content of a file. TooLarge past the bound."""
    with path.open("rb") as file:
        data = file.read(GIVEN_MAX_BYTES + 1)
    if len(data) > GIVEN_MAX_BYTES:
        raise TooLarge(f"more than {GIVEN_MAX_BYTES} bytes, which is the most that is read", path=str(path))
    return data

"""Runs that may continue elsewhere: why such a run is parked, and what a person can do about a parked one. Pure.

Nobody but a person lets one continue here: it must not continue twice (P3). Callers: runs, imports, whoever shows a parked run.
"""

from __future__ import annotations

CHANGED = "changed"  # its program, or its versions, are not those that did what is recorded
MOVED = "moved"  # it was handed over, and continues where its envelope was adopted
IMPORTED = "imported"  # it is a copy, and its original may continue where it is (planes/execution/imported)
MEETS_COPY = "imported key"  # a key that it acts with is held by a copy: see `errors.Imported`
INTERRUPTED = (
    "interrupted"  # it cancelled work of its own in an earlier drive, waits to cancel it again, and nothing does
)

AWAY = {
    MOVED: "was handed over, and continues elsewhere",
    IMPORTED: "is a copy, and its original may continue elsewhere",
}


def ways_on(name: str, reason: str | None, hint: str = "") -> str:
    """A person's options for a parked run. hint: what it was parked with says so."""
    if reason == MOVED:
        return f"only if it was never adopted anywhere: `perdure unpark {name}` takes it back"
    if reason == IMPORTED:
        return f"only if its original is gone for good: `perdure unpark {name}` continues it here, and what was open is doubt"
    return hint or f"`perdure show {name}`, then `perdure resume|retry|cancel|pin {name}`"

"""The pins of a run as its row has them: the versions, and the last change of them. Pure.

Callers: runs, claims (`run_pins`), envelopes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from perdure.log.table import Row
from perdure.model.pins import Moved, Versions, versions_of
from perdure.model.records.conversation import Pins
from perdure.model.records.runs import PinsChange, PinsDecision
from perdure.planes.execution import parked_runs
from perdure.planes.reading.row_reading import stored_versions

OPEN = (PinsDecision.UNDECIDED, PinsDecision.ACCEPTED)  # a claim has not carried it out


def to_column(versions: Mapping[str, str]) -> str | None:
    """The column for these versions; equal versions are equal columns."""
    return msgspec.json.encode(dict(sorted(versions.items()))).decode() if versions else None


def change_to_column(change: PinsChange | None) -> str | None:
    """The column for a change."""
    return None if change is None else msgspec.json.encode(change).decode()


def change_from_column(column: str | None, path: str) -> PinsChange | None:
    """The last change of versions. Damaged when the column is none that we have written."""
    return None if column is None else stored_versions(column, path, PinsChange)


def of_row(row: Row) -> tuple[Versions, PinsChange | None]:
    """The versions of a run and the last change of them, as its row has them."""
    path = f"run {row['name']}"
    return stored_versions(row["pins"], path), change_from_column(row["pins_change"], path)


def of_session(pins: Pins | None) -> Versions:
    """The versions that a session pins."""
    return versions_of(as_document(pins))


def as_document(pins: Pins | None) -> dict[str, Any]:
    """The pins of a session by their names, without those that it lacks."""
    if pins is None:
        return {}
    by_name = {"model": pins.model, "prompt": pins.prompt, "tools": pins.tools, "commit": pins.commit}
    return {name: value for name, value in by_name.items() if value}


def same_change(change: PinsChange | None, moved: Moved) -> PinsChange | None:
    """The change that a run met last, if it is this one and no claim has carried it out."""
    return change if change is not None and change.moved == moved and change.decision in OPEN else None


def taken_over(row: Row) -> dict[str, Any]:
    """The columns by which a person who lets a parked run continue accepts the versions for which it was parked."""
    change = of_row(row)[1]
    if row["reason"] != parked_runs.CHANGED or change is None or change.decision is not PinsDecision.UNDECIDED:
        return {}
    return {"pins_change": change_to_column(msgspec.structs.replace(change, decision=PinsDecision.ACCEPTED))}

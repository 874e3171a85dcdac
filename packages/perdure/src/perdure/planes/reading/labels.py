"""Labels and tags: short names on a session, a task or a decision, kept as one JSON column.

The derived table `tags` makes them findable. Keeps P15: what is no name is refused here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from perdure.errors import Invalid, TooLarge
from perdure.model.limits import LABELS_MAX, check_name
from perdure.planes.reading.row_reading import stored_names


def to_labels(labels: Iterable[str], path: str = "labels") -> str:
    """The column for these labels: each once and sorted, so that equal sets are equal columns."""
    if isinstance(labels, (str, bytes)) or not isinstance(labels, Iterable):
        raise Invalid(f"expected a list of names, got {type(labels).__name__}", path=path)
    names = {check_name(label, f"{path}[{i}]") for i, label in enumerate(labels)}
    if len(names) > LABELS_MAX:
        raise TooLarge(f"{len(names)} names, at most {LABELS_MAX} are kept", path=path)
    return json.dumps(sorted(names), ensure_ascii=False) if names else "[]"


def from_labels(column: str, path: str = "labels") -> tuple[str, ...]:
    """The labels of a column. Damaged when it is none that we have written."""
    return stored_names(column, path)

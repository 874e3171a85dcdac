"""Records of timelines: what a run did, one line for each event."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec


class TimelineRecord(msgspec.Struct, frozen=True):
    """One event of a run, for people. about: the step, the tool or the wait; of: the entry that it changes.

    said: the content of the event, if that is small; its values as they are stored.
    """

    seq: int
    at: datetime
    kind: str
    actor: str
    about: str
    place: str
    of: int | None
    said: Any

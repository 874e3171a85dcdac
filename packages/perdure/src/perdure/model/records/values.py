"""Records of values and locks, as the verbs of `planes.memory.values` and `planes.recovery.locks` return them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec


class Entry(msgspec.Struct, frozen=True):
    """A value under its name. `version` only grows, over deletion and expiry too; `age` is that at the time of reading."""

    name: str
    value: Any
    version: int
    updated_at: datetime
    age: timedelta
    expires_at: datetime | None
    actor: str


class LockRecord(msgspec.Struct, frozen=True):
    """A lock as it was acquired. A holder with a smaller `token` had the lock before."""

    name: str
    token: int
    holder: str
    deadline: datetime

"""Records of values and locks: what the verbs of `planes.memory.values` and `planes.recovery.locks` return."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec


class Entry(msgspec.Struct, frozen=True):
    """A value under its name. `version` only grows, over deletion and expiry too; `age` is as of reading."""

    name: str
    value: Any
    version: int
    updated_at: datetime
    age: timedelta
    expires_at: datetime | None
    actor: str


class LockRecord(msgspec.Struct, frozen=True):
    """A lock as it was acquired: whoever shows a smaller `token` than this one had it before."""

    name: str
    token: int
    holder: str
    deadline: datetime

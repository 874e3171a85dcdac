"""Records of subjects."""

from __future__ import annotations

from datetime import datetime

import msgspec


class SubjectRecord(msgspec.Struct, frozen=True):
    """A person or thing that records are about: the number of records and streams, and when the first and the last was made.

    A session, run or scope that is about it as a whole counts with all of its records.
    """

    subject: str
    records: int
    streams: int
    first_at: datetime
    last_at: datetime

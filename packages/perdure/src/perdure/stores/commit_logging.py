"""Logs of the lane: one place, fed at the one commit point, so that nothing is logged twice.

    perdure.event   DEBUG    one record for each event that was committed: store, stream, seq, kind, actor
    perdure.commit  DEBUG    one record a batch: how many jobs, events and streams it held
    perdure.commit  INFO     a batch or a job is tried again, and because of which fault
    perdure.commit  WARNING  a job got an error because the database failed

Headers only, so an actor is named at random, as there (docs/decisions/0033): a log outlives an erasure. No body,
key, value, argument or result ever goes in here, and neither does the text of a database error, which may quote rows.
`telemetry/logs.py` gives these records their form.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from perdure.log.change import Stream
from perdure.stores.store import Fault, FaultKind, NewEvent
from perdure.stores.url import without_password

EVENTS = logging.getLogger("perdure.event")
COMMITS = logging.getLogger("perdure.commit")
logging.getLogger("perdure").addHandler(logging.NullHandler())  # silent unless the application listens


class CommitLogger:
    """The log of one open store's lane."""

    __slots__ = ("_store",)

    def __init__(self, store_url: str) -> None:
        self._store = without_password(store_url)

    def committed(self, events: Sequence[tuple[Stream, NewEvent]], jobs: int) -> None:
        """A batch is durable. Called if somebody listens to one of the two."""
        if not events:  # a read on the lane, or a heartbeat
            return
        for stream, event in events:
            facts = {"stream": stream.uid.hex(), "seq": event.seq, "kind": event.kind, "actor": event.actor}
            EVENTS.debug("recorded", extra={"store": self._store, **facts})
        streams = len({stream.id for stream, _ in events})
        COMMITS.debug(
            "committed", extra={"store": self._store, "jobs": jobs, "events": len(events), "streams": streams}
        )

    def retried(self, error: Exception, attempt: int) -> None:
        """Nothing was acknowledged; it is tried again."""
        COMMITS.info("trying again", extra={"store": self._store, "fault": _kind_of(error), "attempt": attempt})

    def failed(self, error: Exception, attempt: int) -> None:
        """A caller got an error because the database failed. A verb or a store that refuses is no failure."""
        if isinstance(error, Fault) and error.kind is not FaultKind.READ_ONLY:
            COMMITS.warning("given up", extra={"store": self._store, "fault": _kind_of(error), "attempt": attempt})


def _kind_of(error: Exception) -> str:
    return error.kind.value if isinstance(error, Fault) else type(error).__name__

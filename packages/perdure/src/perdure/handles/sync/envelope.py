# Generated from handles/aio/envelope.py by tools/unasync.py: edit that one.
"""Handles for the envelope of a run (the state needed to continue it), its timeline, and its handover to another store."""

from __future__ import annotations

from typing import Any

from perdure.handles.later import envelope, what_if
from perdure.handles.sync.base import StreamHandle
from perdure.handles.sync.made import reads
from perdure.model.records.differences import Forecast
from perdure.model.records.envelope import Envelope
from perdure.verbs import runs as verbs


class Enveloping(StreamHandle):
    """The state needed to continue a run, as data."""

    __slots__ = ()

    def envelope(self) -> Envelope:
        """Return the state needed to continue this run, and a verdict. Only reads; costs what happened since the last
        checkpoint.

        It holds the cursor, the unsettled effects with what to do about each, waits, pins, workspace and artifacts.
        `envelope.to_json()` and `store.artifacts_of(envelope)` are enough to continue elsewhere: see `hand_over`.
        """
        return self._read(envelope.envelope, self._witness())

    def hand_over(self) -> Envelope:
        """Return the envelope, and let the run continue only where it is adopted (`store.adopt`). Atomic.

        The run is parked here with the reason `moved`, and so are the runs that it waits for. `unpark` takes it back, as long
        as no store has adopted it. Raises Conflict when it is over, is being driven, was handed over (unpark it first, if its
        envelope was lost), or another run waits for it.
        """
        return self._write(envelope.hand_over, self._witness())

    timeline = reads(verbs.timeline_of_run)

    def forecast(self, at: int | str, *, allow_effects: bool = False) -> Forecast:
        """Return the consequences of `fork` with these arguments, if the program goes the same way: what is kept, and what is
        done anew.

        Only reads. Raises as `fork` does for its place.
        """
        return self._read(what_if.forecast, at, acts=bool(allow_effects))

    def _witness(self) -> Any:
        return envelope.witness_of(self._caller.core, self._read(envelope.holders))

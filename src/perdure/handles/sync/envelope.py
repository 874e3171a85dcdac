# Generated from handles/aio/envelope.py by tools/unasync.py: edit that one.
"""Handles for the envelope of a run: what it says of itself, its timeline, and handing the run over to another store."""

from __future__ import annotations

from typing import Any

from perdure.effects.tool import DECLARED
from perdure.handles.later import envelope, timeline, what_if
from perdure.handles.sync.base import StreamHandle
from perdure.model.records.differences import Forecast
from perdure.model.records.envelope import Envelope
from perdure.model.records.timeline import TimelineRecord
from perdure.planes.reading.paging import Page


class Enveloping(StreamHandle):
    """The state needed to resume a run, as data."""

    __slots__ = ()

    def envelope(self) -> Envelope:
        """The state needed to resume this run: cursor, effects that are not settled and what to do about each, waits, pins,
        workspace, artifacts; and a verdict. Reads alone; costs what happened since the last checkpoint.

        `envelope.to_json()` and `store.artifacts_of(envelope)` are enough to go on elsewhere: see `hand_over`.
        """
        return self._read(envelope.envelope, self._witness())

    def hand_over(self) -> Envelope:
        """Make the envelope; from this commit on the run continues only where it is adopted (`store.adopt`).

        Atomic. It is parked here with the reason `moved`, and so are the runs that it waits for; `unpark` takes it back, as
        long as nobody has adopted it. Raises Conflict when it is over, is being driven, was handed over (unpark it first, if its
        envelope was lost), or another run waits for it.
        """
        return self._write(envelope.hand_over, self._witness())

    def timeline(self, *, last: int = 100, before: int | str | None = None) -> Page[TimelineRecord]:
        """Its newest events, oldest first: steps, effects, waits, and what became of each. before: a sequence number, or
        `.next` of what it gives, which is None when that was all.
        """
        return self._read(timeline.timeline, last=last, before=before)

    def forecast(self, at: int | str, *, allow_effects: bool = False) -> Forecast:
        """The consequences of `fork` with these arguments, if the program goes the same way: what is kept, and what is done anew.

        Reads alone. Raises as `fork` does for its place.
        """
        return self._read(what_if.forecast, at, acts=bool(allow_effects))

    def _witness(self) -> Any:
        core = self._caller.core
        known = self._read(envelope.holders)
        dead = frozenset(each for each in known if core.liveness.is_dead(each))
        probes = frozenset(name for name, tool in DECLARED.items() if tool.probe is not None)
        return envelope.EnvelopeWitness(core.uid, core.epoch, dead, probes)

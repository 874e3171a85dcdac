# Generated from handles/aio/adopting.py by tools/unasync.py: edit that one.
"""Handles for adopting runs: going on here with a run that another store handed over."""

from __future__ import annotations

from collections.abc import Mapping

from perdure.handles.later import adopting
from perdure.handles.sync.base import StoreHandle
from perdure.handles.sync.run_handle import RunHandle
from perdure.model.records.envelope import Envelope
from perdure.planes.execution import runs


class Adopting(StoreHandle):
    """Envelopes of runs, on their way out and in."""

    __slots__ = ()

    def artifacts_of(self, envelope: Envelope) -> dict[str, bytes]:
        """All blobs that an envelope of this store needs, by address: to be kept with it. Damaged names one that is lost."""
        return self._caller.read(adopting.artifacts_of, envelope)

    def adopt(
        self, envelope: Envelope | bytes | str, artifacts: Mapping[str, bytes] | None = None, *, lost: bool = False
    ) -> RunHandle:
        """Go on here with a run of another store, from its envelope and its blobs alone; returns its handle.

        Atomic: all of it or nothing. It keeps its name, its key and the keys of its effects; its entries get new numbers.
        lost: its store is gone for good, and the run was not handed over; then whatever was planned or under way is doubt, and
        what is sent next is asked about as after a restore, because that store may have sent it.
        Raises Refused for a run that was not handed over, Conflict if this store has it (or its name or key) already, NotFound
        for a blob that is missing, Invalid or Damaged for what is no envelope or was altered.
        """
        text = envelope.to_json() if isinstance(envelope, Envelope) else envelope
        found = Envelope.from_json(text)
        adopting.check(found, lost=lost)
        luggage = self._caller.read(adopting.unpack, found, artifacts or {})
        stream = self._write(adopting.adopt, found, luggage, self._caller.core.epoch)
        return RunHandle(self._caller, stream, self._caller.read(runs.run, stream))

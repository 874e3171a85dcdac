# Generated from handles/aio/adopting.py by tools/unasync.py: edit that one.
"""Handles for adopting runs: continuing here a run that another store handed over."""

from __future__ import annotations

from collections.abc import Mapping

from perdure.handles.later import adopting
from perdure.handles.sync.base import StoreHandle
from perdure.handles.sync.run_handle import RunHandle
from perdure.model.records.envelope import Envelope
from perdure.planes.execution import runs


class Adopting(StoreHandle):
    """Verbs of a store for the envelopes of runs, out and in."""

    __slots__ = ()

    def artifacts_of(self, envelope: Envelope) -> dict[str, bytes]:
        """Return all blobs that an envelope of this store needs, by address. Keep them with the envelope. Damaged names a lost
        blob.
        """
        return self._caller.read(adopting.artifacts_of, envelope)

    def adopt(
        self, envelope: Envelope | bytes | str, artifacts: Mapping[str, bytes] | None = None, *, lost: bool = False
    ) -> RunHandle:
        """Continue a run of another store here, from its envelope and its blobs alone. Returns its handle.

        Atomic: all of it or nothing. The run keeps its name, its key and the keys of its effects; its entries get new numbers.
        lost: the other store is gone for good, and the run was not handed over. Every effect that was planned or under way is
            then in doubt, and the next sends are asked about as after a restore, because the lost store may have sent them.

        Raises Refused for a run that was not handed over, Conflict if this store already has the run (or its name or key),
        NotFound for a missing blob, Invalid or Damaged for a text that is no envelope or was altered.
        """
        text = envelope.to_json() if isinstance(envelope, Envelope) else envelope
        found = Envelope.from_json(text)
        adopting.check(found, lost=lost)
        luggage = self._caller.read(adopting.unpack, found, artifacts or {})
        stream = self._write(adopting.adopt, found, luggage, self._caller.core.epoch)
        return RunHandle(self._caller, stream, self._caller.read(runs.run, stream))

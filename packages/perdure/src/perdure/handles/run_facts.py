"""Facts of runs that their handles show, in both colours, and what is drawn for a place of a run: as `facts`."""

from __future__ import annotations

import hashlib
import uuid
from typing import TYPE_CHECKING, Any

from perdure.model.records.runs import RunRecord, RunStatus

if TYPE_CHECKING:
    from perdure.runtime.journal import Branch
    from perdure.runtime.run_engine import RunEngine


class KnownRunFacts:
    """The facts of a run, as they were last read."""

    __slots__ = ()
    _record: RunRecord

    @property
    def record(self) -> RunRecord:
        """Everything that was last read, as plain data."""
        return self._record

    @property
    def id(self) -> str:
        """Its name in the store."""
        return self._record.id

    @property
    def status(self) -> RunStatus:
        """ready, running, waiting, completed, failed, cancelled or parked."""
        return self._record.status

    @property
    def _has_stopped(self) -> bool:
        return self._record.ended or self._record.status is RunStatus.PARKED

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r}, {self._record.agent!r}, {self.status.value})"


class DrivenFacts:
    """The facts of a run that is driven, as they were last read."""

    __slots__ = ()
    _engine: RunEngine

    @property
    def id(self) -> str:
        """Its name in the store."""
        return self._engine.stream.name

    @property
    def record(self) -> RunRecord:
        """How it stood when it was taken."""
        return self._engine.record

    @property
    def restored(self) -> Any:
        """The state of the last checkpoint; None if there is none. An agent that makes checkpoints reads it first.

        The agent begins from this state and skips the work before it; the replay no longer holds that work.
        """
        return self._engine.replay.restored

    @property
    def token(self) -> int:
        """The fencing token of this lease. Pass it on to what must be protected from an earlier lease."""
        return self._engine.hold.lease.token

    @property
    def replaying(self) -> bool:
        """Whether recorded work is still ahead in this replay."""
        return self._engine.replay.is_replaying

    def uuid(self) -> uuid.UUID:
        """Return a UUID that belongs to this place: the same at every replay. Writes nothing."""
        return uuid.UUID(bytes=self._drawn()[:16], version=4)

    def random(self) -> float:
        """Return a number from 0 to 1 that belongs to this place: the same at every replay. Writes nothing."""
        return int.from_bytes(self._drawn()[:7]) / 2**56

    def _drawn(self) -> bytes:
        place = self._here().next_place(self._engine.replay.cut)
        # Which draws what the other run drew: or it would go another way before the place.
        what_if = self.record.what_if
        uid = self._engine.stream.uid if what_if is None else bytes.fromhex(what_if.uid)
        return hashlib.sha256(b"perdure run random\0" + uid + place.encode()).digest()

    def _here(self) -> Branch:
        raise NotImplementedError  # each colour knows its own

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r}, {self._engine.record.agent!r})"

"""The result of a recovery: see `store.recover`."""

from __future__ import annotations

import msgspec

from perdure.model.records.effects import EffectRecord
from perdure.model.records.runs import RunRecord


class Recovered(msgspec.Struct, frozen=True):
    """The work that was resumed. runs: those that were driven, as they stand now. settled, waiting: effects of sessions.

    damaged: what is wrong with runs and effects that cannot be read.
    """

    runs: tuple[RunRecord, ...]
    settled: tuple[EffectRecord, ...]
    waiting: tuple[EffectRecord, ...]
    damaged: tuple[str, ...] = ()

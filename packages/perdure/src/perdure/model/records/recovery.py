"""The result of a recovery: see `store.recover`."""

from __future__ import annotations

import msgspec

from perdure.model.records.effects import EffectRecord
from perdure.model.records.runs import RunRecord


class Recovered(msgspec.Struct, frozen=True):
    """The work that a recovery continued.

    runs: the runs that were driven, as they stand now.
    settled, waiting: effects of sessions that were settled, and that wait for a person or a later time.
    damaged: what is wrong with runs and effects that cannot be read.
    """

    runs: tuple[RunRecord, ...]
    settled: tuple[EffectRecord, ...]
    waiting: tuple[EffectRecord, ...]
    damaged: tuple[str, ...] = ()

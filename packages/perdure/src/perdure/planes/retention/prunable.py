"""Which turns may go: those that a summary stands for, as far as nothing that can still be read needs them. Pure functions.

Judged from every point from which the turns are seen: now, and where each fork left the session. From each of them the
transcript, `pending` and a later summary must give what they gave. So these stay: rules (system turns), the two ends of every
summary, a call and its result unless both go, a call whose result is still to come, and the newest turns by which `pending`
decides. A turn that was retracted is needed by nobody who does not see it. Callers: `retain`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from perdure.model.records.conversation import Role
from perdure.planes.conversation.pending import PENDING_LOOKBACK_TURNS
from perdure.planes.reading.lineage import MAX_SEQ


class CoveredTurn(NamedTuple):
    """A turn. maker: the turn that made the call of which this is the result; calls: how many it made; retracted: by which
    event.
    """

    seq: int
    role: str
    maker: int | None
    at: int
    calls: int = 0
    retracted: int | None = None

    def is_seen(self, point: int) -> bool:
        """Whether it is shown after an event: said by then, and not retracted."""
        return self.seq <= point and (self.retracted is None or self.retracted > point)


class Covering(NamedTuple):
    """A summary: its own number, and the range that it stands for."""

    seq: int
    first: int
    last: int


def free_to_go(turns: Sequence[CoveredTurn], covers: Iterable[Covering], forks: Collection[int], keep: int) -> set[int]:
    """The turns that may go, by number. turns and covers: of one stream, in order. keep: the newest so many stay."""
    summaries = list(covers)
    visible = [turn for turn in turns if turn.is_seen(MAX_SEQ)]
    free = _free_at(visible, summaries, MAX_SEQ) - {turn.seq for turn in visible[max(0, len(visible) - keep) :]}
    free |= {turn.seq for turn in turns if turn.retracted is not None}
    for fork in forks:
        visible_there = [turn for turn in turns if turn.is_seen(fork)]
        free -= {turn.seq for turn in visible_there} - _free_at(visible_there, summaries, fork)
    return complete_exchanges(turns, free)


def _free_at(turns: Sequence[CoveredTurn], covers: Iterable[Covering], point: int) -> set[int]:
    """Of the turns up to a point, those inside the outermost summaries that stand there, without their ends."""
    inside = _Ranges(outermost(cover for cover in covers if cover.seq <= point))
    free = {turn.seq for turn in turns if turn.role != Role.SYSTEM and inside.holds(turn.seq)}
    return free - {turn.seq for turn in _decisive(turns)} - _awaiting(turns)


def _awaiting(turns: Sequence[CoveredTurn]) -> set[int]:
    """The turns with a call that has no result yet: who brings it must find the call."""
    answers = Counter(turn.maker for turn in turns)
    return {turn.seq for turn in turns if turn.calls > answers[turn.seq]}


class _Ranges:
    """Ranges that do not overlap, asked in rising order."""

    def __init__(self, ranges: Sequence[Covering]) -> None:
        self._ranges = iter(ranges)
        self._now = next(self._ranges, None)

    def holds(self, seq: int) -> bool:
        """Whether a number is inside one of them, and not at an end."""
        while self._now is not None and self._now.last < seq:
            self._now = next(self._ranges, None)
        return self._now is not None and self._now.first < seq < self._now.last


def outermost(covers: Iterable[Covering]) -> list[Covering]:
    """The summaries that no other one swallows, in the order of what they cover. Ranges never cross."""
    widest: list[Covering] = []
    for cover in sorted(covers, key=lambda summary: (summary.first, -summary.last, -summary.seq)):
        if not widest or cover.first > widest[-1].last:
            widest.append(cover)
    return widest


def _decisive(turns: Sequence[CoveredTurn]) -> list[CoveredTurn]:
    """The newest turns, back to where both an answer and a question are among them: `pending` decides by these. A fork that
    says more sees fewer of them, and none that is older.
    """
    spoken = (turn for turn in reversed(turns) if turn.role != Role.SYSTEM)
    newest: list[CoveredTurn] = []
    for turn in islice(spoken, PENDING_LOOKBACK_TURNS):
        newest.append(turn)
        if {Role.USER, Role.ASSISTANT} <= {newer.role for newer in newest}:
            break
    return newest


def complete_exchanges(turns: Sequence[CoveredTurn], free: set[int]) -> set[int]:
    """A turn that makes calls, and the results of these, go together or not at all; but for those that were retracted."""
    retracted = {turn.seq for turn in turns if turn.retracted is not None and turn.seq in free}
    visible = [turn for turn in turns if turn.seq not in retracted]
    stays = {turn.maker for turn in visible if turn.maker is not None and turn.seq not in free}
    free = free - (stays - retracted)
    return free - {turn.seq for turn in visible if turn.maker is not None and turn.maker not in free}

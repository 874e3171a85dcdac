"""The open end of a session: calls without a result, or a question without an answer. The plane behind `pending`.

Decided by the newest turns alone (P8). Callers: handles, boot, summaries. Keeps P14.
"""

from __future__ import annotations

from perdure.log.change import Stream
from perdure.model.records.conversation import Pending, PendingKind, Role, Turn
from perdure.planes.conversation.calls import maker_of
from perdure.planes.conversation.turns import above, refuse_gone, turns_back, unanswered
from perdure.planes.reading.lineage import MAX_SEQ, segments
from perdure.planes.reading.snapshots import one_state
from perdure.stores.past_store import PastReader
from perdure.stores.store import Reads

FIRST_TURNS = 8  # read at first: mostly they decide
PENDING_LOOKBACK_TURNS = 100  # an assistant turn further back than so many others is not waited for any more


@one_state
def pending(reads: Reads, stream: Stream) -> Pending | None:
    """The calls without a result of the newest assistant turn; else the user turn that has no answer yet;
    else None. NotFound when turns went (by retention) by which it is decided: in the past, or in a fork made there since.
    """
    newest = _newest(reads, stream)
    if stream.parent is not None or isinstance(reads, PastReader):  # else what decides was kept
        _refuse_undecided(reads, stream, _decided_after(newest))
    return _pending_among(reads, stream, newest)


def pending_among_left(reads: Reads, stream: Stream) -> Pending | None:
    """The open end by the turns that are left, whatever went."""
    return _pending_among(reads, stream, _newest(reads, stream))


def _newest(reads: Reads, stream: Stream) -> list[Turn]:
    """The newest turns: a few, if an answer and a question are among them, for nothing older decides then."""
    first = min(FIRST_TURNS, PENDING_LOOKBACK_TURNS)
    few = turns_back(reads, stream, 0, MAX_SEQ, first)
    if len(few) < first or {Role.USER, Role.ASSISTANT} <= {turn.role for turn in few}:
        return few
    return turns_back(reads, stream, 0, MAX_SEQ, PENDING_LOOKBACK_TURNS)


def _decided_after(newest: list[Turn]) -> int:
    """Where the turns begin by which `pending` is decided: back to where both an answer and a question are among them."""
    roles: set[Role] = set()
    for turn in reversed(newest):
        roles.add(turn.role)
        if {Role.USER, Role.ASSISTANT} <= roles:
            return turn.seq
    return newest[0].seq if len(newest) == PENDING_LOOKBACK_TURNS else 0


def _refuse_undecided(reads: Reads, stream: Stream, first: int) -> None:
    for span in segments(reads, stream):
        if span.last > first:
            refuse_gone(
                reads, stream, above(span, first), "pending", "turns() gives those that are left; continue from there"
            )


def _pending_among(reads: Reads, stream: Stream, newest: list[Turn]) -> Pending | None:
    tail = [turn for turn in newest if turn.role is not Role.SYSTEM]
    if not tail:
        return None
    maker = _last_maker(reads, stream, tail)
    missing = unanswered(reads, stream, maker) if maker else ()
    if maker and missing:
        return Pending(PendingKind.RESULTS, maker, missing)
    if tail[-1].role is Role.ASSISTANT:
        return None
    last_user = next((turn for turn in reversed(tail) if turn.role is Role.USER), tail[-1])
    return Pending(PendingKind.ANSWER, last_user)


def _last_maker(reads: Reads, stream: Stream, tail: list[Turn]) -> Turn | None:
    """The newest assistant turn, or if the tail shows only results of it, the one that they answer."""
    for turn in reversed(tail):
        if turn.role is Role.ASSISTANT:
            return turn
    answered = [turn.call for turn in tail if turn.call is not None]
    seq = maker_of(reads, stream, answered[-1]) if answered else None
    turns = turns_back(reads, stream, seq - 1, seq, 1) if seq else []
    return turns[0] if turns else None

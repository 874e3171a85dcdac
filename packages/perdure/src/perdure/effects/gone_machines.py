"""A sender that a person declares gone: a machine that burned, a process that nobody will wake. Keeps P4.

Death on another machine cannot be proved, so its probes say Absent in vain. A person who knows says it once, for all that the
sender left: recorded with each effect, by an actor. From then on its senders count as quiet. Callers: the handles.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from perdure.effects import commits, ledger, settling
from perdure.effects.orphaned import Found
from perdure.errors import Conflict, NotFound
from perdure.log.change import Stream
from perdure.model.filters import EffectFilters
from perdure.model.limits import PAGE_MAX_ROWS, check_name
from perdure.model.records.effects import EffectError, EffectRecord, EffectState
from perdure.planes.execution import workers
from perdure.planes.recovery import presence
from perdure.stores.liveness import Liveness
from perdure.stores.store import Reads
from perdure.stores.tx import Tx

HOLDER_MIN_CHARS = 8


def left_by(reads: Reads, who: str) -> list[Found]:
    """The effects that a machine or a holder (its id, or the beginning of it) sent, and may still be sending. NotFound: none."""
    check_name(who, "who")
    found = [each for each in _may_be_sent(reads) if _is_by(reads, each[1].holder or "", who)]
    if not found:
        hint = "`perdure workers` and `perdure effects --in-doubt --json` name machines and holders"
        raise NotFound(f"nothing that {who!r} sent is open", path="who", hint=hint)
    return found


def check_gone(reads: Reads, found: list[Found], liveness: Liveness) -> None:
    """Raise Conflict if one of their senders gives signs of life."""
    for holder in {record.holder or "" for _, record in found}:
        if liveness.is_held(holder) or presence.is_alive(reads, holder):
            hint = "stop it first; or pass force=True (--force) if you know that it is gone"
            raise Conflict(f"{holder} gives signs of life", path="who", hint=hint)


def _may_be_sent(reads: Reads) -> Iterator[Found]:
    for state in (EffectState.DISPATCHED, EffectState.IN_DOUBT):
        asked = EffectFilters(state=state, limit=PAGE_MAX_ROWS)
        while True:
            page = ledger.effects_of_store(reads, asked).whole()
            yield from (each for each in page if each[1].quiet_at is None)
            if page.next is None:
                break
            asked = replace(asked, after=page.next)


def _is_by(reads: Reads, holder: str, who: str) -> bool:
    return (len(who) >= HOLDER_MIN_CHARS and holder.startswith(who)) or workers.host_of(reads, holder) == who


def declare(tx: Tx, stream: Stream, record: EffectRecord, by: str) -> EffectRecord:
    """Record a person's word that the sender of an effect can send no more. The effect is in doubt and quiet from now on, and its
    run is woken.
    """
    said = EffectError(settling.DIED, f"{by} says that its sender is gone")
    return commits.doubt_and_wake(tx, stream, record.seq, record.attempt, said, by)

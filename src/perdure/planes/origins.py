"""Origins: where an event lies, and how one thing refers to another.

The early events of a fork lie in its parents, with the same numbers. So a reference is always to the stream that really holds
the event: a turn seen through a fork and the same turn seen through its parent are one thing. Callers: the planes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from perdure.errors import Damaged, Invalid, NotFound, TooLarge
from perdure.log.change import Stream
from perdure.log.event import Event, Ref
from perdure.model.ids import UID_BYTES
from perdure.model.limits import REFS_MAX
from perdure.planes.documents import body_of
from perdure.stores.store import Reads, event_of
from perdure.stores.tx import LOG, Tx

SEQ_MAX = 2**62


def home(reads: Reads, stream: Stream, seq: int) -> Stream:
    """The stream that holds this event: the stream itself, or for the early events of a fork one of its parents."""
    while stream.parent is not None and seq <= stream.fork_seq:
        stream = Stream(*reads.query(LOG.stream_by_id, id=stream.parent)[0])
    return stream


def event_at(reads: Reads, stream: Stream, seq: int) -> Event:
    """The event with this number, wherever it lies. Damaged when it is not there: our rows name only events that are."""
    holder = home(reads, stream, seq)
    rows = reads.query(LOG.event_by_seq, stream=holder.id, seq=seq)
    if not rows:
        raise Damaged("the event is missing", path=f"{stream.kind} {stream.name} seq {seq}")
    return event_of(rows[0])


def document(reads: Reads, stream: Stream, seq: int | None, found: int | None, body: bytes | None) -> Any:
    """The document that a row points to with `seq`. `found` and `body` come from an outer join with the own stream's events:
    where it found nothing, the event lies in a parent."""
    if seq is None:
        return None
    stored = body if found is not None else event_at(reads, stream, seq).body
    return body_of(reads, stored, f"seq {seq}").doc


def check_seq(seq: object, path: str) -> int:
    """Accept a sequence number."""
    if type(seq) is not int:
        raise Invalid(f"expected a sequence number, got {type(seq).__name__}", path=path)
    if not 0 < seq < SEQ_MAX:
        raise NotFound(f"there is no {seq}", path=path)
    return seq


def to_ref(thing: object, path: str = "ref") -> Ref:
    """A reference to a turn, decision, task, artifact or event: anything that has a `ref`, or a Ref itself."""
    ref = thing if isinstance(thing, Ref) else getattr(thing, "ref", None)
    if not isinstance(ref, Ref):
        raise Invalid(f"expected a turn, decision, task, artifact or Ref, got {type(thing).__name__}", path=path)
    if not _is_uid(ref.uid):
        raise Invalid("the uid of a reference is 32 lower-case hexadecimal digits", path=path)
    check_seq(ref.seq, path)
    return ref


def _is_uid(uid: object) -> bool:
    return type(uid) is str and len(uid) == 2 * UID_BYTES and set(uid) <= set("0123456789abcdef")


def settled(reads: Reads, stream: Stream, ref: Ref) -> Ref:
    """The reference by the stream that really holds the event. One to a stream that is not in this store stays as it is."""
    uid = bytes.fromhex(ref.uid)
    if uid == stream.uid:
        return home(reads, stream, ref.seq).ref(ref.seq)
    rows = reads.query(LOG.stream_by_uid, uid=uid)
    return home(reads, Stream(*rows[0]), ref.seq).ref(ref.seq) if rows else ref


def to_refs(tx: Tx, stream: Stream, things: Iterable[object], path: str = "refs") -> list[Ref]:
    """References for an event of this stream. NotFound when one names an event that this stream has not reached."""
    if isinstance(things, (str, bytes)) or not isinstance(things, Iterable):
        raise Invalid(f"expected a list of things to refer to, got {type(things).__name__}", path=path)
    refs = [to_ref(thing, f"{path}[{i}]") for i, thing in enumerate(things)]
    if len(refs) > REFS_MAX:
        raise TooLarge(f"{len(refs)} references, at most {REFS_MAX} are kept", path=path)
    for i, ref in enumerate(refs):
        if ref.uid == stream.uid.hex() and ref.seq > tx.seq(stream):
            raise NotFound(f"{stream.kind} {stream.name!r} has no event {ref.seq}", path=f"{path}[{i}]")
    return [settled(tx, stream, ref) for ref in refs]

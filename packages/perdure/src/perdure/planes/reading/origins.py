"""Origins: where an event lies, and how one thing refers to another.

The early events of a fork lie in its parents, with the same numbers. So a reference is always to the stream
that really holds the event: a turn seen through a fork and the same turn seen through its parent are one
thing. Callers: the planes.
"""

from __future__ import annotations

from collections.abc import Iterable

from perdure.errors import Invalid, NotFound, TooLarge
from perdure.log.change import Stream
from perdure.model.ids import UID_BYTES
from perdure.model.limits import REFS_MAX
from perdure.model.refs import Ref
from perdure.planes.reading.lineage import MAX_SEQ, ancestry
from perdure.stores.store import Reads
from perdure.stores.tx import LOG, Tx


def home(reads: Reads, stream: Stream, seq: int) -> Stream:
    """The stream that holds this event: the stream itself, or (early events of a fork) one of its parents."""
    return next(ancestor for ancestor in ancestry(reads, stream) if ancestor.parent is None or seq > ancestor.fork_seq)


def check_seq(seq: object, path: str) -> int:
    """Accept a sequence number."""
    if type(seq) is not int:
        raise Invalid(f"expected a sequence number, got {type(seq).__name__}", path=path)
    if not 0 < seq < MAX_SEQ:
        raise NotFound(f"there is no event {seq}", path=path)
    return seq


def to_ref(thing: object, path: str = "ref") -> Ref:
    """A reference to a turn, decision, task, artifact, event: anything that has a `ref`, or a Ref itself."""
    ref = thing if isinstance(thing, Ref) else getattr(thing, "ref", None)
    if not isinstance(ref, Ref):
        what = type(thing).__name__
        raise Invalid(f"expected a turn, decision, task, artifact or Ref, got {what}", path=path)
    if not _is_uid(ref.uid):
        raise Invalid("the uid of a reference is 32 lower-case hexadecimal digits", path=path)
    check_seq(ref.seq, path)
    return ref


def _is_uid(uid: object) -> bool:
    return type(uid) is str and len(uid) == 2 * UID_BYTES and set(uid) <= set("0123456789abcdef")


def settled(reads: Reads, stream: Stream, ref: Ref) -> Ref:
    """The reference by the stream that really holds the event; as it is, if that stream is not here (or is
    another tenant's: the same answer).
    """
    uid = bytes.fromhex(ref.uid)
    if uid == stream.uid:
        return home(reads, stream, ref.seq).ref(ref.seq)
    rows = reads.query(LOG.stream_by_uid, uid=uid, tenant=reads.tenant)
    return home(reads, Stream(*rows[0]), ref.seq).ref(ref.seq) if rows else ref


def to_refs(tx: Tx, stream: Stream, things: Iterable[object], path: str = "refs") -> list[Ref]:
    """References for an event of this stream. NotFound when one names an event that this stream has not."""
    if isinstance(things, (str, bytes)) or not isinstance(things, Iterable):
        raise Invalid(f"expected a list of things to refer to, got {type(things).__name__}", path=path)
    refs = [to_ref(thing, f"{path}[{i}]") for i, thing in enumerate(things)]
    if len(refs) > REFS_MAX:
        raise TooLarge(f"{len(refs)} references, at most {REFS_MAX} are kept", path=path)
    for i, ref in enumerate(refs):
        if ref.uid == stream.uid.hex() and ref.seq > tx.seq(stream):
            raise NotFound(f"{stream.kind} {stream.name!r} has no event {ref.seq}", path=f"{path}[{i}]")
    return [settled(tx, stream, ref) for ref in refs]

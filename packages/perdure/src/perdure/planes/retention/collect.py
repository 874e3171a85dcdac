"""Collection: blobs and files that nothing refers to any more go. The plane behind `store.collect`.

Live is what an event with a body names (`blob_refs`), what the root of a checkpoint leads to, and what is
pinned.

    mark     outside the lane: walk the trees of all checkpoints; note the position of the feed first
    sweep    in small transactions that have the blobs alone (`tx.claim_blobs`): walk what came after that
             position, ask again what is named, delete the rest. A writer that keeps a blob, or builds on a stored one, does so
             before (and is seen here) or after (and finds it gone, and stores it anew). So no
             row needs an age. A node may go after its children: a writer takes it that a stored node is whole only below
             the root of a checkpoint that stands (`tree.save`)
    files    in the artifact place without a row, if they were last put before the grace: a put makes its file
             young, and its row follows within twice the store's timeout. Content that is known ahead is pinned
             as well

The remains of a collector that dies are found by the next one. Keeps P1, P11 (one tenant at a time), P15.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from perdure.artifacts import tree
from perdure.errors import Damaged, Invalid
from perdure.model.instants import SECOND_US, duration_us, system_clock
from perdure.model.records.artifacts import CollectReport
from perdure.planes.reading.durations import Duration
from perdure.planes.reading.row_reading import stored_address
from perdure.planes.reading.snapshots import one_state
from perdure.planes.tables import BLOB_PINS
from perdure.stores.blobs import Blobs
from perdure.stores.statements import Statements
from perdure.stores.store import Reads
from perdure.stores.tx import LOG, Tx

Q = Statements("perdure.planes.retention", "collect.sql")

PAGE_ROWS = 500
SWEEP_ROWS = 100  # in one transaction, during which nobody else keeps a blob
_WALK_ATTEMPTS = 3
LEAST_GRACE_US = 60 * SECOND_US  # a write may wait for its turn, and for its commit: each for the usual timeout

T = TypeVar("T")


class ReachedNodes(NamedTuple):
    """The nodes that checkpoints lead to, up to a position of the feed."""

    xid: int
    pos: int
    live: set[bytes]


class Dead(NamedTuple):
    """A blob row that nothing refers to."""

    address: bytes
    size: int


# -- rows ------------------------------------------------------------------------------------------------


def find_dead(reads: Reads) -> tuple[ReachedNodes, list[Dead]]:
    """Mark what is live and list the rest. Damaged when the tree of a checkpoint cannot be walked: then
    nothing may go."""
    marks = patiently(_mark, reads)
    dead = [Dead(bytes(address), size) for _, address, size in _unreferenced(reads)]
    return marks, [blob for blob in dead if blob.address not in marks.live]


def patiently(walk: Callable[..., T], *args: Any) -> T:
    """A file of the place that another collector took while we walk is no damage: then we look again."""
    for _ in range(_WALK_ATTEMPTS - 1):
        try:
            return walk(*args)
        except Damaged:
            continue
    return walk(*args)


@one_state
def _mark(reads: Reads) -> ReachedNodes:
    xid, pos = reads.query(LOG.feed_end)[0]
    roots = reads.query(Q.roots_all, tenant=reads.tenant)
    return ReachedNodes(xid, pos, _reach(reads, roots))


def _reach(reads: Reads, roots: list[tuple[Any, ...]], reached: set[bytes] | None = None) -> set[bytes]:
    return tree.reachable(
        [stored_address(root, "checkpoints.root") for (root,) in roots], reads.fetch, reached or set()
    )


def _unreferenced(reads: Reads) -> Iterator[tuple[int, bytes, int]]:
    after = 0
    while page := reads.query(Q.blobs_unreferenced, tenant=reads.tenant, after=after, limit=PAGE_ROWS):
        yield from page
        after = page[-1][0]


def refresh(reads: Reads, marks: ReachedNodes) -> ReachedNodes:
    """The marks brought up to now: what the sweep has to walk while it has the blobs alone becomes short."""
    xid, pos = reads.query(LOG.feed_end)[0]
    return ReachedNodes(xid, pos, marks.live | patiently(_newer, reads, marks))


@one_state
def _newer(reads: Reads, marks: ReachedNodes) -> set[bytes]:
    roots = reads.query(Q.roots_since, tenant=reads.tenant, xid=marks.xid, pos=marks.pos)
    return _reach(reads, roots, marks.live)


def sweep(tx: Tx, marks: ReachedNodes, dead: Sequence[Dead]) -> list[Dead]:
    """Delete those of these rows that still nothing refers to; returns them. May be run again."""
    tx.claim_blobs()
    needed = marks.live | _newer(tx, marks) | _needed(tx, [blob.address for blob in dead])
    unneeded = [blob for blob in dead if blob.address not in needed]
    tx.drop_blobs([blob.address for blob in unneeded])
    return unneeded


def _needed(reads: Reads, addresses: Collection[bytes]) -> set[bytes]:
    listed = json.dumps([address.hex() for address in addresses])
    return {bytes(needed) for (needed,) in reads.query(Q.blobs_needed, tenant=reads.tenant, addresses=listed)}


def forget_pins(tx: Tx) -> None:
    """Take away the pins of writers that died."""
    for address, holder in tx.query(Q.pins_expired, tenant=tx.tenant, limit=PAGE_ROWS):
        tx.touch(BLOB_PINS, {"address": bytes(address), "holder": holder}, None)


# -- files -----------------------------------------------------------------------------------------------


def least_grace_us(blobs: Blobs) -> int:
    """How old what is put may be when its row is committed: as old as its place leaves it, and as a write may take."""
    return LEAST_GRACE_US + (blobs.place.touch_after_us if blobs.place is not None else 0)


def check_grace(grace: Duration, blobs: Blobs) -> int:
    """A grace in microseconds. Invalid for one that a write may outlast: its content would go, and its reference stay."""
    grace_us, least_us = duration_us(grace, "grace"), least_grace_us(blobs)
    if grace_us < least_us:
        raise Invalid(
            f"a grace of {grace!r} is too short: a file that is still being written would be taken for garbage",
            path="grace", hint=f"{least_us // SECOND_US}s or more",
        )  # fmt: skip
    return grace_us


def cutoff_us(grace: Duration, blobs: Blobs) -> int:
    """Before this instant, on the clock of this machine as files have it, a file without a row is an
    orphan."""
    return system_clock() - check_grace(grace, blobs)


def old_files(blobs: Blobs, tenant: int, before_us: int) -> list[bytes]:
    """The files of a tenant that were last put before that instant. Blocking work."""
    if blobs.place is None:
        return []
    files = blobs.place.addresses(blobs.partition(tenant))
    return [bytes.fromhex(address) for address, put_us in files if put_us < before_us]


def without_row(reads: Reads, addresses: Collection[bytes]) -> list[bytes]:
    """Those of these addresses that have no row, and that nobody is about to give one."""
    orphans = set(addresses) - reads.known(addresses)
    return sorted(orphans - _needed(reads, orphans)) if orphans else []


def delete_files(blobs: Blobs, tenant: int, addresses: Collection[bytes], before_us: int) -> list[bytes]:
    """Delete files, except those that were put again meanwhile; returns what went. Blocking work."""
    place, partition = blobs.place, blobs.partition(tenant)
    assert place is not None
    return [one for one in addresses if place.delete(partition, one.hex(), before_us=before_us)]


def sweep_leftovers(blobs: Blobs, before_us: int) -> int:
    """Remove what writes that died left half-written. Blocking work."""
    return blobs.place.sweep(before_us) if blobs.place is not None else 0


def pages(items: Sequence[T], size: int) -> Iterator[tuple[int, Sequence[T]]]:
    """The items, so many at a time, each time with how many there were up to here."""
    for start in range(0, len(items), size):
        page = items[start : start + size]
        yield start + len(page), page


def report(blobs: Sequence[Dead], files: Collection[bytes], leftovers: int = 0, *, dry_run: bool) -> CollectReport:
    """The report of a collection. The file of a blob that went is counted with the blob."""
    addresses = {blob.address for blob in blobs}
    strays = set(files) - addresses
    return CollectReport(
        blobs=len(blobs),
        bytes=sum(blob.size for blob in blobs),
        files=len(strays),
        leftovers=leftovers,
        addresses=tuple(address.hex() for address in sorted(addresses | strays)),
        dry_run=dry_run,
    )

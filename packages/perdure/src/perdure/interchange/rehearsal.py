"""The rehearsal of an import: the whole bundle goes into an empty store of its own, which is verified and read there.

So a bundle is refused by the code that would complain about it later: the database, `verify`, the verbs behind every listing and
`boot`.
An imported stream can be verified, moved, backed up and shown. Documents come along; other blobs are not needed to tell.
Caller: `bundle_in`. Keeps P10.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec.structs import replace

from perdure.boot.gather import DAMAGED, GatherLimits, gather
from perdure.effects import ledger
from perdure.errors import Damaged, Error
from perdure.interchange import readable
from perdure.log.change import Stream
from perdure.model.filters import OwnMemoryFilters
from perdure.planes.audit.verify import verify_store
from perdure.planes.conversation import emitted, summaries
from perdure.planes.execution import runs, steps, waits
from perdure.planes.memory import memories, values
from perdure.planes.reading.paging import Page
from perdure.planes.recovery import checkpoints
from perdure.stores import schema_upgrade, url
from perdure.stores.core import Core, engine_for
from perdure.stores.store import Reads
from perdure.stores.tx import LOG, Tx

IN_MEMORY_MAX_BYTES = 16 * 1024**2  # of events and documents; more lie in a file
PAGE_ROWS = 500
EVERYTHING = GatherLimits(turns=PAGE_ROWS, memories=PAGE_ROWS, decisions=PAGE_ROWS)
TENANT = "rehearsal"


def rehearse(bring_in: Callable[[Tx], Any], uids: list[str], size: int) -> None:
    """Bring it into a store of its own and look at it there. Damaged names what cannot be stored, verified or read."""
    with _empty_store(size) as core:
        tenant = core.tenant_id(TENANT)
        core.write(bring_in, actor="", tenant=tenant)
        for problem in verify_store(core, blobs=False).problems:
            raise Damaged(problem.message, path=f"{problem.stream} seq {problem.seq or 1}")
        for uid in uids:
            core.read(_read_whole, uid, tenant=tenant)


@contextmanager
def _empty_store(size: int) -> Iterator[Core]:
    with TemporaryDirectory(prefix="perdure-import-") as folder:
        place = "memory:" if size <= IN_MEMORY_MAX_BYTES else f"sqlite:///{Path(folder) / 'rehearsal.db'}"
        engine = engine_for(url.parse(place))
        schema_upgrade.bring_up_to_date(engine)
        core = Core(engine, None, None, 30.0)
        try:
            yield core
        finally:
            core.close()


def _read_whole(reads: Reads, uid: str) -> None:
    """Everything that can be listed of a stream. Of a fork its own part: its past is read with its parent, once."""
    (row,) = reads.query(LOG.stream_by_uid, uid=bytes.fromhex(uid))
    stream = replace(Stream(*row), parent=None)
    try:
        _READ[stream.kind](reads, stream)
        _every(emitted.events, reads, stream)
    except Error as error:
        raise Damaged(
            f"it cannot be shown: {error.message}", path=f"{stream.kind} {stream.name}: {error.path}"
        ) from None


def _session(reads: Reads, stream: Stream) -> None:
    for item in gather(reads, stream, EVERYTHING, remembered=True).items:
        if item.kind == DAMAGED:
            raise Damaged(item.text, path=item.id)
    _memories(reads, stream)
    readable.gather(reads, [stream])
    summaries.covers(reads, stream)
    ledger.all_effects(reads, stream)
    checkpoints.listing(reads, stream, limit=PAGE_ROWS).whole()


def _run(reads: Reads, stream: Stream) -> None:
    runs.run(reads, stream)
    ledger.all_effects(reads, stream)
    waits.waits(reads, stream)
    steps.steps(reads, stream)


def _scope(reads: Reads, stream: Stream) -> None:
    _every(values.entries, reads, stream)
    _memories(reads, stream)


def _memories(reads: Reads, stream: Stream) -> None:
    def page(reads: Reads, stream: Stream, **place: Any) -> Page[Any]:
        return memories.memories(reads, stream, OwnMemoryFilters(status=None, **place))

    _every(page, reads, stream)


_READ = {"session": _session, "run": _run, "scope": _scope}


def _every(verb: Callable[..., Any], reads: Reads, stream: Stream) -> None:
    after: Any = None
    while True:
        page = verb(reads, stream, limit=PAGE_ROWS, **({} if after is None else {"after": after})).whole()
        if page.next is None:
            return
        after = page.next

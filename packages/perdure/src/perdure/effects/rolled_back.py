"""A store that is older than what was done from it: noticed when it is opened, and treated like one that was restored.

Its epoch is raised, so that whatever was planned or dispatched is doubt, and what its runs mean to do anew may have been done
(see docs/guarantees.md, "After a restore"). Called when a store is opened to be written to. Keeps P3, P4.
"""

from __future__ import annotations

import logging

from perdure.stores import schema_upgrade
from perdure.stores.core import Core, Reader
from perdure.stores.rollback_guard import NotedEvent
from perdure.stores.store import NO_TENANT
from perdure.stores.tx import LOG

log = logging.getLogger("perdure.store")


def notice(core: Core) -> bool:
    """Raise the epoch if the store lacks an event that was noted outside of it. Gives whether it was raised. Safe beside other
    processes, of which one raises it, and after a crash.
    """
    with core.rollback_guard.held() as marks:
        missing = [mark for mark in marks if _is_missing(core, mark)]
        if not missing:
            return False
        newest = max(mark.epoch for mark in missing)
        with schema_upgrade.told():
            core.epoch = schema_upgrade.raise_epoch(core.engine, newest)
        core.rollback_guard.forget()
    log.warning(
        "the store is older than what was done from it: it was put back without a restore, and is treated as restored",
        extra={"store": core.uid, "epoch": core.epoch, "events": len(missing)},
    )
    return True


def _is_missing(core: Core, mark: NotedEvent) -> bool:
    """Whether the store should have this event. One of an older epoch may be gone with a restore, which was noticed."""
    return mark.epoch > core.epoch or (mark.epoch == core.epoch and not core.read(_has, mark, tenant=NO_TENANT))


def _has(reads: Reader, mark: NotedEvent) -> bool:
    reads.connection.tenants = [number for (number,) in reads.query(LOG.tenant_numbers)]
    return bool(reads.query(LOG.event_known, uid=mark.stream, seq=mark.seq, hash=mark.hash))

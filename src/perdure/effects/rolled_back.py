"""A store that is older than what was done from it: noticed when it is opened, and treated like one that was restored.

Its epoch is raised, so that whatever was planned or dispatched is doubt, and what its runs mean to do anew may have been done
(see docs/guarantees.md, "After a restore"). Called when a store is opened to be written to. Keeps P3, P4.
"""

from __future__ import annotations

import logging

from perdure.effects import ledger
from perdure.stores import schema_upgrade
from perdure.stores.core import Core
from perdure.stores.store import WHOLE_STORE

log = logging.getLogger("perdure.store")


def notice(core: Core) -> bool:
    """Raise the epoch if the store does not know a dispatch that was made from it. Gives whether it was raised. Safe beside other
    processes, and after a crash: the epoch may then be raised once more, which does no harm.
    """
    with core.rollback_guard.held() as noted:
        unknown = [each for each in noted if not core.read(ledger.knows, *each, tenant=WHOLE_STORE)]
        if not unknown:
            return False
        core.epoch = schema_upgrade.raise_epoch(core.engine)
        core.rollback_guard.forget()
    log.warning(
        "the store is older than what was done from it: it was put back without a restore, and is treated as restored",
        extra={"store": core.uid, "epoch": core.epoch, "dispatches": len(unknown)},
    )
    return True

"""The questions of doors to an open store about its workers, and the store as a worker opens it: see `runtime.worker`."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING

from perdure.effects import rolled_back
from perdure.errors import Invalid
from perdure.handles.opening import keep_views, watch
from perdure.model.lazily import load_all
from perdure.model.limits import KEEP_SECONDS, check_name
from perdure.model.records.workers import StrandedRecord, WorkersRecord
from perdure.planes.execution import workers
from perdure.runtime.callers import AsyncCaller
from perdure.stores.core import open_core

if TYPE_CHECKING:
    from perdure.handles.sync.store import Store

TENANTS_MAX = 64  # of one worker: each has a heartbeat of its own, and is looked at each time
DRIVERS = ("perdure.handles.aio.run", "perdure.handles.sync.run")


def open_for_worker(
    url: str, *, actor: str, tenant: str, lease_seconds: float, keep_seconds: float = KEEP_SECONDS
) -> AsyncCaller:
    """Open a store for a worker, which closes it. lease_seconds: after so long without a heartbeat others take its runs.

    keep_seconds: for so long a result that cannot be recorded is kept and tried again.
    """
    load_all()
    for module in DRIVERS:  # now, not at the first run: code that is replaced meanwhile must not be half loaded
        import_module(module)
    core = open_core(url, lease_seconds=lease_seconds)
    core.keep_seconds = keep_seconds
    try:
        watch(core, None)
        rolled_back.notice(core)
        keep_views(core)
        return AsyncCaller(core, check_name(actor, "actor"), core.tenant_id(check_name(tenant, "tenant")))
    except BaseException:
        core.close()
        raise


def callers_of(caller: AsyncCaller, tenants: Iterable[str]) -> list[AsyncCaller]:
    """Callers of further tenants for a worker's open store, each once. Invalid for more than one worker can serve."""
    core = caller.core
    found = {core.tenant_id(check_name(name, "also-tenant")) for name in tenants} - {caller.tenant}
    if len(found) >= TENANTS_MAX:
        hint = "start further workers for the others"
        raise Invalid(f"a worker serves at most {TENANTS_MAX} tenants", path="also-tenant", hint=hint)
    return [AsyncCaller(core, caller.actor, tenant) for tenant in sorted(found)]


def stranded(store: Store) -> dict[str, StrandedRecord]:
    """Runs, by their ids, that could be taken, and are pinned to a program that no living worker has."""
    return {each.run: each for each in store._caller.read(workers.stranded)}


def tree(store: Store) -> WorkersRecord:
    """The living workers, who runs what since when, and what waits for somebody to take it."""
    caller = store._caller
    return caller.read(workers.tree, caller.core.liveness.is_dead)

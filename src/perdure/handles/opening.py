"""Opening a store, in both colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.handles.callers import AsyncCaller, Caller
from perdure.model.instants import Clock
from perdure.model.limits import check_name
from perdure.stores.core import Core, open_core

if TYPE_CHECKING:
    from perdure.handles.aio.store import AsyncStore
    from perdure.handles.sync.store import Store


def open(  # noqa: A001 - perdure.open is the name that users know
    url: str,
    *,
    actor: str = "me",
    tenant: str = "default",
    clock: Clock | None = None,
    timeout: float = 30.0,
    read_only: bool = False,
    artifacts: str | None = None,
) -> Store:
    """Open a store by its URL; it is made if it is new and brought up to date if it is older.

    actor: who acts; every event names it. timeout: seconds after which a call gives up on a busy or lost database.
    artifacts: where large blobs go (`file:///dir`, `s3://…`); default: beside the SQLite file.
    Raises Invalid, Unavailable, Refused (NewerSchema, ReadOnly) or Damaged; nothing is changed then.
    """
    from perdure.handles.sync.store import Store  # noqa: PLC0415 - only one colour is loaded

    core, tenant_id = _open_core(url, actor, tenant, clock, timeout, artifacts, read_only=read_only)
    return Store(Caller(core, actor, tenant_id), owner=True)


async def aopen(
    url: str,
    *,
    actor: str = "me",
    tenant: str = "default",
    clock: Clock | None = None,
    timeout: float = 30.0,  # noqa: ASYNC109 - the store's deadline, not this coroutine's
    read_only: bool = False,
    artifacts: str | None = None,
) -> AsyncStore:
    """The async twin of `open`."""
    from asyncio import to_thread  # noqa: PLC0415 - only async callers pay for asyncio

    from perdure.handles.aio.store import AsyncStore  # noqa: PLC0415 - as above

    core, tenant_id = await to_thread(
        lambda: _open_core(url, actor, tenant, clock, timeout, artifacts, read_only=read_only)
    )
    return AsyncStore(AsyncCaller(core, actor, tenant_id), owner=True)


def _open_core(
    url: str, actor: str, tenant: str, clock: Clock | None, timeout: float, artifacts: str | None, *, read_only: bool
) -> tuple[Core, int]:
    check_name(actor, "actor")
    check_name(tenant, "tenant")
    core = open_core(url, clock=clock, timeout_seconds=timeout, read_only=read_only, artifacts=artifacts)
    try:
        return core, core.tenant_id(tenant)
    except BaseException:
        core.close()
        raise

"""How handles call verbs: the only two classes of the handles that exist in both colours by hand.

A caller knows the open store, who acts and for which tenant. `write` returns after the commit; `read` sees what is committed;
`work` is for blocking work outside the database (artifact files).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from perdure.stores.core import Core

T = TypeVar("T")


class Caller:
    """Calls verbs and waits for them."""

    __slots__ = ("actor", "core", "tenant")

    def __init__(self, core: Core, actor: str, tenant: int) -> None:
        self.core = core
        self.actor = actor
        self.tenant = tenant

    def write(self, verb: Callable[..., T], *args: Any, pin: str = "", **kwargs: Any) -> T:
        """Run a verb in a transaction of its own."""
        return self.core.write(verb, *args, actor=self.actor, tenant=self.tenant, pin=pin, **kwargs)

    def read(self, verb: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Run a read verb."""
        return self.core.read(verb, *args, tenant=self.tenant, **kwargs)

    def work(self, task: Callable[..., T], *args: Any) -> T:
        """Do blocking work."""
        return task(*args)


class AsyncCaller:
    """Calls verbs without ever blocking the event loop."""

    __slots__ = ("actor", "core", "tenant")

    def __init__(self, core: Core, actor: str, tenant: int) -> None:
        self.core = core
        self.actor = actor
        self.tenant = tenant

    async def write(self, verb: Callable[..., T], *args: Any, pin: str = "", **kwargs: Any) -> T:
        """Run a verb in a transaction of its own."""
        return await self.core.submit(verb, *args, actor=self.actor, tenant=self.tenant, pin=pin, **kwargs)

    async def read(self, verb: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Run a read verb."""
        return await self.core.aread(verb, *args, tenant=self.tenant, **kwargs)

    async def work(self, task: Callable[..., T], *args: Any) -> T:
        """Do blocking work on a thread of the store."""
        return await self.core.awork(task, *args)

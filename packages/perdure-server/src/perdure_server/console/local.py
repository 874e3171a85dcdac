"""A server for one person on one machine: no token in the store, one secret in memory that ends with the process.

Looking at a store with `perdure console` records nothing. Callers: `perdure console`, the tests.
"""

from __future__ import annotations

import hmac

from perdure.errors import Unauthenticated
from perdure.handles.opening import aopen
from perdure.model.ids import random_bytes
from perdure.model.instants import system_clock, to_datetime
from perdure.planes.access.tokens import TokenRecord, TokenRole
from perdure_server.http.serving import Serving, Visitor


class LocalServing(Serving):
    """The open store of one person. `secret` is the only token that opens it, and opens all of it, as the command line does."""

    keeps_tokens = False

    def __init__(self, url: str, *, tenant: str, actor: str) -> None:
        super().__init__(url, tenant=tenant, actor=actor, alone=True)
        self.secret = random_bytes(32).hex()
        self._record = TokenRecord(
            id="console", tenant=tenant, role=TokenRole.ADMIN, actor=actor, made_by=actor,
            made_at=to_datetime(system_clock()), expires_at=None,
        )  # fmt: skip

    async def open(self) -> LocalServing:
        """Open the store; returns itself."""
        self._control = await aopen(self.url, actor=self._actor, tenant=self.tenant)
        return self

    async def identify(self, text: str) -> Visitor:
        """The one person. Unauthenticated for anybody else."""
        if not hmac.compare_digest(text.encode(), self.secret.encode()):
            hint = "`perdure console` prints a link, which works once"
            raise Unauthenticated("this token opens nothing", path="authorization", hint=hint)
        return Visitor(self._record, (await self.store(self.tenant)).as_(self._actor))

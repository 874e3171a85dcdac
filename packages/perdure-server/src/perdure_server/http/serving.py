"""The stores behind the door: which one a token opens, and as whom. Callers: `app`, `perdure serve`.

PostgreSQL holds all tenants in one store. On SQLite a tenant is a file of its own: a URL with `{tenant}` in it serves many, any
other URL serves the one tenant that is named when the server starts. Keeps P11.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from perdure.errors import Error, Invalid, NotFound, Refused, Unauthenticated, Unavailable
from perdure.handles.aio.store import AsyncStore
from perdure.handles.opening import aopen
from perdure.model.limits import LEASE_TTL_SECONDS
from perdure.planes.access import known_tokens, limits, tokens
from perdure.planes.access.known_tokens import KnownTokens
from perdure.planes.access.limits import TenantLimits
from perdure.planes.access.tokens import CONTROL, TokenRecord
from perdure.runtime.callers import AsyncCaller, caller_of
from perdure.runtime.remote import KnownPlaces
from perdure.stores.core import Core
from perdure_server.http.admission import Admission
from perdure_server.http.places import PLACE, check_serves, url_of
from perdure_server.http.pulse import Pulse
from perdure_server.http.token_lookup import SharedGlance, TokenLookup

OPEN_FILES_MAX = 64  # each takes about eight descriptors, and a process mostly has 1,024
NOTED_SECONDS = 3_600.0
LIMITS_SECONDS = 5.0
CLAIMS_MAX = 2_000  # claimed runs of remote workers whose places are kept in mind


_USED: ContextVar[list[str] | None] = ContextVar("tenants that a request uses", default=None)


class Visitor(NamedTuple):
    """The holder of a token, and the store that it opens: bound to the token's tenant, acting in its name."""

    token: TokenRecord
    store: AsyncStore

    @property
    def caller(self) -> AsyncCaller:
        """The caller behind the store, for verbs that no handle has: the one place at which doors take it."""
        return caller_of(self.store)


class Serving:
    """The open stores of a server. tenant: the one that a store in a single file, or with `alone` any store, is served for.

    options: for a tenant, of `perdure.open`.
    lease_seconds: without a sign of life for so long, a remote worker loses its runs.
    """

    keeps_tokens = True  # whether tokens are made and revoked here

    def __init__(
        self, url: str, *, tenant: str = "default", actor: str = "server", alone: bool = False,
        lease_seconds: float = LEASE_TTL_SECONDS, options: Callable[[str], Mapping[str, Any]] = lambda _tenant: {},
    ) -> None:  # fmt: skip
        self.url = url
        self._options = options
        self._lease_seconds = lease_seconds
        self._claims: OrderedDict[tuple[bytes, int], KnownPlaces] = OrderedDict()
        self.tenant = tenant
        self.alone = alone
        self._actor = actor
        self._control: AsyncStore | None = None
        self._stores: OrderedDict[str, AsyncStore] = OrderedDict()
        self._opening = asyncio.Lock()
        self._in_use: Counter[str] = Counter()  # requests under way, by the tenant whose store they use
        self._noted: dict[str, float] = {}
        self._pulses: dict[str, Pulse] = {}
        self._known_limits: dict[str, tuple[float, TenantLimits]] = {}
        self._known_tokens = KnownTokens()
        self._tokens_look = SharedGlance(lambda: self.core.glance(known_tokens.look, tenant=self.control.tenant))
        self._tokens = TokenLookup(lambda texts: self.control.read(self._known_tokens.find_each, texts))
        self.admission = Admission()
        self.draining = False

    # -- opening and closing ---------------------------------------------------------------------------------

    async def open(self) -> Serving:
        """Open the store that holds the tokens; returns itself."""
        self._control = await aopen(
            url_of(self.url, CONTROL), actor=self._actor, tenant=CONTROL, lease=self._lease_seconds
        )
        return self

    def drain(self) -> None:
        """End the streams: their clients come back, to this server's successor. Other requests finish."""
        self.draining = True
        for pulse in self._pulses.values():
            pulse.wake()

    async def close(self) -> None:
        """Let every store go."""
        self.drain()
        stores, self._stores = [*self._stores.values()], OrderedDict()
        for store in (*stores, *([self._control] if self._control is not None else ())):
            await store.close()

    @property
    def control(self) -> AsyncCaller:
        """The caller of the control tenant."""
        assert self._control is not None, "the server was not opened"
        return caller_of(self._control)

    @property
    def core(self) -> Core:
        """The open store that holds the tokens: on PostgreSQL, the one of all tenants."""
        return self.control.core

    def pulse(self, tenant: str, caller: AsyncCaller) -> Pulse:
        """The one who looks for news of a tenant."""
        found = self._pulses.get(tenant)
        if found is None or found.caller.core is not caller.core:
            found = self._pulses[tenant] = Pulse(caller)
        return found

    # -- remote workers ----------------------------------------------------------------------------------------

    def known_places(self, run: bytes, token: int, seq: int) -> KnownPlaces:
        """The places of a claimed run that are known to be taken: a cache, which may be lost at any time."""
        found = self._claims.setdefault((run, token), KnownPlaces(seq))
        self._claims.move_to_end((run, token))
        if len(self._claims) > CLAIMS_MAX:
            self._claims.popitem(last=False)
        return found

    def forget_places(self, run: bytes, token: int) -> None:
        """The journal of a run begins anew, or its claim is over."""
        self._claims.pop((run, token), None)

    # -- who comes ---------------------------------------------------------------------------------------------

    async def identify(self, text: str) -> Visitor:
        """The holder of a token. Unauthenticated if there is none, or it opens nothing here."""
        found = await self._known_token(text) or await self._tokens.find(text)
        try:
            store = await self.store(found.tenant)
        except (Invalid, NotFound, Refused) as error:
            raise Unauthenticated(f"this token opens nothing here: {error.message}", path="authorization") from error
        self.admission.enter(found.tenant, await self.limits_of(found.tenant))
        await self._note(found.id)
        return Visitor(found, store.as_(found.actor))

    async def _known_token(self, text: str) -> TokenRecord | None:
        """The token, if a glance is enough to know that it still opens what it opened."""
        if not self.core.engine.quick_reads:
            return None  # the glance would be a read on a thread, which requests share (`TokenLookup`)
        seen = self._tokens_look.see() or await self.control.glance(known_tokens.look)
        return None if seen is None else self._known_tokens.find(seen, text)

    async def store(self, tenant: str) -> AsyncStore:
        """The store of a tenant, opened when it is first asked for. NotFound for a tenant that is not there."""
        check_serves(self.url, self.tenant, tenant, alone=self.alone)
        async with self._opening:
            store = self._stores.get(tenant)
            if store is None:
                await self._make_room()
                store = self._stores[tenant] = await self._open(tenant)
            self._stores.move_to_end(tenant)
            if (used := _USED.get()) is not None:
                used.append(tenant)
                self._in_use[tenant] += 1
            return store

    async def _make_room(self) -> None:
        """Close the store that was not used for longest, if there are too many. Unavailable if requests use all of them."""
        if len(self._stores) < OPEN_FILES_MAX:
            return
        idle = next((tenant for tenant in self._stores if not self._in_use[tenant]), None)
        if idle is None:
            hint = "come back later; serve some of the tenants elsewhere, or from PostgreSQL"
            raise Unavailable(f"{OPEN_FILES_MAX} tenants are being served, which is the most", path="tenant", hint=hint)
        await self._stores.pop(idle).close()

    @contextmanager
    def request(self) -> Iterator[None]:
        """A request, from its first byte to the last one of its answer: the stores that it uses stay open."""
        used: list[str] = []
        token = _USED.set(used)
        try:
            yield
        finally:
            _USED.reset(token)
            self._in_use.subtract(used)

    async def _open(self, tenant: str) -> AsyncStore:
        if PLACE in self.url:
            chosen = {"lease": self._lease_seconds, **self._options(tenant)}
            store = await aopen(url_of(self.url, tenant), actor=self._actor, tenant=tenant, **chosen)
            caller_of(store).for_client = True
            return store
        core = self.core
        caller = AsyncCaller(core, self._actor, await core.awork(core.tenant_id, tenant), for_client=True)
        return AsyncStore(caller, owner=False)

    async def limits_of(self, tenant: str) -> TenantLimits:
        """The limits of a tenant, read now and then."""
        known = self._known_limits.get(tenant)
        now = time.monotonic()
        if known is None or now - known[0] > LIMITS_SECONDS:
            known = self._known_limits[tenant] = (now, await self.control.read(limits.limits_of, tenant))
        return known[1]

    async def _note(self, name: str) -> None:
        """Write down that a token is in use, now and then: what nobody uses can be revoked."""
        now = time.monotonic()
        if now - self._noted.get(name, -NOTED_SECONDS) < NOTED_SECONDS:
            return
        self._noted[name] = now
        try:
            await self.control.write(tokens.note_use, name)
        except Error:
            self._noted.pop(name, None)  # a store that cannot be written to can still be read

"""Opening a store, for sync and async code."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Coroutine, Generator, Iterable
from reprlib import repr as brief
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from perdure.artifacts.place import place_from_url
from perdure.effects import rolled_back
from perdure.effects.tool import Guard, guards_of
from perdure.errors import Error, Invalid, Refused, Unauthenticated
from perdure.model import siblings
from perdure.model.instants import FIRST_US, LAST_US, Clock
from perdure.model.limits import LEASE_MAX_SECONDS, LEASE_MIN_SECONDS, LEASE_TTL_SECONDS, check_name
from perdure.runtime.callers import AsyncCaller, Caller
from perdure.stores.core import Core, open_core
from perdure.stores.entry_points import files_kind
from perdure.stores.url import parse

if TYPE_CHECKING:
    from perdure.handles.aio.store import AsyncStore
    from perdure.handles.sync.store import Store

C = TypeVar("C", Caller, AsyncCaller)
SCHEMES = ("http", "https")
CONTENT = "content"  # of `telemetry`: what tools get and give goes into spans too
TIMEOUT_MAX_SECONDS = 1_000_000  # the longest time that the timers of every database can hold


class OpenOptions(NamedTuple):
    """The options of `open`, with their defaults."""

    actor: str = "me"
    tenant: str = "default"
    clock: Clock | None = None
    timeout: float = 30.0
    artifacts: str | None = None
    guards: Iterable[Guard] = ()
    lease: float = LEASE_TTL_SECONDS
    keep: float | None = None
    embed: Any = None
    telemetry: bool | str | None = None
    read_only: bool = False


def is_remote(url: object) -> bool:
    """Whether a URL names a server."""
    return isinstance(url, str) and url.partition("://")[0].lower() in SCHEMES


def open(  # noqa: A001 - perdure.open is the name that users know
    url: str,
    *,
    actor: str = "me",
    tenant: str = "default",
    clock: Clock | None = None,
    timeout: float = 30.0,
    read_only: bool = False,
    artifacts: str | None = None,
    guards: Iterable[Guard] = (),
    lease: float = LEASE_TTL_SECONDS,
    keep: float | None = None,
    embed: Any = None,
    telemetry: bool | str | None = None,
    token: str | None = None,
) -> Store:
    """Open a store by its URL. A new store is created; an older one is brought up to date.

        with perdure.open("sqlite:///agent.db", actor="me") as store: ...

    A URL with https (or http on this machine) names a server (`perdure serve`), which `token` or PERDURE_TOKEN opens. The token
    decides actor and tenant, and only `timeout` and `keep` may be given besides (docs/guide/remote.md).

    actor: the person, program or agent that writes; every event names it.
    tenant: the tenant of the store to work in. Nothing of one tenant is visible to another.
    clock: a clock of your own, for tests: a function that gives whole microseconds since 1970.
    timeout: seconds after which a call gives up on a busy or lost database.
    read_only: open it for reading alone; writing raises ReadOnly.
    artifacts: where large blobs go (`file:///dir`, `s3://…`). Default: beside the SQLite file.
    guards: functions of an intent and an actor, asked before any effect is sent. Each returns None, Refuse(…) or
        RequireApproval(…).
    lease: seconds without a sign of life after which others take over the claims of this store; at least one.
    keep: seconds for which the result of an effect, a step or a model is held, and saving it tried again, while the store is
        away or full. Default: ten minutes, or none with a clock of your own.
    embed: a function from a list of texts to a vector for each, for search by meaning. Default: that of the extra `embed`, if
        it is installed; False: none. Writing never calls it.
    telemetry: True sends spans of runs to OpenTelemetry, False does not, "content" adds the arguments and results of tools.
        Default: True if the process has set up a tracer provider.

    Raises Invalid, Unavailable, Refused (NewerSchema, ReadOnly) or Damaged; nothing is changed then.
    """
    from perdure.handles.sync.store import Store  # noqa: PLC0415 - only one colour is loaded

    given = OpenOptions(
        actor=actor, tenant=tenant, clock=clock, timeout=timeout, artifacts=artifacts, guards=guards, lease=lease, keep=keep,
        embed=embed, telemetry=telemetry, read_only=read_only,
    )  # fmt: skip
    if is_remote(url):
        return Store(_remote_caller(Caller, *_connected(url, token, given)), owner=True)
    core, tenant_id = _open_core(url, token, given)
    return Store(Caller(core, actor, tenant_id), owner=True)


def aopen(
    url: str,
    *,
    actor: str = "me",
    tenant: str = "default",
    clock: Clock | None = None,
    timeout: float = 30.0,
    read_only: bool = False,
    artifacts: str | None = None,
    guards: Iterable[Guard] = (),
    lease: float = LEASE_TTL_SECONDS,
    keep: float | None = None,
    embed: Any = None,
    telemetry: bool | str | None = None,
    token: str | None = None,
) -> Opening:
    """Open a store for async code, as `open` does: `async with perdure.aopen(url) as store`, or `store = await
    perdure.aopen(url)`.
    """
    given = OpenOptions(
        actor=actor, tenant=tenant, clock=clock, timeout=timeout, artifacts=artifacts, guards=guards, lease=lease, keep=keep,
        embed=embed, telemetry=telemetry, read_only=read_only,
    )  # fmt: skip
    return Opening(_aopen(url, token, given))


class Opening(Coroutine[Any, Any, "AsyncStore"]):
    """A store that is being opened: await it, or enter it, once. In every other respect it is a coroutine. A cancelled opening
    leaves nothing open.
    """

    __slots__ = ("_opening", "_store")

    def __init__(self, opening: Coroutine[Any, Any, AsyncStore]) -> None:
        self._opening = opening
        self._store: AsyncStore | None = None

    def __await__(self) -> Generator[Any, Any, AsyncStore]:
        return self._opening.__await__()

    async def __aenter__(self) -> AsyncStore:
        self._store = await self._opening
        return self._store

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._store is not None:
            await self._store.close()

    def send(self, value: Any, /) -> Any:
        """As of every coroutine."""
        return self._opening.send(value)

    def throw(self, *error: Any) -> Any:
        """As of every coroutine."""
        return self._opening.throw(*error)

    def close(self) -> None:
        """As of every coroutine."""
        self._opening.close()


async def _aopen(url: str, token: str | None, given: OpenOptions) -> AsyncStore:
    from asyncio import to_thread  # noqa: PLC0415 - only async callers pay for asyncio

    from perdure.handles.aio.store import AsyncStore  # noqa: PLC0415 - as above

    if is_remote(url):
        return AsyncStore(_remote_caller(AsyncCaller, *await to_thread(_connected, url, token, given)), owner=True)
    handover = _Handover()

    def opened() -> tuple[Core, int]:
        return handover.give(*_open_core(url, token, given))

    try:
        core, tenant_id = await to_thread(opened)
    except BaseException:
        handover.leave()
        raise
    return AsyncStore(AsyncCaller(core, given.actor, tenant_id), owner=True)


class _Handover:
    """A store on its way from the thread that opens it: if nobody waits any more (cancelled), the last one closes it."""

    __slots__ = ("_core", "_left", "_mutex")

    def __init__(self) -> None:
        self._core: Core | None = None
        self._left = False
        self._mutex = Lock()

    def give(self, core: Core, tenant_id: int) -> tuple[Core, int]:
        """It is open."""
        with self._mutex:
            self._core = core
            left = self._left
        if left:
            core.close()
        return core, tenant_id

    def leave(self) -> None:
        """Nobody will take it. Nothing was written through it, so closing it takes no time."""
        with self._mutex:
            self._left = True
            core = self._core
        if core is not None:
            core.close()


def _open_core(url: str, token: str | None, given: OpenOptions) -> tuple[Core, int]:
    actor, tenant, clock, timeout, artifacts, guards, lease, keep, embed, telemetry, read_only = given
    check_name(actor, "actor")
    check_name(tenant, "tenant")
    _check_seconds(timeout, "timeout", TIMEOUT_MAX_SECONDS)
    _check_seconds(lease, "lease", LEASE_MAX_SECONDS, LEASE_MIN_SECONDS)
    _check_keep(keep)
    _check_clock(clock)
    check_artifacts(artifacts)
    check_artifacts(parse(url).artifacts, "store.artifacts")
    if token is not None:
        raise Invalid(
            "a token opens a server, and this URL names no server", path="token", hint="https://…, or leave it out"
        )
    asked = guards_of(guards)
    if embed is not None and embed is not False and not callable(embed):
        hint = "a function from a list of texts to a vector for each"
        raise Invalid(f"expected a function, got {type(embed).__name__}", path="embed", hint=hint)
    core = open_core(
        url, clock=clock, timeout_seconds=timeout, read_only=read_only, artifacts=artifacts, lease_seconds=lease
    )
    core.guards = asked
    core.embed = embed
    core.keep_seconds = core.keep_seconds if keep is None else keep
    try:
        if not read_only:
            watch(core, telemetry)
            rolled_back.notice(core)
            keep_views(core)
        return core, core.tenant_id(tenant)
    except BaseException:
        core.close()
        raise


def _check_clock(clock: Any) -> None:
    """Invalid for a clock that no event can be dated by. It is read once, before anything is made."""
    now = clock() if callable(clock) else clock
    if clock is None or (callable(clock) and type(now) is int and FIRST_US <= now <= LAST_US):
        return
    hint = "a function without arguments, such as lambda: time.time_ns() // 1_000"
    message = f"expected a clock that gives whole microseconds since 1970, got {brief(now)}"
    raise Invalid(message, path="clock", hint=hint)


def _connected(url: str, token: str | None, given: OpenOptions) -> tuple[Core, str]:
    """The store of a server, as its core, and the actor of the token. Invalid for options that only the server can have."""
    _check_seconds(given.timeout, "timeout", TIMEOUT_MAX_SECONDS)
    _check_keep(given.keep)
    for name, value in given._asdict().items():
        if name not in ("timeout", "keep") and value != OpenOptions._field_defaults[name]:
            hint = "the token decides actor and tenant; the server has the rest"
            raise Invalid(f"{name} cannot be chosen for a server", path=name, hint=hint)
    text = os.environ.get("PERDURE_TOKEN", "") if token is None else token
    if type(text) is not str or not text or not text.isascii() or not text.isprintable():
        raise Unauthenticated("a token is needed", path="token", hint="perdure.open(url, token=…), or PERDURE_TOKEN")
    from perdure.remote.core import connect  # noqa: PLC0415 - nobody else pays for it

    core = connect(url, text, given.timeout)
    core.keep_seconds = core.keep_seconds if given.keep is None else given.keep
    found: Any = core  # it stands where a core stands: callers and handles ask it for no more than it has
    return found, core.actor


def _remote_caller(kind: type[C], core: Core, actor: str) -> C:
    from perdure.remote.core import RemoteHeartbeat  # noqa: PLC0415 - as above

    return kind(core, actor, 0, RemoteHeartbeat(core, actor))


def watch(core: Core, telemetry: bool | str | None) -> None:
    """Let OpenTelemetry see the store, if that is asked for, or, unasked, if this process has set it up already."""
    if telemetry not in (None, True, False, CONTENT):
        raise Invalid(f"expected True, False or {CONTENT!r}, got {telemetry!r}", path="telemetry")
    if telemetry is False or (telemetry is None and "opentelemetry.trace" not in sys.modules):
        return
    observers = siblings.declared(siblings.OBSERVERS)
    if telemetry and not observers:
        raise Refused("telemetry needs an extra", path="telemetry", hint="pip install 'perdure[telemetry]'")
    for observer in observers.values():
        observer.load().observe(core, asked=bool(telemetry), content=telemetry == CONTENT)


def keep_views(core: Core) -> None:
    """A files store has pages for people beside it, kept by whoever writes; other stores have none."""
    if parse(core.engine.url).log_folder is not None:
        files_kind().keep_pages(core)


def _check_seconds(seconds: object, path: str, most: float, least: float = 0) -> None:
    number = seconds if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) else math.nan
    if not (0 < number <= most and number >= least):
        above = f"at least {least}" if least else "positive"
        raise Invalid(f"expected a number of seconds, {above} and at most {most}, got {seconds!r}", path=path)


def _check_keep(keep: float | None) -> None:
    if keep:  # none at all is allowed
        _check_seconds(keep, "keep", LEASE_MAX_SECONDS)


def check_artifacts(place: str | None, path: str = "artifacts") -> None:
    """Refuse a place that makes no sense before a database is made for it. Nothing is contacted."""
    if place is None:
        return
    try:
        place_from_url(place)
    except Error as error:
        error.path = path
        raise

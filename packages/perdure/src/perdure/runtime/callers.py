"""Callers: they run verbs for the handles, written by hand for sync and for async.

A caller knows the open store, the actor and the tenant. `write` returns after the commit, `read` sees what is committed, and
`work` is for blocking work outside the database (artifact files).
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, Protocol, Self, TypeVar

from perdure.errors import ReadOnly, Refused
from perdure.log.change import Stream
from perdure.model.limits import CHECK_SECONDS
from perdure.planes.reading.durations import Duration
from perdure.planes.recovery import locks, presence
from perdure.runtime import fences
from perdure.runtime.heartbeat import Heartbeat
from perdure.runtime.patience import AsyncPatience, Patience
from perdure.stores.core import Core, Reader
from perdure.stores.job import Job
from perdure.stores.tx import Tx

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")
P = ParamSpec("P")
Args = tuple[Any, ...]  # of a verb, passed on as they are: unpacking them at every step would cost as much as a read
Kwargs = dict[str, Any]
Check = Callable[[], None]


class Road(Protocol):
    """The way of a job to its outcome: the lane, a transaction that is open, or nowhere."""

    def run(self, job: Job, /) -> Any:
        """Run it, and wait."""
        ...

    def submit(self, job: Job, /) -> Awaitable[Any]:
        """Run it for an async caller."""
        ...


class _Calling:
    """The part that both have: the open store, the actor, the tenant, the heartbeat, and the locks that are held.

    for_client: this store is a server, and a program elsewhere claims and sends by it, which its death says nothing about.
    """

    __slots__ = ("actor", "core", "for_client", "heartbeat", "road", "tenant")

    def __init__(
        self, core: Core, actor: str, tenant: int, heartbeat: Heartbeat | None = None, *, for_client: bool = False
    ) -> None:
        self.core = core
        self.road = self._road()
        self.actor = actor
        self.tenant = tenant
        self.heartbeat = heartbeat or Heartbeat(core, actor, tenant)
        self.for_client = for_client

    def _road(self) -> Road:
        return self.core.lane

    @property
    def holder(self) -> str:
        """The name in which tasks are claimed, and effects dispatched that the caller carries out itself."""
        return presence.client_of(self.core.holder) if self.for_client else self.core.holder

    def hold(self, claim: Hashable) -> None:
        """Keep the heartbeat up for a claim. A client's claim lasts for its own time: nobody beats for it."""
        if not self.for_client:
            self.heartbeat.hold(claim)

    def acting_as(self, actor: str) -> Self:
        """This caller, for another actor."""
        return type(self)(self.core, actor, self.tenant, self.heartbeat, for_client=self.for_client)

    def fenced(self, verb: Callable[Concatenate[Tx, P], T]) -> Callable[Concatenate[Tx, P], T]:
        """The verb, fenced by the locks that the running code is inside of."""
        if not fences.INSIDE.get():
            return verb
        held = fences.around(self.core)
        return partial(locks.fenced, held, verb) if held else verb

    def enter(self, fence: locks.Fence) -> fences.LockBlock | None:
        """The running code holds this lock from here on."""
        return fences.enter(self.core, fence)

    def check_may_send(self) -> None:
        """Refused where nothing can be sent. A write through this caller is durable when it returns, so the effect that it
        announces may be sent.
        """
        self.check_may_drive()

    def check_may_drive(self) -> None:
        """Refused where no run can be driven, and nothing sent: over a network."""
        if not self.core.acts:
            hint = "`store.start` leaves a run to the workers: `perdure worker MODULE` where the store lies"
            raise Refused("runs are not driven, and tools not called, over the network", path="store", hint=hint)

    def check_may_search(self) -> None:
        """Pass: everything that is committed can be searched. A caller inside a transaction refuses."""


class Caller(_Calling):
    """Calls verbs and waits for them."""

    __slots__ = ()

    def run(self, verb: Callable[..., T], args: Args, kwargs: Kwargs, pin: str) -> T:
        """Run a verb in a transaction of its own: whatever is written through a caller goes this way."""
        return self.road.run(Job(verb, args, kwargs, self.actor, self.tenant, pin))

    def write(self, verb: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a write verb, as a call."""
        return self.run(verb, args, kwargs, "")

    def write_in(self, stream: Stream, verb: Callable[..., T], args: Args, kwargs: Kwargs, pin: str = "") -> T:
        """Run a verb on a stream. The first one in a session also writes down, in its commit, that this
        store attends it.
        """
        heartbeat = self.heartbeat
        if stream.id in heartbeat.attended or stream.kind != "session":
            return self.road.run(Job(verb, (stream, *args), kwargs, self.actor, self.tenant, pin))
        about = (stream, verb, self.core.holder, not heartbeat.begun)
        try:
            result = self.run(presence.attending, (*about, *args), kwargs, pin)
        except Exception:
            raise
        except BaseException:  # interrupted or cancelled: it may be committed all the same
            heartbeat.attend(stream)
            raise
        heartbeat.attend(stream)
        return result

    def read(self, verb: Callable[Concatenate[Reader, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a read verb."""
        return self.core.read(verb, *args, tenant=self.tenant, **kwargs)

    def work(self, task: Callable[..., T], *args: Any) -> T:
        """Do blocking work."""
        return self.core.work(task, *args)

    def finish(self, task: Callable[..., T], *args: Any) -> T:
        """Do blocking work that must not be left in the middle."""
        return self.core.work(task, *args)

    def pause(self, seconds: float, check: Check | None = None) -> None:
        """Wait before another attempt. check: looked at meanwhile; raises when this caller is to wait no longer."""
        if check is None:
            time.sleep(seconds)
            return
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            check()
            time.sleep(min(left, CHECK_SECONDS))
        check()

    def patience(self, wait: Duration | None, path: str = "wait", run: str | None = None) -> Patience:
        """How long to wait for what others do, and when to look again. run: for that run alone."""
        return Patience(self, wait, path, self.core.listen(run), time.monotonic)

    def until(self, future: Future[T], check: Check) -> T:
        """Wait for a future that another caller completes. check: as for `pause`."""
        while True:
            with suppress(TimeoutError):
                return future.result(CHECK_SECONDS)
            check()


class AsyncCaller(_Calling):
    """Calls verbs without ever blocking the event loop."""

    __slots__ = ()

    def run(self, verb: Callable[..., T], args: Args, kwargs: Kwargs, pin: str) -> Awaitable[T]:
        """Run a verb in a transaction of its own: whatever is written through a caller goes this way."""
        return self.road.submit(Job(verb, args, kwargs, self.actor, self.tenant, pin))

    async def write(self, verb: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a write verb, as a call."""
        return await self.run(verb, args, kwargs, "")

    async def write_in(self, stream: Stream, verb: Callable[..., T], args: Args, kwargs: Kwargs, pin: str = "") -> T:
        """Run a verb on a stream; see `Caller.write_in`."""
        heartbeat = self.heartbeat
        if stream.id in heartbeat.attended or stream.kind != "session":
            return await self.road.submit(Job(verb, (stream, *args), kwargs, self.actor, self.tenant, pin))
        about = (stream, verb, self.core.holder, not heartbeat.begun)
        try:
            result = await self.run(presence.attending, (*about, *args), kwargs, pin)
        except Exception:
            raise
        except BaseException:  # interrupted or cancelled: it may be committed all the same
            heartbeat.attend(stream)
            raise
        heartbeat.attend(stream)
        return result

    async def read(self, verb: Callable[Concatenate[Reader, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a read verb."""
        return await self.core.aread(verb, *args, tenant=self.tenant, **kwargs)

    async def borrow(self, verb: Callable[Concatenate[Reader, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a quick read verb on the connection that writes, where a server would else hold another one for an idle process."""
        assert not kwargs, "as for `glance`"
        return await self.core.aborrow(verb, *args, tenant=self.tenant)

    async def glance(self, verb: Callable[Concatenate[Reader, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a read verb that finds something small by its key: cheaper than `read`, where that can be (`stores.glances`)."""
        assert not kwargs, "a glance is known by its positional arguments"
        return await self.core.aglance(verb, *args, tenant=self.tenant)

    async def work(self, task: Callable[..., T], *args: Any) -> T:
        """Do blocking work on a thread of the store."""
        return await self.core.awork(task, *args)

    async def finish(self, task: Callable[..., T], *args: Any) -> T:
        """Do blocking work that must not be left in the middle: a caller that is cancelled hears of that when it is done. On a
        thread of the event loop, because those of the store may be busy.
        """
        from asyncio import CancelledError, get_running_loop, shield, wait  # noqa: PLC0415 - as below

        doing = get_running_loop().run_in_executor(None, self.core.work, task, *args)
        try:
            return await shield(doing)
        except CancelledError:
            while not doing.done():
                with suppress(CancelledError):  # once more: it is raised below
                    await wait([doing])
            raise

    async def pause(self, seconds: float, check: Check | None = None) -> None:  # noqa: ARG002 - a task is cancelled
        """Wait before another attempt."""
        from asyncio import sleep  # noqa: PLC0415 - only async callers pay for asyncio

        await sleep(seconds)

    def patience(self, wait: Duration | None, path: str = "wait", run: str | None = None) -> AsyncPatience:
        """How long to wait for what others do, and when to look again. run: for that run alone."""
        return AsyncPatience(self, wait, path, self.core.listen(run), time.monotonic)

    async def until(self, future: Future[T], check: Check) -> T:  # noqa: ARG002 - as above
        """Wait for a future that another caller completes."""
        from asyncio import wrap_future  # noqa: PLC0415 - as above

        return await wrap_future(future)


class _Past:
    """The road of whoever reads the past: nothing is written there."""

    def run(self, _: Job) -> NoReturn:
        """Refuse."""
        raise ReadOnly("the past can only be read", hint="fork the session there and continue in the fork")

    submit = run


class FrozenCaller(Caller):
    """Calls read verbs on the past; whatever would write is refused."""

    __slots__ = ()

    def _road(self) -> Road:
        return _Past()


class AsyncFrozenCaller(AsyncCaller):
    """Calls read verbs on the past; whatever would write is refused."""

    __slots__ = ()

    def _road(self) -> Road:
        return _Past()


# -- the one seam -----------------------------------------------------------------------------------------------------


C_co = TypeVar("C_co", covariant=True)


class _Calls(Protocol[C_co]):
    """A handle."""

    @property
    def _caller(self) -> C_co: ...


class _OnStream(Protocol):
    """A handle on one stream."""

    @property
    def _stream(self) -> Stream: ...


def caller_of(handle: _Calls[C_co]) -> C_co:
    """The caller behind a handle, for doors, adapters, importers and contracts that run verbs of their own."""
    return handle._caller


def stream_of(handle: _OnStream) -> Stream:
    """The stream that a handle is on, for the same."""
    return handle._stream

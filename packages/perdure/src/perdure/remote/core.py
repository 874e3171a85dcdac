"""An open store on a server: stands where `stores.core.Core` stands, so that callers and handles are the ordinary ones.

A verb is not run here: the route that serves it is asked (`asking.ANSWERED`), and its answer is what the verb returns. Verbs that
no route serves are Refused, with where to do it. Callers: `opening`; the callers of the handles. See docs/decisions/0059.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from inspect import isgenerator
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

from perdure.artifacts.local import save_file
from perdure.boot import checking
from perdure.effects.commands import carried
from perdure.errors import Damaged, ReadOnly, Refused
from perdure.log.change import Stream
from perdure.model.limits import KEEP_SECONDS
from perdure.planes.conversation import artifacts
from perdure.remote import rows, verbs
from perdure.remote.answers import DAMAGED, Visited, read_answer
from perdure.remote.asking import ANSWERED, AlreadyKnown, RouteRequest, acts_as, get, under_a_key, unsettled
from perdure.remote.connection import Connections
from perdure.remote.elsewhere import elsewhere
from perdure.remote.listening import StoreNews
from perdure.runtime.heartbeat import Heartbeat
from perdure.runtime.patience import News
from perdure.stores.job import Job

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

T = TypeVar("T")
THREADS = 32  # of async callers, each with a request under way
TRAVELS = ("/v1/sessions/", "/v1/scopes/", "/v1/runs/")
NO_CONTENT = 204
LOCAL = (save_file, artifacts.next_piece, checking.observed)  # work on files of this machine

_ = verbs, rows  # their modules enter what they answer


class RemoteEngine(NamedTuple):
    """The part of an engine that handles show."""

    url: str


class RemoteCore:
    """A store on a server. at: the moment of the past that it shows; None: as it is."""

    acts = False
    holder = ""
    guards = ()
    clock_moves = True

    def __init__(self, connections: Connections, url: str, who: Visited, at: str | None = None) -> None:
        self._connections = connections
        self._threads: ThreadPoolExecutor | None = None
        self._mutex = Lock()
        self.moment = at
        self.who = who
        self.actor = who.actor
        self.engine = RemoteEngine(url)
        self.epoch = who.epoch
        self.uid = who.store
        self.lane = RemoteLane(self)
        self.liveness = RemoteLiveness()
        self.blobs = RemoteBlobs()
        self.keep_seconds = KEEP_SECONDS
        self.kept_since: list[float] = []
        self._news = StoreNews(connections)

    def __getattr__(self, name: str) -> NoReturn:
        """Refused: the other parts of an open store are where the store lies."""
        if name.startswith("__"):
            raise AttributeError(name)
        raise elsewhere(name)

    def __reduce__(self) -> NoReturn:
        hint = "open it there by its URL, and find the session or run by its name"
        raise Refused("an open store belongs to its process and cannot be pickled", path="store", hint=hint)

    def past(self, moment: str) -> RemoteCore:
        """This store, for reading at a moment."""
        return RemoteCore(self._connections, self.engine.url, self.who, moment)

    # -- the ways in ---------------------------------------------------------------------------------------------

    def ask(self, verb: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        """The answer of a verb. Refused if no route serves it."""
        answering = ANSWERED.get(verb)
        if answering is None:
            raise elsewhere(verb)
        found: Any = answering(*args, **kwargs)
        if isinstance(found, AlreadyKnown):
            return found.value
        if isinstance(found, RouteRequest):
            return self.send(found)
        assert isgenerator(found)
        answer: Any = carried(found, self.send)
        return answer

    def send(self, request: RouteRequest) -> Any:
        """Send one request; gives its answer as the record that it is."""
        if self.moment is not None:
            if request.method != "GET":
                raise ReadOnly("the past can only be read", hint="fork the session there and continue in the fork")
            if request.path.startswith(TRAVELS):  # content is the same at every moment
                request = request._replace(query={"at": self.moment, **request.query})
        if request.by:
            acts_as(request.by, self.actor)
        request = under_a_key(request)
        found = self._connections.send(request)
        if found.status == NO_CONTENT:
            return None
        try:
            if request.answer is bytes:
                return found.body
            return read_answer(request.answer, found.body, found.headers.get(DAMAGED))
        except Damaged as error:
            raise unsettled(error, request) from error.__cause__

    def read(self, verb: Callable[..., T], *args: Any, tenant: int, **kwargs: Any) -> T:  # noqa: ARG002 - the token's
        """Ask a read verb."""
        return self.ask(verb, args, kwargs)

    async def aread(self, verb: Callable[..., T], *args: Any, tenant: int, **kwargs: Any) -> T:  # noqa: ARG002 - as above
        """Ask a read verb, for async callers."""
        return await self.on_thread(self.ask, verb, args, kwargs)

    def work(self, task: Callable[..., T], *args: Any) -> T:
        """Blocking work: asked like a verb where it would be done at the store, done here where it is about files here."""
        verb, given, named = (
            (task.func, (*task.args, *args), task.keywords) if isinstance(task, partial) else (task, args, {})
        )
        if getattr(verb, "__self__", None) is not None or verb in LOCAL:
            return task(*args)
        return self.ask(verb, given, dict(named))

    async def awork(self, task: Callable[..., T], *args: Any) -> T:
        """`work`, for async callers."""
        return await self.on_thread(self.work, task, *args)

    async def on_thread(self, task: Callable[..., T], *args: Any) -> T:
        """Do something that waits for the network on a thread of the store."""
        from asyncio import get_running_loop  # noqa: PLC0415 - only async callers pay for asyncio
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - as above

        with self._mutex:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(THREADS, "perdure-remote")
        return await get_running_loop().run_in_executor(self._threads, task, *args)

    def listen(self, run: str | None) -> News:
        """News of this store, or of a run: its server tells them."""
        return self._news.of(run)

    def close(self) -> None:
        """Let the connections go. Calling it again does nothing."""
        self._news.close()
        self._connections.close()
        if self._threads is not None:
            self._threads.shutdown(wait=False)


class RemoteLane:
    """The way in for writing. The token says who acts."""

    def __init__(self, core: RemoteCore) -> None:
        self._core = core

    def run(self, job: Job) -> Any:
        """Ask a write verb. Refused for another actor than the token's."""
        acts_as(job.actor, self._core.actor, "actor")
        return self._core.ask(job.verb, job.args, job.kwargs)

    def submit(self, job: Job) -> Awaitable[Any]:
        """Ask a write verb, for async callers."""
        return self._core.on_thread(self.run, job)


class RemoteLiveness:
    """Proofs of deaths: only the machine of the store has them."""

    def begin(self) -> None:
        """Nothing is held."""

    def is_dead(self, _holder: str) -> bool:
        """Not known here."""
        return False

    def is_held(self, _holder: str) -> bool:
        """The server looks itself."""
        return False


class RemoteBlobs:
    """The content of artifacts goes to the server with them; whatever else is done with it is done where the store lies."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise elsewhere("find_dead")


class Everything:
    """Contains whatever is asked for: sessions are attended by the server."""

    def __contains__(self, _item: object) -> bool:
        return True

    def pop(self, *_: object) -> None:
        """Nothing: as above."""

    discard = pop


class RemoteHeartbeat(Heartbeat):
    """No heartbeat: the server is alive, or answers nothing. It attends sessions itself."""

    def __init__(self, core: Any, actor: str) -> None:
        super().__init__(core, actor, 0)
        self.attended = self.spoken = Everything()  # type: ignore[assignment] - asked for what they contain, and no more
        self.begun = True

    def attend(self, stream: Stream) -> None:
        """Nothing: the server does."""

    def hold(self, claim: Hashable) -> None:
        """Nothing: what the server holds for a client lasts for its own time."""

    def beat(self) -> None:
        """Nothing: the server beats."""

    def prove(self) -> None:
        """Nothing: nobody can prove the death of another machine's process."""

    def close(self) -> None:
        """Nothing is held."""


def connect(url: str, token: str, timeout_seconds: float) -> RemoteCore:
    """Open the store of a server. Raises Unauthenticated, Unavailable, Invalid or Refused."""
    connections = Connections(url, token, timeout_seconds)
    try:
        who = read_answer(Visited, connections.send(get("/v1/whoami", Visited)).body)
    except BaseException:
        connections.close()
        raise
    return RemoteCore(connections, url, who)

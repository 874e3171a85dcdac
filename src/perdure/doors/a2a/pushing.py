"""Push notifications of A2A: a client names an address, and is told there whenever its task changes, whatever restarts.

A configuration is a value in a scope of Perdure's own, together with the state that was told last. So nothing is kept here: the
next server compares each task with what was told of it, and tells the rest. At least once: a server that dies between telling
and writing that down tells it again. Callers: `tasks`, `routes`. Keeps P10 (addresses inside are refused), P11, P15.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from urllib.parse import urlsplit
from urllib.request import Request

import msgspec
from a2a.types import a2a_pb2 as pb
from a2a.utils.push_url_validator import validate_push_notification_url
from google.protobuf import json_format

from perdure.doors.http.serving import Serving
from perdure.errors import Error, Invalid, NotFound
from perdure.handles.aio.run_handle import AsyncRunHandle
from perdure.handles.aio.session import AsyncScope
from perdure.handles.aio.store import AsyncStore
from perdure.model.http_client import NotAnswered, NotSent, exchange
from perdure.model.ids import new_uid
from perdure.model.limits import check_name
from perdure.model.records.values import Entry
from perdure.planes.conversation import feed
from perdure.planes.memory import values

log = logging.getLogger("perdure.a2a")

SCOPE = "a2a/push"
TOKEN = "X-A2A-Notification-Token"  # noqa: S105 - the name of a header
POST_SECONDS = 10.0
POST_THREADS = 16  # a client that does not answer holds one for so long
ANSWER_MAX_BYTES = 64 * 1024
LOOK_SECONDS = 15.0  # between two looks though nothing was written
REST_SECONDS = 0.2  # between two looks though something was
TRIES_MAX = 12  # with doubled pauses: about two hours; then the configuration goes
FIRST_PAUSE_SECONDS = 2.0
CONFIGS_MAX = 10  # of one task
TaskOf = Callable[[AsyncRunHandle], Awaitable[tuple[pb.Task, bool]]]


async def keep(
    store: AsyncStore, config: pb.TaskPushNotificationConfig, *, inside: bool
) -> pb.TaskPushNotificationConfig:
    """Keep a configuration. inside: addresses of this machine are taken. Invalid for an address that is none or not outside."""
    if not (inside and is_loopback(config.url)) and not await validate_push_notification_url(config.url):
        raise Invalid("not a public address", path="url", hint="http:// or https:// and a public host")
    name = check_name(config.id or new_uid().hex(), "id", 100)
    scope = await store.scope(SCOPE)
    others = [each.name for each in await scope.entries(prefix=f"{config.task_id}/")]
    kept = pb.TaskPushNotificationConfig()
    kept.CopyFrom(config)
    kept.id = name
    if len(others) >= CONFIGS_MAX and f"{config.task_id}/{name}" not in others:
        raise Invalid(f"a task has at most {CONFIGS_MAX} of them", path="id", hint="delete one first")
    await scope.set(f"{config.task_id}/{name}", {"config": json_format.MessageToDict(kept), "told": ""})
    return kept


async def kept_of(store: AsyncStore, task: str) -> list[pb.TaskPushNotificationConfig]:
    """The configurations of a task."""
    scope = await store.scope(SCOPE)
    return [_config(each) for each in await scope.entries(prefix=f"{task}/")]


async def drop(store: AsyncStore, task: str, name: str) -> bool:
    """Let a configuration go; whether there was one."""
    return await (await store.scope(SCOPE)).unset(f"{task}/{name}")


def is_loopback(url: str) -> bool:
    """Whether an address is one of this machine, by number: no name is trusted."""
    host = urlsplit(url).hostname or ""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def _config(entry: Entry) -> pb.TaskPushNotificationConfig:
    return json_format.ParseDict(entry.value["config"], pb.TaskPushNotificationConfig(), ignore_unknown_fields=True)


class Pusher:
    """Tells clients of changed tasks, one loop a tenant, from the first time that the tenant is seen until the server drains."""

    def __init__(self, serving: Serving, task_of: TaskOf) -> None:
        self._serving = serving
        self._task_of = task_of
        self._loops: dict[str, asyncio.Task[None]] = {}
        self._threads = ThreadPoolExecutor(POST_THREADS, "perdure-push")  # each begins with its first use
        self._failed: dict[str, tuple[int, float]] = {}  # configurations: failures in a row, and when to try again

    def begin(self, tenant: str) -> None:
        """See to a tenant from now on. Calling it again does nothing."""
        running = self._loops.get(tenant)
        if running is None or running.done():
            self._loops[tenant] = self._serving.in_background(self._follow(tenant))

    async def _follow(self, tenant: str) -> None:
        while not self._serving.draining:
            try:
                store = await self._serving.store(tenant)
                caller = store._caller
                at = await caller.read(feed.end_of)
                await self._look(store)
                await asyncio.sleep(REST_SECONDS)
                await self._serving.pulse(tenant, caller).wait(at, LOOK_SECONDS)
            except NotFound:
                return  # no such tenant
            except Error as error:
                log.warning("push notifications of tenant %s wait: %s", tenant, error)
                await asyncio.sleep(LOOK_SECONDS)

    async def _look(self, store: AsyncStore) -> None:
        """Compare every task that somebody wants to hear of with what was told of it."""
        stream = await store._caller.read(values.find_scope, SCOPE)
        if stream is None:
            return  # nobody ever wanted to hear of anything
        scope = AsyncScope(store._caller, stream)
        async for entry in _all(scope):
            if self._failed.get(entry.name, (0, 0.0))[1] > time.monotonic():
                continue
            try:
                run = await store.run(entry.name.partition("/")[0])
            except NotFound:
                await scope.unset(entry.name)
                continue
            task, over = await self._task_of(run)
            state = f"{pb.TaskState.Name(task.status.state)} {task.status.message.message_id}".rstrip()
            if state != entry.value["told"]:
                await self._tell(scope, entry, task, state, over=over and run.record.ended)

    async def _tell(self, scope: AsyncScope, entry: Entry, task: pb.Task, state: str, *, over: bool) -> None:
        posting = asyncio.get_running_loop().run_in_executor(self._threads, _post, _config(entry), task)
        if not await posting:
            tries = self._failed.get(entry.name, (0, 0.0))[0] + 1
            self._failed[entry.name] = (tries, time.monotonic() + FIRST_PAUSE_SECONDS * 2 ** (tries - 1))
            if tries < TRIES_MAX:
                return
            log.warning("nobody takes the notifications of task %s: they end", task.id)
            over = True
        self._failed.pop(entry.name, None)
        with suppress(Error):  # another server has told it too, or the client has changed it
            if over:
                await scope.unset(entry.name, expect=entry.version)
            else:
                await scope.set(entry.name, {**entry.value, "told": state}, expect=entry.version)


async def _all(scope: AsyncScope) -> AsyncIterator[Entry]:
    after: str | None = None
    while True:
        page = await scope.entries(limit=1_000, after=after)
        for entry in page:
            yield entry
        if page.next is None:
            return
        after = page.next


def _post(config: pb.TaskPushNotificationConfig, task: pb.Task) -> bool:
    """Send a task to the address of a client; whether it took it. No redirect is followed."""
    headers = {"Content-Type": "application/json"} | ({TOKEN: config.token} if config.token else {})
    if config.authentication.scheme and config.authentication.credentials:
        headers["Authorization"] = f"{config.authentication.scheme} {config.authentication.credentials}"
    body = msgspec.json.encode(json_format.MessageToDict(pb.StreamResponse(task=task)))
    try:
        request = Request(config.url, body, headers, method="POST")  # noqa: S310 - its scheme was checked when it was kept
        answer = exchange(request, POST_SECONDS, ANSWER_MAX_BYTES)
    except (NotSent, NotAnswered, ValueError) as error:
        log.info("a notification of task %s failed: %s", task.id, error)
        return False
    return 200 <= answer.status < 300

"""Runs as tasks of A2A: what the protocol asks for, answered from the store. Nothing is kept here, so a restart loses nothing.

    task ↔ run        context ↔ session (or the run)        input-required ↔ an open ask        artifact ↔ the result
    a message sent again (its id) ↔ the key of run or answer    subscribing again ↔ the state now, then what follows in the feed

Workers drive the runs, as always. Callers: `routes`. Keeps P11: a visitor sees the runs of its tenant.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import (
    A2AError,
    ExtendedAgentCardNotConfiguredError,
    InternalError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from google.protobuf import json_format, struct_pb2

from perdure.errors import Conflict, Error
from perdure.handles.aio.run_handle import AsyncRunHandle
from perdure.model.records.runs import ENDED, RunStatus, WaitKind, WaitRecord
from perdure.planes.access import limits
from perdure.planes.conversation import feed
from perdure.planes.execution import requests
from perdure.planes.execution.runs import RunRequest
from perdure.runtime.callers import stream_of
from perdure.verbs.declaring import Right
from perdure_server.http import wire
from perdure_server.http.serving import Serving, Visitor
from perdure_server.http.table import RIGHTS

VISITOR = "perdure.visitor"  # where the request keeps who sends it
KEY = "a2a:"  # before the id of a message, as the key of a run
WAIT_SECONDS = 15.0
BLOCKING_SECONDS = 300.0
STATES = {
    RunStatus.READY: pb.TASK_STATE_SUBMITTED,
    RunStatus.RUNNING: pb.TASK_STATE_WORKING,
    RunStatus.WAITING: pb.TASK_STATE_WORKING,
    RunStatus.PARKED: pb.TASK_STATE_WORKING,  # a person of this store must look; nothing has failed
    RunStatus.COMPLETED: pb.TASK_STATE_COMPLETED,
    RunStatus.FAILED: pb.TASK_STATE_FAILED,
    RunStatus.CANCELLED: pb.TASK_STATE_CANCELED,
}


class StoreTasks(RequestHandler):
    """The tasks of one agent. Each request is answered for the visitor that its context names."""

    def __init__(self, serving: Serving, agent: str) -> None:
        self._serving = serving
        self._agent = agent

    # -- what the protocol asks ------------------------------------------------------------------------------------------

    async def on_message_send(self, params: pb.SendMessageRequest, context: ServerCallContext) -> pb.Task:
        """Begin a run, or answer what one asks; waits until it rests, unless the client does not want that."""
        visitor = _visitor(context)
        run = await self._run_for(visitor, params)
        if params.configuration.return_immediately:
            return (await _look(run))[0]
        last = None
        async for task in self._changes(visitor, run, BLOCKING_SECONDS):
            last = task
        assert last is not None
        return last

    async def on_message_send_stream(
        self, params: pb.SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Any]:
        """As above, told as it goes on."""
        visitor = _visitor(context)
        run = await self._run_for(visitor, params)
        async for update in self._updates(visitor, run):
            yield update

    async def on_subscribe_to_task(
        self, params: pb.SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Any]:
        """The task as it is now, and whatever follows: a client that lost its connection misses nothing."""
        visitor = _visitor(context)
        run = await self._run_of(visitor, params.id)
        task, _ = await task_of(run)
        if task.status.state in _TERMINAL:
            raise UnsupportedOperationError(message=f"task {params.id} is over")
        async for update in self._updates(visitor, run):
            yield update

    async def on_get_task(self, params: pb.GetTaskRequest, context: ServerCallContext) -> pb.Task:
        """A task as it is."""
        visitor = _visitor(context)
        return (await task_of(await self._run_of(visitor, params.id)))[0]

    async def on_list_tasks(self, params: pb.ListTasksRequest, context: ServerCallContext) -> pb.ListTasksResponse:
        """Tasks of this agent, newest first."""
        visitor = _visitor(context)
        size = min(params.page_size or 50, 100)
        try:
            page = await visitor.store.runs(
                agent=self._agent, session=params.context_id or None, limit=size, after=params.page_token or None
            )
        except Error as error:
            raise InvalidParamsError(message=str(error)) from error
        tasks = [(await task_of(run))[0] for run in page]
        return pb.ListTasksResponse(tasks=tasks, next_page_token=page.next or "", page_size=size, total_size=len(tasks))

    async def on_cancel_task(self, params: pb.CancelTaskRequest, context: ServerCallContext) -> pb.Task:
        """Ask a run to end. One that somebody drives ends at its next step."""
        visitor = _visitor(context)
        run = await self._run_of(visitor, params.id)
        _check_right(visitor, Right.WRITE if _is_own(run) else Right.OPERATE)
        try:
            await run.cancel()
        except Conflict as error:
            raise TaskNotCancelableError(message=str(error)) from error
        return (await _look(run))[0]

    async def on_create_task_push_notification_config(self, params: Any, context: ServerCallContext) -> Any:
        """The card says that there are no push notifications; so with the other verbs about them."""
        raise PushNotificationNotSupportedError

    on_get_task_push_notification_config = on_create_task_push_notification_config
    on_list_task_push_notification_configs = on_create_task_push_notification_config
    on_delete_task_push_notification_config = on_create_task_push_notification_config

    async def on_get_extended_agent_card(self, params: Any, context: ServerCallContext) -> Any:
        """There is one card."""
        raise ExtendedAgentCardNotConfiguredError

    # -- taking messages -------------------------------------------------------------------------------------------------

    async def _run_for(self, visitor: Visitor, params: pb.SendMessageRequest) -> AsyncRunHandle:
        """The run that a message begins or goes on with. A message that is sent again changes nothing."""
        message = params.message
        _check_right(visitor, Right.WRITE)
        if params.configuration.HasField("task_push_notification_config"):
            raise PushNotificationNotSupportedError
        if not message.message_id or not message.parts:
            raise InvalidParamsError(message="a message has an id and at least one part")
        try:
            return await (self._answered if message.task_id else self._started)(visitor, message)
        except Error as error:
            raise InvalidParamsError(message=str(error)) from error

    async def _started(self, visitor: Visitor, message: pb.Message) -> AsyncRunHandle:
        request = RunRequest(
            agent=self._agent, args=[_content(message)], kwargs={}, key=f"{KEY}{message.message_id}",
            session=message.context_id or None,
        )  # fmt: skip
        caller, most = visitor.caller, self._serving.admission.runs_limit(visitor.token.tenant)
        stream = await caller.write(limits.start_run, request, caller.core.epoch, most)
        return await visitor.store.run(stream.name)

    async def _answered(self, visitor: Visitor, message: pb.Message) -> AsyncRunHandle:
        """Answer the ask of a task, once for the id of the message. Approvals of effects are for people of this store: no client
        answers them here.
        """
        run = await self._run_of(visitor, message.task_id)
        if not _is_own(run):
            _check_right(visitor, Right.OPERATE)
        key, caller = f"{KEY}{message.message_id}", visitor.caller
        await caller.write(requests.answer_next, stream_of(run), _content(message), visitor.store.actor, key=key)
        return run

    async def _run_of(self, visitor: Visitor, task: str) -> AsyncRunHandle:
        try:
            run = await visitor.store.run(task)
        except Error as error:
            raise TaskNotFoundError(message=f"there is no task {task!r}") from error
        if run.record.agent != self._agent:
            raise TaskNotFoundError(message=f"there is no task {task!r}")
        return run

    # -- telling -----------------------------------------------------------------------------------------------------------

    async def _updates(self, visitor: Visitor, run: AsyncRunHandle) -> AsyncGenerator[Any]:
        """The task, then each change of its status, its artifact before its end."""
        first = True
        async for task in self._changes(visitor, run, None):
            if first:
                first = False
                yield task
                continue
            ids: dict[str, Any] = {"task_id": task.id, "context_id": task.context_id}
            for artifact in task.artifacts:
                yield pb.TaskArtifactUpdateEvent(**ids, artifact=artifact, last_chunk=True)
            yield pb.TaskStatusUpdateEvent(**ids, status=task.status)

    async def _changes(self, visitor: Visitor, run: AsyncRunHandle, seconds: float | None) -> AsyncGenerator[pb.Task]:
        """The task as often as its state changes, until it is over or asks something, or the server drains."""
        caller, seconds_left, last = visitor.caller, seconds, None
        pulse = self._serving.pulse(visitor.token.tenant, caller)
        while True:
            at = await caller.read(feed.end_of)
            task, rests = await _look(run)
            if last is None or (task.status.state, task.status.message) != last:
                last = (task.status.state, task.status.message)
                yield task
            if rests or self._serving.draining or (seconds_left is not None and seconds_left <= 0):
                return
            await pulse.wait(at, WAIT_SECONDS)
            seconds_left = None if seconds_left is None else seconds_left - WAIT_SECONDS


_TERMINAL = frozenset({pb.TASK_STATE_COMPLETED, pb.TASK_STATE_FAILED, pb.TASK_STATE_CANCELED})


def _is_own(run: AsyncRunHandle) -> bool:
    """Whether a run was begun through this door."""
    return str(run.record.key or "").startswith(KEY)


async def _look(run: AsyncRunHandle) -> tuple[pb.Task, bool]:
    """A run as a task, as it is now, and whether it goes on by itself no more."""
    return await task_of(await run.refresh())


async def task_of(run: AsyncRunHandle) -> tuple[pb.Task, bool]:
    """A run as a task, as the handle knows it, and whether it goes on by itself no more."""
    record = run.record
    context = record.session or run.id
    state, message = STATES[record.status], None
    ask = await _open_ask(run) if record.status is RunStatus.WAITING else None
    if ask is not None:
        state = pb.TASK_STATE_INPUT_REQUIRED
        message = _agent_message(run.id, context, f"{run.id}/{ask.seq}", _question(ask))
    elif record.error is not None:
        message = _agent_message(run.id, context, f"{run.id}/error", [pb.Part(text=str(record.error))])
    status = pb.TaskStatus(state=state, message=message)
    status.timestamp.FromDatetime(ask.at if ask is not None else record.ended_at or record.created_at)
    done = record.status is RunStatus.COMPLETED and record.result is not None
    artifacts = [_artifact(record.result)] if done else []
    task = pb.Task(id=run.id, context_id=context, status=status, artifacts=artifacts)
    return task, ask is not None or record.status in ENDED


async def _open_ask(run: AsyncRunHandle) -> WaitRecord | None:
    return next((wait for wait in await run.waits() if wait.kind is WaitKind.ASK), None)


def _visitor(context: ServerCallContext) -> Visitor:
    visitor = context.state.get(VISITOR)
    if not isinstance(visitor, Visitor):
        raise InternalError(message="the request was not let in")
    return visitor


def _check_right(visitor: Visitor, right: Right) -> None:
    if right not in RIGHTS[visitor.token.role]:
        raise A2AError(message=f"the role {visitor.token.role} may not {right}")


def _content(message: pb.Message) -> Any:
    """The argument of a run: the text of a message, or its parts where they are not all text."""
    if all(part.WhichOneof("content") == "text" for part in message.parts):
        return "\n".join(part.text for part in message.parts)
    return [json_format.MessageToDict(part) for part in message.parts]


def _question(ask: WaitRecord) -> list[pb.Part]:
    parts = [pb.Part(text=ask.question)]
    if ask.choices:
        parts.append(_data({"choices": list(ask.choices)}))
    return parts


def _agent_message(task: str, context: str, name: str, parts: list[pb.Part]) -> pb.Message:
    return pb.Message(message_id=name, task_id=task, context_id=context, role=pb.ROLE_AGENT, parts=parts)


def _artifact(result: Any) -> pb.Artifact:
    part = pb.Part(text=result) if isinstance(result, str) else _data(wire.wired(result))
    return pb.Artifact(artifact_id="result", name="result", parts=[part])


def _data(plain: Any) -> pb.Part:
    return pb.Part(data=json_format.Parse(wire.encode(plain), struct_pb2.Value()))

"""A2A, driven by the SDK's own client: tasks are runs, so they outlive the server, and a message sent again changes nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import perdure
from doors.http.serving_kit import LiveServer, bearer, make_token
from perdure.runtime.callers import caller_of

pytest.importorskip("a2a", reason="needs the extra a2a: `make setup` installs it")

import httpx
from a2a.client import ClientConfig, create_client
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import PushNotificationNotSupportedError

from perdure.model.records.workers import About
from perdure.planes.access import limits
from perdure.planes.access.tokens import CONTROL
from perdure.planes.execution import workers
from perdure_server.a2a.routes import routes_of


@perdure.agent
def echo(run: perdure.Run, what: Any) -> str:
    return run.step(str.upper, what)


@perdure.agent(name="a2a-asker")
def asker(run: perdure.Run, what: str) -> dict:
    return {"what": what, "colour": run.ask("which colour?", choices=["red", "blue"])}


@perdure.agent(name="a2a-careful")
def careful(run: perdure.Run, what: str) -> list[str]:
    return [run.ask("Delete the old copy?"), run.ask("Really delete everything?")]


@perdure.agent
def broken(run: perdure.Run, what: str) -> None:
    raise ValueError(what)


@pytest.fixture
def url(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/a.db"


def server(url: str) -> LiveServer:
    return LiveServer(
        url, pages=lambda serving, base: routes_of(serving, ["echo", "a2a-asker", "a2a-careful", "broken"], base)
    )


@contextmanager
def working(url: str, begin: threading.Event | None = None) -> Iterator[None]:
    """Drives every run that is ready, as a worker does, until it is told to stop. begin: not before this is set."""
    stop = threading.Event()

    def work() -> None:
        agents = {"echo": echo, "a2a-asker": asker, "a2a-careful": careful, "broken": broken}
        with perdure.open(url, actor="worker") as store:
            while not stop.wait(0.02):
                if begin is not None and not begin.is_set():
                    continue
                for record in store.runs(status="ready"):
                    try:
                        store._driven(store.run(record.id), agents)
                    except perdure.Error:
                        continue

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)


def talk(
    live: LiveServer, agent: str, token: str, body: Callable[[Any], Awaitable[Any]], *, streaming: bool = True
) -> Any:
    async def run() -> Any:
        async with httpx.AsyncClient(headers=bearer(token), timeout=60) as http:
            config = ClientConfig(httpx_client=http, streaming=streaming)
            client = await create_client(f"{live.address}/a2a/{agent}", config)
            async with client:
                return await body(client)

    return asyncio.run(run())


def message(text: str, name: str, task: str = "") -> pb.SendMessageRequest:
    said = pb.Message(message_id=name, task_id=task, role=pb.ROLE_USER, parts=[pb.Part(text=text)])
    return pb.SendMessageRequest(message=said)


async def everything(stream: Any) -> list[Any]:
    return [each async for each in stream]


def states(told: list[Any]) -> list[int]:
    found = [each.task.status.state if each.HasField("task") else each.status_update.status.state for each in told
             if each.HasField("task") or each.HasField("status_update")]  # fmt: skip
    return [state for at, state in enumerate(found) if at == 0 or state != found[at - 1]]


@pytest.mark.parametrize("streaming", [True, False])
def test_a_task_is_a_run(url, streaming) -> None:
    token = make_token(url, role="writer")
    with server(url) as live, working(url):
        told = talk(
            live,
            "echo",
            token,
            lambda client: everything(client.send_message(message("hi", "m1"))),
            streaming=streaming,
        )
        name = told[0].task.id if told[0].HasField("task") else told[0].status_update.task_id
        task = talk(live, "echo", token, lambda client: client.get_task(pb.GetTaskRequest(id=name)))
    assert states(told)[-1] == pb.TASK_STATE_COMPLETED
    assert task.artifacts[0].parts[0].text == "HI"
    with perdure.open(url) as store:
        assert store.run(name).record.result == "HI"


def test_a_message_that_is_sent_again_begins_no_second_task(url) -> None:
    token = make_token(url, role="writer")
    request = message("hi", "m1")
    request.configuration.return_immediately = True
    with server(url) as live:
        for _ in range(3):
            talk(live, "echo", token, lambda client: everything(client.send_message(request)), streaming=False)
    with perdure.open(url) as store:
        assert len(store.runs()) == 1


def test_a_message_that_is_sent_again_at_the_limit_of_runs_gets_its_task(url) -> None:
    """The run of its key stands: nothing new is asked for. Another message is refused."""
    with perdure.open(url, tenant=CONTROL) as store:
        caller_of(store).write(limits.set_limits, "default", {"runs": 1})

    token = make_token(url, role="writer")

    async def send(client: Any, name: str) -> str:
        request = message("hi", name)
        request.configuration.return_immediately = True
        return (await everything(client.send_message(request)))[0].task.id

    async def work(client: Any) -> None:
        assert await send(client, "m1") == await send(client, "m1")
        with pytest.raises(Exception, match="1 runs are not over, at most 1 may be"):
            await send(client, "m2")

    with server(url) as live:
        talk(live, "echo", token, work, streaming=False)


def test_input_required_is_an_ask_and_outlives_the_server(url) -> None:
    """The server is stopped while the task asks; another one shows the same question, takes the answer, and tells the end."""
    token = make_token(url, role="writer")
    with server(url) as live, working(url):
        told = talk(live, "a2a-asker", token, lambda client: everything(client.send_message(message("paint", "m1"))))
    assert states(told)[-1] == pb.TASK_STATE_INPUT_REQUIRED
    name = told[0].task.id
    with server(url) as live:
        task = talk(live, "a2a-asker", token, lambda client: client.get_task(pb.GetTaskRequest(id=name)))
        assert task.status.message.parts[0].text == "which colour?"
        with working(url):
            told = talk(
                live, "a2a-asker", token, lambda client: everything(client.send_message(message("red", "m2", name)))
            )
        done = talk(live, "a2a-asker", token, lambda client: client.get_task(pb.GetTaskRequest(id=name)))
    assert states(told)[-1] == pb.TASK_STATE_COMPLETED
    assert dict(done.artifacts[0].parts[0].data.struct_value) == {"what": "paint", "colour": "red"}


def test_an_answer_that_is_sent_again_does_not_answer_the_next_question(url) -> None:
    """The repetition is answered with the task as it stands, before the next question is answered and after the end."""
    token = make_token(url, role="writer")

    async def send(client: Any, text: str, name: str, task: str = "") -> pb.Task:
        return (await everything(client.send_message(message(text, name, task))))[-1].task

    async def work(client: Any) -> None:
        begun = await send(client, "tidy", "m1")
        assert begun.status.message.parts[0].text == "Delete the old copy?"
        for _ in range(3):
            told = await send(client, "yes", "m2", begun.id)
            assert told.status.state == pb.TASK_STATE_INPUT_REQUIRED
            assert told.status.message.parts[0].text == "Really delete everything?"
        with pytest.raises(Exception, match="another request"):
            await send(client, "no", "m2", begun.id)
        for name in ("m3", "m3", "m2"):
            done = await send(client, "no" if name == "m3" else "yes", name, begun.id)
            assert done.status.state == pb.TASK_STATE_COMPLETED
        with pytest.raises(Exception, match="asks nothing now"):
            await send(client, "yes", "m4", begun.id)

    with server(url) as live, working(url):
        talk(live, "a2a-careful", token, work, streaming=False)
    with perdure.open(url) as store:
        assert [run.record.result for run in store.runs()] == [["yes", "no"]]
        assert [ask.met_by for ask in store.asks(state="met")] == ["alice", "alice"]


def test_a_client_that_comes_back_misses_nothing(url) -> None:
    """It leaves while the task is submitted, and subscribes again to another server: the state now, then the end."""
    token = make_token(url, role="writer")
    request = message("hi", "m1")
    request.configuration.return_immediately = True
    with server(url) as live:
        told = talk(live, "echo", token, lambda client: everything(client.send_message(request)), streaming=False)
    name = told[0].task.id
    begin = threading.Event()

    async def follow(client: Any) -> list[Any]:
        seen = []
        async for each in client.subscribe(pb.SubscribeToTaskRequest(id=name)):
            seen.append(each)
            begin.set()
        return seen

    with server(url) as live, working(url, begin):
        again = talk(live, "echo", token, follow)
    assert states(again)[0] == pb.TASK_STATE_SUBMITTED
    assert states(again)[-1] == pb.TASK_STATE_COMPLETED
    assert [each.artifact_update.artifact.parts[0].text for each in again if each.HasField("artifact_update")] == ["HI"]


def test_failing_cancelling_and_listing(url) -> None:
    token = make_token(url, role="writer")
    with server(url) as live:
        with working(url):
            told = talk(live, "broken", token, lambda client: everything(client.send_message(message("no", "m1"))))
        assert states(told)[-1] == pb.TASK_STATE_FAILED
        request = message("x", "m2")
        request.configuration.return_immediately = True
        begun = talk(live, "a2a-asker", token, lambda client: everything(client.send_message(request)), streaming=False)
        name = begun[0].task.id
        ended = talk(live, "a2a-asker", token, lambda client: client.cancel_task(pb.CancelTaskRequest(id=name)))
        assert ended.status.state == pb.TASK_STATE_CANCELED
        listed = talk(live, "a2a-asker", token, lambda client: client.list_tasks(pb.ListTasksRequest()))
        assert [task.id for task in listed.tasks] == [name]


def test_there_are_no_push_notifications_and_the_card_says_so(url) -> None:
    """The SDK's client asks all the same, and is told; a message that wants them begins nothing."""
    token = make_token(url, role="writer")
    request = message("hi", "m1")
    request.configuration.task_push_notification_config.url = "https://agents.example.com/told"

    async def configure(client: Any) -> None:
        await client.create_task_push_notification_config(
            pb.TaskPushNotificationConfig(task_id="t", url="https://x.example")
        )

    with server(url) as live:
        card = live.http.get("/a2a/echo/.well-known/agent-card.json").json()
        assert not card["capabilities"].get("pushNotifications")
        for ask in (lambda client: everything(client.send_message(request)), configure):
            with pytest.raises(PushNotificationNotSupportedError):
                talk(live, "echo", token, ask)
    with perdure.open(url) as store:
        assert not store.runs()


def test_strangers_are_kept_out(url, tmp_path) -> None:
    """No token, a wrong one, a viewer who sends, a task of another agent: each refused; the card alone is for everybody."""
    viewer, writer = make_token(url, role="viewer"), make_token(url, role="writer")
    with server(url) as live:
        assert live.http.get("/a2a/echo/.well-known/agent-card.json").json()["name"] == "echo"
        assert live.http.post("/a2a/echo", json={}).status_code == 401
        assert live.http.post("/a2a/echo", json={}, headers=bearer("pdr_x")).status_code == 401
        assert live.http.post("/a2a/nobody", json={}, headers=bearer(writer)).status_code == 404
        assert live.http.post("/a2a/echo", content=b"{", headers=bearer(writer)).json()["error"]
        with pytest.raises(Exception, match="may not write"):
            talk(live, "echo", viewer, lambda client: everything(client.send_message(message("hi", "m1"))))
        with perdure.open(url) as store:
            other = store.start(echo, "x").id
        with pytest.raises(Exception, match="no task"):
            talk(live, "a2a-asker", writer, lambda client: client.get_task(pb.GetTaskRequest(id=other)))


def test_an_agent_that_no_worker_has_is_told_of(url) -> None:
    """`perdure serve --a2a` says so; an agent that a living worker has (the control) is not named."""
    from perdure.cli.options import StoreOptions
    from perdure_server.commands.serve import undriven

    asked = StoreOptions(url, "default", as_json=False, actor="me")
    assert undriven(asked, ("echo", "ecko")) == []  # there is no store, and looking makes none
    with perdure.open(url) as store:
        assert undriven(asked, ("echo", "ecko")) == ["echo", "ecko"]
        caller = caller_of(store)
        caller.core.liveness.begin()
        caller.write(workers.introduce, caller.core.holder, About(pid=1, agents=("echo",), concurrency=1))
        assert undriven(asked, ("echo", "ecko")) == ["ecko"]

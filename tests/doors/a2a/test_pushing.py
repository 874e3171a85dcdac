"""Push notifications: a client is told of its task at its own address, by whichever server there is; nobody else is reached."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import perdure
from doors.http.serving_kit import make_token

pytest.importorskip("a2a", reason="needs the extra a2a: `make setup` installs it")

from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import InvalidParamsError

from doors.a2a.test_a2a import everything, message, server, talk, working
from perdure.doors.a2a import pushing

PATIENCE_SECONDS = 60


class Receiver:
    """The address of a client: what was told there, with its headers. refuses: so many are refused first."""

    def __init__(self, refuses: int = 0) -> None:
        self.told: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                nonlocal refuses
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                refuses -= 1
                if refuses < 0:
                    receiver.told.append(body)
                    receiver.headers.append(dict(self.headers))
                self.send_response(200 if refuses < 0 else 503)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/told"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def states(self) -> list[str]:
        return [each["task"]["status"]["state"] for each in self.told]

    def wait_for(self, state: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while state not in self.states():
            assert time.monotonic() < deadline, self.states()
            time.sleep(0.02)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def url(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/a.db"


def asking(text: str, name: str, to: str, task: str = "") -> pb.SendMessageRequest:
    request = message(text, name, task)
    request.configuration.return_immediately = True
    if to:
        wanted = pb.TaskPushNotificationConfig(id="mine", url=to, token="secret")
        wanted.authentication.scheme, wanted.authentication.credentials = "Bearer", "abc"
        request.configuration.task_push_notification_config.CopyFrom(wanted)
    return request


def send(live: Any, agent: str, token: str, request: pb.SendMessageRequest) -> str:
    told = talk(live, agent, token, lambda client: everything(client.send_message(request)), streaming=False)
    return told[0].task.id


def test_a_client_is_told_by_whichever_server_there_is(url, receiver) -> None:
    """The server that took the address is gone when the task asks, and another one when it ends."""
    token = make_token(url, role="writer")
    with server(url) as live:
        task = send(live, "a2a-asker", token, asking("paint", "m1", receiver.url))
    with server(url) as live, working(url):
        receiver.wait_for("TASK_STATE_INPUT_REQUIRED")
    with server(url) as live:
        send(live, "a2a-asker", token, asking("red", "m2", "", task))
    with server(url), working(url):
        receiver.wait_for("TASK_STATE_COMPLETED")
    last = receiver.told[-1]["task"]
    assert last["artifacts"][0]["parts"][0]["data"] == {"what": "paint", "colour": "red"}
    assert {each["task"]["id"] for each in receiver.told} == {task}
    assert receiver.states().count("TASK_STATE_COMPLETED") == 1
    assert {(each[pushing.TOKEN], each["Authorization"]) for each in receiver.headers} == {("secret", "Bearer abc")}
    with perdure.open(url) as store:
        assert not store.scope(pushing.SCOPE).entries()


def test_what_is_refused_is_told_again(url, monkeypatch) -> None:
    monkeypatch.setattr(pushing, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(pushing, "LOOK_SECONDS", 0.05)
    receiver = Receiver(refuses=2)
    try:
        with server(url) as live, working(url):
            send(live, "echo", make_token(url, role="writer"), asking("hi", "m1", receiver.url))
            receiver.wait_for("TASK_STATE_COMPLETED")
    finally:
        receiver.close()


def test_configurations_are_kept_listed_and_deleted(url, receiver) -> None:
    token = make_token(url, role="writer")
    with server(url) as live:
        task = send(live, "a2a-asker", token, asking("paint", "m1", ""))

        async def all_of_it(client: Any) -> list[list[str]]:
            made = await client.create_task_push_notification_config(
                pb.TaskPushNotificationConfig(task_id=task, id="one", url=receiver.url)
            )
            same = await client.get_task_push_notification_config(
                pb.GetTaskPushNotificationConfigRequest(task_id=task, id="one")
            )
            assert (made.id, same.url) == ("one", receiver.url)
            asked = pb.ListTaskPushNotificationConfigsRequest(task_id=task)
            found = [[each.id for each in (await client.list_task_push_notification_configs(asked)).configs]]
            await client.delete_task_push_notification_config(
                pb.DeleteTaskPushNotificationConfigRequest(task_id=task, id="one")
            )
            return [*found, [each.id for each in (await client.list_task_push_notification_configs(asked)).configs]]

        assert talk(live, "a2a-asker", token, all_of_it) == [["one"], []]


@pytest.mark.parametrize(
    "wrong", ["http://169.254.169.254/latest", "http://10.0.0.1/", "file:///etc/passwd", "http://localhost/"]
)
def test_addresses_inside_are_refused(url, wrong) -> None:
    token = make_token(url, role="writer")
    with server(url) as live:
        task = send(live, "a2a-asker", token, asking("paint", "m1", ""))

        async def create(client: Any) -> None:
            await client.create_task_push_notification_config(
                pb.TaskPushNotificationConfig(task_id=task, id="one", url=wrong)
            )

        with pytest.raises(InvalidParamsError, match="address"):
            talk(live, "a2a-asker", token, create)


def test_control_a_server_that_is_not_on_loopback_takes_no_address_of_its_machine() -> None:
    assert pushing.is_loopback("http://127.0.0.1:9")
    assert not pushing.is_loopback("https://agents.example.com")
    assert not pushing.is_loopback("http://localhost:9"), "a name may mean anything"


def test_nobody_is_told_who_did_not_ask(url, receiver) -> None:
    with server(url) as live, working(url):
        send(live, "echo", make_token(url, role="writer"), asking("hi", "m1", ""))
        send(live, "echo", make_token(url, role="writer"), asking("ho", "m2", receiver.url))
        receiver.wait_for("TASK_STATE_COMPLETED")
    assert {
        each["task"]["artifacts"][0]["parts"][0]["text"] for each in receiver.told if "artifacts" in each["task"]
    } == {"HO"}

"""The feed over HTTP: cut anywhere, nothing is lost and nothing comes twice; after a restore it is 410."""

from __future__ import annotations

import json
import random

import pytest

import perdure
from doors.http.serving_kit import LiveServer, bearer, make_token
from perdure.planes.access import limits
from perdure.planes.access.tokens import CONTROL
from perdure.runtime.callers import caller_of


@pytest.fixture
def url(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/a.db"


def blocks(response):
    """The events of a stream: id and data; data is None for what only moves the position."""
    at, data = None, None
    for line in response.iter_lines():
        if line.startswith("id: "):
            at = line[4:]
        elif line.startswith("data: "):
            data = json.loads(line[6:])
        elif not line:
            yield at, data
            data = None


def test_a_stream_that_is_cut_a_hundred_times_has_everything_once(url) -> None:
    text = make_token(url, role="viewer")
    dice = random.Random(7)
    with perdure.open(url) as store, LiveServer(url) as server:
        session = store.session("s")
        at = start = store.feed_end()
        seen: list[tuple[str, int]] = []
        for _ in range(100):
            for _ in range(dice.randrange(1, 4)):
                session.emit("deploy.step", {"n": 1})
            waiting = len(store.feed(after=at, limit=1000))
            wanted = dice.randrange(waiting) + 1
            with server.stream("/v1/stream", {**bearer(text), "Last-Event-ID": at}) as response:
                for place, event in blocks(response):
                    at = place
                    if event is not None:
                        seen.append((event["uid"], event["seq"]))
                        wanted -= 1
                    if not wanted:
                        break
        rest = [(each.uid, each.seq) for each in store.feed(after=at, limit=1000)]
        everything = [(each.uid, each.seq) for each in store.feed(after=start, limit=1000)]
    assert seen + rest == everything
    assert len(set(seen)) == len(seen) > 90


def test_control_a_client_that_forgets_its_place_loses_or_repeats(url) -> None:
    text = make_token(url, role="viewer")
    with perdure.open(url) as store, LiveServer(url) as server:
        at = store.feed_end()
        store.session("s").emit("deploy.step", {"n": 1})
        seen = []
        for _ in range(2):  # always from the same place
            with server.stream("/v1/stream", {**bearer(text), "Last-Event-ID": at}) as response:
                seen.append(next(event for _, event in blocks(response) if event is not None)["seq"])
    assert seen[0] == seen[1]


def test_what_is_committed_while_somebody_follows_comes(url) -> None:
    text = make_token(url, role="viewer")
    with perdure.open(url) as store, LiveServer(url) as server:
        store.session("s")
        with server.stream("/v1/stream?kinds=deploy.*,x.y&session=s", bearer(text)) as response:
            found = blocks(response)
            next(found)  # it has begun: what is emitted from here on comes
            store.session("other").emit("deploy.no")
            store.session("s").emit("other.kind")
            store.session("s").emit("deploy.yes", {"n": 7})
            event = next(event for _, event in found if event is not None)
    assert (event["kind"], event["data"], event["session"]) == ("deploy.yes", {"n": 7}, "s")


def test_after_a_restore_a_place_of_before_is_gone(url, tmp_path) -> None:
    text = make_token(url, role="viewer")
    with perdure.open(url) as store:
        store.session("s").emit("deploy.step")
        at = store.feed_end()
        store.backup(tmp_path / "a.bak")
    restored = f"sqlite:///{tmp_path}/b.db"
    perdure.restore(tmp_path / "a.bak", restored)
    with LiveServer(restored) as server:
        for path, headers in (("/v1/stream", {"Last-Event-ID": at}), (f"/v1/feed?after={at}", {})):
            answer = server.http.get(path, headers={**bearer(text), **headers})
            assert (answer.status_code, answer.json()["title"]) == (410, "Stale")
            assert answer.json()["hint"]


def test_a_tenant_has_so_many_streams_at_once(url) -> None:
    text = make_token(url, role="viewer")
    with perdure.open(url, tenant=CONTROL) as store:
        caller_of(store).write(limits.set_limits, "default", {"streams": 1})
    with LiveServer(url) as server:
        with server.stream("/v1/stream", bearer(text)) as response:
            found = blocks(response)
            next(found)
            refused = server.http.get("/v1/stream", headers=bearer(text))
        assert (refused.status_code, refused.json()["title"]) == (429, "Limited")
        assert int(refused.headers["retry-after"]) >= 1


def test_a_server_that_ends_lets_its_streams_go(url) -> None:
    text = make_token(url, role="viewer")
    with LiveServer(url) as server, server.stream("/v1/stream", bearer(text)) as response:
        found = blocks(response)
        next(found)
        server.serving.drain()
        assert all(event is None for _, event in found)  # and it ends


@perdure.tool(kind="idempotent")
def send(what: str) -> str:
    return what


@perdure.agent
def shown(run: perdure.Run) -> str:
    run.step(len, "abc")
    run.act(send, "x")
    return run.ask("go on?")


def test_a_run_in_the_form_of_ag_ui(url) -> None:
    """Every event validates by AG-UI's own models, in the order that it asks for; cut after each event, nothing is missing."""
    core = pytest.importorskip("ag_ui.core", reason="needs ag-ui-protocol: `make setup` installs it")
    pydantic = pytest.importorskip("pydantic", reason="as above")
    text = make_token(url, role="viewer")
    with perdure.open(url) as store, LiveServer(url) as server:
        with pytest.raises(perdure.Waiting):
            store.drive(shown, key="k")
        store.answer(next(iter(store.asks())).id, "yes")
        assert store.drive(shown, key="k") == "yes"
        run = next(iter(store.runs())).id
        path, head = f"/v1/stream?run={run}&form=ag-ui", bearer(text)
        said: list[dict] = []
        at = None
        while not said or said[-1]["type"] != "RUN_FINISHED":
            more = {} if at is None else {"Last-Event-ID": at}
            with server.stream(path, {**head, **more}) as response:
                for place, event in blocks(response):
                    if event is not None:
                        said.append(event)
                    if place != at and event is not None:
                        at = place
                        break  # cut after each event of the log
        refused = server.http.get("/v1/stream?form=ag-ui", headers=head)
    assert refused.status_code in (400, 422)
    for event in said:
        pydantic.TypeAdapter(core.Event).validate_python(event)
    assert [event["type"] for event in said] == [
        "RUN_STARTED", "STEP_STARTED", "STEP_FINISHED", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT",
        "CUSTOM", "CUSTOM", "RUN_FINISHED",
    ]  # fmt: skip
    assert said[-1]["result"] == "yes"
    assert len({event["toolCallId"] for event in said if "toolCallId" in event}) == 1

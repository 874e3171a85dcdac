"""A copy whose rows cannot be read (an older Perdure let it in): what people and models look at names them, and goes on (P15)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from click.testing import CliRunner

import perdure
from doors.http.serving_kit import LiveServer, client, make_token
from forged import Members, exported, packed
from interchange.test_bundle_fuzz import filled, with_bodies
from perdure.cli.main import cli
from perdure.interchange import bundle_in
from perdure.planes.memory.search import Results
from perdure.planes.reading.paging import DamagedRow
from perdure.remote.answers import read_answer
from perdure_server.http import wire
from perdure_server.http.app import TABLE
from planes.tampering import Intruder

HURT = frozenset({
    "turn.said", "call.answered", "decision.made", "task.done", "task.blocked", "ask.opened", "run.wait.opened",
    "effect.committed", "effect.dispatched",
})  # fmt: skip


def hurt(events: list[dict[str, Any]]) -> None:
    """Its body goes; the text of a memory stays, so that it is found by its words."""
    for event in events:
        body = event["body"]
        if event["kind"] == "memory.made" and "doc" in body:
            body["doc"]["sources"] = 5
        elif event["kind"] in HURT and body.get("doc") is not None:
            body["doc"] = 5


OWN = frozenset({"session.goal_set", "run.started"})


def own(events: list[dict[str, Any]]) -> None:
    """The goal of a session, and the arguments of a run."""
    for event in events:
        if event["kind"] in OWN and event["body"].get("doc") is not None:
            event["body"]["doc"] = 5


def taken_in(folder: Path, members: Members) -> str:
    """A store that took a bundle without looking at it."""
    (folder / "x.perdure").write_bytes(packed(members))
    url = f"sqlite:///{folder}/a.db"
    with pytest.MonkeyPatch.context() as patch, perdure.open(url) as store:
        patch.setattr(bundle_in, "_rehearse", lambda *_: None)
        store.import_(folder / "x.perdure")
        store.index()  # a store that is only read makes none
    return url


@pytest.fixture(scope="module")
def sound() -> Members:
    return exported(filled, everything=True)


@pytest.fixture(scope="module")
def sound_url(sound: Members, tmp_path_factory: pytest.TempPathFactory) -> str:
    return taken_in(tmp_path_factory.mktemp("sound"), sound)


@pytest.fixture(scope="module")
def url(sound: Members, tmp_path_factory: pytest.TempPathFactory) -> str:
    return taken_in(tmp_path_factory.mktemp("hurt"), with_bodies(sound, hurt))


@pytest.fixture(scope="module")
def own_url(sound: Members, tmp_path_factory: pytest.TempPathFactory) -> str:
    return taken_in(tmp_path_factory.mktemp("own"), with_bodies(sound, own))


@pytest.fixture(scope="module")
def run(sound_url: str) -> str:
    with perdure.open(sound_url, read_only=True) as store:
        return store.runs()[0].id


def test_the_command_line_names_them(url: str, run: str) -> None:
    for command in (["show", "main"], ["show", f"run:{run}"], ["errors"], ["memories"], ["recall", "push"]):
        shown = CliRunner().invoke(cli, [*command, "--store", url])
        assert (shown.exit_code, "damaged  " in shown.output) == (0, True), (command, shown.output)
        told = json.loads(CliRunner().invoke(cli, [*command, "--store", url, "--json"]).stdout)
        assert told["damaged"], command


PAGES = (
    "runs/{run}",
    "sessions/main",
    "sessions/main/turns?before=99",
    "effects",
    "memories",
    "memories?q=push",
)


def test_the_console_and_the_listings_over_http_name_them(url: str, run: str) -> None:
    with client(url) as http:
        for page in PAGES:
            answer = http.get(f"/v1/console/{page.format(run=run)}")
            assert (answer.status_code, bool(answer.json().get("damaged"))) == (200, True), (page, answer.text[:300])
        for listing in ("sessions/main/turns", "sessions/main/decisions", "memories", "effects"):
            answer = http.get(f"/v1/{listing}")
            assert (answer.status_code, bool(answer.json()["damaged"])) == (200, True), (listing, answer.text[:300])
        assert http.get("/v1/sessions/main/transcript").status_code == 500


# -- lists without a page: their header names the rows ------------------------------------------------------------------------

FOUND = ("sessions/main/recall", "scopes/user:alice/recall", "recall", "search")


def found_by(store: perdure.Store) -> list[Any]:
    places = (store.session("main"), store.scope("user:alice"), store)
    return [*(each.recall("push") for each in places), store.search("push")]


def test_a_plain_list_names_them_in_its_header(url: str, sound_url: str) -> None:
    with perdure.open(url, read_only=True) as store:
        local = [msgspec.to_builtins(each.damaged) for each in found_by(store)]
    assert all(local)
    with client(url) as http:
        answers = [http.get(f"/v1/{path}", params={"q": "push"}) for path in FOUND]
    assert [(each.status_code, type(each.json())) for each in answers] == [(200, list)] * len(FOUND)
    assert [json.loads(each.headers[wire.DAMAGED]) for each in answers] == [[*each] for each in local]
    with client(sound_url) as http:  # control: where nothing is left out, nothing is said
        for path in FOUND:
            answer = http.get(f"/v1/{path}", params={"q": "push"})
            assert answer.json(), path
            assert wire.DAMAGED not in answer.headers, path


def test_a_store_on_a_server_names_what_the_store_itself_names(url: str, sound_url: str) -> None:
    for each, is_damaged in ((url, True), (sound_url, False)):
        with perdure.open(each, read_only=True) as store:
            local = [(len(found), found.damaged) for found in found_by(store)]
        with LiveServer(each) as server, perdure.open(server.address, token=make_token(each)) as remote:
            assert [(len(found), found.damaged) for found in found_by(remote)] == local
        assert [bool(damaged) for _, damaged in local] == [is_damaged] * len(FOUND)


@pytest.mark.parametrize("count", [1, 3, 2_000])
@pytest.mark.parametrize("name", ["main", "\U0001f525" * 200, "a\r\nSet-Cookie: x=1\x7f"])
def test_the_header_is_short_and_counts_what_it_does_not_name(count: int, name: str) -> None:
    rows = tuple(DamagedRow(f"session {name} memory {seq}", "the document is a int") for seq in range(count))
    header = wire.damage_of(Results(damaged=rows))[wire.DAMAGED]
    assert len(header) <= wire.DAMAGED_MAX_CHARS
    assert header.isascii()
    assert header.isprintable()
    found = read_answer(Results[DamagedRow], b"[]", header).damaged
    named = sum(row in rows for row in found)
    assert found[:named] == rows[:named]
    assert [row.where for row in found[named:]] == ([f"{count - named} more"] if named < count else [])


def test_no_route_that_leaves_rows_out_is_without_the_header() -> None:
    """The document of the routes says which answers have it; the tests above ask each of them."""
    named = {f"/v1/{path}".replace("/main/", "/{session}/").replace("user:alice", "{scope}") for path in FOUND}
    assert {each.path for each in TABLE if each.names_damage} == named


# -- a session and a run whose own record cannot be read ------------------------------------------------------------------------


def test_the_page_of_a_damaged_session_or_run_names_it(own_url: str, sound_url: str, run: str) -> None:
    pages = {"runs/{run}": "run", "sessions/main": "session"}
    for url, is_damaged in ((own_url, True), (sound_url, False)):
        with client(url) as http:
            for page, record in pages.items():
                answer = http.get(f"/v1/console/{page.format(run=run)}")
                assert answer.status_code == 200, answer.text
                shown = answer.json()
                assert (shown[record] is None, bool(shown["damaged"])) == (is_damaged, is_damaged), page
            for page in (
                "now",
                "inbox",
                "runs",
                "sessions",
                f"runs/{run}/outline",
                f"runs/{run}/events/2",
                f"runs/{run}/at/2",
            ):
                assert http.get(f"/v1/console/{page}").status_code == 200, page
            assert bool(http.get("/v1/console/now").json()["damaged"]) is is_damaged
            assert http.get(f"/v1/runs/{run}").status_code == (500 if is_damaged else 200)
            assert http.get("/v1/console/sessions/nobody").status_code == 404
            assert http.get("/v1/console/runs/nobody").status_code == 404


def test_show_of_a_damaged_session_or_run_names_it(own_url: str, run: str) -> None:
    for name in ("main", f"run:{run}"):
        shown = CliRunner().invoke(cli, ["show", name, "--store", own_url])
        assert (shown.exit_code, "damaged  " in shown.output) == (0, True), shown.output


def test_an_event_that_cannot_be_read_ends_no_listing_over_http(sound: Members, tmp_path: Path, run: str) -> None:
    url = taken_in(tmp_path, sound)
    Intruder(url).run("UPDATE events SET body = x'7b' WHERE kind LIKE 'effect.%' AND body IS NOT NULL")
    with client(url) as http:
        for path in ("events", "sessions/main/events", f"runs/{run}/timeline"):
            answer = http.get(f"/v1/{path}", params={"limit": 1000} if path != f"runs/{run}/timeline" else {})
            assert (answer.status_code, bool(answer.json().get("damaged"))) == (200, True), answer.text[:300]
            assert answer.json()["items"], path
        outline = http.get(f"/v1/console/runs/{run}/outline").json()
        (damaged,) = [n for n, name in enumerate(outline["names"]) if name == "damaged"]
        seq = outline["seq"][outline["about"].index(damaged)]
        for path in (f"runs/{run}/events/{seq}", f"runs/{run}/at/{seq}"):
            assert http.get(f"/v1/console/{path}").json()["damaged"], path
        assert http.get("/v1/console/inbox").status_code == 200
        assert http.get("/v1/feed", params={"limit": 1000}).status_code == 500  # it skips nothing


def test_the_tools_of_models_name_them(url: str) -> None:
    mcp = pytest.importorskip("mcp")
    from perdure_agents.mcp.door import Door
    from perdure_agents.mcp.server import make_server

    async def look() -> None:
        door = Door(url, actor="me", tenant="default", session="main")
        async with mcp.Client(make_server(door)) as talking:
            for tool, args in (("recall", {"query": "push"}), ("open_loops", {})):
                made = await talking.call_tool(tool, args)
                assert not made.is_error, (tool, made.content)
                assert made.structured_content["damaged"], tool
            for name in ("turns", "decisions"):
                page = await talking.read_resource(f"perdure://session/{quote('main')}/{name}")
                assert "damaged" in page.contents[0].text, name
            assert "~~~ damaged" in (await talking.call_tool("boot", {})).structured_content["text"]
        await door.close()

    asyncio.run(look())


@pytest.mark.parametrize("is_damaged", [True, False])
def test_the_list_of_sessions_for_models_names_them(sound: Members, tmp_path: Path, *, is_damaged: bool) -> None:
    mcp = pytest.importorskip("mcp")
    from perdure_agents.mcp.door import Door
    from perdure_agents.mcp.server import make_server

    url = taken_in(tmp_path, sound)
    if is_damaged:
        Intruder(url).run("UPDATE sessions SET status = 'hurt' WHERE name = 'main'")

    async def look() -> Any:
        door = Door(url, actor="me", tenant="default", session="main")
        async with mcp.Client(make_server(door)) as talking:
            page = await talking.read_resource("perdure://sessions")
        await door.close()
        return json.loads(page.contents[0].text)

    assert any("damaged" in each for each in asyncio.run(look())) is is_damaged


def test_the_conversation_itself_has_no_hole(url: str) -> None:
    """A program that continues it would continue another one."""
    with perdure.open(url, read_only=True) as store:
        for read in (store.session("main").turns, store.session("main").transcript, store.session("main").pending):
            with pytest.raises(perdure.Damaged):
                read()

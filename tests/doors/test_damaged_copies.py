"""A copy whose rows cannot be read (an older Perdure let it in): what people and models look at names them, and goes on (P15)."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import quote

import pytest
from click.testing import CliRunner

import perdure
from doors.http.serving_kit import client
from forged import exported, packed
from interchange.test_bundle_fuzz import filled, with_bodies
from perdure.doors.cli.main import cli
from perdure.interchange import bundle_in

HURT = frozenset({
    "turn.said", "call.answered", "decision.made", "task.done", "task.blocked", "ask.opened", "run.wait.opened",
    "effect.committed", "effect.dispatched",
})  # fmt: skip


def hurt(events: list[dict[str, Any]]) -> None:
    """What is said goes; the text of a memory stays, so that it is found by its words."""
    for event in events:
        body = event["body"]
        if event["kind"] == "memory.made" and "doc" in body:
            body["doc"]["sources"] = 5
        elif event["kind"] in HURT and body.get("doc") is not None:
            body["doc"] = 5


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("hurt")
    (folder / "x.perdure").write_bytes(packed(with_bodies(exported(filled, everything=True), hurt)))
    found = f"sqlite:///{folder}/a.db"
    with pytest.MonkeyPatch.context() as patch, perdure.open(found) as store:
        patch.setattr(bundle_in, "_rehearse", lambda *_: None)
        store.import_(folder / "x.perdure")
    return found


@pytest.fixture(scope="module")
def run(url: str) -> str:
    with perdure.open(url, read_only=True) as store:
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


def test_the_tools_of_models_name_them(url: str) -> None:
    mcp = pytest.importorskip("mcp")
    from perdure.doors.mcp.door import Door
    from perdure.doors.mcp.server import make_server

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


def test_the_conversation_itself_has_no_hole(url: str) -> None:
    """A program that continues it would continue another one."""
    with perdure.open(url, read_only=True) as store:
        for read in (store.session("main").turns, store.session("main").transcript, store.session("main").pending):
            with pytest.raises(perdure.Damaged):
                read()

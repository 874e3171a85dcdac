"""The server with the official client: both eras, both transports, every tool; what a model sees of errors and lists."""

from __future__ import annotations

import asyncio
import inspect
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import ElicitResult

import perdure
from doors.mcp.calls import BEFORE, READS, SESSION, WRITES
from perdure_agents.mcp.door import Door, _request_of
from perdure_agents.mcp.server import TOOLS, make_server
from perdure_agents.mcp.server import WRITES as WRITING
from runtime.crew import until

ERAS = ("auto", "legacy")
DESCRIPTION_MAX_BYTES = 2_048


@asynccontextmanager
async def client_of(folder: Path, era: str = "auto", **more: Any) -> AsyncIterator[Client]:
    """A client in the process of its server."""
    door = Door(f"sqlite:///{folder / 'a.db'}", actor="me", tenant="default", session=SESSION)
    try:
        async with Client(make_server(door), mode=era, **more) as client:
            yield client
    finally:
        await door.close()


def talk(folder: Path, work: Callable[[Client], Awaitable[Any]], era: str = "auto", **more: Any) -> Any:
    async def main() -> Any:
        async with client_of(folder, era, **more) as client:
            return await work(client)

    return asyncio.run(main())


async def said(client: Client, tool: str, /, **args: Any) -> dict[str, Any]:
    """What a tool answers; its error is a failure of the test."""
    made = await client.call_tool(tool, args)
    assert not made.is_error, made.content
    assert made.structured_content is not None
    return dict(made.structured_content)


async def refused(client: Client, tool: str, /, **args: Any) -> str:
    made = await client.call_tool(tool, args)
    assert made.is_error
    return made.content[0].text


# -- every tool ------------------------------------------------------------------------------------------------------------


async def every_tool(client: Client) -> None:
    for tool, args in BEFORE:
        await said(client, tool, **args)
    for tool, args in WRITES.items():
        if tool == "effect_settle":  # nothing is in doubt while its sender lives
            assert "Next:" in await refused(client, tool, **args, key=f"{tool}-1")
        elif tool == "close":  # decision 2 was superseded before
            assert "superseded" in await refused(client, tool, **args, key=f"{tool}-1")
        elif tool == "move":
            assert "Next:" in await refused(client, tool, **args, key="without-token")
            assert (await said(client, tool, **args, token=1, key=f"{tool}-1"))["task"]["status"] == "done"
        else:
            assert (await said(client, tool, **args, key=f"{tool}-1"))["next"]
    for tool, args in READS.items():
        assert (await said(client, tool, **args))["next"]


def test_the_calls_are_of_all_tools() -> None:
    assert {*READS, *WRITES} == {*TOOLS}
    assert {*WRITES} == {*WRITING}


@pytest.mark.parametrize("era", ERAS)
def test_every_tool_in_one_process(tmp_path: Path, era: str) -> None:
    talk(tmp_path, every_tool, era)


def server_command(folder: Path, *words: str) -> list[str]:
    store = f"sqlite:///{folder / 'a.db'}"
    return [sys.executable, "-m", "perdure", "mcp", "--store", store, "--session", SESSION, *words]


@pytest.mark.parametrize("era", ERAS)
def test_every_tool_over_stdio(tmp_path: Path, era: str) -> None:
    command, *args = server_command(tmp_path)

    async def main() -> None:
        server = stdio_client(StdioServerParameters(command=command, args=args, env=dict(os.environ), cwd=tmp_path))
        async with Client(server, mode=era) as client:
            await every_tool(client)

    asyncio.run(main())


def is_open(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def listening(folder: Path) -> Iterator[str]:
    """A server on a port of its own; ended by its id."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = server_command(folder, "--http", "--port", str(port))
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            until(lambda: server.poll() is not None or is_open(port))
            assert server.poll() is None
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            server.terminate()


def test_every_tool_over_http(tmp_path: Path) -> None:
    async def main(url: str, era: str) -> None:
        async with Client(url, mode=era) as client:
            await every_tool(client)

    for era in ERAS:
        folder = tmp_path / era
        folder.mkdir()
        with listening(folder) as url:
            asyncio.run(main(url, era))


@pytest.mark.parametrize("tool", WRITES)
def test_a_write_that_comes_again_is_answered_alike(tmp_path: Path, tool: str) -> None:
    async def prepare(client: Client) -> None:
        for name, args in BEFORE:
            await said(client, name, **args)

    async def work(client: Client) -> None:
        first = await said(client, tool, **WRITES[tool], key="k")
        assert await said(client, tool, **WRITES[tool], key="k") == first

    talk(tmp_path, prepare)  # the server that dispatched an effect is gone then: it can be settled
    talk(tmp_path, work)


# -- what a model sees -----------------------------------------------------------------------------------------------------


def test_the_list_of_tools_is_stable_and_small(tmp_path: Path) -> None:
    async def look(client: Client) -> list[Any]:
        return (await client.list_tools()).tools

    first, second = talk(tmp_path, look), talk(tmp_path, look, "legacy")
    assert [tool.name for tool in first] == [tool.name for tool in second] == [*TOOLS]
    for tool in first:
        assert 0 < len(tool.description.encode()) <= DESCRIPTION_MAX_BYTES
        assert tool.annotations.read_only_hint is (tool.name not in WRITING)
        assert "next" in tool.output_schema["properties"]
        assert ("key" in tool.input_schema.get("required", [])) is (tool.name in WRITING)
        assert "session" in tool.input_schema["properties"]


def test_an_error_says_what_where_and_what_next(tmp_path: Path) -> None:
    async def work(client: Client) -> None:
        await said(client, "decide", text="a", because="b", key="k")
        reused = await refused(client, "decide", text="other", because="b", key="k")
        assert "KeyReused: key:" in reused
        assert "Next: Use a new key" in reused
        assert "NotFound: decision:" in await refused(client, "close", decision=99, outcome="x", key="k2")
        assert "Conflict: expect:" in await refused(client, "set", name="n", value=1, expect=3, key="k3")
        assert "Invalid: text:" in await refused(client, "remember", text=" ", key="k4")

    talk(tmp_path, work)


def test_every_argument_is_part_of_a_request_and_a_default_said_aloud_is_none(tmp_path: Path) -> None:
    async def work(client: Client) -> None:
        first = await said(client, "remember", text="a", key="m")
        given = {"text": "b", "key": "k", "supersedes": first["number"]}
        made = await said(client, "remember", **given, because="it is newer")
        assert await said(client, "remember", **given, because="it is newer", tags=[], kind="fact") == made
        assert "KeyReused: key:" in await refused(client, "remember", **given, because="another reason")
        assert "KeyReused: key:" in await refused(
            client, "remember", **given, because="it is newer", about=["user:ann"]
        )

    talk(tmp_path, work)


# The arguments that each tool spelled out for its marks before they were made in one place (decision 0150).
SPELLED = {
    "remember": "text kind scope source tags supersedes", "goal": "text", "decide": "text because then tags supersedes",
    "close": "decision outcome note", "task": "title needs priority detail labels", "claim": "task label ttl",
    "move": "task to note token", "say": "role text", "set": "name value expect ttl", "ask": "question choices",
    "effect_dispatch": "effect", "effect_commit": "effect outcome result error",
    "effect_settle": "effect verdict result evidence",
}  # fmt: skip


@pytest.mark.parametrize("about", [[], ["user:ann"]], ids=["about nobody", "about somebody"])
@pytest.mark.parametrize("name", sorted({*WRITES} - {"effect_begin"}))
def test_a_mark_of_before_is_compared_as_each_tool_spelled_it(name: str, about: list[str]) -> None:
    """`effect_begin` has no mark: its key is the effect's own."""
    tool = TOOLS[name][1]
    given = {each: f"a {each}" for each in inspect.signature(tool).parameters} | {"about": about}
    spelled = {"tool": name, **{each: given[each] for each in SPELLED[name].split()}}
    is_asked = about and "about" in inspect.signature(tool).parameters
    assert _request_of(tool, given).before == {**spelled, **({"about": about} if is_asked else {})}


def test_a_refused_request_is_not_kept_under_its_key(tmp_path: Path) -> None:
    async def work(client: Client) -> None:
        await refused(client, "set", name="n", value=1, expect=1, key="k")
        assert (await said(client, "set", name="n", value=1, expect=0, key="k"))["version"] == 1

    talk(tmp_path, work)


def test_long_texts_are_cut_and_a_boot_comes_in_parts(tmp_path: Path) -> None:
    async def work(client: Client) -> None:
        for number in range(6):
            await said(client, "remember", text=f"fact {number} " + "word " * 700, key=f"k{number}")
        for each in (await said(client, "recall", query="fact"))["memories"]:
            assert len(each["text"]) < 2_100
        first = await said(client, "boot", budget=20_000)
        assert first["parts"] > 1
        assert "part=2" in first["next"]
        texts = [(await said(client, "boot", budget=20_000, part=n + 1))["text"] for n in range(first["parts"])]
        assert all(len(text) <= 9_900 for text in texts)
        assert "fact 5" in "".join(texts)

    talk(tmp_path, work)


def test_a_session_that_is_named_is_another_one(tmp_path: Path) -> None:
    async def work(client: Client) -> None:
        await said(client, "set", name="n", value=1, key="k")
        await said(client, "set", name="n", value=2, key="k", session="other")
        assert (await said(client, "get", name="n"))["value"] == 1
        assert (await said(client, "get", name="n", session="other"))["value"] == 2

    talk(tmp_path, work)


def test_resources_and_prompts(tmp_path: Path) -> None:
    async def work(client: Client) -> None:
        await said(client, "decide", text="Use A", because="b", key="k")
        await said(client, "say", role="user", text="Hello there", key="k2")
        for uri, text in (
            ("perdure://sessions", SESSION), (f"perdure://session/{SESSION}/boot", "Use A"),
            (f"perdure://session/{SESSION}/turns", "Hello there"), (f"perdure://session/{SESSION}/decisions", "Use A"),
        ):  # fmt: skip
            assert text in (await client.read_resource(uri)).contents[0].text
        assert {prompt.name for prompt in (await client.list_prompts()).prompts} == {"start", "hand_over"}
        asked = await client.get_prompt("start", {"task": "fix it"})
        assert "fix it" in asked.messages[0].content.text

    talk(tmp_path, work)


# -- subjects --------------------------------------------------------------------------------------------------------------

# Tools that write and hold no words of their own: the reason of each.
WITHOUT_SUBJECTS = {"claim": "names a task", "effect_dispatch": "names an effect"}
WHOM = "user:bo"


def silent() -> set[str]:
    return {name for name in WRITING if "about" not in inspect.signature(TOOLS[name][1]).parameters}


def test_every_tool_that_becomes_a_record_takes_subjects() -> None:
    assert silent() == WITHOUT_SUBJECTS.keys()


def test_control_a_tool_without_the_parameter_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def say(ctx: Any, text: str) -> None: ...

    monkeypatch.setitem(TOOLS, "say", ("Keep a turn", say, TOOLS["say"][2]))
    assert silent() - WITHOUT_SUBJECTS.keys() == {"say"}


@pytest.mark.parametrize("tool", [name for name in WRITES if name not in WITHOUT_SUBJECTS])
def test_all_that_a_tool_records_is_about_whom_it_says(tmp_path: Path, tool: str) -> None:
    """Its own records, and the mark of the request, which holds the answer."""

    async def prepare(client: Client) -> None:
        for name, args in BEFORE:
            await said(client, name, **args)

    async def work(client: Client) -> None:
        first = await said(client, tool, **WRITES[tool], key="k", about=[WHOM])
        assert await said(client, tool, **WRITES[tool], key="k", about=[WHOM]) == first

    def recorded(about: str | None = None) -> list[tuple[str, str, int]]:
        with perdure.open(f"sqlite:///{tmp_path / 'a.db'}") as store:
            found = store.events(about=about, limit=200)
            return [(each.kind, each.uid, each.seq) for each in found if each.kind not in BOOKKEEPING]

    talk(tmp_path, prepare)
    before = {*recorded()}
    talk(tmp_path, work)
    fresh = {*recorded()} - before
    assert fresh
    assert {*recorded(WHOM)} >= fresh


# Without words of the request: names of actors, that an effect is in doubt, that a decision has a successor.
BOOKKEEPING = frozenset({"actor.named", "effect.doubted", "decision.superseded"})


def test_what_is_listed_can_be_asked_for_a_subject(tmp_path: Path) -> None:
    async def work(client: Client) -> None:
        for who in ("bo", "al"):
            of = {"about": [f"user:{who}"]}
            await said(client, "remember", text=f"{who} likes tests", key=f"m-{who}", **of)
            await said(client, "decide", text=f"Call {who}", because="asked", key=f"d-{who}", **of)
            await said(client, "ask", question=f"Is {who} in?", key=f"a-{who}", **of)
            await said(client, "effect_begin", tool="mail", args={"to": who}, key=f"e-{who}", **of)
            await said(client, "say", role="user", text=f"This is {who}", key=f"s-{who}", **of)
        found = await said(client, "recall", query="tests", about=[WHOM])
        assert [each["text"] for each in found["memories"]] == ["bo likes tests"]
        found = await said(client, "search", query="bo al", about=[WHOM], kinds=["turn", "memory"])
        assert sorted(each["text"] for each in found["results"]) == ["This is bo", "bo likes tests"]
        assert (await said(client, "search", query="bo al", tags=["none"]))["results"] == []
        loops = (await said(client, "open_loops", about=WHOM))["loops"]
        assert [each["kind"] for each in loops] == ["effect", "ask", "decision"]
        assert all("bo" in each["text"] for each in loops if each["kind"] != "effect")
        of_al = (await said(client, "open_loops", about="user:al"))["loops"]
        assert [each["text"] for each in of_al if each["kind"] == "turn"] == ["This is al"]

    talk(tmp_path, work)


def test_questions_of_other_sessions_hide_none_of_this_one(tmp_path: Path) -> None:
    async def work(client: Client) -> None:
        await said(client, "ask", question="Is this one shown?", key="mine")
        for i in range(3):
            await said(client, "ask", question=f"Another {i}?", key=f"k{i}", session="other")
        loops = (await said(client, "open_loops", limit=2))["loops"]
        assert [each["text"] for each in loops if each["kind"] == "ask"] == ["Is this one shown?"]

    talk(tmp_path, work)


def test_the_mark_of_a_request_is_about_whom_the_work_was(tmp_path: Path) -> None:
    """`move` answers with the title of a task that says its own subjects."""

    async def work(client: Client) -> None:
        await said(client, "task", title="Call Bo", key="t", about=[WHOM])
        await said(client, "move", task=2, to="cancelled", key="m")

    talk(tmp_path, work)
    with perdure.open(f"sqlite:///{tmp_path / 'a.db'}") as store:
        marks = [each for each in store.events(about=WHOM) if each.session.startswith("requests/")]
        assert len(marks) == 2


# -- questions -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
def test_a_person_at_the_client_answers_a_durable_ask(tmp_path: Path, era: str) -> None:
    asked: list[str] = []

    async def person(_context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"answer": "merge"})

    async def work(client: Client) -> None:
        first = await said(client, "ask", **WRITES["ask"], key="k")
        assert (first["answered"], first["answer"]) == (True, "merge")
        assert await said(client, "ask", **WRITES["ask"], key="k") == first

    talk(tmp_path, work, era, elicitation_callback=person)
    assert asked == ["Merge?"]  # the second time the answer was known
    with perdure.open(f"sqlite:///{tmp_path / 'a.db'}") as store:
        assert [(each.question, each.answer) for each in store.asks(state="met")] == [("Merge?", "merge")]


@pytest.mark.parametrize("era", ERAS)
def test_without_a_person_at_the_client_the_ask_stands(tmp_path: Path, era: str) -> None:
    async def unanswered(client: Client) -> dict[str, Any]:
        return await said(client, "ask", **WRITES["ask"], key="k")

    open_one = talk(tmp_path, unanswered, era)
    assert not open_one["answered"]
    assert "perdure answer" in open_one["next"]
    with perdure.open(f"sqlite:///{tmp_path / 'a.db'}", actor="alice") as store:
        store.answer(open_one["ask"], "hold")
    answered = talk(tmp_path, unanswered, era)
    assert (answered["ask"], answered["answer"], answered["by"]) == (open_one["ask"], "hold", "alice")


@pytest.mark.parametrize("era", ERAS)
def test_a_person_who_declines_leaves_the_ask_open(tmp_path: Path, era: str) -> None:
    async def person(_context: Any, _params: Any) -> ElicitResult:
        return ElicitResult(action="decline")

    async def work(client: Client) -> None:
        assert not (await said(client, "ask", **WRITES["ask"], key="k"))["answered"]

    talk(tmp_path, work, era, elicitation_callback=person)


# -- effects ---------------------------------------------------------------------------------------------------------------


def test_a_dispatch_in_doubt_is_not_repeated_to_its_sender(tmp_path: Path) -> None:
    """A context that lost its memory and uses the same key again must not send twice (P4)."""

    async def send(client: Client) -> str:
        made = await said(client, "effect_begin", tool="mail", args={"to": "a"}, key="mail")
        await said(client, "effect_dispatch", effect=made["effect"], key="d")
        return made["effect"]

    async def come_back(client: Client) -> None:
        found = await said(client, "effect_begin", tool="mail", args={"to": "a"}, key="mail")
        assert found["state"] == "in_doubt"
        assert "Do not do it again" in found["next"]
        assert "InDoubt" in await refused(client, "effect_dispatch", effect=found["effect"], key="d")
        settled = await said(
            client, "effect_settle", effect=found["effect"], verdict="happened", evidence="saw it", key="s"
        )
        assert settled["state"] == "committed"

    talk(tmp_path, send)
    talk(tmp_path, come_back)

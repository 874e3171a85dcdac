"""Wrong and hostile arguments to every tool, generated from its schema: each answer names the argument and the way out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

from mcp import Client

from doors.mcp.calls import BEFORE, READS, WRITES
from doors.mcp.test_server import ERAS, refused, said, talk
from perdure_agents.mcp import refusals, tools
from perdure_agents.mcp.server import TOOLS, PerdureServer

LEAKS = ("http://", "https://", "Traceback", "Error executing tool", "pydantic", "NoneType", 'File "')
OF_TYPE: dict[str, Any] = {
    "string": "a text",
    "integer": 7,
    "array": ["a"],
    "object": {"a": 1},
    "number": 1.5,
    "boolean": True,
}


def nested(depth: int) -> Any:
    found: Any = []
    for _ in range(depth):
        found = [found]
    return found


HOSTILE = (
    "", " ", "x" * 300_000, "\0", "\ud800", "../../etc/passwd", "' OR 1=1 --", "session:work/4", "-1", "1e999", "\u202e\u2066",
    10**30, -1, 1.5, float("nan"), float("inf"), True, nested(80), nested(200), ["x"] * 20_000, {"a": {"b": [None] * 500}},
    {f"k{n}": n for n in range(5_000)}, [None], [[]], {"": ""},
)  # fmt: skip


def valid(tool: str) -> dict[str, Any]:
    return READS[tool] if tool in READS else {**WRITES[tool], "key": "k"}


def misfits(schema: dict[str, Any]) -> Iterator[Any]:
    """A value of each type that is not this one's. Text may stand for a number, and JSON in a text for a list."""
    if "type" in schema:
        admitted = {schema["type"], *(["boolean", "number"] if schema["type"] == "integer" else [])}
        yield from (value for name, value in OF_TYPE.items() if name not in admitted)
        yield None


def wrong_calls(tool: str, schema: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Calls that must be refused, each with the argument that the refusal names."""
    good = valid(tool)
    for name in schema.get("required", []):
        yield {each: value for each, value in good.items() if each != name}, name
    for name, of_it in schema["properties"].items():
        for value in misfits(of_it):
            yield {**good, name: value}, name
        for value in misfits(of_it.get("items", {})):
            yield {**good, name: [value]}, f"{name}.0"
    for name in ("sessoin", "ctx", "self", "_x", "a.b", "x" * 5_000):
        yield {**good, name: 1}, name[:100]


async def schemas(client: Client) -> dict[str, dict[str, Any]]:
    return {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}


def fault_of(text: str, name: str = "") -> str:
    """The reason why this text does not help a model; nothing if it does."""
    if leaked := [leak for leak in LEAKS if leak in text]:
        return f"it shows {leaked}"
    if "\nNext: " not in text:
        return "it says no way out"
    if f"Invalid: {name}" not in text:
        return f"it does not name {name}"
    return "" if len(text) < 3_000 else "it is too long"


async def unhelpful(client: Client) -> list[str]:
    """Refusals that do not help, and wrong calls that were not refused."""
    found, tried = [], 0
    for tool, schema in (await schemas(client)).items():
        for given, name in wrong_calls(tool, schema):
            made = await client.call_tool(tool, given)
            tried += 1
            fault = fault_of(made.content[0].text, name) if made.is_error else "it was let in"
            if fault:
                found.append(f"{tool}({str(given)[:200]}): {fault}: {made.content[0].text[:300]}")
    assert tried > 900
    return found


@pytest.mark.parametrize("era", ERAS)
def test_every_wrong_argument_is_named_with_the_way_out(tmp_path: Path, era: str) -> None:
    async def work(client: Client) -> None:
        assert await unhelpful(client) == []

    talk(tmp_path, work, era)


def test_control_the_texts_of_the_sdk_do_not_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(PerdureServer, "call_tool")

    async def work(client: Client) -> None:
        found = "\n".join(await unhelpful(client))
        assert "it shows ['https://', 'Error executing tool', 'pydantic']" in found
        assert "it was let in" in found

    talk(tmp_path, work)


@pytest.mark.parametrize("tool", TOOLS)
def test_hostile_arguments_are_taken_or_refused_in_words(tmp_path: Path, tool: str) -> None:
    async def work(client: Client) -> None:
        for name, args in BEFORE:
            await said(client, name, **args)
        faults = []
        for number, (name, value) in enumerate(
            (name, value) for name in (await schemas(client))[tool]["properties"] for value in HOSTILE
        ):
            fresh = {"key": f"k{number}"} if tool in WRITES else {}
            made = await client.call_tool(tool, {**valid(tool), **fresh, name: value})
            text = made.content[0].text
            if made.is_error and (any(leak in text for leak in LEAKS) or "\nNext: " not in text or len(text) > 3_000):
                faults.append(f"{tool}({name}={str(value)[:60]!r}): {text[:400]}")
        assert faults == []

    talk(tmp_path, work)


def test_a_tool_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    async def work(client: Client) -> None:
        text = await refused(client, "x" * 500)
        assert text.startswith("NotFound: tool: there is no 'xxx")
        assert "Next: Call one of: boot, recall," in text
        assert len(text) < 600

    talk(tmp_path, work)


def test_our_own_fault_shows_nothing_of_it_and_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def goal(ctx: tools.Ctx) -> None:
        raise RuntimeError("a secret of the server")

    monkeypatch.setitem(TOOLS, "goal", ("Goal", goal, TOOLS["goal"][2]))

    async def work(client: Client) -> None:
        text = await refused(client, "goal")
        assert "secret" not in text
        assert "Next: Call this again with the same key" in text

    talk(tmp_path, work)
    assert "a secret of the server" in caplog.text  # people find it where they look


def test_many_faults_are_told_by_the_first_of_them(tmp_path: Path) -> None:
    async def work(client: Client) -> None:
        text = await refused(client, "recall", query="x", kinds=["facts"] * 1_000)
        assert text.count("Invalid: kinds.") == refusals.SHOWN_MAX
        assert f"and {1_000 - refusals.SHOWN_MAX} more" in text

    talk(tmp_path, work)

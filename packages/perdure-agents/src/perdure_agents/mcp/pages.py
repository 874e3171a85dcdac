"""Resources and prompts: what a person or a host may attach without a tool call. Reading changes nothing but use counts."""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec
from mcp.server.mcpserver import Context, MCPServer
from pydantic import Field

from perdure.planes.conversation import turns as conversation
from perdure.planes.conversation.transcript import as_text
from perdure.planes.reading.paging import Page
from perdure_agents.mcp.door import Door, door_of, places, short, with_error_texts

SESSIONS_MAX = 50
TURNS_MAX = 50


def add_pages(server: MCPServer[Any], door: Door) -> None:
    """Register all of them."""

    async def sessions() -> str:
        """The newest sessions."""
        return _listed(await (await door.store()).sessions(limit=SESSIONS_MAX))

    server.resource("perdure://sessions", title="Sessions", mime_type="application/json")(with_error_texts(sessions))
    server.resource("perdure://session/{name}/boot", title="Working set", mime_type="text/plain")(
        with_error_texts(boot)
    )
    server.resource("perdure://session/{name}/turns", title="Last turns", mime_type="text/plain")(
        with_error_texts(turns)
    )
    server.resource("perdure://session/{name}/decisions", title="Decisions", mime_type="application/json")(
        with_error_texts(decisions)
    )
    server.prompt("start", title="Start work", description="Boot, then begin the next task.")(start)
    server.prompt("hand_over", title="Hand over", description="Write down what the next context needs.")(hand_over)


async def boot(name: str, ctx: Context[Any, Any]) -> str:
    """The working set of a session."""
    return (await (await door_of(ctx).session(name)).boot()).text


async def turns(name: str, ctx: Context[Any, Any]) -> str:
    """The last turns of a session."""
    rows = await (await door_of(ctx).session(name))._read(conversation.shown, last=TURNS_MAX)
    lines = [f"[{turn.seq}] {turn.role.value}: {short(as_text(turn.content))}" for turn in rows]
    return "\n".join([*lines, *(f"damaged: {place}" for place in places(rows.damaged))])


async def decisions(name: str, ctx: Context[Any, Any]) -> str:
    """The newest decisions of a session."""
    rows = await (await door_of(ctx).session(name)).decisions(limit=SESSIONS_MAX)
    return _listed(rows.each(lambda row: row.record))


def _listed(rows: Page[Any]) -> str:
    """Records as JSON, and the rows that cannot be read."""
    damaged = [{"damaged": place} for place in places(rows.damaged)]
    return json.dumps([*map(msgspec.to_builtins, rows), *damaged])


def start(task: Annotated[str, Field(description="The task.")] = "") -> str:
    """The first things to do."""
    purpose = f" for the task: {task}" if task else ""
    return (
        f"Call the perdure tool `boot`{purpose}. Obey its rules, settle its open loops, then `claim` the next ready task. "
        "Write decisions down with `decide` before you act on them."
    )


def hand_over() -> str:
    """The last things to do."""
    return (
        "Before this context ends: call `open_loops`; `close` every decision whose outcome you know, `move` your tasks, "
        "`remember` failed approaches and rules that the user stated, and `set` the state of the work (branch, last test "
        "result). Write what the repository does not say."
    )

"""Agents and tools of async code, as in `acting_sync`, awaited: what is done gives what the coroutine does."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, assert_type

import perdure


@perdure.tool
async def send_mail(to: str, body: str = "") -> int:
    return len(to + body)


@perdure.tool(kind="idempotent", retries=3, timeout="30s")
async def put_file(path: str, *, mode: int = 0) -> bool:
    return bool(path) and mode == 0


@perdure.tool(kind="keyed")
async def open_pr(title: str, *, key: str) -> list[str]:
    return [title, key]


@perdure.tool(probe=lambda title: perdure.Unknown("?"))
def merge(title: str) -> bytes:
    return title.encode()


@perdure.tool(kind=perdure.ToolKind.READ, keep="digest")
async def read_file(path: str) -> str:
    return path


def word_count(text: str, least: int = 0) -> int:
    return max(least, len(text))


async def perhaps(text: str) -> str | None:
    return text or None


@perdure.agent
async def child(run: perdure.AsyncRun, number: int) -> float:
    return await run.step(lambda: number / 2)


@perdure.agent(checkpoint="every 50 steps", timeout="1h")
async def fix(run: perdure.AsyncRun, issue: str, *, tries: int = 3) -> str:
    assert_type(await run.act(send_mail, "a@example.org", body="b"), int)
    assert_type(await run.act(send_mail, "a@example.org", approve="Send it?"), int)
    assert_type(await run.act(put_file, "a", mode=tries), bool)
    assert_type(await run.act(open_pr, issue), list[str])
    assert_type(await run.act(merge, issue), bytes)
    assert_type(await run.act(word_count, issue), int)
    assert_type(await run.step(word_count, issue, least=2), int)
    assert_type(await run.step(perhaps, issue), str | None)
    assert_type(await run.step(read_file, issue), str)
    assert_type(await run.step(read_file, issue, retries=2), str)
    assert_type(await run.step(word_count, issue, timeout="5s"), int)
    assert_type(await run.model(word_count, issue), int)
    assert_type(await run.model(word_count, issue, pins={"model": "m-1"}), int)
    assert_type(await run.call(child, 7), float)
    assert_type(await run.start(child, 7), perdure.AsyncChild[float])
    assert_type(await (await run.start(child, number=7)).result(), float)
    assert_type(await run.atomic(lambda tx: tx.session("a").say("user", "x").seq), int)
    return issue


async def with_a_store(store: perdure.AsyncStore) -> None:
    assert_type(await store.drive(fix, "issue-42"), str)
    assert_type(await store.drive(fix, "issue-42", tries=2, key="k"), str)
    assert_type(await store.drive(child, 7, wait=True), float)
    assert_type(await store.start(fix, "issue-42", tries=1), perdure.AsyncRunHandle[str])
    assert_type(await (await store.start(child, 7, key="k")).result(timeout="1m"), float)
    assert_type(await (await (await store.start(child, 7)).refresh()).result(), float)
    assert_type(await (await store.run("4f1c")).result(), Any)
    await store.runs(status="parked", agent="fix")
    await store.runs(status=perdure.RunStatus.PARKED)
    await store.asks(state="open")
    await store.effects(state="in_doubt")
    await store.tasks(status="todo")
    session = await store.session("typed")
    assert_type(await session.act(send_mail, "a@example.org"), int)
    assert_type(await session.act(send_mail, "a@example.org", key="m1"), int)
    await session.act(open_pr, "t", key="pr-1")
    await session.begin("send_mail", {"to": "a"}, kind="unsafe")


async def bare(run: perdure.AsyncRun, tools: list[perdure.Tool], agents: list[perdure.Agent]) -> None:
    assert_type(await send_mail("a", "b"), int)
    assert_type(await open_pr("a", key="k"), list[str])
    assert_type(await fix(run, "issue-42"), str)
    tools.append(send_mail)
    agents.append(fix)


async def loosely(run: perdure.AsyncRun, tool: perdure.Tool[..., Coroutine[Any, Any, int]]) -> None:
    assert_type(await run.act(tool, 1, 2, three=3), int)

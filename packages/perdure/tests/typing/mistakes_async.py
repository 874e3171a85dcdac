"""Mistakes in async code: both checkers must reject every line that says `wrong`, and no other."""

from __future__ import annotations

import perdure


@perdure.tool
async def send_mail(to: str, body: str = "") -> int:
    return len(to + body)


async def word_count(text: str, least: int = 0) -> int:
    return max(least, len(text))


@perdure.agent
async def child(run: perdure.AsyncRun, number: int) -> float:
    return run.random() * number


@perdure.agent(timeout="1h")
async def fix(run: perdure.AsyncRun, issue: str, *, tries: int = 3) -> str:
    await run.act(send_mail)  # wrong
    await run.act(send_mail, 7)  # wrong
    await run.act(send_mail, "a", aprove="?")  # wrong
    (await run.act(send_mail, "a")).upper()  # wrong
    (await run.act(send_mail, "a", approve="?")).upper()  # wrong
    await (await run.act(send_mail, "a"))  # wrong
    run.act(send_mail, "a").real()  # wrong
    await run.step(word_count, 7)  # wrong
    (await run.step(word_count, issue)).upper()  # wrong
    (await run.step(word_count, issue, timeout="5s")).upper()  # wrong
    await run.step(word_count(issue))  # wrong
    await run.model(word_count, issue, least="2")  # wrong
    (await run.model(word_count, issue, pins={"model": "m-1"})).upper()  # wrong
    await run.call(child, "7")  # wrong
    (await run.call(child, 7)).upper()  # wrong
    (await (await run.start(child, 7)).result()).upper()  # wrong
    return tries  # wrong


async def with_a_store(store: perdure.AsyncStore) -> None:
    await store.drive(fix)  # wrong
    await store.drive(fix, "issue-42", tris=2)  # wrong
    (await store.drive(fix, "issue-42")).real()  # wrong
    (await store.drive(fix, "issue-42", wait=True)).real()  # wrong
    (await (await store.start(fix, "issue-42")).result()).real()  # wrong
    store.start(fix, "issue-42").result()  # wrong
    await store.runs(status="lost")  # wrong
    session = await store.session("typed")
    await session.act(send_mail, 7)  # wrong
    (await session.act(send_mail, "a", key="k")).upper()  # wrong
    await session.say("robot", "x")  # wrong
    session.goal = "x"  # wrong
    perdure.aopn("memory:")  # wrong


async def bare(run: perdure.AsyncRun) -> None:
    await send_mail(7)  # wrong
    (await send_mail("a")).upper()  # wrong
    (await fix(run, "issue-42")).real()  # wrong

"""Agents and tools of sync code: what is done gives the type of what does it."""

from __future__ import annotations

from typing import Any, assert_type

import perdure


@perdure.tool
def send_mail(to: str, body: str = "") -> int:
    return len(to + body)


@perdure.tool(kind="idempotent", retries=3, timeout="30s")
def put_file(path: str, *, mode: int = 0) -> bool:
    return bool(path) and mode == 0


@perdure.tool(kind="keyed")
def open_pr(title: str, *, key: str) -> list[str]:
    return [title, key]


@perdure.tool(probe=lambda title: perdure.Unknown("?"))
def merge(title: str) -> bytes:
    return title.encode()


@perdure.tool(kind=perdure.ToolKind.READ, keep="digest")
def read_file(path: str) -> str:
    return path


def word_count(text: str, least: int = 0) -> int:
    return max(least, len(text))


def perhaps(text: str) -> str | None:
    return text or None


@perdure.agent
def child(run: perdure.Run, number: int) -> float:
    return run.step(lambda: number / 2)


@perdure.agent(checkpoint="every 50 steps", timeout="1h")
def fix(run: perdure.Run, issue: str, *, tries: int = 3) -> str:
    assert_type(run.act(send_mail, "a@example.org", body="b"), int)
    assert_type(run.act(send_mail, "a@example.org", approve="Send it?"), int)
    assert_type(run.act(put_file, "a", mode=tries), bool)
    assert_type(run.act(open_pr, issue), list[str])
    assert_type(run.act(merge, issue), bytes)
    assert_type(run.act(word_count, issue), int)
    assert_type(run.step(word_count, issue, least=2), int)
    assert_type(run.step(perhaps, issue), str | None)
    assert_type(run.step(read_file, issue), str)
    assert_type(run.step(read_file, issue, retries=2), str)
    assert_type(run.step(word_count, issue, timeout="5s"), int)
    assert_type(run.model(word_count, issue), int)
    assert_type(run.model(word_count, issue, pins={"model": "m-1"}), int)
    assert_type(run.call(child, 7), float)
    assert_type(run.start(child, 7), perdure.Child[float])
    assert_type(run.start(child, number=7).result(), float)
    assert_type(run.atomic(lambda tx: tx.session("a").say("user", "x").seq), int)
    return issue


def with_a_store(store: perdure.Store) -> None:
    assert_type(store.drive(fix, "issue-42"), str)
    assert_type(store.drive(fix, "issue-42", tries=2, key="k"), str)
    assert_type(store.drive(child, 7, wait=True), float)
    assert_type(store.start(fix, "issue-42", tries=1), perdure.RunHandle[str])
    assert_type(store.start(child, 7, key="k").result(timeout="1m"), float)
    assert_type(store.start(child, 7).refresh().result(), float)
    assert_type(store.run("4f1c").result(), Any)
    store.runs(status="parked", agent="fix")
    store.runs(status=perdure.RunStatus.PARKED)
    store.asks(state="open")
    store.effects(state="in_doubt")
    store.tasks(status="todo")
    session = store.session("typed")
    assert_type(session.act(send_mail, "a@example.org"), int)
    assert_type(session.act(send_mail, "a@example.org", key="m1"), int)
    assert_type(session.act(open_pr, "t", key="pr-1"), list[str])
    session.begin("send_mail", {"to": "a"}, kind="unsafe")


def bare(run: perdure.Run, tools: list[perdure.Tool], agents: list[perdure.Agent]) -> None:
    assert_type(send_mail("a", "b"), int)
    assert_type(open_pr("a", key="k"), list[str])
    assert_type(fix(run, "issue-42"), str)
    tools.append(send_mail)
    agents.append(fix)


def loosely(run: perdure.Run, tool: perdure.Tool[..., int]) -> None:
    assert_type(run.act(tool, 1, 2, three=3), int)

"""Mistakes in sync code: both checkers must reject every line that says `wrong`, and no other."""

from __future__ import annotations

import perdure


@perdure.tool
def send_mail(to: str, body: str = "") -> int:
    return len(to + body)


@perdure.tool(kind="keyed")
def open_pr(title: str, *, key: str) -> list[str]:
    return [title, key]


@perdure.tool(kind="read")
def read_file(path: str) -> str:
    return path


def word_count(text: str, least: int = 0) -> int:
    return max(least, len(text))


@perdure.agent
def child(run: perdure.Run, number: int) -> float:
    return run.random() * number


def declarations() -> None:
    perdure.tool(kind="keyd")  # wrong
    perdure.tool(kind="idempotent", retries="3")  # wrong
    perdure.tool(kind="idempotent", retrys=3)  # wrong
    perdure.tool(kind="read", keep="diggest")  # wrong
    perdure.tool(kind="unsafe", isolate="yes")  # wrong
    perdure.tool(fails=[7])  # wrong
    perdure.tool(7)  # wrong
    perdure.agent(limit="3")  # wrong
    perdure.agent(checkpont="every 50 steps")  # wrong
    perdure.agent(lambda: 7)  # wrong


@perdure.agent
def fix(run: perdure.Run, issue: str, *, tries: int = 3) -> str:
    run.act(send_mail)  # wrong
    run.act(send_mail, 7)  # wrong
    run.act(send_mail, "a", bodi="b")  # wrong
    run.act(send_mail, "a", "b", "c")  # wrong
    run.act(send_mail, "a", aprove="?")  # wrong
    run.act(send_mail, "a", approve=7)  # wrong
    run.act("send_mail", "a")  # wrong
    run.act(send_mail, "a").upper()  # wrong
    run.act(send_mail, "a", approve="?").upper()  # wrong
    run.act(open_pr, "title").upper()  # wrong
    run.act(word_count)  # wrong
    run.step(word_count, 7)  # wrong
    run.step(word_count, issue, lest=2)  # wrong
    run.step(word_count, issue).upper()  # wrong
    run.step(read_file, issue, retries="2")  # wrong
    run.step(read_file, issue, retries=2).real()  # wrong
    run.step(word_count(issue))  # wrong
    run.model(word_count)  # wrong
    run.model(word_count, issue, pins="m-1")  # wrong
    run.model(word_count, issue).upper()  # wrong
    run.call(child, "7")  # wrong
    run.call(child)  # wrong
    run.call(child, 7).upper()  # wrong
    run.start(child, numbre=7)  # wrong
    run.start(child, 7).result().upper()  # wrong
    run.atomic(lambda tx: tx.session("a").say("robot", "x").seq)  # wrong
    run.sleep()  # wrong
    run.stpe(word_count, issue)  # wrong
    return tries  # wrong


def with_a_store(store: perdure.Store) -> None:
    store.drive(fix)  # wrong
    store.drive(fix, 42)  # wrong
    store.drive(fix, "issue-42", tris=2)  # wrong
    store.drive(fix, "issue-42").real()  # wrong
    store.drive(fix, "issue-42", key="k").real()  # wrong
    store.drive(fix, "issue-42", key=7)  # wrong
    store.start(fix)  # wrong
    store.start(fix, "issue-42", tries="2")  # wrong
    store.start(fix, "issue-42").result().real()  # wrong
    store.start(fix, "issue-42").reslt()  # wrong
    store.start("fix", "issue-42")  # wrong
    store.runs(status="lost")  # wrong
    store.asks(state="opne")  # wrong
    store.effects(state="doubt")  # wrong
    store.tasks(status="finished")  # wrong
    store.decisions(status="done")  # wrong
    store.sessions(status="closed")  # wrong
    session = store.session("typed")
    session.act(send_mail)  # wrong
    session.act(send_mail, 7)  # wrong
    session.act(send_mail, "a", key=7)  # wrong
    session.act(send_mail, "a", key="k").upper()  # wrong
    session.begin("send_mail", kind="sure")  # wrong
    session.say("robot", "x")  # wrong
    session.say(7)  # wrong
    session.close("banana")  # wrong
    session.transcript("banana")  # wrong
    session.utter("x")  # wrong
    session.gaol = "x"  # wrong
    session.say("user", "x").seq.upper()  # wrong
    perdure.opn("memory:")  # wrong


def bare(run: perdure.Run, handle: perdure.RunHandle[str]) -> None:
    send_mail(7)  # wrong
    fix(run)  # wrong
    child(run, 7).upper()  # wrong
    tool: perdure.Tool[[int], int] = send_mail  # wrong
    agent: perdure.Agent[[int], float] = fix  # wrong
    other: perdure.RunHandle[int] = handle  # wrong
    _ = tool, agent, other

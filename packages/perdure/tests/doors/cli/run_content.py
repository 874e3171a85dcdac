"""A store with runs in every state, for the commands that look at runs and decide about them."""

from __future__ import annotations

import contextlib
from typing import Any

import perdure
from doors.cli.content import HOSTILE_NAME, HOSTILE_TEXT


@perdure.tool(name="send")
def send(text: str) -> None:
    raise OSError(f"no answer to {text}")


@perdure.tool(name="refuse")
def refuse(text: str) -> None:
    raise perdure.Failed(text, code="NoSuchUser")


@perdure.agent(name="asker")
def asker(run: perdure.Run, question: str) -> Any:
    run.step(len, question)
    return run.ask(question, choices=["merge", "hold"])


@perdure.agent(name="sender")
def sender(run: perdure.Run, text: str) -> Any:
    return run.act(send, text)


@perdure.agent(name="failing")
def failing(run: perdure.Run, text: str) -> Any:
    return run.act(refuse, text)


@perdure.agent(name="counting")
def counting(run: perdure.Run, n: int) -> int:
    return run.step(sum, [n, 1])


@perdure.agent(name="parent")
def parent(run: perdure.Run) -> Any:
    return run.call(asker, "A child asks?")


def begun_otherwise(run: perdure.Run) -> None:
    run.step(len, "a")
    run.ask("?", choices=["go"])


def goes_on_otherwise(run: perdure.Run) -> None:
    run.step(str, "a")


def fill_with_runs(url: str) -> None:
    """Runs that wait, doubt, failed, ended, are parked; and an effect of a session that is in doubt."""
    with perdure.open(url, actor="alice") as store:
        for agent, given in ((asker, "Merge?"), (sender, "hello"), (failing, "nobody"), (counting, 1)):
            drive(store, agent, given, key=agent.name, session="issue-42")
        drive(store, parent, key="parent")
        first = perdure.agent(name="changing")(begun_otherwise)
        drive(store, first, key="changing")
        store.answer(next(ask.id for ask in store.asks() if ask.question == "?"), "go")
        drive(store, perdure.agent(name="changing")(goes_on_otherwise), key="changing")
        with contextlib.suppress(perdure.InDoubt):
            store.session("issue-42").act(send, "a session's", key="s1")


def fill_with_hostile_runs(url: str) -> None:
    """Text that would command a terminal, wherever runs keep text."""
    with perdure.open(url, actor=HOSTILE_NAME) as store:
        drive(store, asker, HOSTILE_TEXT, key=HOSTILE_NAME)
        drive(store, sender, HOSTILE_TEXT, key=HOSTILE_NAME)
        drive(store, failing, HOSTILE_TEXT, key=HOSTILE_NAME)


def drive(store: perdure.Store, agent: Any, *args: Any, **options: Any) -> None:
    with contextlib.suppress(perdure.Error):
        store.drive(agent, *args, **options)

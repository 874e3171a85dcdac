"""A program: kills an agent of Strands at every crash point, and prints what the outside world saw, as JSON.

`python sweep.py MODE FOLDER MOST`. MODE: see MODES. A life that follows a death calls the agent with no prompt, or (again)
sends the message again.
unsafe: the tool says nothing about itself, and a person answers the interrupt by what the outside world shows.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from strands import Agent, tool
from strands.session import FileSessionManager

import perdure
from adapters.charging import bank, kinds_of, said_of
from adapters.lives import Life
from adapters.strands.shop import Scripted, buys
from adapters.sweeping import report, slowed
from perdure_adapters.strands import PerdureSessionManager, hooks


def finish(life: Life, agent: Agent, *, again: bool, is_async: bool) -> None:
    """Call the agent until it is done, as the program of a user does."""
    said = agent.messages[-1]["content"] if agent.messages else []
    if said and said[0].get("text") == "done":
        return
    prompt: Any = "buy it" if again or not agent.messages else None
    if agent._interrupt_state.activated:
        prompt = answers(life, agent._interrupt_state.interrupts.values())
    while True:
        result = asyncio.run(agent.invoke_async(prompt)) if is_async else agent(prompt)
        if result.stop_reason != "interrupt":
            break
        prompt = answers(life, result.interrupts)
    assert str(result).strip() == "done", str(result)


def answers(life: Life, interrupts: Any) -> Any:
    """A person looks at the bank's book, and says what happened."""
    said = []
    for each in interrupts:
        cents = each.reason["arguments"]["cents"]
        said.append({"interruptResponse": {"interruptId": each.id, "response": said_of(life, cents)}})
    return said


def with_perdure(
    kind: str, *, again: bool = False, is_async: bool = False, unsafe: bool = False, forgets: str = ""
) -> Any:
    def program(life: Life) -> None:
        if forgets == "answers":  # a control: a message that is sent again is a new question to the model
            hooks.answer_in = lambda messages, said: None
        if forgets == "calls":  # a control: a call that was cut off is not recognised when it is made again
            hooks.key_in = lambda messages, call: None
            hooks.PerdureHooks.tell_results = lambda self, event: None
        charge = bank(life, is_async=is_async)
        kinds = kinds_of(life, unsafe=unsafe)
        with perdure.open(f"{kind}:///{life.folder}/agent.db") as store:
            manager = PerdureSessionManager("order", store, kinds=kinds)
            agent = Agent(
                model=Scripted(buys, life.answered), tools=[tool(charge, name="charge")], session_manager=manager,
                callback_handler=None,
            )  # fmt: skip
            finish(life, agent, again=again, is_async=is_async)

    return program


def stock(*, again: bool) -> Any:
    def program(life: Life) -> None:
        manager = FileSessionManager("order", storage_dir=str(life.folder / "stock"))
        charge = tool(bank(life, is_async=False), name="charge")
        agent = Agent(
            model=Scripted(buys, life.answered), tools=[charge], session_manager=manager, callback_handler=None
        )
        finish(life, agent, again=again, is_async=False)

    return program


MODES = {
    "sqlite": with_perdure("sqlite"),
    "again": with_perdure("sqlite", again=True),
    "async": with_perdure("sqlite", is_async=True),
    "unsafe": with_perdure("sqlite", unsafe=True),
    "unsafe-again": with_perdure("sqlite", unsafe=True, again=True),
    "files": with_perdure("files"),
    "slow": slowed(with_perdure("sqlite")),
    "slow-again": slowed(with_perdure("sqlite", again=True)),
    "twice": with_perdure("sqlite", again=True),
    "forgets": with_perdure("sqlite", again=True, forgets="calls"),
    "asks-anew": with_perdure("sqlite", again=True, forgets="answers"),
    "stock": stock(again=False),
    "stock-again": stock(again=True),
}

if __name__ == "__main__":
    report(MODES, *sys.argv[1:])

"""A program: kills an agent of Agent Framework at every crash point, and prints what the outside world saw, as JSON.

`python sweep.py MODE FOLDER MOST`. MODE: see MODES. A life that follows a death runs the agent with no message, or (again)
sends the message again.
unsafe: the tool says nothing about itself, and a person answers the approval request by what the outside world shows.
"""

from __future__ import annotations

import asyncio
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from agent_framework import Agent, AgentSession, FileHistoryProvider, Message, tool

import perdure
from adapters.agent_framework.shop import Scripted, buys
from adapters.charging import bank, kinds_of, said_of
from adapters.lives import Life
from adapters.sweeping import report, slowed
from perdure.model.records.conversation import Call
from perdure_adapters.agent_framework import PerdureHistoryProvider, middleware


def charging(life: Life, *, is_async: bool) -> Any:
    return tool(bank(life, is_async=is_async), name="charge", approval_mode="never_require")


async def finish(life: Life, agent: Agent, history: Any, *, again: bool, stream: bool = False) -> None:
    """Run the agent until it is done, as the program of a user does."""
    messages = await history.get_messages("order")
    if messages and messages[-1].text == "done":
        return
    session = AgentSession(session_id="order")
    said: Any = "buy it" if again or not messages else None
    while True:
        running = agent.run(said, session=session, stream=stream)
        result = await (running.get_final_response() if stream else running)
        if not result.user_input_requests:
            break
        said = Message("user", answers(life, result.user_input_requests))
    assert result.text == "done", result.text


def answers(life: Life, requests: Any) -> list[Any]:
    """A person looks at the bank's book, and says what happened."""
    said = {}
    for each in requests:
        cents = each.additional_properties["perdure"]["arguments"]["cents"]
        response = said[each.id] = each.to_function_approval_response(approved=True)
        response.additional_properties["perdure"] = said_of(life, cents)
    return list(said.values())


def with_perdure(
    kind: str, *, again: bool = False, is_async: bool = False, stream: bool = False, unsafe: bool = False,
    forgets: str = "", barrier: bool = True,
) -> Any:  # fmt: skip
    def program(life: Life) -> None:
        if forgets == "answers":  # a control: a message that is sent again is a new question to the model
            middleware.StoredConversation.asked = lambda self: None
        if forgets == "calls":  # a control: a call that was cut off is not recognised when it is made again
            middleware.StoredConversation._take_places = lambda self: None
        if not barrier:
            drop_barrier()
        kinds = kinds_of(life, unsafe=unsafe)
        with perdure.open(f"{kind}:///{life.folder}/agent.db") as store:
            history = PerdureHistoryProvider(store)
            agent = Agent(
                Scripted(buys, life.answered), tools=[charging(life, is_async=is_async)], context_providers=[history],
                middleware=history.middleware(kinds=kinds), require_per_service_call_history_persistence=barrier,
            )  # fmt: skip
            asyncio.run(finish(life, agent, history, again=again, stream=stream))

    return program


def drop_barrier() -> None:
    """A control: a ledger by the id of the call, and an answer that is not saved before its calls are sent."""

    async def act(self: Any) -> Any:
        self._call = Call(self._call.id, "charge", dict(self._context.arguments))
        made = middleware.tool_calls.made_for(self._call, self._declared, self._invoke)
        return await self._session.act(made, self._call.args, key=self._call.id)

    middleware.StoredConversation.find = lambda self, call_id, name: middleware.StoredCall(0, Call(call_id, name, {}))
    middleware._OneCall._act = act


def stock(*, again: bool, each_call: bool) -> Any:
    def program(life: Life) -> None:
        history = FileHistoryProvider(str(life.folder / "stock"))
        agent = Agent(
            Scripted(buys, life.answered, is_strict=False), tools=[charging(life, is_async=False)], context_providers=[history],
            require_per_service_call_history_persistence=each_call,
        )  # fmt: skip
        asyncio.run(finish(life, agent, history, again=again))

    return program


MODES = {
    "sqlite": with_perdure("sqlite"),
    "again": with_perdure("sqlite", again=True),
    "async": with_perdure("sqlite", is_async=True),
    "stream": with_perdure("sqlite", stream=True),
    "unsafe": with_perdure("sqlite", unsafe=True),
    "unsafe-again": with_perdure("sqlite", unsafe=True, again=True),
    "files": with_perdure("files"),
    "slow": slowed(with_perdure("sqlite")),
    "slow-again": slowed(with_perdure("sqlite", again=True)),
    "twice": with_perdure("sqlite", again=True),
    "forgets": with_perdure("sqlite", again=True, forgets="calls"),
    "asks-anew": with_perdure("sqlite", again=True, forgets="answers"),
    "no-barrier": with_perdure("sqlite", barrier=False),
    "stock": stock(again=False, each_call=True),
    "stock-again": stock(again=True, each_call=False),
}

if __name__ == "__main__":
    warnings.simplefilter("ignore", FutureWarning)  # the framework's own, of its experimental parts
    report(MODES, *sys.argv[1:])

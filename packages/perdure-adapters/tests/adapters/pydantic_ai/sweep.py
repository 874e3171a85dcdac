"""A program: kills a run of a Pydantic AI agent at every crash point, and prints what the outside world saw, as JSON.

`python sweep.py MODE FOLDER MOST`. MODE: sqlite or files, the store; or stock: the agent as it is, run again after a death.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import perdure
from adapters.lives import Life
from adapters.sweeping import happened, report
from perdure_adapters.pydantic_ai import PerdureDurability, within

CALLS = [ToolCallPart("charge", {"cents": 5}, "call-1"), ToolCallPart("charge", {"cents": 7}, "call-2")]


def agent_of(life: Life, capabilities: list[Any]) -> Agent[None, str]:
    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        life.answered()
        returned = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
        if returned:
            return ModelResponse([TextPart(" ".join(str(part.content) for part in returned))])
        return ModelResponse(list(CALLS))

    def is_charged(cents: int) -> Any:
        return perdure.Happened(f"charged {cents}") if happened(life, f"charged {cents}") else perdure.Absent()

    async def charge(cents: int) -> str:
        life.see("charged", cents)
        life.at("tool.charge.after")
        return f"charged {cents}"

    perdure.tool(charge, kind="probed", probe=is_charged, lands_within=0)
    return Agent(FunctionModel(answer), name="shop", tools=[charge], capabilities=capabilities)


def with_perdure(kind: str) -> Any:
    def program(life: Life) -> None:
        agent = agent_of(life, [PerdureDurability()])

        @perdure.agent
        async def shop(run: Any, question: str) -> str:
            with within(run):
                return (await agent.run(question)).output

        async def main() -> None:
            with perdure.open(f"{kind}:///{life.folder}/agent.db") as store:
                output = await store.aio.drive(shop, "buy it", key="order-1")
            assert output == "charged 5 charged 7", output

        asyncio.run(main())

    return program


def stock(life: Life) -> None:
    agent = agent_of(life, [])
    asyncio.run(agent.run("buy it"))


MODES = {"sqlite": with_perdure("sqlite"), "files": with_perdure("files"), "stock": stock}

if __name__ == "__main__":
    report(MODES, *sys.argv[1:])

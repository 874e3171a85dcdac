"""A program: kills a run of a Pydantic AI agent at every crash point, and prints what the outside world saw, as JSON.

`python sweep.py FOLDER URL-PATTERN MOST MODE`. MODE: perdure, or stock: the agent as it is, run again after a death.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import perdure
from adapters.lives import Life, points_of, sample, swept
from perdure.adapters.pydantic_ai import PerdureDurability, within

CALLS = [ToolCallPart("charge", {"cents": 5}, "call-1"), ToolCallPart("charge", {"cents": 7}, "call-2")]


def agent_of(life: Life, capabilities: list[Any]) -> Agent[None, str]:
    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        life.answered()
        returned = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
        if returned:
            return ModelResponse([TextPart(" ".join(str(part.content) for part in returned))])
        return ModelResponse(list(CALLS))

    def is_charged(cents: int) -> Any:
        path = life.folder / "seen"
        happened = path.exists() and f"charged {cents}" in path.read_text().splitlines()
        return perdure.Happened(f"charged {cents}") if happened else perdure.Absent()

    async def charge(cents: int) -> str:
        life.see("charged", cents)
        life.at("tool.charge.after")
        return f"charged {cents}"

    perdure.tool(charge, kind="probed", probe=is_charged, lands_within=0)
    return Agent(FunctionModel(answer), name="shop", tools=[charge], capabilities=capabilities)


def with_perdure(pattern: str) -> Any:
    def program(life: Life) -> None:
        agent = agent_of(life, [PerdureDurability()])

        @perdure.agent
        async def shop(run: Any, question: str) -> str:
            with within(run):
                return (await agent.run(question)).output

        async def main() -> None:
            with perdure.open(pattern.format(life.folder)) as store:
                output = await store.aio.drive(shop, "buy it", key="order-1")
            assert output == "charged 5 charged 7", output

        asyncio.run(main())

    return program


def stock(life: Life) -> None:
    agent = agent_of(life, [])
    asyncio.run(agent.run("buy it"))


def main(folder: str, pattern: str, most: str, mode: str) -> None:
    program = stock if mode == "stock" else with_perdure(pattern)
    count = points_of(program, Path(folder) / "whole")
    report = []
    for number in sample(count, int(most) or None):
        case = swept(program, Path(folder) / str(number), number)
        error = (case.folder / "error").read_text()[-800:] if case.end and (case.folder / "error").exists() else ""
        report.append({
            "point": number, "killed": case.killed, "end": case.end, "error": error, "charged": case.named("charged"),
            "answers": case.count("answer"), "unrecorded": case.unrecorded,
        })  # fmt: skip
    sys.stdout.write(json.dumps({"points": count, "cases": report}))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A program: kills an agent of one framework at every commit and every send, and prints what the outside world saw, as JSON.

    python sweeps.py FRAMEWORK MODE SUBJECT MOST FOLDER

FRAMEWORK: openai_agents, pydantic_ai, claude_agent. MODE: plain, or words joined by "-": slow (a slow disk), files (another
store), again (the life after the first one is killed at the same point too), streamed, unsafe (tools say nothing about
themselves: a person looks at the outside world, and settles), and for Claude batched (the transcript is mirrored late) and
builtin (the host carries out the tools) and late (the person waits until a call was denied). SUBJECT: perdure; no barrier (the
model's answer is not kept before its calls are carried out); stock; for Claude forgets (the hooks do not see what a dead process
was carrying out). An agent pays and mails at once, then ships, then says so:
three answers, three effects. Each id of a call is new, as a provider's are. A life that is not killed is asked once more at its
end, with the same message: nothing may happen again.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
import uuid
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parent)]

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

import perdure  # noqa: E402 - after the setting above
from adapters.lives import Life, points_of, sample, swept_at  # noqa: E402 - as above

FIRST, THEN = ("pay", "mail"), ("ship",)
SLOW_SECONDS = 0.02


def url_of(life: Life, mode: str) -> str:
    return f"files:///{life.folder}/agent" if "files" in words(mode) else f"sqlite:///{life.folder}/agent.db"


def words(mode: str) -> list[str]:
    return mode.split("-")


def new_id() -> str:
    return f"call_{uuid.uuid4().hex[:12]}"


def next_calls(done: list[str]) -> tuple[str, ...]:
    """The calls of the model's next answer, by what it has heard."""
    return tuple(name for name in FIRST if name not in done) or (THEN if "ship" not in done else ())


def doing(life: Life, name: str) -> str:
    life.at("tool.before")
    life.see("did", name)
    life.at("tool.after")
    return f"did {name}"


def probing(life: Life, name: str) -> Any:
    path = life.folder / "seen"
    happened = path.exists() and f"did {name}" in path.read_text().splitlines()
    return perdure.Happened(f"did {name}") if happened else perdure.Absent()


async def settle_all(life: Life, store: Any, made: Any = lambda text: text) -> None:
    """A person looks at the outside world, and says what became of each effect in doubt. made: a result of its text."""
    for effect in await store.effects(in_doubt=True):
        found = probing(life, effect.tool)
        await effect.settle(perdure.Happened(made(found.result)) if isinstance(found, perdure.Happened) else found)


# -- OpenAI Agents -----------------------------------------------------------------------------------------------


def openai_agents(life: Life, mode: str, subject: str) -> None:  # noqa: C901 - a program of its own
    from agents import Agent, ModelResponse, Runner, SQLiteSession, Usage, function_tool
    from agents.models.interface import Model
    from openai.types.responses import (
        Response,
        ResponseCompletedEvent,
        ResponseFunctionToolCall,
        ResponseOutputMessage,
        ResponseOutputText,
    )

    from perdure_adapters.openai_agents import DurableRunner, PerdureSession, durable_function_tool, runner

    class Scripted(Model):
        async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:  # noqa: A002
            life.answered()
            outputs = [item["output"] for item in input if item.get("type") == "function_call_output"]
            done = [each.removeprefix("did ") for each in outputs]
            made: list[Any] = [
                ResponseFunctionToolCall(call_id=new_id(), name=name, arguments='{"order": "7"}', type="function_call")
                for name in next_calls(done)
            ]
            text = ResponseOutputText(text="done", type="output_text", annotations=[])
            said = ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
            return ModelResponse(output=made or [said], usage=Usage(requests=1), response_id=None)

        async def stream_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: A002
            answer = await self.get_response(system_instructions, input)
            about = {
                "created_at": 0,
                "model": "m",
                "object": "response",
                "parallel_tool_calls": True,
                "tool_choice": "auto",
            }
            response = Response(id="r", output=answer.output, tools=[], **about)
            yield ResponseCompletedEvent(type="response.completed", sequence_number=1, response=response)

    def made(name: str) -> Any:
        def act(order: str) -> str:
            """Do it."""
            return doing(life, name)

        act.__name__ = name
        if subject == "stock":
            return function_tool(act)
        if "unsafe" in words(mode):
            return durable_function_tool(act)
        return durable_function_tool(act, probe=lambda order: probing(life, name), lands_within=0)

    async def no_barrier(self: Any, input: Any, ask: Any) -> ModelResponse:  # noqa: A002
        response = await ask()
        self.answers += 1
        items = response.to_input_items()
        await self.owner.atomic(lambda tx: [runner.keep(tx.session("s"), runner.ITEMS, item) for item in items])
        self.said += map(runner._bare, items)
        return response

    if subject == "no barrier":
        runner._DurableRun.answer = no_barrier  # this process ends with this life

    async def once(agent: Any, session: Any) -> Any:
        about = {"session": session, "key": "r"}
        if "streamed" not in words(mode):
            return await DurableRunner.run(agent, "order", **about)
        result = await DurableRunner.run_streamed(agent, "order", **about)
        async for _event in result.stream_events():
            pass
        return result

    async def ended(agent: Any, store: Any, session: Any) -> Any:
        """Run it until no call waits for a person."""
        for _ in range(6):
            try:
                result = await once(agent, session)
            except perdure.InDoubt:  # a stream cannot be begun anew
                result = None
            if result is not None and not result.interruptions:
                return result
            assert "unsafe" in words(mode)
            await settle_all(life, store.aio)
        raise AssertionError("it does not come to an end")

    async def main() -> None:
        agent = Agent(name="shop", model=Scripted(), tools=[made(name) for name in (*FIRST, *THEN)])
        if subject == "stock":
            result = await Runner.run(agent, "order", session=SQLiteSession("s", life.folder / "stock.db"))
            assert result.final_output == "done"
            return
        with perdure.open(url_of(life, mode)) as store:
            session = PerdureSession("s", store)
            for _ in range(1 if subject == "no barrier" else 2):
                result = await ended(agent, store, session)
                assert result.final_output == "done"
            kinds = [item.get("type", "message") for item in await session.get_items()]
            if subject == "perdure":
                assert kinds.count("function_call") == kinds.count("function_call_output") == 3, kinds
                assert kinds.count("message") == 2, kinds

    asyncio.run(main())


# -- Pydantic AI -------------------------------------------------------------------------------------------------


def pydantic_ai(life: Life, mode: str, subject: str) -> None:  # noqa: C901 - a program of its own
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import FunctionModel

    from perdure_adapters.pydantic_ai import PerdureDurability, durability, within

    async def answer(messages: list[Any], _info: Any) -> ModelResponse:
        life.answered()
        parts = [part for message in messages for part in message.parts]
        done = [str(part.content).removeprefix("did ") for part in parts if isinstance(part, ToolReturnPart)]
        calls = [ToolCallPart(name, {"order": "7"}, new_id()) for name in next_calls(done)]
        return ModelResponse(list(calls) or [TextPart("done")])

    async def streamed(messages: list[Any], info: Any) -> Any:
        from pydantic_ai.models.function import DeltaToolCall

        answered = await answer(messages, info)
        for number, part in enumerate(answered.parts):
            if isinstance(part, TextPart):
                yield part.content
            else:
                yield {number: DeltaToolCall(part.tool_name, json.dumps(part.args), tool_call_id=part.tool_call_id)}

    def made(name: str) -> Any:
        async def act(order: str) -> str:
            return doing(life, name)

        act.__name__ = name
        if "unsafe" not in words(mode):
            perdure.tool(act, name=name, kind="probed", probe=lambda order: probing(life, name), lands_within=0)
        return act

    if subject == "no barrier":
        from perdure.runtime import branch_waits

        branch_waits._held_by = lambda *_: None  # a call at another place would wait, and the run would be parked
        execute = durability._Backend.execute

        async def without(self: Any, *, operation_id: Any, body: Any, **rest: Any) -> Any:
            if isinstance(operation_id, durability.ToolsetCallToolId):
                return await execute(self, operation_id=operation_id, body=body, **rest)
            return await body()

        durability._Backend.execute = without  # this process ends with this life

    async def watch(_context: Any, events: Any) -> None:
        async for _event in events:
            pass

    capabilities = [] if subject == "stock" else [PerdureDurability()]
    model = FunctionModel(answer, stream_function=streamed)
    tools = [made(name) for name in (*FIRST, *THEN)]
    agent = Agent(model, name="shop", tools=tools, capabilities=capabilities)
    options = {"event_stream_handler": watch} if "streamed" in words(mode) else {}

    @perdure.agent
    async def shop(run: Any, question: str) -> str:
        with within(run):
            return (await agent.run(question, **options)).output

    async def ended(store: Any) -> str:
        """Drive it until nothing waits for a person."""
        for _ in range(6):
            try:
                return await store.aio.drive(shop, "order", key="order-7")
            except (perdure.InDoubt, perdure.Waiting):
                assert "unsafe" in words(mode)
            await settle_all(life, store.aio)
        raise AssertionError("it does not come to an end")

    async def main() -> None:
        if subject == "stock":
            assert (await agent.run("order")).output == "done"
            return
        with perdure.open(url_of(life, mode)) as store:
            for _ in range(2):
                assert await ended(store) == "done"

    asyncio.run(main())


# -- Claude Agent SDK --------------------------------------------------------------------------------------------


def claude_agent(life: Life, mode: str, subject: str) -> None:  # noqa: C901 - a program of its own
    from claude_agent_sdk import (
        ClaudeAgentOptions,
        ClaudeSDKClient,
        create_sdk_mcp_server,
        project_key_for_directory,
        tool,
    )
    from claude_agent_sdk._internal.sessions import _get_projects_dir
    from claude_host import Host, heard

    from perdure_adapters.claude_agent import PerdureLedger, PerdureSessionStore
    from perdure_adapters.claude_agent import ledger as claude_ledger

    builtin = "builtin" in words(mode)

    async def answer(lines: list[Any]) -> Any:
        if "late" not in words(mode) or "perdure settle" in json.dumps(lines[-len(FIRST) :]):
            await settle_all(life, store.aio, told)  # meanwhile, a person does
        life.answered()
        calls = next_calls(heard(lines))
        prefix = "" if builtin else "mcp__shop__"
        return ("let me see" if calls else "done"), [(prefix + name, {"order": "7"}) for name in calls]

    def told(text: str) -> Any:
        return {"content": [{"type": "text", "text": text}]}

    def made(name: str) -> Any:
        @tool(name, "Do it.", {"order": str})
        async def act(args: Any) -> Any:
            return told(doing(life, name))

        return act

    def declared(name: str) -> Any:
        def act(order: str) -> Any: ...

        def probe(order: str) -> Any:
            found = probing(life, name)
            return perdure.Happened(told(f"did {name}")) if isinstance(found, perdure.Happened) else found

        return perdure.tool(act, name=name, probe=probe, lands_within=0)

    async def main() -> None:
        session_id = str(uuid.UUID(int=7))
        key = {"project_key": project_key_for_directory(str(life.folder)), "session_id": session_id}
        names = (*FIRST, *THEN)
        kinds = {} if builtin or "unsafe" in words(mode) else {name: declared(name) for name in names}
        ledger = PerdureLedger(store, "shop", kinds=kinds)
        if subject == "no barrier":  # the ledger is not told of calls that are heard of nowhere
            ledger._find_unheard = _nothing
        if subject == "forgets":  # it does not know what a dead process was carrying out
            claude_ledger.left_open = _none  # this process ends with this life
        # Without the barrier the transcript is not told either.
        sessions = PerdureSessionStore(store, ledger=ledger if subject in ("perdure", "forgets") else None)
        tools = [made(name) for name in names]
        server = create_sdk_mcp_server("shop", tools=tools) if subject == "stock" else ledger.server("shop", tools)
        lines = await sessions.load(key) or []
        if lines and heard(lines)[-1:] == ["ship"] and lines[-1]["type"] == "assistant":
            return
        path = str(_get_projects_dir() / key["project_key"] / f"{session_id}.jsonl")
        host = Host(answer, lines, session_id, str(life.folder), path, ("shop",), lambda name: told(doing(life, name)))
        options = ClaudeAgentOptions(
            mcp_servers={"shop": server}, hooks={} if subject == "stock" else ledger.hooks(), session_store=sessions,
            session_store_flush="batched" if "batched" in words(mode) else "eager", cwd=life.folder,
        )  # fmt: skip
        async with ClaudeSDKClient(options, transport=host) as client:
            await client.query("order")
            last = [message async for message in client.receive_response()]
        if host.error is not None:
            raise host.error
        assert last[-1].result == "done", last

    with perdure.open(url_of(life, mode)) as store:
        asyncio.run(main())


async def _nothing(_coming: Any) -> list[Any]:
    return []


async def _none(*_about: Any) -> None:
    return None


PROGRAMS = {"openai_agents": openai_agents, "pydantic_ai": pydantic_ai, "claude_agent": claude_agent}


NEEDED = {
    "openai_agents": ("agents", "perdure_adapters.openai_agents"),
    "pydantic_ai": ("pydantic_ai", "pydantic_ai.models.function", "perdure_adapters.pydantic_ai"),
    "claude_agent": ("claude_agent_sdk", "claude_agent_sdk.client", "claude_host", "perdure_adapters.claude_agent"),
}


def main(framework: str, mode: str, subject: str, most: str, folder: str) -> None:
    for module in NEEDED[framework]:  # once, before the lives are forked
        importlib.import_module(module)
    if framework == "openai_agents":  # its tracer reads all certificates, even if it is turned off
        importlib.import_module("agents.tracing").get_trace_provider()

    def program(life: Life) -> None:
        life.slow_seconds = SLOW_SECONDS if "slow" in words(mode) else 0
        PROGRAMS[framework](life, mode, subject)

    count = points_of(program, Path(folder) / "whole")
    report: dict[str, Any] = {
        "total": count,
        "points": 0,
        "killed": 0,
        "twice": 0,
        "lost": 0,
        "paid again": 0,
        "unrecorded": 0,
        "unended": [],
    }
    numbers = sample(count, int(most) or None)
    for number, case in swept_at(program, Path(folder), numbers, 2 if "again" in words(mode) else 1):
        did = case.named("did")
        report["points"] += 1
        report["killed"] += bool(case.killed)
        report["twice"] += len(did) > len(set(did))
        report["lost"] += set(did) != {f"did {name}" for name in (*FIRST, *THEN)}
        report["paid again"] += case.count("answer") > 3 + case.unrecorded
        report["unrecorded"] += case.unrecorded
        if case.end:
            report["unended"].append([number, (case.folder / "error").read_text()[-1500:]])
    sys.stdout.write(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])

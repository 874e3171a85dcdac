"""The frameworks that hold one conversation together: how an agent of each begins one, and continues one that any began.

Each player runs the framework's own agent with a scripted model: it calls the tool `find`, and then answers. `play` adds one
`Step` to a session of Perdure and gives what the model was shown before its answer, as text. A player continues a session as its
page (docs/adapters) says.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import Any, NamedTuple

TOOL = "find"


class Step(NamedTuple):
    """What one framework adds: a user's words, a call with its argument and result, an answer. All words are unique."""

    user: str
    call: str
    sought: str
    answer: str

    @property
    def result(self) -> str:
        """What the tool gives."""
        return found_for(self.sought)


def step_of(name: str, number: int) -> Step:
    """The step that a player adds as the conversation's step of this number."""
    return Step(
        f"user {name} {number}.", f"call_{name}_{number}", f"sought {name} {number}.", f"answer {name} {number}."
    )


def found_for(sought: str) -> str:
    """The tool."""
    return f"hits: {sought}"


class Script:
    """A scripted model: the call of a step first, its answer then. shown: the conversation before each, as text."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.shown: list[str] = []

    def calls(self, shown: Any) -> bool:
        """Whether the model calls the tool now."""
        self.shown.append(repr(shown))
        return len(self.shown) == 1


class LangGraph:
    """A graph with `PerdureSaver(turns=True)` and the ledger."""

    name = "langgraph"

    def begin(self, store: Any) -> str:
        return "of-langgraph"

    def play(self, store: Any, session: str, step: Step) -> str:
        from langchain_core.messages import AIMessage, HumanMessage
        from langchain_core.tools import tool
        from langgraph.graph import START, MessagesState, StateGraph
        from langgraph.prebuilt import ToolNode, tools_condition

        from perdure_adapters.langgraph import PerdureSaver, ledger, messages

        script = Script(step)

        @tool
        def find(sought: str) -> str:
            """Find it."""
            return found_for(sought)

        def model(state: Any) -> Any:
            call = {"name": TOOL, "args": {"sought": step.sought}, "id": step.call}
            calls = script.calls(state["messages"])
            return {"messages": [AIMessage("", tool_calls=[call]) if calls else AIMessage(step.answer)]}

        graph = StateGraph(MessagesState)
        graph.add_node("model", model)
        graph.add_node("tools", ToolNode([find], **ledger(store)))
        graph.add_edge(START, "model")
        graph.add_conditional_edges("model", tools_condition)
        graph.add_edge("tools", "model")
        app = graph.compile(checkpointer=PerdureSaver(store, turns=True))
        config: Any = {"configurable": {"thread_id": session}}
        said = [*messages(store.session(session)), HumanMessage(step.user)]
        app.invoke({"messages": said}, config, durability="sync")
        return script.shown[-1]


class PydanticAI:
    """An agent whose conversation is in `PerdureConversationStore`."""

    name = "pydantic_ai"

    def begin(self, store: Any) -> str:
        return "of-pydantic"

    def play(self, store: Any, session: str, step: Step) -> str:
        from pydantic_ai import Agent
        from pydantic_ai.conversation import Conversation
        from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
        from pydantic_ai.models.function import FunctionModel

        from perdure_adapters.pydantic_ai import PerdureConversationStore

        script = Script(step)

        def answer(messages: Any, _info: Any) -> Any:
            call = ToolCallPart(TOOL, {"sought": step.sought}, step.call)
            return ModelResponse([call if script.calls(messages) else TextPart(step.answer)])

        def find(sought: str) -> str:
            """Find it."""
            return found_for(sought)

        async def run() -> None:
            conversations = PerdureConversationStore(store)
            conversation = await conversations.load(session) or Conversation(conversation_id=session)
            agent = Agent(FunctionModel(answer), tools=[find])
            await conversations.save(await agent.run(step.user, conversation=conversation))

        asyncio.run(run())
        return script.shown[-1]


class OpenAIAgents:
    """`DurableRunner` on a `PerdureSession`."""

    name = "openai_agents"

    def begin(self, store: Any) -> str:
        return "of-openai"

    def play(self, store: Any, session: str, step: Step) -> str:
        from agents import Agent, Model, ModelResponse, Usage
        from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

        from perdure_adapters.openai_agents import DurableRunner, PerdureSession, durable_function_tool

        script = Script(step)
        arguments = json.dumps({"sought": step.sought})
        call = ResponseFunctionToolCall(call_id=step.call, name=TOOL, arguments=arguments, type="function_call")
        text = ResponseOutputText(text=step.answer, type="output_text", annotations=[])
        said = ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")

        class Scripted(Model):
            async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: A002
                output: Any = [call if script.calls(input) else said]
                return ModelResponse(output=output, usage=Usage(requests=1), response_id=None)

            def stream_response(self, *args: Any, **kwargs: Any) -> Any:
                raise NotImplementedError

        @durable_function_tool
        def find(sought: str) -> str:
            """Find it."""
            return found_for(sought)

        agent = Agent(name="finder", model=Scripted(), tools=[find])
        asyncio.run(DurableRunner.run(agent, step.user, session=PerdureSession(session, store), key=step.user))
        return script.shown[-1]


class ClaudeAgent:
    """A host that resumes a transcript from `PerdureSessionStore`, and mirrors the lines that it adds."""

    name = "claude_agent"

    def begin(self, store: Any) -> str:
        from perdure_adapters.claude_agent.session_store import name_of

        return name_of(self.key("of-claude"))

    def key(self, session: str) -> Any:
        return {"project_key": "-work", "session_id": str(uuid.uuid5(uuid.NAMESPACE_OID, session))}

    def play(self, store: Any, session: str, step: Step) -> str:
        from claude_agent_sdk._internal.message_parser import parse_message

        from perdure_adapters.claude_agent import PerdureSessionStore

        own = session == self.begin(store)
        key = self.key("of-claude" if own else session)

        async def run() -> str:
            sessions = PerdureSessionStore(store)
            if not own:
                await sessions.bring(session, key, cwd="/work")
            lines = await sessions.load(key) or []
            for line in lines:
                parse_message({**line, "session_id": key["session_id"]})
            parents = [None, *(line["uuid"] for line in lines)]
            assert [line["parentUuid"] for line in lines] == parents[:-1], "a chain"
            shown = repr(lines)
            use = {"type": "tool_use", "id": step.call, "name": TOOL, "input": {"sought": step.sought}}
            result = {"type": "tool_result", "tool_use_id": step.call, "content": found_for(step.sought)}
            for role, content in (
                ("user", step.user), ("assistant", [use]), ("user", [result]),
                ("assistant", [{"type": "text", "text": step.answer}]),
            ):  # fmt: skip
                message = {"role": role, "content": content, **({"model": "m"} if role == "assistant" else {})}
                about = {"uuid": str(uuid.uuid4()), "parentUuid": parents[-1], "sessionId": key["session_id"]}
                await sessions.append(key, [{"type": role, "message": message, **about}])
                parents.append(about["uuid"])
            return shown + repr(step)

        return asyncio.run(run())


class GoogleADK:
    """A runner with `PerdureSessionService` and `PerdurePlugin`."""

    name = "google_adk"

    def begin(self, store: Any) -> str:
        from perdure_adapters.google_adk.sessions import name_of

        return name_of("shop", "alice", "of-adk")

    def play(self, store: Any, session: str, step: Step) -> str:
        from google.adk.agents import LlmAgent
        from google.adk.apps.app import App
        from google.adk.models.base_llm import BaseLlm
        from google.adk.models.llm_response import LlmResponse
        from google.adk.runners import Runner
        from google.genai import types

        from perdure_adapters.google_adk import PerdurePlugin, PerdureSessionService

        script = Script(step)

        class Scripted(BaseLlm):
            async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
                call = types.FunctionCall(id=step.call, name=TOOL, args={"sought": step.sought})
                calls = script.calls(llm_request.contents)
                part = types.Part(function_call=call) if calls else types.Part(text=step.answer)
                yield LlmResponse(content=types.Content(role="model", parts=[part]))

        def find(sought: str) -> str:
            """Find it."""
            return found_for(sought)

        own = session == self.begin(store)
        who = {"user_id": "alice", "session_id": "of-adk" if own else session}

        async def run() -> None:
            agent = LlmAgent(name="finder", model=Scripted(model="scripted"), tools=[find])
            sessions = PerdureSessionService(store)
            if not own:
                await sessions.bring(session, app_name="shop", **who)
            elif await sessions.get_session(app_name="shop", **who) is None:
                await sessions.create_session(app_name="shop", **who)
            app = App(name="shop", root_agent=agent, plugins=[PerdurePlugin(store)])
            message = types.Content(role="user", parts=[types.Part(text=step.user)])
            runner = Runner(app=app, session_service=sessions)
            async for _event in runner.run_async(**who, new_message=message):
                pass

        asyncio.run(run())
        return script.shown[-1]


class Strands:
    """An agent with `PerdureSessionManager`."""

    name = "strands"

    def begin(self, store: Any) -> str:
        return "of-strands"

    def play(self, store: Any, session: str, step: Step) -> str:
        from strands import Agent, tool
        from strands.models import Model

        from perdure_adapters.strands import PerdureSessionManager

        script = Script(step)

        class Scripted(Model):
            def get_config(self) -> Any:
                return {}

            def update_config(self, **_config: Any) -> None: ...

            async def structured_output(self, *_args: Any, **_options: Any) -> Any:
                raise NotImplementedError
                yield

            async def stream(self, messages: Any, *_args: Any, **_options: Any) -> Any:
                calls = script.calls(messages)
                yield {"messageStart": {"role": "assistant"}}
                start = {"toolUse": {"name": TOOL, "toolUseId": step.call}}
                yield {"contentBlockStart": {"start": start if calls else {}}}
                told = {"toolUse": {"input": json.dumps({"sought": step.sought})}} if calls else {"text": step.answer}
                yield {"contentBlockDelta": {"delta": told}}
                yield {"contentBlockStop": {}}
                yield {"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}}

        @tool
        def find(sought: str) -> str:
            """Find it."""
            return found_for(sought)

        manager = PerdureSessionManager(session, store)
        Agent(model=Scripted(), tools=[find], session_manager=manager, callback_handler=None)(step.user)
        return script.shown[-1]


class AgentFramework:
    """An agent with `PerdureHistoryProvider` and its middleware."""

    name = "agent_framework"

    def begin(self, store: Any) -> str:
        return "of-agent-framework"

    def play(self, store: Any, session: str, step: Step) -> str:
        from agent_framework import (
            Agent,
            AgentSession,
            BaseChatClient,
            ChatMiddlewareLayer,
            ChatResponse,
            Content,
            FunctionInvocationLayer,
            Message,
            tool,
        )

        from perdure_adapters.agent_framework import PerdureHistoryProvider

        script = Script(step)

        class Scripted(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
            async def _inner_get_response(self, *, messages: Any, **_options: Any) -> Any:
                call = Content.from_function_call(step.call, TOOL, arguments={"sought": step.sought})
                calls = script.calls([as_said(each) for message in messages for each in message.contents])
                return ChatResponse(messages=[Message("assistant", [call if calls else step.answer])])

        @tool(approval_mode="never_require")
        def find(sought: str) -> str:
            """Find it."""
            return found_for(sought)

        def as_said(content: Any) -> Any:
            """A content without its result's second form."""
            return {name: value for name, value in content.to_dict().items() if name != "items"}

        history = PerdureHistoryProvider(store)
        agent = Agent(
            Scripted(), tools=[find], context_providers=[history], middleware=history.middleware(),
            require_per_service_call_history_persistence=True,
        )  # fmt: skip
        asyncio.run(agent.run(step.user, session=AgentSession(session_id=session)))
        return script.shown[-1]


# A framework more is a class above and its line here; its name is that of its package.
PLAYERS = (LangGraph(), PydanticAI(), OpenAIAgents(), ClaudeAgent(), GoogleADK(), Strands(), AgentFramework())

"""The frameworks that speak in one session: how each writes the conversation, reads one, and what its own objects say.

A speaker uses the framework's own classes for all of it, so a rendering that they do not accept fails. `facts` are what a reader
understands, taken from those objects and from nothing of ours:

    ("system" | "user" | "assistant", text) · ("image", bytes) · ("thought", text, signature) · ("call", id, tool, arguments) ·
    ("result", id, text, error)
"""

from __future__ import annotations

import asyncio
import base64
import importlib
import json
import uuid
from typing import Any

PNG = b"\x89PNG\r\n\x1a\n\xff\xfe~?>"  # its base64 has the letters that differ between its two alphabets
PNG_64 = base64.b64encode(PNG).decode()
CALLS = (("find", {"q": "Safari", "n": 2}), ("ping", {"host": "a.example"}))
SIGNATURE = base64.b64encode(b"signed").decode()


def said(name: str) -> dict[str, Any]:
    """The conversation that a speaker of this name writes: text, image, reasoning, parallel calls, an error, an answer."""
    return {
        "user": f"{name}: look at this", "thought": f"{name}: hm", "assistant": f"{name}: I look",
        "ids": (f"{name}_1", f"{name}_2"),
        "result": f"{name}: 3 hits", "error": f"{name}: no route", "answer": f"{name}: done",
    }  # fmt: skip


def expected(name: str, *, thought: bool) -> list[tuple[Any, ...]]:
    """The facts of that conversation; with the reasoning, for its own provider."""
    told, (one, two) = said(name), said(name)["ids"]
    return [
        ("user", told["user"]), ("image", PNG), *([("thought", told["thought"], SIGNATURE)] if thought else []),
        ("assistant", told["assistant"]), ("call", one, *CALLS[0]), ("call", two, *CALLS[1]),
        ("result", one, told["result"], False), ("result", two, told["error"], True), ("assistant", told["answer"]),
    ]  # fmt: skip


class LangGraph:
    """Messages of LangChain, through a graph with `PerdureSaver`."""

    name, needs, provider = "langgraph", ("langgraph", "langchain_core"), ""
    errors_are_flags = True

    def write(self, store: Any) -> str:
        from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
        from langgraph.graph import START, MessagesState, StateGraph

        from perdure_adapters.langgraph import PerdureSaver

        told, ids = said(self.name), said(self.name)["ids"]
        calls = [{"id": each, "name": tool, "args": args} for each, (tool, args) in zip(ids, CALLS, strict=True)]
        reasoning = {"type": "thinking", "thinking": told["thought"], "signature": SIGNATURE}
        script = [
            AIMessage([reasoning, {"type": "text", "text": told["assistant"]}], tool_calls=calls,
                      response_metadata={"model_provider": "anthropic", "model_name": "claude"}),
            ToolMessage(told["result"], tool_call_id=ids[0], name="find"),
            ToolMessage(told["error"], tool_call_id=ids[1], name="ping", status="error"),
            AIMessage(told["answer"]),
        ]  # fmt: skip
        graph = StateGraph(MessagesState)
        graph.add_node("model", lambda _state: {"messages": script})
        graph.add_edge(START, "model")
        app = graph.compile(checkpointer=PerdureSaver(store, turns=True))
        image = {"type": "image", "base64": PNG_64, "mime_type": "image/png"}
        human = HumanMessage([{"type": "text", "text": told["user"]}, image])
        app.invoke({"messages": [human]}, {"configurable": {"thread_id": "of-langgraph"}})
        return "of-langgraph"

    def read(self, store: Any, session: str, provider: str | None = None) -> list[Any]:
        from langchain_core.messages import convert_to_openai_messages

        from perdure_adapters.langgraph import messages

        found = messages(store.session(session), provider=provider)
        convert_to_openai_messages(found)  # what every integration begins with
        return found

    def facts(self, found: list[Any]) -> list[tuple[Any, ...]]:
        facts: list[tuple[Any, ...]] = []
        for message in found:
            if message.type == "tool":
                facts.append(("result", message.tool_call_id, message.content, message.status == "error"))
                assert message.name in {tool for tool, _ in CALLS}
                continue
            blocks = (
                [{"type": "text", "text": message.content}] if isinstance(message.content, str) else message.content
            )
            for block in blocks:
                if block["type"] == "text" and block["text"]:
                    facts.append(({"human": "user", "ai": "assistant"}[message.type], block["text"]))
                elif block["type"] == "image_url":
                    facts.append(("image", _decoded(block["image_url"]["url"])))
                elif block["type"] == "image":
                    facts.append(("image", base64.b64decode(block["base64"])))
                elif block["type"] == "thinking":
                    facts.append(("thought", block["thinking"], block["signature"]))
                elif block["type"] == "reasoning":
                    facts.append(("thought", block["reasoning"], block.get("extras", {}).get("signature")))
            facts += [("call", each["id"], each["name"], each["args"]) for each in getattr(message, "tool_calls", ())]
        return facts


class PydanticAI:
    """Messages of Pydantic AI, through `PerdureConversationStore`."""

    name, needs, provider = "pydantic_ai", ("pydantic_ai",), ""
    errors_are_flags = True

    def write(self, store: Any) -> str:
        from pydantic_ai import messages as m
        from pydantic_ai.conversation_store import ConversationEntry, ConversationRecord

        from perdure_adapters.pydantic_ai import PerdureConversationStore

        told, ids = said(self.name), said(self.name)["ids"]
        calls = [m.ToolCallPart(tool, args, each) for each, (tool, args) in zip(ids, CALLS, strict=True)]
        thinking = m.ThinkingPart(told["thought"], signature=SIGNATURE, provider_name="anthropic")
        messages = [
            m.ModelRequest([m.UserPromptPart([told["user"], m.BinaryContent(PNG, media_type="image/png")])]),
            m.ModelResponse([thinking, m.TextPart(told["assistant"]), *calls], provider_name="anthropic", model_name="claude"),
            m.ModelRequest([
                m.ToolReturnPart("find", told["result"], ids[0]),
                m.ToolReturnPart("ping", told["error"], ids[1], outcome="failed"),
            ]),
            m.ModelResponse([m.TextPart(told["answer"])]),
        ]  # fmt: skip
        entries, parent = [], None
        for message in messages:
            entries.append(ConversationEntry(id=str(uuid.uuid4()), parent_id=parent, message=message))
            parent = entries[-1].id
        record = ConversationRecord(conversation_id="of-pydantic", revision="1", head_id=parent)
        asyncio.run(PerdureConversationStore(store).write_record(record, new_entries=entries, expected_revision=None))
        return "of-pydantic"

    def read(self, store: Any, session: str, provider: str | None = None) -> list[Any]:
        from pydantic_ai import Agent
        from pydantic_ai.models.test import TestModel

        from perdure_adapters.pydantic_ai import PerdureConversationStore

        found = asyncio.run(PerdureConversationStore(store).messages(session, provider=provider))
        asyncio.run(Agent(TestModel(call_tools=[])).run("and now?", message_history=found))
        return found

    def facts(self, found: list[Any]) -> list[tuple[Any, ...]]:
        facts: list[tuple[Any, ...]] = []
        for part in (part for message in found for part in message.parts):
            kind = part.part_kind
            if kind == "user-prompt":
                contents = [part.content] if isinstance(part.content, str) else part.content
                facts += [("user", each) if isinstance(each, str) else ("image", each.data) for each in contents]
            elif kind == "text":
                facts.append(("assistant", part.content))
            elif kind == "thinking":
                facts.append(("thought", part.content, part.signature))
            elif kind == "tool-call":
                facts.append(("call", part.tool_call_id, part.tool_name, part.args_as_dict()))
            elif kind == "tool-return":
                assert part.tool_name in {tool for tool, _ in CALLS}
                facts.append(("result", part.tool_call_id, part.content, part.outcome == "failed"))
        return facts


class OpenAIAgents:
    """Items of the Responses API, through `PerdureSession`. A result has no flag for an error: its text says so."""

    name, needs, provider = "openai_agents", ("agents",), "openai"
    errors_are_flags = False

    def write(self, store: Any) -> str:
        from perdure_adapters.openai_agents import PerdureSession

        told, ids = said(self.name), said(self.name)["ids"]
        items = [
            {"role": "user", "content": [
                {"type": "input_text", "text": told["user"]},
                {"type": "input_image", "image_url": f"data:image/png;base64,{PNG_64}", "detail": "auto"}]},
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": told["thought"]}],
             "encrypted_content": SIGNATURE},
            {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": [
                {"type": "output_text", "text": told["assistant"], "annotations": []}]},
            *({"type": "function_call", "call_id": each, "name": tool, "arguments": json.dumps(args)}
              for each, (tool, args) in zip(ids, CALLS, strict=True)),
            {"type": "function_call_output", "call_id": ids[0], "output": told["result"]},
            {"type": "function_call_output", "call_id": ids[1], "output": told["error"]},
            {"role": "assistant", "content": told["answer"]},
        ]  # fmt: skip
        asyncio.run(PerdureSession("of-openai", store).add_items(items))
        return "of-openai"

    def read(self, store: Any, session: str, provider: str | None = None) -> list[Any]:
        from agents.models.chatcmpl_converter import Converter
        from openai.types.responses import ResponseInputItemParam
        from pydantic import TypeAdapter

        from perdure_adapters.openai_agents import PerdureSession

        found = asyncio.run(PerdureSession(session, store).get_items())
        TypeAdapter(list[ResponseInputItemParam]).validate_python(found)
        Converter.items_to_messages([item for item in found if item.get("type") != "reasoning"])
        return found

    def facts(self, found: list[Any]) -> list[tuple[Any, ...]]:
        facts: list[tuple[Any, ...]] = []
        for item in found:
            kind = item.get("type", "message")
            if kind == "function_call":
                facts.append(("call", item["call_id"], item["name"], json.loads(item["arguments"])))
            elif kind == "function_call_output":
                failed = item["output"].startswith("error: ")
                facts.append(("result", item["call_id"], item["output"].removeprefix("error: "), failed))
            elif kind == "reasoning":
                facts.append(("thought", item["summary"][0]["text"], item["encrypted_content"]))
            else:
                content = item["content"]
                for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
                    image = part["type"] == "input_image"
                    facts.append(("image", _decoded(part["image_url"])) if image else (item["role"], part["text"]))
        return facts


class ClaudeAgent:
    """Lines of a transcript, through `PerdureSessionStore`."""

    name, needs, provider = "claude_agent", ("claude_agent_sdk",), "anthropic"
    errors_are_flags = True

    def write(self, store: Any) -> str:
        from perdure_adapters.claude_agent import PerdureSessionStore
        from perdure_adapters.claude_agent.session_store import name_of

        told, ids = said(self.name), said(self.name)["ids"]
        picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG_64}}
        uses = [
            {"type": "tool_use", "id": each, "name": tool, "input": args}
            for each, (tool, args) in zip(ids, CALLS, strict=True)
        ]
        thinking = {"type": "thinking", "thinking": told["thought"], "signature": SIGNATURE}
        contents = [
            ("user", [{"type": "text", "text": told["user"]}, picture]),
            ("assistant", [thinking, {"type": "text", "text": told["assistant"]}, *uses]),
            ("user", [
                {"type": "tool_result", "tool_use_id": ids[0], "content": [{"type": "text", "text": told["result"]}]},
                {"type": "tool_result", "tool_use_id": ids[1], "content": told["error"], "is_error": True}]),
            ("assistant", [{"type": "text", "text": told["answer"]}]),
        ]  # fmt: skip
        key = {"project_key": "project", "session_id": str(uuid.uuid5(uuid.NAMESPACE_OID, "claude"))}
        lines, parent = [], None
        for role, content in contents:
            message = {"role": role, "content": content, **({"model": "claude"} if role == "assistant" else {})}
            lines.append({"type": role, "uuid": str(uuid.uuid4()), "parentUuid": parent, "message": message})
            parent = lines[-1]["uuid"]
        asyncio.run(PerdureSessionStore(store).append(key, lines))
        return name_of(key)

    def read(self, store: Any, session: str, provider: str | None = None) -> list[Any]:
        """As a host that resumes it: brought into a transcript, and read by the SDK."""
        from claude_agent_sdk import get_session_messages_from_store, project_key_for_directory
        from claude_agent_sdk._internal.message_parser import parse_message

        from perdure_adapters.claude_agent import PerdureSessionStore

        key = {
            "project_key": project_key_for_directory("/work"),
            "session_id": str(uuid.uuid5(uuid.NAMESPACE_OID, session)),
        }
        ours = PerdureSessionStore(store)

        async def resumed() -> list[Any]:
            lines = await ours.bring(session, key, cwd="/work")
            found = await get_session_messages_from_store(ours, key["session_id"], directory="/work")
            assert len(found) == lines == await ours.bring(session, key, cwd="/work")
            return found

        found = asyncio.run(resumed())
        for each in found:
            parse_message({"type": each.type, "message": each.message, "session_id": each.session_id})
        return found

    def facts(self, found: list[Any]) -> list[tuple[Any, ...]]:
        """Of the messages as the SDK gives them: its classes have no image."""
        facts: list[tuple[Any, ...]] = []
        for role, block in ((each.type, block) for each in found for block in each.message["content"]):
            kind = block["type"]
            if kind == "text":
                facts.append((role, block["text"]))
            elif kind == "image":
                facts.append(("image", base64.b64decode(block["source"]["data"])))
            elif kind == "thinking":
                facts.append(("thought", block["thinking"], block["signature"]))
            elif kind == "tool_use":
                facts.append(("call", block["id"], block["name"], block["input"]))
            elif kind == "tool_result":
                content = block["content"] if isinstance(block["content"], str) else block["content"][0]["text"]
                facts.append(("result", block["tool_use_id"], content, bool(block.get("is_error"))))
        return facts


class GoogleADK:
    """Events of Google ADK, through `PerdureSessionService`."""

    name, needs, provider = "google_adk", ("google.adk",), "google"
    errors_are_flags = True

    def write(self, store: Any) -> str:
        from google.adk.events.event import Event
        from google.genai import types as t

        from perdure_adapters.google_adk import PerdureSessionService
        from perdure_adapters.google_adk.sessions import name_of

        told, ids = said(self.name), said(self.name)["ids"]
        calls = [
            t.Part(function_call=t.FunctionCall(id=each, name=tool, args=args))
            for each, (tool, args) in zip(ids, CALLS, strict=True)
        ]
        responses = [(ids[0], "find", {"result": told["result"]}), (ids[1], "ping", {"error": told["error"]})]
        answered = [
            t.Part(function_response=t.FunctionResponse(id=each, name=tool, response=given))
            for each, tool, given in responses
        ]
        thinking = t.Part(text=told["thought"], thought=True, thought_signature=b"signed")
        contents = [
            ("user", [t.Part(text=told["user"]), t.Part(inline_data=t.Blob(mime_type="image/png", data=PNG))]),
            ("agent", [thinking, t.Part(text=told["assistant"]), *calls]),
            ("agent", answered),
            ("agent", [t.Part(text=told["answer"])]),
        ]  # fmt: skip
        service = PerdureSessionService(store)

        async def run() -> None:
            session = await service.create_session(app_name="app", user_id="u", session_id="s")
            for author, parts in contents:
                role = "user" if author == "user" or parts is answered else "model"
                await service.append_event(
                    session, Event(author=author, invocation_id="i", content=t.Content(role=role, parts=parts))
                )

        asyncio.run(run())
        return name_of("app", "u", "s")

    def read(self, store: Any, session: str, provider: str | None = None) -> list[Any]:
        from google.adk.events.event import Event
        from google.adk.flows.llm_flows import contents

        from perdure.handles.listing import every
        from perdure_adapters.forms.adk_events import FORM
        from perdure_adapters.neutral_messages import show

        turns = [*every(store.session(session).turns, after=0)]
        events = [Event.model_validate(record) for record in show(FORM, turns).records]
        contents._get_contents(None, events, "agent")
        return events

    def facts(self, found: list[Any]) -> list[tuple[Any, ...]]:
        facts: list[tuple[Any, ...]] = []
        for author, part in ((event.author, part) for event in found for part in event.content.parts):
            if part.function_call:
                call = part.function_call
                facts.append(("call", call.id, call.name, call.args))
            elif part.function_response:
                given = part.function_response
                assert given.name in {tool for tool, _ in CALLS}
                failed = set(given.response) == {"error"}
                facts.append(("result", given.id, given.response["error" if failed else "result"], failed))
            elif part.inline_data:
                facts.append(("image", part.inline_data.data))
            elif part.thought:
                facts.append(("thought", part.text, base64.b64encode(part.thought_signature).decode()))
            else:
                facts.append(("user" if author == "user" else "assistant", part.text))
        return facts


class Strands:
    """Messages of Strands, through `PerdureSessionRepository`."""

    name, needs, provider = "strands", ("strands",), "strands"
    errors_are_flags = True

    def write(self, store: Any) -> str:
        from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

        from perdure_adapters.strands import PerdureSessionRepository

        told, ids = said(self.name), said(self.name)["ids"]
        uses = [
            {"toolUse": {"toolUseId": each, "name": tool, "input": args}}
            for each, (tool, args) in zip(ids, CALLS, strict=True)
        ]
        results = [(ids[0], "success", told["result"]), (ids[1], "error", told["error"])]
        given = [
            {"toolResult": {"toolUseId": each, "status": status, "content": [{"text": text}]}}
            for each, status, text in results
        ]
        thinking = {"reasoningContent": {"reasoningText": {"text": told["thought"], "signature": SIGNATURE}}}
        contents = [
            ("user", [{"text": told["user"]}, {"image": {"format": "png", "source": {"bytes": PNG}}}]),
            ("assistant", [thinking, {"text": told["assistant"]}, *uses]), ("user", given),
            ("assistant", [{"text": told["answer"]}]),
        ]  # fmt: skip
        repository = PerdureSessionRepository(store)
        repository.create_session(Session(session_id="of-strands", session_type=SessionType.AGENT))
        repository.create_agent("of-strands", SessionAgent("default", {}, {}))
        for number, (role, content) in enumerate(contents):
            message = SessionMessage(message={"role": role, "content": content}, message_id=number)
            repository.create_message("of-strands", "default", message)
        return "of-strands"

    def read(self, store: Any, session: str, provider: str | None = None) -> list[Any]:
        """As its repository does, also where the id of a session has slashes."""
        from strands.models.openai import OpenAIModel

        from perdure.handles.listing import every
        from perdure_adapters.strands.repository import messages_of

        found = [each.to_message() for each in messages_of([*every(store.session(session).turns, after=0)])]
        silent = [
            {**message, "content": [block for block in message["content"] if "reasoningContent" not in block]}
            for message in found
        ]
        OpenAIModel.format_request_messages(silent)
        return found

    def facts(self, found: list[Any]) -> list[tuple[Any, ...]]:
        facts: list[tuple[Any, ...]] = []
        for role, block in ((message["role"], block) for message in found for block in message["content"]):
            if "text" in block:
                facts.append((role, block["text"]))
            elif "image" in block:
                facts.append(("image", block["image"]["source"]["bytes"]))
            elif "reasoningContent" in block:
                thought = block["reasoningContent"]["reasoningText"]
                facts.append(("thought", thought["text"], thought["signature"]))
            elif "toolUse" in block:
                facts.append(("call", *(block["toolUse"][name] for name in ("toolUseId", "name", "input"))))
            else:
                given = block["toolResult"]
                facts.append(("result", given["toolUseId"], given["content"][0]["text"], given["status"] == "error"))
        return facts


class AgentFramework:
    """Messages of Microsoft Agent Framework, through `PerdureHistoryProvider`."""

    name, needs, provider = "agent_framework", ("agent_framework",), "agent_framework"
    errors_are_flags = True

    def write(self, store: Any) -> str:
        from agent_framework import Content, Message

        from perdure_adapters.agent_framework import PerdureHistoryProvider

        told, ids = said(self.name), said(self.name)["ids"]
        calls = [
            Content.from_function_call(each, tool, arguments=json.dumps(args))
            for each, (tool, args) in zip(ids, CALLS, strict=True)
        ]
        results = [
            Content.from_function_result(ids[0], result=told["result"]),
            Content.from_function_result(ids[1], result=told["error"], exception="no route"),
        ]
        thinking = Content.from_text_reasoning(text=told["thought"], protected_data=SIGNATURE)
        messages = [
            Message("user", [told["user"], Content.from_data(PNG, "image/png")]),
            Message("assistant", [thinking, told["assistant"], *calls]),
            Message("tool", results),
            Message("assistant", [told["answer"]]),
        ]
        asyncio.run(PerdureHistoryProvider(store).save_messages("of-agent-framework", messages))
        return "of-agent-framework"

    def read(self, store: Any, session: str, provider: str | None = None) -> list[Any]:
        """As an agent of it does, whose client sees the whole conversation."""
        from agent_framework import Agent, AgentSession, BaseChatClient, ChatResponse, Message

        from perdure_adapters.agent_framework import PerdureHistoryProvider

        seen: list[Any] = []

        class Client(BaseChatClient):
            async def _inner_get_response(self, *, messages: Any, **_more: Any) -> ChatResponse:
                seen.extend(messages)
                return ChatResponse(messages=[Message("assistant", ["yes"])])

        history = PerdureHistoryProvider(store, store_inputs=False, store_outputs=False)
        agent = Agent(Client(), context_providers=[history])
        asyncio.run(agent.run("and now?", session=AgentSession(session_id=session)))
        return seen[:-1]

    def facts(self, found: list[Any]) -> list[tuple[Any, ...]]:
        facts: list[tuple[Any, ...]] = []
        for role, each in ((message.role, each) for message in found for each in message.contents):
            if each.type == "text":
                facts.append((role, each.text))
            elif each.type == "data":
                facts.append(("image", _decoded(each.uri)))
            elif each.type == "text_reasoning":
                facts.append(("thought", each.text, each.protected_data))
            elif each.type == "function_call":
                facts.append(("call", each.call_id, each.name, dict(each.parse_arguments())))
            elif each.type == "function_result":
                facts.append(("result", each.call_id, each.result, each.exception is not None))
        return facts


def _decoded(url: str) -> bytes:
    return base64.b64decode(url.removeprefix("data:image/png;base64,"))


def missing(speaker: Any) -> str:
    """The module of a speaker that is not installed, or nothing."""
    for module in speaker.needs:
        try:
            importlib.import_module(module)
        except ImportError:
            return module
    return ""


# A framework more is a class above and its line here.
SPEAKERS = (LangGraph(), PydanticAI(), OpenAIAgents(), ClaudeAgent(), GoogleADK(), Strands(), AgentFramework())

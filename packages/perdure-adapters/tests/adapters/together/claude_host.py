"""A host for the Claude Agent SDK without its program: a transport that does what the program does around tools.

It keeps a transcript (mirrored through the SDK, line by line), calls the hooks before and after each tool, and calls tools of SDK
MCP servers, all by the SDK's own control protocol. A host that begins from a transcript writes an error for each call without a
result, as the program does (seen in 2.1.326), and asks the model again. `answer(lines)` is the model: it gives the text and the
calls of its next answer.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import uuid
from typing import Any

from claude_agent_sdk import Transport

ANSWERS_MAX = 20
INTERRUPTED = "[Tool call interrupted: its outcome is unknown.]"


class Host(Transport):
    """One life of the program. lines: the transcript so far; path: the file that it would write; own: does a tool of its own."""

    def __init__(
        self, answer: Any, lines: list[Any], session_id: str, cwd: str, path: str, servers: tuple[str, ...], own: Any = None
    ) -> None:  # fmt: skip
        self.answer, self.lines, self.servers, self.own = answer, list(lines), servers, own
        self.numbers = itertools.count(1)
        self.session_id, self.cwd, self.path = session_id, cwd, path
        self.out: asyncio.Queue[Any] = asyncio.Queue()
        self.replies: dict[str, asyncio.Future[Any]] = {}
        self.hooks: dict[str, list[str]] = {}
        self.tasks: list[asyncio.Task[Any]] = []
        self.error: BaseException | None = None

    async def connect(self) -> None: ...

    def is_ready(self) -> bool:
        return True

    async def end_input(self) -> None: ...

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        self.out.put_nowait(None)

    async def read_messages(self):
        while (message := await self.out.get()) is not None:
            yield message

    async def write(self, data: str) -> None:
        message = json.loads(data)
        if message["type"] == "control_request":
            hooks = message["request"].get("hooks") or {}
            self.hooks = {
                event: [each for one in found for each in one["hookCallbackIds"]] for event, found in hooks.items()
            }
            about = {"subtype": "success", "request_id": message["request_id"], "response": {"commands": []}}
            self.out.put_nowait({"type": "control_response", "response": about})
        elif message["type"] == "control_response":
            self.replies.pop(message["response"]["request_id"]).set_result(message["response"])
        elif message["type"] == "user":
            self.tasks.append(asyncio.create_task(self.work(message["message"]["content"])))
            self.tasks[-1].add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        """A host that fails ends the stream, so that the SDK does not wait for it."""
        if not task.cancelled() and task.exception() is not None:
            self.error = task.exception()
            self.out.put_nowait(None)

    async def ask(self, **request: Any) -> Any:
        """A control request to the SDK; its response."""
        number = uuid.uuid4().hex
        self.replies[number] = asyncio.get_running_loop().create_future()
        self.out.put_nowait({"type": "control_request", "request_id": number, "request": request})
        replied = await self.replies[number] if number in self.replies else None
        assert replied is not None
        assert replied["subtype"] == "success", replied
        return replied["response"]

    def keep(self, role: str, content: Any) -> None:
        """Write a line of the transcript, and mirror it."""
        parent = self.lines[-1]["uuid"] if self.lines else None
        message = {"role": role, "content": content, **({"model": "m"} if role == "assistant" else {})}
        line = {
            "type": role,
            "uuid": str(uuid.uuid4()),
            "parentUuid": parent,
            "sessionId": self.session_id,
            "message": message,
        }
        self.lines.append(line)
        self.out.put_nowait({"type": "transcript_mirror", "filePath": self.path, "entries": [line]})

    async def rpc(self, server: str, method: str, params: Any) -> Any:
        """A request to an SDK MCP server; its result."""
        message = {"jsonrpc": "2.0", "id": next(self.numbers), "method": method, "params": params}
        replied = (await self.ask(subtype="mcp_message", server_name=server, message=message))["mcp_response"]
        assert "result" in replied, replied
        return replied["result"]

    async def greet(self, server: str) -> None:
        """The handshake with an SDK MCP server."""
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "host", "version": "1"}}
        await self.rpc(server, "initialize", about)
        message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await self.ask(subtype="mcp_message", server_name=server, message=message)

    async def work(self, prompt: Any) -> None:
        for server in self.servers:
            await self.greet(server)
        for use in unanswered(self.lines):
            self.keep("user", [_result(use, INTERRUPTED, error=True)])
        self.keep("user", prompt)
        for _ in range(ANSWERS_MAX):
            words, calls = await self.answer(self.lines)
            uses = [
                {"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex}", "name": name, "input": args}
                for name, args in calls
            ]
            self.keep("assistant", [{"type": "text", "text": words}, *uses])
            if not uses:
                about = {"duration_ms": 1, "duration_api_ms": 1, "is_error": False, "num_turns": 1}
                self.out.put_nowait(
                    {"type": "result", "subtype": "success", "result": words, "session_id": self.session_id, **about}
                )
                return
            results = await asyncio.gather(*map(self.call, uses))
            for result in results:
                self.keep("user", [result])
        raise AssertionError(f"no end after {ANSWERS_MAX} answers: {self.lines[-1]}")

    async def call(self, use: Any) -> Any:
        about = {"tool_name": use["name"], "tool_input": use["input"], "session_id": self.session_id, "cwd": self.cwd}
        for hook in self.hooks.get("PreToolUse", ()):
            event = {"hook_event_name": "PreToolUse", **about}
            said = await self.ask(subtype="hook_callback", callback_id=hook, input=event, tool_use_id=use["id"])
            decided = said.get("hookSpecificOutput", {})
            if decided.get("permissionDecision") == "deny":
                return _result(use, decided["permissionDecisionReason"], error=True)
        given = await self.carry_out(use)
        for hook in self.hooks.get("PostToolUse", ()):
            event = {"hook_event_name": "PostToolUse", "tool_response": given, **about}
            await self.ask(subtype="hook_callback", callback_id=hook, input=event, tool_use_id=use["id"])
        return _result(use, given["content"][0]["text"], error=bool(given.get("isError")))

    async def carry_out(self, use: Any) -> Any:
        """A tool of a server, or of its own."""
        if "__" not in use["name"]:
            return self.own(use["name"])
        _, server, tool = use["name"].split("__")
        return await self.rpc(server, "tools/call", {"name": tool, "arguments": use["input"]})


def _result(use: Any, text: str, *, error: bool) -> Any:
    return {"type": "tool_result", "tool_use_id": use["id"], "content": text, "is_error": error}


def unanswered(lines: list[Any]) -> list[Any]:
    """The calls of a transcript that has no results for them."""
    blocks = [block for line in lines for block in line["message"]["content"] if isinstance(block, dict)]
    told = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
    return [block for block in blocks if block["type"] == "tool_use" and block["id"] not in told]


def heard(lines: list[Any]) -> list[str]:
    """The names of the tools whose results a transcript has. A model understands a denial that says that it was done before."""
    names, done = {}, []
    for block in (block for line in lines for block in line["message"]["content"] if isinstance(block, dict)):
        if block["type"] == "tool_use":
            names[block["id"]] = block["name"]
        elif block["type"] == "tool_result" and (not block.get("is_error") or "carried out before" in block["content"]):
            done.append(names[block["tool_use_id"]].rpartition("__")[2])
    return done

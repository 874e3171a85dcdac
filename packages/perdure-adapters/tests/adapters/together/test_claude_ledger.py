"""`PerdureLedger` and `PerdureSessionStore` together: results that a conversation has heard, and is told on resume."""

from __future__ import annotations

import asyncio
import uuid

import pytest

pytest.importorskip(
    "claude_agent_sdk", reason="claude-agent-sdk is not installed: `tools/adapters.py together` has all frameworks"
)

from claude_agent_sdk import project_key_for_directory, tool
from claude_agent_sdk.testing import run_session_store_conformance

import perdure
from perdure_adapters.claude_agent import PerdureLedger, PerdureSessionStore

INPUT = {"order": "7"}


class Conversation:
    """A host's side of one conversation: lines are mirrored, and a call passes the hook before it comes to its tool."""

    def __init__(self, store, ledger, folder, number=1):
        self.ledger, self.cwd, self.about = ledger, str(folder), {}
        self.sessions = PerdureSessionStore(store, ledger=ledger)
        self.key = {"project_key": project_key_for_directory(self.cwd), "session_id": str(uuid.UUID(int=number))}

    async def say(self, role, *content):
        line = {
            "type": role,
            "uuid": str(uuid.uuid4()),
            "parentUuid": None,
            "message": {"role": role, "content": [*content]},
        }
        await self.sessions.append(self.key, [line])
        return line

    async def call(self, made, call, name="mcp__shop__pay"):
        await self.say("user", {"type": "text", "text": "order"})
        line = await self.say("assistant", {"type": "tool_use", "id": call, "name": name, "input": INPUT})
        asked = {
            "tool_name": name,
            "tool_input": INPUT,
            "session_id": self.key["session_id"],
            "cwd": self.cwd,
            **self.about,
        }
        await self.ledger.hooks()["PreToolUse"][0].hooks[0](asked, call, None)
        return line, await self.ledger.ledgered(made)(INPUT)

    async def hear(self, call, result):
        await self.say("user", {"type": "tool_result", "tool_use_id": call, "content": result["content"]})

    async def heard(self):
        """The results of the transcript that a resumed host is given, by call."""
        blocks = [block for line in await self.sessions.load(self.key) for block in line["message"]["content"]]
        return {each["tool_use_id"]: each["content"] for each in blocks if each["type"] == "tool_result"}


class Subagent(Conversation):
    """A conversation that a subagent has, in the host's session."""

    def __init__(self, store, ledger, folder):
        super().__init__(store, ledger, folder)
        self.key["subpath"], self.about = "subagents/agent-a1", {"agent_id": "a1"}


def payer(done):
    @tool("pay", "Pay an order.", {"order": str})
    async def pay(args):
        done.append(args["order"])
        return {"content": [{"type": "text", "text": f"paid {len(done)}"}]}

    return pay


@pytest.fixture
def store(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/agent.db") as store:
        yield store


@pytest.fixture
def served(store):
    """A ledger and its tool, as each process makes them; and what was paid."""
    done = []

    def made():
        ledger, pay = PerdureLedger(store, "shop"), payer(done)
        ledger.server("shop", [pay])
        return ledger, pay

    return made, done


def told(text):
    return [{"type": "text", "text": text}]


def test_a_call_that_one_conversation_heard_the_result_of_is_carried_out_in_another(store, served, tmp_path):
    made, done = served

    async def main():
        ledger, pay = made()
        first = Conversation(store, ledger, tmp_path)
        _, result = await first.call(pay, "t1")
        await first.hear("t1", result)
        ledger, pay = made()  # another process
        second = Conversation(store, ledger, tmp_path, 2)
        assert (await second.call(pay, "t2"))[1]["content"] == told("paid 2")

    asyncio.run(main())
    assert done == ["7", "7"]


def test_control_a_result_that_nobody_heard_answers_the_next_call_like_it_in_any_conversation(store, served, tmp_path):
    made, done = served

    async def main():
        ledger, pay = made()
        await Conversation(store, ledger, tmp_path).call(pay, "t1")
        ledger, pay = made()
        second = Conversation(store, ledger, tmp_path, 2)
        assert (await second.call(pay, "t2"))[1]["content"] == told("paid 1")

    asyncio.run(main())
    assert done == ["7"]


def test_a_resumed_transcript_has_the_results_that_the_ledger_has(store, served, tmp_path):
    made, done = served

    async def main():
        ledger, pay = made()
        line, _ = await Conversation(store, ledger, tmp_path).call(pay, "t1")
        ledger, pay = made()
        resumed = Conversation(store, ledger, tmp_path)
        assert await resumed.heard() == {"t1": told("paid 1")}
        lines = await resumed.sessions.load(resumed.key)
        assert (lines[-1]["type"], lines[-1]["parentUuid"]) == ("user", line["uuid"])
        assert await PerdureSessionStore(store).load(resumed.key) == lines  # it is kept, once
        assert (await resumed.call(pay, "t2"))[1]["content"] == told("paid 2")  # the model heard of the first

    asyncio.run(main())
    assert done == ["7", "7"]


def test_control_without_the_ledger_a_transcript_is_as_it_was_mirrored(store, served, tmp_path):
    made, _ = served

    async def main():
        ledger, pay = made()
        await Conversation(store, ledger, tmp_path).call(pay, "t1")
        assert await Conversation(store, None, tmp_path).heard() == {}

    asyncio.run(main())


def test_a_result_that_is_on_its_way_is_not_added(store, served, tmp_path):
    made, _ = served

    async def main():
        ledger, pay = made()
        living = Conversation(store, ledger, tmp_path)
        await living.call(pay, "t1")
        assert await living.heard() == {}

    asyncio.run(main())


def test_a_call_in_doubt_gets_no_result(store, served, tmp_path):
    made, _ = served

    @tool("pay", "Pay an order.", {"order": str})
    async def breaks(args):
        raise OSError("the line is dead")

    async def main():
        ledger, _ = made()
        _, result = await Conversation(store, ledger, tmp_path).call(breaks, "t1")
        assert result["is_error"]
        assert await Conversation(store, made()[0], tmp_path).heard() == {}

    asyncio.run(main())


def test_an_error_is_told_as_an_error_and_a_result_of_the_host_as_text(store, served, tmp_path):
    made, _ = served
    results = {"t1": {"error": "no such file"}, "t2": {"stdout": "a.py"}, "t3": "a.py"}

    async def main():
        ledger, _ = made()
        first = Conversation(store, ledger, tmp_path)
        for call, result in results.items():
            asked = {"tool_name": "Bash", "tool_input": {"command": call}, "session_id": first.key["session_id"]}
            await first.say("assistant", {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": call}})
            hooks = ledger.hooks()
            await hooks["PreToolUse"][0].hooks[0]({**asked, "cwd": first.cwd}, call, None)
            failed = (
                {"hook_event_name": "PostToolUseFailure", **result} if "error" in result else {"tool_response": result}
            )
            await hooks["PostToolUse"][0].hooks[0](failed, call, None)
        resumed = Conversation(store, made()[0], tmp_path)
        lines = await resumed.sessions.load(resumed.key)
        return [line["message"]["content"][0] for line in lines if line["type"] == "user"]

    found = asyncio.run(main())
    assert [(each["content"], each.get("is_error", False)) for each in found] == [
        ("no such file", True),
        ('{"stdout": "a.py"}', False),
        ("a.py", False),
    ]


def test_a_subagent_hears_in_its_own_transcript(store, served, tmp_path):
    made, done = served

    async def main():
        ledger, pay = made()
        _, result = await (first := Subagent(store, ledger, tmp_path)).call(pay, "t1")
        await first.hear("t1", result)
        ledger, pay = made()
        assert (await Conversation(store, ledger, tmp_path).call(pay, "t2"))[1]["content"] == told("paid 2")

    asyncio.run(main())
    assert done == ["7", "7"]


@pytest.mark.parametrize("in_kinds", [False, True])
def test_a_probe_takes_the_input_as_its_tool_does(store, in_kinds):
    asked = []

    def look(args):
        asked.append(args)
        return perdure.Happened({"content": told("paid")})

    def look_by_name(order):
        return look({"order": order})

    @perdure.tool(probe=look, lands_within=0)
    async def breaks(args):
        raise OSError("the line is dead")

    declared = perdure.tool(lambda order: None, name="pay", probe=look_by_name, lands_within=0)
    ledger = PerdureLedger(store, "shop", kinds={"pay": declared} if in_kinds else None)
    pay = tool("pay", "Pay an order.", {"order": str})(breaks)
    assert asyncio.run(ledger.ledgered(pay)(INPUT)) == {"content": told("paid")}
    assert asked == [INPUT]


def test_the_contract_of_the_sdk_holds_with_a_ledger(tmp_path):
    made = []

    def fresh():
        store = perdure.open(f"sqlite:///{tmp_path}/{len(made)}.db")
        made.append(store)
        return PerdureSessionStore(store, ledger=PerdureLedger(store, "shop"))

    asyncio.run(run_session_store_conformance(fresh))
    assert len(made) >= 14
    for store in made:
        store.close()

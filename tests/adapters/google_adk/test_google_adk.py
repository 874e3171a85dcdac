"""Google ADK on Perdure: the documented behaviours of its session services, and tools that are called once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import perdure

pytest.importorskip(
    "google.adk", reason="Google ADK is not here: pip install 'perdure[google-adk]'", exc_type=ImportError
)

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.genai import types

from perdure.adapters.google_adk import PerdurePlugin, PerdureSessionService

WHO = {"app_name": "shop", "user_id": "alice"}


@pytest.fixture(params=["stock", "sqlite", "files"])
def service(request: Any, tmp_path: Any) -> Any:
    if request.param == "stock":
        yield InMemorySessionService()
        return
    made = PerdureSessionService(f"{request.param}:///{tmp_path}/agent.db")
    yield made
    made.close()


def said(text: str, author: str = "user", **about: Any) -> Event:
    state = about.pop("state", {})
    content = types.Content(role=author, parts=[types.Part(text=text)])
    return Event(
        id=about.pop("id", "") or Event.new_id(), invocation_id="i", author=author, content=content,
        actions=EventActions(state_delta=state), **about,
    )  # fmt: skip


def texts(session: Any) -> list[str]:
    return [event.content.parts[0].text for event in session.events]


def test_a_session_is_created_once_and_found_again(service: Any) -> None:
    async def main() -> None:
        made = await service.create_session(**WHO, session_id="  s1 ", state={"a": 1})
        assert (made.id, made.state, made.events) == ("s1", {"a": 1}, [])
        with pytest.raises(AlreadyExistsError):
            await service.create_session(**WHO, session_id="s1")
        found = await service.get_session(**WHO, session_id=" s1")
        assert found == made
        assert await service.get_session(**WHO, session_id="s2") is None
        assert await service.get_session(app_name="shop", user_id="bob", session_id="s1") is None

    asyncio.run(main())


def test_events_come_back_equal_and_in_order(service: Any) -> None:
    async def main() -> None:
        session = await service.create_session(**WHO, session_id="s1")
        call = types.Part(function_call=types.FunctionCall(id="c1", name="look", args={"at": 1}))
        answer = types.Part(function_response=types.FunctionResponse(id="c1", name="look", response={"found": 1}))
        events = [
            said("look"),
            Event(id="e2", invocation_id="i", author="agent", content=types.Content(role="model", parts=[call])),
            Event(id="e3", invocation_id="i", author="agent", content=types.Content(role="user", parts=[answer])),
            said("done", "agent"),
        ]
        for event in events:
            await service.append_event(session, event)
        found = await service.get_session(**WHO, session_id="s1")
        assert found.events == events == session.events
        assert found.last_update_time == events[-1].timestamp

    asyncio.run(main())


def test_partial_events_are_not_stored_and_an_event_is_stored_once(service: Any) -> None:
    async def main() -> None:
        session = await service.create_session(**WHO, session_id="s1")
        await service.append_event(session, said("half", partial=True))
        event = said("whole", state={"n": 1})
        for _ in range(2):
            await service.append_event(session, event)
        await service.append_event(session, said("other", id=event.id))
        assert texts(await service.get_session(**WHO, session_id="s1")) == ["whole", "other"]

    asyncio.run(main())


def test_state_belongs_to_session_user_and_app_and_temp_to_nobody(service: Any) -> None:
    async def main() -> None:
        first = await service.create_session(
            **WHO, session_id="s1", state={"app:x": 1, "user:y": 2, "z": 3, "temp:t": 4}
        )
        await service.append_event(first, said("x", state={"user:y": 5, "z": 6, "temp:t": 7}))
        assert first.state["temp:t"] == 7
        found = await service.get_session(**WHO, session_id="s1")
        assert found.state == {"app:x": 1, "user:y": 5, "z": 6}
        assert "temp:t" not in found.events[0].actions.state_delta
        second = await service.create_session(**WHO, session_id="s2")
        assert second.state == {"app:x": 1, "user:y": 5}
        third = await service.create_session(app_name="shop", user_id="bob", session_id="s1")
        assert third.state == {"app:x": 1}
        assert await service.get_user_state(**WHO) == {"y": 5}
        assert await service.get_user_state(app_name="shop", user_id="carol") == {}

    asyncio.run(main())


def test_the_newest_events_and_those_since_an_instant(service: Any) -> None:
    async def main() -> None:
        session = await service.create_session(**WHO, session_id="s1")
        for number in range(5):
            await service.append_event(session, said(str(number), timestamp=100.0 + number))
        for config, expected in (
            (GetSessionConfig(num_recent_events=2), "34"), (GetSessionConfig(num_recent_events=0), ""),
            (GetSessionConfig(num_recent_events=9), "01234"), (GetSessionConfig(after_timestamp=103.0), "34"),
            (GetSessionConfig(num_recent_events=3, after_timestamp=103.0), "34"),
        ):  # fmt: skip
            found = await service.get_session(**WHO, session_id="s1", config=config)
            assert "".join(texts(found)) == expected

    asyncio.run(main())


def test_a_list_is_the_oldest_update_first(service: Any) -> None:
    async def main() -> None:
        sessions = [await service.create_session(**WHO, session_id=name) for name in ("a", "b")]
        await service.create_session(app_name="shop", user_id="bob", session_id="c")
        await service.append_event(sessions[0], said("x", timestamp=9_999_999_999.0))
        found = (await service.list_sessions(**WHO)).sessions
        assert [(each.id, each.events) for each in found] == [("b", []), ("a", [])]
        assert len((await service.list_sessions(app_name="shop")).sessions) == 3
        assert (await service.list_sessions(app_name="other")).sessions == []

    asyncio.run(main())


def test_a_deleted_session_is_gone(service: Any) -> None:
    async def main() -> None:
        session = await service.create_session(**WHO, session_id="s1", state={"z": 1})
        await service.append_event(session, said("x"))
        for _ in range(2):
            await service.delete_session(**WHO, session_id="s1")
        assert await service.get_session(**WHO, session_id="s1") is None
        with pytest.raises(SessionNotFoundError):
            await service.append_event(session, said("late"))
        again = await service.create_session(**WHO, session_id="s1")
        assert (again.state, again.events) == ({}, [])

    asyncio.run(main())


def test_two_copies_of_a_session_lose_nothing(service: Any) -> None:
    async def main() -> None:
        await service.create_session(**WHO, session_id="s1")
        copies = [await service.get_session(**WHO, session_id="s1") for _ in range(2)]
        for number, each in enumerate(copies):
            await service.append_event(each, said(str(number), state={str(number): True}))
        found = await service.get_session(**WHO, session_id="s1")
        assert (texts(found), found.state) == (["0", "1"], {"0": True, "1": True})

    asyncio.run(main())


# -- tools -------------------------------------------------------------------------------------------------------------


class Death(BaseException):
    """Stands for the end of a process inside this one."""


class Bank:
    """A tool of the framework, and how often it was called."""

    name = "charge"

    def __init__(self, *, dies: bool = False) -> None:
        self.calls: list[int] = []
        self.dies = dies

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
        self.calls.append(args["cents"])
        if self.dies:
            raise Death
        return f"charged {args['cents']}"


class Context:
    """As much of a tool's context as the plugin looks at."""

    function_call_id = "c1"

    def __init__(self, session: Any) -> None:
        self.session = session


async def called(store: Any, bank: Bank, **about: Any) -> Any:
    """The call of a session, as the framework makes it: its event is stored, then the plugin is asked."""
    service, plugin = PerdureSessionService(store), PerdurePlugin(store, **about)
    session = await service.get_session(**WHO, session_id="s1")
    if session is None:
        session = await service.create_session(**WHO, session_id="s1")
        call = types.Part(function_call=types.FunctionCall(id="c1", name="charge", args={"cents": 5}))
        content = types.Content(role="model", parts=[call])
        await service.append_event(session, Event(id="e1", invocation_id="i", author="agent", content=content))
    return await plugin.before_tool_callback(tool=bank, tool_args={"cents": 5}, tool_context=Context(session))


def test_a_call_that_comes_again_is_answered_by_the_ledger(tmp_path: Any) -> None:
    bank = Bank()
    with perdure.open(f"sqlite:///{tmp_path}/agent.db") as store:
        for _ in range(2):
            assert asyncio.run(called(store, bank)) == {"result": "charged 5"}
    assert bank.calls == [5]


def test_a_tool_that_dies_leaves_doubt_and_a_person_settles_it(tmp_path: Any) -> None:
    with perdure.open(f"sqlite:///{tmp_path}/agent.db") as store:
        with pytest.raises(Death):
            asyncio.run(called(store, Bank(dies=True)))
        second = Bank()
        with pytest.raises(perdure.InDoubt):
            asyncio.run(called(store, second))
        [effect] = store.effects()
        effect.settle(perdure.Happened("charged, says the bank"))
        assert asyncio.run(called(store, second)) == {"result": "charged, says the bank"}
        assert second.calls == []


def test_control_a_harmless_tool_is_called_again_and_a_reading_one_is_left_to_the_framework(tmp_path: Any) -> None:
    with perdure.open(f"sqlite:///{tmp_path}/agent.db") as store:
        with pytest.raises(Death):
            asyncio.run(called(store, Bank(dies=True), kinds={"charge": "idempotent"}))
        second = Bank()
        assert asyncio.run(called(store, second, kinds={"charge": "idempotent"})) == {"result": "charged 5"}
        assert second.calls == [5]
        assert asyncio.run(called(store, second, kinds={"charge": "read"})) is None


def test_a_whole_run_of_the_framework_goes_through_the_ledger(tmp_path: Any) -> None:
    from google.adk.agents import LlmAgent
    from google.adk.models.base_llm import BaseLlm
    from google.adk.models.llm_response import LlmResponse
    from google.adk.runners import Runner

    charged: list[int] = []

    def charge(cents: int) -> dict[str, Any]:
        """Charge a card."""
        charged.append(cents)
        return {"charged": cents}

    class Scripted(BaseLlm):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            part = llm_request.contents[-1].parts[-1]
            if part.function_response is not None:
                made = types.Part(text=f"charged {part.function_response.response['charged']}")
            else:
                made = types.Part(function_call=types.FunctionCall(name="charge", args={"cents": 5}))
            yield LlmResponse(content=types.Content(role="model", parts=[made]))

    async def main(store: Any) -> list[str]:
        agent = LlmAgent(name="shop", model=Scripted(model="scripted"), tools=[charge])
        service = PerdureSessionService(store)
        runner = Runner(app_name="shop", agent=agent, session_service=service, plugins=[PerdurePlugin(store)])
        await service.create_session(**WHO, session_id="s1")
        message = types.Content(role="user", parts=[types.Part(text="buy it")])
        events = [each async for each in runner.run_async(user_id="alice", session_id="s1", new_message=message)]
        return [part.text for event in events for part in event.content.parts if part.text]

    with perdure.open(f"sqlite:///{tmp_path}/agent.db") as store:
        assert asyncio.run(main(store)) == ["charged 5"]
        [effect] = store.effects()
        assert (effect.record.tool, effect.record.result, charged) == ("charge", {"charged": 5}, [5])
        found = asyncio.run(PerdureSessionService(store).get_session(**WHO, session_id="s1"))
        assert len(found.events) == 4
        roles = [turn.role.value for turn in store.session("adk/shop/alice/s1").turns(last=10)]
        assert roles[:3] == ["user", "assistant", "tool"]

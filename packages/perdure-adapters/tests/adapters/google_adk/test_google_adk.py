"""Google ADK on Perdure: the documented behaviours of its session services, and tools that are called once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import perdure
from installed import stores_here

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

from perdure.model.records.conversation import Call
from perdure_adapters.forms.adk_events import FORM
from perdure_adapters.google_adk import (
    PerdureArtifactService,
    PerdureMemoryService,
    PerdurePlugin,
    PerdureSessionService,
)
from perdure_adapters.google_adk.plugin import answer_among, key_among
from perdure_adapters.neutral_messages import Message

WHO = {"app_name": "shop", "user_id": "alice"}


@pytest.fixture(params=stores_here("stock", "sqlite", "files"))
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

    def __init__(self, session: Any, confirmation: Any = None) -> None:
        self.session = session
        self.actions = EventActions()
        self.tool_confirmation = confirmation
        self.asked: list[Any] = []

    def request_confirmation(self, *, hint: str, payload: Any) -> None:
        self.asked.append((hint, payload))


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
        assert "in doubt" in asyncio.run(called(store, second))["error"]
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


# -- pauses and messages that are sent again ---------------------------------------------------------------------------


def shop_of(store: Any, charge: Any, *, resumable: bool = False, kinds: Any = None) -> Any:
    from google.adk.agents import LlmAgent
    from google.adk.apps.app import App, ResumabilityConfig
    from google.adk.runners import Runner

    from adapters.google_adk.shop import Scripted

    agent = LlmAgent(name="shop", model=Scripted(model="scripted"), tools=[charge])
    config = ResumabilityConfig(is_resumable=True) if resumable else None
    app = App(
        name="shop", root_agent=agent, plugins=[PerdurePlugin(store, kinds=kinds)], resumability_config=config
    )  # fmt: skip
    return Runner(app=app, session_service=PerdureSessionService(store))


async def told(runner: Any, *parts: Any, **options: Any) -> list[Any]:
    message = {"new_message": types.Content(role="user", parts=list(parts))} if parts else {}
    return [each async for each in runner.run_async(user_id="alice", session_id="s1", **message, **options)]


def charges(calls: list[int], error: BaseException | None = None) -> Any:
    def charge(cents: int) -> dict[str, Any]:
        """Charge a card."""
        calls.append(cents)
        if error is not None and cents == 5 and calls.count(5) == 1:
            raise error
        return {"charged": cents}

    return charge


def test_doubt_is_a_confirmation_and_its_payload_is_the_verdict(tmp_path: Any) -> None:
    calls: list[int] = []

    async def main(store: Any) -> list[str]:
        await PerdureSessionService(store).create_session(**WHO, session_id="s1")
        events = await told(shop_of(store, charges(calls, ConnectionError("cut"))), types.Part(text="buy it"))
        [asked] = [call for event in events for call in event.get_function_calls() if "confirmation" in call.name]
        assert "perdure settle" in asked.args["toolConfirmation"]["hint"]
        answer = {"confirmed": True, "payload": {"happened": {"charged": 5}}}
        response = types.FunctionResponse(id=asked.id, name=asked.name, response=answer)
        events = await told(shop_of(store, charges(calls)), types.Part(function_response=response))
        return [part.text for event in events if event.content for part in event.content.parts if part.text]

    with perdure.open(f"sqlite:///{tmp_path}/agent.db") as store:
        assert asyncio.run(main(store)) == ["done"]
        assert sorted(calls) == [5, 7]
        results = [turn for turn in store.session("adk/shop/alice/s1").turns() if turn.call is not None]
        assert sorted(turn.content["charged"] for turn in results) == [5, 7]


def asked_in(events: list[Any]) -> list[Any]:
    return [call for event in events for call in event.get_function_calls() if call.name == "adk_request_confirmation"]


def answer_to(asked: Any, verdict: Any) -> Any:
    answer = {"confirmed": True, "payload": verdict}
    return types.Part(function_response=types.FunctionResponse(id=asked.id, name=asked.name, response=answer))


def failing(calls: list[int], *errors: BaseException) -> Any:
    """A tool whose first calls with 5 do what they do, and then raise these."""
    left = list(errors)

    def charge(cents: int) -> dict[str, Any]:
        """Charge a card."""
        calls.append(cents)
        if cents == 5 and left:
            raise left.pop(0)
        return {"charged": cents}

    return charge


def texts_of(events: list[Any]) -> list[str]:
    return [part.text for event in events if event.content for part in event.content.parts if part.text]


@pytest.mark.parametrize("way", ["the answer is sent again", "the invocation is resumed"])
def test_an_answer_is_about_one_attempt(tmp_path: Any, way: str) -> None:
    """An "absent" about the first attempt is no word about the second, which a crash leaves in doubt before any event."""
    calls: list[int] = []
    charge, resumable = failing(calls, ConnectionError("cut"), Death()), "resumed" in way

    async def main(store: Any) -> None:
        def runner() -> Any:
            return shop_of(store, charge, resumable=resumable)

        await PerdureSessionService(store).create_session(**WHO, session_id="s1")
        [first] = asked_in(await told(runner(), types.Part(text="buy it")))
        with pytest.raises(Death):
            await told(runner(), answer_to(first, "absent"))
        assert calls.count(5) == 2
        session = await PerdureSessionService(store).get_session(**WHO, session_id="s1")
        if resumable:
            events = await told(runner(), invocation_id=session.events[-1].invocation_id)
        else:
            events = await told(runner(), answer_to(first, "absent"))
        assert calls.count(5) == 2
        [second] = asked_in(events)  # a question of its own, which can be answered
        assert first.args["toolConfirmation"]["payload"] != second.args["toolConfirmation"]["payload"]
        assert texts_of(await told(runner(), answer_to(first, "absent"))) == []  # the old one once more
        assert calls.count(5) == 2
        events = await told(runner(), answer_to(second, {"happened": {"charged": 5}}))
        assert texts_of(events) == ["done"]

    with perdure.open(f"sqlite:///{tmp_path}/agent.db") as store:
        asyncio.run(main(store))
        assert sorted(calls) == [5, 5, 7]
        results = [turn for turn in store.session("adk/shop/alice/s1").turns() if turn.call is not None]
        assert sorted(turn.content["charged"] for turn in results) == [5, 7]


@pytest.mark.parametrize("resumable", [False, True])
@pytest.mark.parametrize("kind", ["unsafe", "idempotent"])
@pytest.mark.parametrize("confirmed", [True, False])
def test_a_tool_that_needs_a_confirmation_of_the_framework_gets_one(
    tmp_path: Any, confirmed: bool, kind: str, resumable: bool
) -> None:
    from google.adk.tools.function_tool import FunctionTool

    calls: list[int] = []

    async def main(store: Any) -> list[Any]:
        def runner() -> Any:
            charge = FunctionTool(charges(calls), require_confirmation=True)
            return shop_of(store, charge, resumable=resumable, kinds={"charge": kind})

        await PerdureSessionService(store).create_session(**WHO, session_id="s1")
        asked = asked_in(await told(runner(), types.Part(text="buy it")))
        assert (len(asked), calls) == (2, [])
        answers = [
            types.FunctionResponse(id=each.id, name=each.name, response={"confirmed": confirmed}) for each in asked
        ]
        events = await told(runner(), *(types.Part(function_response=each) for each in answers))
        return [each.response for event in events for each in event.get_function_responses() if each.name == "charge"]

    with perdure.open(f"sqlite:///{tmp_path}/agent.db") as store:
        given = asyncio.run(main(store))
    if confirmed:
        assert (sorted(calls), sorted(each["charged"] for each in given)) == ([5, 7], [5, 7])
    else:
        assert (calls, ["rejected" in each["error"] for each in given[:2]]) == ([], [True, True])


def test_a_second_doubt_is_asked_about_and_the_other_results_are_kept(tmp_path: Any) -> None:
    calls: list[int] = []
    charge = failing(calls, ConnectionError("cut"), ConnectionError("cut"))
    both = [ConnectionError("cut")]

    def charge_all(cents: int) -> dict[str, Any]:
        """Charge a card."""
        if cents == 7 and both:
            calls.append(cents)
            raise both.pop()
        return charge(cents)

    charge_all.__name__ = "charge"

    async def main(store: Any) -> None:
        def runner() -> Any:
            return shop_of(store, charge_all)

        await PerdureSessionService(store).create_session(**WHO, session_id="s1")
        first = asked_in(await told(runner(), types.Part(text="buy it")))
        assert len(first) == 2
        events = await told(runner(), *(answer_to(each, "absent") for each in first))
        assert sorted(calls) == [5, 5, 7, 7]
        [second] = asked_in(events)
        assert second.args["originalFunctionCall"]["args"] == {"cents": 5}
        assert texts_of(await told(runner(), answer_to(second, "absent"))) == ["done"]

    with perdure.open(f"sqlite:///{tmp_path}/agent.db") as store:
        asyncio.run(main(store))
        assert sorted(calls) == [5, 5, 5, 7, 7]
        results = [turn for turn in store.session("adk/shop/alice/s1").turns() if turn.call is not None]
        assert sorted(turn.content["charged"] for turn in results) == [5, 7]


def test_a_message_that_is_sent_again_is_refused_while_a_call_can_be_resumed(tmp_path: Any) -> None:
    calls: list[int] = []

    async def main(store: Any) -> list[str]:
        await PerdureSessionService(store).create_session(**WHO, session_id="s1")
        runner = shop_of(store, charges(calls, Death()), resumable=True)
        with pytest.raises(Death):
            await told(runner, types.Part(text="buy it"))
        [effect] = store.effects(in_doubt=True)
        effect.settle(perdure.Happened({"charged": 5}))
        with pytest.raises(Exception, match="has no result yet") as refused:
            await told(shop_of(store, charges(calls), resumable=True), types.Part(text="buy it"))
        session = await PerdureSessionService(store).get_session(**WHO, session_id="s1")
        invocation = session.events[-1].invocation_id
        assert invocation in str(refused.value)
        events = await told(shop_of(store, charges(calls), resumable=True), invocation_id=invocation)
        return [part.text for event in events if event.content for part in event.content.parts if part.text]

    with perdure.open(f"sqlite:///{tmp_path}/agent.db") as store:
        assert asyncio.run(main(store)) == ["done"]
    assert sorted(calls) == [5, 7]


def event_of(invocation: str, author: str, *parts: types.Part) -> Event:
    content = types.Content(role="user" if author == "user" else "model", parts=list(parts))
    return Event(id=Event.new_id(), invocation_id=invocation, author=author, content=content)


def test_a_message_that_is_sent_again_gets_the_answer_whose_calls_wait() -> None:
    buy, other = types.Part(text="buy it"), types.Part(text="buy something else")
    call = types.Part(function_call=types.FunctionCall(id="c1", name="charge", args={"cents": 5}))
    response = types.Part(function_response=types.FunctionResponse(id="c1", name="charge", response={"charged": 5}))
    asked = [event_of("i1", "user", buy), event_of("i1", "shop", call)]
    again = event_of("i2", "user", buy)
    found = answer_among([*asked, again], "i2", "shop")
    assert [(part.function_call.name, part.function_call.id) for part in found.parts] == [("charge", None)]
    assert call.function_call is not None
    assert call.function_call.id == "c1"  # what is stored is left as it is
    # The model is asked: by another message, about an answer that has its results, by another agent, and later in the invocation.
    assert answer_among([*asked, event_of("i2", "user", other)], "i2", "shop") is None
    assert answer_among([*asked, event_of("i1", "user", response), again], "i2", "shop") is None
    assert answer_among([*asked, again], "i2", "seller") is None
    assert answer_among([*asked, again, event_of("i2", "shop", call)], "i2", "shop") is None
    assert answer_among([again], "i2", "shop") is None


def test_a_call_without_a_response_is_taken_once() -> None:
    def made(*ids: str) -> Event:
        parts = [types.Part(function_call=types.FunctionCall(id=each, name="pay", args={"x": 1})) for each in ids]
        return Event(author="a", content=types.Content(role="model", parts=parts))

    def answered(each: str) -> Event:
        part = types.Part(function_response=types.FunctionResponse(id=each, name="pay", response={}))
        return Event(author="a", content=types.Content(role="user", parts=[part]))

    assert key_among([made("a")], "a") is None
    assert key_among([made("a"), made("b")], "b") == "call:a"
    assert key_among([made("a"), made("b", "c")], "c") is None
    assert key_among([made("a"), made("b"), answered("b"), made("c")], "c") is None
    assert key_among([made("a"), made("b"), made("c")], "c") == "call:a"
    assert key_among([made("a"), answered("a"), made("b")], "b") is None


# -- memories, artifacts, other frameworks -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", stores_here("sqlite", "files"))
def test_memories_are_found_once_and_a_deleted_one_stays_away(tmp_path: Any, kind: str) -> None:
    async def main() -> None:
        memory = PerdureMemoryService(f"{kind}:///{tmp_path}/agent.db")
        sessions = PerdureSessionService(f"{kind}:///{tmp_path}/agent.db")
        session = await sessions.create_session(**WHO, session_id="s1")
        for text in ("the deploy runs on Tuesdays", "the cat sleeps"):
            await sessions.append_event(session, said(text))
        for _ in range(2):
            await memory.add_session_to_memory(session)
        found = (await memory.search_memory(**WHO, query="when is the deploy?")).memories
        assert [entry.content.parts[0].text for entry in found][:1] == ["the deploy runs on Tuesdays"]
        assert len({entry.id for entry in found}) == len(found)
        assert (await memory.search_memory(app_name="shop", user_id="bob", query="deploy")).memories == []
        assert (await memory.search_memory(**WHO, query=" ")).memories == []
        await memory.delete_memory(**WHO, memory_id=found[0].id)
        await memory.add_session_to_memory(session)
        assert found[0].id not in {each.id for each in (await memory.search_memory(**WHO, query="deploy")).memories}
        memory.close()
        sessions.close()

    asyncio.run(main())


@pytest.mark.parametrize("kind", stores_here("sqlite", "files"))
def test_artifacts_have_versions(tmp_path: Any, kind: str) -> None:
    from google.adk.errors.input_validation_error import InputValidationError

    async def main() -> None:
        files = PerdureArtifactService(f"{kind}:///{tmp_path}/agent.db")
        where = {**WHO, "session_id": "s1", "filename": "a/b.png"}
        parts = [types.Part.from_bytes(data=bytes([each, 0, 255]), mime_type="image/png") for each in range(3)]
        assert [await files.save_artifact(**where, artifact=part) for part in parts] == [0, 1, 2]
        assert await files.load_artifact(**where) == parts[2]
        assert await files.load_artifact(**where, version=0) == parts[0]
        assert await files.load_artifact(**where, version=9) is None
        await files.save_artifact(**WHO, filename="user:note", artifact=types.Part(text="hi"), custom_metadata={"k": 1})
        assert await files.list_artifact_keys(**WHO, session_id="s1") == ["a/b.png", "user:note"]
        assert await files.list_artifact_keys(**WHO, session_id="s2") == ["user:note"]
        assert await files.list_versions(**where) == [0, 1, 2]
        about = await files.get_artifact_version(**WHO, filename="user:note")
        assert (about.version, about.mime_type, about.custom_metadata) == (0, "text/plain", {"k": 1})
        for bad in ({"filename": "x" * 300}, {"artifact": types.Part()}, {"session_id": None}, {"session_id": "../x"}):
            with pytest.raises(InputValidationError):
                await files.save_artifact(**{**where, "artifact": parts[0], **bad})
        for _ in range(2):
            await files.delete_artifact(**where)
        assert (await files.load_artifact(**where), await files.list_versions(**where)) == (None, [])
        files.close()

    asyncio.run(main())


HOSTILE = ["../escape.txt", "user:../escape.txt", "/etc/passwd", "C:\\x.txt", "..", ".", "a/../../b", "nul\0byte", "a#0", "a%2Fb",
           "a/b", "user:/root", "..\\..\\x", "line\nbreak", "versions/0", "~"]  # fmt: skip


@pytest.mark.parametrize("kind", stores_here("sqlite", "files"))
def test_a_hostile_file_name_is_a_name_and_no_path(tmp_path: Any, kind: str) -> None:
    """The stock service of files refuses such names because it writes there. Here each is kept under itself, and nowhere else."""

    async def main() -> None:
        files = PerdureArtifactService(f"{kind}:///{tmp_path}/inner/agent.db")
        where = {**WHO, "session_id": "s1"}
        for name in ("a", *HOSTILE):
            assert await files.save_artifact(**where, filename=name, artifact=types.Part(text=repr(name))) == 0
        for name in ("a", *HOSTILE):
            assert await files.load_artifact(**where, filename=name) == types.Part(text=repr(name))
            assert await files.list_versions(**where, filename=name) == [0]
        assert await files.list_artifact_keys(**where) == sorted(["a", *HOSTILE])
        await files.delete_artifact(**where, filename="..")
        assert len(await files.list_artifact_keys(**where)) == len(HOSTILE)
        files.close()

    (tmp_path / "inner").mkdir()
    asyncio.run(main())
    outside = [path for path in tmp_path.rglob("*") if tmp_path / "inner" not in (path, *path.parents)]
    assert outside == []
    assert not [path for path in tmp_path.rglob("*") if "escape" in path.name or "passwd" in path.name]


BAD_IDS = [
    "../escape",
    "../../etc",
    "foo/../../bar",
    "valid/../..",
    "..",
    ".",
    "has\0null",
    "/abs",
    "\\abs",
    "C:/x",
    "",
    " ",
]


@pytest.mark.parametrize("bad", BAD_IDS)
@pytest.mark.parametrize("field", ["app_name", "user_id", "session_id"])
def test_an_id_that_is_a_path_is_refused_by_every_verb(tmp_path: Any, field: str, bad: str) -> None:
    from google.adk.errors.input_validation_error import InputValidationError

    async def main() -> None:
        files = PerdureArtifactService(f"sqlite:///{tmp_path}/agent.db")
        where = {**WHO, "session_id": "s1", field: bad, "filename": "a"}
        verbs = [files.load_artifact, files.list_versions, files.list_artifact_versions, files.get_artifact_version]
        for verb in (*verbs, files.delete_artifact):
            with pytest.raises(InputValidationError):
                await verb(**where)
        with pytest.raises(InputValidationError):
            await files.save_artifact(**where, artifact=types.Part(text="x"))
        files.close()

    asyncio.run(main())


def test_ids_with_slashes_are_told_apart(tmp_path: Any) -> None:
    async def main() -> None:
        files = PerdureArtifactService(f"sqlite:///{tmp_path}/agent.db")
        places = [("shop", "a/b", "c"), ("shop", "a", "b/c"), ("shop/a", "b", "c"), ("shop", "a%2Fb", "c")]
        for app, user, session in places:
            about = {"app_name": app, "user_id": user, "session_id": session}
            assert await files.list_artifact_keys(**about) == []
            part = types.Part(text=f"{app} {user} {session}")
            assert await files.save_artifact(**about, filename="f", artifact=part) == 0
        for app, user, session in places:
            about = {"app_name": app, "user_id": user, "session_id": session}
            assert (await files.load_artifact(**about, filename="f")).text == f"{app} {user} {session}"
        files.close()

    asyncio.run(main())


@pytest.mark.parametrize("bad", ["x" * 300, "lone \ud800 surrogate", ""])
def test_a_name_that_cannot_be_kept_is_refused_in_the_framework_s_words(tmp_path: Any, bad: str) -> None:
    from google.adk.errors.input_validation_error import InputValidationError

    async def main() -> None:
        files = PerdureArtifactService(f"sqlite:///{tmp_path}/agent.db")
        where = {**WHO, "session_id": "s1", "filename": bad}
        with pytest.raises(InputValidationError):
            await files.save_artifact(**where, artifact=types.Part(text="x"))
        for verb in (files.load_artifact, files.list_versions, files.delete_artifact):
            with pytest.raises(InputValidationError):
                await verb(**where)
        files.close()

    asyncio.run(main())


def test_the_form_gives_back_what_it_can_say() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAEC"}}
    messages = [
        Message("user", [{"type": "text", "text": "see"}, picture]),
        Message("assistant", "so", (Call("c1", "a", {"x": 1}), Call("c2", "b", {}))),
        Message("tool", "bad", call="c1", error=True),
        Message("tool", {"found": [1]}, call="c2"),
        Message("assistant", [{"type": "thinking", "thinking": "hm", "provider": "google", "signature": "c2ln"}]),
    ]
    for message in messages:
        (record,) = FORM.render(message)
        assert FORM.parse(record) == message
        Event.model_validate(record)


def test_parallel_results_of_one_event_are_turns_that_others_read(tmp_path: Any) -> None:
    async def main(store: Any) -> None:
        service = PerdureSessionService(store)
        session = await service.create_session(**WHO, session_id="s1")
        uses = [types.Part(function_call=types.FunctionCall(id=each, name="look", args={})) for each in ("c1", "c2")]
        await service.append_event(session, Event(author="agent", content=types.Content(role="model", parts=uses)))
        given = [("c1", {"found": 1}), ("c2", {"error": "no"})]
        parts = [types.Part(function_response=types.FunctionResponse(id=i, name="look", response=r)) for i, r in given]
        await service.append_event(session, Event(author="agent", content=types.Content(role="user", parts=parts)))
        found = await service.get_session(**WHO, session_id="s1")
        assert [len(event.content.parts) for event in found.events] == [2, 2]

    with perdure.open(f"sqlite:///{tmp_path}/agent.db") as store:
        asyncio.run(main(store))
        turns = store.session("adk/shop/alice/s1").turns()
        assert [(turn.call, turn.content, turn.error) for turn in turns[1:]] == [
            ("c1", {"found": 1}, False), ("c2", "no", True),
        ]  # fmt: skip

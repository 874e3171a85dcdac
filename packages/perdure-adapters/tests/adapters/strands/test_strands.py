"""Strands on Perdure: sessions, doubt as an interrupt, messages that were sent again, and other frameworks' turns."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import perdure
from installed import stores_here
from perdure.model.records.conversation import Call
from perdure_adapters.forms.openai_items import ITEMS
from perdure_adapters.forms.strands_messages import FORM
from perdure_adapters.neutral_messages import FORMS, Message, keep, show

pytest.importorskip("strands", reason="Strands is not here: pip install 'perdure[strands]'", exc_type=ImportError)

from strands import Agent, tool
from strands.session import RepositorySessionManager
from strands.types.exceptions import SessionException, StorageError
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

from adapters.strands.shop import Scripted, buys
from perdure_adapters.strands import PerdureHooks, PerdureSessionManager, PerdureSessionRepository, PerdureStorage
from perdure_adapters.strands.hooks import key_in

PNG = b"\x89PNG\x00\x01"


@pytest.fixture(params=stores_here("sqlite", "files"))
def store(request: Any, tmp_path: Path) -> Any:
    with perdure.open(f"{request.param}:///{tmp_path}/agent.db") as opened:
        yield opened


def said(text: str, role: str = "user") -> Any:
    return {"role": role, "content": [{"text": text}]}


def text_of(message: Any) -> str:
    return message["content"][0].get("text", "")


def agent_on(store: Any, fn: Any, answer: Any = buys, name: str = "charge", **options: Any) -> Agent:
    manager = PerdureSessionManager("order", store, **options)
    return Agent(
        model=Scripted(answer), tools=[tool(fn, name=name)], session_manager=manager, callback_handler=None
    )  # fmt: skip


def charges(calls: list[int], error: Exception | None = None) -> Any:
    def charge(cents: int) -> str:
        """Charge a card."""
        calls.append(cents)
        if error is not None and cents == 5 and calls.count(5) == 1:
            raise error
        return f"charged {cents}"

    return charge


# -- sessions ----------------------------------------------------------------------------------------------------------


def test_a_message_of_every_block_comes_back_as_it_was(store: Any) -> None:
    repository = PerdureSessionRepository(store)
    repository.create_session(Session(session_id="s", session_type=SessionType.AGENT))
    repository.create_agent("s", SessionAgent("default", {"a": 1}, {}))
    thought = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "sig"}}}
    uses = [{"toolUse": {"toolUseId": each, "name": "look", "input": {"at": each}}} for each in ("c1", "c2")]
    results = [
        {"toolResult": {"toolUseId": "c1", "status": "success", "content": [{"json": {"found": 1}}]}},
        {"toolResult": {"toolUseId": "c2", "status": "error", "content": [{"text": "no"}]}},
    ]
    picture = {"image": {"format": "png", "source": {"bytes": PNG}}}
    document = {"document": {"format": "pdf", "name": "d", "source": {"bytes": b"\xff"}}}
    messages = [
        {"role": "user", "content": [{"text": "see"}, picture, document]},
        {"role": "assistant", "content": [thought, *uses], "metadata": {"usage": {"inputTokens": 3}}},
        {"role": "user", "content": results},
        said("nul \0", "assistant"),
    ]
    kept = [SessionMessage(message=each, message_id=number) for number, each in enumerate(messages)]
    for each in kept:
        repository.create_message("s", "default", each)
    assert repository.list_messages("s", "default") == kept
    assert repository.list_messages("s", "default", limit=2, offset=1) == kept[1:3]
    assert repository.read_message("s", "default", 2) == kept[2]
    turns = store.session("s").turns()
    assert [(turn.role.value, len(turn.calls), turn.error) for turn in turns] == [
        ("user", 0, False), ("assistant", 2, False), ("tool", 0, False), ("tool", 0, True), ("assistant", 0, False),
    ]  # fmt: skip
    assert (turns[2].content, turns[3].content, turns[1].usage) == ({"found": 1}, "no", {"inputTokens": 3})


def test_a_message_that_comes_again_is_one_and_another_of_its_number_is_refused(store: Any) -> None:
    repository = PerdureSessionRepository(store)
    repository.create_session(Session(session_id="s", session_type=SessionType.AGENT))
    repository.create_agent("s", SessionAgent("a", {}, {}))
    message = SessionMessage(message=said("x"), message_id=0)
    for _ in range(2):
        repository.create_message("s", "a", message)
    with pytest.raises(SessionException, match="another process wrote it"):
        repository.create_message("s", "a", SessionMessage(message=said("y"), message_id=0))
    assert repository.list_messages("s", "a") == [message]
    assert [turn.content for turn in store.session("s/a").turns()] == ["x"]


def test_a_redacted_message_stays_at_its_place_and_others_do_not_see_it(store: Any) -> None:
    repository = PerdureSessionRepository(store)
    repository.create_session(Session(session_id="s", session_type=SessionType.AGENT))
    repository.create_agent("s", SessionAgent("default", {}, {}))
    first = SessionMessage(message=said("my card is 4711"), message_id=0)
    repository.create_message("s", "default", first)
    repository.create_message("s", "default", SessionMessage(message=said("no", "assistant"), message_id=1))
    first.redact_message = said("[redacted]")
    repository.update_message("s", "default", first)
    found = repository.list_messages("s", "default")
    assert [text_of(each.to_message()) for each in found] == ["[redacted]", "no"]
    assert "[redacted]" in [turn.content for turn in store.session("s").turns()]
    assert "my card is 4711" not in [turn.content for turn in store.session("s").turns()]


@pytest.mark.parametrize("bad", ["", "x" * 300, "nul\0"])
def test_an_id_that_cannot_be_one_is_refused_in_the_frameworks_words(store: Any, bad: str) -> None:
    with pytest.raises(SessionException):
        PerdureSessionRepository(store).read_session(bad)


@pytest.mark.parametrize("bad", ["", "a/b", "x" * 300])
def test_an_agents_id_that_cannot_be_one_is_refused_in_the_frameworks_words(store: Any, bad: str) -> None:
    repository = PerdureSessionRepository(store)
    repository.create_session(Session(session_id="s", session_type=SessionType.AGENT))
    with pytest.raises(SessionException):
        repository.create_agent("s", SessionAgent(bad, {}, {}))


def test_a_session_of_any_name_is_opened_by_it(store: Any) -> None:
    store.session("adk/shop/alice/7").say("user", "hello")
    found = Agent(model=Scripted(lambda _: said("hi", "assistant")), callback_handler=None,
                  session_manager=PerdureSessionManager("adk/shop/alice/7", store))  # fmt: skip
    assert [text_of(message) for message in found.messages] == ["hello"]


def test_what_does_not_exist_is_refused(store: Any) -> None:
    repository = PerdureSessionRepository(store)
    assert repository.read_session("s") is None
    with pytest.raises(SessionException, match="does not exist"):
        repository.create_agent("s", SessionAgent("a", {}, {}))
    repository.create_session(Session(session_id="s", session_type=SessionType.AGENT))
    with pytest.raises(SessionException, match="already exists"):
        repository.create_session(Session(session_id="s", session_type=SessionType.AGENT))
    with pytest.raises(SessionException, match="does not exist"):
        repository.update_agent("s", SessionAgent("a", {}, {}))
    with pytest.raises(SessionException, match="does not exist"):
        repository.create_message("s", "a", SessionMessage(message=said("x"), message_id=0))


def test_storage_keeps_versions_and_refuses_keys_that_are_none(store: Any) -> None:
    storage = PerdureStorage(store)

    async def main() -> None:
        await storage.write("a//b", b"\x00\xff")
        await storage.namespace("a").write("c", b"2")
        assert await storage.list("a/") == ["a/b", "a/c"]
        assert await storage.read("/a/b/") == b"\x00\xff"
        for bad in ("", "../x", "a\\b", "x" * 300, "a\nb"):
            with pytest.raises(StorageError):
                await storage.write(bad, b"")

    asyncio.run(main())


# -- other frameworks --------------------------------------------------------------------------------------------------


def test_a_session_of_another_framework_is_continued(store: Any) -> None:
    session = store.session("order")
    items = [
        {"role": "user", "content": "look"},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at":1}'},
        {"type": "function_call", "call_id": "c2", "name": "look", "arguments": '{"at":2}'},
        {"type": "function_call_output", "call_id": "c1", "output": "one"},
        {"type": "function_call_output", "call_id": "c2", "output": "two"},
    ]
    for item in items:
        keep(session, ITEMS, item)
    seen: list[Any] = []

    def answer(messages: Any) -> Any:
        seen.extend(messages)
        return said("both", "assistant")

    agent_on(store, charges([]), answer)("and?")
    assert [message["role"] for message in seen] == ["user", "assistant", "user", "user"]
    assert [block["toolUse"]["toolUseId"] for block in seen[1]["content"]] == ["c1", "c2"]
    assert [list(block) for block in seen[2]["content"]] == [["toolResult"], ["toolResult"]]
    shown = show(ITEMS, session.turns()).records
    assert shown[-2:] == [{"role": "user", "content": "and?"}, {"role": "assistant", "content": "both"}]
    again = agent_on(store, charges([]), answer)
    assert [text_of(message) for message in again.messages][-1] == "both"


def test_the_form_gives_back_what_it_can_say() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAEC"}}
    messages = [
        Message("user", [{"type": "text", "text": "see"}, picture]),
        Message("assistant", "so", (Call("c1", "a", {"x": 1}), Call("c2", "b", {}))),
        Message("tool", "bad", call="c1", error=True),
        Message("tool", {"found": [1]}, call="c2"),
        Message("assistant", [{**thought(), "provider": "strands"}]),
    ]
    for message in messages:
        (record,) = FORM.render(message)
        assert FORM.parse(record) == message
    assert FORMS["strands.message"] is FORM


def thought() -> Any:
    return {"type": "thinking", "thinking": "hm", "signature": "s"}


# -- tools -------------------------------------------------------------------------------------------------------------


def test_a_whole_run_goes_through_the_ledger(store: Any) -> None:
    calls: list[int] = []
    agent = agent_on(store, charges(calls))
    assert str(agent("buy it")).strip() == "done"
    assert sorted(calls) == [5, 7]
    assert sorted(effect.record.result for effect in store.effects()) == ["charged 5", "charged 7"]
    assert [turn.role.value for turn in store.session("order").turns()][:4] == ["user", "assistant", "tool", "tool"]
    assert len(agent_on(store, charges(calls)).messages) == 4


def test_doubt_is_an_interrupt_that_a_new_process_answers(store: Any) -> None:
    calls: list[int] = []
    result = agent_on(store, charges(calls, ConnectionError("cut")))("buy it")
    assert result.stop_reason == "interrupt"
    (asked,) = result.interrupts
    assert (asked.reason["tool"], asked.reason["arguments"]) == ("charge", {"cents": 5})
    assert "perdure settle" in asked.reason["how"]
    later = agent_on(store, charges(calls))
    response = {"interruptResponse": {"interruptId": asked.id, "response": {"happened": "charged 5"}}}
    assert str(later([response])).strip() == "done"
    assert sorted(calls) == [5, 7]


def test_doubt_that_is_settled_elsewhere_lets_the_agent_go_on_and_else_it_asks_again(store: Any) -> None:
    calls: list[int] = []
    agent = agent_on(store, charges(calls, ConnectionError("cut")))
    (asked,) = agent("buy it").interrupts
    result = agent([{"interruptResponse": {"interruptId": asked.id, "response": "go on"}}])
    assert result.stop_reason == "interrupt"
    (again,) = result.interrupts
    assert again.id != asked.id
    (effect,) = store.effects(in_doubt=True)
    effect.settle(perdure.Absent())
    done = agent([{"interruptResponse": {"interruptId": again.id, "response": "settled"}}])
    assert str(done).strip() == "done"
    assert sorted(calls) == [5, 5, 7]


def test_a_clear_no_is_an_error_for_the_model(store: Any) -> None:
    calls: list[int] = []
    seen: list[Any] = []

    def answer(messages: Any) -> Any:
        seen.append(messages[-1])
        return buys(messages)

    agent = agent_on(store, charges(calls, perdure.Failed("no money")), answer)
    assert str(agent("buy it")).strip() == "done"
    results = [block["toolResult"] for block in seen[1]["content"]]
    assert {result["status"] for result in results} == {"error", "success"}
    assert sorted(calls) == [5, 5, 7]


def test_input_that_does_not_fit_calls_nothing_and_reading_tools_are_left_alone(store: Any) -> None:
    calls: list[int] = []
    wrong = {"toolUse": {"toolUseId": "w", "name": "charge", "input": {"cents": "many"}}}

    def answer(messages: Any) -> Any:
        return {"role": "assistant", "content": [wrong]} if len(messages) == 1 else said("done", "assistant")

    agent_on(store, charges(calls), answer)("buy it")
    assert (calls, list(store.effects())) == ([], [])
    agent_on(store, charges(calls), buys, kinds={"charge": "read"})("buy it")
    assert (sorted(calls), list(store.effects())) == ([5, 7], [])


def test_an_answer_is_about_one_attempt_and_no_later_one(store: Any) -> None:
    calls: list[int] = []

    def charge(cents: int) -> str:
        """Charge a card."""
        calls.append(cents)
        raise OSError("the line went dead")

    def answered(result: Any, *, happened: bool) -> Any:
        said = [(each.id, f"charged {each.reason['arguments']['cents']}") for each in result.interrupts]
        answers = [(each, {"happened": result} if happened else "absent") for each, result in said]
        return agent([{"interruptResponse": {"interruptId": each, "response": answer}} for each, answer in answers])

    agent = agent_on(store, charge)
    paused = answered(agent("buy it"), happened=False)  # the second attempts break too
    assert (paused.stop_reason, sorted(calls)) == ("interrupt", [5, 5, 7, 7])
    assert str(answered(paused, happened=True)).strip() == "done"
    assert sorted(calls) == [5, 5, 7, 7]


@pytest.mark.parametrize("kind", ["unsafe", "idempotent"])
def test_a_tool_that_asks_a_person_itself_does_so(store: Any, kind: Any) -> None:
    calls: list[int] = []

    def charge(cents: int, tool_context: Any) -> str:
        """Charge a card."""
        if tool_context.interrupt(f"approve-{cents}", reason="sure?") == "yes":
            calls.append(cents)
        return f"charged {cents}"

    manager = PerdureSessionManager("order", store, kinds={"charge": kind})
    agent = Agent(
        model=Scripted(buys), tools=[tool(context=True)(charge)], session_manager=manager, callback_handler=None
    )
    result = agent("buy it")
    assert result.stop_reason == "interrupt"
    answers = [{"interruptResponse": {"interruptId": each.id, "response": "yes"}} for each in result.interrupts]
    assert str(agent(answers)).strip() == "done"
    assert sorted(calls) == [5, 7]


def test_hooks_beside_a_session_that_keeps_nothing_here_are_refused(store: Any) -> None:
    agent = Agent(
        model=Scripted(buys),
        tools=[tool(charges([]), name="charge")],
        hooks=[PerdureHooks(store)],
        callback_handler=None,
    )
    with pytest.raises(Exception, match="keeps its call before it is sent"):
        agent("buy it")


def test_hooks_beside_the_frameworks_own_manager(store: Any) -> None:
    calls: list[int] = []
    manager = RepositorySessionManager("order", PerdureSessionRepository(store))
    agent = Agent(
        model=Scripted(buys), tools=[tool(charges(calls), name="charge")], session_manager=manager,
        hooks=[PerdureHooks(store)], callback_handler=None,
    )  # fmt: skip
    agent("buy it")
    assert len(store.effects()) == 2


def test_a_call_that_was_cut_off_is_taken_once() -> None:
    def uses(*ids: str) -> Any:
        return {"content": [{"toolUse": {"toolUseId": each, "name": "pay", "input": {"x": 1}}} for each in ids]}

    def cut(each: str) -> Any:
        text = [{"text": "Tool was interrupted."}]
        return {"content": [{"toolResult": {"toolUseId": each, "status": "error", "content": text}}]}

    def key(each: str, *messages: Any) -> str | None:
        return key_in(messages, Call(each, "pay", {"x": 1}))

    assert key("a", uses("a")) is None
    assert key("b", uses("a"), cut("a"), uses("b")) == "call:a"
    assert key("c", uses("a"), cut("a"), uses("b", "c")) is None
    assert key("c", uses("a"), cut("a"), uses("b"), uses("c")) is None
    assert key("c", uses("a"), cut("a"), uses("b"), cut("b"), uses("c")) == "call:a"
    assert key("d", uses("a", "b"), cut("a"), cut("b"), uses("c", "d")) == "call:b"


# -- a message that is sent again ----------------------------------------------------------------------------------------

CALLS = {"role": "assistant", "content": [
    {"text": "let me see"}, {"toolUse": {"toolUseId": "c5", "name": "charge", "input": {"cents": 5}}},
    {"toolUse": {"toolUseId": "c7", "name": "charge", "input": {"cents": 7}}},
]}  # fmt: skip


def left_by_the_dead(store: Any, *messages: Any) -> None:
    """The conversation of a process that died after these messages."""
    agent = agent_on(store, charges([]))
    for message in messages:
        agent._session_manager.append_message(message, agent)


def counting(asked: list[Any]) -> Any:
    def answer(messages: Any) -> Any:
        asked.append([message["role"] for message in messages])
        return buys(messages)

    return answer


def result(call: str, text: str, status: str = "success") -> Any:
    return {"toolResult": {"toolUseId": call, "status": status, "content": [{"text": text}]}}


CUT = [result(call, "Tool was interrupted.", "error") for call in ("c5", "c7")]


@pytest.mark.parametrize(
    "after",
    [[], [{"role": "user", "content": CUT}], [{"role": "user", "content": CUT}, said("buy it")]],
    ids=["at the calls", "at their results", "at the message"],
)
def test_a_message_that_is_sent_again_gets_the_answer_whose_calls_wait(store: Any, after: list[Any]) -> None:
    book: list[int] = []
    asked: list[Any] = []
    left_by_the_dead(store, said("buy it"), CALLS, *after)
    agent = agent_on(store, charges(book), counting(asked), kinds={"charge": "idempotent"})
    assert str(agent("buy it")).strip() == "done"
    assert (sorted(book), len(asked)) == ([5, 7], 1)  # only for the answer that nobody had
    words = [text_of(message) for message in agent.messages]
    assert words.count("buy it") == 2 + (len(after) == 2)  # no message is dropped: the model has read it
    ids = [block["toolUse"]["toolUseId"] for each in agent.messages for block in each["content"] if "toolUse" in block]
    assert len(ids) == len(set(ids)) == 4


def test_a_message_that_is_sent_again_waits_only_for_the_calls_without_a_result(store: Any) -> None:
    book: list[int] = []
    asked: list[Any] = []
    left_by_the_dead(store, said("buy it"), CALLS, {"role": "user", "content": [result("c5", "charged 5"), CUT[1]]})
    agent = agent_on(store, charges(book), counting(asked), kinds={"charge": "idempotent"})
    assert str(agent("buy it")).strip() == "done"
    assert (book, len(asked)) == ([7], 1)


@pytest.mark.parametrize(("image", "asks"), [(PNG, 1), (PNG + b"1", 2)])
def test_a_message_is_known_again_by_its_image_too(store: Any, image: bytes, asks: int) -> None:
    def prompt(data: bytes) -> Any:
        return [{"text": "buy it"}, {"image": {"format": "png", "source": {"bytes": data}}}]

    asked: list[Any] = []
    left_by_the_dead(store, {"role": "user", "content": prompt(PNG)}, CALLS)
    agent_on(store, charges([]), counting(asked), kinds={"charge": "idempotent"})(prompt(image))
    assert len(asked) == asks


@pytest.mark.parametrize("prompt", ["buy another", [{"text": "buy it"}, {"text": "now"}]])
def test_another_message_is_a_question_of_its_own(store: Any, prompt: Any) -> None:
    book: list[int] = []
    asked: list[Any] = []
    left_by_the_dead(store, said("buy it"), CALLS)
    agent = agent_on(store, charges(book), counting(asked), kinds={"charge": "idempotent"})
    assert str(agent(prompt)).strip() == "done"
    assert (sorted(book), len(asked)) == ([5, 7], 2)


def test_a_message_that_is_meant_twice_is_asked_twice(store: Any) -> None:
    asked: list[Any] = []
    agent = agent_on(store, charges([]), counting(asked), kinds={"charge": "idempotent"})
    agent("buy it")
    agent("buy it")
    assert len(asked) == 3

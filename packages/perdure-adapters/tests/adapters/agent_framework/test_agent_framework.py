"""Agent Framework on Perdure: histories, doubt as an approval request, calls that were cut off, and other frameworks' turns."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import perdure
from installed import stores_here
from perdure.model.records.conversation import Call
from perdure_adapters.forms.agent_framework_messages import FORM
from perdure_adapters.forms.openai_items import ITEMS
from perdure_adapters.neutral_messages import FORMS, Message, keep, show

pytest.importorskip(
    "agent_framework",
    reason="Agent Framework is not here: pip install 'perdure[agent-framework]'",
    exc_type=ImportError,
)

from agent_framework import Agent, AgentSession, Content, FunctionMiddleware, InMemoryHistoryProvider, tool
from agent_framework import Message as Said

from adapters.agent_framework.shop import Scripted, buys, calls, results_of, says
from perdure_adapters.agent_framework import PerdureFunctionMiddleware, PerdureHistoryProvider
from perdure_adapters.agent_framework.conversation import StoredConversation

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")
PNG = b"\x89PNG\x00\x01"


@pytest.fixture(params=stores_here("sqlite", "files"))
def store(request: Any, tmp_path: Path) -> Any:
    with perdure.open(f"{request.param}:///{tmp_path}/agent.db") as opened:
        yield opened


def agent_on(store: Any, fn: Any, answer: Any = buys, **options: Any) -> Agent:
    history = PerdureHistoryProvider(store)
    made = (
        fn
        if not callable(fn) or hasattr(fn, "approval_mode")
        else tool(fn, name="charge", approval_mode="never_require")
    )
    return Agent(
        Scripted(answer), tools=[made], context_providers=[history], middleware=history.middleware(**options),
        require_per_service_call_history_persistence=True,
    )  # fmt: skip


def order() -> AgentSession:
    return AgentSession(session_id="order")


def run(agent: Agent, said: Any = None, session: Any = None, *, stream: bool = False) -> Any:
    async def main() -> Any:
        running = agent.run(said, session=session or order(), stream=stream)
        return await (running.get_final_response() if stream else running)

    return asyncio.run(main())


def charges(book: list[int], error: BaseException | None = None) -> Any:
    def charge(cents: int) -> str:
        """Charge a card."""
        book.append(cents)
        if error is not None and cents == 5 and book.count(5) == 1:
            raise error
        return f"charged {cents}"

    return charge


def requests_of(response: Any) -> list[Any]:
    return list({each.id: each for each in response.user_input_requests}.values())


def answered(request: Any, verdict: Any) -> Said:
    response = request.to_function_approval_response(approved=True)
    response.additional_properties["perdure"] = verdict
    return Said("user", [response])


# -- histories ---------------------------------------------------------------------------------------------------------


def test_a_message_of_every_content_comes_back_as_it_was(store: Any) -> None:
    thought = Content.from_text_reasoning(text="hm", protected_data="sig")
    made = [Content.from_function_call(each, "look", arguments={"at": each}) for each in ("c1", "c2")]
    given = [
        Content.from_function_result("c1", result="one"),
        Content.from_function_result("c2", result="no", exception="x"),
    ]
    usage = Content.from_usage({"input_token_count": 3})
    picture = Content.from_data(PNG, "image/png")
    messages = [
        Said(
            "user",
            ["see", picture, Content.from_uri("https://a/b.pdf", media_type="application/pdf")],
            author_name="Ann",
        ),
        Said("assistant", [thought, *made, usage], message_id="m1", additional_properties={"a": {"b": 1}}),
        Said("tool", given),
        Said("assistant", ["nul \0"]),
    ]
    history = PerdureHistoryProvider(store)

    async def main() -> list[Said]:
        await history.save_messages("order", messages[:2])
        await history.save_messages("order", messages[2:])
        return await history.get_messages("order")

    found = asyncio.run(main())
    assert [each.to_dict() for each in found] == [Said.from_dict(each.to_dict()).to_dict() for each in messages]
    turns = store.session("order").turns()
    assert [(turn.role.value, len(turn.calls), turn.error) for turn in turns] == [
        ("user", 0, False), ("assistant", 2, False), ("tool", 0, False), ("tool", 0, True), ("assistant", 0, False),
    ]  # fmt: skip
    assert [turn.content for turn in turns][2:4] == ["one", "no"]


def test_a_message_that_is_no_json_is_refused_with_its_path(store: Any) -> None:
    history = PerdureHistoryProvider(store)
    bad = Said("assistant", [Content.from_function_call("c", "look", arguments={"deep": [object()]})])
    with pytest.raises(perdure.Invalid, match=r"message\.contents\[0\]\.arguments\.deep\[0\].*object"):
        asyncio.run(history.save_messages("order", [Said("user", ["first"]), bad]))
    assert list(store.session("order").turns()) == []
    with pytest.raises(perdure.Invalid, match="session_id"):
        asyncio.run(history.get_messages(None))


def test_an_agent_without_a_ledger_keeps_its_history_too(store: Any) -> None:
    book: list[int] = []
    made = tool(charges(book), name="charge", approval_mode="never_require")
    for _ in range(2):
        agent = Agent(Scripted(buys), tools=[made], context_providers=[PerdureHistoryProvider(store)])
        assert run(agent, "buy it").text == "done"
    assert sorted(book) == [5, 7]
    assert [turn.role.value for turn in store.session("order").turns()] == [
        "user", "assistant", "tool", "tool", "assistant", "user", "assistant",
    ]  # fmt: skip


def test_a_url_opens_a_store_that_closing_closes(tmp_path: Path) -> None:
    with PerdureHistoryProvider(f"sqlite:///{tmp_path}/agent.db") as history:
        asyncio.run(history.save_messages("order", [Said("user", ["hi"])]))
    with perdure.open(f"sqlite:///{tmp_path}/agent.db") as store:
        assert [turn.content for turn in store.session("order").turns()] == ["hi"]


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

    def answer(messages: Any) -> Said:
        seen.extend(messages)
        return says("both")

    run(agent_on(store, charges([]), answer), "and?")
    assert [message.role for message in seen] == ["user", "assistant", "tool", "user"]
    assert [each.result for each in results_of(seen)] == ["one", "two"]
    shown = show(ITEMS, session.turns()).records
    assert shown[-2:] == [{"role": "user", "content": "and?"}, {"role": "assistant", "content": "both"}]


def test_the_form_gives_back_what_it_can_say() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAEC"}}
    thought = {"type": "thinking", "thinking": "hm", "provider": "agent_framework", "signature": "s"}
    messages = [
        Message("system", "be brief"),
        Message("user", [{"type": "text", "text": "see"}, picture]),
        Message("assistant", "so", (Call("c1", "a", {"x": 1}), Call("c2", "b", {}))),
        Message("tool", "bad", call="c1", error=True),
        Message("tool", [{"type": "text", "text": "here"}, picture], call="c2"),
        Message("assistant", [thought]),
    ]
    for message in messages:
        (record,) = FORM.render(message)
        assert FORM.parse(record) == message
        assert Said.from_dict(record).role == message.role
    assert FORMS["agent_framework.message"] is FORM


# -- tools -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_a_whole_run_goes_through_the_ledger(store: Any, stream: bool) -> None:
    book: list[int] = []
    agent = agent_on(store, charges(book))
    assert run(agent, "buy it", stream=stream).text == "done"
    assert sorted(book) == [5, 7]
    assert sorted(effect.record.result for effect in store.effects()) == ["charged 5", "charged 7"]
    messages = asyncio.run(PerdureHistoryProvider(store).get_messages("order"))
    assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant"]
    assert len(results_of(messages)) == 2


def test_an_image_that_a_tool_gives_is_a_result(store: Any) -> None:
    @tool(name="charge", approval_mode="never_require")
    def picture(cents: int) -> Any:
        """Show."""
        return [Content.from_text(f"charged {cents}"), Content.from_data(PNG, "image/png")]

    seen: list[Any] = []

    def answer(messages: Any) -> Said:
        seen[:] = results_of(messages)
        return says("done") if seen else calls("charge", {"cents": 5})

    run(agent_on(store, picture, answer), "show")
    assert [item.type for item in seen[0].items] == ["text", "data"]
    (effect,) = store.effects()
    assert [part["type"] for part in effect.record.result] == ["text", "image_url"]


@pytest.mark.parametrize("stream", [False, True])
def test_doubt_is_an_approval_request_that_a_new_process_answers(store: Any, stream: bool) -> None:
    book: list[int] = []
    (asked,) = requests_of(run(agent_on(store, charges(book, ConnectionError("cut"))), "buy it", stream=stream))
    about = asked.additional_properties["perdure"]
    assert (asked.type, about["tool"], about["arguments"]) == ("function_approval_request", "charge", {"cents": 5})
    assert "perdure settle" in about["how"]
    later, session = agent_on(store, charges(book)), order()
    (again,) = requests_of(run(later, session=session, stream=stream))  # no model is asked for that
    assert run(later, answered(again, {"happened": "charged 5"}), session, stream=stream).text == "done"
    assert sorted(book) == [5, 7]


def test_doubt_that_is_settled_elsewhere_lets_the_agent_go_on_and_else_it_asks_again(store: Any) -> None:
    book: list[int] = []
    agent, session = agent_on(store, charges(book, ConnectionError("cut"))), order()
    (asked,) = requests_of(run(agent, "buy it", session))
    (again,) = requests_of(run(agent, Said("user", [asked.to_function_approval_response(approved=True)]), session))
    assert sorted(book) == [5, 7]
    (effect,) = store.effects(in_doubt=True)
    effect.settle(perdure.Absent())
    assert run(agent, answered(again, "settled"), session).text == "done"
    assert sorted(book) == [5, 5, 7]


def test_an_answer_is_about_one_attempt(store: Any) -> None:
    """An "absent" about the first attempt is no word about the second, which a crash leaves in doubt before anything is said."""

    class Died(BaseException):
        pass

    book: list[int] = []
    errors: list[BaseException] = [ConnectionError("cut"), Died()]

    def charge(cents: int) -> str:
        """Charge a card."""
        book.append(cents)
        if cents == 5 and errors:
            raise errors.pop(0)
        return f"charged {cents}"

    session = order()
    (first,) = requests_of(run(agent_on(store, charge), "buy it", session))
    kept = session.to_dict()  # as a program keeps it between two messages
    answer = answered(first, "absent")
    with pytest.raises(Died):
        run(agent_on(store, charge), answer, AgentSession.from_dict(kept))
    assert book.count(5) == 2
    session = AgentSession.from_dict(kept)
    (second,) = requests_of(run(agent_on(store, charge), answer, session))  # as a client sends it again
    assert book.count(5) == 2
    assert run(agent_on(store, charge), answered(second, {"happened": "charged 5"}), session).text == "done"
    assert sorted(book) == [5, 5, 7]


def test_an_answer_is_not_paid_for_again(store: Any) -> None:
    class Killed(BaseException):
        pass

    book: list[int] = []
    asked: list[int] = []
    probe = perdure.tool(
        lambda cents: None, name="charge", probe=lambda cents: perdure.Happened(f"charged {cents}"), lands_within=0
    )
    agent = agent_on(store, charges(book, Killed()), kinds={"charge": probe})
    agent.client.asked = lambda: asked.append(1)
    with pytest.raises(Killed):
        run(agent, "buy it")
    later = agent_on(store, charges(book), kinds={"charge": probe})
    later.client.asked = lambda: asked.append(2)
    assert run(later).text == "done"
    assert asked == [1, 2]


def left_by_the_dead(store: Any, *messages: Said) -> None:
    """The conversation of a process that died after these messages."""
    asyncio.run(PerdureHistoryProvider(store).save_messages("order", messages))


def buying() -> Said:
    """An answer with two calls, as a provider gives it: each item has an id of its own."""
    made = calls("charge", {"cents": 5}, {"cents": 7})
    for each in made.contents:
        each.additional_properties["fc_id"] = f"fc_{each.call_id}"
    thought = Content.from_text_reasoning(id="rs_1", text="hm", protected_data="sig")
    return Said("assistant", [thought, "let me see", *made.contents], message_id="m1")


def counted(store: Any, book: list[int], asked: list[Any]) -> Agent:
    agent = agent_on(store, charges(book), kinds={"charge": "idempotent"})
    agent.client.asked = lambda: asked.append(1)
    return agent


@pytest.mark.parametrize("stream", [False, True])
def test_a_message_that_is_sent_again_gets_the_answer_whose_calls_wait(store: Any, stream: bool) -> None:
    book: list[int] = []
    asked: list[Any] = []
    left_by_the_dead(store, Said("user", ["buy it"]), buying())
    assert run(counted(store, book, asked), "buy it", stream=stream).text.endswith("done")
    assert (sorted(book), len(asked)) == ([5, 7], 1)  # only for the answer that nobody had
    found = asyncio.run(PerdureHistoryProvider(store).get_messages("order"))
    assert [each.text for each in found if each.role == "user"] == ["buy it", "buy it"]  # none is dropped
    contents = [content for each in found for content in each.contents]
    ids = [each.call_id for each in contents if each.type == "function_call"]
    assert len(ids) == len(set(ids)) == 4
    own = [each.additional_properties["fc_id"] for each in contents if "fc_id" in each.additional_properties]
    assert len(own) == len(set(own)) == 2  # a provider takes the id of an item once
    assert [(each.id, each.protected_data) for each in contents if each.type == "text_reasoning"] == [
        ("rs_1", "sig"), (None, "sig"),
    ]  # fmt: skip


def test_a_message_that_is_sent_again_waits_only_for_the_calls_without_a_result(store: Any) -> None:
    book: list[int] = []
    asked: list[Any] = []
    answer = buying()
    given = Content.from_function_result(answer.contents[2].call_id, result="charged 5")
    left_by_the_dead(store, Said("user", ["buy it"]), answer, Said("tool", [given]))
    assert run(counted(store, book, asked), "buy it").text.endswith("done")
    assert (book, len(asked)) == ([7], 1)


@pytest.mark.parametrize(("image", "asks"), [(PNG, 1), (PNG + b"1", 2)])
def test_a_message_is_known_again_by_its_image_too(store: Any, image: bytes, asks: int) -> None:
    asked: list[Any] = []
    left_by_the_dead(store, Said("user", ["buy it", Content.from_data(PNG, "image/png")]), buying())
    run(counted(store, [], asked), Said("user", ["buy it", Content.from_data(image, "image/png")]))
    assert len(asked) == asks


@pytest.mark.parametrize("said", ["buy another", ["buy it", "now"]])
def test_another_message_is_a_question_of_its_own(store: Any, said: Any) -> None:
    book: list[int] = []
    asked: list[Any] = []
    left_by_the_dead(store, Said("user", ["buy it"]), buying())
    assert run(counted(store, book, asked), said).text == "done"
    assert (sorted(book), len(asked)) == ([5, 7], 2)


def test_a_message_that_is_meant_twice_is_asked_twice(store: Any) -> None:
    asked: list[Any] = []
    agent = counted(store, [], asked)
    run(agent, "buy it")
    run(agent, "buy it")
    assert len(asked) == 3


def test_a_clear_no_is_an_error_for_the_model(store: Any) -> None:
    book: list[int] = []
    seen: list[Any] = []

    def answer(messages: Any) -> Said:
        seen.append(results_of(messages))
        return buys(messages)

    assert run(agent_on(store, charges(book, perdure.Failed("no money")), answer), "buy it").text == "done"
    assert sorted(each.exception is not None for each in seen[1]) == [False, True]
    assert sorted(book) == [5, 5, 7]


def test_input_that_does_not_fit_calls_nothing_and_reading_tools_are_left_alone(store: Any) -> None:
    book: list[int] = []

    def answer(messages: Any) -> Said:
        return says("done") if results_of(messages) else calls("charge", {"cents": "many"})

    run(agent_on(store, charges(book), answer), "buy it")
    assert (book, list(store.effects())) == ([], [])
    run(agent_on(store, charges(book), kinds={"charge": "read"}), "buy it", AgentSession(session_id="other"))
    assert (sorted(book), list(store.effects())) == ([5, 7], [])


def test_a_tool_that_needs_an_approval_of_the_framework_gets_one(store: Any) -> None:
    book: list[int] = []
    made = tool(charges(book), name="charge", approval_mode="always_require")
    agent, session = agent_on(store, made), order()
    requests = requests_of(run(agent, "buy it", session))
    assert (len(requests), book) == (2, [])
    approvals = [each.to_function_approval_response(approved=True) for each in requests]
    assert run(agent, Said("user", approvals), session).text == "done"
    assert sorted(book) == [5, 7]
    assert len(store.effects()) == 2


@pytest.mark.parametrize("kind", ["unsafe", "idempotent", "keyed"])
def test_a_middleware_after_ours_that_asks_a_person_does_so_once(store: Any, kind: str) -> None:
    asked: list[int] = []

    class Asks(FunctionMiddleware):
        async def process(self, context: Any, call_next: Any) -> None:
            if "approval_response" in context.metadata:
                return await call_next()
            asked.append(context.arguments["cents"])
            call = Content.from_function_call(context.metadata["call_id"], "charge", arguments=dict(context.arguments))
            call.id = context.metadata.get("function_call_occurrence_id")
            context.result = Content.from_function_approval_request(call.id or call.call_id, call)
            return None

    book: list[int] = []
    agent, session = agent_on(store, charges(book), kinds={"charge": kind}), order()
    agent.middleware.append(Asks())
    requests = requests_of(run(agent, "buy it", session))
    assert (len(requests), sorted(asked), book) == (2, [5, 7], [])
    approvals = [each.to_function_approval_response(approved=True) for each in requests]
    assert run(agent, Said("user", approvals), session).text == "done"
    assert sorted(book) == [5, 7]


@pytest.mark.parametrize("how", ["no session here", "not before each call"])
def test_an_agent_that_does_not_keep_its_calls_first_is_refused(store: Any, how: str) -> None:
    book: list[int] = []
    providers = [InMemoryHistoryProvider()] if how == "no session here" else [PerdureHistoryProvider(store)]
    agent = Agent(
        Scripted(buys), tools=[tool(charges(book), name="charge", approval_mode="never_require")],
        context_providers=providers, middleware=[PerdureFunctionMiddleware(store)],
    )  # fmt: skip
    try:
        said = json.dumps(run(agent, "buy it").to_dict())
    except Exception as refused:
        said = str(refused)
    assert "keeps its call before it is sent" in said
    assert "require_per_service_call_history_persistence=True" in said
    assert (book, list(store.effects())) == ([], [])


# -- calls that were cut off -------------------------------------------------------------------------------------------


def test_a_call_that_was_cut_off_is_taken_once(store: Any) -> None:
    session = store.session("order")

    def asks(*ids: str) -> None:
        session.say("assistant", calls=[Call(each, "pay", {"x": 1}) for each in ids])

    def key(each: str) -> str | None:
        asked = StoredConversation([*session.turns()]).find(each, "pay")
        return asked.key if asked.repeats else None

    asks("a")
    assert key("a") is None
    session.say("user", "again")
    asks("b")
    assert key("b") == "call:a"
    session.result("a", "late")  # the ledger's, of the effect that both are
    assert key("b") == "call:a"
    session.result("b", "paid")
    asks("c")
    assert key("c") is None
    session.say("user", "again")
    asks("d", "e")
    assert (key("d"), key("e")) == ("call:c", None)
    records = StoredConversation([*session.turns()]).records()
    results = [each for record in records for each in record["contents"] if each["type"] == "function_result"]
    said = [(each["call_id"], "exception" in each) for each in results]
    assert said == [("a", True), ("b", False), ("c", True), ("d", True), ("e", True)]


def test_results_stand_after_their_calls_even_if_somebody_spoke_meanwhile(store: Any) -> None:
    session = store.session("order")
    session.say("assistant", calls=[Call("a", "pay", {})])
    session.say("user", "and?")
    session.result("a", "paid")
    records = StoredConversation([*session.turns()]).records()
    assert [record["role"] for record in records] == ["assistant", "tool", "user"]
    assert records[1]["contents"][0]["result"] == "paid"

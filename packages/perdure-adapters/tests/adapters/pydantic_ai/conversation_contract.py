"""The contract of a store for conversations of Pydantic AI: each function takes a store, and uses names of its own.

The framework ships no such suite. It holds for the framework's own store in memory, for ours on every backend, and not for the
broken stores of the tests (controls).
"""

from __future__ import annotations

import asyncio
import dataclasses
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai._deferred import DeferredToolRequests
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage, RunUsage

Clause = Callable[[ConversationStore], Awaitable[None]]
CLAUSES: dict[str, Clause] = {}


def clause(fn: Clause) -> Clause:
    CLAUSES[fn.__name__] = fn
    return fn


def name() -> str:
    return f"c-{uuid.uuid4()}"


def asked(text: str) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(text)])


def said(text: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(text)])


def of(*messages: ModelMessage, **about: Any) -> Conversation:
    return Conversation(messages=list(messages), conversation_id=about.pop("conversation_id", None) or name(), **about)


async def saved(store: ConversationStore, *messages: ModelMessage, scope: str | None = None) -> Conversation:
    conversation = of(*messages)
    await store.save(conversation, scope=scope)
    return conversation


async def loaded(store: ConversationStore, conversation_id: str, **about: Any) -> Conversation:
    found = await store.load(conversation_id, **about)
    assert found is not None
    return found


async def texts(store: ConversationStore, conversation_id: str, **about: Any) -> list[str]:
    return [str(message.parts[0].content) for message in (await loaded(store, conversation_id, **about)).messages]


FOUR = (asked("one"), said("two"), asked("three"), said("four"))

# -- loading and saving --------------------------------------------------------------------------------------------


@clause
async def one_that_is_not_there_is_none(store: ConversationStore) -> None:
    assert await store.load(name()) is None
    assert await store.load_entries(name()) is None
    assert await store.read_record(name()) is None


@clause
async def messages_come_back_equal_and_in_order(store: ConversationStore) -> None:
    conversation = await saved(store, *FOUR)
    assert (await loaded(store, conversation.conversation_id)).messages == list(FOUR)


@clause
async def an_empty_conversation_is_one(store: ConversationStore) -> None:
    conversation = await saved(store)
    found = await loaded(store, conversation.conversation_id)
    assert (found.messages, found.revision) == ([], conversation.revision)


@clause
async def every_kind_of_part_comes_back(store: ConversationStore) -> None:
    messages = [
        ModelRequest(
            parts=[SystemPromptPart("be brief"), UserPromptPart(["look", ImageUrl("https://example.com/a.png")])]
        ),
        ModelResponse(
            parts=[
                ThinkingPart("hm", signature="sig", provider_name="anthropic"),
                TextPart("looking"),
                ToolCallPart("look", {"at": 1}, "call-1"),
                ToolCallPart("look", '{"at": 2}', "call-2"),
            ],
            usage=RequestUsage(input_tokens=7, output_tokens=3),
            model_name="m-1",
            provider_name="anthropic",
            provider_response_id="r-1",
        ),
        ModelRequest(
            parts=[
                ToolReturnPart("look", {"found": [1, 2]}, "call-1"),
                ToolReturnPart("look", "nothing", "call-2", outcome="failed"),
                UserPromptPart("and now?"),
            ]
        ),
        said("a cat"),
    ]
    conversation = await saved(store, *messages)
    assert (await loaded(store, conversation.conversation_id)).messages == messages


@clause
async def bytes_come_back(store: ConversationStore) -> None:
    data = bytes(range(256))
    sent = ModelRequest(parts=[UserPromptPart([BinaryContent(data=data, media_type="image/png")])])
    conversation = await saved(store, sent)
    [message] = (await loaded(store, conversation.conversation_id)).messages
    assert message.parts[0].content[0].data == data  # type: ignore[union-attr,index]


@clause
async def text_may_be_anything(store: ConversationStore) -> None:
    odd = "NUL \0, ünïcode, 漢字, 🦆, \u2028, '\"\\ and\n\tlines"
    conversation = await saved(store, asked(odd), said(odd))
    assert await texts(store, conversation.conversation_id) == [odd, odd]


@clause
async def timestamps_and_ids_of_runs_come_back(store: ConversationStore) -> None:
    at = datetime(2024, 2, 29, 12, 30, 0, 123456, tzinfo=UTC)
    message = ModelResponse(parts=[TextPart("x")], timestamp=at, run_id="run-1", conversation_id="other")
    conversation = await saved(store, message)
    [found] = (await loaded(store, conversation.conversation_id)).messages
    assert (found.timestamp, found.run_id) == (at, "run-1")  # type: ignore[union-attr]


@clause
async def the_same_message_twice_is_two_messages(store: ConversationStore) -> None:
    again = asked("again")
    conversation = await saved(store, again, said("yes"), again, said("yes"))
    assert await texts(store, conversation.conversation_id) == ["again", "yes", "again", "yes"]
    entries = await store.load_entries(conversation.conversation_id)
    assert len({entry.id for entry in entries or ()}) == 4


@clause
async def usage_comes_back(store: ConversationStore) -> None:
    usage = RunUsage(input_tokens=5, output_tokens=6, requests=2, details={"x": 1})
    conversation = of(*FOUR, usage=usage)
    await store.save(conversation)
    assert (await loaded(store, conversation.conversation_id)).usage == usage


@clause
async def what_a_paused_run_waits_for_comes_back(store: ConversationStore) -> None:
    waiting = DeferredToolRequests(approvals=[ToolCallPart("charge", {"cents": 5}, "call-1")])
    conversation = of(asked("buy"), ModelResponse(parts=[*waiting.approvals]), deferred_tool_requests=waiting)
    await store.save(conversation)
    assert (await loaded(store, conversation.conversation_id)).deferred_tool_requests == waiting


@clause
async def a_save_appends_only_what_is_new(store: ConversationStore) -> None:
    conversation = await saved(store, *FOUR)
    conversation.messages.extend([asked("five"), said("six")])
    assert len(await store.save(conversation)) == 2
    assert await texts(store, conversation.conversation_id) == ["one", "two", "three", "four", "five", "six"]


@clause
async def a_save_of_nothing_new_stores_nothing(store: ConversationStore) -> None:
    conversation = await saved(store, *FOUR)
    assert await store.save(conversation) == []
    assert len(await texts(store, conversation.conversation_id)) == 4


@clause
async def entries_keep_their_ids(store: ConversationStore) -> None:
    conversation = of(*FOUR)
    first = await store.save(conversation)
    conversation.messages.append(asked("five"))
    second = await store.save(conversation)
    found = await store.load_entries(conversation.conversation_id) or []
    assert [entry.id for entry in found] == [entry.id for entry in (*first, *second)]
    assert [entry.parent_id for entry in found] == [None, *(entry.id for entry in found[:-1])]


@clause
async def one_entry_is_read_by_its_id(store: ConversationStore) -> None:
    conversation = of(*FOUR)
    entries = await store.save(conversation)
    found = await store.read_entry(entries[2].id)
    assert (found.id, found.parent_id, found.message) == (entries[2].id, entries[1].id, FOUR[2])
    with pytest.raises(LookupError):
        await store.read_entry("nowhere")


@clause
async def a_result_of_a_run_is_saved_and_continued(store: ConversationStore) -> None:
    agent = Agent(TestModel(custom_output_text="hello"))
    conversation_id = name()
    for count in (2, 4):
        before = await store.load(conversation_id) or Conversation(conversation_id=conversation_id)
        result = await agent.run("hi", conversation=before)
        await store.save(result)
        assert len(await texts(store, conversation_id)) == count


@clause
async def a_long_history_comes_back_whole(store: ConversationStore) -> None:
    messages = [asked(str(number)) if number % 2 == 0 else said(str(number)) for number in range(130)]
    conversation = await saved(store, *messages)
    assert await texts(store, conversation.conversation_id) == [str(number) for number in range(130)]


# -- windows -------------------------------------------------------------------------------------------------------


@clause
async def a_limit_gives_the_newest(store: ConversationStore) -> None:
    conversation = await saved(store, *FOUR)
    for limit, expected in (
        (0, []),
        (1, ["four"]),
        (3, ["two", "three", "four"]),
        (9, ["one", "two", "three", "four"]),
    ):
        assert await texts(store, conversation.conversation_id, limit=limit) == expected
    with pytest.raises(UserError):
        await store.load(conversation.conversation_id, limit=-1)


@clause
async def a_window_is_saved_onto_the_whole(store: ConversationStore) -> None:
    conversation = await saved(store, *FOUR)
    window = await loaded(store, conversation.conversation_id, limit=1)
    window.messages.append(asked("five"))
    await store.save(window)
    assert await texts(store, conversation.conversation_id) == ["one", "two", "three", "four", "five"]


@clause
async def read_history_ends_at_any_entry(store: ConversationStore) -> None:
    entries = await store.save(of(*FOUR))
    found = await store.read_history(entries[2].id, limit=2)
    assert [entry.id for entry in found] == [entries[1].id, entries[2].id]
    assert found[0].parent_id == entries[0].id
    assert await store.read_history(None) == []


# -- revisions -----------------------------------------------------------------------------------------------------


@clause
async def a_revision_changes_with_every_save(store: ConversationStore) -> None:
    conversation = await saved(store, *FOUR)
    first = conversation.revision
    conversation.messages.append(asked("five"))
    await store.save(conversation)
    assert first != conversation.revision
    assert (await loaded(store, conversation.conversation_id)).revision == conversation.revision


@clause
async def a_stale_save_is_refused_and_leaves_nothing(store: ConversationStore) -> None:
    conversation = await saved(store, *FOUR)
    mine, theirs = [await loaded(store, conversation.conversation_id) for _ in range(2)]
    theirs.messages.append(asked("theirs"))
    await store.save(theirs)
    mine.messages.append(asked("mine"))
    with pytest.raises(ConversationConflict):
        await store.save(mine)
    assert (await texts(store, conversation.conversation_id))[4:] == ["theirs"]


@clause
async def write_record_itself_compares_revisions(store: ConversationStore) -> None:
    conversation_id = name()
    first = ConversationRecord(conversation_id=conversation_id, head_id=None)
    await store.write_record(first, expected_revision=None)
    for wrong in (None, "another"):
        second = ConversationRecord(conversation_id=conversation_id, head_id=None, scope="second")
        entry = ConversationEntry(parent_id=None, message=asked("lost"))
        with pytest.raises(ConversationConflict):
            await store.write_record(second, new_entries=[entry], expected_revision=wrong)
        with pytest.raises(LookupError):
            await store.read_entry(entry.id)
    found = await store.read_record(conversation_id)
    assert found is not None
    assert found.revision == first.revision
    assert found.scope is None


@clause
async def a_new_conversation_does_not_replace_one(store: ConversationStore) -> None:
    conversation = await saved(store, *FOUR)
    with pytest.raises(ConversationConflict):
        await store.save(of(asked("new"), conversation_id=conversation.conversation_id))


@clause
async def of_many_writers_one_wins(store: ConversationStore) -> None:
    conversation = await saved(store, *FOUR)
    copies = [await loaded(store, conversation.conversation_id) for _ in range(5)]
    for number, each in enumerate(copies):
        each.messages.append(asked(f"writer {number}"))
    outcomes = await asyncio.gather(*(store.save(each) for each in copies), return_exceptions=True)
    assert sum(isinstance(each, list) for each in outcomes) == 1
    assert all(isinstance(each, (list, ConversationConflict)) for each in outcomes)
    assert len(await texts(store, conversation.conversation_id)) == 5


@clause
async def a_head_that_is_nowhere_is_a_conflict(store: ConversationStore) -> None:
    with pytest.raises(ConversationConflict):
        await store.write_record(ConversationRecord(conversation_id=name(), head_id="nowhere"), expected_revision=None)


@clause
async def a_record_comes_back_whole(store: ConversationStore) -> None:
    [tip] = await store.save(of(asked("left")))
    record = ConversationRecord(
        conversation_id=name(), head_id=tip.id, usage=RunUsage(requests=3), scope="alice", forked_from="x", forked_at=tip.id,
        branches=[tip.id], updated_at=datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    )  # fmt: skip
    await store.write_record(record, expected_revision=None)
    assert await store.read_record(record.conversation_id) == record


# -- forks ---------------------------------------------------------------------------------------------------------


@clause
async def a_fork_shares_its_entries(store: ConversationStore) -> None:
    conversation = await saved(store, *FOUR)
    fork = await store.fork(conversation.conversation_id)
    theirs = await store.load_entries(conversation.conversation_id)
    assert await store.load_entries(fork.conversation_id) == theirs


@clause
async def a_fork_and_its_source_go_their_own_ways(store: ConversationStore) -> None:
    conversation = await saved(store, *FOUR)
    fork = await store.fork(conversation.conversation_id, at=2)
    fork.messages.append(asked("fork"))
    await store.save(fork)
    conversation.messages.append(asked("source"))
    await store.save(conversation)
    assert await texts(store, fork.conversation_id) == ["one", "two", "fork"]
    assert await texts(store, conversation.conversation_id) == ["one", "two", "three", "four", "source"]


@clause
async def a_fork_of_a_fork_reaches_through_both(store: ConversationStore) -> None:
    conversation = await saved(store, *FOUR)
    first = await store.fork(conversation.conversation_id, at=2)
    first.messages.extend([asked("first"), said("answer")])
    await store.save(first)
    second = await store.fork(first.conversation_id, at=3)
    second.messages.append(said("second"))
    await store.save(second)
    assert await texts(store, second.conversation_id) == ["one", "two", "first", "second"]
    assert await texts(store, second.conversation_id, limit=3) == ["two", "first", "second"]


@clause
async def a_fork_says_where_it_comes_from(store: ConversationStore) -> None:
    conversation = of(*FOUR, usage=RunUsage(requests=4))
    entries = await store.save(conversation, scope="alice")
    whole = await store.fork(conversation.conversation_id)
    part = await store.fork(conversation.conversation_id, from_entry=entries[1].id, scope="bob")
    found = [await store.read_record(each.conversation_id) for each in (whole, part)]
    assert [(each.forked_from, each.forked_at, each.scope) for each in found if each is not None] == [
        (conversation.conversation_id, entries[3].id, "alice"), (conversation.conversation_id, entries[1].id, "bob"),
    ]  # fmt: skip
    assert (whole.usage.requests, part.usage.requests) == (4, 0)


@clause
async def a_fork_under_a_name_that_is_taken_is_a_conflict(store: ConversationStore) -> None:
    conversation, other = await saved(store, *FOUR), await saved(store, asked("other"))
    with pytest.raises(ConversationConflict):
        await store.fork(conversation.conversation_id, new_conversation_id=other.conversation_id)
    assert await texts(store, other.conversation_id) == ["other"]


@clause
async def a_fork_outlives_its_source(store: ConversationStore) -> None:
    conversation = await saved(store, *FOUR)
    fork = await store.fork(conversation.conversation_id, at=2)
    await store.delete(conversation.conversation_id)
    assert await texts(store, fork.conversation_id) == ["one", "two"]
    fork.messages.append(asked("on"))
    await store.save(fork)
    assert await texts(store, fork.conversation_id) == ["one", "two", "on"]


# -- branches ------------------------------------------------------------------------------------------------------


@clause
async def a_branch_leaves_a_history_that_can_be_gone_back_to(store: ConversationStore) -> None:
    conversation = of(*FOUR)
    entries = await store.save(conversation)
    branched = await store.branch(conversation.conversation_id, at=1, expected_revision=conversation.revision)
    branched.messages.append(said("other"))
    await store.save(branched)
    record = await store.read_record(conversation.conversation_id)
    assert record is not None
    assert record.branches == [entries[3].id]
    assert await texts(store, conversation.conversation_id) == ["one", "other"]
    back = await store.branch(
        conversation.conversation_id, from_entry=entries[3].id, expected_revision=branched.revision
    )
    assert back.messages == list(FOUR)
    assert await texts(store, conversation.conversation_id) == ["one", "two", "three", "four"]


@clause
async def a_branch_from_the_beginning(store: ConversationStore) -> None:
    conversation = await saved(store, *FOUR)
    branched = await store.branch(conversation.conversation_id, at=0, expected_revision=conversation.revision)
    branched.messages.extend([asked("anew"), said("well")])
    await store.save(branched)
    assert await texts(store, conversation.conversation_id) == ["anew", "well"]


@clause
async def a_branch_of_what_others_changed_is_a_conflict(store: ConversationStore) -> None:
    conversation = await saved(store, *FOUR)
    stale = conversation.revision
    conversation.messages.append(asked("five"))
    await store.save(conversation)
    with pytest.raises(ConversationConflict):
        await store.branch(conversation.conversation_id, at=1, expected_revision=stale)


@clause
async def a_rewritten_history_branches_off_what_both_share(store: ConversationStore) -> None:
    conversation = of(*FOUR)
    entries = await store.save(conversation)
    rewritten = Conversation(
        messages=[FOUR[0], FOUR[1], asked("three, again")], conversation_id=conversation.conversation_id,
        revision=conversation.revision,
    )  # fmt: skip
    await store.save(rewritten)
    found = await store.load_entries(conversation.conversation_id) or []
    assert [entry.id for entry in found[:2]] == [entry.id for entry in entries[:2]]
    assert await texts(store, conversation.conversation_id) == ["one", "two", "three, again"]


# -- scopes, lists and deletion ------------------------------------------------------------------------------------


@clause
async def another_scope_does_not_see_it(store: ConversationStore) -> None:
    conversation = await saved(store, *FOUR, scope="alice")
    assert await store.load(conversation.conversation_id, scope="bob") is None
    await store.delete(conversation.conversation_id, scope="bob")
    with pytest.raises(ConversationConflict):
        await store.save(conversation, scope="bob")
    assert await store.load(conversation.conversation_id, scope="alice") is not None


@clause
async def a_list_is_newest_first_within_a_scope(store: ConversationStore) -> None:
    scope, now = name(), datetime.now(UTC)
    for minutes in (2, 3, 1):
        record = ConversationRecord(
            conversation_id=f"{scope}-{minutes}", head_id=None, scope=scope, updated_at=now - timedelta(minutes=minutes)
        )
        await store.write_record(record, expected_revision=None)
    await saved(store, *FOUR, scope=f"{scope}-other")
    for limit, expected in ((None, ["1", "2", "3"]), (2, ["1", "2"]), (0, [])):
        found = await store.list_conversations(scope=scope, limit=limit)
        assert [record.conversation_id.rpartition("-")[2] for record in found] == expected
    with pytest.raises(UserError):
        await store.list_conversations(limit=-1)


@clause
async def a_deleted_conversation_is_gone_and_may_come_again(store: ConversationStore) -> None:
    conversation = of(*FOUR)
    entries = await store.save(conversation)
    await store.delete(conversation.conversation_id)
    assert await store.load(conversation.conversation_id) is None
    assert await store.load_entries(conversation.conversation_id) is None
    with pytest.raises(LookupError):
        await store.read_entry(entries[0].id)
    with pytest.raises(ConversationConflict):
        await store.save(conversation)  # a copy from before must not be saved over what may come
    await store.save(of(asked("anew"), conversation_id=conversation.conversation_id))
    assert await texts(store, conversation.conversation_id) == ["anew"]


@clause
async def deletion_compares_revisions(store: ConversationStore) -> None:
    conversation = await saved(store, *FOUR)
    for wrong in (conversation.conversation_id, name()):
        with pytest.raises(ConversationConflict):
            await store.delete_record(wrong, expected_revision="another")
    assert len(await texts(store, conversation.conversation_id)) == 4


@clause
async def the_store_keeps_copies(store: ConversationStore) -> None:
    conversation = await saved(store, *FOUR)
    found = await loaded(store, conversation.conversation_id)
    found.messages[0].parts[0].content = "changed"  # type: ignore[union-attr,misc]
    record = await store.read_record(conversation.conversation_id)
    assert record is not None
    record.branches.append("x")
    assert (await texts(store, conversation.conversation_id))[0] == "one"
    again = await store.read_record(conversation.conversation_id)
    assert again is not None
    assert dataclasses.replace(again, branches=[]) == again

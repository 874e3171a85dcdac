"""Our store for conversations keeps the contract on every backend, as the framework's own store in memory does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

import perdure
from installed import stores_here

pytest.importorskip(
    "pydantic_ai.conversation_store",
    reason="Pydantic AI 2.66 is not here: pip install 'perdure[pydantic-ai]'",
    exc_type=ImportError,
)

from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    InMemoryConversationStore,
)
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart

from adapters.pydantic_ai.conversation_contract import CLAUSES, FOUR, asked, of, said, saved
from perdure_adapters.pydantic_ai import PerdureConversationStore


@pytest.fixture(scope="module")
def places(tmp_path_factory: Any) -> Any:
    """One store of each kind for all clauses: they use names of their own."""
    opened: dict[str, Any] = {}
    yield (
        lambda kind: (
            opened.get(kind)
            or opened.setdefault(kind, perdure.open(f"{kind}:///{tmp_path_factory.mktemp(kind)}/agent.db"))
        )
    )
    for each in opened.values():
        each.close()


@pytest.mark.parametrize("kind", stores_here("memory", "sqlite", "files"))
@pytest.mark.parametrize("clause", CLAUSES)
def test_contract(clause: str, kind: str, places: Any) -> None:
    store = InMemoryConversationStore() if kind == "memory" else PerdureConversationStore(places(kind))
    asyncio.run(CLAUSES[clause](store))


def test_contract_on_postgresql(postgres_store: str) -> None:
    with perdure.open(postgres_store) as opened:
        for clause in CLAUSES.values():
            asyncio.run(clause(PerdureConversationStore(opened)))


# -- controls --------------------------------------------------------------------------------------------------------


class NoRevisions(InMemoryConversationStore):
    """A store that lets the last writer win."""

    async def write_record(
        self, record: ConversationRecord, *, new_entries: Any = (), expected_revision: str | None
    ) -> None:
        found = await self.read_record(record.conversation_id)
        await super().write_record(
            record, new_entries=new_entries, expected_revision=None if found is None else found.revision
        )


class HalfSaves(InMemoryConversationStore):
    """A store that keeps the entries of a save that it refuses."""

    async def write_record(
        self, record: ConversationRecord, *, new_entries: Any = (), expected_revision: str | None
    ) -> None:
        self._entries |= {entry.id: entry for entry in new_entries}
        await super().write_record(record, new_entries=new_entries, expected_revision=expected_revision)


class Greedy(InMemoryConversationStore):
    """A store that deletes what forks still use."""

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        record = await self.read_record(conversation_id)
        line = await self.read_history(record.head_id) if record is not None else []
        await super().delete_record(conversation_id, expected_revision=expected_revision)
        for entry in line:
            self._entries.pop(entry.id, None)


class Forgetful(InMemoryConversationStore):
    """A store that loses its last entry but one."""

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        found = await super().read_history(head_id, limit=limit)
        return found[:-2] + found[-1:]


class Unsorted(InMemoryConversationStore):
    """A store that lists in the order of writing."""

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        return [each for each in self._records.values() if scope is None or each.scope == scope][:limit]


@pytest.mark.parametrize(
    ("broken", "least"), [(NoRevisions, 2), (HalfSaves, 1), (Greedy, 1), (Forgetful, 10), (Unsorted, 1)]
)
def test_controls_a_broken_store_breaks_the_contract(broken: Any, least: int) -> None:
    async def breaks(clause: Any) -> bool:
        try:
            await clause(broken())
        except (Exception, pytest.fail.Exception):
            return True
        return False

    failed = [name for name, clause in CLAUSES.items() if asyncio.run(breaks(clause))]
    assert least <= len(failed) < len(CLAUSES)


# -- what a session of Perdure adds ------------------------------------------------------------------------------------


def test_a_conversation_is_a_session_that_others_read(tmp_path: Any) -> None:
    messages = [
        asked("look"),
        ModelResponse(
            parts=[TextPart("looking"), ToolCallPart("look", {"at": 1}, "a"), ToolCallPart("look", {"at": 2}, "b")]
        ),
        ModelRequest(parts=[ToolReturnPart("look", "one", "a"), ToolReturnPart("look", "no", "b", outcome="failed")]),
        said("done"),
    ]
    with perdure.open(f"sqlite:///{tmp_path}/agent.db") as store:
        conversations = PerdureConversationStore(store)
        conversation = asyncio.run(saved(conversations, *messages))
        session = store.session(conversation.conversation_id)
        turns = session.turns(last=10)
        assert [(turn.role.value, turn.call, turn.error) for turn in turns] == [
            ("user", None, False), ("assistant", None, False), ("tool", "a", False), ("tool", "b", True),
            ("assistant", None, False),
        ]  # fmt: skip
        assert [call.args for call in turns[1].calls] == [{"at": 1}, {"at": 2}]
        assert session.pending() is None
        assert asyncio.run(conversations.messages(conversation.conversation_id)) == messages


def test_a_session_of_others_is_a_history(tmp_path: Any) -> None:
    with perdure.open(f"sqlite:///{tmp_path}/agent.db") as store:
        session = store.session("s1")
        session.say("user", "look")
        session.say("assistant", "looking", calls=[perdure.Call("a", "look", {"at": 1}), perdure.Call("b", "look", {})])
        session.result("a", "one")
        found = asyncio.run(PerdureConversationStore(store).messages("s1"))
    assert [type(message).__name__ for message in found] == [
        "ModelRequest",
        "ModelResponse",
        "ModelRequest",
        "ModelRequest",
    ]
    parts = [part for message in found for part in message.parts]
    assert isinstance(parts[0], UserPromptPart)
    assert parts[0].content == "look"
    returns = {part.tool_call_id: part for part in parts if isinstance(part, ToolReturnPart)}
    assert (returns["a"].tool_name, returns["a"].content, returns["a"].outcome) == ("look", "one", "success")
    assert returns["b"].outcome == "failed"  # interrupted (P14)


def test_a_store_is_opened_by_its_url_and_lasts(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/agent.db"

    async def main() -> None:
        async with PerdureConversationStore(url) as first:
            conversation = await saved(first, *FOUR)
        async with PerdureConversationStore(url) as second:
            found = await second.load(conversation.conversation_id)
            assert found is not None
            assert found.messages == list(FOUR)
            await second.delete(conversation.conversation_id)

    asyncio.run(main())
    with perdure.open(url) as store:
        assert store.verify().ok


def test_text_of_a_deleted_conversation_is_retracted(tmp_path: Any) -> None:
    with perdure.open(f"sqlite:///{tmp_path}/agent.db") as store:
        conversations = PerdureConversationStore(store)
        conversation = of(*FOUR)
        asyncio.run(conversations.save(conversation))
        asyncio.run(conversations.delete(conversation.conversation_id))
        assert not store.session(conversation.conversation_id).turns(last=10)


# -- turns of other frameworks -----------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Any) -> Any:
    with perdure.open(f"sqlite:///{tmp_path}/agent.db") as opened:
        yield opened


async def history(conversations: Any, name: str, **about: Any) -> list[str]:
    loaded = await conversations.load(name, **about)
    return [part.content for message in loaded.messages for part in message.parts]


async def continued(conversations: Any, name: str, text: str) -> None:
    conversation = await conversations.load(name)
    conversation.messages.append(asked(text))
    await conversations.save(conversation)


def test_a_session_that_another_framework_began_is_loaded_and_continued(store: Any) -> None:
    session = store.session("s")
    session.say("user", "a")
    session.say("assistant", "b")

    async def run() -> None:
        conversations = PerdureConversationStore(store)
        assert await conversations.load("nothing") is None
        assert await history(conversations, "s") == ["a", "b"]
        await continued(conversations, "s", "c")
        session.say("assistant", "d")
        assert await history(conversations, "s") == ["a", "b", "c", "d"]
        assert await history(conversations, "s", limit=2) == ["c", "d"]
        await continued(conversations, "s", "e")
        assert await history(conversations, "s") == ["a", "b", "c", "d", "e"]
        assert await history(conversations, "s", limit=3) == ["c", "d", "e"]

    asyncio.run(run())
    assert [turn.content for turn in session.turns(after=0)] == ["a", "b", "c", "d", "e"]
    assert store.verify().ok


def test_a_save_that_has_not_seen_another_frameworks_turn_is_a_conflict(store: Any) -> None:
    async def run() -> None:
        conversations = PerdureConversationStore(store)
        conversation = await saved(conversations, asked("a"))
        name = conversation.conversation_id
        loaded = await conversations.load(name)
        store.session(name).say("assistant", "b")
        loaded.messages.append(asked("c"))
        with pytest.raises(ConversationConflict):
            await conversations.save(loaded)
        await continued(conversations, name, "c")
        assert await history(conversations, name) == ["a", "b", "c"]
        with pytest.raises(ConversationConflict):  # its messages are there already
            await conversations.save(of(*loaded.messages, conversation_id=name))

    asyncio.run(run())


def test_a_branch_is_left_when_another_framework_speaks(store: Any) -> None:
    async def run() -> None:
        conversations = PerdureConversationStore(store)
        conversation = await saved(conversations, asked("a"), said("b"))
        name = conversation.conversation_id
        store.session(name).say("user", "c")
        loaded = await conversations.load(name)
        await conversations.branch(name, at=1, expected_revision=loaded.revision)
        assert await history(conversations, name) == ["a"]
        store.session(name).say("user", "d")
        assert await history(conversations, name) == ["a", "b", "c", "d"]

    asyncio.run(run())


def test_a_fork_keeps_the_turns_of_others_that_it_reaches(store: Any) -> None:
    session = store.session("s")
    session.say("user", "a")

    async def run() -> None:
        conversations = PerdureConversationStore(store)
        await continued(conversations, "s", "b")
        session.say("assistant", "c")
        await conversations.fork("s", new_conversation_id="f")
        session.say("user", "d")
        await conversations.delete("s")
        assert await history(conversations, "f") == ["a", "b", "c"]
        assert [turn.content for turn in session.turns(after=0)] == ["a", "b", "c"]
        await conversations.delete("f")
        assert await conversations.load("f") is None

    asyncio.run(run())
    assert not session.turns(after=0)


def test_a_session_that_another_framework_began_is_deleted(store: Any) -> None:
    session = store.session("s")
    session.say("user", "a")
    asyncio.run(PerdureConversationStore(store).delete("s"))
    assert not session.turns(after=0)

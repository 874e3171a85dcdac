"""Our store for conversations keeps the contract on every backend, as the framework's own store in memory does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

import perdure

pytest.importorskip(
    "pydantic_ai.conversation_store",
    reason="Pydantic AI 2.66 is not here: pip install 'perdure[pydantic-ai]'",
    exc_type=ImportError,
)

from pydantic_ai.conversation_store import ConversationEntry, ConversationRecord, InMemoryConversationStore
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart

from adapters.pydantic_ai.conversation_contract import CLAUSES, FOUR, asked, of, said, saved
from perdure.adapters.pydantic_ai import PerdureConversationStore


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


@pytest.mark.parametrize("kind", ["memory", "sqlite", "files"])
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

"""Checkpoints of workflows on Perdure: states come back as they were, and no type is imported, built or lost in silence."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import sys
import uuid
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import perdure
from installed import stores_here

pytest.importorskip(
    "agent_framework",
    reason="Agent Framework is not here: pip install 'perdure[agent-framework]'",
    exc_type=ImportError,
)

from agent_framework import (
    AgentExecutorRequest,
    Content,
    Executor,
    Message,
    WorkflowBuilder,
    WorkflowCheckpoint,
    WorkflowContext,
    WorkflowEvent,
    WorkflowMessage,
    handler,
)
from agent_framework.exceptions import WorkflowCheckpointException
from pydantic import BaseModel

from perdure_adapters.agent_framework import PerdureCheckpointStorage

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


@pytest.fixture(params=stores_here("sqlite", "files"))
def store(request: Any, tmp_path: Path) -> Any:
    with perdure.open(f"{request.param}:///{tmp_path}/agent.db") as opened:
        yield opened


class Colour(enum.StrEnum):
    RED = "red"


@dataclasses.dataclass(frozen=True)
class Order:
    number: int
    colour: Colour = Colour.RED
    lines: tuple[str, ...] = ()


class Model(BaseModel):
    name: str
    order: Any = None


class Plain:
    def __init__(self) -> None:
        self.at = datetime(2026, 1, 2)  # noqa: DTZ001 - naive on purpose


MINE = [Colour, Order, Model, Plain]


def checkpoint(**state: Any) -> WorkflowCheckpoint:
    return WorkflowCheckpoint(workflow_name="flow", graph_signature_hash="h", state=state)


def test_every_value_that_is_allowed_comes_back_as_it_was(store: Any) -> None:
    storage = PerdureCheckpointStorage(store, allow=MINE)
    state = {
        "json": {"a": [1, 2.5, None, True, "é"]}, "tuple": (1, (2,)), "set": {1, "x"}, "frozen": frozenset({2}),
        "bytes": b"\x00\xff",
        "numbers": {1: "one", (2, 3): "two"}, "big": 1 << 80, "decimal": Decimal("1.50"), "id": uuid.UUID(int=7),
        "aware": datetime(2026, 1, 2, tzinfo=UTC), "naive": datetime(2026, 1, 2), "order": Order(7, lines=("a",)),  # noqa: DTZ001
        "model": Model(name="m", order=Order(8)), "tag": {"perdure.type": "x", "is": 1}, "colour": Colour.RED,
    }  # fmt: skip
    event = WorkflowEvent.request_info("r1", "asker", Order(9), list[Order] | None)
    request = AgentExecutorRequest(messages=[Message("user", ["hi", Content.from_data(b"\x89PNG", "image/png")])])
    given = WorkflowCheckpoint(
        workflow_name="flow", graph_signature_hash="h", state=state, pending_request_info_events={"r1": event},
        messages={"a": [WorkflowMessage(data=request, source_id="a", original_request_info_event=event)]}, iteration_count=3,
    )  # fmt: skip

    async def main() -> WorkflowCheckpoint:
        return await storage.load(await storage.save(given))

    found = asyncio.run(main())
    assert found.state == state
    assert [type(each) for each in found.state.values()] == [type(each) for each in state.values()]
    assert (found.checkpoint_id, found.timestamp, found.iteration_count) == (given.checkpoint_id, given.timestamp, 3)
    back = found.pending_request_info_events["r1"]
    assert (back.data, back.request_id, back.response_type) == (Order(9), "r1", list[Order] | None)
    (message,) = found.messages["a"]
    assert message.data.messages[0].to_dict() == request.messages[0].to_dict()
    assert message.original_request_info_event.data == Order(9)
    plain = Plain()
    loaded = asyncio.run(storage.load(asyncio.run(storage.save(checkpoint(plain=plain)))))
    assert vars(loaded.state["plain"]) == vars(plain)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (object(), "builtins:object"), (lambda: 1, "function"), (Path("x"), "Path"), (Exception("x"), "builtins:Exception"),
        (sys, "module"), ({1: Order(1)}, "Order"), (type("T", (), {}), ":T"), (range(3), "range"), (float("nan"), "nan"),
    ],
)  # fmt: skip
def test_a_type_that_is_not_allowed_is_refused_with_its_name_and_path(store: Any, value: Any, says: str) -> None:
    storage = PerdureCheckpointStorage(store)
    with pytest.raises(WorkflowCheckpointException) as caught:
        asyncio.run(storage.save(checkpoint(deep={"list": [1, value]})))
    assert says in str(caught.value)
    assert "state.deep.list[1]" in str(caught.value)
    assert asyncio.run(storage.list_checkpoint_ids(workflow_name="flow")) == []


def hostile() -> list[Any]:
    names = [
        "os:system",
        "builtins:eval",
        "subprocess:Popen",
        "perdure:open",
        "__main__:X",
        "",
        7,
        None,
        ["a"],
        {"b": 1},
    ]
    bodies: list[Any] = ["true", [], {}, {"args": ["touch x"]}, None, 5, {"perdure.type": "os:system", "is": "x"}]
    made = [{"perdure.type": name, "is": body} for name in names for body in bodies]
    own = ["agent_framework._types:Message", "agent_framework._types:Content", "set", "dict", "naive", "class"]
    made += [{"perdure.type": name, "is": body} for name in own for body in bodies]
    made += [{"perdure.type": name} for name in (*names, *own)]
    made += [{"perdure.type": "class", "is": each} for each in (["union", "os:system"], "posix:system")]
    return [
        around for each in made
        for around in (each, [each], {"k": (each,)}, {"perdure.type": "dict", "is": [["k", each]]})
    ]  # fmt: skip


HARMLESS = (set, dict, list, tuple, str, int, type(None), Message, Content)


def inner(found: Any) -> list[Any]:
    """A value and all that is in it."""
    below = [*found.values()] if isinstance(found, dict) else [*found] if isinstance(found, (list, tuple, set)) else []
    return [found, *(each for part in below for each in inner(part))]


def test_hostile_checkpoints_import_and_build_nothing(store: Any) -> None:
    storage = PerdureCheckpointStorage(store)
    asyncio.run(storage.save(checkpoint(a=1)))
    session = store.session("agent_framework/flow")
    fields = session.restore(
        name="agent_framework", key=asyncio.run(storage.list_checkpoint_ids(workflow_name="flow"))[0]
    )
    before = set(sys.modules)
    wrong = []
    assert len(hostile()) > 500
    for number, value in enumerate(hostile()):
        key = f"bad-{number}"
        state = {**fields, "checkpoint_id": key, "state": {"x": value}}
        session.checkpoint(state, name="agent_framework", key=key, document={"timestamp": fields["timestamp"]})
        try:
            found = asyncio.run(storage.load(key)).state["x"]
        except WorkflowCheckpointException:
            continue
        wrong += [(value, each) for each in inner(found) if type(each) not in HARMLESS]
    assert wrong == []
    assert not {name for name in set(sys.modules) - before if not name.startswith(("perdure", "agent_framework"))}


def test_listing_latest_and_deleting(store: Any) -> None:
    storage, other = PerdureCheckpointStorage(store), PerdureCheckpointStorage(store)
    made = [dataclasses.replace(checkpoint(n=n), timestamp=f"2026-01-0{3 - n}T00:00:00+00:00") for n in range(3)]

    async def main() -> None:
        for each in made:
            await storage.save(each)
        await storage.save(dataclasses.replace(checkpoint(), workflow_name="another"))
        assert await other.list_checkpoint_ids(workflow_name="flow") == [each.checkpoint_id for each in made]
        assert [each.state["n"] for each in await other.list_checkpoints(workflow_name="flow")] == [0, 1, 2]
        latest = await other.get_latest(workflow_name="flow")
        assert latest is not None
        assert latest.state == {"n": 0}
        assert [await storage.delete(made[0].checkpoint_id) for _ in range(2)] == [True, False]
        with pytest.raises(WorkflowCheckpointException, match="No checkpoint found"):
            await storage.load(made[0].checkpoint_id)
        assert await storage.get_latest(workflow_name="unknown") is None

    asyncio.run(main())
    assert store.verify().ok


def test_a_workflow_goes_on_in_another_process(store: Any) -> None:
    done: list[str] = []

    class Step(Executor):
        @handler
        async def step(self, order: Order, ctx: WorkflowContext[Order, str]) -> None:
            done.append(self.id)
            ctx.set_state("order", order)
            await ctx.send_message(dataclasses.replace(order, number=order.number + 1))

    class End(Executor):
        @handler
        async def end(self, order: Order, ctx: WorkflowContext[Order, str]) -> None:
            await ctx.yield_output(f"order {order.number}")

    def flow() -> Any:
        storage = PerdureCheckpointStorage(store, allow=[Order, Colour])
        first, second, end = Step(id="first"), Step(id="second"), End(id="end")
        built = WorkflowBuilder(name="flow", start_executor=first, checkpoint_storage=storage)
        return storage, built.add_edge(first, second).add_edge(second, end).build()

    async def main() -> None:
        storage, workflow = flow()
        await workflow.run(Order(1))
        states = await storage.list_checkpoints(workflow_name="flow")
        middle = next(
            each for each in states if any(m.source_id == "first" for ms in each.messages.values() for m in ms)
        )
        done.clear()
        result = await flow()[1].run(checkpoint_id=middle.checkpoint_id)
        assert result.get_outputs() == ["order 3"]
        assert done == ["second"]
        assert middle.state["order"] == Order(1)

    asyncio.run(main())

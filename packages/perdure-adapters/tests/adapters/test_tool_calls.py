"""The effect rule of all adapters, without a framework."""

from __future__ import annotations

import pytest

import perdure
from perdure.errors import InDoubt, KeyReused, NotFound
from perdure.model.records.conversation import Call
from perdure.model.records.effects import ToolKind
from perdure_adapters import tool_calls


@pytest.fixture
def session(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        yield store.session("s")


def test_a_call_is_a_turn_before_it_is_an_effect(session):
    with pytest.raises(NotFound):
        tool_calls.act_now(session, Call("c", "pay", {"n": 1}), ToolKind.UNSAFE, lambda: "paid")
    assert not session.effects()


def test_a_call_is_carried_out_once_and_its_arguments_are_compared(session):
    paid: list[str] = []
    call = Call("c", "pay", {"n": 1, "call": "x", "key": "y", "approve": "z"})
    session.say("assistant", calls=[call])
    for _ in range(3):
        assert tool_calls.act_now(session, call, ToolKind.UNSAFE, lambda: paid.append("x") or "paid") == "paid"
    assert paid == ["x"]
    assert session.turns()[-1].call == "c"
    with pytest.raises(KeyReused):
        tool_calls.act_now(session, Call("c", "pay", {"n": 2}), ToolKind.UNSAFE, lambda: "paid")


def test_a_tool_that_reads_bypasses_the_ledger(session):
    assert tool_calls.act_now(session, Call("c", "find", {}), ToolKind.READ, lambda: 1) == 1
    assert not session.effects()


def test_doubt_comes_out_and_a_declared_probe_settles_it(session):
    def lost(n: int) -> None:
        raise RuntimeError("the line went dead")

    def look(n: int) -> perdure.Happened:
        return perdure.Happened(f"{n} was paid")

    call = Call("c", "pay", {"n": 1})
    session.say("assistant", calls=[call])
    with pytest.raises(InDoubt):
        tool_calls.act_now(session, call, ToolKind.UNSAFE, lambda: lost(1))
    probed = perdure.tool(lost, name="pay-probed", probe=look, known=False)
    other = Call("d", "pay-probed", {"n": 2})
    session.say("assistant", calls=[other])
    assert tool_calls.act_now(session, other, probed, lambda: lost(2)) == "2 was paid"


def test_a_kind_is_declared_or_unsafe():
    def send() -> None: ...

    declared = perdure.tool(send, name="outward-send", kind="idempotent")
    assert tool_calls.declared_as("x", send) is declared
    assert tool_calls.declared_as("x", declared) is declared
    assert tool_calls.declared_as("x", send, {"x": "read"}) is ToolKind.READ
    assert tool_calls.declared_as("x", len) is ToolKind.UNSAFE


def test_the_running_tool_knows_its_key(session):
    call = Call("c", "pay", {})
    session.say("assistant", calls=[call])
    key = tool_calls.act_now(session, call, ToolKind.IDEMPOTENT, tool_calls.sent_key)
    assert key == session.effects()[0].sent_key
    assert tool_calls.sent_key() is None

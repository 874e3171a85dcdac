"""Parameters that are called like what the ledger or a verb has for itself: none gets the wrong thing in silence."""

from __future__ import annotations

import pytest

import perdure
from perdure.effects.tool import as_tool, tool
from perdure.errors import Invalid


@pytest.fixture
def store(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/a.db", actor="me") as opened:
        yield opened


OWN = {
    "key": "k",
    "call": perdure.Call("c1", "go", {}),
    "approve": "Shall it?",
    "approve_within": "1h",
}


def go(approve="no", approve_within="never", call=None): ...


@pytest.mark.parametrize("name", ["approve", "approve_within", "call"])
def test_an_option_of_act_is_not_taken_from_a_tool_that_has_such_a_parameter(store, name):
    with pytest.raises(Invalid, match=f"go has a parameter '{name}'") as refused:
        store.session("s").act(go, **{"key": "k", name: OWN[name]})
    assert (refused.value.path, "by position" in refused.value.hint) == (name, True)
    if name != "call":
        agent = perdure.agent(name=f"agent-{name}")(lambda run: run.act(go, **{name: OWN[name]}))
        with pytest.raises(perdure.Failed, match=f"go has a parameter '{name}'"):
            store.drive(agent)
    assert store.effects() == []


def test_what_is_passed_by_its_position_arrives_and_so_do_the_names_of_the_first_parameters(store):
    seen = []

    @perdure.tool(name="noted")
    def noted(approve, call="", *, tool=0, fn=0, self_=0):
        seen.append((approve, call, tool, fn))

    def looked(agent, *, fn):
        return [agent, fn]

    @perdure.agent(name="child")
    def child(run, agent):
        return agent

    @perdure.agent(name="parent")
    def parent(run, *, agent):
        run.act(noted, "yes", call="me", tool=1, fn=2)
        return [run.step(looked, agent=agent, fn=3), run.call(child, agent=4)]

    store.session("s").act(noted, "no", "you", tool=5, fn=6, key="k")
    assert store.drive(parent, agent=7) == [[7, 3], 4]
    assert seen == [("no", "you", 5, 6), ("yes", "me", 1, 2)]


@pytest.mark.parametrize("name", ["key", "session"])
def test_an_option_of_start_is_not_taken_from_an_agent_that_has_such_a_parameter(store, name):
    @perdure.agent(name=f"of-{name}")
    def agent(run, key="", session=""):
        return [key, session]

    for verb in (store.start, store.drive):
        with pytest.raises(Invalid, match=f"of-{name} has a parameter '{name}'") as refused:
            verb(agent, **{name: "x"})
        assert refused.value.path == name
    assert store.runs() == []
    assert store.drive(agent, "a", "b") == ["a", "b"]


def put(key, value): ...


def log_in(user, token): ...


@pytest.mark.parametrize(("fn", "name"), [(put, "key"), (log_in, "token")])
@pytest.mark.parametrize("kind", ["unsafe", "idempotent"])
def test_a_parameter_that_the_ledger_would_fill_in_is_refused_where_it_becomes_known(store, fn, name, kind):
    for declare in (tool(kind=kind), as_tool):
        with pytest.raises(Invalid, match=f"the ledger's {name}") as refused:
            declare(fn)
        assert (refused.value.path, f"*, {name}" in refused.value.hint) == (name, True)
    with pytest.raises(Invalid, match=f"the ledger's {name}"):
        store.session("s").act(fn, key="where", value="what")
    assert store.effects() == []


def test_who_asks_for_the_key_gets_it():
    assert tool(kind="keyed")(put).takes == {"key"}
    assert tool(lambda value, *, key, token: ...).takes == {"key", "token"}
    assert tool(name="made", undo=lambda value, key: ...)(lambda value: ...).undo.takes == {"key"}


def test_the_key_of_what_only_reads_is_an_argument(store):
    @perdure.tool(kind="read")
    def find(key):
        return f"found {key}"

    @perdure.agent(name="finder")
    def finder(run):
        calls = [{"id": "c1", "tool": "find", "args": {"key": "a"}}]
        return [run.step(find, "b"), run.respond(lambda: {"calls": calls}, tools=[find]).answers[0].result]

    assert store.drive(finder) == ["found b", "found a"]


def test_tools_that_cannot_be_are_refused_before_the_model_is_asked(store):
    asked = []

    @perdure.agent(name="talker")
    def talker(run):
        run.respond(lambda: asked.append(1), tools=[put])

    with pytest.raises(perdure.Failed, match="the ledger's key"):
        store.drive(talker)
    assert asked == []

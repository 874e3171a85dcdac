"""Agents: what a declaration is refused for, at once."""

from __future__ import annotations

import pytest

import perdure
from perdure.errors import Invalid
from perdure.runtime.agent import agent


def plain(run): ...


def generator(run):
    yield run


@pytest.mark.parametrize(
    ("fn", "declared", "path"),
    [
        (max, {}, "agent"),
        (7, {}, "agent"),
        (generator, {}, "agent"),
        (lambda: None, {}, "agent"),
        (plain, {"name": "a\0b"}, "name"),
        (plain, {"checkpoint": "often"}, "checkpoint"),
        (plain, {"checkpoint": "every 0 steps"}, "checkpoint"),
        (plain, {"timeout": -1}, "timeout"),
        (plain, {"limit": True}, "limit"),
        (plain, {"workspace": 5}, "workspace"),
        (plain, {"pins": 5}, "pins"),
        (plain, {"pins": [("a", 1)]}, "pins"),
        (plain, {"pins": {"a": object()}}, "pins.a"),
        (plain, {"on_change": "stop"}, "on_change"),
        (plain, {"nope": 1}, "nope"),
    ],
)
def test_what_does_not_fit_is_refused_at_import(fn, declared, path):
    with pytest.raises(Invalid) as refused:
        agent(**declared)(fn)
    assert refused.value.path == path


def test_an_unknown_option_is_told_those_that_there_are():
    with pytest.raises(Invalid, match=r"there is no option 'nope'.*checkpoint, hold, limit, name, on_change, pins"):
        agent(nope=1)(plain)


class Service:
    def go(self, run): ...


def test_a_method_is_declared_of_an_object_and_not_in_its_class():
    with pytest.raises(Invalid, match="its object would be missing"):
        agent(Service.go)
    assert agent(Service().go).name == "go"


def test_a_tool_is_not_driven_as_an_agent():
    """Its first parameter would be a run, and what it does outside would be in no ledger: done again after a crash."""
    called: list[object] = []

    @perdure.tool(name="pay-once")
    def pay(invoice):
        called.append(invoice)

    with perdure.open("memory:") as store:
        for verb in (store.drive, store.start, perdure.agent):
            with pytest.raises(perdure.Invalid, match="pay-once is a tool") as caught:
                verb(pay)
            assert caught.value.path == "agent"
            assert "session.act(pay-once" in caught.value.hint
        assert list(store.runs()) == []
    assert called == []


def test_an_agent_is_not_called_as_a_tool_or_a_step():
    """Its first parameter would not be its run, and nothing that it does would be recorded at its place."""
    called: list[object] = []

    @perdure.agent(name="fix-it")
    def fix(run, issue):
        called.append(issue)

    @perdure.agent(name="caller")
    def caller(run, verb):
        return getattr(run, verb)(fix, None, 7)

    with perdure.open("memory:") as store:
        session = store.session("s")
        refused = [
            lambda: session.act(fix, None, 7, key="k"),
            lambda: session.begin(fix, {"run": None, "issue": 7}, key="k"),
            lambda: session.respond("so", calls=[], tools=[fix]),
            lambda: perdure.tool(fix),
            lambda: perdure.tool(undo=fix)(len),
        ]
        for each in refused:
            with pytest.raises(perdure.Invalid, match="fix-it is an agent") as caught:
                each()
            assert caught.value.path == "tool"
            assert "run.call(fix-it, …)" in caught.value.hint
            assert "store.drive(fix-it, …)" in caught.value.hint
        for verb in ("act", "step", "model"):
            with pytest.raises(perdure.Failed, match="fix-it is an agent"):
                store.drive(caller, verb)
        assert list(store.effects()) == []
    assert called == []


class Reading:
    """A function with a value, equal to all others of its class."""

    __name__ = "reading"

    def __init__(self, value: int) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reading)

    def __hash__(self) -> int:
        return 1

    def __call__(self) -> int:
        return self.value


def test_a_step_calls_the_very_function_that_it_was_given():
    @perdure.agent
    def reads(run: perdure.Run) -> list[int]:
        return [run.step(Reading(1)), run.step(Reading(2))]

    with perdure.open("memory:") as store:
        assert store.drive(reads) == [1, 2]

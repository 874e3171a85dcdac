"""Functions are found by their names in a process that declares many: of two with one name neither is taken for the other."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

import perdure
from perdure.cli.agents import agents_at
from perdure.effects import tool as tools
from perdure.model import functions
from perdure.runtime import agent as agents

MODULE = """
import perdure

WORLD = []
LOOKED = []

def looked():
    LOOKED.append(1)
    return perdure.Absent()

@perdure.tool(probe=looked, lands_within=0, retries=3)
def twin_send():
    WORLD.append(1)
    raise OSError("no answer")

@perdure.agent
def twin(run):
    return __name__

@perdure.agent(name=f"parent-{__name__}")
def parent(run):
    return run.call(twin)
"""


def module(name: str, source: str = MODULE, file: str | None = None) -> Any:
    """A module of this name, from a file of its own."""
    made = ModuleType(name)
    exec(compile(source, file or f"{name}.py", "exec"), made.__dict__)
    return made


@pytest.fixture
def store(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as opened:
        yield opened


def test_a_child_is_not_driven_with_another_function_of_its_name(store):
    ours, _ = module("ours"), module("theirs")
    with pytest.raises(perdure.NotFound, match=r"two agents are called 'twin': ours\.twin and theirs\.twin") as told:
        store.drive(ours.parent, key="k")
    assert "@perdure.agent(name=…)" in told.value.hint
    store.recover(agents=[ours.twin])  # who is passed in is meant
    assert store.drive(ours.parent, key="k") == "ours"


def test_control_the_last_one_is_taken(store, monkeypatch):
    monkeypatch.setattr(functions, "_are_two", lambda *_: False)
    ours, _ = module("ours"), module("theirs")
    assert store.drive(ours.parent, key="k") == "theirs"


def settled(url: str, ours: Any) -> None:
    """Who dispatched it is gone when somebody recovers who has only its name."""
    with perdure.open(url) as store:
        store.session("s").begin(ours.twin_send, key="k").dispatch()
    with perdure.open(url) as store:
        store.recover()


def test_doubt_is_not_settled_with_the_probe_of_another_tool(tmp_path):
    ours, theirs = module("ours"), module("theirs")
    settled(f"sqlite:///{tmp_path}/a.db", ours)
    assert (ours.LOOKED, theirs.LOOKED) == ([], [])
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        assert [each.record.tool for each in store.effects(state="in_doubt")] == ["twin_send"]
        store.recover(tools=[ours.twin_send])
    assert ours.LOOKED == [1]


def test_control_another_probe_is_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(functions, "_are_two", lambda *_: False)
    ours, theirs = module("ours"), module("theirs")
    settled(f"sqlite:///{tmp_path}/a.db", ours)
    assert (ours.LOOKED, theirs.LOOKED) == ([], [1])


def test_a_worker_is_not_started_with_one_of_two():
    for name in ("ours", "theirs"):
        module(name)
    with pytest.raises(perdure.Invalid, match="two agents are called 'twin'"):
        agents_at("json")  # whatever it imports, these were declared by then


REPLACED = {
    "loaded again": ("ours", "ours.py", MODULE),
    "as the script that was started": ("__main__", "ours.py", MODULE),
    "in a later cell": ("ours", "cell-2", MODULE),
}


@pytest.mark.parametrize("how", REPLACED)
def test_what_is_declared_anew_takes_the_place_of_the_one_before(how):
    name, file, source = REPLACED[how]
    module("ours")
    again = module(name, source, file)
    assert agents.DECLARED["twin"] is again.twin
    assert tools.DECLARED["twin_send"] is again.twin_send
    assert agents.DECLARED.clashes == tools.DECLARED.clashes == {}


def test_functions_inside_functions_replace_each_other():
    def one() -> Any:
        return perdure.agent(name="inner")(lambda run: 1)

    def two() -> Any:
        return perdure.agent(name="inner")(lambda run: 2)

    one()
    last = two()
    assert agents.DECLARED["inner"] is last

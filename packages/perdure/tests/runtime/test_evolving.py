"""A registered type gets a new version while a run is under way: what docs/guide/evolving.md says about it (P8, P13)."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import perdure

DONE: list[Any] = []


def deploy(version: int) -> type:
    """The class as this version of the program has it."""
    fields = ["title"] if version == 1 else ["title", "mood"]
    made = dataclasses.make_dataclass("Ticket", [(name, str) for name in fields])
    made.__module__ = __name__
    upgrades = {} if version == 1 else {1: lambda fields: {**fields, "mood": "unknown"}}
    return perdure.registered("evolving-ticket", version=version, upgrades=upgrades)(made)


def found() -> Any:
    return deploy(1)("Login fails")


def noted(what: Any) -> str:
    DONE.append(what)
    return "noted"


filed = perdure.tool(name="evolving-file")(noted)


@perdure.agent(name="evolving")
def evolving(run: perdure.Run, how: str) -> Any:
    ticket = run.step(found)
    handed = ticket.title if how.endswith("field") else ticket
    said = run.act(filed, handed) if how.startswith("act") else run.step(noted, handed)
    run.ask("Well?")
    return said, ticket


@pytest.fixture
def store(tmp_path):
    DONE.clear()
    with perdure.open(f"sqlite:///{tmp_path}/a.db", actor="me") as opened:
        yield opened


def begun(store: perdure.Store, how: str) -> Any:
    """A run that waits for its answer, which has come."""
    with pytest.raises(perdure.Waiting):
        store.drive(evolving, how, key="k")
    [ask] = store.asks()
    store.answer(ask.id, "yes")
    return store.runs()[0]


@pytest.mark.parametrize("how", ["act", "step"])
def test_who_hands_it_on_is_parked_told_why_and_ends_with_the_program_that_began_it(store, how):
    run = begun(store, how)
    deploy(2)
    with pytest.raises(perdure.Changed) as told:
        store.drive(evolving, how, key="k")
    assert "a registered type of a new version is another argument" in told.value.hint
    assert (run.refresh().status, run.record.reason, len(DONE)) == ("parked", "changed", 1)
    assert "a registered type of a new version" in run.record.hint  # whoever looks later is told the same
    before = deploy(1)
    run.resume()
    assert store.drive(evolving, how, key="k") == ("noted", before("Login fails"))
    assert len(DONE) == 1


@pytest.mark.parametrize("how", ["act a field", "step a field"])
def test_who_hands_on_a_field_goes_on_with_what_was_upgraded(store, how):
    begun(store, how)
    after = deploy(2)
    assert store.drive(evolving, how, key="k") == ("noted", after("Login fails", "unknown"))
    assert len(DONE) == 1

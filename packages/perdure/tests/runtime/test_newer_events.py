"""Events of a newer Perdure, written without a change of the schema, are not guessed at: a run that has one is parked (P13)."""

from __future__ import annotations

import pytest

import perdure
from perdure.log import event, upcast
from perdure.planes.reading import body_reading
from perdure.stores import tx


@perdure.agent(name="going")
def going(run: perdure.Run) -> int:
    one = run.step(int, "1")
    run.wait("go")
    return one


@pytest.fixture
def store(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/a.db", actor="me") as opened:
        yield opened


def waits(store: perdure.Store) -> str:
    """A run that has done a step and waits, by its name."""
    with pytest.raises(perdure.Waiting):
        store.drive(going, key="k")
    return store.runs()[0].id


def written_by_newer(monkeypatch, name: str) -> None:
    """Documents that have a field are written as a newer version would write them."""

    def encode(body: event.Body) -> bytes:
        if isinstance(body.doc, dict) and name in body.doc:
            body.v = upcast.BODY_VERSION + 1
        return event.encode_body(body)

    monkeypatch.setattr(tx, "encode_body", encode)


def test_a_run_whose_journal_a_newer_version_wrote_is_parked_and_goes_on_with_that_version(store, monkeypatch) -> None:
    written_by_newer(monkeypatch, "shape")
    run = waits(store)
    store.signal(run, "go")
    with pytest.raises(perdure.Parked, match="newer Perdure") as parked:
        store.drive(going, key="k")
    assert parked.value.facts["reason"] == "newer"
    assert "upgrade the workers" in parked.value.hint
    monkeypatch.setattr(body_reading, "BODY_VERSION", upcast.BODY_VERSION + 1)  # upgraded
    store.run(run).resume()
    assert store.drive(going, key="k") == 1


def test_a_listing_names_a_row_of_a_newer_version_and_shows_the_others(store, monkeypatch) -> None:
    store.session("a").decide("one", because="x")
    written_by_newer(monkeypatch, "because")
    store.session("a").decide("two", because="x")
    found = store.decisions()
    assert (len(found), len(found.damaged)) == (1, 1)
    assert "newer Perdure" in found.damaged[0].reason

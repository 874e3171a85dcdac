"""Rows beside memory: a mapping like any other, whatever of it lies on the disk."""

from __future__ import annotations

import random

import pytest

import perdure
from furnished import furnish
from perdure.stores import spilled
from perdure.stores.spilled import SpilledMapping


@pytest.mark.parametrize("most", [3, 1_000])
@pytest.mark.parametrize("seed", range(5))
def test_it_does_what_a_dict_does(monkeypatch, seed, most):
    monkeypatch.setattr(spilled, "MOST", most)
    monkeypatch.setattr(spilled, "PAGE", 4)
    dice, mapping, model = random.Random(seed), SpilledMapping(), {}
    for _ in range(400):
        key = (dice.randrange(40), dice.choice(["a", b"b"]))
        if dice.random() < 0.7:
            mapping[key] = model[key] = [{"n": dice.choice([1, None, b"x", "y", 2**70])}, dice.randrange(9)]
        else:
            assert mapping.pop(key, None) == model.pop(key, None)
        assert mapping.get(key) == model.get(key)
    assert dict(mapping) == model
    assert len(mapping) == len(model)
    with pytest.raises(KeyError):
        del mapping["not", "there"]


def test_verify_and_import_find_the_same_when_rows_are_spilled(tmp_path, monkeypatch):
    monkeypatch.setattr(spilled, "MOST", 2)
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        furnish(store)
        assert store.verify().ok, store.verify().problems
        store.export(tmp_path / "x.perdure", everything=True)
    with perdure.open("memory:") as other:
        other.import_(tmp_path / "x.perdure")
        assert other.verify().ok, other.verify().problems

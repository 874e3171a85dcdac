"""An imported copy of a run has its versions, and to take it over accepts no others (P13)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import perdure


def deployed(model: str) -> Any:
    return perdure.agent(name="copied", pins={"model": model}, on_change="park")(lambda run: run.ask("Go on?"))


def test_a_copy_keeps_its_versions_and_taking_it_over_accepts_no_others(tmp_path: Path) -> None:
    with perdure.open(f"sqlite:///{tmp_path}/a.db", actor="me") as store:
        with pytest.raises(perdure.Waiting):
            store.drive(deployed("m1"), key="k")
        store.answer(store.asks()[0].id, "yes")
        with pytest.raises(perdure.Changed):
            store.drive(deployed("m2"), key="k")
        store.export(tmp_path / "x.perdure", runs=[store.runs()[0].id])
    with perdure.open(f"sqlite:///{tmp_path}/b.db", actor="me") as store:
        store.import_(tmp_path / "x.perdure")
        (copy,) = store.runs(version="model=m1")
        copy.unpark()
        assert (copy.record.pins, copy.record.on_change) == ({"model": "m1"}, "park")
        with pytest.raises(perdure.Changed, match="model m1 → m2"):
            store.drive(deployed("m2"), key="k")
        copy.resume()
        assert store.drive(deployed("m2"), key="k") == "yes"
        assert store.verify().ok

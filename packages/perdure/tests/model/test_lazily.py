"""Modules that are loaded when they are first used."""

from __future__ import annotations

import importlib
import sys

import pytest

from perdure.model import lazily


@pytest.fixture
def later(tmp_path, monkeypatch):
    """A package of two modules that nobody has loaded, and their names."""
    package = tmp_path / "lazily_tried"
    package.mkdir()
    for name in ("__init__", "one", "two"):
        (package / f"{name}.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(lazily, "_promised", set())
    yield "lazily_tried"
    for name in [each for each in sys.modules if each.startswith("lazily_tried")]:
        del sys.modules[name]


def test_a_module_is_loaded_when_something_in_it_is_asked_for(later):
    one, two = lazily.lazily(later, "one", "two")
    assert f"{later}.one" not in sys.modules
    assert one.value == 1
    assert (f"{later}.one" in sys.modules, f"{later}.two" in sys.modules) == (True, False)
    with pytest.raises(AttributeError):
        _ = two.nothing


def test_each_look_goes_to_the_module_itself(later, monkeypatch):
    (one,) = lazily.lazily(later, "one")
    monkeypatch.setattr(importlib.import_module(f"{later}.one"), "value", 2)
    assert one.value == 2


def test_a_worker_has_all_of_them_before_it_begins(later):
    lazily.lazily(later, "one", "two")
    lazily.load_all()
    assert {f"{later}.one", f"{later}.two"} <= sys.modules.keys()

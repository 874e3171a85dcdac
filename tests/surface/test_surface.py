"""The surface is what docs/surface/api.txt says: another verb, field, default, bound or right is a change of that file."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import perdure
from surface.reading import load

TOOL = load()
LEAST = {"import perdure": 120, "verbs": 220, "routes": 165, "commands": 75, "tools": 20}


@pytest.mark.parametrize("section", LEAST)
def test_a_section_is_not_empty(section: str) -> None:
    assert len([*TOOL.SECTIONS[section]()]) >= LEAST[section]


def test_the_surface_is_the_committed_one(capsys) -> None:
    assert TOOL.main(["--check"]) == 0, capsys.readouterr().out


def shown(capsys) -> str:
    assert TOOL.main(["--check"]) == 1
    return capsys.readouterr().out


def test_control_a_verb_with_another_name_is_seen(monkeypatch, capsys) -> None:
    monkeypatch.setattr(perdure.Session, "utter", perdure.Session.say, raising=False)
    assert "\n+Session.utter(role: Speaker" in shown(capsys)


def test_control_an_argument_with_another_default_is_seen(monkeypatch, capsys) -> None:
    def recall(self, query: str, k: int = 11): ...

    monkeypatch.setattr(
        TOOL, "verbs", lambda _colour="": {"Session.recall": TOOL.Verb("recall", recall, perdure.Session)}
    )
    assert "\n+Session.recall(query: str, k: int = 11)" in shown(capsys)


def test_control_a_route_with_another_right_or_field_is_seen(monkeypatch, capsys) -> None:
    route = TOOL.routes()["remember"]
    changed = route._replace(right=SimpleNamespace(value="read"), takes_key=False)
    monkeypatch.setattr(TOOL, "TABLE", [changed])
    assert "\n+remember: POST /v1/sessions/{session}/memories (read)" in shown(capsys)


def test_bounds_and_defaults_are_told() -> None:
    remember = next(line for line in TOOL.of_routes() if line.startswith("remember: "))
    assert "confidence: float(>=0 <=1) | None = None" in remember
    assert "tags: list[str(len>=1 len<=200)](len<=64) = []" in remember
    boot = next(line for line in TOOL.of_tools() if line.startswith("boot("))
    assert "budget: int(>=200 <=50000) = 4000" in boot

"""The suites of frameworks also run at the newest version that an adapter supports, where the pinned one is another."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("adapters_tool", ROOT / "tools" / "adapters.py")
adapters_tool = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(adapters_tool)

PINNED = adapters_tool.FRAMEWORKS["openai-agents"]


def as_pinned(requirement: str) -> str:
    """The version that is newest, if no framework had released anything since its pin."""
    packages = [package for each in adapters_tool.FRAMEWORKS.values() for package in each.packages]
    name = requirement.partition(">")[0]
    return next(package.partition("==")[2] for package in packages if package.startswith(f"{name}=="))


def test_a_newer_version_takes_the_place_of_the_pin_and_of_the_source() -> None:
    found = adapters_tool.newest(PINNED, lambda requirement: "0.29.9")
    assert found.packages == ("openai-agents==0.29.9", *PINNED.packages[1:])
    assert found.source == "openai-agents==0.29.9"
    assert (found.tests, found.plugin) == (PINNED.tests, PINNED.plugin)


def test_the_range_is_the_one_that_the_extra_has() -> None:
    asked = []
    adapters_tool.newest(PINNED, lambda requirement: asked.append(requirement) or "0.29.9")
    assert asked == ["openai-agents>=0.20,<0.30"]


def test_control_the_pinned_version_is_not_run_twice() -> None:
    assert adapters_tool.newest(PINNED, as_pinned) is None


def test_tests_that_no_release_carries_stay_those_of_their_tag() -> None:
    pinned = adapters_tool.FRAMEWORKS["google-adk"]
    assert adapters_tool.newest(pinned, lambda requirement: "2.99.0").source == pinned.source


@pytest.mark.parametrize("name", [name for name in adapters_tool.FRAMEWORKS if not name.endswith("-oldest")])
def test_every_framework_has_a_supported_range(name: str) -> None:
    assert adapters_tool.newest(adapters_tool.FRAMEWORKS[name], lambda requirement: "99") is not None


def test_the_oldest_version_stays_what_it_is() -> None:
    oldest = adapters_tool.FRAMEWORKS["agent-framework-oldest"]
    assert adapters_tool.newest(oldest, lambda requirement: "99") is None


def test_a_newer_version_is_run_after_the_pinned_one(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []
    monkeypatch.setattr(adapters_tool, "newest_version", lambda requirement: "0.29.9")
    monkeypatch.setattr(adapters_tool, "run_framework", lambda name, stores: ran.append(name) or 0)
    monkeypatch.setattr(adapters_tool, "FRAMEWORKS", {"openai-agents": PINNED})
    assert adapters_tool.main(["openai-agents"]) == 0
    assert ran == ["openai-agents", "openai-agents-newest"]


def test_a_version_that_cannot_be_found_out_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(requirement: str) -> str:
        raise adapters_tool.NotToBeHad("no index")

    monkeypatch.setattr(adapters_tool, "newest_version", fail)
    monkeypatch.setattr(adapters_tool, "run_framework", lambda name, stores: 0)
    adapters_tool.main(["openai-agents"])
    assert "openai-agents    SKIPPED: its newest version cannot be had here: no index" in capsys.readouterr().out


def test_a_suite_that_takes_too_long_is_a_failure_and_ends_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").write_text("#!/bin/sh\nexec sleep 600\n")
    (tmp_path / "bin" / "python").chmod(0o755)
    monkeypatch.setattr(adapters_tool, "place", lambda name: tmp_path)
    monkeypatch.setattr(adapters_tool, "SECONDS", 0.2)
    assert adapters_tool.suite("together", "sqlite")["failures"] == ["not finished after 0.2 s"]

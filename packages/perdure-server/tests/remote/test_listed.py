"""The list of what is excluded over the network: it names tests that there are, and a verb that begins to refuse fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure_testing.contract import suite
from remote.conftest import DIFFERENT, EXCLUDED, HERE, listed, pytest_collection_modifyitems

ROOT = Path(__file__).parents[4]
TEST = "packages/perdure-server/tests/remote/test_contract.py::TestTurnContract::test_a_turn_comes_back_as_it_was_said"


def test_every_line_names_a_test_and_an_argued_reason() -> None:
    assert len(listed()) > 400
    assert set(listed().values()) <= set(EXCLUDED)
    for name in listed():
        kind, _, test = name.partition("::")
        classes = [found for found in (vars(suite).get(f"Test{colour}{kind}") for colour in ("", "Async")) if found]
        assert any(hasattr(each, test.partition("[")[0]) for each in classes), name


class Item:
    """What the hook looks at."""

    def __init__(self, folder: str) -> None:
        self.path = HERE.parent / folder / "test_contract.py"
        self.nodeid = f"{self.path}::Test{next(iter(DIFFERENT))}"
        self.marks: list[Any] = []

    def add_marker(self, mark: Any) -> None:
        self.marks.append(mark)


def test_the_list_is_of_this_folder_alone(monkeypatch) -> None:
    """A hook of a folder's conftest sees the items of all folders: those of the contract on other stores were skipped, too."""
    monkeypatch.setenv("PERDURE_ROUNDS", "1")
    items = [Item("contract"), Item("remote")]
    pytest_collection_modifyitems(None, items)  # type: ignore[arg-type]
    assert [len(item.marks) for item in items] == [0, 1]


@pytest.mark.parametrize("refusing", [False, True], ids=["as it is", "refusing"])
def test_control_a_verb_that_begins_to_refuse_fails(refusing) -> None:
    words = ["-p", "remote.refusing"] if refusing else []
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *words, TEST]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert ("1 failed" in done.stdout) is refusing, done.stdout
    assert (done.returncode == 0) is not refusing, done.stdout

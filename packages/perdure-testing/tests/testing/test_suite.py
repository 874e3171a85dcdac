"""The contract as an outside package gets it: both colours, translated where it is imported, run with one fixture."""

from __future__ import annotations

import importlib
import linecache
import subprocess
import sys
from pathlib import Path

import pytest

from perdure_testing.contract import aio, suite, sync

CONFTEST = """
import pytest

@pytest.fixture
def store_url(tmp_path):
    return f"sqlite:///{tmp_path}/agent.db"
"""
TESTS = "from perdure_testing.contract.suite import *\n"


def test_every_class_is_there_in_both_colours() -> None:
    sources = [path.read_text("utf-8") for path in Path(aio.__path__[0]).glob("*.py")]
    declared = {line.split()[1].partition("(")[0].rstrip(":") for text in sources for line in text.splitlines()
                if line.startswith("class Async") and "Contract" in line}  # fmt: skip
    assert len(declared) > 40
    of_asyncio = {
        "AsyncForgottenContract",
        "AsyncBranchesContract",
    }  # `# async-only`: they are about tasks of an event loop
    twins = {name.removeprefix("Async") for name in declared - of_asyncio}
    assert set(suite.__all__) == {f"Test{name}" for name in declared | twins}


def test_a_twin_is_translated_and_its_lines_can_be_shown() -> None:
    turns = importlib.import_module(f"{sync.__name__}.turns")
    first = turns.TurnContract.test_the_same_key_gives_the_same_turn.__code__.co_firstlineno
    assert not Path(turns.__file__).exists()
    linecache.checkcache(turns.__file__)
    shown = "".join(linecache.getline(turns.__file__, first + n, vars(turns)) for n in range(5))
    assert "session = store.session(" in shown


def test_a_module_that_has_no_async_form_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(f"{sync.__name__}.nothing_like_it")


@pytest.mark.parametrize("broken", [False, True], ids=["our store", "control: a store that forgets keys"])
def test_an_outside_package_runs_it_with_one_fixture(tmp_path: Path, broken: bool) -> None:
    forgetful = (
        "\nfrom perdure.planes.conversation import turns\n_say = turns.say\n"
        "def _forgets(tx, stream, *args, key=None, **kwargs):\n    return _say(tx, stream, *args, **kwargs)\n"
        "turns.say = _forgets\n"
    )
    (tmp_path / "conftest.py").write_text(CONFTEST + forgetful * broken)
    (tmp_path / "test_contract.py").write_text(TESTS)
    chosen = ["-k", "TurnContract and same_key", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--rootdir", tmp_path, *chosen, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == int(broken), done.stdout + done.stderr
    assert ("2 failed" if broken else "2 passed") in done.stdout

"""The tiers of tests: what `make test` may leave out, and what the list of slow tests says."""

from __future__ import annotations

import ast
from functools import cache

import pytest

import forked
import tiers
from tiers import ROOT, SlowList, changed_packages, left_out

CORE, FILES, PROOF = (
    "packages/perdure/tests/a.py::one",
    "packages/perdure-files/tests/b.py::two",
    "tests/proof/c.py::three",
)
NAMES = [f"packages/perdure/tests/a.py::test[{number}]" for number in range(95)]


def unchanged(package: str) -> bool:
    return False


# -- the list that is committed ------------------------------------------------------------------------------------


@cache
def functions_of(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_each_listed_test_exists() -> None:
    listed = SlowList.read().seconds
    if not tiers.LIST.exists():
        pytest.skip("there is no list: `make prove` writes it, and until then every test runs")
    assert len(listed) > 50
    gone = [
        name for name in listed if name.partition("[")[0].rpartition("::")[2] not in functions_of(tiers.file_of(name))
    ]
    assert gone == []


def test_each_listed_case_of_a_file_that_was_collected_exists(request: pytest.FixtureRequest) -> None:
    collected = request.config.pluginmanager.get_plugin("tiers-choice").collected
    files = {tiers.file_of(name) for name in collected}
    assert request.node.nodeid in collected
    assert [name for name in SlowList.read().seconds if tiers.file_of(name) in files and name not in collected] == []


def test_the_contract_is_not_in_the_list() -> None:
    assert [name for name in SlowList.read().seconds if tiers.CONTRACT in name] == []


# -- what enters the list and leaves it ----------------------------------------------------------------------------


def test_a_test_enters_above_two_seconds_and_leaves_below_one() -> None:
    listed = SlowList({"a::stays": 2, "a::leaves": 3})
    costs = {"a::stays": 1.4, "a::leaves": 0.9, "a::enters": 2.1, "a::quick": 1.9}
    assert listed.after(costs, {"a"}) == {"a::stays": 2, "a::enters": 2}


def test_a_figure_that_is_about_right_does_not_change() -> None:
    assert SlowList({"a::one": 10, "a::two": 10}).after({"a::one": 12.0, "a::two": 16.0}, {"a"}) == {
        "a::one": 10,
        "a::two": 16,
    }


def test_a_test_that_is_gone_leaves_and_one_of_a_file_that_was_not_seen_stays() -> None:
    assert SlowList({"a::gone": 3, "b::unseen": 4}).after({}, {"a"}) == {"b::unseen": 4}


def test_the_contract_does_not_enter() -> None:
    assert SlowList({}).after({"tests/contract/test_contract.py::TestRuns::test_one[sqlite]": 9.0}, set()) == {}


def test_a_list_reads_as_it_was_written(tmp_path) -> None:
    listed = SlowList({"b::two[with a space]": 3, "a::one": 12}, "abc", "2026-01-02")
    listed.write(tmp_path / "slow.txt")
    assert SlowList.read(tmp_path / "slow.txt") == listed
    SlowList({"a": 2}).write(tmp_path / "unproved.txt")
    assert SlowList.read(tmp_path / "unproved.txt") == SlowList({"a": 2})
    assert SlowList.read(tmp_path / "none.txt") == SlowList({})


# -- what a run leaves out -----------------------------------------------------------------------------------------


def test_a_run_takes_the_tenth_that_is_longest_unproved() -> None:
    proved = {name: float(number) for number, name in enumerate(NAMES)}
    assert set(NAMES) - left_out(NAMES, unchanged, proved) == set(NAMES[:10])


def test_after_ten_runs_each_slow_test_has_run() -> None:
    proved: dict[str, float] = {}
    for run in range(10):
        proved |= dict.fromkeys(set(NAMES) - left_out(NAMES, unchanged, proved), 1.0 + run)
    assert set(proved) == set(NAMES)


def test_a_run_takes_each_slow_test_of_a_package_that_changed() -> None:
    is_changed = changed_packages(["packages/perdure-files/src/perdure_files/kind.py", "tests/slow.txt", "README.md"])
    others = dict.fromkeys((CORE, FILES, PROOF), 9.0) | dict.fromkeys(NAMES, 0.0)
    assert left_out([CORE, FILES, PROOF, *NAMES], is_changed, others) >= {CORE, PROOF}
    assert FILES not in left_out([CORE, FILES, PROOF, *NAMES], is_changed, others)


@pytest.mark.parametrize(
    "path", ["tests/forked.py", "examples/demo/agent.py", "requirements/dev.txt", "conftest.py", "pyproject.toml"]
)
def test_a_change_that_may_change_them_has_the_tests_of_the_workspace_run(path: str) -> None:
    assert changed_packages([path])("tests")


def test_control_a_change_of_the_list_itself_changes_nothing() -> None:
    assert not changed_packages(["tests/slow.txt", "CHANGELOG.md"])("tests")


def test_without_a_commit_to_compare_with_nothing_is_left_out(monkeypatch) -> None:
    assert tiers.not_needed(SlowList({CORE: 3})) == set()
    assert tiers.changed_files("0" * 40) is None
    assert tiers.not_needed(SlowList({CORE: 3, FILES: 3}, "0" * 40, "2026-01-02")) == set()


# -- what a test needs -----------------------------------------------------------------------------------------------


def test_the_cpu_of_a_forked_program_counts() -> None:
    forked.run("-c", "")
    before = tiers.cpu_seconds()
    forked.run("-c", "import time\nwhile time.process_time() < 0.3: pass")
    assert tiers.cpu_seconds() - before >= 0.2

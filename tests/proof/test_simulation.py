"""The store and the ledger under one seed: no history does anything twice, loses anything or strands anybody (P1-P5, P7, P13).

Simulated processes with real handles, lanes, leases and files; a scheduler that lets them die, stand still and lose replies; a
world that counts what arrived (`perdure_testing.simulation`). PERDURE_ROUNDS says how many seeds each story is lived with, and
PERDURE_SEED with which one it begins. Controls: planted bugs, each of which some history must show.
"""

from __future__ import annotations

import ast
import os

import pytest

from perdure_testing.simulation.machine import POINTS
from proof.bugs import BUGS, Bug, holder_of
from proof.histories import STORIES, first_wrong, live, shrunk
from sources import at_least, sources, within_package

ROUNDS = int(os.environ.get("PERDURE_ROUNDS", "3"))
FIRST = int(os.environ.get("PERDURE_SEED", "0"))
SEARCHED = 80  # seeds within which every planted bug must show


@pytest.mark.parametrize("story", STORIES)
def test_every_history_ends_well_and_the_same_seed_gives_the_same_one(story):
    first = live(story, FIRST)
    assert live(story, FIRST).digest == first.digest
    wrong = first if first.wrong else first_wrong(range(FIRST + 1, FIRST + ROUNDS), [story])
    assert wrong is None, str(shrunk(wrong))


def test_another_seed_gives_another_history():
    assert live("plain", FIRST).digest != live("plain", FIRST + 1).digest


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_control_a_planted_bug_is_found(bug: Bug):
    with bug.planted():
        assert first_wrong(range(SEARCHED), bug.stories) is not None


def known(bug: Bug) -> list[object]:
    """What stands where a bug is planted."""
    return [holder_of(owner, name).__dict__[name] for owner, name, _ in bug.patches]


def test_there_are_bugs_enough_and_none_stays():
    assert len({bug.name for bug in BUGS}) >= 20
    for bug in BUGS:
        before = known(bug)
        with bug.planted():
            assert not {*map(id, known(bug))} & {*map(id, before)}
        assert known(bug) == before


def test_a_failing_history_is_shrunk_to_what_it_needs():
    bug = next(each for each in BUGS if each.name == "a COMMIT without a reply is taken for done")
    with bug.planted():
        found = first_wrong(range(SEARCHED), bug.stories)
        assert found is not None
        least = shrunk(found)
    kept = [what for what in least.mishaps if not what.startswith("(")]
    assert least.wrong
    assert 1 <= len(kept) < len(found.mishaps)
    assert f"live({least.story!r}, {least.seed}" in str(least)
    assert all(what in str(least) for what in kept)


def test_every_point_of_the_sync_way_is_under_control():
    folders = ("handles/sync", "effects", "runtime")
    paths = [
        path for path in sources(".py") if within_package(path).parent.as_posix() in folders or path.name == "lane.py"
    ]
    paths = [path for path in paths if path.name != "standstill.py"]  # of tasks, which a sync program has none of
    trees = [ast.parse(path.read_text("utf-8")) for path in at_least(70, paths, "modules of the sync way")]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    said = [node.args[0] for node in calls if isinstance(node.func, ast.Name) and node.func.id == "reach"]
    names = {node.value for node in said if isinstance(node, ast.Constant)}
    assert len(names) >= 5
    assert names <= {*POINTS}

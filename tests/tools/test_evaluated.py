"""The README's table is what docs/scorecard.json holds; a table that was touched by hand shows."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from perdure_evaluate.recovery.run import Header
from perdure_evaluate.recovery.score import VIOLATIONS
from perdure_evaluate.recovery.scorecard import SUMS, Failure, Scorecard, Subjected, Tally

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("evaluated", ROOT / "tools" / "evaluated.py")
assert SPEC is not None
assert SPEC.loader is not None
evaluated = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(evaluated)


def tallied(**given: int) -> Tally:
    return Tally(ran=9, sums={**dict.fromkeys(SUMS, 0), **given}, bytes_fifths=[1.0, 10.0, 20.0, 25.0, 30.0])


def carded(name: str = "mine", *, valid: bool = True) -> Scorecard:
    cells = {"support": {"outages": tallied(states=1_200, acknowledged_lost=3)}, "relay-500": {"none": tallied()}}
    failures = [Failure(f"{name}/support/kill/{n}", [VIOLATIONS[0]], [], [], "", "") for n in range(5)]
    subject = Subjected("about", tallied(duplicates=1_234, kills=7), cells)
    return Scorecard(
        Header("1.0", "0.1", 1), "perdure evaluate", {"cores": 2}, valid, True, {}, {name: subject}, failures, [], {}
    )


def checked(folder: Path) -> int:
    command = [sys.executable, folder / "tools" / "evaluated.py", "--check"]
    return subprocess.run(command, check=False, capture_output=True).returncode


def test_the_table_is_that_of_the_scorecard() -> None:
    assert checked(ROOT) == 0


def test_control_a_table_that_was_touched_shows(tmp_path: Path) -> None:
    for name in ("README.md", "docs/scorecard.json", "tools/evaluated.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    assert checked(tmp_path) == 0
    readme = tmp_path / "README.md"
    readme.write_text(readme.read_text().replace("| perdure-sqlite | ", "| perdure-sqlite | 1"))
    assert checked(tmp_path) == 1


def test_what_is_counted_stands_in_its_columns() -> None:
    head, _, row = evaluated.table(carded()).splitlines()[:3]
    columns = dict(zip(*(line.strip("| ").split(" | ") for line in (head, row)), strict=True))
    assert columns["store"] == "mine"
    assert (columns["cases"], columns["kills"], columns["sent twice"]) == ("9", "7", "1,234")
    assert (columns["torn states that lost"], columns["writes grow"]) == ("3 of 1,200", "× 3.0")


def test_a_name_cannot_break_the_table() -> None:
    row = evaluated.table(carded("a|b.py")).splitlines()[2]
    assert row.startswith("| a/b.py | 9 ")


def test_an_evaluation_that_proves_nothing_says_so() -> None:
    assert "NOT VALID" in evaluated.table(carded(valid=False))
    assert "NOT VALID" not in evaluated.table(carded())


def test_one_failure_of_a_kind_is_kept() -> None:
    assert [each.case for each in evaluated.kept(carded()).failures] == ["mine/support/kill/0"]


def test_a_readme_without_a_place_is_left_alone() -> None:
    with pytest.raises(SystemExit):
        evaluated.written("# none\n", carded())
    text = evaluated.written(f"a\n{evaluated.BEGIN}old\n{evaluated.END}b\n", carded())
    assert text.startswith("a\n")
    assert text.endswith("b\n")
    assert "old" not in text


def test_a_scorecard_can_be_read_back() -> None:
    card = carded()
    assert msgspec.json.decode(msgspec.json.encode(card), type=Scorecard) == card


def test_what_is_kept_names_no_place_of_the_machine_that_found_it() -> None:
    found = Failure(
        "mine/support/kill/1",
        [],
        [],
        ["failed git: '/a/b.c/d' is gone, see https://x.y/z"],
        "",
        "evaluate --case 1 --out /a/b",
    )
    card = evaluated.kept(msgspec.structs.replace(carded(), failures=[found]))
    assert card.failures[0].lives == ["failed git: '…' is gone, see https://x.y/z"]
    assert card.failures[0].replay == "evaluate --case 1 --out recovery"

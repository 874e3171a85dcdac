"""docs/protocol.md is a test: its example is a subject, its commands run, and its tables name what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from evaluation.recovery.conftest import Show
from perdure.cli.main import cli
from perdure_evaluate.recovery import VERSION
from perdure_evaluate.recovery.faults import FAULTS
from perdure_evaluate.recovery.faults.system_calls import CALLS
from perdure_evaluate.recovery.oracle import PHASES
from perdure_evaluate.recovery.outside import KINDS
from perdure_evaluate.recovery.tasks import TASKS

TEXT = (Path(__file__).parents[5] / "docs" / "protocol.md").read_text("utf-8")


def rows(heading: str) -> list[list[str]]:
    """The cells of the tables of a chapter."""
    chapter = TEXT.partition(f". {heading}\n")[2].partition("\n## ")[0]
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in chapter.splitlines() if line.startswith("|")
    ]


def test_it_is_the_version_that_is_run() -> None:
    assert TEXT.startswith(f"# The recovery protocol, version {VERSION}\n")


def test_its_tables_name_what_there_is() -> None:
    named = " ".join(" ".join(row) for heading in ("Tasks", "Faults", "The interface") for row in rows(heading))
    words = set(re.findall(r"[\w-]+", named))
    assert words >= {*TASKS, *FAULTS, *KINDS, *PHASES, *CALLS}


def test_its_phases_are_those_that_are_struck() -> None:
    found = {
        row[0].strip("`").partition("(")[0]: tuple(row[2].split(", ")) for row in rows("The interface") if "(" in row[0]
    }
    assert found == PHASES


def test_its_example_is_a_subject(tmp_path, show: Show) -> None:
    path = tmp_path / "mine.py"
    path.write_text(re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)[0])
    assert show(f"{path}/support/kill/mail:before").score.failed == []
    assert show(f"{path}/support/kill/mail:sent").score.failed == ["duplicates"]


@pytest.mark.parametrize("line", [line for line in TEXT.splitlines() if line.startswith("perdure evaluate ")])
def test_its_commands_run(tmp_path, monkeypatch, line: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)[0])
    words = line.replace("--budget 30s", "--budget 1ms").split()[1:]
    result = CliRunner().invoke(cli, words, prog_name="perdure")
    assert result.exit_code == (1 if "--case" in words else 0), result.output

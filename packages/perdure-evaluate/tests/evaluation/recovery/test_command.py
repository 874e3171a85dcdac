"""`perdure evaluate`: a short run, gone on with after a stop, read and replayed; and arguments that mean nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from perdure import errors
from perdure.cli.main import cli
from perdure_evaluate.recovery import run as running
from perdure_evaluate.recovery.faults import FAULTS

SHORT = (
    "--subjects",
    "json-renamed,perdure-sqlite",
    "--tasks",
    "support,relay-5",
    "--faults",
    "none,kill,race",
    "--seed",
    "4",
)


def evaluated(*words: str) -> Result:
    return CliRunner().invoke(cli, ["evaluate", *words], prog_name="perdure")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run."""
    folder = tmp_path_factory.mktemp("evaluated") / "out"
    words = ("--budget", "none", "--cases", "24", "--out", str(folder), "--jobs", "1", "--must-hold", "perdure-sqlite")
    result = evaluated(*SHORT, *words)
    assert result.exit_code == 0, result.output + result.stderr
    return folder


def card(out: Path) -> dict:
    return json.loads((out / "scorecard.json").read_text())


def test_perdure_has_no_violation_and_every_control_was_caught(out: Path) -> None:
    found = card(out)
    total = found["subjects"]["perdure-sqlite"]["total"]
    assert found["valid"]
    assert all(each["case"] for each in found["controls"].values())
    assert total["ran"] == 12
    assert found["command"].endswith("--budget none --cases 24")
    for measure in ("duplicates", "lost", "acknowledged_lost", "wrong", "stranded", "guessed"):
        assert total["sums"][measure] == 0, measure


def test_it_goes_on_where_it_was_after_a_crash_of_its_own(out: Path) -> None:
    cases = out / running.CASES
    lines = cases.read_bytes().splitlines(keepends=True)
    cases.write_bytes(b"".join(lines[:-1]) + lines[-1][:20])
    result = evaluated(*SHORT, "--budget", "1ms", "--out", str(out), "--json")
    assert result.exit_code == 0
    assert cases.read_bytes().splitlines(keepends=True)[: len(lines) - 1] == lines[:-1]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_killed_itself_it_leaves_what_it_found_and_nothing_else(tmp_path, how: signal.Signals) -> None:
    words = [*SHORT, "--budget", "none", "--jobs", "1", "--out", str(tmp_path)]
    program = subprocess.Popen([sys.executable, "-m", "perdure", "evaluate", *words], stderr=subprocess.DEVNULL)
    cases = tmp_path / running.CASES
    until(lambda: cases.exists() and cases.read_bytes().count(b"\n") > 3)
    assert left_behind_by(program.pid) or not running.MEMORY.is_dir()
    program.send_signal(how)
    assert program.wait() == (130 if how is signal.SIGINT else -how)
    until(lambda: not left_behind_by(program.pid))
    with running.Ledger(tmp_path, 4) as ledger:
        assert len(ledger.outcomes) >= 3


def left_behind_by(pid: int) -> list[Path]:
    """Folders of this evaluation: others may work at the same time."""
    return list(running.MEMORY.glob(f"perdure-evaluate-{pid}-*"))


def until(holds: Callable[[], bool]) -> None:
    for _ in range(6_000):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("it does not come about")


def test_a_folder_of_another_seed_is_left_alone(out: Path) -> None:
    before = (out / running.CASES).read_bytes()
    result = evaluated("--seed", "5", "--out", str(out), "--faults", "none")
    assert result.exit_code == errors.Conflict.exit_code
    assert (out / running.CASES).read_bytes() == before


def test_one_evaluation_at_a_time_works_in_a_folder(out: Path) -> None:
    with running.Ledger(out, 4):
        assert evaluated("--seed", "4", "--out", str(out)).exit_code == errors.Conflict.exit_code


def test_a_case_is_replayed_by_the_line_that_the_report_gives(out: Path) -> None:
    case = "json-renamed/support/kill/mail:sent"
    result = evaluated("--case", case, "--out", str(out), "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["score"]["duplicates"] == 1
    assert "2 times: mail" in evaluated("--case", case, "--out", str(out)).stdout


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_the_report_needs_nothing_from_elsewhere(out: Path) -> None:
    text = (out / "report.html").read_text()
    tags = Tags()
    tags.feed(text)
    assert not any(tag in ("script", "link", "img", "iframe") for tag, _ in tags.found)
    assert not any(name in ("src", "href") or name.startswith("on") for _, attrs in tags.found for name in attrs)
    assert any(attrs.get("name") == "viewport" for tag, attrs in tags.found if tag == "meta")
    for failure in card(out)["failures"]:
        assert failure["replay"].startswith("perdure evaluate --case ")


def test_a_control_that_is_not_caught_fails_the_evaluation(monkeypatch, tmp_path) -> None:
    """The control of the controls: a fault that does not bite."""
    import msgspec

    blunt = msgspec.structs.replace(FAULTS["kill"], schedules=lambda *_: ["understand:before"])
    monkeypatch.setitem(FAULTS, "kill", blunt)
    result = evaluated("--subjects", "json-file", "--tasks", "relay-5", "--faults", "kill", "--out", str(tmp_path / "out"),
                       "--budget", "1ms")  # fmt: skip
    assert result.exit_code == 1
    assert "NOT caught" in result.stderr
    assert "NOT VALID" in (tmp_path / "out" / "report.html").read_text()


def test_what_was_not_tried_does_not_hold(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(running, "server_for", lambda *_: ("", {"perdure-postgres": "no server"}))
    words = ("--subjects", "perdure-postgres", "--tasks", "relay-5", "--faults", "none", "--json")
    result = evaluated(*words, "--must-hold", "perdure-postgres", "--out", str(tmp_path / "held"))
    assert result.exit_code == 1
    assert json.loads(result.stdout)["skipped"] == {"subject perdure-postgres": "no server"}
    assert evaluated(*words, "--out", str(tmp_path / "out")).exit_code == 0


def test_a_subject_with_violations_does_not_hold(tmp_path) -> None:
    words = ("--subjects", "json-renamed", "--tasks", "support", "--faults", "kill", "--budget", "none", "--seed", "4")
    assert evaluated(*words, "--must-hold", "json-renamed", "--out", str(tmp_path / "out")).exit_code == 1
    found = card(tmp_path / "out")
    assert found["complete"]
    assert {each["case"].rpartition("/")[2] for each in found["failures"]} == {
        "ticket:sent", "ticket:replied", "mail:sent", "mail:replied",
    }  # fmt: skip
    assert "mail:sent" in (tmp_path / "out" / "report.html").read_text()


def test_the_list() -> None:
    found = json.loads(evaluated("--list", "--json").stdout)
    assert "perdure-sqlite" in found["subjects"]
    assert not any(name.startswith("control") for name in found["subjects"])
    assert "relay-50000" in found["tasks"]
    assert "power" in evaluated("--list").stdout


@pytest.mark.parametrize(
    "words",
    [
        ("--subjects", "no-such-store"), ("--subjects", "no-such-file.py"), ("--subjects", "\0.py"), ("--tasks", "x"),
        ("--faults", "'; --"), ("--budget", "soon"), ("--budget", "-1s"), ("--budget", ""), ("--seed", "-1"),
        ("--seed", "9" * 40), ("--jobs", "0"), ("--cases", "0"), ("--cases", "x"), ("--tries", "3"),
        ("--must-hold", "nobody"), ("--case", "x"), ("--case", "a/b/c/d"),
        ("--tasks", "x" * 10_000),
    ],
)  # fmt: skip
def test_arguments_that_mean_nothing_start_nothing(tmp_path, monkeypatch, words: tuple[str, ...]) -> None:
    monkeypatch.chdir(tmp_path)
    result = evaluated(*words)
    assert result.exit_code == errors.Invalid.exit_code, result.output
    assert len(result.stderr) < 1_000
    assert list(tmp_path.iterdir()) == []
    assert words[0] != "--must-hold" or result.stderr.startswith("perdure: must-hold: ")


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path) -> None:
    (tmp_path / running.CASES).write_text("my own\n")
    assert evaluated("--out", str(tmp_path), "--faults", "none").exit_code == errors.Invalid.exit_code
    assert (tmp_path / running.CASES).read_text() == "my own\n"


@pytest.mark.parametrize(
    "text", ["", "x = (", "import nothing_of_that_name", "class A: pass", "raise SystemExit(3)"],
)  # fmt: skip
def test_a_file_that_holds_no_subject_is_refused(tmp_path, text: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(text)
    result = evaluated("--subjects", str(path), "--out", str(tmp_path / "out"))
    assert result.exit_code == errors.Invalid.exit_code
    assert not (tmp_path / "out").exists()

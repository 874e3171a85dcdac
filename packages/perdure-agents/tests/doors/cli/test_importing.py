"""`perdure import`: what other programs kept, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from perdure import errors
from perdure.cli import importing
from perdure.cli.main import cli
from perdure_agents.importers.formats import FORMATS
from perdure_agents.importers.state import HEADINGS

SAMPLES = Path(__file__).parents[5] / "tests" / "fixtures" / "foreign"
CLAUDE = SAMPLES / "claude-code" / "5d1c0f7e-1111-4222-8333-444455556666.jsonl"


def test_the_store_is_made_and_the_report_says_what_was_taken(run, ask, tmp_path) -> None:
    url = f"sqlite:///{tmp_path}/new.db"
    result = run("import", CLAUDE, "--store", url, "--actor", "ann")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0].split() == ["what", "read", "added", "standing"]
    assert "claude-code 1" in result.stdout
    assert result.stderr.endswith("1 file taken; nothing left out\n")
    again = ask("import", CLAUDE, "--store", url)
    assert again["added"] == {}
    assert again["standing"]["turns"] == 9
    assert {each["creator"] for each in ask("sessions", "--store", url, "--label", "imported")["items"]} == {"ann"}


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("nothing-there",), errors.NotFound),
        (("nothing-there.perdure",), errors.NotFound),
        ((CLAUDE, "nothing-there"), errors.NotFound),
        ((CLAUDE, "--from", "no-such-format"), errors.Invalid),
        ((CLAUDE, "--as", "tasks", "--field", "nothing=Summary"), errors.Invalid),
    ],
)
def test_what_is_misspelt_leaves_no_store_behind(run, tmp_path, words, error) -> None:
    assert run("import", *words, "--store", f"sqlite:///{tmp_path}/new.db").exit_code == error.exit_code
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_needs_no_store(ask, tmp_path) -> None:
    report = ask("import", CLAUDE, "--dry-run", "--store", f"sqlite:///{tmp_path}/none.db")
    assert report["dry_run"]
    assert report["read"]["turns"] == 9
    assert not (tmp_path / "none.db").exists()


def test_something_left_out_is_listed_and_shows_in_the_exit_code(run, tmp_path) -> None:
    file = tmp_path / "s.jsonl"
    file.write_bytes(CLAUDE.read_bytes()[:-40])
    result = run("import", file, "--store", f"sqlite:///{tmp_path}/a.db")
    assert result.exit_code == errors.Damaged.exit_code
    assert "s.jsonl:13" in result.stdout
    assert "1 thing left out" in result.stderr
    found = json.loads(run("import", file, "--dry-run", "--json").stdout)
    assert found["left_out"][0]["place"] == "s.jsonl:13"
    assert not found["ok"]


def test_rows_by_a_mapping(run, ask, tmp_path) -> None:
    (tmp_path / "backlog.tsv").write_text("Nr\tWhat to do\n7\tWrite\n")
    url = f"sqlite:///{tmp_path}/a.db"
    words = (
        "import",
        "backlog.tsv",
        "--as",
        "tasks",
        "--field",
        "title=What to do",
        "--field",
        "id=Nr",
        "--store",
        url,
    )
    assert run(*words).exit_code == 0
    assert [task["title"] for task in ask("tasks", "--store", url)["items"]] == ["Write"]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("none.json",), 3, "no such file"),
        (("x.json", "--from", "vinyl"), 2, "no format 'vinyl'"),
        (("x.json", "--session", "s"), 2, "need --as"),
        (("x.json", "--as", "tasks", "--field", "title"), 2, "FIELD=COLUMN"),
        (("x.json", "--as", "tasks", "--field", "rhyme=x"), 2, "tasks have no 'rhyme'"),
        (("x.json", "--as", "tasks", "--scope", "s"), 2, "only values"),
        (("x.json", "--as", "tasks", "--from", "codex"), 2, "exclude each other"),
        (("x.perdure",), 3, "no such bundle"),
        (("x.perdure", "notes"), 2, "one after the other"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_made(run, tmp_path, words, code, says) -> None:
    (tmp_path / "x.json").write_text("[]")
    result = run("import", *words, "--store", f"sqlite:///{tmp_path}/none.db")
    assert result.exit_code == code, result.output
    assert says in result.stderr


def test_the_names_are_those_of_the_formats_and_of_the_rows() -> None:
    assert tuple(FORMATS) == importing.NAMES
    assert tuple(HEADINGS) == importing.KINDS


def test_formats_complete() -> None:
    found = ShellComplete(cli, {}, "perdure", "_PERDURE_COMPLETE").get_completions(["import", "--from"], "c")
    assert [each.value for each in found] == ["claude-code", "codex"]


def test_hostile_text_reaches_no_terminal(run, tmp_path) -> None:
    (tmp_path / "a\x1b[31m.json").write_text('[{"role": "\x1b[32m"}, {"a": 1}]')
    (tmp_path / "b.jsonl").write_text('{"type":"user","uuid":"\x1b[33m')
    result = run("import", tmp_path, "--dry-run")
    assert "\x1b" not in result.output

"""Docs are tests: the README's example and commands run as they stand there, in an empty folder, by a new user."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import apsw
import click
import pytest

import forked
from perdure import errors
from perdure.cli.main import cli
from sources import ROOT, at_least, sources

README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for found, text in BLOCK.findall(README) if found == language]


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    env = {
        **os.environ,
        "PERDURE_STORE": "sqlite:///agent.db",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    if command[0] == "perdure":  # many short ones: most of each would be its start
        return forked.run("-m", *command, cwd=folder, env=env, timeout=120)
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=120)


def run_examples(folder: Path) -> str:
    """Every example in the order of the README; what they printed."""
    printed = ""
    for number, text in enumerate(blocks("python")):
        (folder / f"example{number}.py").write_text(text)
        done = run(folder, sys.executable, f"example{number}.py")
        assert done.returncode == 0, done.stderr
        printed += done.stdout
    return printed


@pytest.fixture
def example(tmp_path: Path) -> Path:
    assert "Login fails on Safari" in run_examples(tmp_path)
    return tmp_path


def test_there_is_one_example_of_each_colour_and_one_that_acts() -> None:
    sync, asynchronous, acting = blocks("python")
    assert "perdure.open" in sync
    assert "perdure.aopen" in asynchronous
    assert ".act(" in acting


def pay_twice(folder: Path, text: str) -> list[str]:
    """Killed in the middle, then called again; what the other side has."""
    (folder / "pay.py").write_text(text)
    assert run(folder, sys.executable, "pay.py", "--crash").returncode == -signal.SIGKILL
    assert run(folder, sys.executable, "pay.py").stdout == "paid\n"
    return (folder / "bank.txt").read_text().splitlines()


def test_the_example_that_acts_is_killed_in_the_middle_and_pays_once(tmp_path: Path) -> None:
    assert pay_twice(tmp_path, blocks("python")[2]) == ["invoice-7"]


def test_control_without_a_ledger_it_pays_twice(tmp_path: Path) -> None:
    bare = blocks("python")[2].replace(
        'store.session("invoices").act(pay, "invoice-7", key="pay-7")', 'pay("invoice-7")'
    )
    assert pay_twice(tmp_path, bare) == ["invoice-7", "invoice-7"]


def test_the_examples_run_and_a_second_run_does_what_is_said(example: Path) -> None:
    """The turn with a key is there once; a decision has none, so there are two."""
    assert run_examples(example).count("Login fails on Safari") == 1
    turns = json.loads(run(example, "perdure", "show", "issue-42", "--json").stdout)["turns"]
    assert [(turn["role"], turn["key"]) for turn in turns] == [("user", "m1"), ("assistant", "m2")]
    assert len(json.loads(run(example, "perdure", "decisions", "--json").stdout)["items"]) == 2


VIEWS = re.compile(r"`(v_\w+)`")


def test_the_views_that_are_named_are_there_and_all_are_named(example: Path) -> None:
    schema = apsw.Connection(str(example / "agent.db"), flags=apsw.SQLITE_OPEN_READONLY)
    found = {name for (name,) in schema.execute("SELECT name FROM sqlite_schema WHERE type = 'view'")}
    for name in found:
        list(schema.execute(f"SELECT * FROM {name}"))
    schema.close()
    assert set(VIEWS.findall((ROOT / "docs" / "sql.md").read_text())) == found
    assert set(VIEWS.findall(README)) <= found
    assert len(found) == 23


CODES = re.compile(r"(\d) ([a-z ]+)[,)]")


def test_exit_codes_are_those_of_the_errors() -> None:
    named = {int(code): words for code, words in CODES.findall(README.partition("exit codes")[2].replace("\n", " "))}
    by_code = {2: errors.Invalid, 3: errors.NotFound, 4: errors.Conflict, 5: errors.Unavailable}
    by_code |= {7: errors.Refused, 8: errors.Damaged}
    assert all(error.exit_code == code for code, error in by_code.items())
    assert by_code.keys() == named.keys()


def test_every_command_runs(example: Path) -> None:
    commands = [line for text in blocks("") for line in text.splitlines() if line.startswith("perdure ")]
    assert len(commands) >= 4
    for line in commands:
        done = run(example, *line.split())
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


def test_a_broken_example_would_be_noticed(tmp_path: Path) -> None:
    """The control: the same harness on an example with a name that does not exist."""
    (tmp_path / "example.py").write_text(blocks("python")[0].replace("session.say", "session.utter"))
    assert run(tmp_path, sys.executable, "example.py").returncode != 0


COMMAND = re.compile(r"`perdure ([a-z][a-z-]*)")


def unknown_commands(text: str) -> set[str]:
    return {*COMMAND.findall(text)} - {*cli.list_commands(click.Context(cli))}


def test_every_command_that_a_page_or_a_message_names_is_there() -> None:
    """Decision records are left out: they say what was true when they were written."""
    pages = [path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "decisions"]
    paths = [ROOT / "README.md", *at_least(30, pages, "pages"), *sources(".py")]
    found = {str(path.relative_to(ROOT)): unknown_commands(path.read_text("utf-8")) for path in paths}
    assert {path: names for path, names in found.items() if names} == {}


def test_control_a_command_that_is_not_there_is_noticed() -> None:
    assert unknown_commands("`perdure verify` and `perdure vanish --all`") == {"vanish"}


# -- the guide ---------------------------------------------------------------------------------------------------

GUIDE = sorted((ROOT / "docs" / "guide").glob("*.md"))
LINK = re.compile(r"\]\(([^)#:]+)\)")


def follow(folder: Path, page: str) -> int:
    """Do what a page says, in its order: run its examples and commands; a `text` block is what was printed just before."""
    printed = "nothing was run yet"
    done = 0
    for language, text in BLOCK.findall(page):
        if language == "python":
            (folder / "example.py").write_text(text)
            ran = run(folder, sys.executable, "-W", "error", "example.py")
            assert ran.returncode == 0, ran.stderr
            printed, done = ran.stdout, done + 1
        elif language == "text":
            assert printed == text
        else:
            for line in text.splitlines():
                ran = run(folder, *shlex.split(line))
                assert ran.returncode == 0, f"{line}\n{ran.stdout}\n{ran.stderr}"
                done += 1
    return done


@pytest.mark.parametrize("page", GUIDE, ids=lambda page: page.stem)
def test_every_page_of_the_guide_can_be_followed(page: Path, tmp_path: Path) -> None:
    assert follow(tmp_path, page.read_text()) >= (0 if page.stem == "README" else 1)


@pytest.mark.parametrize("page", GUIDE, ids=lambda page: page.stem)
def test_links_of_the_guide_lead_somewhere(page: Path) -> None:
    assert [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()] == []


def test_the_guide_names_all_of_its_pages() -> None:
    named = set(LINK.findall((ROOT / "docs" / "guide" / "README.md").read_text()))
    assert {page.name for page in GUIDE} - {"README.md"} <= named


@pytest.mark.parametrize(
    "broken", ["```python\n1 / 0\n```\n", "```python\nprint(1)\n```\n```text\n2\n```\n", "```\nperdure sesions\n```\n"]
)
def test_control_a_page_that_is_wrong_is_noticed(broken: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        follow(tmp_path, broken)


# -- links -----------------------------------------------------------------------------------------------------------

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("*/*.md")]
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def slugs(page: Path) -> set[str]:
    """The anchors that a page has, as GitHub makes them of its headings."""
    bare = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(BLOCK.sub("", page.read_text()))]
    return {heading.strip().replace(" ", "-") for heading in bare}


def dead_links(page: Path, text: str) -> list[str]:
    """The links of a page, but those to other sites, that lead to no file or to no heading."""
    found = []
    for link in re.findall(r"\]\(([^):]+)\)", BLOCK.sub("", text)):
        path, _, anchor = link.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists() or (anchor and anchor not in slugs(there)):
            found.append(link)
    return found


def test_links_of_all_pages_lead_to_a_file_and_a_heading() -> None:
    pages = at_least(60, PAGES, "pages")
    found = {str(page.relative_to(ROOT)): dead_links(page, page.read_text()) for page in pages}
    assert {page: links for page, links in found.items() if links} == {}


def test_control_a_link_that_leads_nowhere_is_noticed() -> None:
    text = "[a](docs/guarantees.md#locks) [b](docs/guarantees.md#clocks) [c](docs/nowhere.md) [d](https://example.org)"
    assert dead_links(ROOT / "README.md", text) == ["docs/guarantees.md#clocks", "docs/nowhere.md"]


# -- files ----------------------------------------------------------------------------------------------------------


def test_the_example_of_a_files_store_runs_and_its_branches_merge(tmp_path: Path) -> None:
    """docs/files.md: the store lies in a repository; both branches append, git finds a conflict, and the commands end it."""

    def git(*words: str) -> subprocess.CompletedProcess[str]:
        return run(tmp_path, "git", "-c", "user.name=me", "-c", "user.email=me@example.org", *words)

    page = (ROOT / "docs" / "files.md").read_text()
    ((_, example), _, (_, editing), (_, commands), _) = BLOCK.findall(page)
    (tmp_path / "example.py").write_text(example)
    git("init", "-qb", "main")
    for branch in ("", "other", "main"):
        if branch:
            git("checkout", "-q", *(["-b"] if branch == "other" else []), branch)
        assert run(tmp_path, sys.executable, "example.py").returncode == 0
        git("add", "state")
        git("commit", "-qm", branch or "first")
    first, second, third = (line.partition("#")[0].split() for line in commands.strip().splitlines())
    assert git(*first[1:]).returncode == 1
    assert "other" in run(tmp_path, *second).stdout
    assert git("add", "state").returncode == git("commit", "-qm", "merged").returncode == 0
    assert run(tmp_path, *third).returncode == 0
    names = json.loads(run(tmp_path, "perdure", "sessions", "--json", "--store", "files:///state").stdout)["items"]
    assert {each["name"] for each in names} == {"issue-42", "issue-42@other"}
    assert run(tmp_path, "perdure", "verify", "--store", "files:///state").returncode == 0
    assert run(tmp_path, "perdure", "doctor", "--store", "files:///state").returncode == 0
    view = tmp_path / "state" / "views" / "issue-42.md"
    assert len(list(view.parent.glob("issue-42*.md"))) == 2
    view.write_text(view.read_text().replace("  - because:", "  - outcome: it held\n  - because:", 1))
    for line in editing.strip().splitlines():
        assert run(tmp_path, *line.partition("#")[0].split()).returncode == 0
    assert "closed: Use approach A" in view.read_text()


# -- decisions -------------------------------------------------------------------------------------------------------

DECISIONS = ROOT / "docs" / "decisions"
CITED = re.compile(r"decisions?[/ ](0[01]\d\d)(?:(?:,| and) (0[01]\d\d))?")
FRAMEWORKS = ROOT / "docs" / "adapters" / "reasons.md"


def known_decisions() -> set[str]:
    """The numbers that have a record, a line of the history, or a part of the page about frameworks."""
    files = {path.name[:4] for path in DECISIONS.glob("0*.md")}
    lines = set(re.findall(r"^\| (\d{4}) \|", (DECISIONS / "history.md").read_text(), re.MULTILINE))
    return files | lines | set(re.findall(r"^### .*\((\d{4})\)$", FRAMEWORKS.read_text(), re.MULTILINE))


def cited_decisions() -> dict[str, set[str]]:
    """number -> the files of the project that cite it."""
    cited: dict[str, set[str]] = {}
    paths = [path for folder in ("packages", "tests", "tools", "docs") for path in (ROOT / folder).rglob("*")]
    for path in (path for path in paths if path.suffix in (".py", ".md", ".sql") and "fixtures" not in path.parts):
        text = path.read_text("utf-8")
        numbers = {number for found in CITED.findall(text) for number in found if number}
        if path.parent == DECISIONS:
            numbers |= set(re.findall(r"\b(0[01]\d\d)\b", text))
        for number in numbers - {"0000"}:
            cited.setdefault(number, set()).add(path.relative_to(ROOT).as_posix())
    return cited


def test_every_decision_that_is_cited_is_there() -> None:
    cited = cited_decisions()
    assert len(cited) > 60
    known = known_decisions()
    assert {number: paths for number, paths in cited.items() if number not in known} == {}


def test_decisions_are_few_and_listed_by_subject() -> None:
    records = {path.name for path in DECISIONS.glob("0*.md")} - {"0000-template.md"}
    listed = set(LINK.findall((DECISIONS / "README.md").read_text()))
    assert records - listed == set()
    assert len(records) <= 45


def test_control_a_decision_that_is_nowhere_is_noticed() -> None:
    [(first, second)] = CITED.findall("as in docs/decisions/0006 and " + "0199")
    assert (first in known_decisions(), second in known_decisions()) == (True, False)

"""`perdure views` and `perdure apply`, and what `doctor` says of an edited page."""

from __future__ import annotations

import json

import pytest

import perdure
from perdure import errors


@pytest.fixture
def state(tmp_path):
    with perdure.open(f"files:///{tmp_path}/state") as store:
        session = store.session("work", goal="Make it work")
        session.task("First")
    return tmp_path / "state"


def edited(state, old="- [ ]", new="- [x]"):
    page = state / "views" / "work.md"
    page.write_text(page.read_text().replace(old, new))
    return page


@pytest.mark.parametrize("form", ["yaml", "tsv"])
def test_a_form_that_once_was_is_refused_with_a_hint(run, url, tmp_path, form):
    result = run("views", "work", "--form", form, "--store", url)
    assert result.exit_code == errors.Invalid.exit_code
    assert "--json" in result.stderr
    (tmp_path / f"work.{form}").write_text("# perdure view 1")
    result = run("apply", tmp_path / f"work.{form}", "--store", url)
    assert result.exit_code == errors.Invalid.exit_code
    assert ".md" in result.stderr


def test_a_page_of_any_store_is_shown(run, ask, url):
    name = ask("sessions", "--store", url)["items"][0]["name"]
    assert f"# {name}" in run("views", name, "--store", url).stdout
    assert f"# {name}" in run("views", name, "--form", "md", "--store", url).stdout
    assert ask("views", name, "--store", url)[0]["head"]["session"] == name
    assert run("views", "nobody", "--store", url).exit_code == errors.NotFound.exit_code
    assert run("views", "--store", url).exit_code == 2


def test_what_is_to_be_forgotten_is_not_passed_over_in_silence(run, state):
    page, url = edited(state), f"files:///{state}"
    before = page.read_bytes()
    for words in (["a"], ["--to", state.parent / "pages"]):
        result = run("views", *words, "--discard", page, "--store", url)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "--discard" in result.stderr
    assert page.read_bytes() == before
    assert not (state.parent / "pages").exists()


def test_pages_of_any_store_are_written_and_applied(run, ask, tmp_path):
    url = f"sqlite:///{tmp_path}/a.db"
    with perdure.open(url) as store:
        store.session("work").task("First")
    assert len(ask("views", "--to", tmp_path / "pages", "--store", url)["written"]) == 1
    page = tmp_path / "pages" / "work.md"
    page.write_text(page.read_text().replace("- [ ]", "- [x]"))
    assert ask("apply", page, "--store", url)["changes"] == ["task 2: todo → done"]


def test_an_edit_is_told_shown_and_recorded(run, ask, state):
    page, url = edited(state), f"files:///{state}"
    found = json.loads(run("doctor", "--store", url, "--json").stdout)["findings"]
    assert [each["severity"] for each in found if each["check"] == "views"] == ["warning"]
    assert "edited by hand" in run("views", "--store", url).stderr
    assert ask("apply", page, "--dry-run", "--store", url)["changes"] == ["task 3: todo → done"]
    said = run("apply", page, "--store", url, "--actor", "ann")
    assert "task 3: todo → done" in said.stdout
    assert ask("apply", page, "--store", url)["changes"] == []
    found = json.loads(run("doctor", "--store", url, "--json").stdout)["findings"]
    assert not [each for each in found if each["check"] == "views"]
    assert ask("events", "--store", url)["items"][0]["actor"] == "ann"


def test_an_edit_is_discarded(run, ask, state):
    page, url = edited(state), f"files:///{state}"
    assert ask("views", "--discard", page, "--store", url)["written"] == [str(page)]
    assert "- [ ]" in page.read_text()
    assert (
        run("views", "--discard", state / "log" / "000001.jsonl", "--store", url).exit_code == errors.Invalid.exit_code
    )
    assert (state / "log" / "000001.jsonl").stat().st_size
    assert run("views", "--discard", state / "nothing.md", "--store", url).exit_code == errors.NotFound.exit_code


def test_what_cannot_be_applied_is_told_with_its_line(run, state):
    page, url = edited(state, "- [ ]", "- [?]"), f"files:///{state}"
    told = run("apply", page, "--store", url)
    assert told.exit_code == errors.Invalid.exit_code
    assert "work.md:16: a task stands as in" in told.stderr
    assert run("apply", state / "views" / "README.md", "--store", url).exit_code == errors.Invalid.exit_code
    assert run("apply", state / "views" / "none.md", "--store", url).exit_code == errors.NotFound.exit_code
    assert run("apply", page.rename(page.with_suffix(".txt")), "--store", url).exit_code == errors.Invalid.exit_code


def test_pages_of_sessions_that_are_gone_go(ask, state):
    url = f"files:///{state}"
    page = state / "views" / "work.md"
    (state / "views" / "gone.md").write_bytes(page.read_bytes())
    (state / "views" / "notes.md").write_text("mine")
    found = ask("views", "--store", url)
    assert [path.rpartition("/")[2] for path in found["removed"]] == ["gone.md"]
    assert found["edited"] == []  # what was never a page is nobody's business
    assert (state / "views" / "notes.md").read_text() == "mine"

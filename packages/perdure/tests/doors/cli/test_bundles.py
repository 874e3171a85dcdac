"""`perdure export`, `import` and `move` as people and scripts use them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import perdure
from installed import stores_here
from perdure import errors


@pytest.fixture
def session(url: str) -> str:
    with perdure.open(url) as store:
        return store.sessions()[0].name


def test_a_session_goes_out_and_comes_in(run, ask, url, session, tmp_path) -> None:
    made = ask("export", session, "-o", "x.perdure", "--store", url)
    assert Path(made["path"]).exists()
    other = f"sqlite:///{tmp_path}/other.db"
    perdure.open(other).close()
    would = ask("import", "x.perdure", "--dry-run", "--store", other)
    assert would["dry_run"]
    shown = run("import", "x.perdure", "--rename", f"{session}=theirs", "--store", other)
    assert shown.exit_code == 0, shown.output
    assert "theirs" in shown.output
    assert all(each["added"] == 0 for each in ask("import", "x.perdure", "--store", other)["streams"])
    assert ask("verify", "--store", other)["ok"]


@perdure.agent
def idle(_run: perdure.Run) -> None:
    """Nothing to do."""


def test_a_run_that_comes_without_its_session_says_so(run, ask, url, tmp_path) -> None:
    with perdure.open(url) as store:
        started = store.start(idle, session="of-it")
    assert run("export", "--run", started.id, "-o", "run.perdure", "--store", url).exit_code == 0
    other = f"sqlite:///{tmp_path}/other.db"
    shown = run("import", "run.perdure", "--store", other)
    assert "parked: a copy; without its session of-it, which is not here" in shown.stdout
    assert [each["without"] for each in ask("import", "run.perdure", "--store", other)["streams"]] == ["of-it"]


def test_a_dry_run_before_there_is_a_store_adds_to_nothing_and_makes_none(run, ask, url, session, tmp_path) -> None:
    ask("export", session, "-o", "x.perdure", "--store", url)
    would = ask("import", "x.perdure", "--dry-run", "--store", f"sqlite:///{tmp_path}/other.db")
    assert all(each["added"] == each["events"] > 0 for each in would["streams"])
    assert not (tmp_path / "other.db").exists()
    done = run("import", "x.perdure", "--dry-run", "--store", url, "--tenant", "new")
    assert done.exit_code == errors.NotFound.exit_code  # the control: what other tenants have is not known there


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("export", "SESSION"), "-o NAME.perdure"),
        (("export", "SESSION", "--incident", "x", "-o", "x"), "stands alone"),
        (("import", "x", "--rename", "broken"), "OLD=NEW"),
        (("export", "--all", "--format", "json"), "name them"),
        (("export", "--format", "markdown"), "name them"),
        (("export", "SESSION", "--scope", "x", "--format", "json"), "nothing else"),
        (("export", "--all", "--format", "openai"), "-o NAME.jsonl"),
        (("export", "--format", "openai", "-o", "x"), "name them, or --all"),
        (("export", "run:abc", "--format", "atif", "-o", "x"), "name them, or --all"),
        (("export", "--all", "--outcome", "worked", "-o", "x"), "--format openai|trl"),
        (("move", "sqlite:///a.db"), "--take-back"),
    ],
)
def test_what_makes_no_sense_is_said(run, url, session, words, says) -> None:
    given = [session if word == "SESSION" else word for word in words]
    done = run(*given, *([] if words[0] == "move" else ["--store", url]))
    assert done.exit_code == 2
    assert says in done.output


def test_what_does_not_exist_has_its_exit_code(run, url) -> None:
    assert run("export", "nope", "-o", "x.perdure", "--store", url).exit_code == 3
    assert run("import", "nope.perdure", "--store", url).exit_code == 3
    Path("text.perdure").write_text("hello")
    assert run("import", "text.perdure", "--store", url).exit_code == 2


@pytest.mark.parametrize("where", stores_here("sqlite:///{}/new.db", "files:///{}/new"))
def test_a_bad_bundle_makes_no_store_and_a_good_one_does(run, url, session, tmp_path, where) -> None:
    new, place = where.format(tmp_path), tmp_path / Path(where).name
    run("export", session, "-o", "good.perdure", "--store", url)
    data = Path("good.perdure").read_bytes()
    Path("bad.perdure").write_bytes(data.replace(b'"kind":"session.opened"', b'"kind":"session.opener"'))
    assert Path("bad.perdure").read_bytes() != data
    done = run("import", "bad.perdure", "--store", new)
    assert (done.exit_code, "not an archive" in done.output) == (errors.Invalid.exit_code, True)
    assert not place.exists()
    assert run("import", "good.perdure", "--store", new).exit_code == 0
    assert place.exists()


@pytest.mark.parametrize("shape", ["json", "markdown"])
def test_sessions_for_reading(run, ask, url, session, shape) -> None:
    done = run("export", session, "--format", shape, "--store", url)
    assert done.exit_code == 0
    assert session in (json.loads(done.stdout)[0]["session"]["name"] if shape == "json" else done.stdout)
    made = ask("export", session, "--format", shape, "-o", "page", "--store", url)
    assert (Path(made["path"]).stat().st_size, made["sessions"]) == (made["size"], 1)
    assert Path("page").read_text() == done.stdout


def test_an_incident(ask, runs_url) -> None:
    found = ask("runs", "--store", runs_url)["items"][0]["id"]
    assert ask("export", "--incident", found, "-o", "x.perdure", "--store", runs_url)["events"] > 0


def test_a_store_is_moved_and_taken_back(run, ask, url, tmp_path) -> None:
    target = f"sqlite:///{tmp_path}/new.db"
    assert ask("move", url, target, "--dry-run")["dry_run"]
    assert not (tmp_path / "new.db").exists()
    assert ask("move", url, target)["events"] > 0
    assert ask("verify", "--store", target)["ok"]
    with pytest.raises(errors.Refused, match="was moved"):
        perdure.open(url)
    assert run("sessions", "--store", url).exit_code == 0
    done = run("move", url, "--take-back")
    assert done.exit_code == 0
    assert "written to again" in done.output
    assert run("move", "sqlite:///missing.db", target).exit_code == 3


@pytest.mark.parametrize("shape", ["openai", "trl", "atif"])
def test_sessions_go_out_as_rows_to_learn_from(run, ask, url, session, tmp_path, shape) -> None:
    done = ask("export", session, "--format", shape, "-o", "rows.jsonl", "--store", url)
    assert done["rows"] == 1
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == 1
    assert json.loads((tmp_path / "rows.jsonl.lineage.jsonl").read_text())["session"] == session
    shown = run("export", "--all", "--format", shape, "--outcome", "failed", "-o", "none.jsonl", "--store", url)
    assert "secrets included" in shown.output

"""perdure init and perdure.toml: what is written is read, an option wins over the environment, and that over the file."""

from __future__ import annotations

import errno
import json
import re
import tomllib
from pathlib import Path

import pytest

import perdure
from installed import stores_here
from perdure import errors
from perdure.cli import settings
from perdure.cli.init import SCENARIOS, text_of


def made(folder: Path, name: str) -> str:
    url = f"sqlite:///{folder}/{name}.db"
    with perdure.open(url) as store:
        store.session(name).say("user", "x")
    return url


def names(result) -> list[str]:
    assert result.exit_code == 0, result.output
    return [item["name"] for item in json.loads(result.stdout)["items"]]


# -- init ------------------------------------------------------------------------------------------------------


def test_after_init_the_doctor_finds_nothing_wrong(run, tmp_path) -> None:
    assert run("doctor").exit_code == errors.NotFound.exit_code  # the control: before it there is no store
    assert run("init").exit_code == 0
    looked = run("doctor", "--json")
    assert looked.exit_code == 0
    assert {finding["severity"] for finding in json.loads(looked.stdout)["findings"]} == {"ok"}
    assert (tmp_path / "agent.db").exists()


def test_nothing_is_overwritten_unless_it_is_forced(run, tmp_path) -> None:
    (tmp_path / "perdure.toml").write_text("mine")
    refused = run("init")
    assert refused.exit_code == errors.Conflict.exit_code
    assert "--force" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["perdure.toml"]
    assert (tmp_path / "perdure.toml").read_text() == "mine"
    assert run("init", "--force").exit_code == 0
    assert settings.read(tmp_path / "perdure.toml").store == "sqlite:///agent.db"
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".perdure.toml")]


def test_a_link_is_not_written_through(run, tmp_path) -> None:
    (tmp_path / "perdure.toml").symlink_to(tmp_path / "elsewhere")
    assert run("init").exit_code == errors.Conflict.exit_code
    assert not (tmp_path / "elsewhere").exists()


def test_force_never_replaces_a_store(run, tmp_path) -> None:
    made(tmp_path, "agent")
    run("init", "--force")
    assert names(run("sessions", "--json")) == ["agent"]


@pytest.mark.parametrize("scenario", list(SCENARIOS))
def test_a_dry_run_shows_the_file_and_writes_nothing(run, tmp_path, scenario) -> None:
    shown = run("init", "--scenario", scenario, "--dry-run")
    assert shown.stdout == text_of(scenario, SCENARIOS[scenario][0])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("scenario", list(SCENARIOS))
def test_what_is_written_can_be_read_and_every_line_is_explained(tmp_path, scenario) -> None:
    (tmp_path / "perdure.toml").write_text(text_of(scenario, SCENARIOS[scenario][0]))
    found = settings.read(tmp_path / "perdure.toml")
    assert found.store == SCENARIOS[scenario][0]
    assert found.worker.processes == SCENARIOS[scenario][1]
    lines = text_of(scenario, SCENARIOS[scenario][0]).splitlines()
    assert all(
        lines[at - 1].startswith("#") for at, line in enumerate(lines) if "=" in line and not line.startswith("#")
    )


def test_a_server_that_does_not_answer_is_no_error(run, tmp_path) -> None:
    result = run("init", "--scenario", "team", "--store", "postgresql://me@127.0.0.1:1/x", "--json")
    assert result.exit_code == 0
    said = json.loads(result.stdout)
    assert said["reachable"] is False
    assert "does not answer" in said["trouble"]
    assert (tmp_path / "perdure.toml").exists()
    assert run("doctor").exit_code == 1


@pytest.mark.parametrize(
    ("url", "error", "says"),
    stores_here(
        ("sqlite:///notes.txt", errors.Damaged, "notes.txt: this is not an SQLite database"),
        ("sqlite:///nowhere/agent.db", errors.NotFound, "there is no folder"),
        ("sqlite:///folder", errors.Invalid, "is a folder"),
        ("files:///notes.txt", errors.Invalid, "is a file"),
    ),
)
def test_a_file_that_can_be_no_store_is_an_error_and_nothing_is_written(run, tmp_path, url, error, says) -> None:
    (tmp_path / "notes.txt").write_text("no store at all")
    (tmp_path / "folder").mkdir()
    result = run("init", "--store", url)
    assert (result.exit_code, says in result.stderr) == (error.exit_code, True), result.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"notes.txt", "folder"}
    assert run("init", "--store", "sqlite:///agent.db").exit_code == 0  # the control


def test_a_folder_that_cannot_be_written_is_named_with_a_way_out(run, tmp_path, monkeypatch) -> None:
    def read_only(_path: Path, *_args: object, **_options: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(_path))

    monkeypatch.setattr(Path, "open", read_only)
    result = run("init")
    assert result.exit_code == errors.Refused.exit_code
    assert f"{tmp_path}/perdure.toml: Read-only file system (" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_answers_gets_its_tables(run, postgres_url, monkeypatch) -> None:
    password = re.search(r"://[^:/]+:([^@]+)@", postgres_url)
    assert password is not None
    monkeypatch.setenv("PGPASSWORD", password[1])
    url = postgres_url.replace(f":{password[1]}@", "@")
    assert json.loads(run("init", "--scenario", "team", "--store", url, "--json").stdout)["reachable"] is True
    assert names(run("sessions", "--json")) == []


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://x", "unknown store"),
        ("memory:", "gone when the command ends"),
        ("postgresql://me:geheim@host/x", "password"),
        ("postgresql://me@host/x?password=geheim", "password"),
    ],
)
def test_what_does_not_belong_into_the_file_is_refused(run, tmp_path, url, says) -> None:
    result = run("init", "--store", url)
    assert result.exit_code == errors.Invalid.exit_code
    assert says in result.stderr
    assert "geheim" not in result.output
    assert list(tmp_path.iterdir()) == []


def test_text_in_a_url_stays_text(tmp_path) -> None:
    hostile = 'sqlite:///a"\nstore = "b\\'
    assert tomllib.loads(text_of("local", hostile))["store"] == hostile


def test_it_says_that_the_environment_wins(run, tmp_path) -> None:
    assert "PERDURE_STORE is set" in run("init", PERDURE_STORE="sqlite:///b.db").stderr
    assert "PERDURE_STORE" not in run("init", "--force").stderr


# -- who wins ----------------------------------------------------------------------------------------------------


def test_option_before_environment_before_file_before_default(run, tmp_path) -> None:
    option, environment, file = (made(tmp_path, name) for name in ("option", "environment", "file"))
    made(tmp_path, "agent")
    assert names(run("sessions", "--json")) == ["agent"]
    (tmp_path / "perdure.toml").write_text(f'store = "{file}"')
    assert names(run("sessions", "--json")) == ["file"]
    assert names(run("sessions", "--json", PERDURE_STORE=environment)) == ["environment"]
    assert names(run("sessions", "--json", "--store", option, PERDURE_STORE=environment)) == ["option"]


def test_tenant_and_actor_come_from_the_file_too(run, tmp_path) -> None:
    made(tmp_path, "agent")
    (tmp_path / "perdure.toml").write_text('tenant = "acme"\nactor = "robot"')
    assert "no tenant 'acme'" in run("sessions").stderr
    assert run("sessions", "--tenant", "default").exit_code == 0
    assert run("sessions", PERDURE_TENANT="default").exit_code == 0


def test_the_file_of_another_folder_is_not_read(run, tmp_path, monkeypatch) -> None:
    (tmp_path / "perdure.toml").write_text('store = "sqlite:///other.db"')
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert "below/agent.db" in run("sessions").stderr


def test_a_worker_takes_its_table(run, tmp_path) -> None:
    made(tmp_path, "agent")
    (tmp_path / "perdure.toml").write_text("[worker]\nprocesses = 0\n")
    refused = run("worker", "nothing")
    assert refused.exit_code == 2
    assert "0 is not in the range" in refused.stderr
    assert "0 is not in the range" not in run("worker", "nothing", "--processes", "1", "--lease", "0.1s").stderr


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("store = 3", "$.store"),
        ('stroe = "x"', "stroe"),
        ("[worker]\nthreads = 3", "threads"),
        ('[worker]\nprocesses = "two"', "$.worker.processes"),
        ("= nonsense", "line 1"),
    ],
)
def test_what_is_wrong_in_it_is_named(run, tmp_path, text, says) -> None:
    (tmp_path / "perdure.toml").write_text(text)
    result = run("sessions")
    assert result.exit_code == errors.Invalid.exit_code
    assert says in result.stderr
    assert "perdure.toml" in result.stderr


@pytest.mark.parametrize("data", [b"\xff\xfe", b"a" * 100_000])
def test_what_is_no_settings_file_at_all(run, tmp_path, data) -> None:
    (tmp_path / "perdure.toml").write_bytes(data)
    assert run("sessions").exit_code == errors.Invalid.exit_code


@pytest.mark.parametrize("words", [("init", "--force"), ("advise",), ("sessions", "--help"), ("completion", "bash")])
def test_who_needs_no_settings_is_not_kept_from_working_by_a_broken_file(run, tmp_path, words) -> None:
    (tmp_path / "perdure.toml").write_text("= nonsense")
    assert run(*words).exit_code == 0

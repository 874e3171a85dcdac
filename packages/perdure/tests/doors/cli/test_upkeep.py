"""migrate, backup, restore, doctor: over real files."""

from __future__ import annotations

import json

import pytest

from doors.cli.content import tear
from perdure import errors
from perdure_testing.damage import forge_event


def test_nothing_to_migrate(run, ask, url) -> None:
    assert ask("migrate", "--store", url) == {"dry_run": False, "steps": []}
    assert run("migrate", "--dry-run", "--store", url).stderr == "schema 6 is the newest: nothing to do\n"


def test_a_dry_run_of_an_empty_file_names_the_steps_and_makes_nothing(run, ask, tmp_path) -> None:
    (tmp_path / "new.db").touch()
    url = f"sqlite:///{tmp_path}/new.db"
    steps = ask("migrate", "--dry-run", "--store", url)["steps"]
    assert [step["number"] for step in steps] == list(range(1, len(steps) + 1))
    assert "foundation" in run("migrate", "--dry-run", "--store", url).stdout
    assert (tmp_path / "new.db").stat().st_size == 0
    assert ask("migrate", "--store", url)["steps"] == steps
    assert ask("migrate", "--store", url)["steps"] == []


def test_a_backup_comes_back(run, ask, url, tmp_path) -> None:
    made = ask("backup", tmp_path / "b.bak", "--store", url)
    assert made["note"]
    restored = f"sqlite:///{tmp_path}/restored.db"
    back = ask("restore", tmp_path / "b.bak", "--store", restored)
    assert back["epoch"] == made["epoch"] + 1
    assert ask("sessions", "--store", restored) == ask("sessions", "--store", url)
    assert ask("verify", "--store", restored)["ok"]


def test_people_are_told_what_a_backup_is(run, url, tmp_path) -> None:
    result = run("backup", tmp_path / "b.bak", "--store", url)
    assert "consistent copy" in result.stderr
    again = run("restore", tmp_path / "b.bak", "--store", f"sqlite:///{tmp_path}/restored.db")
    assert again.stderr.startswith("restored and verified: ")


def test_nothing_is_overwritten(run, url, tmp_path) -> None:
    assert run("backup", tmp_path / "b.bak", "--store", url).exit_code == 0
    assert run("backup", tmp_path / "b.bak", "--store", url).exit_code == errors.Conflict.exit_code
    assert run("restore", tmp_path / "b.bak", "--store", url).exit_code == errors.Conflict.exit_code


def test_a_forged_backup_is_not_restored(run, url, tmp_path) -> None:
    run("backup", tmp_path / "b.bak", "--store", url)
    forge_event(tmp_path / "b.bak", b"Login fails on Safari", b"Login works on Safari")
    result = run("restore", tmp_path / "b.bak", "--store", f"sqlite:///{tmp_path}/restored.db")
    assert result.exit_code == errors.Damaged.exit_code
    assert not (tmp_path / "restored.db").exists()


@pytest.mark.parametrize("source", ["no.bak", "junk.bak"])
def test_what_is_no_backup_is_refused(run, tmp_path, source) -> None:
    (tmp_path / "junk.bak").write_bytes(b"junk" * 1000)
    result = run("restore", tmp_path / source, "--store", f"sqlite:///{tmp_path}/restored.db")
    assert result.exit_code in (errors.NotFound.exit_code, errors.Invalid.exit_code, errors.Damaged.exit_code)
    assert not (tmp_path / "restored.db").exists()


# -- doctor --------------------------------------------------------------------------------------------------


def test_a_sound_store(run, ask, url) -> None:
    found = ask("doctor", "--store", url)
    assert (found["sound"], found["outgrown"]) == (True, False)
    checks = {finding["check"]: finding["severity"] for finding in found["findings"]}
    assert {
        "sqlite",
        "file",
        "space",
        "schema",
        "journal",
        "structure",
        "guards",
        "heads",
        "contents",
    } <= checks.keys()
    assert set(checks.values()) <= {"ok", "warning"}
    assert "quick_check is clean" in run("doctor", "--store", url).stdout


def test_a_damaged_store_is_a_finding(run, tmp_path) -> None:
    (tmp_path / "x.db").write_bytes(b"not a database" * 500)
    result = run("doctor", "--store", f"sqlite:///{tmp_path}/x.db", "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert [finding["check"] for finding in found["findings"] if finding["severity"] == "error"] == ["open"]


def test_a_damaged_page_is_a_finding_and_the_rest_is_looked_at(run, url, store_path) -> None:
    tear(store_path, b"Login fails on Safari")
    result = run("doctor", "--store", url, "--json")
    assert result.exit_code == 1
    found = {finding["check"]: finding for finding in json.loads(result.stdout)["findings"]}
    assert found["structure"]["severity"] == "error"
    assert found["structure"]["fix"] == f"move the file away, then perdure restore BACKUP --store {url}"
    assert {"guards", "heads", "contents"} <= found.keys()


def test_postgres_end_to_end(run, ask, private_postgres) -> None:
    import perdure

    postgres_url = private_postgres.url(schema="perdure")
    assert run("sessions", "--store", postgres_url).exit_code != 0  # looking makes nothing
    with perdure.open(postgres_url, actor="alice") as store:
        store.session("pg").say("user", "hello")
    assert [item["name"] for item in ask("sessions", "--store", postgres_url)["items"]] == ["pg"]
    assert ask("verify", "--store", postgres_url)["ok"]
    assert ask("doctor", "--store", postgres_url)["sound"]
    assert run("show", "nope", "--store", postgres_url).exit_code == errors.NotFound.exit_code
    assert run("sessions", "--store", postgres_url, "--tenant", "acme").exit_code == errors.NotFound.exit_code

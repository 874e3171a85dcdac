"""`perdure envelope`, `handover` and `adopt`: looking at a run's envelope, and moving the run to another store."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

import perdure
from doors.cli import run_content
from perdure import errors
from perdure.model.records.envelope import Envelope


@pytest.fixture
def name(ask, runs_url) -> str:
    return ask("runs", "--agent", "parent", "--store", runs_url)["items"][0]["id"]


@pytest.fixture
def other(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/other.db"
    perdure.open(url, actor="me").close()
    return url


def test_for_people(run, runs_url, name) -> None:
    text = run("envelope", name, "--store", runs_url).stdout
    assert "Verdict: waits for a person" in text
    assert "children" in text
    assert "0, after event 0 of" in text


def test_for_machines_it_is_the_envelope(run, runs_url, name) -> None:
    found = Envelope.from_json(run("envelope", name, "--json", "--store", runs_url).stdout)
    assert found.run.name == name
    assert not found.sealed


def test_a_run_moves(run, ask, runs_url, other, name, tmp_path) -> None:
    shown = run("handover", name, "moving", "--dry-run", "--store", runs_url)
    assert "a dry run" in shown.stderr
    assert not (tmp_path / "moving").exists()
    assert ask("runs", "--agent", "parent", "--store", runs_url)["items"][0]["status"] == "waiting"
    assert ask("handover", name, "moving", "--store", runs_url)["run"] == name
    assert stat.S_IMODE((tmp_path / "moving" / "envelope.json").stat().st_mode) == 0o600
    assert ask("runs", "--agent", "parent", "--store", runs_url)["items"][0]["reason"] == "moved"
    assert ask("adopt", "moving", "--store", other, "--actor", "bob")["status"] == "ready"
    (asked,) = ask("asks", "--store", other)["items"]
    run("answer", asked["id"], "merge", "--store", other)
    with perdure.open(other, actor="me") as store:
        assert store.drive(run_content.parent, key="parent") == "merge"


def test_it_is_adopted_once(run, runs_url, other, name) -> None:
    run("handover", name, "moving", "--store", runs_url)
    assert run("adopt", "moving", "--store", other).exit_code == 0
    assert run("adopt", "moving", "--store", other).exit_code == errors.Conflict.exit_code


def test_it_is_adopted_by_one_store_alone(run, ask, runs_url, other, name, tmp_path) -> None:
    """Two stores that both drive it would do everything twice. What was refused claims nothing."""
    run("handover", name, "moving", "--store", runs_url)
    third = f"sqlite:///{tmp_path}/third.db"
    perdure.open(third).close()
    path = tmp_path / "moving" / "envelope.json"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"parent"', b'"porent"'))
    assert run("adopt", "moving", "--store", third).exit_code == errors.Damaged.exit_code
    path.write_bytes(whole)
    assert run("adopt", "moving", "--store", other).exit_code == 0
    refused = run("adopt", "moving", "--store", third)
    assert (refused.exit_code, "has adopted this folder" in refused.stderr) == (errors.Conflict.exit_code, True)
    assert ask("runs", "--store", third)["items"] == []


def test_nothing_is_overwritten(run, ask, runs_url, name, tmp_path) -> None:
    (tmp_path / "moving").mkdir()
    assert run("handover", name, "moving", "--store", runs_url).exit_code == errors.Conflict.exit_code
    assert ask("runs", "--agent", "parent", "--store", runs_url)["items"][0]["status"] == "waiting"


def test_a_copy_is_adopted_only_if_its_store_is_lost(run, ask, runs_url, other, name) -> None:
    assert run("envelope", name, "--save", "copy", "--store", runs_url).exit_code == 0
    refused = run("adopt", "copy", "--store", other)
    assert refused.exit_code == errors.Refused.exit_code
    assert "not handed over" in refused.stderr
    assert ask("adopt", "copy", "--lost", "--store", other)["id"] == name


def test_what_is_wrong_with_a_folder(run, ask, runs_url, other, name, tmp_path) -> None:
    run("handover", name, "moving", "--store", runs_url)
    path = tmp_path / "moving" / "envelope.json"
    path.write_bytes(path.read_bytes().replace(b'"parent"', b'"porent"'))
    assert run("adopt", "moving", "--store", other).exit_code == errors.Damaged.exit_code
    path.write_text(json.dumps({"format": "perdure envelope", "version": 2, "digest": "", "envelope": {}}))
    assert run("adopt", "moving", "--store", other).exit_code == errors.Invalid.exit_code
    path.unlink()
    assert run("adopt", "moving", "--store", other).exit_code == errors.NotFound.exit_code
    assert ask("runs", "--store", other)["items"] == []


def test_blobs_go_along(run, ask, runs_url, other, tmp_path) -> None:
    with perdure.open(runs_url, actor="me") as store:
        run_content.drive(store, run_content.asker, "long " * 5_000, key="long")
        name = store.runs(agent="asker")[0].id
    run("handover", name, "moving", "--store", runs_url)
    (blob, *_) = (tmp_path / "moving" / "blobs").iterdir()
    data = blob.read_bytes()
    blob.write_bytes(data + b"x")
    assert run("adopt", "moving", "--store", other).exit_code == errors.Damaged.exit_code
    blob.unlink()
    assert run("adopt", "moving", "--store", other).exit_code == errors.NotFound.exit_code
    blob.write_bytes(data)
    assert ask("adopt", "moving", "--store", other)["args"] == ["long " * 5_000]

"""quarantine: known damage is recorded; verify, move and restore pass, and new damage still shows (P6)."""

from __future__ import annotations

import pytest

from perdure import errors
from perdure_testing.damage import forge_event
from planes.tampering import Intruder

BECAUSE = ("--because", "an older version let it in")


@pytest.fixture
def damaged(url, store_path):
    forge_event(store_path, b"Login fails on Safari", b"Login works on Safari")
    return url


def test_known_damage_no_longer_fails_verify(run, ask, damaged):
    shown = run("quarantine", "issue-42", *BECAUSE, "--store", damaged)
    assert (shown.exit_code, "body-altered" in shown.stdout) == (0, True)
    assert "nothing was changed" in shown.stderr
    assert run("verify", "--store", damaged).exit_code == errors.Damaged.exit_code
    assert run("quarantine", "issue-42", *BECAUSE, "--apply", "--store", damaged).exit_code == 0
    report = ask("verify", "--store", damaged)
    assert (report["ok"], report["problems"]) == (True, [])
    assert [each["kind"] for each in report["quarantined"]] == ["body-altered"]
    assert "in quarantine: body-altered: issue-42" in run("verify", "--store", damaged).stderr
    (event,) = ask("events", "--kind", "store.quarantined", "--store", damaged)["items"]
    assert event["data"]["because"] == BECAUSE[1]


def test_a_store_with_known_damage_is_restored(run, ask, damaged, tmp_path):
    run("quarantine", "issue-42", *BECAUSE, "--apply", "--store", damaged)
    assert run("backup", tmp_path / "kept", "--store", damaged).exit_code == 0
    restored = run("restore", tmp_path / "kept", "--store", f"sqlite:///{tmp_path}/restored.db")
    assert restored.exit_code == 0, restored.output
    assert ask("verify", "--store", f"sqlite:///{tmp_path}/restored.db")["quarantined"]


def test_a_store_with_known_damage_moves(run, ask, url, tmp_path):
    Intruder(url).run("UPDATE streams SET kind = 'scope' WHERE name = 'done'")
    target = f"sqlite:///{tmp_path}/moved.db"
    assert run("move", url, target).exit_code == errors.Damaged.exit_code
    assert run("quarantine", "done", *BECAUSE, "--apply", "--store", url).exit_code == 0
    moved = run("move", url, target)
    assert moved.exit_code == 0, moved.output
    assert ask("verify", "--store", target)["quarantined"]


def test_new_damage_in_the_same_stream_shows(run, ask, damaged):
    run("quarantine", "issue-42", *BECAUSE, "--apply", "--store", damaged)
    Intruder(damaged).run("UPDATE tasks SET title = 'another' WHERE seq = (SELECT min(seq) FROM tasks)")
    shown = run("verify", "--store", damaged)
    assert shown.exit_code == errors.Damaged.exit_code
    assert "row-altered" in shown.stdout
    assert "body-altered" not in shown.stdout


@pytest.mark.parametrize("stream", ["issue-42", "nothing of this name"])
def test_a_sound_stream_is_not_put_into_quarantine(run, url, stream):
    assert run("quarantine", stream, *BECAUSE, "--apply", "--store", url).exit_code == errors.NotFound.exit_code

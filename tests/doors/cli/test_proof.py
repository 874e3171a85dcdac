"""verify and anchor: what they say about a sound store, and that a forged or cut one shows (P6)."""

from __future__ import annotations

import json
import shutil
import stat

import pytest

import perdure
from perdure import errors
from perdure.testing.damage import NotThere, forge_event


def test_a_sound_store(run, ask, url) -> None:
    found = ask("verify", "--store", url)
    assert found["ok"] is True
    assert found["problems"] == []
    assert found["counts"]["events"] > 10
    assert run("verify", "--store", url).stdout.startswith("ok: 2 streams")


def test_a_forged_event_is_named(run, url, store_path) -> None:
    forge_event(store_path, b"Login fails on Safari", b"Login works on Safari")
    result = run("verify", "--store", url, "--json")
    assert result.exit_code == errors.Damaged.exit_code
    (problem,) = json.loads(result.stdout)["problems"]
    assert (problem["kind"], problem["stream"]) == ("body-altered", "issue-42")
    assert problem["seq"] > 1
    shown = run("verify", "--store", url)
    assert shown.exit_code == errors.Damaged.exit_code
    assert "body-altered  issue-42" in shown.stdout
    assert "1 problems: " in shown.stdout


def test_control_a_forger_who_changes_nothing_is_not_accused(run, url, store_path) -> None:
    forge_event(store_path, b"Login fails on Safari", b"Login fails on Safari")
    assert run("verify", "--store", url).exit_code == 0


def test_a_forger_needs_something_to_forge(store_path) -> None:
    with pytest.raises(NotThere):
        forge_event(store_path, b"nobody said this", b"nobody said that")


# -- anchors -------------------------------------------------------------------------------------------------


@pytest.fixture
def key(run, url, tmp_path):
    path = tmp_path / "anchor.key"
    assert run("anchor", "--new-key", path, "--store", url).exit_code == 0
    return path


def test_keys_are_secret_and_never_replaced(run, key, url) -> None:
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    before = key.read_bytes()
    assert run("anchor", "--new-key", key, "--store", url).exit_code == errors.Conflict.exit_code
    assert key.read_bytes() == before


def test_an_anchor_is_made_and_holds(run, ask, key, url, tmp_path) -> None:
    made = ask("anchor", "--key", key, "-o", tmp_path / "a.json", "--store", url)
    assert made["heads"] >= 2
    words = ("--anchor", tmp_path / "a.json", "--public-key", f"{key}.pub", "--store", url)
    assert ask("verify", *words)["signature"] == "good"
    assert "signature: good" in run("verify", *words).stdout


def test_an_anchor_goes_to_stdout(run, key, url) -> None:
    assert json.loads(run("anchor", "--key", key, "-o", "-", "--store", url).stdout)["format"] == 1


def test_the_anchor_names_its_actor(run, ask, key, url, tmp_path) -> None:
    run("anchor", "--key", key, "-o", tmp_path / "a.json", "--store", url, "--actor", "auditor")
    found = ask("events", "--kind", "store.anchored", "--store", url)["items"]
    assert [event["actor"] for event in found] == ["auditor"]


def test_a_cut_tail_shows_against_an_anchor(run, key, url, store_path, tmp_path) -> None:
    shutil.copy(store_path, tmp_path / "before.db")
    with perdure.open(url, actor="alice") as store:
        store.session("issue-42").say("user", "this will be cut off")
    assert run("anchor", "--key", key, "-o", tmp_path / "a.json", "--store", url).exit_code == 0
    old = f"sqlite:///{tmp_path}/before.db"
    result = run("verify", "--anchor", tmp_path / "a.json", "--public-key", f"{key}.pub", "--store", old)
    assert result.exit_code == errors.Damaged.exit_code
    assert "tail-cut" in result.stdout
    assert run("verify", "--store", old).exit_code == 0  # and without the anchor nobody could know


@pytest.mark.parametrize(
    "words",
    [
        ("anchor",),
        ("anchor", "-o", "a.json"),
        ("verify", "--public-key", __file__),
        ("verify", "--anchor", "no.json"),
    ],
)
def test_wrong_arguments(run, url, words) -> None:
    assert run(*words, "--store", url).exit_code == 2


def test_what_is_no_anchor_is_refused(run, url, tmp_path) -> None:
    (tmp_path / "a.json").write_text("{}")
    assert run("verify", "--anchor", tmp_path / "a.json", "--store", url).exit_code == errors.Invalid.exit_code


def test_what_is_no_key_is_refused(run, url, tmp_path) -> None:
    (tmp_path / "k").write_text("not a key")
    result = run("anchor", "--key", tmp_path / "k", "-o", "-", "--store", url)
    assert result.exit_code == errors.Invalid.exit_code
    assert "private_key" in result.stderr

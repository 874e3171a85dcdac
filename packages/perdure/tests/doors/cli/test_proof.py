"""verify and anchor: what they say about a sound store, and that a forged or cut one shows (P6)."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import stat

import apsw
import pytest

import perdure
from doors.cli.content import on_a_terminal, tear
from perdure import errors
from perdure.stores.core import open_core
from perdure_testing.damage import NotThere, forge_event


def test_a_sound_store(run, ask, url) -> None:
    found = ask("verify", "--store", url)
    assert found["ok"] is True
    assert found["problems"] == []
    assert found["counts"]["events"] > 10
    counts = {name: found["counts"][name] for name in ("events", "rows", "blobs")}
    said = f"ok: 3 streams, {counts['events']} events, {counts['rows']} rows, {counts['blobs']} blobs\n"
    assert run("verify", "--store", url).stdout == said


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
    assert "1 problem: " in shown.stdout


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
    assert run("anchor", "--new-key", "", "--store", url).exit_code == errors.Conflict.exit_code
    assert key.read_bytes() == before


@pytest.mark.parametrize("words", [["-o", "anchor.json"], ["--unsigned"]])
def test_a_new_key_is_no_anchor_and_says_so(run, url, tmp_path, words) -> None:
    result = run("anchor", "--new-key", tmp_path / "a.key", *words, "--store", url)
    assert result.exit_code == 2
    assert "--new-key makes a key and no anchor" in result.stderr
    assert not (tmp_path / "a.key").exists()


def test_an_anchor_is_made_and_holds(run, ask, key, url, tmp_path) -> None:
    made = ask("anchor", "--key", key, "-o", tmp_path / "a.json", "--store", url)
    assert made["heads"] >= 2
    words = ("--anchor", tmp_path / "a.json", "--public-key", f"{key}.pub", "--store", url)
    assert ask("verify", *words)["signature"] == "good"
    assert run("verify", *words).stdout.endswith("; the anchor's signature is good\n")


def test_a_signature_that_nobody_checks_is_said(run, key, url, tmp_path) -> None:
    unsigned = ("anchor", "--unsigned", "-o", tmp_path / "u.json", "--store", url)
    assert run(*unsigned).exit_code == 0
    assert run("anchor", "--key", key, "-o", tmp_path / "a.json", "--store", url).exit_code == 0
    shown = run("verify", "--anchor", tmp_path / "a.json", "--store", url).stdout
    assert shown.startswith("ok: ")
    assert shown.endswith("; the anchor's signature was NOT checked (give --public-key)\n")
    assert "; the anchor is NOT signed" in run("verify", "--anchor", tmp_path / "u.json", "--store", url).stdout


def test_an_anchor_is_never_overwritten(run, ask, key, url, tmp_path) -> None:
    (tmp_path / "a.json").write_text("precious")
    result = run("anchor", "--key", key, "-o", tmp_path / "a.json", "--store", url)
    assert result.exit_code == errors.Conflict.exit_code
    assert f"output: {tmp_path}/a.json exists already" in result.stderr
    assert (tmp_path / "a.json").read_text() == "precious"
    assert ask("events", "--kind", "store.anchored", "--store", url)["items"] == []  # and nothing was recorded


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
    expected = "not an Ed25519 private key in PEM form (perdure anchor --new-key FILE makes one)"
    assert result.stderr == f"perdure: private-key: {expected}\n"


def test_a_key_of_another_kind_is_refused(run, key, url, tmp_path) -> None:
    assert run("anchor", "--key", key, "-o", tmp_path / "a.json", "--store", url).exit_code == 0
    result = run("anchor", "--key", f"{key}.pub", "-o", "-", "--store", url)
    assert "not an Ed25519 private key in PEM form" in result.stderr
    result = run("verify", "--anchor", tmp_path / "a.json", "--public-key", key, "--store", url)
    assert result.exit_code == errors.Invalid.exit_code
    assert "not an Ed25519 public key in PEM form" in result.stderr


# -- a damaged page ------------------------------------------------------------------------------------------


@pytest.fixture
def torn_path(tmp_path):
    """A store in which a page in the middle of the events of `long` cannot be read."""
    path = tmp_path / "torn.db"
    with perdure.open(f"sqlite:///{path}") as store:
        store.session("fine").say("user", "x")
        for number in range(200):
            store.session("long").say("user", f"turn {number:03} {'x' * 300}")
    tear(path, b"turn 100 ")
    return path


def test_a_damaged_page_names_the_stream_and_the_last_good_event(run, torn_path) -> None:
    url = f"sqlite:///{torn_path}"
    result = run("verify", "--store", url, "--json")
    assert result.exit_code == errors.Damaged.exit_code
    found = json.loads(result.stdout)
    (problem,) = [it for it in found["problems"] if it["kind"] == "database-damaged" and it["seq"]]
    assert problem["stream"] == "long"
    assert problem["uid"]
    assert 50 < problem["seq"] <= 102  # the pages before the torn one are good, and turn 100 is on it
    assert f"the last good event is {problem['seq'] - 1} of 201" in problem["message"]
    assert found["counts"]["streams"] == 2  # and the others were looked at: `fine`, and the directory
    with perdure.open(url, read_only=True) as store:
        good = store.session("long").events(limit=problem["seq"] - 1)
        assert good[-1].seq == problem["seq"] - 1
        with pytest.raises(errors.Damaged):
            store.session("long").events(after=problem["seq"] - 1, limit=1)


def test_a_text_that_is_none_any_more_is_named_and_the_rest_is_looked_at(run, tmp_path) -> None:
    """SQLite gives any bytes for a text: one flipped bit in a name was told as a bug, and nothing was verified."""
    path = tmp_path / "flipped.db"
    with perdure.open(f"sqlite:///{path}") as store:
        for name in ("fine", "flipped"):
            store.session(name).say("user", "x")
    with contextlib.closing(apsw.Connection(str(path))) as raw:
        raw.execute("UPDATE streams SET name = CAST(x'66ff' AS TEXT) WHERE name = 'flipped'")
    result = run("verify", "--store", f"sqlite:///{path}", "--json")
    assert result.exit_code == errors.Damaged.exit_code
    found = json.loads(result.stdout)
    assert {problem["kind"] for problem in found["problems"]} == {"database-damaged"}
    assert "no UTF-8" in found["problems"][0]["message"]
    assert found["counts"]["streams"] == 2  # `fine`, and the directory


def test_what_verify_found_is_never_shortened(run, torn_path) -> None:
    words = ("verify", "--store", f"sqlite:///{torn_path}")
    for problem in json.loads(run(*words, "--json").stdout)["problems"]:
        assert problem["message"] in run(*words).stdout
        drawn = on_a_terminal(*words, columns=80, exit_code=errors.Damaged.exit_code)
        assert "…" not in drawn
        whole = "".join(re.sub(r"\x1b\[[0-9;]*m", "", drawn).split())  # a long path is cut at the end of a line
        assert "".join(problem["message"].split()) in whole


def test_an_anchor_makes_no_tenant(run, ask, tmp_path) -> None:
    url = f"sqlite:///{tmp_path}/acme.db"
    with perdure.open(url, tenant="acme") as store:
        store.session("a").say("user", "x")
    made = ask("anchor", "--unsigned", "-o", tmp_path / "a.json", "--store", url)
    assert made["heads"] == 3  # the session, the directory of its tenant, and the stream of the store
    with pytest.raises(errors.NotFound, match="no tenant 'default'"):
        perdure.open(url, read_only=True)
    assert ask("verify", "--anchor", tmp_path / "a.json", "--store", url)["ok"]


def test_a_store_without_anything_has_nothing_to_anchor(run, tmp_path) -> None:
    url = f"sqlite:///{tmp_path}/new.db"
    open_core(url).close()
    result = run("anchor", "--unsigned", "-o", tmp_path / "a.json", "--store", url)
    assert result.exit_code == errors.NotFound.exit_code
    assert not (tmp_path / "a.json").exists()


@pytest.mark.parametrize("words", [(), ("--execute",)])
def test_nor_does_a_collection(run, url, words) -> None:
    result = run("collect", *words, "--store", url, "--tenant", "typo")
    assert result.exit_code == errors.NotFound.exit_code
    with pytest.raises(errors.NotFound):
        perdure.open(url, tenant="typo", read_only=True)
    assert run("collect", *words, "--store", url).exit_code == 0  # the control

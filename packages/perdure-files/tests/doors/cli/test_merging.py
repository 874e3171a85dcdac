"""`perdure merge`, and what `verify` and `doctor` say of a damaged log."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

import perdure
from perdure import errors


@pytest.fixture
def folder(tmp_path):
    with perdure.open(f"files:///{tmp_path}/state") as store:
        store.session("a").say("user", "first")
    shutil.copytree(tmp_path / "state", tmp_path / "theirs", ignore=shutil.ignore_patterns(".perdure"))
    for name in ("state", "theirs"):
        with perdure.open(f"files:///{tmp_path}/{name}") as store:
            store.session("a").say("user", name)
            store.session(name).say("user", name)
    return tmp_path / "state"


def test_a_clone_is_merged_and_what_parted_is_shown(run, ask, folder):
    url = f"files:///{folder}"
    said = run("merge", folder.parent / "theirs", "--name", "ann", "--store", url)
    assert said.exit_code == 0
    assert "a@ann" in said.stdout
    assert "came over as they were" in said.stderr
    again = ask("merge", folder.parent / "theirs", "--name", "ann", "--store", url)
    assert (again["added"], again["forked"]) == (0, [])
    assert {each["name"] for each in ask("sessions", "--store", url)["items"]} == {"a", "a@ann", "state", "theirs"}


def test_what_cannot_be_merged_is_an_error(run, url, folder):
    assert run("merge", "x", "--store", url).exit_code == errors.Refused.exit_code
    assert run("merge", "nowhere", "--store", f"files:///{folder}").exit_code == errors.NotFound.exit_code
    assert run("merge", "--store", f"files:///{folder}").exit_code == errors.Invalid.exit_code


def test_a_damaged_log_is_told_by_verify_and_doctor(run, folder):
    log = folder / "log" / "000001.jsonl"
    lines = log.read_bytes().splitlines()
    lines[3] = lines[3][:100]
    log.write_bytes(b"\r\n".join(lines))
    shutil.rmtree(folder / ".perdure")
    url = f"files:///{folder}"
    told = run("verify", "--store", url)
    assert told.exit_code == errors.Damaged.exit_code
    assert "set-aside" in told.stdout
    assert "byte" in told.stdout
    findings = json.loads(run("doctor", "--store", url, "--json").stdout)["findings"]
    found = [each for each in findings if each["check"] == "log"]
    assert {each["severity"] for each in found} == {"error", "warning"}


def test_the_doctor_says_that_a_merge_is_not_finished(run, folder):
    url, log = f"files:///{folder}", folder / "log" / "000001.jsonl"
    ours = log.read_bytes().splitlines(keepends=True)
    theirs = (folder.parent / "theirs" / "log" / "000001.jsonl").read_bytes().splitlines(keepends=True)
    shared = sum(one == other for one, other in zip(ours, theirs, strict=False))
    conflict = [b"<<<<<<< HEAD\n", *ours[shared:], b"=======\n", *theirs[shared:], b">>>>>>> theirs\n"]
    log.write_bytes(b"".join([*ours[:shared], *conflict]))
    assert {fix for fix in fixes(run, url) if fix} == {f"perdure merge --store {url}"}
    assert run("merge", "--store", url).exit_code == 0
    assert fixes(run, url) == {""}


def fixes(run, url) -> set[str]:
    findings = json.loads(run("doctor", "--store", url, "--json").stdout)["findings"]
    return {each["fix"] for each in findings if each["check"] == "log"}


@pytest.mark.parametrize("command", ["doctor", "migrate"])
def test_a_clone_that_nobody_opened_is_looked_at_by_a_process_of_its_own(folder, command):
    """Nothing but the command itself has loaded what a log is folded into."""
    shutil.rmtree(folder / ".perdure")
    words = [sys.executable, "-m", "perdure", command, "--store", f"files:///{folder}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

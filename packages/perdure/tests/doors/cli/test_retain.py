"""retain: a dry run first, rules as options and as a policy."""

from __future__ import annotations

import json

import pytest

import perdure
from perdure import errors


@pytest.fixture
def grown_url(url) -> str:
    with perdure.open(url, actor="alice") as store:
        session = store.session("issue-42")
        session.result("c1", {"hits": 3})
        for n in range(4):
            session.say("user", f"question {n}")
            last = session.say("assistant", f"answer {n}")
            session.checkpoint({"n": n})
        session.summarise(upto=last.seq, text="four questions")
    return url


def test_a_dry_run_by_default(run, ask, grown_url) -> None:
    before = ask("show", "issue-42", "--store", grown_url)
    shown = run("retain", "--checkpoints", "1", "--turns", "0", "--store", grown_url)
    assert "session  issue-42  4            8" in shown.stdout
    assert "would be removed: 4 checkpoints, 8 turns, " in shown.stderr
    assert "--apply" in shown.stderr
    assert ask("show", "issue-42", "--store", grown_url) == before


def test_applied_it_goes_and_verifies(run, ask, grown_url) -> None:
    would = ask("retain", "--checkpoints", "1", "--turns", "0", "--store", grown_url)
    assert (would["checkpoints"], would["turns"], would["dry_run"]) == (4, 8, True)
    gone = ask("retain", "--checkpoints", "1", "--turns", "0", "--apply", "--store", grown_url)
    assert gone == would | {"dry_run": False}
    report = ask("verify", "--store", grown_url)
    assert (report["ok"], len(report["unverifiable"])) == (True, 12)
    again = run("retain", "--checkpoints", "1", "--turns", "0", "--apply", "--store", grown_url)
    assert again.stderr == "nothing to remove\n"
    assert ask("events", "--kind", "log.pruned", "--store", grown_url)["items"][0]["actor"]


def test_a_past_that_lacks_turns_says_so(run, ask, grown_url) -> None:
    assert ask("show", "issue-42", "--at", "20", "--store", grown_url)["lacks"] is None
    run("retain", "--turns", "0", "--apply", "--store", grown_url)
    assert "were pruned since" in ask("show", "issue-42", "--at", "20", "--store", grown_url)["lacks"]
    assert "were pruned since" in run("show", "issue-42", "--at", "20", "--store", grown_url).stderr
    assert "lacks" not in ask("show", "issue-42", "--store", grown_url)
    run("fork", "issue-42", "--at", "20", "--name", "since", "--store", grown_url)
    fork = ask("show", "since", "--store", grown_url)
    assert "were pruned since" in fork["lacks"]
    assert fork["pending"] is None


def test_a_policy(run, ask, grown_url, tmp_path) -> None:
    (tmp_path / "keep.toml").write_text(
        '[[rule]]\nlabel = "old"\ncheckpoints = 1\n\n[[rule]]\nturns = 4\nlarger_than = "1KiB"\nexcept_label = "hold"\n'
    )
    would = ask("retain", "--policy", tmp_path / "keep.toml", "--store", grown_url)
    assert (would["checkpoints"], would["turns"]) == (0, 6)
    assert ask("retain", "--turns", "0", "--older-than", "1d", "--store", grown_url)["streams"] == []
    assert ask("retain", "--turns", "0", "--larger-than", "1 GiB", "--store", grown_url)["streams"] == []


@pytest.mark.parametrize(
    "policy",
    ["", "rule = 1", "[[rule]]", "[[rule]]\nturns = 'x'", "[[rule]]\nturns = 0\nmore = 1", "x = 1\n[[rule]]\nturns = 0",
     "[[rule]]\nturns = 0\nlarger_than = 'big'", "[[rule]]\nturns = 0\nolder_than = 'soon'", "\x00", "[rule]\nturns=0"],
)  # fmt: skip
def test_a_policy_that_is_none_changes_nothing(run, grown_url, tmp_path, policy) -> None:
    (tmp_path / "keep.toml").write_text(policy)
    result = run("retain", "--policy", tmp_path / "keep.toml", "--apply", "--json", "--store", grown_url)
    assert result.exit_code == errors.Invalid.exit_code
    assert json.loads(result.stderr)["path"].startswith(("policy", "rule"))


def test_rules_are_asked_for(run, grown_url, tmp_path) -> None:
    assert run("retain", "--store", grown_url).exit_code == 2
    assert run("retain", "--label", "x", "--store", grown_url).exit_code == errors.Invalid.exit_code
    (tmp_path / "keep.toml").write_text("[[rule]]\nturns = 0\n")
    assert run("retain", "--turns", "1", "--policy", tmp_path / "keep.toml", "--store", grown_url).exit_code == 2

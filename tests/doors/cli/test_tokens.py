"""perdure token and perdure tenant: a store without tokens has none to list, and --json is JSON for every action."""

from __future__ import annotations

import json

import pytest


def test_a_store_without_tokens_lists_none(run, ask, url) -> None:
    listed = run("token", "list", "--store", url)
    assert (listed.exit_code, listed.stdout) == (0, "")
    assert "no tokens" in listed.stderr
    assert ask("token", "list", "--store", url) == {"tokens": []}
    made = ask("token", "create", "--store", url)  # the control
    assert [each["id"] for each in ask("token", "list", "--store", url)["tokens"]] == [made["record"]["id"]]


@pytest.mark.parametrize("words", [("tenant", "create", "--tenant", "acme"), ("token", "revoke")])
def test_what_writes_says_it_as_json_too(run, ask, url, words) -> None:
    if words[-1] == "revoke":
        words = (*words, ask("token", "create", "--store", url)["record"]["id"])
    said = run(*words, "--store", url, "--json")
    assert said.exit_code == 0
    assert json.loads(said.stdout) == {words[0]: words[-1]}

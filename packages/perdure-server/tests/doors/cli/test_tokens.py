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


IN_NO_STORE = (
    ("token", "create"), ("token", "list"), ("token", "revoke", "3eaa702685e3"),
    ("tenant", "create"), ("tenant", "show"), ("tenant", "limit", "--runs", "3"),
)  # fmt: skip


@pytest.mark.parametrize("words", IN_NO_STORE)
@pytest.mark.parametrize("name", ["mispelt.db", "tenants/{tenant}.db"])
def test_a_store_that_is_not_there_is_not_made(run, tmp_path, name, words) -> None:
    said = run(*words, "--store", f"sqlite:///{tmp_path}/{name}")
    assert said.exit_code == 3
    assert f"there is no store at {tmp_path}" in said.stderr
    assert "perdure init" in said.stderr
    assert [*tmp_path.iterdir()] == []


def test_a_schema_that_is_not_there_is_not_made(run, postgres_store) -> None:
    said = run("token", "create", "--store", f"{postgres_store}_misspelt")
    assert said.exit_code == 3
    assert "there is no store yet at" in said.stderr
    assert "create --new" in said.stderr
    assert run("sessions", "--store", f"{postgres_store}_misspelt").exit_code == 3


@pytest.mark.parametrize("command", ["token", "tenant"])
@pytest.mark.parametrize("name", ["a.db", "{tenant}.db"])
def test_a_user_who_says_so_gets_a_store(run, tmp_path, command, name) -> None:
    url = f"sqlite:///{tmp_path}/{name}"
    assert run(command, "create", "--new", "--store", url).exit_code == 0
    for tenant in ("default", "acme"):  # the second one in a store that is there
        if tenant == "acme":
            assert run("tenant", "create", "--store", url, "--tenant", tenant).exit_code == 0
        made = run("token", "create", "--store", url, "--tenant", tenant, "--json")
        assert json.loads(made.stdout)["record"]["tenant"] == tenant


@pytest.mark.parametrize("name", ["a.db", "{tenant}.db"])
def test_a_misspelt_tenant_gets_no_token(run, ask, tmp_path, name) -> None:
    url = f"sqlite:///{tmp_path}/{name}"
    ask("token", "create", "--new", "--store", url, "--tenant", "acme")
    said = run("token", "create", "--store", url, "--tenant", "acmee")
    assert said.exit_code == 3
    assert "no tenant 'acmee'" in said.stderr
    assert "perdure tenant create --tenant acmee" in said.stderr
    assert run("sessions", "--store", url, "--tenant", "acmee").exit_code == 3  # it was not made
    assert [each["tenant"] for each in ask("token", "list", "--all", "--store", url)["tokens"]] == ["acme"]
    assert run("tenant", "create", "--store", url, "--tenant", "acmee").exit_code == 0  # the way out
    assert run("token", "create", "--store", url, "--tenant", "acmee").exit_code == 0


@pytest.mark.parametrize("words", [("limit", "--runs", "3"), ("limit", "--none"), ("show",)])
@pytest.mark.parametrize("name", ["a.db", "{tenant}.db"])
def test_a_misspelt_tenant_has_no_limits(run, ask, tmp_path, name, words) -> None:
    url = f"sqlite:///{tmp_path}/{name}"
    ask("token", "create", "--new", "--store", url, "--tenant", "acme")
    said = run("tenant", *words, "--store", url, "--tenant", "acmee")
    assert (said.exit_code, said.stdout) == (3, "")
    assert "no tenant 'acmee'" in said.stderr
    assert "perdure tenant create --tenant acmee" in said.stderr
    assert run("tenant", *words, "--store", url, "--tenant", "acme").exit_code == 0  # the control
    assert run("tenant", "create", "--store", url, "--tenant", "acmee").exit_code == 0  # the way out
    assert (
        ask("tenant", "show", "--store", url, "--tenant", "acmee")["limits"]["runs"] is None
    )  # nothing was set before
    assert run("tenant", *words, "--store", url, "--tenant", "acmee").exit_code == 0


def test_a_misspelt_tenant_on_a_server_gets_no_token(run, postgres_store) -> None:
    said = run("token", "create", "--store", postgres_store, "--tenant", "acmee")
    assert (said.exit_code, "no tenant 'acmee'" in said.stderr) == (3, True)


@pytest.mark.parametrize("name", ["a.db", "{tenant}.db"])
def test_the_default_tenant_needs_no_making(run, ask, tmp_path, name) -> None:
    url = f"sqlite:///{tmp_path}/{name}"
    ask("token", "create", "--new", "--store", url, "--tenant", "acme")
    assert run("token", "create", "--store", url).exit_code == 0

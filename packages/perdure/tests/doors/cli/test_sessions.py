"""`perdure rename`, `archive` and `delete`: a session keeps its name, and what is over can leave the listings (P15)."""

from __future__ import annotations

import pytest

import perdure
from perdure import errors


@pytest.fixture
def own(tmp_path) -> str:
    url = f"sqlite:///{tmp_path}/own.db"
    with perdure.open(url, actor="me") as store:
        for name in ("open", "over"):
            session = store.session(name)
            session.say("user", "secret")
            session.emit("deploy.begun", {"n": 1})
        session.close()
    return url


def names(ask, url: str, *words: str) -> list[str]:
    return [each["name"] for each in ask("sessions", *words, "--store", url)["items"]]


def test_rename_changes_the_title_and_not_the_name(ask, run, own) -> None:
    assert ask("rename", "over", "Login fails", "--store", own)["title"] == "Login fails"
    assert names(ask, own) == ["over", "open"]
    assert "Login fails" in run("rename", "over", "Login fails", "--store", own).stdout
    assert run("rename", "nobody", "x", "--store", own).exit_code == errors.NotFound.exit_code


def test_archive_leaves_it_out_and_back_again(ask, run, own) -> None:
    refused = run("archive", "open", "--store", own)
    assert (refused.exit_code, "perdure close" in refused.stderr) == (errors.Conflict.exit_code, True)
    assert ask("archive", "over", "--store", own)["archived_at"]
    assert (names(ask, own), names(ask, own, "--archived")) == (["open"], ["over", "open"])
    assert ask("archive", "over", "--undo", "--store", own)["archived_at"] is None
    assert names(ask, own) == ["over", "open"]


def test_close_ends_a_session_once_and_it_can_be_archived_then(ask, run, own) -> None:
    assert ask("close", "open", "--store", own)["status"] == "completed"
    assert ask("close", "open", "completed", "--store", own)["status"] == "completed"
    assert run("close", "open", "failed", "--store", own).exit_code == errors.Conflict.exit_code
    assert ask("archive", "open", "--store", own)["archived_at"]
    assert ask("archive", "open", "--undo", "--store", own)["archived_at"] is None
    assert ask("close", "open", "--undo", "--store", own)["status"] == "active"
    assert ask("close", "open", "failed", "--store", own)["status"] == "failed"
    assert run("close", "nobody", "--store", own).exit_code == errors.NotFound.exit_code
    assert run("close", "open", "done", "--store", own).exit_code == errors.Invalid.exit_code


def test_delete_is_a_dry_run_unless_told(ask, run, own) -> None:
    assert run("delete", "open", "--apply", "--store", own).exit_code == errors.Conflict.exit_code
    dry = run("delete", "over", "--store", own)
    assert "A dry run; --apply removes it" in dry.stderr
    assert names(ask, own) == ["over", "open"]
    gone = ask("delete", "over", "--apply", "--store", own)
    assert [(each["name"], len(each["turns"]), len(each["events"])) for each in gone["streams"]] == [("over", 1, 1)]
    assert names(ask, own) == ["open"]
    with perdure.open(own) as store:
        assert store.session("over").turns() == []
        assert store.verify().ok

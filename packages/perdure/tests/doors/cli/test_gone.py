"""`perdure gone`: a person says that a sender will never come back; nothing is changed without --apply (P4)."""

from __future__ import annotations

import pytest

import perdure
from perdure import errors


@pytest.fixture
def sending(tmp_path):
    """A store whose process is in the middle of a call, and the URL of that store."""
    url = f"sqlite:///{tmp_path}/a.db"
    with perdure.open(url, actor="me") as store:
        store.session("s").begin("send", key="k").dispatch()
        yield store, url


def test_it_says_what_would_be_settled_and_changes_nothing_unless_told(ask, run, sending) -> None:
    store, url = sending
    holder = store.effects()[0].record.holder
    assert run("gone", "nobody-here", "--store", url).exit_code == errors.NotFound.exit_code
    alive = run("gone", holder, "--apply", "--store", url)
    assert alive.exit_code == errors.Conflict.exit_code  # its process lives, and says so
    told = run("gone", holder, "--force", "--store", url)
    assert (told.exit_code, "nothing was changed: --apply does it" in told.stderr) == (0, True)
    assert store.effects()[0].record.state == "dispatched"
    done = ask("gone", holder, "--apply", "--force", "--store", url)
    assert (done["applied"], [each["tool"] for each in done["effects"]]) == (True, ["send"])
    record = store.effects()[0].record
    assert (record.state, record.quiet_at is None) == ("in_doubt", False)

"""What a tool raises is judged by what it says itself; and what is known of its attempts is kept together (P3, P4)."""

from __future__ import annotations

import apsw
import pytest

import perdure
from perdure.effects import judging
from perdure.effects.judging import is_own_word


@pytest.fixture
def url(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/a.db"


def charged(tmp_path, url: str, *, sends: bool = True) -> list[str]:
    """What was sent by an unsafe tool that notes in another store what it did, while that one is busy."""
    sent: list[str] = []
    with perdure.open(f"sqlite:///{tmp_path}/notes.db", timeout=0.05) as notes, perdure.open(url) as store:
        session = notes.session("charges")

        @perdure.tool(retries=2, backoff=0.01)
        def charge() -> None:
            if sends:
                sent.append("charge")
                session.say("user", "charged")
            raise perdure.Unavailable("no connection")

        @perdure.agent(name="charger")
        def charger(run: perdure.Run) -> None:
            run.act(charge)

        busy = apsw.Connection(f"{tmp_path}/notes.db")
        busy.execute("BEGIN IMMEDIATE")
        try:
            store.drive(charger, key="k")
        finally:
            busy.execute("ROLLBACK")
            busy.close()
    return sent


def test_a_store_that_is_away_in_a_tool_says_nothing_about_what_the_tool_sent(tmp_path, url):
    with pytest.raises(perdure.Waiting, match="not known whether charge happened"):
        charged(tmp_path, url)


def test_control_taken_for_the_word_of_the_tool_it_is_sent_again_and_again(tmp_path, url, monkeypatch):
    monkeypatch.setattr(judging, "is_own_word", lambda _: True)
    with pytest.raises(perdure.Failed):
        charged(tmp_path, url)


def test_what_the_tool_says_itself_counts(tmp_path, url):
    with pytest.raises(perdure.Failed, match="no connection"):
        charged(tmp_path, url, sends=False)


def test_whose_word_an_error_is(url):
    with perdure.open(url) as store, pytest.raises(perdure.NotFound) as stores:
        store.run("nope")
    assert not is_own_word(stores.value)
    try:
        raise perdure.Unavailable("not now") from stores.value
    except perdure.Unavailable as own:
        assert is_own_word(own)
    assert is_own_word(perdure.Failed("never raised"))

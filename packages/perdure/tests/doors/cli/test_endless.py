"""Files without an end and rows that lead to themselves: every command ends, in bounded memory (P10, P15)."""

from __future__ import annotations

import json
import os
import threading

import pytest

import perdure
from perdure import errors
from perdure.cli import given
from perdure.interchange import bundle
from planes.tampering import Intruder

ENDLESS = [
    ("verify", "--anchor", "{}"), ("verify", "--anchor", "{}", "--public-key", "{}"), ("anchor", "--key", "{}"),
    ("retain", "--policy", "{}"), ("adopt", "{}"), ("apply", "{}"), ("import", "{}"), ("restore", "{}"),
]  # fmt: skip


@pytest.mark.parametrize("words", ENDLESS, ids=" ".join)
def test_a_device_that_never_ends_is_refused(run, url, words, monkeypatch):
    monkeypatch.setattr(given, "GIVEN_MAX_BYTES", 1024**2)
    shown = run(*(word.format("/dev/zero") for word in words), "--store", url)
    assert shown.exit_code not in (0, 1), shown.output
    assert "MemoryError" not in shown.output


@pytest.mark.parametrize("words", [("apply",), ("import",), ("restore",)])
def test_a_pipe_that_nobody_fills_is_refused(run, url, tmp_path, words):
    os.mkfifo(tmp_path / "pipe.md")
    assert run(*words, tmp_path / "pipe.md", "--store", url).exit_code not in (0, 1)


def test_a_bundle_of_too_many_members_is_refused(url, tmp_path, monkeypatch):
    with perdure.open(url) as store:
        store.export(tmp_path / "a.bundle", sessions=["issue-42"])
    monkeypatch.setattr(bundle, "MEMBERS_MAX", 1)
    with perdure.open("memory:") as store, pytest.raises(errors.Invalid, match="too many members"):
        store.import_(tmp_path / "a.bundle")


def test_a_view_as_deep_as_it_is_long_is_refused(run, url, tmp_path):
    for ending, text in ((".json", "[" * 100_000), (".jsonl", json.dumps({"type": "user"}) + "\n" + '{"a":' * 100_000)):
        (tmp_path / f"deep{ending}").write_text(text)
        assert run("import", tmp_path / f"deep{ending}", "--store", url).exit_code != 1


def within(seconds, work):
    """What the work gives; a failure, and no hanging test, if it does not end."""
    told: list[object] = []

    def tell():
        try:
            told.append(work())
        except errors.Error as error:
            told.append(error)

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    thread.join(seconds)
    assert told, "it does not end"
    return told[0]


COVERS = [
    "first_seq = 9, last_seq = 3",
    "first_seq = 0",
    "first_seq = -5, last_seq = 4",
    "first_seq = last_seq",
    "last_seq = 99",
]


@pytest.mark.parametrize("range_", COVERS)
def test_covers_that_lead_to_themselves_end(tmp_path, range_):
    url = f"sqlite:///{tmp_path}/covers.db"
    with perdure.open(url) as store:
        session = store.session("main")
        turns = [session.say("user", f"turn {number}") for number in range(6)]
        session.summarise(turns[2].seq, "three turns")
        session.summarise(turns[4].seq, "two turns", from_=turns[3].seq)
    Intruder(url).run(f"UPDATE covers SET {range_}")
    with perdure.open(url, read_only=True) as store:
        for verb in ("covers", "transcript"):
            found = within(30, getattr(store.session("main"), verb))
            assert isinstance(found, errors.Damaged) or found is not None


def test_a_call_that_no_turn_made_ends_no_transcript_in_a_loop(tmp_path):
    url = f"sqlite:///{tmp_path}/calls.db"
    with perdure.open(url) as store:
        session = store.session("main")
        session.say("assistant", "look", calls=[perdure.Call("c1", "find")])
        session.set("between", 1)
        session.set("between", 2)
        session.result("c1", "found")
    seq = Intruder(url).one("SELECT seq FROM calls")
    Intruder(url).run("UPDATE calls SET seq = ?", seq + 1)
    with perdure.open(url, read_only=True) as store:
        found = within(30, lambda: store.session("main").transcript(last=1))
        assert found == []  # a result without its call is not shown
        assert {each.table for each in store.verify().problems} == {"calls"}

"""A row that cannot be read is marked in its listing, and the others are shown (P15)."""

from __future__ import annotations

import pytest

import perdure
from perdure import errors
from planes.tampering import Intruder

HARM = {
    "sessions": "UPDATE sessions SET {} WHERE stream = (SELECT min(stream) FROM sessions)",
    "tasks": "UPDATE tasks SET {} WHERE seq = (SELECT min(seq) FROM tasks)",
    "decisions": "UPDATE decisions SET {} WHERE seq = (SELECT min(seq) FROM decisions)",
    "runs": "UPDATE runs SET {} WHERE stream = (SELECT min(stream) FROM runs)",
    "effects": "UPDATE effects SET {} WHERE seq = (SELECT min(seq) FROM effects)",
    "events": "UPDATE events SET {} WHERE pos = (SELECT max(pos) FROM events WHERE body IS NOT NULL)",
}
COLUMNS = {
    "sessions": ("status = 'hurt'", "labels = '{'", "labels = '[1]'"),
    "tasks": ("status = 'hurt'", "labels = '{'", "needs = 'x'"),
    "decisions": ("status = 'hurt'", "tags = '{'"),
    "runs": ("status = 'hurt'",),
    "effects": ("state = 'hurt'", "kind = 'hurt'"),
    "events": ("body = x'7b'", "body = x'00ff'"),
}
CASES = [(listing, column) for listing, columns in COLUMNS.items() for column in columns]


@pytest.mark.parametrize(("listing", "column"), CASES)
def test_a_listing_shows_what_it_can(run, ask, url, runs_url, listing, column):
    store = runs_url if listing in ("runs", "effects") else url
    before = len(ask(listing, "--store", store)["items"])
    Intruder(store).run(HARM[listing].format(column))
    shown = ask(listing, "--store", store)
    assert (len(shown["items"]), len(shown["damaged"])) == (before - 1, 1)
    assert set(shown["damaged"][0]) == {"where", "reason"}
    text = run(listing, "--store", store)
    assert text.exit_code == 0
    assert "damaged  " in text.output
    assert "perdure verify" in text.stderr


def test_a_page_of_nothing_but_damage_says_so(run, url):
    Intruder(url).run("UPDATE sessions SET status = 'hurt'")
    shown = run("sessions", "--store", url)
    assert "no sessions" not in shown.output
    assert shown.stdout.count("damaged  session ") > 1


def test_python_gets_the_others_and_is_told(url):
    Intruder(url).run(HARM["sessions"].format("labels = '{'"))
    with perdure.open(url) as store:
        page = store.sessions()
        assert len(page.damaged) == 1
        every = perdure.every(store.sessions, limit=1)
        assert [next(every).name for _ in page] == [each.name for each in page]
        with pytest.raises(errors.Damaged, match="cannot be read: 1") as told:
            next(every)
        assert told.value.path == page.damaged[0].where


@pytest.mark.parametrize("at", [-(2**62), 2**62])
def test_instants_of_no_calendar_end_no_iteration(url, at):
    with perdure.open(url) as store:
        for number in range(4):
            store.session("odd").task(f"odd {number}")
        titles = {each.record.title for each in perdure.every(store.tasks)}
    Intruder(url).run("UPDATE tasks SET at = ? WHERE title LIKE 'odd%'", at)
    with perdure.open(url) as store:
        found = [each.record.title for each in perdure.every(store.tasks, limit=1)]
    assert sorted(found) == sorted(titles)


def test_a_tail_does_not_end_at_an_event_that_cannot_be_read(run, url):
    before = run("tail", "--from-start", "--once", "--store", url).stdout.splitlines()
    Intruder(url).run(HARM["events"].format("body = x'7b'"))
    shown = run("tail", "--from-start", "--once", "--store", url)
    assert shown.exit_code == 0
    assert shown.stdout.count("damaged  ") == 1
    assert len(shown.stdout.splitlines()) == len(before)
    assert '{"damaged": ' in run("tail", "--from-start", "--once", "--json", "--store", url).stdout


def test_recovery_names_an_effect_that_it_cannot_read(tmp_path):
    url = f"sqlite:///{tmp_path}/a.db"
    with perdure.open(url) as store:
        for key in ("one", "two"):
            store.session("s").begin("pay", {"to": key}, key=key).dispatch()
    Intruder(url).run("UPDATE effects SET kind = 'hurt' WHERE seq = (SELECT min(seq) FROM effects)")
    with perdure.open(url) as store:
        recovered = store.recover()
    assert [each.key for each in recovered.waiting] == ["two"]
    assert len(recovered.damaged) == 1
    assert recovered.damaged[0].startswith("session s effect 2: ")

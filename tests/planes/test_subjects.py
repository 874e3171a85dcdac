"""Subjects travel with their records, go with their bodies, and are found in stores of before (docs/decisions/0035; P5, P6)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import apsw
import pytest

import perdure
from perdure.interchange.move import move
from perdure.log import derive
from perdure.planes import subjects
from perdure.stores.core import open_core
from perdure_files.merge import merge
from planes.tampering import Intruder
from stores.files import rebuilt
from stores.files.in_git import commit, git
from stores.files.in_git import url as files_url

HERS, HIS = "customer:alice", "customer:bob"
FIXTURES = Path(__file__).parents[1] / "fixtures" / "schema"


@pytest.fixture(params=["sqlite", "postgres", "files"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("postgres_store")
    return f"sqlite:///{tmp_path}/a.db" if request.param == "sqlite" else f"files:///{tmp_path}/a"


@perdure.agent
def lending(run: Any, text: str) -> str:
    run.restored  # noqa: B018 - it makes a checkpoint
    kept = run.step(str.upper, text)
    run.checkpoint({"kept": kept})
    run.ask("Lend?", about=[HIS])
    return kept


def fill(store: Any) -> None:
    """Records about her by themselves, by their session, by their row and by what they were made of."""
    session = store.session("of-her", about=[HERS])
    session.say("user", "x")
    plain = store.session("plain")
    turn = plain.say("user", "y", about=[HERS])
    plain.decide("d", because="b", refs=[turn]).close("worked")
    plain.task("t", about=[HIS]).done()
    store.scope("user:her", about=[HERS]).set("v", 1)
    with pytest.raises(perdure.Waiting):
        store.drive(lending, "z", key="k", session="of-her")


def known(store: Any) -> dict[str, tuple[int, int]]:
    return {each.subject: (each.records, each.streams) for each in store.subjects()}


def test_a_rebuild_gives_the_same_and_a_row_that_is_wrong_shows(url):
    with perdure.open(url) as store:
        fill(store)
        assert known(store) == {HERS: (15, 4), HIS: (3, 2)}
        assert store.verify().ok


def test_control_a_rule_that_forgets_a_derivation_shows(tmp_path, monkeypatch):
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        fill(store)
        monkeypatch.setattr(derive, "rows_of", lambda *_: iter(()))
        assert {each.table for each in store.verify(blobs=False).problems} == {"subjects"}


def test_a_subject_that_somebody_took_away_or_planted_shows(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        fill(store)
    intruder = Intruder(f"sqlite:///{tmp_path}/a.db")
    intruder.run("DELETE FROM subjects WHERE whole = 1; UPDATE tasks SET about = NULL")
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        assert {each.table for each in store.verify().problems} == {"subjects", "tasks"}


def test_moves_and_bundles_bring_subjects(url, tmp_path):
    with perdure.open(url) as store:
        fill(store)
        before = known(store)
        store.export(tmp_path / "x.bundle", everything=True)
    with perdure.open("memory:") as other:
        other.import_(tmp_path / "x.bundle")
        assert known(other) == before
        assert other.verify().ok
    target = f"sqlite:///{tmp_path}/target.db"
    move(url, target, actor="ann", fence=True)
    with perdure.open(target) as other:
        assert known(other) == before


@perdure.tool(kind="idempotent")
def telling(text: str) -> str:
    return text


@perdure.agent
def stepping(run: Any) -> str:
    return run.act(telling, run.step(str.upper, "x"), about=[HIS])


def test_a_what_if_is_about_whom_its_run_is(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        store.drive(stepping, key="k", about=[HERS])
        run = store.run(agent=stepping, key="k")
        supposed = run.fork(run.effects()[0].record.seq, "another answer")
        assert {each.id for each in store.runs(about=HERS)} == {run.id, supposed.id}
        assert {each.record.stream for each in store.effects(about=HIS, what_if=True)} == {run.id, supposed.id}
        assert store.verify().ok


def test_a_run_that_goes_on_elsewhere_is_about_whom_it_was(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        fill(store)
        run = store.run(agent=lending, key="k")
        envelope = run.hand_over()
        luggage = store.artifacts_of(envelope)
    with perdure.open("memory:") as other:
        other.adopt(perdure.Envelope.from_json(envelope.to_json()), luggage)
        assert [each.record.agent for each in other.runs(about=HERS)] == ["lending"]
        assert [each.question for each in other.asks(about=HIS)] == ["Lend?"]
        saved = [event for event in other.events(about=HERS, limit=1000) if event.kind == "checkpoint.saved"]
        assert [event.about for event in saved] == [(HERS,)]
        assert saved[0].body["derived_from"]
        assert other.verify().ok


@pytest.mark.skipif(shutil.which("git") is None, reason="git is missing: there are no branches")
def test_a_merge_brings_their_subjects(tmp_path):
    place = tmp_path / "store"
    with perdure.open(files_url(place)) as store:
        store.session("both").say("user", "common")
    git(place, "init", "-q")
    commit(place, "common")
    git(place, "checkout", "-qb", "other")
    with perdure.open(files_url(place)) as store:
        store.session("both").say("user", "theirs", about=[HERS])
        store.session("new", about=[HIS]).say("user", "theirs alone")
    commit(place, "theirs")
    git(place, "checkout", "-q", "main")
    with perdure.open(files_url(place)) as store:
        store.session("both").say("user", "ours", about=[HERS])
    commit(place, "ours")
    merge(files_url(place), "other")
    with perdure.open(files_url(place)) as store:
        assert known(store)[HERS] == (2, 2)  # ours, and theirs beside it
        assert [each.name for each in store.sessions(about=HIS)] == ["new"]
        assert store.verify().ok
    rebuilt.check(place)


def test_what_is_emptied_leaves_no_subject(url):
    """A row that stays is restated before its events go; what names nobody any more says so."""
    with perdure.open(url) as store:
        session = store.session("a")
        for n in range(4):
            session.set("v", n, about=[HERS])
        session.set("v", "plain")
        for n in range(3):
            session.say("user", str(n), about=[HERS])
        session.say("assistant", "done")
        session.summarise(session.turns()[-1].seq, "about nobody in particular")
        session.close()
        store.retain(perdure.Retention(values=1, turns=0), dry_run=False)
        gone = [event.kind for event in session.events(limit=1000) if event.emptied]
        assert sorted(gone) == ["turn.said", *["value.set"] * 4]  # the newest turns stay, and so does the value
        assert [event.kind for event in session.events(about=HERS)] == ["turn.said", "turn.said", "turns.summarised"]
        assert store.verify().ok


@pytest.mark.parametrize("schema", ["0001", "0002", "0003", "0004"])
def test_a_store_of_before_finds_whom_it_named(tmp_path, schema):
    connection = apsw.Connection(str(tmp_path / "old.db"))
    for _ in connection.execute((FIXTURES / f"{schema}.sql").read_text("utf-8")):
        pass
    connection.close()
    with perdure.open(f"sqlite:///{tmp_path}/old.db") as store:
        named = [event.seq for event in store.events(limit=1000) if event.about]
        assert named
        assert (
            sorted(event.seq for event in store.events(about="customer:7", limit=1000) if event.table == "turns")
            == named
        )
        assert store.verify().ok


def test_without_subjects_a_write_asks_the_database_nothing_more(tmp_path, monkeypatch):
    """A turn, a value, a task, a step, an effect and a checkpoint run none of our statements."""
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        session = store.session("a")
        asked: list[str] = []
        plain = type(store._caller.core.engine.connect()).query

        def spying(self, statement, params):
            asked.append(statement.name)
            return plain(self, statement, params)

        monkeypatch.setattr(type(store._caller.core.engine.connect()), "query", spying)
        session.say("assistant", "x", calls=[perdure.Call("c", "t", {})])
        session.result("c", 1)
        session.set("v", 1)
        session.task("t").done()
        session.checkpoint({"a": 1})
        session.begin("send", {}, key="k").dispatch().commit()
        session.decide("d", because="b")
        own = {statement.name for statement in subjects.Q}
        assert own & set(asked) == set()
        session.decide("e", because="b", refs=[session.turns()[0]])  # control: this one looks, once
        assert [name for name in asked if name in own] == ["any_at_all"]


def test_the_derived_table_is_named_in_no_header(tmp_path):
    """Neither the header of an event nor a name of a stream holds a subject."""
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        fill(store)
    core = open_core(f"sqlite:///{tmp_path}/a.db")
    try:
        connection = core.engine.connect()
        rows = [
            *connection.raw.execute("SELECT kind, tbl, actor FROM events UNION ALL SELECT kind, name, '' FROM streams")
        ]
        connection.close()
    finally:
        core.close()
    assert not any(HERS in str(row) or HIS in str(row) for row in rows)

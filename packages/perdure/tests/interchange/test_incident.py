"""Incidents and pages for reading: what somebody needs who was not there, and text that stays text."""

from __future__ import annotations

import zipfile

import pytest

import perdure
from perdure import errors
from perdure.model.records.runs import RunStatus

EVIL = "# not a heading\n<script>alert(1)</script> [x](javascript:1) \x1b[31m `code`"


@perdure.tool(fails=[ValueError])
def deploy(where: str) -> str:
    raise ValueError(f"no such place: {where}")


@perdure.tool
def pay(amount: int) -> int:
    return amount


@perdure.agent(name="shipper")
def shipper(run: perdure.Run, where: str) -> str:
    if run.ask("Ship it?", choices=["yes", "no"]) == "yes":
        run.act(pay, 7)
        run.act(deploy, where)
    return "done"


@pytest.fixture
def failed():
    with perdure.open("memory:", actor="alice") as store:
        store.session("a", goal="Ship on Friday").say("user", EVIL)
        with pytest.raises(errors.Waiting):
            store.drive(shipper, EVIL, key="k", session="a")
        store.answer(store.asks()[0].id, "yes", by="bob")
        with pytest.raises(errors.Failed):
            store.drive(shipper, EVIL, key="k", session="a")
        yield store


def page_of(path):
    with zipfile.ZipFile(path) as archive:
        return archive.read("INCIDENT.md").decode()


def test_the_page_tells_the_story(failed, tmp_path):
    run = failed.runs()[0].id
    made = failed.export_incident(tmp_path / "x", run)
    text = page_of(tmp_path / "x")
    assert made.streams == 2
    for said in (
        run, "shipper", "Ship on Friday", "Ship it?", "bob", "yes", "deploy", "failed", "no such place", "committed",
        "run.claimed", "alice", "Nothing was left out", "secrets",
    ):  # fmt: skip
        assert said in text, said
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert headings[0].startswith("# Incident")
    assert [line.removeprefix("## ") for line in headings[1:]] == [
        "How it stands", "Task", "Errors", "External effects", "Waits", "Versions",
        "Workers", "Timeline", "The last turns of session a",
    ]  # fmt: skip


def test_what_is_in_doubt_is_said_with_what_settles_it(tmp_path):
    with perdure.open("memory:", actor="alice") as store:
        session = store.session("a")
        session.begin("pay", {"amount": 1}, kind="unsafe", key="x").dispatch()

        @perdure.agent(name="doubter")
        def doubter(run: perdure.Run) -> None:
            run.act(raising)

        @perdure.tool
        def raising() -> None:
            raise OSError("the line went dead")

        with pytest.raises(errors.Error):
            store.drive(doubter, key="k", session="a")
        run = store.runs()[0].id
        store.export_incident(tmp_path / "x", run)
    text = page_of(tmp_path / "x")
    assert "## Unsettled effects" in text
    assert "perdure settle" in text
    assert "`\\`" not in text  # what is escaped stands in no code, where it would be shown as it is
    assert "in_doubt" in text


def test_text_from_rows_cannot_break_out_of_the_page(failed, tmp_path):
    failed.export_incident(tmp_path / "x", failed.runs()[0].id)
    for text in (page_of(tmp_path / "x"), failed.readable(["a"]).markdown()):
        assert "\x1b" not in text
        evil = [line for line in text.splitlines() if "<script>" in line or "not a heading" in line]
        assert evil
        assert all(line.startswith("    ") or "\\<script\\>" in line or "\\#" in line for line in evil), evil


def test_an_incident_is_a_bundle_and_its_page_is_never_read(failed, tmp_path):
    run = failed.runs()[0].id
    failed.export_incident(tmp_path / "x", run)
    with perdure.open(f"sqlite:///{tmp_path}/mine.db") as mine:
        mine.import_(tmp_path / "x")
        assert mine.run(run).record.status is RunStatus.FAILED
        assert mine.verify().ok
    with pytest.raises(errors.NotFound):
        failed.export_incident(tmp_path / "y", "nope")
    assert not (tmp_path / "y").exists()


def test_sessions_for_reading(failed):
    found = failed.readable(["a"])
    assert [each.session.name for each in found.sessions] == ["a"]
    assert len(found.sessions[0].turns) == 1
    assert "# Session a" in found.markdown()
    with pytest.raises(errors.NotFound):
        failed.readable(["b"])

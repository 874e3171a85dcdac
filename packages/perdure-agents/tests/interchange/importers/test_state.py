"""State files by a mapping: tasks, decisions, events and values from CSV, TSV, JSON, JSON lines and YAML."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from import_fixtures import Take
from perdure.errors import Invalid
from perdure_agents.importers.state import Mapping

ROWS = [
    {"ID": "T2", "Summary": "Ship it", "State": "open", "Depends on": "T1", "Owner": "bob"},
    {"ID": "T1", "Summary": "Write test", "State": "Done", "Depends on": "", "Owner": "ann"},
    {"ID": "T3", "Summary": "Talk", "State": "on hold", "Depends on": "", "Owner": ""},
]
TASKS = Mapping("tasks", session="backlog")


def separated(by: str) -> str:
    return "\n".join([by.join(ROWS[0]), *(by.join(row.values()) for row in ROWS)])


WRITTEN = {
    "b.tsv": separated("\t"),
    "b.csv": separated(","),
    "b.txt": separated(";"),
    "b.json": json.dumps({"version": 1, "tasks": ROWS}),
    "b.jsonl": "\n".join(map(json.dumps, ROWS)),
    "b.yaml": json.dumps(ROWS),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_backlog(store: Any, take: Take, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(WRITTEN[name])
    assert take(tmp_path / name, mapping=TASKS).ok
    session = store.session("backlog")
    found = {task.key: task for task in session.tasks()}
    assert {key: (task.title, task.status.value) for key, task in found.items()} == {
        "T1": ("Write test", "done"), "T2": ("Ship it", "todo"), "T3": ("Talk", "blocked"),
    }  # fmt: skip
    assert found["T2"].needs == (found["T1"].id,)
    assert found["T2"].detail["detail"] == {"Owner": "bob"}
    assert found["T2"].detail["origin"] == {"format": "state", "id": "T2", "file": name}
    assert take(tmp_path / name, mapping=TASKS).added == {}


def test_a_task_follows_its_file_unless_it_was_moved_here(store: Any, take: Take, tmp_path: Path) -> None:
    file = tmp_path / "b.csv"
    file.write_text("id,title,status\n1,a,open\n2,b,open\n")
    take(file, mapping=TASKS)
    session = store.session("backlog")
    next(task for task in session.tasks() if task.key == "2").cancel("not needed")
    file.write_text("id,title,status\n1,a,done\n2,b,done\n")
    report = take(file, mapping=TASKS)
    assert report.added == {"tasks": 1}
    assert [each.place for each in report.left_out] == ["b.csv:3"]
    assert {task.key: task.status.value for task in session.tasks()} == {"1": "done", "2": "cancelled"}


def test_needs_that_cannot_be_kept_are_said(store: Any, take: Take, tmp_path: Path) -> None:
    file = tmp_path / "b.csv"
    file.write_text("id,title,needs\n1,a,2\n2,b,1\n3,c,9\n4,d,2 3\n5,e,\n5,e,\n")
    report = take(file, mapping=TASKS)
    assert report.ok
    assert [each.place for each in report.mended] == ["b.csv:2", "b.csv:4"]
    assert report.read["tasks"] == 6
    assert len(store.session("backlog").tasks()) == 5


def test_unknown_statuses_and_missing_titles(take: Take, tmp_path: Path) -> None:
    file = tmp_path / "b.csv"
    file.write_text("id,title,status,prio,tags\n1,a,frozzled,P2,x; y\n2,,open,,\n3,c,done,,,,,too many\n")
    report = take(file, mapping=TASKS)
    assert [each.place for each in report.left_out] == ["b.csv:3", "b.csv:4"]
    assert "which is the title" in report.left_out[0].why
    assert "frozzled" in report.mended[0].what


def test_columns_are_named_where_they_cannot_be_guessed(store: Any, take: Take, tmp_path: Path) -> None:
    file = tmp_path / "b.csv"
    file.write_text("Aufgabe,Stand\nSchreiben,done\n")
    assert not take(file, mapping=TASKS).ok
    assert take(file, mapping=Mapping("tasks", {"title": "Aufgabe", "status": "Stand"}, "backlog")).ok
    assert [(task.title, task.status.value) for task in store.session("backlog").tasks()] == [("Schreiben", "done")]


def test_a_decision_index(store: Any, take: Take, tmp_path: Path) -> None:
    file = tmp_path / "decisions.csv"
    file.write_text('date,decision,why,outcome\n2026-01-02,Use A,"B breaks\nSafari",worked\n2026-01-03,Use C,,\n')
    assert take(file, mapping=Mapping("decisions")).ok
    session = store.session("decisions")
    told = [(each.text, each.because, each.outcome) for each in session.decisions()]
    assert told == [("Use C", "(not written down)", None), ("Use A", "B breaks\nSafari", "worked")]
    assert take(file, mapping=Mapping("decisions")).added == {}
    file.write_text(file.read_text().replace("Use C,,", "Use C,,failed"))
    assert take(file, mapping=Mapping("decisions")).added == {"decisions": 1}
    assert session.decisions()[0].outcome == "failed"
    marks = store.scope("imported/decisions").entries()
    assert {mark.value["origin"]["at"] for mark in marks} == {"2026-01-02", "2026-01-03"}


def test_a_decision_that_was_rewritten_stays_as_it_was_first(store: Any, take: Take, tmp_path: Path) -> None:
    file = tmp_path / "decisions.csv"
    file.write_text("id,decision,why,outcome\n1,Use A,B breaks,\n")
    assert take(file, mapping=Mapping("decisions")).ok
    file.write_text("id,decision,why,outcome\n1,Use B,A breaks,worked\n")
    report = take(file, mapping=Mapping("decisions"))
    assert (report.added, ["other content" in each.why for each in report.left_out]) == ({}, [True])
    (decision,) = store.session("decisions").decisions()
    assert (decision.text, decision.outcome) == ("Use A", None)


def test_an_event_log(store: Any, take: Take, tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    lines = [{"ts": "2026-01-01", "event": "deploy.finished", "sha": "abc"}] * 2 + [{"event": "session.opened", "n": 1}]
    file.write_text("\n".join(map(json.dumps, lines)))
    assert take(file, mapping=Mapping("events")).ok
    found = [(event.kind, event.data["data"]) for event in store.session("events").events(emitted=True)]
    assert found == [
        ("deploy.finished", {"sha": "abc"}), ("deploy.finished", {"sha": "abc"}), ("state.session.opened", {"n": 1}),
    ]  # fmt: skip
    file.write_text(file.read_text() + "\n" + json.dumps(lines[0]))
    assert take(file, mapping=Mapping("events")).added == {"events": 1}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("s.json", '{"branch": "fix-42", "deep": {"a": 1}, "n": 3}'),
        ("s.yaml", "branch: fix-42\ndeep:\n  a: 1\nn: 3\n"),
        (
            "s.jsonl",
            '{"key": "branch", "value": "fix-42"}\n{"key": "deep", "value": {"a": 1}}\n{"key": "n", "value": 3}',
        ),
    ],
)
def test_key_value_state(store: Any, take: Take, tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert take(tmp_path / name, mapping=Mapping("values", scope="project:x")).ok
    scope = store.scope("project:x")
    assert {entry.name: entry.value for entry in scope.entries()} == {"branch": "fix-42", "deep": {"a": 1}, "n": 3}
    assert take(tmp_path / name, mapping=Mapping("values", scope="project:x")).added == {}


def test_a_value_follows_its_file_unless_it_was_set_here(store: Any, take: Take, tmp_path: Path) -> None:
    file, scope = tmp_path / "s.json", store.scope("project:x")
    mapping = Mapping("values", scope="project:x")
    file.write_text('{"a": 1, "b": 1}')
    take(file, mapping=mapping)
    scope.set("b", "ours")
    file.write_text('{"a": 2, "b": 2}')
    report = take(file, mapping=mapping)
    assert report.added == {"values": 1}
    assert ["set here by somebody else" in each.why for each in report.left_out] == [True]
    assert {entry.name: entry.value for entry in scope.entries()} == {"a": 2, "b": "ours"}


def test_two_files_that_disagree_do_not_take_turns(store: Any, take: Take, tmp_path: Path) -> None:
    mapping = Mapping("values", scope="project:x")
    for name in ("one", "two"):
        (tmp_path / f"{name}.json").write_text(f'{{"a": "{name}"}}')
        take(tmp_path / f"{name}.json", mapping=mapping)
    again = take(tmp_path / "one.json", tmp_path / "two.json", mapping=mapping)
    assert (again.added, again.left_out) == ({}, ())
    assert store.scope("project:x").get("a") == "two"


def test_yaml_dates_are_dates(store: Any, take: Take, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("day: 2026-01-02\nwhen: 2026-01-02 10:00:00\n")
    assert take(tmp_path / "s.yaml", mapping=Mapping("values")).ok
    assert store.session("s").get("day") == date(2026, 1, 2)
    assert store.session("s").get("when") == "2026-01-02T10:00:00"


@pytest.mark.parametrize(
    "given", [{"kind": "poems"}, {"kind": "tasks", "fields": {"rhyme": "x"}}, {"kind": "tasks", "scope": "project:x"}]
)
def test_a_mapping_that_makes_no_sense(given: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        Mapping(**given)


def test_a_broken_row_costs_no_other(store: Any, take: Take, tmp_path: Path) -> None:
    file = tmp_path / "b.csv"
    file.write_text('id,title\n1,a\n2,"b" b\n3,c \u2028 c\n4,"d\n')
    report = take(file, mapping=TASKS)
    assert [each.place for each in report.left_out] == ["b.csv:3", "b.csv:5"]
    assert {task.key for task in store.session("backlog").tasks()} == {"1", "3"}


def test_a_status_that_goes_to_and_fro(store: Any, take: Take, tmp_path: Path) -> None:
    file = tmp_path / "b.csv"
    for status, becomes in [("blocked", "blocked"), ("open", "todo"), ("failed", "failed"), ("blocked", "blocked"),
                            ("cancelled", "cancelled"), ("open", "todo"), ("doing", "todo"), ("done", "done")]:  # fmt: skip
        file.write_text(f"id,title,status\n1,a,{status}\n")
        assert take(file, mapping=TASKS).ok
        assert take(file, mapping=TASKS).added == {}
        assert store.session("backlog").tasks()[0].status.value == becomes
    file.write_text("id,title,status\n1,a,open\n")
    assert "done, and stays so" in take(file, mapping=TASKS).left_out[0].why
    assert store.session("backlog").tasks()[0].status.value == "done"


def test_a_priority_that_is_none_is_said(store: Any, take: Take, tmp_path: Path) -> None:
    words = {"High": 0, "--5": 0, "P2": 2, "-1": -1, "": 0}
    (tmp_path / "b.tsv").write_text("\n".join(["title\tprio", *(f"a{each}\t{each}" for each in words)]))
    report = take(tmp_path / "b.tsv", mapping=TASKS)
    assert {task.title: task.priority for task in store.session("backlog").tasks()} == {
        f"a{each}": priority for each, priority in words.items()
    }
    assert [each.what.split("'")[1] for each in report.mended] == ["High", "--5"]


def test_a_row_without_a_title_says_whether_there_is_a_column_for_it(take: Take, tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("Summary,State\n,open\n")
    assert take(tmp_path / "b.csv", mapping=TASKS).left_out[0].why == "nothing in column 'Summary', which is the title"
    (tmp_path / "c.csv").write_text("Aufgabe,State\nx,open\n")
    assert "--field title=…" in take(tmp_path / "c.csv", mapping=TASKS).left_out[0].why


def test_rows_that_nobody_explained_are_answered_with_what_explains_them(take: Take, tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("Summary,State\na,open\n")
    (tmp_path / "b.bin").write_bytes(b"\x00\x01")
    assert "--as tasks" in take(tmp_path / "b.csv").left_out[0].why
    assert "--as" not in take(tmp_path / "b.bin").left_out[0].why


def test_blank_lines_before_the_headings_are_nothing(store: Any, take: Take, tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("\n \n,\ntitle,status\na,open\nb\n")
    assert take(tmp_path / "b.csv", mapping=TASKS).ok
    assert {task.title for task in store.session("backlog").tasks()} == {"a", "b"}


@pytest.mark.parametrize("name", ["b.csv", "b.TSV"])
def test_a_table_of_one_column_is_one(store: Any, take: Take, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("title\nWrite it\nShip it\n")
    assert take(tmp_path / name, mapping=TASKS).ok
    assert {task.title for task in store.session("backlog").tasks()} == {"Write it", "Ship it"}


def test_a_heading_that_stands_twice_is_said(store: Any, take: Take, tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("title,note,note,,\na,lost,kept,,\n")
    report = take(tmp_path / "b.csv", mapping=TASKS)
    assert [(each.place, each.what) for each in report.mended] == [
        ("b.csv:1", "2 columns are called 'note': the last one is read")
    ]
    assert store.session("backlog").tasks()[0].detail["detail"] == {"note": "kept"}


@pytest.mark.parametrize("text", ["", "\n,,\n"])
def test_a_table_that_says_nothing_is_said(take: Take, tmp_path: Path, text: str) -> None:
    (tmp_path / "b.csv").write_text(text)
    assert [each.why for each in take(tmp_path / "b.csv", mapping=TASKS).left_out] == ["the file is empty"]

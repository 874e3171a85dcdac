"""What is not as it was when a life goes on: programs, workspaces, notes, stores. Controls are tried with those of all faults."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, cast

import pytest

from evaluation.recovery.conftest import SEED, Show
from perdure_evaluate.recovery.faults import FAULTS
from perdure_evaluate.recovery.interface import Belief, Subject, SubjectAgent
from perdure_evaluate.recovery.oracle import foretell, operations_of
from perdure_evaluate.recovery.program_edits import MARK, Edited, canonical_belief
from perdure_evaluate.recovery.subjects import SUBJECTS, load
from perdure_evaluate.recovery.tasks import NEW, OLD, TASKS


def schedules(fault: str, task: str, *words: str) -> list[str]:
    """The schedules of a fault that have all these words in them, in order."""
    found = FAULTS[fault].schedules(TASKS[task], SEED)
    return [each for each in found if all(word in each for word in words)]


# -- the program -----------------------------------------------------------------------------------------------------------


class Heard:
    """An agent that says what it was called for."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, verb: str) -> Any:
        return lambda name, *_: self.calls.append(f"{verb} {name}")


@pytest.mark.parametrize(
    ("edit", "calls"),
    [
        ("", ["step a", "note b"]),
        ("renamed.a", [f"step a{MARK}", "note b"]),
        ("inserted.b", ["step a", f"step b{MARK}", "note b"]),
        ("removed.b", ["step a"]),
    ],
)
def test_a_changed_program_calls_what_it_was_changed_to(edit: str, calls: list[str]) -> None:
    heard = Heard()
    program = Edited(cast("SubjectAgent", heard), edit)
    program.step("a", lambda: None)
    program.note("b", 1)
    assert heard.calls == calls


@pytest.mark.parametrize("task", ["relay-5", "support", "handover", "deploy", "coding"])
def test_only_what_was_reached_is_changed(task: str) -> None:
    names = list(operations_of(task, SEED))
    for schedule in schedules("program", task):
        at, _, edit = schedule.rpartition("~")
        assert names.index(edit.partition(".")[2]) <= names.index(at.rpartition(":")[0])


@pytest.mark.parametrize("words", [("mail", "renamed.refund"), ("mail", "inserted"), ("mail", "removed")])
def test_perdure_names_a_changed_program_and_goes_on_with_the_old_one(show: Show, words: tuple[str, ...]) -> None:
    shown = show(f"perdure-sqlite/support/program/{schedules('program', 'support', *words)[0]}")
    assert shown.score.failed == []
    assert "the program does not do what this run did" in shown.score.said


def test_a_session_file_does_anew_what_has_a_new_name(show: Show) -> None:
    (schedule,) = schedules("program", "support", "understand:recorded~renamed.understand")
    assert show(f"json-renamed/support/program/{schedule}").score.failed == ["acknowledged_lost", "wrong"]


def before_it_was_done(task: str) -> Iterator[str]:
    """Schedules in which an effect is renamed that nobody had begun."""
    for schedule in schedules("program", task, ":before~renamed."):
        at, _, edit = schedule.rpartition("~")
        if (
            at == f"{edit.removeprefix('renamed.')}:before"
            and operations_of(task, SEED)[at.removesuffix(":before")] == "act"
        ):
            yield schedule


@pytest.mark.parametrize("subject", ["perdure-sqlite", "json-renamed"])
def test_an_effect_that_was_renamed_before_it_was_done_is_not_counted_as_lost(show: Show, subject: str) -> None:
    found = [
        (task, schedule)
        for task in ("relay-5", "support", "coding", "handover")
        for schedule in before_it_was_done(task)
    ]
    for task, schedule in found[:1]:
        assert show(f"{subject}/{task}/program/{schedule}").score.failed == []
    assert found


def test_a_belief_is_told_in_the_names_that_the_harness_knows() -> None:
    both = Belief(effects={"a": 1, f"a{MARK}": 2, f"b{MARK}": 3})
    assert canonical_belief(both).effects == {"a": 1, "b": 3}


def test_perdure_notices_a_step_that_was_renamed_before_its_checkpoint(show: Show) -> None:
    (schedule,) = schedules("program", "coding", "write-1-text:recorded~renamed.write-1-text")
    shown = show(f"perdure-sqlite/coding/program/{schedule}")
    assert shown.score.failed == []
    assert "the program does not do what this run did" in shown.score.said


# -- the workspace ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["edited", "committed", "dropped"])
def test_perdure_does_not_build_on_a_workspace_that_somebody_has_changed(show: Show, what: str) -> None:
    shown = show(f"perdure-sqlite/coding/workspace/commit-1:before~{what}")
    assert shown.score.failed == []
    assert "is not as the last checkpoint left it" in shown.score.said


def test_a_session_file_does(show: Show) -> None:
    assert "wrong" in show("json-renamed/coding/workspace/commit-1:before~edited").score.failed
    assert "wrong" in show("json-renamed/coding/workspace/commit-1:before~committed").score.failed


def test_only_what_no_effect_can_have_done_itself_is_changed() -> None:
    assert not [each for each in schedules("workspace", "coding") if ":sent" in each or ":calling" in each]


# -- notes -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.parametrize("point", ["plan:recorded", "taken:before"])
def test_perdure_acts_on_what_stands(show: Show, point: str, how: str) -> None:
    assert show(f"perdure-sqlite/handover/stale/{point}~{how}").score.failed == []


def test_a_session_file_acts_on_what_it_has_in_mind_and_writes_it_over(show: Show) -> None:
    score = show("json-renamed/handover/stale/taken:before~stop").score
    assert score.failed == ["acknowledged_lost", "wrong", "stale"]
    assert show("jsonl-log/handover/stale/taken:before~stop").score.failed == ["wrong", "stale"]


def test_nobody_is_tried_whose_notes_only_the_agent_can_change() -> None:
    assert FAULTS["stale"].unfit(Subject, TASKS["handover"])
    assert all(not FAULTS["stale"].unfit(load(name), TASKS["handover"]) for name in ("json-file", "perdure-sqlite"))
    assert all(FAULTS["stale"].unfit(load(name), TASKS["support"]) for name in SUBJECTS)


# -- stores that become older ------------------------------------------------------------------------------------------------


def test_perdure_asks_about_what_may_have_been_done_after_the_backup(show: Show) -> None:
    """The mail was sent after the backup, and neither a key nor a probe can find that out."""
    score = show("perdure-sqlite/support/backup/ticket:recorded<done:before").score
    assert (score.failed, score.surfaced) == ([], 1)


@pytest.mark.parametrize("fault", ["backup", "rewind"])
def test_a_session_file_that_is_copied_back_does_it_again(show: Show, fault: str) -> None:
    score = show(f"json-renamed/support/{fault}/ticket:recorded<done:before").score
    assert (score.failed, score.duplicates) == (["duplicates"], 1)


# -- a deploy --------------------------------------------------------------------------------------------------------------


def test_lives_before_the_answer_play_the_old_program_and_those_after_it_the_new_one() -> None:
    task = TASKS["deploy"]
    assert (task.version({}), task.version({"approval": "yes"})) == (1, 2)
    assert task.program({}) is task.before
    assert TASKS["support"].version({}) == 2


def test_a_deployed_program_understands_what_the_old_one_kept() -> None:
    kept = {"customer": 1, "amount": 5}
    assert NEW.upgrade(kept) == {**kept, "currency": "EUR"}
    assert NEW.upgrade({**kept, "currency": "USD"})["currency"] == "USD"
    assert OLD.upgrade(kept) == kept


def test_old_and_new_program_do_the_same_operations() -> None:
    task = TASKS["deploy"]
    assert task.before is not None
    old = foretell(type(task)("old", "", task.before), SEED)
    assert list(old.operations) == list(operations_of("deploy", SEED))
    assert old.effects["refund"] != foretell(task, SEED).effects["refund"]


@pytest.mark.parametrize("task", ["handover", "deploy"])
@pytest.mark.parametrize("fault", ["kill", "race", "program"])
def test_perdure_stands_some_of_it_across_a_deploy_and_a_hand_over(show: Show, task: str, fault: str) -> None:
    found = schedules(fault, task, ":recorded")
    for schedule in itertools.islice(found, 3, None, 12 if fault == "program" else 6):
        assert show(f"perdure-sqlite/{task}/{fault}/{schedule}").score.failed == []

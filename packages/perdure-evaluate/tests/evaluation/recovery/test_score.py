"""The score's arithmetic, on stories that were never lived."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from perdure_evaluate.recovery.interface import Away, Belief
from perdure_evaluate.recovery.lives import Ack, Life, _believed
from perdure_evaluate.recovery.oracle import Oracle, foretell
from perdure_evaluate.recovery.outside import mark, receipt
from perdure_evaluate.recovery.score import Score, grown, growth, judge, recovery_seconds
from perdure_evaluate.recovery.tasks import TASKS, RecoveryTask

SEED = 3
TASK = TASKS["support"]
ORACLE = foretell(TASK, SEED)
EFFECTS = {name: receipt(name, meant.kind) for name, meant in ORACLE.effects.items()}
WHOLE = Belief(ORACLE.notes, EFFECTS, ORACLE.result, ended=True)


def arrived(**times: int) -> Counter[tuple[str, str]]:
    """Every effect once, but for those that are named."""
    return Counter({(name, mark(meant.payload)): times.get(name, 1) for name, meant in ORACLE.effects.items()})


def story(
    lives: list[Life], arrivals: Any = None, final: Belief = WHOLE, task: RecoveryTask = TASK, **outer: Any
) -> Any:
    found = +(arrived() if arrivals is None else arrivals)
    world = SimpleNamespace(
        arrivals=lambda: found, stands=lambda *_: False, committed=outer.pop("committed", no_commit)
    )
    given = {
        "states": 0,
        "taken": [],
        "amended": {},
        "kept_at": 0.0,
        "lost_at": 0.0,
        "ground": SimpleNamespace(seed=SEED),
    } | outer
    case = SimpleNamespace(task=task.name, subject="x")
    return SimpleNamespace(lives=lives, world=world, case=case, task=task, final=final, **given)


def no_commit(*_: str) -> None:
    return None


def acks(*names: tuple[str, str, Any], at: float = 1.0) -> list[Ack]:
    return [Ack(verb, name, value, at + number) for number, (verb, name, value) in enumerate(names)]


def life(number: int = 0, end: str = "done", **given: Any) -> Life:
    return Life(number, 0.0, end, **given)


def judged(*args: Any, **kwargs: Any) -> Score:
    return judge(story(*args, **kwargs))


def test_a_story_without_fault_has_no_violation() -> None:
    score = judged([life()])
    assert score.failed == []
    assert (score.effects, score.audit_missing, score.audit_invented) == (3, 0, 0)


def test_every_arrival_beyond_the_first_is_a_duplicate() -> None:
    assert judged([life()], arrived(mail=3, ticket=2)).duplicates == 3


def test_an_effect_that_never_arrived_is_lost_and_one_of_a_stranded_story_is_not() -> None:
    assert judged([life()], arrived(mail=0)).lost == 1
    stranded = judged([life(end="failed", said="no")], arrived(mail=0))
    assert (stranded.lost, stranded.stranded, stranded.said) == (0, 1, "no")


def test_an_effect_with_another_content_than_others_had_seen_is_wrong() -> None:
    other = arrived(mail=0)
    other["mail", "0" * 12] = 1
    score = judged([life()], other)
    assert (score.wrong, score.duplicates, score.lost) == (1, 0, 0)


def test_an_acknowledged_note_that_the_next_life_does_not_know_is_lost() -> None:
    note = ("note", "order", ORACLE.notes["order"])
    first = life(end="killed", acks=acks(note))
    forgetful = life(1, belief=Belief(), resumed=5.0)
    mindful = life(1, belief=Belief({"order": ORACLE.notes["order"]}), resumed=5.0)
    unable = life(1, resumed=5.0)  # its server was down: nobody could ask
    assert judged([first, forgetful]).acknowledged_lost == 1
    assert judged([first, mindful]).acknowledged_lost == 0
    assert judged([first, unable]).acknowledged_lost == 0
    assert judged([first, unable], final=Belief()).acknowledged_lost > 0


@pytest.mark.parametrize(("trouble", "lost"), [(Away("the server is down"), 0), (OSError("it is damaged"), 1)])
def test_a_server_that_is_down_has_forgotten_nothing_and_a_store_that_cannot_be_read_has(
    trouble: Exception, lost: int
) -> None:
    def believe() -> Belief:
        raise trouble

    first = life(end="killed", acks=acks(("note", "order", ORACLE.notes["order"])))
    assert judged([first, life(1, belief=_believed(believe), resumed=5.0)]).acknowledged_lost == lost


def test_a_life_that_began_before_cannot_have_known() -> None:
    """Two at once: the second acknowledges, and the first, which began before, ends after it."""
    second = life(1, acks=acks(("note", "order", ORACLE.notes["order"]), at=5.0))
    first = life(0, belief=Belief(), resumed=1.0)
    assert judged([second, first]).acknowledged_lost == 0


def test_work_that_was_acknowledged_and_is_done_again_is_lost() -> None:
    step = ("step", "draft", "a")
    again = life(1, resumed=5.0, worked=[("draft", 9.0)])
    assert judged([life(end="killed", acks=acks(step)), again]).acknowledged_lost == 1
    assert judged([life(end="killed", worked=[("draft", 0.5)], acks=acks(step)), life(1)]).acknowledged_lost == 0


def test_work_in_vain_of_who_began_before_loses_nothing_and_work_of_its_own_again_does() -> None:
    """Stopped, and taken over: nobody can tell a process that sleeps. What it acknowledges is another matter."""
    second = life(1, acks=acks(("step", "draft", "a"), at=5.0), resumed=4.0)
    assert judged([second, life(0, resumed=1.0, worked=[("draft", 9.0)])]).acknowledged_lost == 0
    said = life(0, resumed=1.0, worked=[("draft", 9.0)], acks=acks(("step", "draft", "b"), at=9.5))
    assert judged([second, said]).acknowledged_lost == 1
    own = life(0, resumed=1.0, worked=[("draft", 9.0)], acks=acks(("step", "draft", "a"), at=5.0))
    assert judged([own]).acknowledged_lost == 1


def test_two_answers_to_one_question_contradict_each_other() -> None:
    both = [life(end="killed", acks=acks(("step", "draft", "a"))), life(1, acks=acks(("step", "draft", "b"), at=9.0))]
    assert judged(both).acknowledged_lost == 1


def test_the_end_is_compared_with_what_follows_from_what_was_seen_first() -> None:
    seen = life(end="killed", acks=acks(("step", "understand", {"order": 7, "amount": 9})))
    assert judged([seen, life(1)]).wrong == 1


def test_an_end_that_is_wrong_and_was_said_is_not_silent() -> None:
    notes = {**ORACLE.notes, "reply": "?"}
    ended = Belief(notes, EFFECTS, ORACLE.result, ended=True)
    assert judged([life()], final=ended).wrong == 1
    assert judged([life(end="failed", said="torn"), life(1)], final=ended).wrong == 0


@pytest.mark.parametrize(("name", "guessed"), [("mail", 1), ("refund", 0), ("ticket", 0)])
def test_only_blind_effects_can_be_guessed(name: str, guessed: int) -> None:
    begun = life(end="killed", calling=[name])
    assert judged([begun, life(1)]).guessed == guessed
    asked = judged([begun, life(1, end="waiting", doubts=[name]), life(2)])
    assert (asked.guessed, asked.surfaced) == (0, 1)


def test_an_effect_that_was_acknowledged_before_the_kill_is_in_no_doubt() -> None:
    sure = life(end="killed", calling=["mail"], acks=acks(("act", "mail", EFFECTS["mail"])))
    assert judged([sure, life(1)]).guessed == 0


def test_an_effect_that_rests_on_a_note_that_somebody_has_changed_is_stale() -> None:
    task, changed = TASKS["handover"], {"goal": "another", "limit": 7}
    right, old = foretell(task, SEED, amended={"plan": changed}), foretell(task, SEED)
    done = {name: receipt(name, meant.kind) for name, meant in right.effects.items()}
    final = Belief(right.notes, done, right.result, ended=True)

    def shown(oracle: Oracle, ended: Belief = final) -> Score:
        sent = Counter({(name, mark(meant.payload)): 1 for name, meant in oracle.effects.items()})
        written = life(acks=acks(("note", "plan", old.notes["plan"])))
        return judged([written], sent, ended, task, amended={"plan": (9.0, changed)})

    assert shown(right).failed == []
    assert shown(old).stale == 2
    assert shown(right, Belief(old.notes, done, right.result, ended=True)).acknowledged_lost == 1


def test_what_was_acknowledged_after_a_backup_is_not_missed_after_its_restore() -> None:
    note = ("note", "order", ORACLE.notes["order"])
    lives = [life(end="killed", acks=acks(note, at=3.0)), life(1, belief=Belief(), resumed=6.0)]
    assert judged(lives, kept_at=2.0, lost_at=5.0).acknowledged_lost == 0
    assert judged(lives, kept_at=4.0, lost_at=5.0).acknowledged_lost == 1


def test_what_came_of_an_effect_that_a_restore_forgot_is_for_the_person_to_judge_who_was_asked() -> None:
    other = arrived(mail=0)
    other["mail", "0" * 12] = 1
    asked = [life(end="waiting", doubts=["mail"]), life(1)]
    assert judged(asked, other).wrong == 1
    assert judged(asked, other, kept_at=1.0, lost_at=2.0).wrong == 0
    assert judged([life()], other, kept_at=1.0, lost_at=2.0).wrong == 1


def test_a_commit_that_holds_what_somebody_else_wrote_is_wrong() -> None:
    task = TASKS["coding"]
    oracle = foretell(task, SEED)
    sent = Counter({(name, mark(meant.payload)): 1 for name, meant in oracle.effects.items()})
    done = {name: receipt(name, meant.kind) for name, meant in oracle.effects.items()}
    texts = {
        meant.payload["path"]: meant.payload["content"] for meant in oracle.effects.values() if meant.kind == "write"
    }
    final = Belief(oracle.notes, done, oracle.result, ended=True)
    assert judged([life()], sent, final, task, committed=lambda _, path: texts[path]).failed == []
    assert judged([life()], sent, final, task, committed=lambda _, path: texts[path] + "x").failed == ["wrong"]


def test_an_effect_that_the_store_knows_after_the_kill_is_in_no_doubt() -> None:
    """It was kept, and the kill came before that could be told."""
    begun = life(end="killed", calling=["mail"])
    assert judged([begun, life(1, belief=Belief(effects={"mail": EFFECTS["mail"]}))]).guessed == 0
    assert judged([begun, life(1, belief=Belief())]).guessed == 1


def test_the_audit_counts_what_the_store_alone_does_not_tell() -> None:
    score = judged(
        [life()], arrived(ticket=0), Belief(ORACLE.notes, {**EFFECTS, "mail2": 1}, ORACLE.result, ended=True)
    )
    assert score.audit_invented == 2
    bare = judged([life()], final=Belief(ORACLE.notes, {}, ORACLE.result, ended=True))
    assert bare.audit_missing == 3


def test_time_to_recover_is_that_of_the_first_new_operation() -> None:
    known = ("note", "a", 1)
    killed = life(end="killed", acks=acks(known, at=1.0))
    again = life(1, resumed=10.0, ended=20.0, acks=acks(known, ("note", "b", 2), at=11.0))
    assert recovery_seconds([killed, again]) == 2.0
    assert recovery_seconds([killed, life(1, resumed=10.0, ended=14.0)]) == 4.0
    assert recovery_seconds([life()]) is None


def test_growth_is_told_in_fifths_and_spares_the_first() -> None:
    squares = [Ack("note", str(n), n, 0.0, n * n) for n in range(51)]
    assert growth(squares) == [10.0, 30.0, 50.0, 70.0, 90.0]
    assert grown(growth(squares)) == 3.0
    assert growth([*squares, Ack("note", "51", 51, 0.0, 2_600)])[-1] == pytest.approx(1_000 / 11)
    assert growth(squares[:5]) == []


def test_states_that_lost_something_are_counted_and_some_are_told() -> None:
    score = judge(story([life()], states=500, taken=[f"state {n}" for n in range(100)]))
    assert (score.states, score.acknowledged_lost, len(score.detail)) == (500, 100, 8)
    assert score.failed == ["acknowledged_lost"]

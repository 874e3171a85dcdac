"""The journal: what is recorded at a place, and how a program that does something else is named."""

from __future__ import annotations

import pytest

from perdure.errors import Changed
from perdure.model.instants import to_datetime
from perdure.model.records.runs import StepRecord, WaitKind, WaitRecord, WaitState
from perdure.model.refs import Ref
from perdure.runtime.journal import Journal


def step(place: str, name: str = "look", digest: str = "d") -> StepRecord:
    return StepRecord(1, place, name, digest, f"value {place}", None, {})


def wait(place: str | None, state: WaitState, effect: int | None = None) -> WaitRecord:
    at = to_datetime(0)
    return WaitRecord(2, "run", "r", WaitKind.ASK, state, "", "?", (), None, None, place, effect, "d", "me", at, None, None,
                      None, "yes", Ref("u", 2))  # fmt: skip


def test_what_is_recorded_is_given_and_then_nothing_is_left():
    journal = Journal([step("0//1"), step("0//2")])
    assert journal.is_replaying
    assert journal.record_at("0//1", "step", "look", "d").value == "value 0//1"
    assert journal.record_at("0//3", "step", "look", "d") is None
    with pytest.raises(Changed):
        journal.check_used_up()
    assert journal.record_at("0//2", "step", "look", "d").value == "value 0//2"
    journal.check_used_up()
    assert (journal.is_replaying, len(journal)) == (False, 2)


@pytest.mark.parametrize(
    ("taken", "expected", "found"),
    [
        (("step", "other", "d"), "step look", "step other"),
        (("effect", "look", "d"), "step look", "effect look"),
        (
            ("step", "look", "e"),
            "step look with arguments d (a digest)",
            "step look with arguments e",
        ),
    ],
)
def test_something_else_is_named_with_its_place(taken, expected, found):
    journal = Journal([step("0/1.2/7")])
    with pytest.raises(Changed) as changed:
        journal.record_at("0/1.2/7", *taken)
    assert changed.value.facts == {"place": "0/1.2/7", "expected": expected, "found": found}
    assert "run.patched" in changed.value.hint
    assert journal.is_replaying  # it was not taken


@pytest.mark.parametrize(
    ("record", "counts"),
    [
        (wait("0//1", WaitState.OPEN), 1),
        (wait("0//1", WaitState.MET), 1),
        (wait("0//1", WaitState.WITHDRAWN), 0),  # by the end of the run: it is waited for anew
        (wait(None, WaitState.MET, effect=3), 0),  # an approval belongs to its effect
    ],
)
def test_which_waits_are_in_it(record, counts):
    assert len(Journal(waits=[record])) == counts


def test_what_changed_is_shown_by_the_shape_of_the_arguments_and_never_by_what_they_say(tmp_path):
    import perdure

    def look(token: str, count: int, **more: object) -> int:
        return count

    def program(token: str) -> object:
        @perdure.agent(name="looking")
        def looking(run: perdure.Run) -> None:
            run.step(look, token, 3, limit=[1, 2])
            run.wait("go")

        return looking

    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        with pytest.raises(perdure.Waiting):
            store.drive(program("hunter2"), key="k")  # type: ignore[arg-type]
        run = store.runs()[0]
        store.signal(run.id, "go")
        with pytest.raises(Changed) as changed:
            store.drive(program("longer-secret"), key="k")  # type: ignore[arg-type]
        assert changed.value.facts["reason"] == "changed"
        for shape in ("(str[7], int, limit=list[2])", "(str[13], int, limit=list[2])"):
            assert shape in str(changed.value)
        said = str([(event.data, event.about) for event in store.events(run=run.id, limit=100)]) + str(changed.value)
        assert "hunter2" not in said
        assert "longer-secret" not in said

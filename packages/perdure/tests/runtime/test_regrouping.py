"""A deploy that moves recorded verbs into another branch: nothing is done again, and it is noticed before anything is sent.

`regrouping.py` lives every pair of groupings at every point of a kill; some of its cases are lived here. PERDURE_ROUNDS=100 lives
all of them (more than 3,000), a smaller number so many percent, others with each PERDURE_SEED.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

import forked
import perdure
from perdure.cli.main import cli
from perdure.model.records.runs import StepRecord
from perdure.planes.execution import runs
from perdure.runtime import branch_waits, current_branch
from perdure.runtime.current_branch import in_branch
from perdure.runtime.journal import Branch, Journal, JournalEntry

PROGRAM = str(Path(__file__).with_name("regrouping.py"))
SHARE = os.environ.get("PERDURE_ROUNDS", "8")  # percent
SOME = (
    ()
    if "PERDURE_ROUNDS" in os.environ
    else ("sequence:gather", "gather:renamed", "children:named", "shuffled:shuffled")
)
SEED = os.environ.get("PERDURE_SEED", "0")
SEEN: list[str] = []


def swept(*words: str) -> tuple[str, dict[str, int]]:
    """What a sweep printed, and its counts."""
    done = forked.run(PROGRAM, "sweep", *words, timeout=None)
    lines = done.stdout.splitlines()
    assert lines, done.stderr
    return "\n".join(lines[:-1]), json.loads(lines[-1])


def test_no_pair_of_groupings_repeats_a_call_and_each_is_noticed_before_anything_is_sent():
    faults, counts = swept(*SOME, "--share", SHARE, "--seed", SEED)
    assert not faults
    assert counts["cases"] == counts.get("completed", 0) + counts.get("parked", 0)
    assert counts["parked"], "no case was changed: nothing was tried"


def test_control_a_sweep_in_which_nothing_is_held_finds_repetitions():
    _, counts = swept("sequence:gather", "answer-sequence:answer-gather", "--unheld", "--share", "20")
    assert counts.get("twice")


# -- one program at a time ----------------------------------------------------------------------------------------------------


@perdure.tool
def send(whom: str) -> str:
    SEEN.append(whom)
    return whom


def think(about: str) -> str:
    SEEN.append(about)
    return about


@pytest.fixture
def store(tmp_path):
    SEEN.clear()
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        yield store


def driven(store: perdure.Store, program: Any) -> Any:
    """What a drive of the one run gives; its error, if it raises one."""
    try:
        return store.drive(program, key="k")
    except perdure.Error as error:
        return error


def deploys(**options: Any) -> tuple[Any, Any]:
    """A program that does two things in order and asks, and its successor that gathers them."""

    @perdure.agent(name="calling", **options)
    async def old(run: perdure.AsyncRun) -> Any:
        await run.act(send, "ann")
        return await run.ask("?")

    @perdure.agent(name="calling", **options)
    async def new(run: perdure.AsyncRun) -> Any:
        await asyncio.gather(run.act(send, "ann"), run.act(send, "bob"))
        return await run.ask("?")

    return old, new


def test_the_park_names_the_record_and_the_verb_and_the_old_program_goes_on_from_there(store):
    old, new = deploys()
    assert isinstance(driven(store, old), perdure.Waiting)
    (run,) = store.runs()
    run.resume()
    parked = driven(store, new)
    assert isinstance(parked, perdure.Changed)
    assert "at 0//1 it did effect send, and now does effect send at 0/1/1, of which nothing was sent" in parked.message
    assert SEEN == ["ann"]
    run.resume()
    assert isinstance(driven(store, old), perdure.Waiting)
    assert (SEEN, run.refresh().status) == (["ann"], "waiting")


def test_a_branch_that_waits_for_something_of_its_own_may_move_and_the_hold_is_told(
    store, monkeypatch, caplog, tmp_path
):
    monkeypatch.setattr(branch_waits, "TOLD_SECONDS", 0)
    old, _ = deploys()

    @perdure.agent(name="calling", hold=0.05)
    async def new(run: perdure.AsyncRun) -> Any:
        never = asyncio.Event()  # set by nobody: a lock of the program's own
        await asyncio.gather(run.act(send, "ann"), never.wait())

    assert isinstance(driven(store, old), perdure.Waiting)
    (run,) = store.runs()
    run.resume()
    with caplog.at_level(logging.WARNING, "perdure.run"):
        assert isinstance(driven(store, new), perdure.Changed)
    assert "holds effect send, because what is recorded at 0//1 was not reached" in caplog.text
    (event,) = store.events(run=run.id, kind="run.held")
    assert event.data == {"verb": "effect send", "place": "0/1/1", "holding": "0//1"}
    shown = CliRunner().invoke(cli, ["show", run.id, "--store", f"sqlite:///{tmp_path}/a.db"])
    assert "effect send waits until 0//1 is reached" in shown.output
    assert SEEN == ["ann"]


def test_a_program_that_gives_up_on_a_held_verb_is_parked_all_the_same(store):
    old, _ = deploys()

    @perdure.agent(name="calling")
    async def new(run: perdure.AsyncRun) -> Any:
        async with asyncio.timeout(0.01):
            await asyncio.gather(run.act(send, "ann"))

    assert isinstance(driven(store, old), perdure.Waiting)
    (run,) = store.runs()
    run.resume()
    assert isinstance(driven(store, new), perdure.Changed)
    assert SEEN == ["ann"]


@perdure.agent(name="retried")
async def retried(run: perdure.AsyncRun) -> Any:
    """Goes on after the failure of a branch, and ends by it."""

    async def ask() -> str:
        return await run.model(doubting, "x")

    try:
        found = await asyncio.gather(ask())
    except perdure.Failed as error:
        failed: BaseException = error
    else:
        return found
    await run.act(send, "ann")
    raise failed


def doubting(about: str) -> str:
    SEEN.append(about)
    raise ValueError("no")


def test_a_verb_that_was_retried_is_done_anew_whatever_came_after_it(store):
    for _ in range(2):
        assert isinstance(driven(store, retried), perdure.Failed)
        store.runs()[0].retry()
    assert SEEN == ["x", "ann", "x"]


def test_control_it_would_be_parked_as_any_new_verb(store, monkeypatch):
    assert isinstance(driven(store, retried), perdure.Failed)
    store.runs()[0].retry()
    monkeypatch.setattr(JournalEntry, "is_verb", lambda *_: False)
    assert isinstance(driven(store, retried), perdure.Changed)
    assert SEEN == ["x", "ann"]


# -- the rule -----------------------------------------------------------------------------------------------------------------


def step(place: str, name: str = "look", digest: str = "d") -> StepRecord:
    return StepRecord(1, place, name, digest, None, None, {})


@pytest.fixture
def trunk() -> Branch:
    """A trunk with the branches 1, 2, 2.1 and 3; 3 came to its end."""
    trunk = Branch()
    _, two, _ = trunk.child(), trunk.child(), trunk.child()
    two.child()
    trunk.ended.add("3")
    return trunk


NEW = JournalEntry("effect", "send", "n", None)


@pytest.mark.parametrize(
    ("place", "held"),
    [
        ("0//1", True),  # in a line that it left
        ("0/4/1", True),  # in a branch that is not begun
        ("0/1.1/1", True),  # which it would begin itself
        ("0/.'a'/1", True),
        ("0/3/1", True),  # in one that came to its end
        ("0/3.1/1", True),
        ("0/2/1", False),  # in a live one beside
        ("0/2.1/1", False),
        ("0/2.2/1", False),  # which a live one may begin
        ("0/1/2", False),  # ahead in its own
        ("0/patch/a", False),
        ("0/left/1", False),
    ],
)
def test_which_records_hold_a_new_verb(trunk, place, held):
    branch = Branch("1", trunk)
    found = Journal([step(place)]).place_that_holds(branch, "0/1/1", NEW, {"1"}, set())
    assert found == (place if held else None)


def test_a_live_branch_beside_holds_the_same_verb_and_all_once_it_is_held_itself(trunk):
    branch, journal = Branch("1", trunk), Journal([step("0/2/1")])
    same = JournalEntry("step", "look", "d", None)
    assert journal.place_that_holds(branch, "0/1/1", same, {"1"}, set()) == "0/2/1"
    assert journal.place_that_holds(branch, "0/1/1", same._replace(digest="other"), {"1"}, set()) is None
    assert journal.place_that_holds(branch, "0/1/1", NEW, {"1"}, {"2"}) == "0/2/1"


def test_a_named_branch_is_held_by_what_stands_in_the_task_that_uses_it(trunk):
    with in_branch(Branch("1", trunk)):
        lines = current_branch.lines_here(named := trunk.named("a"))
    assert lines == {"1", ".'a'"}
    assert Journal([step("0/1/1")]).place_that_holds(named, "0/.'a'/1", NEW, lines, set()) == "0/1/1"


def test_what_was_reached_or_forgotten_holds_nothing(trunk):
    branch, journal = Branch("1", trunk), Journal([step("0//1"), step("0/4.1/1")])
    journal.forget_branches({"4"})
    assert journal.place_that_holds(branch, "0/1/1", NEW, {"1"}, set()) == "0//1"
    journal.record_at("0//1", "step", "look", "d")
    assert journal.place_that_holds(branch, "0/1/1", NEW, {"1"}, set()) is None


def test_a_verb_that_is_done_anew_at_its_place_is_not_held(trunk):
    journal = Journal([step("0//1")], retried=[step("0/1/1", "model")])
    branch, again = Branch("1", trunk), JournalEntry("step", "model", "d", None)
    assert journal.place_that_holds(branch, "0/1/1", again, {"1"}, set()) is None
    assert journal.place_that_holds(branch, "0/1/1", NEW, {"1"}, set()) == "0//1"


def test_the_end_of_a_branch_is_known_before_asyncio_tells_it():
    async def main() -> tuple[set[str], set[str]]:
        trunk = Branch()
        current_branch.number_branches(asyncio.get_running_loop())
        with in_branch(trunk):
            done, stopped = asyncio.create_task(asyncio.sleep(0)), asyncio.create_task(asyncio.sleep(60))
        stopped.cancel()
        while not (done.done() and stopped.done()):
            await asyncio.sleep(0)
            trunk.note_ends()
            if done.done():
                assert trunk.ended == {"1"}
        return trunk.ended, trunk.unfinished

    assert asyncio.run(main()) == ({"1"}, {"2"})


# -- sagas --------------------------------------------------------------------------------------------------------------------


def test_the_saga_of_an_effect_is_part_of_its_record_and_an_old_record_fits_every_saga(store):
    @perdure.agent(name="undoing")
    def inside(run: perdure.Run) -> None:
        with run.saga():
            run.act(send, "ann")

    store.drive(inside, key="k")
    (effect,) = store.effects()
    assert effect.record.sagas == ("/0",)
    for record, scopes in (
        (effect.record, [("/0",)]),
        (msgspec.structs.replace(effect.record, sagas=None), [("/0",), ()]),
    ):
        for sagas in ((), ("/0",)):
            journal = Journal(effects=[record])
            about = (effect.record.place or "", "effect", "send", record.digest, None, sagas)
            if sagas in scopes:
                assert journal.record_at(*about) is record
            else:
                with pytest.raises(
                    perdure.Changed, match="inside the sagas begun at /0, and now does effect send outside any saga"
                ):
                    journal.record_at(*about)


# -- how a Python wraps a coroutine ---------------------------------------------------------------------------------------------

WRAPPED = {
    "a task": "async def wait_for(fut, timeout):\n    async with limit(timeout):\n        return await ensure_future(fut)",
    "in place": "async def wait_for(fut, timeout):\n    async with limit(timeout):\n        return await fut",
}


def choose_python(monkeypatch: pytest.MonkeyPatch, wraps: str) -> None:
    """Let `asyncio.wait_for` be as in Python 3.11 (a task), or as in later ones (in place)."""
    known: dict[str, Any] = {
        "__name__": "asyncio.tasks",
        "limit": asyncio.timeout,
        "ensure_future": asyncio.ensure_future,
    }
    exec(WRAPPED[wraps], known)  # it counts by its frame, which must be one of asyncio
    monkeypatch.setattr(asyncio, "wait_for", known["wait_for"])
    monkeypatch.setattr(current_branch, "MAKES_A_TASK", wraps == "a task")


@perdure.agent(name="waiting", hold=0.1)
async def waiting(run: perdure.AsyncRun) -> Any:
    async def two(first: str, second: str) -> list[str]:
        return [await run.act(send, first), await asyncio.wait_for(run.act(send, second), 60)]

    found = await asyncio.wait_for(two("ann", "bob"), 60)
    rest = await asyncio.wait_for(asyncio.gather(two("cat", "dan"), asyncio.wait_for(two("eve", "fay"), 60)), 60)
    return found, rest, await asyncio.wait_for(run.ask("?"), 60)


def moved(
    store: perdure.Store, monkeypatch: pytest.MonkeyPatch, first: str, second: str
) -> tuple[Any, set[str | None]]:
    """What a run gives that waits in one Python and goes on in another, and its places in the first."""
    choose_python(monkeypatch, first)
    assert isinstance(driven(store, waiting), perdure.Waiting)
    found = {effect.record.place for effect in store.effects()}
    choose_python(monkeypatch, second)
    store.answer(store.asks()[0].id, "yes")
    return driven(store, waiting), found


@pytest.mark.parametrize("first", WRAPPED)
@pytest.mark.parametrize("second", WRAPPED)
def test_places_do_not_depend_on_how_a_python_wraps_a_coroutine(store, monkeypatch, first, second):
    ended, found = moved(store, monkeypatch, first, second)
    assert isinstance(ended, tuple), ended
    assert sorted(SEEN) == ["ann", "bob", "cat", "dan", "eve", "fay"]
    assert found == {"0//1", "0//2", "0/1/1", "0/1/2", "0/2/1", "0/2/2"}
    assert store.runs()[0].record.numbering == 2


@pytest.mark.parametrize("first", WRAPPED)
@pytest.mark.parametrize("second", WRAPPED)
def test_a_run_that_began_with_the_older_numbering_keeps_it(store, monkeypatch, first, second):
    monkeypatch.setattr(runs, "NUMBERING", runs.BY_PYTHON)
    ended, found = moved(store, monkeypatch, first, second)
    assert isinstance(ended, tuple), ended
    assert sorted(SEEN) == ["ann", "bob", "cat", "dan", "eve", "fay"]
    assert ("0/1.1/1" in found) == (first == "a task")


@pytest.mark.parametrize(("first", "second"), [("a task", "in place"), ("in place", "a task")])
def test_control_without_the_older_numbering_it_is_parked(store, monkeypatch, first, second):
    monkeypatch.setattr(runs, "NUMBERING", runs.BY_PYTHON)
    monkeypatch.setattr(current_branch.WaitForBranches, "_is_branch", lambda *_: current_branch.MAKES_A_TASK)
    ended, _ = moved(store, monkeypatch, first, second)
    assert isinstance(ended, perdure.Changed)
    assert len(SEEN) == 6


def test_a_fork_has_the_numbering_of_its_run(store, monkeypatch):
    choose_python(monkeypatch, "a task")
    monkeypatch.setattr(runs, "NUMBERING", runs.BY_PYTHON)
    assert isinstance(driven(store, waiting), perdure.Waiting)
    monkeypatch.undo()
    (run,) = store.runs()
    assert run.fork(at="0/1/1", replace="zoe").record.numbering == runs.BY_PYTHON

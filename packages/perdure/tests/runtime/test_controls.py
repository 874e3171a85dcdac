"""Controls for the contract of effects and runs: each takes one rule away, and the proof of that rule must fail."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from perdure.effects import commits, effect_engine, ending, ledger, operator_verbs, outcomes, settling
from perdure.effects.commits import Dispatcher
from perdure.effects.effect_engine import EffectEngine
from perdure.effects.settling import Action, Advice
from perdure.errors import Error
from perdure.handles.aio.run import AsyncSaga as Saga
from perdure.planes.execution import leases, runs, steps, waits
from perdure.runtime import current_branch, driver, run_engine
from perdure.runtime.invoking import Flight
from perdure.runtime.journal import BranchPoint, BranchSpan, Journal
from perdure.runtime.run_engine import RunEngine
from perdure.runtime.run_state import Hold, RunState, Sagas
from perdure.stores.tool_limits import Slots
from perdure_testing.contract.aio.acting import AsyncActingContract
from perdure_testing.contract.aio.batch import AsyncBatchContract, AsyncLimitsContract
from perdure_testing.contract.aio.children import AsyncChildrenContract
from perdure_testing.contract.aio.cuts import AsyncCutsContract
from perdure_testing.contract.aio.doubt import AsyncDoubtContract, AsyncGuardsContract
from perdure_testing.contract.aio.effects import AsyncLedgerContract
from perdure_testing.contract.aio.endings import AsyncEndingsContract
from perdure_testing.contract.aio.going_on import (
    AsyncForgottenContract,
    AsyncLookingAgainContract,
    AsyncRetryingContract,
)
from perdure_testing.contract.aio.programs import AsyncProgramsContract, Deployed
from perdure_testing.contract.aio.restored import AsyncRestoredContract
from perdure_testing.contract.aio.runs import AsyncRunsContract
from perdure_testing.contract.aio.sagas import AsyncSagasContract, AsyncUndoingContract
from perdure_testing.contract.aio.waits import AsyncBranchesContract, AsyncWaitsContract
from perdure_testing.openers import AsyncOpener

BROKEN = (AssertionError, pytest.fail.Exception, Error, LookupError, ValueError, TimeoutError)
CHANGED = {
    change[0]: dict(zip(("change", "place", "expected", "found"), change, strict=True)) for change in Deployed.CHANGES
}
as_written = ledger._move
planned_whole = commits.plan_batch
taken_at_once = Slots.take
found_to_undo = Sagas.effects_to_undo


def loose_arrow(tx: Any, stream: Any, found: Any, verb: str, *rest: Any) -> Any:
    """An arrow that begins anywhere."""
    return as_written(
        tx, stream, msgspec.structs.replace(found, state=next(iter(ledger.ARROWS[verb].sources))), verb, *rest
    )


def always_rest(
    tx: Any, stream: Any, _lease: Any, reason: str, wake_us: int | None, limit_us: int | None, awaited: Any
) -> None:
    times = [at for at in (wake_us, limit_us, waits.next_expiry(tx, stream, awaited)) if at is not None]
    runs.wait(tx, stream, reason, min(times, default=None))


def first_alone(tx: Any, stream: Any, batch: Any, dispatcher: Any, *, first: bool) -> Any:
    """A batch of which only the first call is written down; the others are planned when it is their turn."""
    begun = planned_whole(tx, stream, batch[:1], dispatcher, first=first)
    return begun + [(begun[0][0], False) for _ in batch[1:]]


def careless(tx: Any, stream: Any, made: Any, outcome: Any, following: int, dispatcher: Any) -> Any:
    """The next effect is dispatched though the run was called off."""
    ended = commits.commit_and_answer_call(tx, stream, made, outcome)
    dispatcher.dispatched = ledger.begin_next_attempt(tx, stream, following, dispatcher.sender)
    return ended, dispatcher.dispatched


def unchecked(tx: Any, stream: Any, intent: Any, dispatcher: Any) -> Any:
    """An effect is dispatched though the run was called off."""
    dispatcher.dispatched = ledger.begin_first_attempt(tx, stream, intent, dispatcher.sender)
    return dispatcher.dispatched, True


def no_doubt_left(*_: Any) -> Iterator[Any]:
    """Nothing is settled before an undo, and nothing is waited for."""
    yield from ()


async def entered_unseen(saga: Any) -> Any:
    """A saga that nobody counts."""
    saga._mark = saga._run._here().mark(saga._run._engine.replay.cut)
    return saga


def remembered(_engine: Any, meant: Any, _known_seq: int) -> Iterator[Any]:
    """What is meant is taken to be new, whatever a restore lost."""
    yield from ()
    return meant


# what is taken away -> the object, the attribute and what stands there instead; the proof and its parameters
CONTROLS: dict[str, tuple[Any, str, Any, type, str, dict[str, Any]]] = {
    "an arrow begins only where it may": (
        ledger, "_move", loose_arrow, AsyncLedgerContract, "test_every_arrow_and_no_other",
        {"state": "committed"},
    ),
    "of two dispatchers one sends": (
        ledger, "_move", loose_arrow, AsyncLedgerContract, "test_two_at_once_follow_an_arrow_once", {},
    ),
    "a key stands for one input": (
        ledger, "standing", lambda tx, stream, intent: ledger.find(tx, stream, intent.key), AsyncActingContract,
        "test_the_same_key_gives_the_stored_result_without_a_call", {},
    ),
    "the result of a call lands with its effect": (
        commits, "answer_call", lambda *_: None, AsyncActingContract,
        "test_the_result_of_a_call_lands_in_the_same_commit", {},
    ),
    "a call is looked for before anything is sent": (
        commits, "intent_for_call", lambda _tx, _stream, intent: intent, AsyncActingContract,
        "test_a_call_that_nobody_made_is_refused_before_anything_is_sent", {},
    ),
    "retries have an end": (
        settling, "_used_up", lambda effect: effect.attempt > 5, AsyncActingContract,
        "test_what_may_be_called_again_is_until_its_retries_are_used_up", {},
    ),
    "a settlement is a person's, once": (
        operator_verbs, "settle",
        lambda tx, stream, seq, verdict, by, about, **_: commits.settle_and_wake(
            tx, stream, seq, 1, operator_verbs._outcome(verdict, by)
        ), AsyncActingContract, "test_of_two_who_settle_one_does", {},
    ),
    "a thread that was left behind is not quiet": (
        Flight, "abandon", lambda flight, late: setattr(flight, "_late", late), AsyncDoubtContract,
        "test_whoever_cancels_an_act_leaves_doubt_and_a_thread_is_not_quiet", {},
    ),
    "absent is not final at once": (
        settling, "after_absent", lambda *_: Advice(Action.AGAIN, "now"), AsyncDoubtContract,
        "test_absent_is_final_only_when_what_was_sent_has_had_its_time", {},
    ),
    "what cannot be kept happened all the same": (
        outcomes, "kept", lambda result: result, AsyncActingContract,
        "test_a_result_that_cannot_be_kept_happened_all_the_same", {},
    ),
    "verdicts of guards are recorded": (
        effect_engine, "verdicts_of", lambda *_: ([], None), AsyncGuardsContract,
        "test_verdicts_of_guards_are_recorded_also_when_they_pass", {},
    ),
    "an approval binds to its call": (
        commits, "is_approved", lambda *_: True, AsyncGuardsContract, "test_no_answer_in_time_is_a_no", {},
    ),
    "an approval is used once": (
        waits, "spend", lambda *_: None, AsyncWaitsContract, "test_an_approval_is_of_one_call_and_is_used_once", {},
    ),
    "a stale lease writes nothing": (
        leases, "check_lease", lambda *_: None, AsyncRunsContract, "test_a_stale_lease_writes_nothing", {},
    ),
    "a changed program is noticed": (
        Journal, "record_at", lambda journal, place, *_: getattr(journal._entries.get(place), "record", None),
        AsyncProgramsContract, "test_a_changed_program_is_named_and_does_nothing", CHANGED["more"],
    ),
    "what is left out is noticed": (
        Journal, "check_used_up", lambda _: None, AsyncProgramsContract, "test_a_changed_program_is_named_and_does_nothing",
        CHANGED["fewer"],
    ),
    "a step that ended its run is tried again": (
        Hold, "forget_unrecorded_steps", lambda _: None, AsyncRetryingContract,
        "test_a_step_is_done_anew_whatever_its_program_made_of_its_failure", {},
    ),
    "the step that ended its run is done anew": (
        steps, "redo", lambda *_: None, AsyncRetryingContract,
        "test_a_failed_step_is_done_anew_though_another_branch_wrote_since", {},
    ),
    "what was only meant is meant again": (
        operator_verbs, "_ask_anew", lambda *_: None, AsyncRetryingContract, "test_what_was_to_be_approved_is_asked_anew",
        {"end": "cancel"},
    ),
    "a run that is tried again has its time": (
        runs, "_time_anew", lambda *_: {}, AsyncRetryingContract, "test_a_run_that_took_too_long_has_its_time_anew", {},
    ),
    "a run goes on in one place": (
        runs, "was_moved", lambda *_: False, AsyncRetryingContract,
        "test_a_run_that_was_handed_over_goes_on_here_only_when_it_is_unparked", {},
    ),
    "what was undone is not acted upon": (
        Sagas, "undone_for", lambda *_: None, AsyncUndoingContract,
        "test_a_run_that_was_undone_is_not_tried_again", {"how": "refused"},
    ),
    "a saga is not cut": (
        Saga, "__aenter__", entered_unseen, AsyncUndoingContract, "test_a_saga_is_not_cut", {},
    ),
    "what a saga holds is where it is": (
        BranchPoint, "was_begun_after", lambda mark, branch: branch != mark.path, AsyncUndoingContract,
        "test_what_was_begun_before_stays_whatever_finishes_first", {"asks": True},
    ),
    "what was stopped is undone though it was not reached": (
        BranchSpan, "ends", lambda *_: False, AsyncUndoingContract,
        "test_a_task_that_was_stopped_is_undone_at_every_replay", {},
    ),
    "nothing arrives after it was undone": (
        EffectEngine, "advice_until_landed", no_doubt_left, AsyncUndoingContract,
        "test_what_was_given_up_is_undone_only_when_it_can_no_longer_arrive", {},
    ),
    "a parked run undoes when it is cancelled": (
        ending, "_can_undo", lambda *_: False, AsyncUndoingContract,
        "test_a_parked_run_that_is_cancelled_undoes_what_it_did", {},
    ),
    "doubt is looked at again": (
        settling, "look_again", lambda _effect, _now, reason: Advice(Action.PERSON, reason), AsyncLookingAgainContract,
        "test_a_probe_that_cannot_tell_now_is_asked_again", {},
    ),
    "a restore forgets": (
        RunEngine, "_doubt_if_forgotten", remembered, AsyncRestoredContract,
        "test_a_probe_is_asked_before_something_new_is_sent", {},
    ),
    "a restore forgets batches, too": (
        RunEngine, "_maybe_forgotten", lambda *_: False, AsyncRestoredContract,
        "test_what_follows_from_something_found_out_anew_is_asked_about", {"kind": "keyed", "batch": True},
    ),
    "after a restore other arguments may have been sent": (
        leases, "has_strayed", lambda *_: False, AsyncRestoredContract,
        "test_what_follows_from_something_found_out_anew_is_asked_about", {"kind": "keyed", "batch": False},
    ),
    "a child may have been started before a restore": (
        runs, "is_known", lambda *_: True, AsyncRestoredContract, "test_a_child_is_as_wary_as_its_parent", {},
    ),
    "what a stopped task did more of is not missed": (
        Journal, "forget_branches", lambda *_: None, AsyncForgottenContract, "test_what_nobody_waits_for_is_not_missed", {},
    ),
    "the effect that ended its run is tried again": (
        ledger, "revive", lambda *_: None, AsyncRunsContract, "test_only_the_effect_that_ended_it_is_tried_again", {},
    ),
    "a run has one key": (
        runs, "_by_key", lambda *_: None, AsyncRunsContract, "test_the_same_key_is_the_same_run", {},
    ),
    "a cut loses sight of nothing": (
        run_engine, "cut_run", lambda tx, stream, *_: (runs.cut(tx, stream), tx.seq(stream)), AsyncCutsContract,
        "test_a_cut_must_not_lose_sight_of_anything", {},
    ),
    "a run that waits has its time": (
        Hold, "check_may_continue", lambda _: None, AsyncSagasContract,
        "test_a_cancelled_run_undoes_what_it_did", {},
    ),
    "a cancelled run undoes": (
        ending, "_can_undo", lambda *_: False, AsyncSagasContract, "test_a_cancelled_run_undoes_what_it_did", {},
    ),
    "undoing goes in reverse": (
        Sagas, "effects_to_undo", lambda *about: found_to_undo(*about)[::-1],
        AsyncSagasContract, "test_what_was_done_is_undone_in_reverse", {},
    ),
    "a saga settles what it interrupted": (
        RunEngine, "_settle_effects_in", no_doubt_left, AsyncBranchesContract,
        "test_a_saga_settles_what_it_interrupted_and_leaves_other_branches_alone", {},
    ),
    "an answer in the meantime is not lost": (
        driver, "go_to_rest", always_rest, AsyncBranchesContract,
        "test_an_answer_that_comes_while_another_branch_works_is_not_lost", {},
    ),
    "tasks are numbered": (
        current_branch, "number_branches", lambda _: None, AsyncBranchesContract, "test_branches_replay_whatever_finishes_first",
        {"seed": 0},
    ),
    "what an agent catches does not end its run": (
        RunState, "check_returned", lambda _: None, AsyncBranchesContract,
        "test_what_an_agent_catches_does_not_end_its_run", {},
    ),
    "the children of a cancelled run are cancelled": (
        ending, "_open_children", lambda *_: [], AsyncChildrenContract,
        "test_the_children_of_a_cancelled_run_are_cancelled_with_it", {},
    ),
    "what was cancelled with a run is tried again with it": (
        operator_verbs, "_left_with_it", lambda *_: [], AsyncChildrenContract,
        "test_what_was_cancelled_with_a_run_is_tried_again_with_it", {},
    ),
    "what a failed run waited for is waited for anew": (
        waits, "start_child", lambda tx, stream, wanted, epoch, place, mark: waits.open_wait(
            tx, stream, waits.WaitKind.CHILD, place=place, name=runs.start(tx, wanted, epoch)[0].name,
            doc={"question": wanted.agent}, mark=mark,
        ), AsyncChildrenContract, "test_what_a_failed_run_waited_for_is_waited_for_anew", {},
    ),
    "a result lands with the next dispatch": (
        EffectEngine, "_try_slot", lambda *_: False, AsyncBatchContract, "test_n_calls_take_n_and_one_commits",
        {"count": 2},
    ),
    "all calls are planned with the answer": (
        commits, "plan_batch", first_alone, AsyncBatchContract, "test_all_calls_are_known_before_the_first_is_sent", {},
    ),
    "a cancelled run begins no further call": (
        commits, "end_and_dispatch_next", careless, AsyncBatchContract, "test_a_cancelled_run_sends_no_further_call", {},
    ),
    "who dispatches sees in that commit whether his run is cancelled": (
        commits, "dispatch_under_lease", unchecked, AsyncEndingsContract,
        "test_a_cancel_that_is_first_seen_by_the_commit_of_a_dispatch_lets_nothing_be_sent", {"sends": "an effect"},
    ),
    "so does who dispatches the first of a batch": (
        Dispatcher, "may_begin", True, AsyncEndingsContract,
        "test_a_cancel_that_is_first_seen_by_the_commit_of_a_dispatch_lets_nothing_be_sent", {"sends": "a batch"},
    ),
    "a slot comes back": (
        EffectEngine, "_give_slot", lambda *_: None, AsyncLimitsContract,
        "test_a_slot_comes_back_whatever_happens", {},
    ),
    "a limit holds": (
        Slots, "take", lambda slots, name, _limit: taken_at_once(slots, name, 1_000), AsyncLimitsContract,
        "test_so_many_at_once_and_no_more", {"limit": 3},
    ),
}  # fmt: skip


@pytest.mark.parametrize("rule", CONTROLS)
def test_without_its_rule_a_proof_fails(tmp_path, monkeypatch, rule):
    where, name, instead, contract, proof, given = CONTROLS[rule]
    begun = time.monotonic()
    prove(contract, proof, AsyncOpener(f"sqlite:///{tmp_path}/good.db"), given, 60)
    enough = 2 + 10 * (time.monotonic() - begun)  # what has not come by then does not come
    monkeypatch.setattr(where, name, instead)
    with pytest.raises(BROKEN):
        prove(contract, proof, AsyncOpener(f"sqlite:///{tmp_path}/broken.db"), given, enough)


def prove(contract: type, proof: str, opener: AsyncOpener, given: dict[str, Any], patience_seconds: float) -> None:
    asyncio.run(asyncio.wait_for(_bound(contract, proof)(opener=opener, **given), patience_seconds))


def _bound(contract: type, proof: str) -> Callable[..., Any]:
    return getattr(contract(), proof)

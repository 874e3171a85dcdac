"""Runs, effects and questions: what clients begin, and what people decide about them. One route a verb."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.effects import adopting, commits, ledger, operator_verbs
from perdure.effects.ledger import Outcome
from perdure.errors import Conflict, InDoubt
from perdure.handles.aio.requests import AsyncRequests
from perdure.handles.atomic import Atomic
from perdure.log.change import Stream
from perdure.model.pins import OnChange, versions_of
from perdure.model.records.conversation import Call
from perdure.model.records.effects import Absent, Declined, EffectError, EffectState, Happened, Verdict
from perdure.model.records.runs import RunRecord
from perdure.planes import subjects
from perdure.planes.access import limits
from perdure.planes.execution import runs, waits
from perdure.planes.execution.runs import RunRequest
from perdure.runtime.callers import stream_of
from perdure.verbs.declaring import Right
from perdure_server.http.answers import (
    AskAnswer,
    EffectAnswer,
    RunAnswer,
    ask_answer,
    effect_answer,
    run_answer,
)
from perdure_server.http.call import HttpCall
from perdure_server.http.inputs import (
    AnswerInput,
    EffectInput,
    OutcomeInput,
    RunForkInput,
    RunInput,
    SettleInput,
)
from perdure_server.http.table import MarkedIn, route
from perdure_server.http.wire import encoded, value_from

RUN, EFFECT, ASK, SESSION = MarkedIn.RUN, MarkedIn.EFFECT, MarkedIn.ASK, MarkedIn.SESSION

# -- runs --------------------------------------------------------------------------------------------------------


@route("POST", "/v1/runs", Right.WRITE, RunAnswer, status=201, takes_key=True)
async def start_run(call: HttpCall, body: RunInput) -> Any:
    """Begin a run and leave it to the workers. The Idempotency-Key is the run's key: the same key and arguments give the
    same run.
    """
    wanted = RunRequest(
        agent=body.agent, args=value_from(body.args, "body.args"), kwargs=value_from(body.kwargs, "body.kwargs"),
        key=call.key, session=body.session, timeout=body.timeout, about=tuple(body.about),
        pins=versions_of(body.pins, "body.pins"), on_change=None if body.on_change is None else OnChange(body.on_change),
    )  # fmt: skip
    most = call.serving.admission.runs_limit(call.identity.token.tenant)
    stream = await call.caller.write(limits.start_run, wanted, call.caller.core.epoch, most)
    return run_answer(await call.caller.read(runs.run, stream))


def _stands(tx: Atomic, stream: Stream) -> RunAnswer:
    found: RunRecord = tx.inside(runs.run, stream)
    return run_answer(found)


@route("POST", "/v1/runs/{run}/forks", Right.OPERATE, RunAnswer, status=201, takes_key=True)
async def fork_run(call: HttpCall, body: RunForkInput) -> Any:
    """Another run that continues from a place of this one, as if that had given another result.

    Without a key two calls make two.
    """
    run = await call.run()
    made = await run._supposed(body.at, value_from(body.replace, "body.replace"), allow_effects=body.allow_effects)

    def adopt(tx: Atomic) -> Any:
        return encoded(_stands(tx, tx.inside(adopting.adopt, made.envelope, made.luggage, call.caller.core.epoch)))

    if call.key is None:
        return await call.store.atomic(adopt)
    asked = call.request("fork_run", body)
    return await AsyncRequests(call.caller, stream_of(run)).once(call.key, adopt, asked=asked)


# -- questions -----------------------------------------------------------------------------------------------------


@route("POST", "/v1/asks/{ask}/answer", Right.OPERATE, AskAnswer, target=ASK)
def answer_ask(tx: Atomic, call: HttpCall, body: AnswerInput) -> Any:
    """Answer a question or an approval, once: a second answer is a conflict that says who was first."""
    stream, seq = tx.inside(operator_verbs.locate, call.parts["ask"], "ask")
    value = value_from(body.value, "body.value")
    return ask_answer(tx.inside(waits.answer, stream, seq, value, call.store.actor, body.about))


# -- effects -------------------------------------------------------------------------------------------------------


@route("POST", "/v1/sessions/{session}/effects", Right.WRITE, EffectAnswer, status=201, takes_key=True)
async def begin_effect(call: HttpCall, body: EffectInput) -> Any:
    """Plan an effect that the client carries out. The Idempotency-Key is its key: look at its state before you dispatch."""
    session = await call.session()
    args = value_from(body.args, "body.args")
    answered = None if body.call is None else Call(body.call, body.tool, args)
    begun = await session.begin(body.tool, args, kind=body.kind, key=call.key, call=answered, about=body.about)
    return effect_answer(begun.record)


@route("POST", "/v1/effects/{effect}/dispatch", Right.WRITE, EffectAnswer, target=EFFECT)
def dispatch_effect(tx: Atomic, call: HttpCall) -> Any:
    """Make the intent durable right before you act: only after this answer may it be sent. Of several callers one gets it.

    With a key, the same answer again while the effect stands as this dispatch left it; a conflict once it was doubted, settled
    or dispatched again.
    """
    return effect_answer(tx.effect(call.parts["effect"]).dispatch().record)


@route("POST", "/v1/effects/{effect}/outcome", Right.WRITE, EffectAnswer, target=EFFECT)
def end_effect(tx: Atomic, call: HttpCall, body: OutcomeInput) -> Any:
    """Record the outcome of an effect that you dispatched."""
    stream, seq = tx.inside(operator_verbs.locate, call.parts["effect"], "effect")
    known = tx.inside(ledger.effect, stream, seq)
    operator_verbs.check_own(known)
    if body.attempt is not None:
        known = msgspec.structs.replace(known, attempt=body.attempt)
    if body.outcome == "failed":
        outcome = Outcome(error=EffectError(body.code, body.error), about=subjects.named(body.about))
    else:
        outcome = Outcome(value_from(body.result, "body.result"), about=subjects.named(body.about))
    return effect_answer(tx.inside(commits.end_with_checkpoint, stream, known, outcome))


@route("POST", "/v1/effects/{effect}/settle", Right.OPERATE, EffectAnswer, target=EFFECT)
def settle_effect(tx: Atomic, call: HttpCall, body: SettleInput) -> Any:
    """Record the outcome of an effect in doubt. Of two callers that settle at once, one gets a conflict."""
    verdicts: dict[str, Verdict] = {
        "happened": Happened(value_from(body.result, "body.result")),
        "absent": Absent(body.reason),
        "declined": Declined(body.reason),
    }
    found = tx.effect(call.parts["effect"])
    return effect_answer(found.settle(verdicts[body.verdict], force=body.force, about=body.about).record)


async def still_dispatched(call: HttpCall, answered: Any) -> Any:
    """A kept answer of a dispatch holds only while the effect stands where that dispatch left it (0045).

    InDoubt once somebody recorded doubt, Conflict once it was settled or dispatched again: sending now could be sending twice.
    """
    found = (await call.store.effect(call.parts["effect"])).record
    if found.state is EffectState.IN_DOUBT:
        raise InDoubt(f"the outcome of {found.id} is unknown", path="effect", hint="settle it first")
    if (found.state, found.attempt) != (answered["state"], answered["attempt"]):
        said = f"{found.id} is {found.state}, at attempt {found.attempt}, by now"
        raise Conflict(said, path="effect", state=found.state.value)
    return answered

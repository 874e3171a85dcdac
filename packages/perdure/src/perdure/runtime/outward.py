"""The external calls of a program: effects at their places in the run, and a model's batch of them. Keeps P2-P4.

Generators over the `Driving` of a run, as in `placing`; `effects.acting` carries each effect to its end. See docs/decisions/0006
and 0007. Callers: `Run`, and `undoing`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from perdure.effects import approvals, ledger
from perdure.effects.acting import FORGOTTEN, STRAYED
from perdure.effects.batch import BatchCall, calls_in, keep_and_plan, mean, next_free, tools_by_name
from perdure.effects.commands import Read, Steps, Write, write
from perdure.effects.consulting import StepFunction
from perdure.effects.ledger import Intent, error_of
from perdure.effects.operator_verbs import ask_approval, is_approved
from perdure.effects.sending import NextCall
from perdure.effects.settling import Action
from perdure.effects.tool import Refuse, Tool, digest_of
from perdure.errors import Failed, InDoubt, Invalid, Refused, Unavailable
from perdure.model.records.effects import EffectRecord, EffectState, Reply, ToolKind
from perdure.planes.execution import leases, steps
from perdure.planes.reading.durations import Duration
from perdure.runtime import run_replay
from perdure.runtime.driving import Driving
from perdure.runtime.holding import hold_back, is_held
from perdure.runtime.interrupted import stay_interrupted
from perdure.runtime.places import Branch
from perdure.runtime.placing import check_real, hold_up, step, take
from perdure.runtime.waiting import suspend, until_over

DOUBT, LANDING = "doubt", "landing"  # a run's reason to wait: somebody must say, or a sent call must have had its time
Approval: TypeAlias = "tuple[str | None, Duration | None]"  # the question to a person, and how long for an answer
UNASKED: Approval = (None, None)


def act(
    driving: Driving, branch: Branch, tool: Tool, args: dict[str, Any], approve: Approval = UNASKED,
    undoes: EffectRecord | None = None, about: tuple[str, ...] = (),
) -> Steps[EffectRecord]:  # fmt: skip
    """Call an external system once, even if the process dies in the middle. Gives the effect, settled, whatever became of
    it; its result is `run_replay.effect_result`.
    """
    if driving.hold.refusals:
        yield from hold_up(driving)
    if tool.kind is ToolKind.READ:
        raise Refused(f"{tool.name} only reads", path="tool", hint=f"run.step({tool.name}, …)")
    intent, found = _intend(driving, branch, tool, args, undoes=undoes is not None)
    if about:
        intent = msgspec.structs.replace(intent, about=about)
    if found is None:
        driving.hold.check_going()
        yield from _hold_back(driving, branch, intent)
    meant: EffectRecord | Intent
    if found is not None and (undoes is not None or found.state is not EffectState.PLANNED):
        meant = found
    elif undoes is not None:
        check_real(driving, f"undo {undoes.tool}")
        meant = yield from driving.acting.move("undo", ledger.begin_undo, undoes.seq, intent, driving.core.epoch)
    else:
        question = " ".join(filter(None, (_asked_first(driving), approve[0]))) or None
        intent, asked = driving.acting.guarded(tool, intent, question)
        if found is not None and not _is_new(driving, found):
            meant = yield from _asked_before(driving, branch, found, asked, approve[1])
        else:
            meant = yield from _permitted(driving, branch, found, intent, asked, approve[1])
    return (yield from conclude(driving, branch, tool, meant))


def _intend(
    driving: Driving, branch: Branch, tool: Tool, args: dict[str, Any], *, undoes: bool = False
) -> tuple[Intent, EffectRecord | None]:
    """The intent of an effect at the next place of the program, and the effect that is recorded there, if any."""
    mark = digest_of(tool.name, args)
    sagas = None if undoes else branch.sagas
    place, found = take(driving, branch, "effect", tool.name, mark, args, sagas)
    driving.sagas.tools[tool.name] = tool
    return Intent(
        tool=tool.name,
        kind=tool.kind,
        key=key_at(driving, place, tool.name, mark),
        digest=mark,
        args=args,
        rule=tool.rule,
        place=place,
        sagas=sagas,
    ), found


def _hold_back(driving: Driving, branch: Branch, intent: Intent) -> Steps[None]:
    return hold_back(driving, branch, intent.place or "", "effect", intent.tool, intent.digest)


def key_at(driving: Driving, place: str, name: str, mark: str) -> str:
    """The key of an effect: made of the run, the place, the tool and the arguments, so that it is the same in every drive."""
    return hashlib.sha256(f"{driving.stream.uid.hex()} {place} {name} {mark}".encode()).hexdigest()[:32]


def _asked_first(driving: Driving) -> str | None:
    """The question to a person before any external call of a what-if run that may not act; None for any other run."""
    what_if = driving.record.what_if
    if what_if is None or what_if.acts:
        return None
    return f"This run only supposes another result in run {what_if.run}: shall it really do this?"


def _is_new(driving: Driving, found: EffectRecord | None) -> bool:
    """Whether an effect is new, or planned in this epoch: nothing of it has been sent, as far as is known."""
    return found is None or (found.state is EffectState.PLANNED and found.epoch == driving.core.epoch)


def _asked_before(
    driving: Driving, branch: Branch, planned: EffectRecord, asked: Refuse | str | None, within: Duration | None = None
) -> Steps[EffectRecord]:
    """An effect that was planned before a restore, and may have been sent since. If a person is to be asked, the answer comes
    first: the rule of its tool might send again what nobody has approved of.
    """
    return (yield from _approved(driving, branch, planned, asked, within)) if isinstance(asked, str) else planned


def _permitted(
    driving: Driving, branch: Branch, found: EffectRecord | None, intent: Intent, asked: Refuse | str | None,
    within: Duration | None,
) -> Steps[EffectRecord | Intent]:  # fmt: skip
    """The intent, or the planned effect, once a guard or a person has spoken: withdrawn after a no, and in doubt if a restore may
    have forgotten that it was sent.
    """
    meant: EffectRecord | Intent = found or intent
    if asked is not None:
        planned = found or (yield from driving.acting.plan(intent))
        if isinstance(asked, Refuse):
            return (yield from driving.acting.withdraw(planned, asked.reason, "a guard"))
        meant = yield from _approved(driving, branch, planned, asked, within)
    known_seq = driving.hold.lease.known_seq
    return meant if known_seq is None else (yield from _unforgotten(driving, meant, known_seq))


def _approved(
    driving: Driving, branch: Branch, record: EffectRecord, question: str, within: Duration | None
) -> Steps[EffectRecord]:
    """Ask a person about an effect. Gives it as it is after a yes, withdrawn or in doubt after a no. The run waits meanwhile."""
    asked = yield write(ask_approval, record, question, within)
    approval = yield from until_over(driving, branch, asked)
    if is_approved(approval, record):
        return record
    return (yield from driving.acting.move("withdraw", approvals.refuse, record, approval, driving.core.epoch))


def _unforgotten(driving: Driving, meant: EffectRecord | Intent, known_seq: int) -> Steps[EffectRecord | Intent]:
    """An effect that may be sent now, after a restore: in doubt, if its tool can be asked or is unsafe, because it may have been
    sent and forgotten. Its sender in what was lost is taken to be gone: a restore presumes it.
    """
    if not _may_be_forgotten(driving, meant):
        return meant
    if isinstance(meant, EffectRecord) and meant.state is not EffectState.PLANNED:
        return meant
    strayed = yield Read(leases.has_strayed, (driving.stream, known_seq))
    if meant.kind is ToolKind.KEYED and not strayed:  # its key finds it out
        return meant
    acting = driving.acting
    record = (yield from acting.plan(meant)) if isinstance(meant, Intent) else meant
    why = STRAYED if strayed else FORGOTTEN
    return (yield from acting.move("doubt", ledger.doubt, record.seq, record.attempt, why, quiet=True))


def _may_be_forgotten(driving: Driving, meant: EffectRecord | Intent) -> bool:
    """Whether a restore may have forgotten that it was sent, and sending it twice does harm. A person who has said since then
    that it did not happen is not asked again.
    """
    asked_about = isinstance(meant, EffectRecord) and meant.settled_by is not None
    return driving.hold.lease.known_seq is not None and meant.kind is not ToolKind.IDEMPOTENT and not asked_about


def conclude(
    driving: Driving, branch: Branch, tool: Tool | None, found: EffectRecord | Intent, *, mine: bool = False,
    then: NextCall | None = None,
) -> Steps[EffectRecord]:  # fmt: skip
    """Carry an effect to its end. The run waits while only a person, or a later time, can settle it."""
    hold, place = driving.hold, found.place or ""
    if driving.replay.journal.interrupted and not hold.shielded:
        yield from stay_interrupted(driving, place, "effect", found.tool, found.digest)
    driving.activity.begin()
    try:
        record = found
        if isinstance(record, Intent):
            assert tool is not None
            record, mine = (yield from driving.acting.dispatch_new(tool, record)), True
        record = yield from driving.acting.conclude(tool, record, mine=mine, then=then)
    except InDoubt as error:
        doubt = error
    except Unavailable as trouble:  # of the store: what tools raise is judged before
        raise hold.troubled(trouble) from None
    except Exception:
        raise
    except BaseException as error:
        driving.note_interrupted(error, place, "effect", found.tool, found.digest)
        branch.interrupted = place
        raise
    else:
        driving.sagas.reached.add(record.seq)
        driving.replay.effects += 1
        return record
    finally:
        driving.activity.busy -= 1
    yield from suspend(driving, LANDING if doubt.facts["action"] == Action.WAIT else DOUBT, doubt.facts.get("until"))
    raise doubt


# -- a model's batch -----------------------------------------------------------------------------------------------------------


def respond(
    driving: Driving, branch: Branch, model: StepFunction, args: tuple[Any, ...], kwargs: dict[str, Any],
    tools: Iterable[Callable[..., Any]], pins: Mapping[str, Any],
) -> Steps[Reply]:  # fmt: skip
    """Call a model, and carry out the calls that its answer makes, in order and each once."""
    acting = driving.acting
    batch: list[BatchCall] = []
    # Before the model is paid for: what is wrong with them would cost its answer.
    tools = tools_by_name(tools).values()

    def keep(done: tuple[Any, ...], value: Any) -> Steps[None]:
        batch.extend(_mean(driving, branch, value, tools))
        held = any(meant.intent and not meant.record and _is_held(driving, branch, meant.intent) for meant in batch)
        if not held and any(meant.intent is not None for meant in batch):
            yield from acting.begin_all(batch, keep_and_plan, done)
        else:
            yield Write(steps.done, done)

    value = yield from step(driving, branch, model, args, kwargs, {"model": pins}, keep)
    batch = batch or _mean(driving, branch, value, tools)
    for at, meant in enumerate(batch):
        if meant.answer is None and meant.reads:
            try:
                reading = driving.step_function(meant.sends)._replace(fn=meant.sends.named)
                meant.gave((yield from step(driving, branch, reading, (), dict(meant.args), {})))
            except (Failed, Invalid) as error:
                meant.failed(error_of(error))
        elif meant.answer is None:
            then = lambda at=at: next_free(batch, at + 1) if acting.may_begin else None  # noqa: E731
            yield from _carry_out(driving, branch, meant, then)
    return Reply(value, [meant.answer for meant in batch if meant.answer is not None])


def _mean(driving: Driving, branch: Branch, value: Any, tools: Iterable[Callable[..., Any]]) -> list[BatchCall]:
    """Match a model's calls with their tools: each effect at its place, as it is recorded or as it is meant, and the verdicts of
    the guards.
    """
    batch = mean(calls_in(value), tools)
    for meant in batch:
        if meant.answer is None and not meant.reads:
            intent, meant.record = _intend(driving, branch, meant.sends, meant.args)
            meant.wary = _may_be_forgotten(driving, intent)
            if meant.record is None or meant.record.state is EffectState.PLANNED:
                intent, asked = driving.acting.guarded_call(meant.sends, intent)
                meant.asked = asked or _asked_first(driving)
                meant.intent = intent if _is_new(driving, meant.record) else None
    return batch


def _is_held(driving: Driving, branch: Branch, intent: Intent) -> bool:
    return is_held(driving, branch, intent.place or "", "effect", intent.tool, intent.digest)


def _carry_out(driving: Driving, branch: Branch, meant: BatchCall, then: NextCall) -> Steps[None]:
    found: EffectRecord | Intent | None = meant.record
    if meant.intent is not None and not meant.mine:
        driving.hold.check_going()
        if meant.record is None:
            yield from _hold_back(driving, branch, meant.intent)
        found = yield from _permitted(driving, branch, meant.record, meant.intent, meant.asked, None)
    assert found is not None
    if meant.intent is None and isinstance(found, EffectRecord) and found.state is EffectState.PLANNED:
        found = yield from _asked_before(driving, branch, found, meant.asked)
    meant.record = yield from conclude(driving, branch, meant.sends, found, mine=meant.mine, then=then)
    meant.settle(run_replay.effect_result)

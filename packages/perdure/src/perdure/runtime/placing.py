"""The place of a program in its run, the record at that place, and steps. All verbs of a run are built on it (P13).

Each verb is a generator over the `Driving` of the run, on the branch that the program is in. It first looks into the journal at
its place. A recorded thing is given again; the first one that is not recorded is done and recorded. See docs/decisions/0007 and
0031.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from perdure.effects.commands import Consult, Pause, Read, Steps, Write
from perdure.effects.consulting import StepFunction, consult, with_limits
from perdure.effects.ledger import error_of
from perdure.effects.tool import digest_of_parts
from perdure.errors import Changed, Error, Imported, Invalid, Parked
from perdure.model.records.effects import EffectError, text_of
from perdure.model.records.runs import StepRecord
from perdure.planes.execution import model_inputs, steps
from perdure.planes.reading.durations import Duration
from perdure.runtime import resting, run_replay
from perdure.runtime.driving import Driving
from perdure.runtime.holding import hold_back
from perdure.runtime.interrupted import stay_interrupted
from perdure.runtime.journal import shape_of
from perdure.runtime.places import Branch
from perdure.runtime.usage import usage_of

log = logging.getLogger("perdure.run")

REFUSALS_MAX = 1000  # verbs that a program tries after it was told to end; a thousand branches are told one by one
REFUSED_SECONDS = 1.0  # the time that each further verb of such a program takes
KeepStep = Callable[[tuple[Any, ...], Any], Steps[None]]


def hold_up(driving: Driving) -> Steps[None]:
    """Slow a program down that does not end though it was told to, and tried more than a thousand verbs since. Its run comes to
    rest without it, and each further verb takes a second. Nothing happens to any other program.
    """
    hold = driving.hold
    if hold.refusals <= REFUSALS_MAX:
        return
    if not hold.lease.forsaken:
        hold.lease.forsaken = True
        stopped = hold.stop(run_replay.does_not_end(driving.stream.name, str(hold.ending)))
        log.warning("its program was told to end %d times, and does not", hold.refusals, extra=driving.about)
        with suppress(Error):
            yield from resting.ended_by(driving, stopped)
        driving.heartbeat.release(driving.stream.uid)
    yield Pause(REFUSED_SECONDS, watched=False)


def arrive(
    driving: Driving, branch: Branch, what: str, name: str, mark: str, given: Any = None
) -> Steps[tuple[str, Any]]:
    """Take the next place: gives the place and its record, None if there is none. Raises when the run must end and the thing
    would be new, and Changed when something else is recorded there.
    """
    if driving.hold.refusals:
        yield from hold_up(driving)
    place, found = take(driving, branch, what, name, mark, given)
    if driving.replay.journal.interrupted:
        yield from stay_interrupted(driving, place, what, name, mark)
    if found is None:
        driving.hold.check_going()
    return place, found


def take(
    driving: Driving, branch: Branch, what: str, name: str, mark: str, given: Any, sagas: tuple[str, ...] | None = None
) -> tuple[str, Any]:
    """`arrive`, for a program that was not told to end, without looking whether it must."""
    replay = driving.replay
    if replay.unread and what != "step":
        driving.check_unread(f"{what} {name}".rstrip())
    if branch.interrupted and not driving.hold.shielded:
        driving.hold.check_going()
        raise run_replay.continues_interrupted(branch.interrupted)
    place = branch.next_place(replay.cut)
    try:
        return place, replay.journal.take(place, what, name, mark, given, sagas)
    except Changed as changed:
        driving.hold.stop(changed)  # nothing more is done, whatever the program makes of it
        raise


def check_real(driving: Driving, what: str) -> None:
    """Raise Parked in a what-if run that may not act: a person cannot be asked about such a thing one by one. The run stops, even
    if its program catches that.
    """
    what_if = driving.record.what_if
    if what_if is not None and not what_if.acts:
        raise driving.hold.stop(
            Parked(
                f"it only supposes another result in run {what_if.run}, and would {what}", path=f"run {driving.stream.name}",
                hint="fork it anew and let that one act (--allow-effects), or leave it", reason="what-if",
            )
        )  # fmt: skip


# -- steps ---------------------------------------------------------------------------------------------------------------------


def step_function(
    driving: Driving, fn: Callable[..., Any], timeout: Duration | None, retries: int | None
) -> StepFunction:
    """The function of a step, with the deadline and the retries that its caller chose, if any."""
    called = driving.step_function(fn)
    return called if timeout is None and retries is None else with_limits(called, timeout, retries)


def step(
    driving: Driving, branch: Branch, called: StepFunction, args: tuple[Any, ...], kwargs: dict[str, Any], notes: dict[str, Any],
    keep: KeepStep | None = None,
) -> Steps[Any]:  # fmt: skip
    """Call a function that changes nothing in the outside world, and record its result; at a replay give the recorded one.

    notes: for a model, whose input is kept too. keep: records the step together with more. Raises Failed for what the function
    raised, and Invalid for a result that cannot be kept.
    """
    mark = digest_of_parts(args=list(args), kwargs=kwargs)
    hold, replay = driving.hold, driving.replay
    if hold.refusals or replay.journal.interrupted:
        place, found = yield from arrive(driving, branch, "step", called.name, mark, (args, kwargs))
    else:  # mostly, and a generator less
        place, found = take(driving, branch, "step", called.name, mark, (args, kwargs))
    replay.steps += 1
    if found is not None:
        brief = found.gave is not None
        return (
            (yield from _read_again(driving, called, args, kwargs, found)) if brief else run_replay.step_result(found)
        )
    hold.check_going()
    frozen = (yield from _freeze_input(driving, branch, place, called.name, mark, args, kwargs)) if notes else None
    shape = shape_of(args, kwargs) if (args or kwargs) and not notes else ""
    value: Any = None
    driving.activity.begin()
    began_us = driving.core.clocks.now()
    try:
        if called.retries:
            came = yield from consult(called, args, kwargs, hold.check_going)
        else:
            came = yield Consult(called.fn, kwargs, called.is_async, called.timeout_seconds, args, hold.check_going)
        if came.error is not None:
            _fail(driving, came.error, place, called.name, mark, notes, shape)
        value = came.result
        noted = notes | {"usage": usage_of(value)} if notes else notes
        took_us = driving.core.clocks.now() - began_us
        doc = steps.document(
            place, called.name, mark, value, None, noted, brief=called.brief, shape=shape, took_us=took_us
        )
        given = None if frozen is None else (yield Read(model_inputs.prepare, (driving.stream, frozen)))
        if keep is None:
            yield Write(steps.done, (doc, given), keep=True)
        else:
            yield from keep((doc, given), value)
        return value
    except Invalid as error:
        yield from _refuse(error, value, called, place, mark, shape)
    except Exception:
        raise
    except BaseException as error:
        driving.note_interrupted(error, place, "step", called.name, mark)
        raise
    finally:
        driving.activity.busy -= 1


def _freeze_input(
    driving: Driving, branch: Branch, place: str, name: str, mark: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Steps[Any]:
    """The input of a model, as it is kept, once the model may be paid for."""
    yield from hold_back(driving, branch, place, "step", name, mark)
    return model_inputs.freeze(args, kwargs)


def _fail(
    driving: Driving, error: BaseException, place: str, name: str, mark: str, notes: dict[str, Any], shape: str
) -> NoReturn:
    """Raise Failed with what the function of a step raised.

    The failure is recorded with the next thing that the program does. A run that ends by it records nothing, and can try it
    again.
    """
    if not isinstance(error, Exception) or isinstance(error, Imported):  # a person decides, and then it is called anew
        raise error
    said = error_of(error)
    driving.hold.unsaid.append(steps.document(place, name, mark, None, said, notes, shape=shape))
    raise run_replay.failed_step(place, name, said) from error


def _refuse(error: Invalid, value: Any, called: StepFunction, place: str, mark: str, shape: str) -> Steps[NoReturn]:
    """Record that the result of a step cannot be kept, and raise that. The program gets the same error at a replay."""
    noted = run_replay.unkept_notes(error, value, brief=called.brief)
    said = EffectError(run_replay.UNSTORABLE, text_of(error))
    yield Write(steps.done, (steps.document(place, called.name, mark, None, said, noted, shape=shape),), keep=True)
    raise run_replay.unkept(noted[run_replay.UNKEPT], place) from error


def _read_again(
    driving: Driving, called: StepFunction, args: tuple[Any, ...], kwargs: dict[str, Any], found: StepRecord
) -> Steps[Any]:  # fmt: skip
    """Call a function again of whose result only the digest is kept. Raises Parked if the result differs; the run stops, even if
    its program catches that.
    """
    driving.activity.begin()
    try:
        came = yield from consult(called, args, kwargs, driving.hold.check_staying)
    finally:
        driving.activity.busy -= 1
    error = came.error
    if error is None:
        try:
            return run_replay.read_again(found, came.result)
        except Exception as differs:  # noqa: BLE001 - whatever is wrong with it, it cannot be repeated
            error = differs
    if not isinstance(error, Exception):
        raise error
    if isinstance(error, Parked):
        driving.hold.stop(error)
        raise error
    parked = run_replay.reads_otherwise(found, f"an error: {error_of(error)}")
    driving.hold.stop(parked)
    raise parked from error

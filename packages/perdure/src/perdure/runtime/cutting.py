"""Checkpoints, patches, subjects and atomic steps of a program. Keeps P8, P13.

Generators over the `Driving` of a run, as in `placing`. Callers: `Run`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.effects.commands import Read, Steps, Work, write
from perdure.effects.ledger import error_of
from perdure.errors import Refused
from perdure.model.lazily import lazily
from perdure.model.limits import check_name
from perdure.planes import subjects
from perdure.planes.execution import steps
from perdure.planes.recovery import checkpoints
from perdure.runtime import run_replay
from perdure.runtime.agent import Policy
from perdure.runtime.driving import Driving
from perdure.runtime.holding import hold_back
from perdure.runtime.places import Branch
from perdure.runtime.placing import arrive, check_real, hold_up
from perdure.runtime.stopping import TROUBLES
from perdure.runtime.undoing import undo_left

if TYPE_CHECKING:
    from perdure.runtime import workspace
else:
    (workspace,) = lazily("perdure.runtime", "workspace")


def checkpoint(driving: Driving, branch: Branch, state: Any, *, now: bool, about: tuple[str, ...] = ()) -> Steps[bool]:
    """Save a state to continue from, if the agent's policy says so, or `now`; gives whether it was."""
    yield from hold_up(driving)
    replay = driving.replay
    if replay.unread or replay.read_late:
        raise run_replay.saves_unread("" if replay.unread else replay.read_late)
    if driving.sagas.open:
        raise Refused("a checkpoint would lose sight of what a saga may have to undo", path="checkpoint",
                      hint="do it before or after the saga")  # fmt: skip
    if branch is not driving.trunk or driving.has_branches:
        raise Refused("a branch cannot cut the run", path="checkpoint", hint="do it after gathering the branches")
    policy, replaying = driving.agent.policy, replay.replaying
    elapsed_us = 0 if replaying else driving.core.clocks.now() - replay.cut_at_us
    if not (now or policy.is_due(steps=replay.steps, elapsed_us=elapsed_us, effects=replay.effects)):
        return False
    frozen = checkpoints.freeze(state)  # at a replay too: what was refused then is refused again
    if replaying:
        return False
    driving.hold.check_going()
    yield from undo_left(driving)
    by_policy = not now and policy != Policy()
    if by_policy and (yield Read(run_replay.left_open, (driving.stream, replay.cut_seq))):
        return False
    prepared = yield Read(checkpoints.prepare, (driving.stream, frozen))
    noted = None
    if driving.agent.workspace is not None:
        noted = {"workspace": msgspec.to_builtins((yield Work(workspace.look, (driving.agent.workspace,))))}
    driving.begin_cut(*(yield write(run_replay.cut, prepared, replay.cut_seq, noted, about)))
    return True


def add_subjects(driving: Driving, about: tuple[str, ...]) -> Steps[tuple[str, ...]]:
    """Add subjects to the whole run. No step records it: saying it again at a replay changes nothing."""
    yield from hold_up(driving)
    return (yield write(subjects.add_to_run, about))


def patched(driving: Driving, name: str) -> Steps[bool]:
    """Whether this run goes the new way: True for runs that reach this place anew, False for those that were past it."""
    replay = driving.replay
    place = f"{replay.cut}/patch/{check_name(name, 'patch')}"
    if place not in replay.patches:
        recorded = replay.journal.take(place, "step", "run.patched", "") is not None
        replay.patches[place] = recorded or not replay.replaying
        if replay.patches[place] and not recorded:
            yield write(steps.done, steps.document(place, "run.patched", "", None, None, {}))
    return replay.patches[place]


def atomic(driving: Driving, branch: Branch, name: str, verb: Callable[..., Any], *about: Any) -> Steps[Any]:
    """Run a verb that writes to other streams, in the commit that records it as a step. Gives the recorded result, or that of the
    verb. verb: takes `about`, the place and the name.
    """
    if driving.replay.unread:
        driving.check_unread(f"atomic {name}")
    place, found = yield from arrive(driving, branch, "step", name, "")
    driving.replay.steps += 1
    if found is not None:
        return run_replay.step_result(found)
    check_real(driving, f"write to sessions ({name})")
    yield from hold_back(driving, branch, place, "step", name, "")
    try:
        return (yield write(verb, *about, place, name))
    except TROUBLES:
        raise
    except Exception as error:
        said = error_of(error)
        driving.hold.unsaid.append(steps.document(place, name, "", None, said, {}))
        raise run_replay.failed_step(place, name, said) from error

"""Verbs for one task, effect, run, memory or decision, whose body at a door is written by hand.

Each says whose it is, the right that it needs, its routes, and why a door does without it. Their docstrings stand at the handles.
"""

from __future__ import annotations

from perdure.verbs.declaring import DECISION, EFFECT, MEMORY, RUN, TASK, Kind, Right, read, verb
from perdure.verbs.planes import arg, own
from perdure.verbs.reasons import BY_TOKEN, FEW, LARGE, LIBRARY, PERSON, PROGRAMS, SCREEN, UPKEEP, WITHIN


@verb(
    on=(TASK,), called="claim", kind=Kind.ENGINE, right=Right.WRITE, routes=("claim_task",), tool="claim", lacks={"cli":
    PROGRAMS},
)  # fmt: skip
def task_claim(ttl: arg.Ttl = None) -> object:
    """Take the task; returns itself."""
    raise NotImplementedError


@verb(
    on=(TASK,), called="release", kind=Kind.ENGINE, right=Right.WRITE, routes=("move_task",), tool="move", lacks={"cli":
    PROGRAMS},
)  # fmt: skip
def task_release() -> object:
    """Give it back: it is todo again."""
    raise NotImplementedError


@verb(
    on=(TASK,), called="done", kind=Kind.ENGINE, right=Right.WRITE, routes=("move_task",), tool="move", lacks={"cli":
    PROGRAMS},
)  # fmt: skip
def task_done(note: arg.Note = None, *, about: arg.About = ()) -> object:
    """Mark it as done; tasks that need it may become ready."""
    raise NotImplementedError


@verb(
    on=(TASK,), called="fail", kind=Kind.ENGINE, right=Right.WRITE, routes=("move_task",), tool="move", lacks={"cli":
    PROGRAMS},
)  # fmt: skip
def task_fail(note: arg.Note = None, *, about: arg.About = ()) -> object:
    """Mark it as failed; tasks that need it are stuck until it is reopened."""
    raise NotImplementedError


@verb(
    on=(TASK,), called="block", kind=Kind.ENGINE, right=Right.WRITE, routes=("move_task",), tool="move", names={"http":
    {"reason": "note"}, "mcp": {"reason": "note"}}, lacks={"cli": PROGRAMS},
)  # fmt: skip
def task_block(reason: own.Reason, *, about: arg.About = ()) -> object:
    """Put it aside until an obstacle is gone; a claim on it ends."""
    raise NotImplementedError


@verb(
    on=(TASK,), called="unblock", kind=Kind.ENGINE, right=Right.WRITE, routes=("move_task",), tool="move", lacks={"cli":
    PROGRAMS},
)  # fmt: skip
def task_unblock(note: arg.Note = None, *, about: arg.About = ()) -> object:
    """Mark its obstacle as gone: it is todo again."""
    raise NotImplementedError


@verb(
    on=(TASK,), called="cancel", kind=Kind.ENGINE, right=Right.WRITE, routes=("move_task",), tool="move", lacks={"cli":
    PROGRAMS},
)  # fmt: skip
def task_cancel(note: arg.Note = None, *, about: arg.About = ()) -> object:
    """Mark it as not to be done any more."""
    raise NotImplementedError


@verb(
    on=(TASK,), called="reopen", kind=Kind.ENGINE, right=Right.WRITE, routes=("move_task",), tool="move", lacks={"cli":
    PROGRAMS},
)  # fmt: skip
def task_reopen(note: arg.Note = None, *, about: arg.About = ()) -> object:
    """Make a failed or cancelled task todo again."""
    raise NotImplementedError


@verb(
    on=(TASK,), called="edit", kind=Kind.ENGINE, right=Right.WRITE, routes=("patch_task",), lacks={"cli": PROGRAMS, "mcp":
    FEW},
)  # fmt: skip
def task_edit(
    *,
    title: own.TitleOrAsBefore = None,
    priority: own.PriorityOrAsBefore = None,
    labels: own.LabelsOrAsBefore = None,
    detail: arg.Detail = ...,
    about: arg.About = (),
) -> object:
    """Change its title, priority, labels or detail; anything not given stays."""
    raise NotImplementedError


@verb(
    on=(TASK,), called="need", kind=Kind.ENGINE, right=Right.WRITE, routes=("patch_task",), names={"http": {"other":
    "need"}}, lacks={"cli": PROGRAMS, "mcp": FEW},
)  # fmt: skip
def task_need(other: own.OtherTask) -> object:
    """Make it wait for another task of this session."""
    raise NotImplementedError


@verb(
    on=(TASK,), called="unneed", kind=Kind.ENGINE, right=Right.WRITE, routes=("patch_task",), names={"http": {"other":
    "need"}}, lacks={"cli": PROGRAMS, "mcp": FEW},
)  # fmt: skip
def task_unneed(other: own.OtherTask) -> object:
    """Let it no longer wait for another task: the way out when that task failed for good."""
    raise NotImplementedError


@verb(
    on=(TASK,), called="put_under", kind=Kind.ENGINE, right=Right.WRITE, routes=("patch_task",), lacks={"cli": PROGRAMS,
    "mcp": FEW},
)  # fmt: skip
def task_put_under(parent: arg.ParentTask) -> object:
    """Make it a part of another task of this session, or of none."""
    raise NotImplementedError


@read(
    on=(TASK,), called="refresh", routes=("get_task",), lacks={"cli": WITHIN, "mcp": FEW},
)  # fmt: skip
def task_refresh() -> object:
    """Read the task again; returns itself."""
    raise NotImplementedError


@read(
    on=(DECISION,), called="refresh", routes=("get_decision",), lacks={"cli": WITHIN, "mcp": FEW},
)  # fmt: skip
def decision_refresh() -> object:
    """Read the decision again; returns itself."""
    raise NotImplementedError


@read(
    on=(MEMORY,), called="refresh", routes=("get_memory", "get_scope_memory",), lacks={"cli": WITHIN, "mcp": FEW},
)  # fmt: skip
def memory_refresh() -> object:
    """Read the memory again; returns itself."""
    raise NotImplementedError


@read(
    on=(EFFECT,), called="refresh", routes=("get_effect",), lacks={"cli": WITHIN, "mcp": FEW},
)  # fmt: skip
def effect_refresh() -> object:
    """Read the effect again; returns itself."""
    raise NotImplementedError


@read(
    on=(RUN,), called="refresh", routes=("get_run",), command="show", lacks={"mcp": FEW},
)  # fmt: skip
def run_refresh() -> object:
    """Read the run again; returns itself."""
    raise NotImplementedError


@verb(
    on=(EFFECT,), kind=Kind.ENGINE, right=Right.WRITE, routes=("dispatch_effect",), tool="effect_dispatch", lacks={"cli":
    LIBRARY},
)  # fmt: skip
def dispatch() -> object:
    """Make the intent durable."""
    raise NotImplementedError


@verb(
    on=(EFFECT,), kind=Kind.ENGINE, right=Right.WRITE, routes=("end_effect",), tool="effect_commit", lacks={"cli":
    LIBRARY},
)  # fmt: skip
def commit(result: own.Result = None, *, checkpoint: own.Local = ..., about: arg.About = ()) -> object:
    """Record that it happened, with this result."""
    raise NotImplementedError


@verb(
    on=(EFFECT,), kind=Kind.ENGINE, right=Right.WRITE, routes=("end_effect",), tool="effect_commit", lacks={"cli":
    LIBRARY},
)  # fmt: skip
def fail(error: own.Error = "failed", *, about: arg.About = ()) -> object:
    """Record that it is known not to have happened."""
    raise NotImplementedError


@verb(
    on=(EFFECT,), kind=Kind.ENGINE, right=Right.OPERATE, routes=("settle_effect",), command="settle",
    tool="effect_settle", lacks={"http": {"by": BY_TOKEN}, "mcp": {"by": FEW, "force": PERSON}, "cli": {"about": PROGRAMS}},
)  # fmt: skip
def settle(verdict: own.VerdictOf, *, by: arg.By = None, force: own.Force = False, about: arg.About = ()) -> object:
    """Record the outcome of an effect in doubt: Happened(result), Absent() (it may be tried again) or Declined(reason)."""
    raise NotImplementedError


@read(
    on=(EFFECT,), routes=("get_effect",), lacks={"cli": WITHIN, "mcp": FEW},
)  # fmt: skip
def is_left() -> object:
    """Whether its sender is gone and nobody has looked since: doubt that is not recorded yet."""
    raise NotImplementedError


@read(
    on=(RUN,), called="at", routes=("get_run",), names={"http": {"moment": "at"}}, lacks={"cli": WITHIN, "mcp": FEW},
)  # fmt: skip
def run_at(moment: own.Moment) -> object:
    """Return this run as it was after an event, at an instant, or some time ago ("2h"): for reading only."""
    raise NotImplementedError


@verb(
    on=(RUN,), called="fork", kind=Kind.ENGINE, right=Right.OPERATE, routes=("fork_run",), command="fork", lacks={"mcp":
    PERSON},
)  # fmt: skip
def fork_run(at: own.PlaceOfRun, replace: arg.Value, *, allow_effects: own.AllowEffects = False) -> object:
    """Create a what-if run that continues from a place of this one, as if that place had returned `replace`."""
    raise NotImplementedError


@read(
    on=(RUN,), command="fork", lacks={"http": SCREEN, "mcp": PERSON},
)  # fmt: skip
def forecast(at: own.PlaceOfRun, *, allow_effects: own.AllowEffects = False) -> object:
    """Return the consequences of `fork` with these arguments, if the program goes the same way."""
    raise NotImplementedError


@read(
    on=(RUN,), called="diff", routes=("diff_runs",), command="diff", lacks={"mcp": FEW},
)  # fmt: skip
def diff_runs(other: own.Local) -> object:
    """Compare this run with another one: `run.at("2h").diff(run)`, or a run and its fork."""
    raise NotImplementedError


@read(
    on=(RUN,), routes=("get_envelope",), command="envelope", lacks={"mcp": FEW},
)  # fmt: skip
def envelope() -> object:
    """Return the state needed to continue this run, and a verdict."""
    raise NotImplementedError


@read(
    on=(RUN,), called="effects", routes=("list_run_effects",), lacks={"cli": WITHIN, "mcp": FEW},
)  # fmt: skip
def effects_of_run(*, open: own.OpenOnly = False) -> object:  # noqa: A002
    """Return its effects, oldest first."""
    raise NotImplementedError


@read(
    on=(RUN,), command="show", lacks={"http": LARGE, "mcp": FEW},
)  # fmt: skip
def input_of(step: arg.Seq) -> object:
    """Return the input of the model in a step (the number of its event): `args` and `kwargs`."""
    raise NotImplementedError


@read(
    on=(RUN,), routes=("get_run_result",), command="start", lacks={"mcp": FEW},
)  # fmt: skip
def result(timeout: own.Local = None) -> object:
    """Return the result, from any process."""
    raise NotImplementedError


@verb(
    on=(RUN,), kind=Kind.ENGINE, command="handover", lacks={"http": UPKEEP, "mcp": PERSON},
)  # fmt: skip
def hand_over() -> object:
    """Return the envelope, and let the run continue only where it is adopted (`store.adopt`)."""
    raise NotImplementedError

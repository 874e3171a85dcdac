"""Agents: functions that are driven by replay, and the declaration of each.

The digest of a function's code identifies its program, so that a changed program is noticed (P13). Comments, blank lines and
docstrings do not count. Callers: users (`@perdure.agent`), the handles that start and drive runs, and the worker, which finds
agents by name.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from functools import update_wrapper
from typing import Any, Concatenate, Generic, NamedTuple, overload

from perdure.effects.tool import Tool
from perdure.errors import Invalid, NotFound
from perdure.model.functions import (
    Declared,
    Driven,
    P,
    P_of,
    R,
    R_co,
    check_free,
    check_options,
    check_unbound,
    named_args,
    signature_of,
)
from perdure.model.instants import SECOND_US, duration_us
from perdure.model.limits import check_name, check_one_of
from perdure.model.pins import OnChange, OnChangeName, versions_of
from perdure.model.values import digest
from perdure.planes.reading.durations import Duration

DECLARED: Declared[Agent] = Declared()  # the agents with which recovery and children can be driven in this process

PROGRAM_CHARS = 16
HOLD_SECONDS = 300.0  # the time for which a verb waits for records of other branches, if nobody says otherwise
_ANOTHER_NAME = "give one another name: @perdure.agent(name=…)"
_POLICY = re.compile(r"every (\d+) steps?|every (\S+)|after effects")


class Policy(NamedTuple):
    """When an offered checkpoint is saved: after so many steps, after so long, or after effects. Without any of these, always."""

    steps: int | None = None
    every_us: int | None = None
    effects: bool = False

    def is_due(self, *, steps: int, elapsed_us: int, effects: int) -> bool:
        """Whether a checkpoint is due, given what happened since the last one."""
        if self == Policy():
            return True
        by_steps = self.steps is not None and steps >= self.steps
        by_time = self.every_us is not None and elapsed_us >= self.every_us
        return by_steps or by_time or (self.effects and effects > 0)


def policy_of(text: str | None) -> Policy:
    """Parse a policy: "every 50 steps", "every 10m" or "after effects". Raises Invalid for other texts."""
    if text is None:
        return Policy()
    found = _POLICY.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise Invalid(f"expected 'every 50 steps', 'every 10m' or 'after effects', got {text!r}", path="checkpoint")
    if found[1]:
        return Policy(steps=_count(int(found[1])))
    return Policy(every_us=duration_us(found[2], "checkpoint")) if found[2] else Policy(effects=True)


def _count(steps: int) -> int:
    if steps < 1:
        raise Invalid("expected at least every 1 step", path="checkpoint")
    return steps


class Agent(Driven, Generic[P_of, R_co]):
    """A function with its declaration, made by `@perdure.agent`.

    Calling it calls the bare function. `store.start(agent, …)` and `store.drive(agent, …)` begin a run of it.
    """

    def __init__(
        self, fn: Callable[Concatenate[Any, P_of], R_co], name: str, policy: Policy, *, timeout: Duration | None,
        limit: int | None, workspace: str | None, pins: Mapping[str, Any], hold: Duration | None = None,
        on_change: OnChange | None = None,
    ) -> None:  # fmt: skip
        self.fn = fn
        self.name = name
        self.policy = policy
        self.timeout = timeout
        self.limit = limit
        self.workspace = workspace
        self.pins = dict(pins)
        self.versions = versions_of(self.pins)
        self.on_change = on_change
        self.hold_seconds = HOLD_SECONDS if hold is None else duration_us(hold, "hold") / SECOND_US
        self.is_async = inspect.iscoroutinefunction(fn)
        self.signature = signature_of(fn, "agent")
        self.program = program_of(fn, self.pins)
        update_wrapper(self, fn)

    def __call__(self, run: Any, /, *args: P_of.args, **kwargs: P_of.kwargs) -> R_co:
        """Call the bare function."""
        return self.fn(run, *args, **kwargs)

    def __repr__(self) -> str:
        return f"<agent {self.name}>"

    def check(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], **options: Any) -> None:
        """Refuse arguments that do not fit the function. Raises Invalid before anything is written.

        options: the options of the verb that starts the agent. The agent must not have parameters of these names.
        """
        check_free(self.signature, options, self.name)
        try:
            self.signature.bind(None, *args, **kwargs)
        except TypeError as error:
            raise Invalid(f"{self.name}: {error}", path="args") from None


@overload
def agent(fn: Callable[Concatenate[Any, P], R], /) -> Agent[P, R]: ...
@overload
def agent(
    *, name: str | None = None, checkpoint: str | None = None, timeout: Duration | None = None, limit: int | None = None,
    workspace: str | None = None, pins: Mapping[str, Any] | None = None, hold: Duration | None = None,
    on_change: OnChange | OnChangeName | None = None,
) -> Callable[[Callable[Concatenate[Any, P], R]], Agent[P, R]]: ...  # fmt: skip
def agent(fn: Callable[..., Any] | None = None, /, **declared: Any) -> Any:
    """Declare a function (sync or async) as an agent: `fn(run, *args)`, which is driven by replay.

        @perdure.agent(checkpoint="every 50 steps")
        async def fix(run, issue): ...

    After a crash the function is called again from its start. Verbs of `run` that were recorded return what they returned
    before; the first verb that was not recorded is carried out. The code between the verbs must do the same every time.

    name: the name by which runs find the agent. Default: the function's.
    checkpoint: when `run.checkpoint(state)` saves: "every 50 steps", "every 10m" or "after effects". Default: every time.
    timeout: the time that a whole run may take.
    limit: the most runs at the same time in one worker.
    workspace: a folder whose git state is checked when a run resumes.
    pins: versions of the model, the prompt and the tools, such as {"model": "m1", "tools": {"git": "2"}}. They are recorded
        with each run, go before those of its session, and are compared when a run is taken.
    on_change: what is done with a run when its versions differ from those that it last had. continue (the default): it
        continues, and an event says so; park: it is parked until a person resumes it; ask: a person is asked.
    hold: the time that a new verb waits in a replay for what is recorded in other branches; then the run is parked as changed.
        Default: five minutes, which pass only while the program waits for something of its own.
    """
    if fn is not None:
        return _declare(fn)
    check_options(declared, _declare)
    return lambda found: _declare(found, **declared)


def _declare(
    fn: Any, *, name: str | None = None, checkpoint: str | None = None, timeout: Any = None, limit: int | None = None,
    workspace: str | None = None, pins: Mapping[str, Any] | None = None, hold: Any = None, on_change: Any = None,
) -> Agent:  # fmt: skip
    if isinstance(fn, Tool):
        hint = f"call it by run.act({fn.name}, …) in an agent, or by session.act({fn.name}, …, key=…)"
        raise Invalid(f"{fn.name} is a tool: as an agent it would act without the ledger", path="agent", hint=hint)
    if not callable(fn) or inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise Invalid("an agent is a function or an async function that takes a run", path="agent")
    if not signature_of(fn, "agent").parameters:
        raise Invalid("an agent takes the run as its first parameter", path="agent", hint="def fix(run, …)")
    check_unbound(signature_of(fn, "agent"), "agent")
    if timeout is not None:
        duration_us(timeout, "timeout")
    if hold is not None:
        duration_us(hold, "hold")
    if limit is not None and (type(limit) is not int or limit < 1):
        raise Invalid(f"expected a number of runs, at least 1, got {limit!r}", path="limit")
    if workspace is not None and (not isinstance(workspace, str) or "\0" in workspace):
        raise Invalid(f"expected the path of a folder, got {workspace!r}", path="workspace")
    pinned = named_args(pins, "pins")
    policy_on_change = None if on_change is None else check_one_of(OnChange, on_change, "on_change")
    called = check_name(name or getattr(fn, "__name__", ""), "name")
    policy = policy_of(checkpoint)
    made = Agent(
        fn, called, policy, timeout=timeout, limit=limit, workspace=workspace, pins=pinned, hold=hold,
        on_change=policy_on_change,
    )  # fmt: skip
    DECLARED.declare(made)
    return made


def as_agent(fn: Callable[..., Any]) -> Agent:
    """Return an agent as it is, and any other function as an agent without options."""
    return fn if isinstance(fn, Agent) else _declare(fn)


def declared() -> dict[str, Agent]:
    """Return all agents that were declared in this process. Raises Invalid when two have the same name."""
    for name in DECLARED.clashes:
        raise Invalid(_clash(name), path="agents", hint=_ANOTHER_NAME)
    return dict(DECLARED)


def unknown(name: str) -> NotFound:
    """Return the error that says why no agent of this name can be found."""
    if name in DECLARED.clashes:
        return NotFound(_clash(name), path="agent", hint=f"{_ANOTHER_NAME}, or pass the one that is meant")
    return NotFound(f"no agent {name!r} is known here", path="agent", hint="import it, or pass it in")


def _clash(name: str) -> str:
    return f"two agents are called {name!r}: {DECLARED.clashes[name]}"


def by_name(agents: Iterable[Agent]) -> dict[str, Agent]:
    """Return agents by their names. Raises Invalid when two have the same name."""
    found: dict[str, Agent] = {}
    for each in agents:
        if each.name in found and found[each.name] is not each:
            raise Invalid(f"two agents are called {each.name!r}", path="agents", hint=_ANOTHER_NAME)
        found[each.name] = each
    return found


# -- programs ------------------------------------------------------------------------------------------------------------------


def program_of(fn: Callable[..., Any], pins: Mapping[str, Any]) -> str:
    """Return a short digest of a function's code and of the versions that it is pinned to."""
    return hashlib.sha256(_meaning(fn).encode() + digest(dict(pins), "pins")).hexdigest()[:PROGRAM_CHARS]


def _meaning(fn: Callable[..., Any]) -> str:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(fn)))
    except (OSError, TypeError, SyntaxError):  # no source: a function that was typed in, or compiled
        code = getattr(fn, "__code__", None)
        return f"{getattr(fn, '__qualname__', fn)} {code.co_code.hex() if code else ''}"
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and _is_text(body[0]):
            del body[0]
    return ast.dump(tree)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)

"""Commands: everything that the engine of effects and runs asks of the world around it (decisions 0022 and 0166).

The engine (`effect_engine` and `responding` here, `run_engine` and `driver` in `runtime/`) is written once for sync and async, as
generators that yield commands and receive their results. A shell (`runtime/shells.py`) carries the commands out, from sync or
from async code, and a test needs no database. The commands of every step and effect are msgspec structs, which C makes; the
others are tuples.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeAlias, TypeVar

import msgspec

from perdure.effects.tool import Tool
from perdure.log.change import Stream
from perdure.stores.tx import Tx

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")
P = ParamSpec("P")
LateOutcome: TypeAlias = Callable[[Any, BaseException | None], None]


class Write(msgspec.Struct, frozen=True):
    """Run a verb on the engine's stream, in a transaction of its own. Gives the verb's result.

    fenced: under the lease, if the stream is a run. keep: only this process knows what the verb records, so that a store that is
    away is waited for (docs/decisions/0026).
    """

    verb: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    fenced: bool = True
    keep: bool = False


class Read(msgspec.Struct, frozen=True):
    """Run a read verb. Gives its result."""

    verb: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}


class CheckLease(NamedTuple):
    """Check that the lease of the run still holds. Raises Stale if it was lost. A session has no lease, and passes."""


CHECK_LEASE = CheckLease()  # it says nothing more


class CallFunction(msgspec.Struct, frozen=True):
    """Call a function of the user. Gives a `CallOutcome`, which holds what the function raises.

    seconds: its deadline. late: called with the outcome of a call that comes back after that.
    """

    function: Callable[[], Any]
    is_async: bool
    seconds: float | None = None
    late: LateOutcome | None = None

    @property
    def outlives(self) -> bool:
        """Whether async code that is dropped while it waits (its event loop is gone) leaves the call running: in its thread or
        task. One in the caller's own task ends with it.
        """
        return not self.is_async or self.seconds is not None


class CallIsolated(NamedTuple):
    """Call a tool in a process of its own, which is killed at its deadline. Gives a `CallOutcome`."""

    tool: Tool
    args: Mapping[str, Any]
    handed: Mapping[str, Any]


class Consult(msgspec.Struct, frozen=True):
    """Call a function that sends nothing. Gives a `CallOutcome`. seconds: its deadline. check: as for `Pause`."""

    function: Callable[..., Any]
    kwargs: Mapping[str, Any]
    is_async: bool
    seconds: float | None = None
    args: tuple[Any, ...] = ()
    check: Callable[[], None] | None = None


class Pause(NamedTuple):
    """Wait for some seconds. watched: whether a process that is about to end stops waiting. check: asked meanwhile, in place of
    that; it raises when the wait is to end.
    """

    seconds: float
    watched: bool = True
    check: Callable[[], None] | None = None


class Await(NamedTuple):
    """Wait for a future that another caller completes."""

    future: Future[Any]


class Work(NamedTuple):
    """Do blocking work outside the database."""

    task: Callable[..., Any]
    args: tuple[Any, ...] = ()


class CallProgram(NamedTuple):
    """Call the program of the run. Gives a `CallOutcome`."""


class DriveRun(NamedTuple):
    """Drive a claimed run by its agent. Gives its `Drive`. run_for: makes what the agent's function gets."""

    agent: Any
    lease: Any
    run_for: Callable[..., Any]
    record: Any


class StopBranches(NamedTuple):
    """Stop the tasks of these branches, and wait until they have ended. A program without tasks has none."""

    tasks: Sequence[Any]


class AwaitCancellation(NamedTuple):
    """Wait for some seconds, or until the program cancels this. Gives whether no task of the program can move by itself; those
    that wait so count as standing.
    """

    seconds: float


class StandBy(NamedTuple):
    """Wait for some seconds while other branches of the run may move. If it judges: gives whether none of them can by itself."""

    seconds: float
    judges: bool = False


class StopProgram(NamedTuple):
    """Cancel all other tasks of the program, its first one included: it has stopped, and may wait for something of its own."""


Command: TypeAlias = (
    Write
    | Read
    | CheckLease
    | CallFunction
    | CallIsolated
    | Consult
    | Pause
    | Await
    | Work
    | CallProgram
    | DriveRun
    | StopBranches
    | AwaitCancellation
    | StandBy
    | StopProgram
)
Steps: TypeAlias = Generator[Command, Any, T]


def write(verb: Callable[Concatenate[Tx, Stream, P], Any], *args: P.args, **kwargs: P.kwargs) -> Write:
    """The command that runs a verb with these arguments. A type checker compares them with the parameters of the verb."""
    return Write(verb, args, kwargs)


class Ending(BaseException):
    """The run is to end, and does nothing more: it was cancelled, its time is over, or its drive has stopped already.

    No Exception, as asyncio.CancelledError is none: a loop that catches failures and tries again must end too.
    """

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class CallOutcome(msgspec.Struct, frozen=True):
    """The outcome of a call: its result, or its exception."""

    result: Any = None
    error: BaseException | None = None


class Overdue(Exception):
    """A call did not keep its deadline. quiet: it is over and can no longer send anything."""

    def __init__(self, seconds: float, *, quiet: bool) -> None:
        super().__init__(f"no answer within {seconds:g} s")
        self.quiet = quiet


# -- carrying them out -----------------------------------------------------------------------------------------------------


def carried(
    asking: Generator[Any, Any, T], carry_out: Callable[[Any], Any], leave: tuple[type[BaseException], ...] = ()
) -> T:
    """Run a generator to its end, and return what it returns. `carry_out` does what it yields; an error of that is thrown into
    the generator, except those in `leave`, which close the generator and are raised.
    """
    try:
        command = next(asking)
        while True:
            try:
                result = carry_out(command)
            except leave:
                asking.close()
                raise
            except BaseException as error:  # noqa: BLE001 - as above
                command = asking.throw(error)
            else:
                command = asking.send(result)
    except StopIteration as end:
        return end.value

"""The outcome of an external call, judged by what its tool declared: a result, a clear no, or doubt.

Plain functions. Callers: the engine of effects and the handles. Keeps P4.
"""

from __future__ import annotations

from typing import Any

from perdure.effects import ledger, settling
from perdure.effects.ledger import LateAnswer, Outcome, error_of
from perdure.effects.settling import Advice
from perdure.effects.tool import Tool
from perdure.errors import Failed, InDoubt, Invalid, Unavailable
from perdure.model.records.effects import EffectError, EffectRecord, EffectState
from perdure.model.storable import Unkept, storable

LATE = "a late answer"
RETRY_AFTER_MAX_SECONDS = 600.0
# Modules in which no tool is: what is raised there is not its word.
_NOT_TOOLS = (
    "perdure.artifacts", "perdure.effects.effect_engine", "perdure.effects.outcomes", "perdure.effects.responding",
    "perdure.handles", "perdure.planes", "perdure.runtime", "perdure.stores",
)  # fmt: skip


def late_answer(tool: Tool, result: Any, error: BaseException | None) -> LateAnswer:
    """The outcome of a call for which nobody waits any more, and the arrow that records it."""
    if error is None:
        return LateAnswer("commit", Outcome(kept(result), by=LATE))
    outcome = Outcome(error=error_of(error), by=LATE)
    if says_no(tool, error):
        return LateAnswer("fail", outcome)
    if says_unsent(error):
        return LateAnswer("unsent", outcome)
    return LateAnswer("doubt", outcome, quiet=is_quiet(error))


def says_no(tool: Tool, error: BaseException) -> bool:
    """Whether a tool says that nothing happened: by an exception that it declares in `fails`, or by raising Failed itself."""
    return isinstance(error, tool.fails) or (isinstance(error, Failed) and is_own_word(error))


def says_unsent(error: BaseException) -> bool:
    """Whether a tool says that nothing was sent, by raising Unavailable itself."""
    return isinstance(error, Unavailable) and is_own_word(error)


def is_own_word(error: BaseException) -> bool:
    """Whether the tool raised this itself. An exception of a store or a run that the tool uses says nothing about what the tool
    has done.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__"))
    return not where.startswith(_NOT_TOOLS)


def unsent(error: BaseException) -> Outcome:
    """The outcome of an attempt whose sender was stopped before the call."""
    said = EffectError(type(error).__name__, f"it was stopped before it was sent: {error}")
    return Outcome(error=said, by=ledger.UNSENT)


def is_quiet(error: BaseException) -> bool:
    """Whether a call that raised this can no longer send. It cannot, unless the error says otherwise (`Overdue`)."""
    return vars(error).get("quiet", True) is True  # as it was said here: what a tool's own class says is not asked


def kept(result: Any) -> Any:
    """The form in which a result is kept: itself, or one that a store can hold. The effect happened and must not happen again."""
    return result.kept if isinstance(result, Unkept) else storable(result)


def unkept(result: Any, error: Invalid) -> Outcome:
    """The outcome of an effect whose result cannot be kept as it is: a form that can, and why."""
    path, message = (result.path, result.message) if isinstance(result, Unkept) else (error.path, error.message)
    return Outcome(kept(result), unkept=f"{path}: {message}")


def cause_of_silence(*, dead: bool, held: bool) -> EffectError:
    """The cause of doubt when a sender is no longer at its call: dead, silent, or stopped."""
    if held and not dead:
        return EffectError(
            settling.SILENT, "the process that sent it lives but is silent: it may be stopped, and send it yet"
        )
    return EffectError(settling.DIED, settling.HAS_DIED if dead else settling.IS_SILENT)


def in_doubt(record: EffectRecord, advice: Advice) -> InDoubt:
    """The error that says what is in doubt, why nothing more is done by itself, and how a person settles it."""
    return InDoubt(
        f"{in_doubt_about(record)}: {advice.reason}", path=record.id,
        hint=settling.ways_out(record), effect=record.id, action=advice.action.value, until=advice.until_us,
    )  # fmt: skip


def in_doubt_about(record: EffectRecord) -> str:
    """The effect in doubt, and the cause."""
    unknown = f"the outcome of {record.tool} is unknown"
    if record.error is None:
        return unknown
    if record.error.code == settling.DIED:
        return f"{record.error.message}, so {unknown}"
    return f"{unknown} ({record.error.code}: {record.error.message})"


def outcome_of(record: EffectRecord) -> Any:
    """The result of a settled effect. Failed when it did not happen, or was undone."""
    if record.state is EffectState.COMMITTED:
        if record.unkept is not None:
            path, _, why = record.unkept.partition(": ")
            raise Invalid(
                f"{record.tool} happened, but its result cannot be kept as it is: {why}", path=path,
                hint="give plain data from now on; facts['kept'] of this error is what is kept of it, and may be used",
                effect=record.id, kept=record.result,
            )  # fmt: skip
        return record.result
    error = record.error or EffectError(record.state.value, f"{record.tool} is {record.state}")
    raise Failed(error.message or f"{record.tool} is {record.state}", code=error.code, path=record.id, effect=record.id)


def backoff_seconds(first: float, attempt: int, said: BaseException | None = None) -> float:
    """How long to wait before the next attempt: doubled each time, at most a minute; longer if the other side says so.

    said: what the attempt raised. `Unavailable(…, retry_after=30)` asks for so many seconds; at most ten minutes are given.
    """
    wished = said.facts.get("retry_after") if isinstance(said, Unavailable) else None
    least = float(wished) if isinstance(wished, (int, float)) and wished > 0 else 0.0
    return max(min(first * 2 ** max(attempt - 1, 0), 60.0), min(least, RETRY_AFTER_MAX_SECONDS))

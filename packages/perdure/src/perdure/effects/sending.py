"""Sending: one attempt of an effect, from its dispatch over the call of its tool (P2) to the record of what became of it.

Every arrow of the ledger has a crash point before and after it, `effect.<arrow>.before|after`, and so has the call itself.
The methods that return `Steps` are generators without colour: see `commands`. Callers: `acting`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar

import msgspec

from perdure.effects import approvals, ledger, settling
from perdure.effects.batch import BatchCall
from perdure.effects.commands import (
    CHECK_LEASE,
    Await,
    CallFunction,
    CallIsolated,
    CallOutcome,
    Command,
    Ending,
    Overdue,
    Pause,
    Steps,
    Write,
    write,
)
from perdure.effects.composed import (
    EndingVerb,
    about_attempt,
    answering,
    arriving,
    followed_by,
    for_call,
    unless_stopped,
)
from perdure.effects.kept_results import ResultKeeper, keep_trying
from perdure.effects.ledger import Intent, Outcome, Sender, error_of
from perdure.effects.outcomes import backoff_seconds, is_quiet, said_late, says_no, says_unsent, unkept, unsent
from perdure.effects.tool import Guard, Tool
from perdure.errors import Conflict, Error, Invalid, Stale
from perdure.log.change import Stream
from perdure.model.crash_points import reach
from perdure.model.display import whence
from perdure.model.instants import SECOND_US
from perdure.model.records.effects import EffectError, EffectRecord, EffectState
from perdure.stores.in_flight import Attempt, InFlight
from perdure.stores.liveness import Liveness
from perdure.stores.revocable import RevocableVerb
from perdure.stores.tool_limits import Slots
from perdure.stores.tx import Tx

log = logging.getLogger("perdure.effects")

T = TypeVar("T")
P = ParamSpec("P")
Check: TypeAlias = Callable[[], None]
NextCall: TypeAlias = Callable[[], "BatchCall | None"]
KEPT = frozenset({"commit", "fail", "absent"})  # arrows that say what became of a call: not said, it would be doubt


class SendingStore(ResultKeeper, Protocol):
    """The engine's needs of the open store that it acts in, besides the commands that it yields: `stores.core.Core` has it."""

    acts: bool
    holder: str
    guards: tuple[Guard, ...]
    liveness: Liveness
    in_flight: InFlight
    slots: Slots

    @property
    def epoch(self) -> int:
        """The store's, as far as this process has heard."""
        ...

    @property
    def clock_moves(self) -> bool:
        """Whether waiting helps."""
        ...

    def write(self, verb: Callable[..., Any], *args: Any, actor: str, tenant: int) -> Any:
        """Run a verb in a transaction: for a call that comes back when nobody waits for it."""
        ...


class Sending:
    """Sends the effects of one stream.

    in_run: it sends under the lease of a run. token: of that lease, handed to tools that ask for it. going: raises when the run
    is to end, so that nothing more is begun.
    """

    __slots__ = ("_actor", "_announced", "_going", "_here", "_in_run", "_stream", "_tenant", "_token")

    def __init__(
        self, here: SendingStore, stream: Stream, actor: str, tenant: int, *, in_run: bool = False, token: int = 0,
        going: Check = lambda: None,
    ) -> None:  # fmt: skip
        self._here = here
        self._stream = stream
        self._actor = actor
        self._tenant = tenant
        self._in_run = in_run
        self._token = token
        self._going = going
        self._announced: str | int | None = None  # the effect that is dispatched next, until its attempt begins

    @property
    def sender(self) -> Sender:
        """The dispatching side here."""
        return Sender(self._here.holder, self._here.epoch)

    @property
    def may_begin(self) -> bool:
        """Whether something new may be begun."""
        try:
            self._going()
        except BaseException:  # noqa: BLE001 - the function that begins the work raises it
            return False
        return True

    # -- the ledger ------------------------------------------------------------------------------------------------------------

    def move(
        self, arrow: str, verb: Callable[Concatenate[Tx, Stream, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> Steps[T]:
        """Follow one arrow of the ledger, between its two crash points."""
        reach(f"effect.{arrow}.before")
        result = yield Write(verb, args, kwargs, keep=arrow in KEPT)
        reach(f"effect.{arrow}.after")
        return result

    def _doubt(
        self, record: EffectRecord, said: EffectError, *, quiet: bool, epoch: int | None = None
    ) -> Steps[EffectRecord]:
        return self.move("doubt", about_attempt(record, ledger.doubt), said, quiet=quiet, epoch=epoch)

    # -- dispatch --------------------------------------------------------------------------------------------------------------

    def dispatch(self, tool: Tool, intent: Intent) -> Steps[tuple[EffectRecord, bool]]:
        """Dispatch an intent, which makes it durable. Gives the effect, and whether this call must send it."""
        verb = RevocableVerb(for_call(approvals.dispatch_meant), ledger.take_back, dispatched_here)
        return self._announce(tool, intent.key, "dispatch", verb, intent, self.sender)

    def dispatch_permitted(self, tool: Tool, record: EffectRecord) -> Steps[tuple[EffectRecord, bool]]:
        """Dispatch a planned effect, if the person who was asked has approved of it. Gives the effect, and whether this call must
        send it. Raises Waiting while the person has not answered.
        """
        if record.state is not EffectState.PLANNED:
            return record, False
        if record.epoch != self.sender.epoch:
            return (yield write(approvals.permitted, record.seq, self.sender.epoch)), False
        verb = RevocableVerb(unless_stopped(self._going, approvals.dispatch_planned), ledger.take_back, dispatched_here)
        return (yield from self._announce(tool, record.seq, "dispatch", verb, record.seq, self.sender))

    def dispatch_again(self, tool: Tool, record: EffectRecord) -> Steps[tuple[EffectRecord, bool]]:
        """Dispatch the next attempt of an effect in doubt, unless a person did not approve of it. Gives the effect, and whether
        this call must send it.
        """
        verb = RevocableVerb(approvals.dispatch_again, ledger.take_back, dispatched_here)
        return self._announce(tool, record.seq, "again", verb, record.seq, record.attempt, self.sender)

    def dispatch_new(self, tool: Tool, intent: Intent) -> Steps[EffectRecord]:
        """Dispatch an effect that is known to be new."""
        verb = RevocableVerb(unless_stopped(self._going, ledger.dispatch_new), ledger.take_back)
        return self._announce(tool, intent.key, "dispatch", verb, intent, self.sender)

    def dispatch_begun(self, seq: int, sender: Sender) -> Steps[EffectRecord]:
        """Dispatch an effect that its user carries out. A caller that is stopped before it hears of that has sent nothing."""
        if not self._here.acts:  # over a network: the same dispatch again has the same answer
            return (yield from self.move("dispatch", approvals.dispatch, seq, sender))
        verb = RevocableVerb(
            approvals.dispatch, ledger.take_back, lambda found: found if found.state is EffectState.DISPATCHED else None
        )
        try:
            return (yield from self.move("dispatch", verb, seq, sender))
        except BaseException as error:
            yield from self._take_back(error, verb)
            raise

    def _announce(self, tool: Tool, which: str | int, arrow: str, verb: RevocableVerb[T], *args: Any) -> Steps[T]:
        """Follow an arrow to `dispatched`. The tool's slot is taken first, and `_send` gives it back: a caller that waits for a
        slot has dispatched nothing. which: the effect, by its key or its number.
        """
        yield from self._take_slot(tool)
        self._here.liveness.begin()
        self.announce(which)
        try:
            found = yield from self.move(arrow, verb, *args)
        except BaseException as error:
            self._give_slot(tool)
            yield from self._take_back(error, verb)
            raise
        if verb.made is None:
            self.unannounce()
            self._give_slot(tool)
        return found

    def announce(self, which: str | int) -> None:
        """Let others of this process know that an effect is about to be dispatched and sent. In a run its lease says so."""
        if not self._in_run:
            self._announced = which
            self._here.in_flight.announce(self._stream.id, which, self)

    def unannounce(self) -> None:
        """End the announcement: the attempt has begun, or will never begin. Idempotent."""
        if self._announced is not None:
            self._here.in_flight.unannounce(self._stream.id, self._announced, self)
            self._announced = None

    def _take_back(self, error: BaseException, verb: RevocableVerb[Any]) -> Steps[None]:
        """Record that nothing was sent, if a caller that was stopped has dispatched the effect all the same. The effect stays
        announced until then, so that nobody takes it for doubt.
        """
        try:
            if not isinstance(error, (Exception, Ending)):
                with suppress(Error):  # the store is away: it is found out later
                    yield from self._say(Write(verb.take_back, (unsent(error),)))
        finally:
            self.unannounce()

    # -- the call --------------------------------------------------------------------------------------------------------------

    def _send(
        self, tool: Tool, record: EffectRecord, then: NextCall | None = None
    ) -> Steps[tuple[EffectRecord, BaseException | None]]:
        """Call the tool and record the outcome. Gives the effect, and what the tool raised."""
        flight = Attempt(self._here.in_flight, (self._stream.id, record.seq, record.attempt))
        try:
            flight.begin()
            self.unannounce()
            yield from self._ready(tool, record)
            came = yield from self._came_of(self._call(tool, record, flight), flight)
            if came.error is None or is_quiet(came.error):
                self._give_slot(tool)  # else the call gives it back when it returns, however late that is
            if came.error is None:
                reach("effect.call.after")
            else:
                flight.goes_on = not is_quiet(came.error)
            return (yield from self.record_outcome(tool, record, came, then)), came.error
        finally:
            flight.recorded()

    def _came_of(self, call: CallFunction | CallIsolated, flight: Attempt) -> Steps[CallOutcome]:
        try:
            return (yield call)
        except GeneratorExit:  # dropped by its event loop
            flight.goes_on = isinstance(call, CallFunction) and call.outlives
            raise

    def _ready(self, tool: Tool, record: EffectRecord) -> Steps[None]:
        """Check the lease once more, right before the call. A caller that is stopped here has sent nothing, and records that;
        without the lease, if that was lost.
        """
        try:
            yield CHECK_LEASE
            reach("effect.call.before")
        except BaseException as error:
            self._give_slot(tool)
            with suppress(Error):  # the store is away: it is found out later
                yield from self._say(Write(arriving(about_attempt(record, ledger.unsent)), (unsent(error),)))
            raise

    def _call(self, tool: Tool, record: EffectRecord, flight: Attempt) -> CallFunction | CallIsolated:
        handed = {"key": record.sent_key, "token": self._token}
        if tool.isolate:
            return CallIsolated(tool, record.args, handed)
        seconds = None if tool.rule.timeout is None else tool.rule.timeout / SECOND_US
        late = partial(self._came_back_late, tool, record, flight)
        return CallFunction(partial(tool.call, tool.fn, record.args, **handed), tool.is_async, seconds, late)

    def _came_back_late(
        self, tool: Tool, record: EffectRecord, flight: Attempt, result: Any, error: BaseException | None
    ) -> None:
        """Record the outcome of a call that comes back after its deadline. It settles the doubt about itself, if nothing else
        has.
        """
        self._give_slot(tool)
        verb, said = said_late(tool, result, error)
        arrive = arriving(about_attempt(record, verb))
        write = partial(self._here.write, arrive, self._stream, said, actor=self._actor, tenant=self._tenant)
        try:
            keep_trying(self._here, write, record.id)
        except Error as lost:  # the store was closed meanwhile, or was away for too long: the doubt stays
            log.warning("the outcome of effect %s came too late to be recorded: %s", record.id, lost)
        finally:
            flight.landed()

    # -- slots -----------------------------------------------------------------------------------------------------------------

    def _take_slot(self, tool: Tool) -> Steps[None]:
        """Wait until the tool may be called once more, if it has a limit."""
        if tool.limit is None:
            return
        slots = self._here.slots
        future = slots.take(tool.name, tool.limit)
        try:
            yield Await(future)
        except BaseException:
            slots.leave(tool.name, future)
            raise

    def _try_slot(self, tool: Tool) -> bool:
        return tool.limit is None or self._here.slots.try_take(tool.name, tool.limit)

    def _give_slot(self, tool: Tool) -> None:
        if tool.limit is not None:
            self._here.slots.give_back(tool.name)

    # -- what became of it -----------------------------------------------------------------------------------------------------

    def _end(
        self, then: NextCall | None, arrow: str, verb: EndingVerb[P], *args: P.args, **kwargs: P.kwargs
    ) -> Steps[EffectRecord]:
        """Follow an arrow that ends an effect. The next call of its batch is dispatched in the same commit, if it can be sent at
        once.
        """
        following = None if then is None else then()
        if then is None or following is None or following.record is None or not self._try_slot(following.sends):
            return (yield from self.move(arrow, answering(verb), *args, **kwargs))
        after = following.record.seq
        ending = followed_by(after, self.sender, lambda: then() is not None, verb)
        both = RevocableVerb(ending, ledger.take_back, lambda found: found[1])
        self.announce(after)
        try:
            reach("effect.dispatch.before")
            record, following.record = yield from self.move(arrow, both, *args, **kwargs)
            following.mine = True
            reach("effect.dispatch.after")
        except BaseException as error:
            following.mine = False
            self._give_slot(following.sends)
            yield from self._take_back(error, both)
            # The next one has moved: that is looked at then.
            if isinstance(error, Conflict) and not isinstance(error, Stale):
                return (yield from self.move(arrow, answering(verb), *args, **kwargs))
            raise
        return record

    def record_outcome(
        self, tool: Tool, record: EffectRecord, came: CallOutcome, then: NextCall | None = None
    ) -> Steps[EffectRecord]:
        """Record what came of the call of an attempt; a worker on the other side of a wire may have made it.

        then: as for `conclude`. A caller that has lost its lease says it without, and gets Stale.
        """
        try:
            if came.error is not None:
                return (yield from self._judged(tool, record, came.error, then))
            return (yield from self._end(then, "commit", ledger.commit_own, record, Outcome(came.result)))
        except Stale:
            yield from self.record_late(tool, record, came)
            raise
        except Invalid as error:
            if came.error is not None:
                raise
            kept = unkept(came.result, error)  # it happened, and its result cannot be kept: it must not happen again
            return (yield from self.move("commit", answering(about_attempt(record, ledger.commit)), kept))

    def record_late(self, tool: Tool, record: EffectRecord, came: CallOutcome) -> Steps[None]:
        """Record the outcome for a caller that may have lost its lease: under the lease if that holds, else without it. The
        outcome is a fact, and settles the doubt about its own attempt, if nothing else has.
        """
        verb, said = said_late(tool, came.result, came.error)
        return self._say(Write(arriving(about_attempt(record, verb)), (said,), keep=True))

    def _say(self, write: Write) -> Generator[Command, Any, None]:
        try:
            yield write
        except Stale:
            yield msgspec.structs.replace(write, fenced=False)

    def _judged(
        self, tool: Tool, record: EffectRecord, error: BaseException, then: NextCall | None
    ) -> Steps[EffectRecord]:
        """Record what a tool raised. A clear no is a failure, Unavailable says that nothing was sent, and anything else is doubt
        (docs/decisions/0006).
        """
        if says_no(tool, error):
            verb = about_attempt(record, ledger.fail_quiet if record.doubtful else ledger.fail)
            return (yield from self._end(then, "fail", verb, Outcome(error=error_of(error))))
        if says_unsent(error):
            return (yield from self._not_sent(tool, record, error))
        said = EffectError(settling.OVERDUE, str(error)) if isinstance(error, Overdue) else error_of(error)
        if not isinstance(error, Exception):
            said = EffectError(settling.INTERRUPTED, type(error).__name__)
        doubted = yield from self._doubt(record, said, quiet=is_quiet(error))
        if not isinstance(error, Exception):
            raise error
        if log.isEnabledFor(logging.WARNING):  # where it was raised is put into words
            trace: Mapping[str, str] = {"trace": whence(error, log, self._stream.name)}
            log.warning("it is not known whether %s happened: effect %s", tool.name, record.id, extra=trace)
        return doubted

    def _not_sent(self, tool: Tool, record: EffectRecord, error: BaseException) -> Steps[EffectRecord]:
        """Plan the next attempt after one that was not sent. Doubt, if an attempt before it may have happened."""
        outcome = Outcome(error=error_of(error), by="its tool")
        if record.doubtful:
            return (yield from self._doubt(record, error_of(error), quiet=True))
        if record.failures > tool.rule.retries:
            return (yield from self.move("fail", answering(about_attempt(record, ledger.fail_quiet)), outcome))
        planned = yield from self.move("absent", about_attempt(record, ledger.absent), outcome)
        yield Pause(backoff_seconds(tool.backoff, record.failures, error))
        return planned


def dispatched_here(found: tuple[EffectRecord, bool]) -> EffectRecord | None:
    """The effect that a verb gave, if it was this verb that dispatched it."""
    record, mine = found
    return record if mine else None

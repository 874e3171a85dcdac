# Generated from handles/aio/sending.py by tools/unasync.py: edit that one.
"""Sending: the one place that calls tools (P2). From the dispatch of an attempt to the record of what became of it.

Every arrow of the ledger has a crash point before and after it, `effect.<arrow>.before|after`, and so has the call itself.
Callers: `acting`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from perdure.effects import ledger, permitting, settling
from perdure.effects.answers import answering, arriving, beginning, followed_by, for_call
from perdure.effects.batch import Meant, nothing_next
from perdure.effects.judging import (
    backoff_seconds,
    is_quiet,
    said_late,
    says_no,
    says_unsent,
    unkept,
    unsent,
)
from perdure.effects.ledger import Intent, Outcome, Sender, error_of
from perdure.effects.tool import Tool
from perdure.errors import Conflict, Error, Invalid, Stale
from perdure.handles.callers import Caller, Check
from perdure.handles.invoking import Attempt, Invoker, Overdue, Prepared
from perdure.handles.isolating import Isolator
from perdure.log.change import Stream
from perdure.model.instants import SECOND_US
from perdure.model.points import reach
from perdure.model.records.effects import (
    EffectError,
    EffectRecord,
    EffectState,
)
from perdure.runtime import driven
from perdure.stores.tide import Dispatch

log = logging.getLogger("perdure.effects")

Write = Callable[..., Any]
Then = Callable[[], "Meant | None"]


class Sending:
    """Sends on one stream. `write` runs a verb there: plainly for a session, fenced for a run.

    `check` is asked right before a tool is called: whether this caller may still send. `going` raises when nothing more is to be
    begun: its run is to end. `staying` raises when its process is: nobody waits any longer for another attempt or a slot.
    """

    __slots__ = ("_caller", "_check", "_going", "_invoker", "_staying", "_stream", "_token", "_write")

    def __init__(
        self, caller: Caller, stream: Stream, write: Write, *, check: Write | None = None, token: int = 0,
        going: Check = lambda: None, staying: Check = lambda: None,
    ) -> None:  # fmt: skip
        self._caller = caller
        self._stream = stream
        self._write = write
        self._check = check
        self._going = going
        self._staying = staying
        self._token = token
        self._invoker = Invoker(caller.core.living)

    @property
    def sender(self) -> Sender:
        """Who dispatches here."""
        core = self._caller.core
        return Sender(core.holder, core.epoch)

    @property
    def may_begin(self) -> bool:
        """Whether something new may be begun."""
        try:
            self._going()
        except BaseException:  # noqa: BLE001 - whoever begins something raises it
            return False
        return True

    def move(self, arrow: str, verb: Callable[..., Any], *args: Any) -> Any:
        """Follow one arrow of the ledger, between its two crash points."""
        reach(f"effect.{arrow}.before")
        result = self._write(verb, *args)
        reach(f"effect.{arrow}.after")
        return result

    def dispatch(self, tool: Tool, intent: Intent) -> tuple[EffectRecord, bool]:
        """Make the intent durable; whether it was this call that did, so that it must be sent."""
        return self._announce_own(tool, for_call, permitting.dispatch_meant, intent)

    def dispatch_permitted(self, tool: Tool, record: EffectRecord) -> tuple[EffectRecord, bool]:
        """The same for what is planned, if whoever was asked has approved of it. Waiting while nobody has said."""
        if record.state is not EffectState.PLANNED:
            return record, False
        if record.epoch != self.sender.epoch:
            return self._write(permitting.permitted, record.seq, self.sender.epoch), False
        return self._announce_own(tool, beginning, self._going, permitting.dispatch_planned, record.seq)

    def _announce_own(self, tool: Tool, verb: Callable[..., Any], *args: Any) -> tuple[EffectRecord, bool]:
        """`_announce` with a verb that says whether it was the one that dispatched."""
        record, mine = self._announce(tool, "dispatch", verb, *args)
        if not mine:
            self._give_slot(tool)
        return record, mine

    def dispatch_again(self, tool: Tool, record: EffectRecord) -> tuple[EffectRecord, bool]:
        """The next attempt at what is in doubt, if it is approved of; whether it is, so that it must be sent."""
        found = self._announce(tool, "again", permitting.dispatch_again, record.seq, record.attempt)
        mine = found.state is EffectState.DISPATCHED
        if not mine:
            self._give_slot(tool)
        return found, mine

    def dispatch_new(self, tool: Tool, intent: Intent) -> EffectRecord:
        """The same for what is known to be new."""
        return self._announce(tool, "dispatch", beginning, self._going, ledger.dispatch_new, intent)

    def _announce(self, tool: Tool, arrow: str, verb: Callable[..., Any], *args: Any) -> Any:
        """Follow an arrow to `dispatched`, with a slot of the tool, which `_send` gives back. Who waits for one sends nothing."""
        self._take_slot(tool)
        self._caller.core.living.begin()
        try:
            return self.move(arrow, verb, *args, self.sender)
        except Exception:
            self._give_slot(tool)
            raise
        except BaseException as error:  # stopped meanwhile: it may be dispatched all the same
            self._give_slot(tool)
            self._take_back(error, next(each for each in args if isinstance(each, (Intent, int))))
            raise

    def _take_back(self, error: BaseException, what: Intent | int) -> None:
        """Say that it was not sent, if a call that was stopped has dispatched it all the same. Only in a run: in a session
        somebody else may have dispatched it under its key.
        """
        if self._check is not None and not isinstance(error, Exception):
            which = what.key if isinstance(what, Intent) else what
            with suppress(Error):  # the store is away: it is found out later
                sent = self._caller.core.flights.has_attempt
                self._say(ledger.take_back, which, self.sender, unsent(error), sent)

    def _send(
        self, tool: Tool, record: EffectRecord, then: Then = nothing_next
    ) -> tuple[EffectRecord, BaseException | None]:
        """Call the tool, and record what became of it; gives what it raised, too."""
        flight = Attempt(self._caller.core.flights, (self._stream.id, record.seq, record.attempt))
        try:
            self._ready(tool, record)
            try:
                result = self._call(tool, record, flight)
            except BaseException as error:  # noqa: BLE001 - whatever a tool raises is judged by its declaration
                flight.goes_on = not is_quiet(error)
                return self._went_wrong(tool, record, error, then), error
            reach("effect.call.after")
            return self._happened(tool, record, result, then), None
        finally:
            flight.recorded()

    def _ready(self, tool: Tool, record: EffectRecord) -> None:
        """The lease once more, right before the call. Whatever stops it here, nothing was sent: that is said, without a lease."""
        try:
            self._check_lease()
            self._caller.core.tide.note(Dispatch(self._stream.uid, record.seq, record.attempt))
            reach("effect.call.before")
        except BaseException as error:
            self._give_slot(tool)
            with suppress(Error):  # the store is away: it is found out later
                self._say_late(record, (ledger.unsent, unsent(error)))
            raise

    def _check_lease(self) -> None:
        if self._check is not None:
            self._check()

    def _call(self, tool: Tool, record: EffectRecord, flight: Attempt) -> Any:
        """Call it. Its slot is given back when the call has come back, however late that is."""
        try:
            result = self._invoked(tool, record, flight)
        except BaseException as error:
            if is_quiet(error):
                self._give_slot(tool)
            raise
        self._give_slot(tool)
        return result

    def _invoked(self, tool: Tool, record: EffectRecord, flight: Attempt) -> Any:
        handed = {"key": record.handed, "token": self._token}
        if tool.isolate:
            return Isolator(self._caller.core.living).call(tool, record.args, handed, self._staying)
        call = Prepared(lambda: tool.call(tool.fn, record.args, **handed), is_async=tool.is_async)
        late = self._late(tool, record, flight)
        if tool.rule.timeout is None:
            return self._invoker.call(call, late)
        return self._invoker.call_within(call, tool.rule.timeout / SECOND_US, self._staying, late)

    # -- slots -----------------------------------------------------------------------------------------------------------------

    def _take_slot(self, tool: Tool) -> None:
        """Wait until the tool may be called once more, if it has a limit."""
        if tool.limit is None:
            return
        slots = self._caller.core.slots
        future = slots.take(tool.name, tool.limit)
        try:
            self._caller.until(future, self._staying)
        except BaseException:
            slots.leave(tool.name, future)
            raise

    def _try_slot(self, tool: Tool) -> bool:
        return tool.limit is None or self._caller.core.slots.try_take(tool.name, tool.limit)

    def _give_slot(self, tool: Tool) -> None:
        if tool.limit is not None:
            self._caller.core.slots.give_back(tool.name)

    # -- what became of it -----------------------------------------------------------------------------------------------------

    def _end(self, then: Then, arrow: str, verb: Callable[..., Any], *args: Any) -> EffectRecord:
        """Follow an arrow that ends an effect; what comes next is dispatched in the same commit, if it can be sent at once."""
        following = then()
        if following is None or following.record is None or not self._try_slot(following.sends):
            return self.move(arrow, answering, verb, *args)
        after = following.record.seq
        try:
            reach("effect.dispatch.before")
            about = (after, self.sender, then, verb, *args)
            record, following.record = self.move(arrow, followed_by, *about)
            following.mine = True
            reach("effect.dispatch.after")
        except BaseException as error:
            following.mine = False
            self._give_slot(following.sends)
            self._take_back(error, after)
            # The next one has moved: that is looked at then.
            if isinstance(error, Conflict) and not isinstance(error, Stale):
                return self.move(arrow, answering, verb, *args)
            raise
        return record

    def _late(self, tool: Tool, record: EffectRecord, flight: Attempt) -> Callable[[Any, BaseException | None], None]:
        """What a call does that comes back after it was left behind: it settles its own doubt, if nothing else has."""
        core, caller, stream = self._caller.core, self._caller, self._stream

        def tell(result: Any, error: BaseException | None) -> None:
            self._give_slot(tool)
            said = said_late(tool, result, error)
            try:
                core.write(arriving, stream, said[0], record.seq, record.attempt, *said[1:], actor=caller.actor,
                           tenant=caller.tenant)  # fmt: skip
            except Error as lost:  # the store was closed meanwhile: the doubt stays
                log.warning("what became of effect %s came too late to be recorded: %s", record.id, lost)
            finally:
                flight.landed()

        return tell

    def _happened(self, tool: Tool, record: EffectRecord, result: Any, then: Then) -> EffectRecord:
        try:
            return self._end(then, "commit", ledger.commit_own, record, Outcome(result))
        except Stale:
            self._say_late(record, said_late(tool, result, None))
            raise
        except Invalid as error:  # it happened, and its result cannot be kept: it must not happen again
            return self.move("commit", answering, ledger.commit, record.seq, record.attempt, unkept(result, error))

    def _went_wrong(self, tool: Tool, record: EffectRecord, error: BaseException, then: Then) -> EffectRecord:
        """What a tool raised, recorded; without the lease too, if that was lost meanwhile."""
        try:
            return self._judged(tool, record, error, then)
        except Stale:
            self._say_late(record, said_late(tool, None, error))
            raise

    def _say_late(self, record: EffectRecord, said: tuple[Any, ...]) -> None:
        """What became of the call is a fact: said under the lease if that holds, else without it."""
        verb, *about = said
        self._say(arriving, verb, record.seq, record.attempt, *about)

    def _say(self, verb: Callable[..., Any], *args: Any) -> None:
        try:
            self._write(verb, *args)
        except Stale:
            self._caller.write(verb, self._stream, *args)

    def _judged(self, tool: Tool, record: EffectRecord, error: BaseException, then: Then) -> EffectRecord:
        """A clear no is a failure; Unavailable says that nothing was sent; anything else is doubt (docs/decisions/0006)."""
        if says_no(tool, error):
            outcome = Outcome(error=error_of(error))
            verb = ledger.fail_quiet if record.doubtful else ledger.fail
            return self._end(then, "fail", verb, record.seq, record.attempt, outcome)
        if says_unsent(error):
            return self._not_sent(tool, record, error)
        said = EffectError(settling.OVERDUE, str(error)) if isinstance(error, Overdue) else error_of(error)
        if not isinstance(error, Exception):
            said = EffectError(settling.INTERRUPTED, type(error).__name__)
        doubted = self._doubt(record, said, quiet=is_quiet(error))
        if not isinstance(error, Exception):
            raise error
        trace = {"trace": driven.whence(error)}
        log.warning("it is not known whether %s happened: effect %s", tool.name, record.id, extra=trace)
        return doubted

    def _not_sent(self, tool: Tool, record: EffectRecord, error: BaseException) -> EffectRecord:
        """It did not happen, and may be tried again as often as the tool allows; unless an attempt before may have happened."""
        outcome = Outcome(error=error_of(error), by="its tool")
        if record.doubtful:
            return self._doubt(record, error_of(error), quiet=True)
        if record.failures > tool.rule.retries:
            return self.move("fail", answering, ledger.fail_quiet, record.seq, record.attempt, outcome)
        planned = self.move("absent", ledger.absent, record.seq, record.attempt, outcome)
        self._pause(tool, record, error)
        return planned

    def _pause(self, tool: Tool, record: EffectRecord, said: BaseException | None = None) -> None:
        """Wait before the next attempt; a run whose process is about to end goes on elsewhere meanwhile."""
        self._caller.pause(backoff_seconds(tool.backoff, record.failures, said), self._staying)

    def _doubt(self, record: EffectRecord, said: EffectError, *, quiet: bool, epoch: int | None = None) -> EffectRecord:
        return self.move("doubt", partial(ledger.doubt, quiet=quiet, epoch=epoch), record.seq, record.attempt, said)

"""Driving runs in place: the loop behind `store.drive`, which carries a run and its children to their end here and now.

Written once for sync and async: a shell carries out what is yielded. Callers: the handles of runs. Keeps P7 (a run is claimed
first) and P13.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from perdure.effects.commands import DriveRun, Pause, Read, Steps, Write
from perdure.errors import Cancelled, Conflict, Error, Failed, NotFound, Parked, Waiting
from perdure.log.change import Stream
from perdure.model.instants import SECOND_US, instant_us
from perdure.model.lazily import lazily
from perdure.model.records.runs import RunRecord, RunStatus, WaitKind, WaitRecord
from perdure.planes.execution import leases, runs, waits
from perdure.planes.execution.leases import Lease
from perdure.planes.reading.durations import store_now
from perdure.runtime import untaken
from perdure.runtime.agent import Agent, unknown
from perdure.runtime.driver import PATIENCE_US, Drive, run_result
from perdure.runtime.run_engine import DOUBT
from perdure.stores.core import Core

if TYPE_CHECKING:
    from perdure.planes.execution import workers
else:
    (workers,) = lazily("perdure.planes.execution", "workers")

ANSWERED = (WaitKind.ASK, WaitKind.APPROVAL, WaitKind.SIGNAL)  # by somebody, at any time
LOOK_SECONDS = 0.5  # how often a drive that waits for the clock or for children looks


class DrivenInPlace:
    """Drives runs of these agents. run_for: gives the class of an agent's run. patience_us: the longest sleep to wait for."""

    __slots__ = ("_agents", "_core", "_patience_us", "_run_for")

    def __init__(
        self,
        core: Core,
        agents: Mapping[str, Agent],
        run_for: Callable[..., Any],
        patience_us: float = PATIENCE_US,
    ) -> None:
        self._core = core
        self._agents = agents
        self._run_for = run_for
        self._patience_us = patience_us

    def drive(self, stream: Stream, record: RunRecord) -> Steps[Any]:
        """Drive a run, and the runs that it starts, until it is over. Gives its result, or raises how it ended."""
        cause = None
        while not record.ended and record.status is not RunStatus.PARKED:
            drive = yield from self.take(stream, record)
            if drive is None:
                yield from self._bide(stream)
            elif drive.status is RunStatus.COMPLETED:
                return drive.result
            else:
                cause = drive.cause
            record = yield Read(runs.run, (stream,))
        return run_result(record, cause)

    def take(self, stream: Stream, record: RunRecord) -> Steps[Drive | None]:
        """Claim a run and drive it once. None if it could not be claimed."""
        agent = self._agents.get(record.agent)
        if agent is None:
            raise unknown(record.agent)
        driven, owner = (stream.id, 0), object()
        try:
            if not self._core.in_flight.begin(driven, owner):
                return None
            self._core.liveness.begin()
            lease = yield from self._claim(stream, record, agent)
            return None if lease is None else (yield DriveRun(agent, lease, self._run_for, record))
        finally:
            self._core.in_flight.end(driven, owner)

    def _claim(self, stream: Stream, record: RunRecord, agent: Agent) -> Steps[Lease | None]:
        """Claim a run, unless this process drives it already. A caller that is interrupted gives it back: the claim may have been
        made.
        """
        core, holder = self._core, record.holder
        gone = {holder} if holder and (holder == core.holder or core.liveness.is_dead(holder)) else ()
        asked = {
            "holder": core.holder, "program": agent.program, "epoch": core.epoch, "dead": gone, "pins": agent.versions,
            "on_change": agent.on_change,
        }  # fmt: skip
        try:
            return (yield Write(_in(stream, leases.claim), kwargs=asked, fenced=False))
        except Exception:
            raise
        except BaseException:
            with suppress(Error):
                yield Write(_in(stream, workers.give_back), (core.holder,), fenced=False)
            raise

    def _bide(self, stream: Stream) -> Steps[None]:
        """See to a run that cannot be claimed now: drive its children, wait for the clock, or raise what it waits for."""
        record: RunRecord = yield Read(runs.run, (stream,))
        untaken.check_pin(record, self._agents[record.agent])
        if record.ended or record.status in (RunStatus.READY, RunStatus.PARKED):
            return
        if record.status is RunStatus.RUNNING:
            raise Conflict(f"run {record.id} is being driven by {record.holder}", path="run", holder=record.holder)
        open_ones: list[WaitRecord] = yield Read(waits.waiting, (stream,))
        children = [each.name for each in open_ones if each.kind is WaitKind.CHILD]
        stuck: list[Error] = []
        for name in children:
            stuck += yield from self._drive_child(name)
        if len(stuck) < len(children):
            return
        if stuck:
            raise stuck[0]
        on_others = record.reason == DOUBT or any(each.kind in ANSWERED for each in open_ones)
        left_us = 0 if record.wake_at is None else instant_us(record.wake_at, 0) - (yield Read(store_now))
        if record.wake_at is None or on_others or left_us > self._patience_us or not self._core.clock_moves:
            said: Waiting = yield Read(untaken.waiting_for, (stream, record))
            now: RunRecord = yield Read(runs.run, (stream,))
            if (now.status, now.token) == (record.status, record.token):
                raise said
            return  # the awaited thing came while it was looked at
        yield Pause(min(max(left_us / SECOND_US, 0.001), LOOK_SECONDS))

    def _drive_child(self, name: str) -> Steps[list[Error]]:
        """Drive a child to its end. Gives the error that keeps it from continuing here, if any: other children may continue all
        the same.
        """
        child = yield Read(runs.find, (name,))
        record = yield Read(runs.run, (child,))
        try:
            yield from self.drive(child, record)
        except (Cancelled, Failed):
            pass  # its parent hears of it
        except Conflict:
            yield Pause(LOOK_SECONDS)  # somebody else drives it
        except (Waiting, Parked, NotFound) as error:
            return [error]
        return []


def _in(stream: Stream, verb: Callable[..., Any]) -> Callable[..., Any]:
    """A verb on this stream, which may be another one than that of the shell: the stream of a child."""
    return lambda tx, _of_shell, *args, **kwargs: verb(tx, stream, *args, **kwargs)

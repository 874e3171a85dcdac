"""The waits of a program: for people, signals, times and the runs that it started. The run rests meanwhile, and nobody holds it.

Generators over the `Driving` of a run, as in `placing`. Callers: `Run`, `outward` and `undoing`. Keeps P13.
"""

from __future__ import annotations

from typing import Any

from perdure.effects.commands import Read, Steps, Write, write
from perdure.effects.tool import digest_of_parts
from perdure.errors import Failed, TimedOut
from perdure.model.records.runs import WaitKind, WaitRecord, WaitState
from perdure.model.values import digest
from perdure.planes.execution import runs, waits
from perdure.planes.reading.durations import Duration
from perdure.runtime.agent import Agent
from perdure.runtime.driving import Driving
from perdure.runtime.holding import hold_back
from perdure.runtime.places import Branch
from perdure.runtime.placing import arrive, check_real
from perdure.runtime.stopping import Suspended


def await_one(
    driving: Driving, branch: Branch, kind: WaitKind, doc: dict[str, Any], mark: str, timeout: Duration | None,
    about: tuple[str, ...] = (),
) -> Steps[WaitRecord]:  # fmt: skip
    """Wait for an answer, or for a time; gives the wait when it is over."""
    place, found = yield from arrive(driving, branch, kind.value, "", mark, doc.get("question"))
    if found is None:
        yield from hold_back(driving, branch, place, kind.value, "", mark)
        opening = {"place": place, "name": "", "doc": doc, "timeout": timeout, "mark": mark, "about": about}
        found = yield write(waits.open_wait, kind, **opening)
    return (yield from until_over(driving, branch, found))


def until_over(driving: Driving, branch: Branch, found: WaitRecord) -> Steps[WaitRecord]:
    """Give a wait when it is over: met, or expired. The run is suspended until then. Raises Failed for one that was withdrawn."""
    if found.state is not WaitState.OPEN and branch is not driving.trunk and driving.agent.is_async:
        yield from _in_order(driving, branch, found)
    if found.state is WaitState.OPEN and (yield Read(waits.is_over, (found,))):
        found = yield write(waits.expire_if_over, found.seq)
    if found.state is WaitState.OPEN:
        driving.activity.awaited.add(found.seq)
        driving.hold.check_going()
        yield from suspend(driving, found.kind.value)
    if found.state is WaitState.WITHDRAWN:
        driving.hold.check_going()
        raise Failed(f"{found.id} was withdrawn", code="Withdrawn", path=found.id)
    return found


def _in_order(driving: Driving, branch: Branch, found: WaitRecord) -> Steps[None]:
    """Hold an answer back that came after the run had gone past this branch, until the replay has come as far again.

    By then the program has stopped the branches that lost a race, as it did before.
    """
    journal = driving.replay.journal
    if journal.continued_before(found, branch):
        replaying = lambda: driving.replay.replaying and journal.continued_before(found, branch)  # noqa: E731
        yield from driving.in_turn(replaying)


def suspend(driving: Driving, reason: str, wake_us: int | None = None) -> Steps[None]:
    """Stop the run once no other branch of it is at work. It is driven anew when what it waits for has come. Raises Suspended."""
    if driving.agent.is_async:
        yield from driving.idle()
    raise driving.hold.stop(Suspended(reason, wake_us))


def wait(driving: Driving, branch: Branch, name: str, timeout: Duration | None, default: Any) -> Steps[Any]:
    """Wait for a signal of this name; its payload, or the default after `timeout`, or TimedOut if there is none."""
    found = yield from await_signal(driving, branch, name, timeout)
    if found.state is WaitState.MET:
        return found.answer
    if default is ...:
        raise TimedOut(f"no signal {name!r} came in time", path="signal")
    return default


def await_signal(driving: Driving, branch: Branch, name: str, timeout: Duration | None) -> Steps[WaitRecord]:
    """Wait for a signal of this name; gives the wait when it is over: met, or expired."""
    place, found = yield from arrive(driving, branch, "signal", name, mark := digest(["signal", name], "wait").hex())
    alone = branch is driving.trunk  # a branch may be stopped because another one got its signal
    if found is None:
        yield from hold_back(driving, branch, place, "signal", name, mark)
        begin = waits.open_and_take if alone else waits.open_for_signal
        found = yield write(begin, name, place, timeout, mark)
    if found.state is WaitState.OPEN:
        taken = yield from _take_signal(driving, found.seq, name, alone=alone)
        found = taken or found
    return (yield from until_over(driving, branch, found))


def _take_signal(driving: Driving, seq: int, name: str, *, alone: bool) -> Steps[WaitRecord | None]:
    """Let an open wait take the oldest signal of its name; None if there is none.

    Branches take signals one after the other: one that lost a race, and is stopped, takes none with it.
    """
    if alone:
        return (yield write(waits.take_signal, seq, name))
    if not (yield Read(waits.has_signal, (driving.stream, name))):
        return None
    taking = _take(driving, write(waits.take_signal, seq, name))
    if not driving.agent.is_async:
        return (yield from taking)
    return (yield from driving.in_turn(lambda: driving.replay.replaying, taking))


def _take(driving: Driving, taking: Write) -> Steps[WaitRecord | None]:
    if driving.agent.is_async and driving.hold.stopped is not None:
        raise driving.hold.stopped
    return (yield taking)


def start(
    driving: Driving, branch: Branch, agent: Agent, args: tuple[Any, ...], kwargs: dict[str, Any],
    about: tuple[str, ...] = (),
) -> Steps[WaitRecord]:  # fmt: skip
    """Start another run of one's own: begun once, whatever crashes. Gives the wait for its end."""
    mark = digest_of_parts(agent=agent.name, args=list(args), kwargs=kwargs)
    place, found = yield from arrive(driving, branch, "child", agent.name, mark)
    if found is None:
        check_real(driving, f"start {agent.name}")
        yield from hold_back(driving, branch, place, "child", agent.name, mark)
        name, session = driving.stream.name, driving.record.session
        wanted = runs.RunRequest(
            agent=agent.name,
            args=list(args),
            kwargs=kwargs,
            key=f"{name}:{place}",
            session=session,
            parent=name,
            program=agent.program,
            timeout=agent.timeout,
            about=about,
            pins=agent.versions,
            on_change=agent.on_change,
        )
        found = yield write(waits.start_child, wanted, driving.core.epoch, place, mark)
    return found

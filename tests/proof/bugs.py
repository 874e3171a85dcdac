"""Planted bugs: each takes one rule away from the real code, for as long as it is planted. The simulation must find them all.

A bug is a name, the stories in which it can show, and what it replaces: (owner, attribute, what makes the new one of the old).
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from perdure.effects import commits, ledger, outcomes, settling
from perdure.effects.commands import CallFunction, Read, Write
from perdure.effects.effect_engine import EffectEngine
from perdure.effects.ledger import Intent, Outcome
from perdure.effects.settling import Action, Advice
from perdure.effects.tool import DECLARED
from perdure.handles import opening
from perdure.handles.sync import run
from perdure.model.records.effects import Absent, EffectRecord, EffectState, ToolKind
from perdure.planes.conversation import turns
from perdure.planes.execution import leases, runs, steps, tasks, waits
from perdure.planes.memory import values
from perdure.planes.recovery import checkpoints, epochs, locks, presence
from perdure.runtime import driver, journal, shells
from perdure.runtime.run_engine import RunEngine
from perdure.runtime.run_state import Sagas
from perdure.stores import lane, liveness
from perdure.stores.store import Fault

Made = Callable[[Any], Any]
Patch = tuple[Any, str, Made]


class Bug(NamedTuple):
    """One rule that is taken away."""

    name: str
    stories: tuple[str, ...]
    patches: tuple[Patch, ...]

    @contextlib.contextmanager
    def planted(self) -> Iterator[None]:
        """The real code with this bug in it, wherever what is broken is known by name."""
        done: list[tuple[Any, str, Any]] = []
        try:
            for owner, name, made in self.patches:
                kept = holder_of(owner, name).__dict__[name]
                broken = made(kept)
                for place in _knowing(owner, name, kept):
                    setattr(place, name, broken)
                    done.append((place, name, kept))
            yield
        finally:
            for place, name, kept in done:
                setattr(place, name, kept)


def holder_of(owner: Any, name: str) -> Any:
    """The module, or the class among its bases, that has this name."""
    bases = owner.__mro__ if isinstance(owner, type) else (owner,)
    return next(each for each in bases if name in each.__dict__)


def _knowing(owner: Any, name: str, value: Any) -> list[Any]:
    """The owner, and for a function of a module those modules that imported it."""
    if isinstance(owner, type):
        return [holder_of(owner, name)]
    ours = [module for known, module in sys.modules.items() if known.startswith(("perdure.", "perdure_"))]
    return [module for module in ours if module.__dict__.get(name) is value]


BUGS: list[Bug] = []


def bug(name: str, stories: str, *patches: tuple[Any, str]) -> Callable[[Made], Made]:
    """Declare a bug: what is decorated makes the broken function of the real one, at each of these places."""

    def declare(made: Made) -> Made:
        BUGS.append(Bug(name, tuple(stories.split()), tuple((*where, made) for where in patches)))
        return made

    return declare


def always(value: Any) -> Made:
    """A function that gives this, whatever it is asked."""
    return lambda _real: lambda *_args, **_kwargs: value


# -- sending -----------------------------------------------------------------------------------------------------


SENT: dict[str, tuple[Any, BaseException | None]] = {}  # what came of calls that were made too early


def _call_first(real: Any) -> Any:
    def dispatch_effect(self: Any, tool: Any, intent: Any, **how: Any) -> Any:
        if not isinstance(intent, Intent):
            return real(self, tool, intent, **how)
        tool = DECLARED[intent.tool]
        try:
            SENT[intent.key] = tool.call(tool.fn, intent.args, key=intent.key), None
        except Exception as error:
            SENT[intent.key] = None, error
        return real(self, tool, intent, **how)

    return dispatch_effect


def _called_before(real: Any) -> Any:
    def call(self: Any, tool: Any, record: Any, flight: Any) -> Any:
        if record.key not in SENT:
            return real(self, tool, record, flight)

        def came() -> Any:
            result, error = SENT.pop(record.key)
            if error is not None:
                raise error
            return result

        return CallFunction(came, is_async=False)

    return call


BUGS.append(
    Bug(
        "the call comes before its dispatch is durable",
        ("pays",),
        ((EffectEngine, "dispatch_effect", _call_first), (EffectEngine, "_call_of", _called_before)),
    )
)


@bug("the lease is not looked at before the call", "haunted", (leases, "holds"))
def _unchecked(real: Any) -> Any:
    return lambda *_: True


@bug("a key that is made anew for each attempt", "acts", (EffectRecord, "sent_key"))
def _key_of_attempt(real: Any) -> Any:
    return property(lambda self: f"{self.key} {self.attempt}")


@bug("a key that is made from the time", "restored", (RunEngine, "effect_key"))
def _key_of_time(real: Any) -> Any:
    def key(engine: Any, place: str, name: str, mark: str) -> str:
        about = f"{real(engine, place, name, mark)} {engine.core.clocks.now()} {engine.hold.lease.token}"
        return hashlib.sha256(about.encode()).hexdigest()[:32]

    return key


# -- doubt -------------------------------------------------------------------------------------------------------


@bug("absent is final at once", "pays sessions", (settling, "after_absent"))
def _hasty(real: Any) -> Any:
    return lambda effect, now_us: Advice(Action.AGAIN, "it is not there")


@bug("absent is final before what was sent has landed", "pays sessions", (settling, "after_absent"))
def _unlanded(real: Any) -> Any:
    def after_absent(effect: EffectRecord, now_us: int) -> Advice:
        rule = msgspec.structs.replace(effect.rule, lands_within=0)
        return real(msgspec.structs.replace(effect, rule=rule), now_us)

    return after_absent


@bug("a lapsed heartbeat counts as proof of death", "haunted", (EffectEngine, "doubt_if_sender_is_gone"))
def _lapse_is_death(real: Any) -> Any:
    def find_out(self: Any, record: Any) -> Any:
        holder = record.holder or ""
        if not (yield Read(presence.is_alive, (holder,))):
            return (yield from self._doubt(record, ledger.EffectError(settling.DIED, "no heartbeat"), quiet=True))
        return (yield from real(self, record))

    return find_out


@bug("doubt about an unsafe tool is guessed away", "pays", (settling, "advise"))
def _guess(real: Any) -> Any:
    def advise(effect: EffectRecord, now_us: int, *, can_probe: bool) -> Advice:
        if effect.kind is ToolKind.UNSAFE:
            return Advice(Action.FAIL, "it will not have happened")
        return real(effect, now_us, can_probe=can_probe)

    return advise


@bug("a probe is not asked: what is in doubt counts as absent", "pays sessions", (EffectEngine, "ask_probe"))
def _unasked(real: Any) -> Any:
    def ask_probe(self: Any, tool: Any, record: Any) -> Iterator[Any]:
        yield from ()
        return Absent()

    return ask_probe


def _again(real: Any) -> Any:
    def advise(effect: EffectRecord, now_us: int, *, can_probe: bool) -> Advice:
        if effect.kind is ToolKind.UNSAFE:
            return Advice(Action.AGAIN, "twice is as good as once")
        return real(effect, now_us, can_probe=can_probe)

    return advise


BUGS.append(
    Bug(
        "an unsafe tool in doubt is called again",
        ("pays", "sessions"),
        ((settling, "advise", _again), (ledger, "AGAIN", lambda _real: frozenset(ToolKind))),
    )
)


@bug("any exception is a clear no", "pays", (EffectEngine, "_record_error"))
def _raised_is_no(real: Any) -> Any:
    def judged(self: Any, tool: Any, record: Any, error: BaseException, *rest: Any) -> Any:
        if isinstance(error, OSError):
            outcome = Outcome(error=ledger.error_of(error))
            return self.move("fail", commits.fail_and_answer_call, record, outcome, quiet=False)
        return real(self, tool, record, error, *rest)

    return judged


@bug("what became of an attempt is not compared with the attempt", "haunted", (ledger, "_conclude"))
def _any_attempt(real: Any) -> Any:
    def conclude(tx: Any, stream: Any, seq: int, attempt: int, verb: str, outcome: Any) -> Any:
        return real(tx, stream, seq, ledger.effect(tx, stream, seq).attempt, verb, outcome)

    return conclude


@bug("a late result overwrites what was settled", "haunted", (ledger, "_note_late"))
def _overwrite(real: Any) -> Any:
    def note_late(tx: Any, stream: Any, found: Any, attempt: int, verb: str, outcome: Any) -> Any:
        open_again = msgspec.structs.replace(found, state=EffectState.IN_DOUBT)
        return ledger._move(tx, stream, open_again, verb, {}, outcome)

    return note_late


@bug("the epoch is ignored", "restored", (opening, "_open_core"), (epochs, "look_up"))
def _no_epoch(real: Any) -> Any:
    """It is the first one for ever: when the store is opened, at a claim, and at every heartbeat."""

    def open_core(*args: Any, **kwargs: Any) -> Any:
        opened, tenant = real(*args, **kwargs)
        opened.epoch = 1
        return opened, tenant

    return open_core if real is opening._open_core else lambda reads: 1


# -- leases ------------------------------------------------------------------------------------------------------


@bug("the fence is not checked", "haunted", (leases, "check_lease"))
def _unfenced(real: Any) -> Any:
    return lambda tx, lease: None


@bug("a lease is taken while it is held", "acts", (leases, "_is_void"))
def _void(real: Any) -> Any:
    return lambda reads, holder, dead: True


@bug("a lock file proves nothing: the dead pass for alive", "acts pays", (liveness.Liveness, "is_dead"))
def _immortal(real: Any) -> Any:
    return lambda self, holder: False


@bug("the living pass for dead", "pays acts", (liveness.Liveness, "is_dead"))
def _mortal(real: Any) -> Any:
    return lambda self, holder: holder != self._holder


@bug("a heartbeat never lapses", "acts pays", (presence, "is_alive"))
def _undying(real: Any) -> Any:
    return always(True)(real)


@bug("a lock is taken while it is held", "plain", (locks, "_is_held"))
def _lock_held(real: Any) -> Any:
    return always(False)(real)


@bug("a task is claimed while somebody has it", "plain", (tasks, "task"))
def _task_held(real: Any) -> Any:
    return lambda *args: msgspec.structs.replace(real(*args), abandoned=True)


# -- runs --------------------------------------------------------------------------------------------------------


@bug("a wake-up is lost", "asked", (runs, "wake"))
def _unwoken(real: Any) -> Any:
    return lambda tx, stream: None


@bug("nobody looks at what came while the run went to rest", "asked pays", (driver, "go_to_rest"))
def _sleeps_on(real: Any) -> Any:
    def go_to_rest(tx: Any, stream: Any, lease: Any, *args: Any) -> None:
        lease.disturbed = False
        real(tx, stream, lease, *args)

    return go_to_rest


@bug("a time to wake up at is lost", "signals", (waits, "next_expiry"))
def _no_alarm(real: Any) -> Any:
    return always(None)(real)


@bug("a recorded step is done again on replay", "acts cuts", (journal.Journal, "record_at"))
def _redo(real: Any) -> Any:
    def record_at(self: Any, place: str, kind: str, *verb: Any) -> Any:
        record = real(self, place, kind, *verb)
        return None if kind == "step" else record

    return record_at


@bug("a step is acknowledged before it is durable", "acts", (shells.RunShell, "_ways"))
def _late_step(real: Any) -> Any:
    def write(self: Any, command: Any) -> Any:
        if command.verb is steps.done and command.keep:
            self._hold.unrecorded_steps.append(command.args[0])
            return None
        return real[Write](self, command)

    return {**real, Write: write}


@bug("the result of an effect is not kept", "acts", (ledger, "_document"))
def _no_result(real: Any) -> Any:
    return lambda outcome: {**real(outcome), **({} if outcome.error else {"result": None})}


@bug("undone in the wrong order", "saga", (Sagas, "effects_to_undo"))
def _forwards(real: Any) -> Any:
    return lambda self, *about: real(self, *about)[::-1]


@bug("what was done in an earlier drive is not undone", "saga", (RunEngine, "finish_effect"))
def _forgotten(real: Any) -> Any:
    def finish(engine: Any, branch: Any, tool: Any, found: Any, **given: Any) -> Iterator[Any]:
        record = yield from real(engine, branch, tool, found, **given)
        if record is found:
            engine.sagas.undone[record.seq] = None
        return record

    return finish


@bug("an undo is not a durable effect of its own", "saga", (RunEngine, "_undo"))
def _bare_undo(real: Any) -> Any:
    def undo(engine: Any, _branch: Any, record: Any) -> Iterator[Any]:
        yield from ()
        tool = engine.sagas.tools[record.tool].undo
        with contextlib.suppress(OSError, outcomes.Failed, outcomes.Unavailable):
            tool.call(tool.fn, journal.undo_args(tool, record), key=f"{record.key} {engine.hold.lease.token}")

    return undo


def _any_approval(real: Any) -> Any:
    def for_effect(reads: Any, stream: Any, effect: int) -> Any:
        return next((each for each in waits.waits(reads, stream) if each.kind == "approval"), None)

    return for_effect


BUGS.append(
    Bug(
        "an approval is good for other effects too",
        ("asked",),
        (
            (waits, "for_effect", _any_approval),
            (commits, "is_approved", lambda _real: lambda said, _: said.answer == waits.YES),
        ),
    )
)


@bug("an answer is taken twice", "asked", (waits, "_end"))
def _twice_answered(real: Any) -> Any:
    def end(tx: Any, stream: Any, seq: int, state: Any, answer: Any, by: str) -> Any:
        columns = {"state": state.value, "met_by": by, "met_at": tx.now}
        doc = {"answer": answer}
        tx.record(
            ledger.Change("ask.answered", stream, waits.WAITS, ledger.Op.SET, {"seq": seq}, columns, doc, "outcome_seq")
        )
        return waits.wait(tx, stream, seq)

    return end


@bug("a signal is taken twice", "signals", (waits, "take_signal"))
def _twice_taken(real: Any) -> Any:
    def take_signal(tx: Any, stream: Any, seq: int, name: str) -> Any:
        rows = tx.query(waits.Q.signal_next, touches=[(waits.SIGNALS, stream.id)], stream=stream.id, name=name)
        if not rows:
            return None
        payload = waits.stored_fields(waits.doc_of(tx, rows[0][1], ""), "").get("payload")
        return waits.meet(tx, stream, seq, payload, rows[0][2])

    return take_signal


@bug("a cut forgets the state that it was made with", "cuts", (checkpoints, "save"))
def _empty_cut(real: Any) -> Any:
    def save(tx: Any, stream: Any, *args: Any) -> Any:
        return None if stream.kind == "run" and runs.run(tx, stream).cuts else real(tx, stream, *args)

    return save


@bug("a checkpoint and its cut are two commits", "cuts", (run.Run, "checkpoint"))
def _two_commits(real: Any) -> Any:
    def checkpoint(self: Any, state: Any, *, now: bool = False) -> bool:
        def two() -> Iterator[Any]:
            prepared = yield Read(checkpoints.prepare, (checkpoints.freeze(state),))
            cut = yield Write(lambda tx, stream: (runs.cut(tx, stream, None), tx.seq(stream)))
            self._engine.begin_cut(*cut)
            yield Write(checkpoints.save, (prepared,))

        self._shell.run(two())
        return True

    return checkpoint


# -- stores ------------------------------------------------------------------------------------------------------


@bug("a COMMIT without a reply is taken for a failure", "plain acts", (lane.Lane, "_was_committed"))
def _lost_is_failed(real: Any) -> Any:
    def was_committed(self: Any, error: BaseException, batch: Any) -> bool:
        return False if isinstance(error, Fault) else real(self, error, batch)

    return was_committed


@bug("a COMMIT without a reply is taken for done", "plain", (lane.Lane, "_was_committed"))
def _lost_is_done(real: Any) -> Any:
    def was_committed(self: Any, error: BaseException, batch: Any) -> bool:
        return True if isinstance(error, Fault) else real(self, error, batch)

    return was_committed


@bug("what a refused job wrote goes in with the others", "plain", (lane, "_blame"))
def _leaks(real: Any) -> Any:
    def blame(job: Any, made: Any, error: BaseException) -> None:
        if isinstance(error, Fault) or not isinstance(error, Exception):
            raise error
        job.result, job.error = None, error
        made._batch.absorb(made)

    return blame


@bug("the other jobs of a broken batch are acknowledged", "plain", (lane.Lane, "_try_again"))
def _all_done(real: Any) -> Any:
    def try_again(self: Any, jobs: Any, trouble: Any) -> None:
        self._alone(jobs[0], trouble, ())
        for job in jobs[1:]:
            job.done = True

    return try_again


@bug("the version of a value is not compared", "plain", (values, "put"))
def _any_version(real: Any) -> Any:
    return lambda tx, stream, name, value, **given: real(tx, stream, name, value, **{**given, "expect": None})


@bug("a turn under a known key is said again", "plain", (turns, "say"))
def _said_again(real: Any) -> Any:
    def say(tx: Any, stream: Any, role: str, content: Any, **given: Any) -> Any:
        return real(tx, stream, role, content, **{**given, "key": None})

    return say

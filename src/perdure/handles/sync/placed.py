# Generated from handles/aio/placed.py by tools/unasync.py: edit that one.
"""Where a program is in its run, and what is recorded there: what everything that an agent does is built on (P13).

See docs/decisions/0007. Callers: `outward` and `run`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from perdure.effects.ledger import error_of
from perdure.effects.tool import digest_of_parts
from perdure.errors import Changed, Failed, Invalid, Parked
from perdure.handles.sync.reading import read
from perdure.model.records.effects import EffectError, text_of
from perdure.model.records.runs import StepRecord, WaitKind, WaitRecord, WaitState
from perdure.planes import checkpoints, inputs, steps, waits
from perdure.planes.spans import Duration
from perdure.runtime import course, places
from perdure.runtime.journal import Known, within
from perdure.runtime.pausing import Suspended
from perdure.runtime.places import Branch
from perdure.runtime.usage import usage_of

if TYPE_CHECKING:
    from perdure.handles.sync.driving import Driving


class Placed:
    """Where a program is in its run: its places, what is recorded there, and resting while something is awaited."""

    __slots__ = ("_branch", "_driving")

    def __init__(self, driving: Driving, branch: Branch) -> None:
        self._driving = driving
        self._branch = branch

    @property
    def id(self) -> str:
        """Its name in the store."""
        return self._driving.stream.name

    def _arrive(self, what: str, name: str, mark: str, given: Any = None) -> tuple[str, Any]:
        """The place of what comes next, and what is recorded there. Nothing new is begun when the run must stop."""
        if self._driving.refusals:
            self._driving.hold_up()
        place, found = self._take(what, name, mark, given)
        if found is None:
            self._driving.check_going()
        return place, found

    def _take(self, what: str, name: str, mark: str, given: Any) -> tuple[str, Any]:
        driving, here = self._driving, self._here()
        if driving.unread and what != "step":
            driving.check_unread(f"{what} {name}".rstrip())
        if here.interrupted and not driving.shielded:
            driving.check_going()
            raise course.gone_on(here.interrupted)
        place = here.next_place(driving.cut)
        try:
            return place, driving.journal.take(place, what, name, mark, given)
        except Changed as changed:
            driving.stopped = driving.stopped or changed  # whatever the program makes of it, nothing more is done
            raise

    def _check_real(self, what: str) -> None:
        """Parked, whatever the program makes of it, in a run that only supposes: this cannot be asked about one by one."""
        driving = self._driving
        what_if = driving.record.what_if
        if what_if is not None and not what_if.acts:
            driving.stopped = driving.stopped or Parked(
                f"it only supposes another result in run {what_if.run}, and would {what}", path=f"run {self.id}",
                hint="fork it anew and let that one act (--allow-effects), or leave it", reason="what-if",
            )  # fmt: skip
            raise driving.stopped

    def _here(self) -> Branch:
        places.refuse_inside()
        return self._branch

    def _known(self, fn: Callable[..., Any], timeout: Duration | None, retries: int | None) -> Known:
        known = self._driving.known(fn)
        return known if timeout is None and retries is None else within(known, fn, timeout, retries)

    def _step(
        self,
        known: Known,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        notes: dict[str, Any],
        keep: Callable[[tuple[Any, ...], Any], Any] | None = None,
    ) -> Any:
        mark = digest_of_parts(args=list(args), kwargs=kwargs)
        place, found = self._arrive("step", known.name, mark, (*args, kwargs) if kwargs else args)
        driving = self._driving
        driving.steps += 1
        if found is not None and found.gave is not None:
            return self._read_again(known, fn, args, kwargs, found)
        if found is not None:
            return course.replayed(found)
        frozen = inputs.freeze(args, kwargs) if notes else None
        value: Any = None
        driving.begin()
        try:
            value = self._called(known, fn, args, kwargs, place, mark, notes)
            noted = notes | {"usage": usage_of(value)} if notes else notes
            doc = steps.document(place, known.name, mark, value, None, noted, brief=known.brief)
            given = None if frozen is None else driving.read(checkpoints.prepare, frozen)
            (driving.keep(steps.done, doc, given) if keep is None else keep((doc, given), value))
            return value
        except Invalid as error:
            noted = course.unkept_notes(error, value, brief=known.brief)
            said = EffectError(course.UNSTORABLE, text_of(error))
            driving.keep(steps.done, steps.document(place, known.name, mark, None, said, noted))
            raise course.unkept(noted[course.UNKEPT], place) from error
        except Exception:
            raise
        except BaseException:
            driving.interrupted = True
            raise
        finally:
            driving.busy -= 1

    def _read_again(
        self, known: Known, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], found: StepRecord
    ) -> Any:
        """Call a function of whose value only the digest is kept. Parked, whatever the program makes of it, if it differs."""
        driving = self._driving
        driving.begin()
        try:
            value = read(driving.caller, known, fn, args, kwargs, driving.check_staying)
            return course.read_again(found, value)
        except Exception as error:
            parked = (
                error if isinstance(error, Parked) else course.reads_otherwise(found, f"an error: {error_of(error)}")
            )
            driving.stopped = driving.stopped or parked
            raise parked from error
        finally:
            driving.busy -= 1

    def _called(
        self,
        known: Known,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        place: str,
        mark: str,
        notes: dict[str, Any],
    ) -> Any:
        """What the function of a step gives; Failed with what it raised, which is kept if the program goes on."""
        try:
            return read(self._driving.caller, known, fn, args, kwargs, self._driving.check_going)
        except Exception as error:
            said = error_of(error)
            self._driving.keep_error(steps.document(place, known.name, mark, None, said, notes))
            raise course.failed_step(place, known.name, said) from error

    def _opened(
        self, kind: WaitKind, name: str, doc: dict[str, Any], mark: str, timeout: Duration | None
    ) -> WaitRecord:
        place, found = self._arrive(kind.value, name, mark, doc.get("question"))
        if found is not None:
            return found
        given = {"place": place, "name": name, "doc": doc, "timeout": timeout, "mark": mark}
        self._driving.begin()
        try:
            return self._driving.write(waits.open_wait, kind, **given)
        finally:
            self._driving.busy -= 1

    def _met(self, found: WaitRecord) -> Any:
        """What a wait gave; the run is suspended while it is open."""
        return (self._ended(found)).answer

    def _ended(self, found: WaitRecord) -> WaitRecord:
        """A wait that is over: met, or expired by now. The run is suspended while it is not."""
        driving = self._driving
        if found.state is WaitState.OPEN and driving.read(waits.is_over, found):
            found = driving.write(waits.expire_if_over, found.seq)
        if found.state is WaitState.OPEN:
            driving.awaited.add(found.seq)
            driving.check_going()
            self._suspend(found.kind.value)
        if found.state is WaitState.WITHDRAWN:
            driving.check_going()
            raise Failed(f"{found.id} was withdrawn", code="Withdrawn", path=found.id)
        return found

    def _suspend(self, reason: str, wake_us: int | None = None) -> None:
        """Wait until nothing else of this run goes on, then stop it: it is driven anew when what it waits for has come."""
        self._driving.stopped = self._driving.stopped or Suspended(reason, wake_us)
        raise self._driving.stopped

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r}, {self._driving.record.agent!r})"

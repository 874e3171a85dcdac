"""Steps: calls of a run that change nothing in the world, and their results. One event each, and no row. Keeps P8, P13.

Callers: the handles, and whoever reads a journal.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

from perdure.errors import NotFound
from perdure.log.change import Change, Op, Stream
from perdure.model.records.effects import EffectError
from perdure.model.records.runs import StepRecord
from perdure.model.values import digest, to_plain
from perdure.planes.execution import model_inputs, runs
from perdure.planes.reading.body_reading import doc_of, stored_value
from perdure.planes.reading.origins import check_seq
from perdure.planes.reading.row_reading import stored_as, stored_fields
from perdure.planes.recovery.checkpoints import Prepared
from perdure.planes.tables import STEPS
from perdure.stores.batch import EVENTS
from perdure.stores.statements import Statements
from perdure.stores.store import Reads
from perdure.stores.tx import Tx

Q = Statements("perdure.planes.execution", "steps.sql")
T = TypeVar("T")
P = ParamSpec("P")
TOLD_US = 1_000  # a step that took at least so long says how long
INTERRUPTED = "run.interrupted"  # the name of a step that stands for what its program cancelled in the middle


# -- recording -------------------------------------------------------------------------------------------------


def done(tx: Tx, stream: Stream, doc: dict[str, Any], model_input: Prepared | None = None) -> int:
    """Record that a step was done: one event and nothing else. The document is plain data (see `document`).

    model_input: what a model was given, kept with it by reference.
    """
    if model_input is not None:
        doc = doc | {"input": model_inputs.keep(tx, stream, model_input)}
    return tx.record(Change("step.done", stream, STEPS, Op.NOTE, doc=doc))


def noting(
    tx: Tx, stream: Stream, docs: list[dict[str, Any]], verb: Callable[Concatenate[Tx, Stream, P], T],
    *args: P.args, **kwargs: P.kwargs,
) -> T:  # fmt: skip
    """A verb after some steps, in one commit: steps that failed are recorded when the program continues."""
    for doc in docs:
        done(tx, stream, doc)
    return verb(tx, stream, *args, **kwargs)


def document(
    place: str,
    name: str,
    mark: str,
    value: Any,
    error: EffectError | None,
    notes: dict[str, Any],
    *,
    brief: bool = False,
    shape: str = "",
    took_us: int = 0,
) -> Any:
    """The document of a step. shape: of its arguments. brief: of its value, the digest alone. took_us: how long its call
    took. Invalid names the path of what cannot be kept.
    """
    doc: dict[str, Any] = {"place": place, "name": name, "digest": mark}
    if shape:
        doc["shape"] = shape
    if took_us >= TOLD_US:
        doc["took_us"] = took_us
    if error is not None:
        doc["error"] = msgspec.to_builtins(error)
    elif brief:
        doc["gave"] = digest(value, "result").hex()
    else:
        doc["value"] = to_plain(value, "result")
    if notes:
        doc["notes"] = to_plain(notes, "notes")
    return doc


def redo(tx: Tx, stream: Stream, place: str) -> None:
    """A step that failed, or cannot be read as it was, is done anew by whoever drives the run next. Nothing for any other."""
    recorded = {step.place: step for step in steps(tx, stream, runs.row_of(tx, stream)["cut_seq"])}
    if place in recorded and (recorded[place].error is not None or recorded[place].gave is not None):
        tx.record(Change("step.retried", stream, STEPS, Op.NOTE, doc={"place": place, "again": True}))
        redo_interrupted(tx, stream, recorded[place].seq)


def redo_interrupted(tx: Tx, stream: Stream, after: int, places: Collection[str] | None = None) -> None:
    """Entries that the program cancelled after an event are done anew, because what made it do so is done anew, too. places:
    only there.
    """
    for step in steps(tx, stream, after):
        if step.name == INTERRUPTED and (places is None or step.place in places):
            tx.record(Change("step.retried", stream, STEPS, Op.NOTE, doc={"place": step.place, "again": True}))


# -- reading ---------------------------------------------------------------------------------------------------


def bodies(reads: Reads, stream: Stream, after: int) -> list[tuple[int, bytes]]:
    """The numbers and bodies of a run's steps after an event, in order, as they are stored. NotFound when some were pruned."""
    rows = _stored(reads, stream, after)
    pruned_count = len([seq for seq, body in rows if body is None])
    if pruned_count:
        hint = "the result and the effects of the run are still there"
        raise NotFound(f"{pruned_count} steps of run {stream.name} were pruned by retention", path="run", hint=hint)
    return rows


def _stored(reads: Reads, stream: Stream, after: int) -> list[tuple[int, Any]]:
    return reads.query(Q.steps_after, touches=[(EVENTS, stream.id)], stream=stream.id, after=after)


def left(reads: Reads, stream: Stream, after: int = 0) -> list[StepRecord]:
    """The steps of a run that retention has left, for people who look at it."""
    return _valid_and_retried(
        reads, stream, [(seq, body) for seq, body in _stored(reads, stream, after) if body is not None]
    )[0]


def steps(reads: Reads, stream: Stream, after: int = 0) -> list[StepRecord]:
    """The steps of a run after an event, in order. NotFound when some were pruned: nothing may be replayed without them."""
    return steps_and_retried(reads, stream, after)[0]


def steps_and_retried(reads: Reads, stream: Stream, after: int) -> tuple[list[StepRecord], list[StepRecord]]:
    """`steps`, and those that are done anew because they were retried."""
    return _valid_and_retried(reads, stream, bodies(reads, stream, after))


def _valid_and_retried(
    reads: Reads, stream: Stream, stored: list[tuple[int, bytes]]
) -> tuple[list[StepRecord], list[StepRecord]]:
    by_place: dict[str, StepRecord] = {}
    retried: dict[str, StepRecord] = {}
    for seq, body in stored:
        where = f"run {stream.name} step {seq}"
        doc = stored_fields(doc_of(reads, body, where), where)
        if doc.get("again"):
            place = str(doc.get("place"))
            retried |= {place: by_place.pop(place)} if place in by_place else {}
        else:
            step = _step(doc, seq, where)
            by_place[step.place] = step
    return [*by_place.values()], [*retried.values()]


class _Step(msgspec.Struct):
    """The document of a step, as `document` makes it."""

    place: str
    name: str
    digest: str
    value: Any = None
    error: EffectError | None = None
    notes: dict[str, Any] = {}
    input: str | None = None
    gave: str | None = None
    shape: str = ""
    took_us: int = 0


def _step(doc: dict[str, Any], seq: int, where: str) -> StepRecord:
    fields = stored_as(_Step, doc, "step", where)
    notes = stored_fields(stored_value(fields.notes, where), where)
    value = stored_value(fields.value, where)
    return StepRecord(
        seq=seq, place=fields.place, name=fields.name, digest=fields.digest, value=value, error=fields.error,
        notes=notes, input=fields.input, gave=fields.gave, shape=fields.shape, took_us=fields.took_us,
    )  # fmt: skip


def input_of(reads: Reads, stream: Stream, seq: int) -> dict[str, Any]:
    """The input of the model of a step: `args` and `kwargs`. NotFound if this is no such step, or its input is not here."""
    where = f"run {stream.name} step {check_seq(seq, 'seq')}"
    rows = reads.query(Q.step_get, touches=[(EVENTS, stream.id)], stream=stream.id, seq=seq)
    step = _step(stored_fields(doc_of(reads, rows[0][0], where), where), seq, where) if rows else None
    if step is None or step.input is None:
        raise NotFound(f"event {seq} of run {stream.name} is no step that called a model", path="seq")
    return model_inputs.load(reads, step.input, where)

"""Memories that are made from what happened: a rule from a decision, a workflow from a run, a rule from a correction.

Each names its source, and has a key of its own: making it again gives the memory that is there. Callers: the handles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from perdure.errors import Invalid, Refused
from perdure.log.change import Stream
from perdure.model.limits import check_text
from perdure.model.records.memories import MemoryRecord
from perdure.model.records.runs import RunStatus
from perdure.planes.execution import decisions, runs, steps
from perdure.planes.memory.memories import Q, remember
from perdure.planes.reading.origins import settled, to_ref
from perdure.planes.tables import EFFECTS
from perdure.stores.store import Reads
from perdure.stores.tx import LOG, Tx

STEPS_MAX = 200  # of a run, that a workflow names


def rule_from(tx: Tx, stream: Stream, decision: object, *, tags: Iterable[str] | None = None) -> MemoryRecord:
    """A rule that says what a decision says, and why."""
    ref = settled(tx, stream, to_ref(decision, "decision"))
    rows = tx.query(LOG.stream_by_uid, uid=bytes.fromhex(ref.uid), tenant=tx.tenant)
    if not rows:
        raise Invalid("the decision is not in this store", path="decision")
    record = decisions.decision(tx, Stream(*rows[0]), ref.seq)
    text = f"{record.text}\nBecause: {record.because}"
    return remember(
        tx,
        stream,
        text,
        kind="rule",
        key=f"rule:{ref.uid}/{ref.seq}",
        source=[ref],
        tags=record.tags if tags is None else tags,
    )


def workflow_from(
    tx: Tx, stream: Stream, run: object, *, text: str | None = None, tags: Iterable[str] = ()
) -> MemoryRecord:
    """A workflow that names what a completed run did, in its order. text: what it is good for, in your words."""
    name = run if isinstance(run, str) else getattr(run, "id", None)
    if not isinstance(name, str):
        raise Invalid(f"expected a run or its id, got {type(run).__name__}", path="run")
    run_stream = runs.find(tx, name)
    record = runs.run(tx, run_stream)
    if record.status is not RunStatus.COMPLETED:
        hint = "a run that failed can be remembered as a failed approach: remember(…, kind='failed_approach')"
        raise Refused(f"run {name} is {record.status}: only a completed one is a workflow", path="run", hint=hint)
    lines = [f"{i}. {line}" for i, line in enumerate(_done(tx, run_stream), 1)]
    purpose = f"Agent {record.agent}" if text is None else check_text(text, "text")
    workflow_text = "\n".join([purpose, *lines])
    return remember(
        tx,
        stream,
        workflow_text,
        kind="workflow",
        key=f"workflow:{name}",
        source=[f"run:{name}", record.ref],
        tags=tags,
    )


def _done(reads: Reads, run: Stream) -> Iterator[str]:
    """The steps and effects of a run, by name."""
    rows = reads.query(Q.effects_done, touches=[(EFFECTS, run.id)], stream=run.id, limit=STEPS_MAX)
    acts = [(seq, f"act: {tool}") for seq, tool in rows]
    did = [(step.seq, f"step: {step.name}") for step in steps.steps(reads, run) if step.error is None]
    return (line for _, line in sorted([*acts, *did])[:STEPS_MAX])


def correct(
    tx: Tx,
    stream: Stream,
    text: str,
    *,
    rule: str,
    key: str | None = None,
    source: Iterable[object] = (),
    about: Iterable[str] = (),
    tags: Iterable[str] = (),
) -> tuple[MemoryRecord, MemoryRecord]:
    """A correction and the rule that it made, which names it as its source; both in one commit."""
    of_rule = None if key is None else f"{key}/rule"
    correction = remember(tx, stream, text, kind="correction", key=key, source=source, about=about, tags=tags)
    ruled = remember(tx, stream, rule, kind="rule", key=of_rule, source=[correction.ref], about=about, tags=tags)
    return correction, ruled

"""Adopting a run: continuing it on another store, from its envelope and its blobs alone (docs/decisions/0009).

The run keeps its identity and its name, and so its keys, its random numbers and its children; its chain begins anew, with an
event that says where it came from. An envelope is checked three times: its digest and its types when it is read, its blobs
against their addresses when they are unpacked, and all of it by reading it back in the very transaction that writes it.
So a hostile or damaged envelope changes nothing (P10). Callers: the handles. Keeps P3, P4, P7, P13.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from perdure.artifacts import tree
from perdure.effects import ledger, settling
from perdure.effects.envelope import documents
from perdure.errors import Conflict, Damaged, Invalid, NotFound, Refused
from perdure.log.change import Change, Op, Stream
from perdure.log.table import Table
from perdure.model.limits import KEY_MAX_CHARS, check_name, check_text
from perdure.model.pins import versions_of
from perdure.model.records.effects import EffectState, ToolKind
from perdure.model.records.envelope import Document, EffectPart, Envelope, RunPart, SignalPart, StepPart, WaitPart
from perdure.model.records.runs import ENDED, RunStatus, WaitKind, WaitState
from perdure.model.refs import Ref
from perdure.planes.conversation import sessions
from perdure.planes.execution import parked_runs, pin_columns, runs, steps, waits
from perdure.planes.tables import CHECKPOINTS, EFFECTS, RUNS, SIGNALS, STEPS, WAITS
from perdure.stores.blobs import BlobRow
from perdure.stores.store import Reads
from perdure.stores.tx import LOG, Tx

LOST = "the run continued from an envelope: what its old store did after that is not known"

Artifacts = Mapping[str, bytes]
_Entry = StepPart | EffectPart | WaitPart | SignalPart


class NeededBlobs(NamedTuple):
    """The blobs that an envelope needs besides itself, verified: documents by their address, and the packed nodes of its
    states.
    """

    documents: dict[str, Any]
    nodes: list[BlobRow]


# -- blobs -------------------------------------------------------------------------------------------------------------------


def artifacts_of(reads: Reads, envelope: Envelope) -> dict[str, bytes]:
    """All blobs that an envelope needs, by address: its documents, and the trees of its checkpoints."""
    wanted = {bytes.fromhex(address) for each in family(envelope) for address in _documents_of(each)}
    roots = [bytes.fromhex(each.checkpoint.root) for each in family(envelope) if each.checkpoint is not None]
    wanted |= tree.reachable(roots, reads.fetch)
    found = reads.fetch(wanted)
    return {address.hex(): found[address] for address in sorted(wanted)}


def family(envelope: Envelope) -> Iterator[Envelope]:
    """An envelope and those of the runs that it waits for."""
    yield envelope
    for child in envelope.children:
        yield from family(child)


def _documents_of(envelope: Envelope) -> set[str]:
    return {each.blob for each in documents(envelope) if each.blob}


def unpack(reads: Reads, envelope: Envelope, artifacts: Artifacts) -> NeededBlobs:
    """Verify and pack what an envelope needs. NotFound names a blob that is missing, Damaged one that was altered."""

    def fetch(addresses: Collection[bytes]) -> dict[bytes, bytes]:
        return {address: _blob(artifacts, address.hex()) for address in addresses}

    said, roots = {}, []
    for each in family(envelope):
        said |= {address: _parsed(_blob(artifacts, address), address) for address in _documents_of(each)}
        roots += [bytes.fromhex(each.checkpoint.root)] if each.checkpoint is not None else []
    nodes = tree.reachable(roots, fetch)
    return NeededBlobs(said, [reads.pack(_blob(artifacts, address.hex())) for address in sorted(nodes)])


def _blob(artifacts: Artifacts, address: str) -> bytes:
    try:
        data = artifacts[address]
    except KeyError:
        hint = "store.artifacts_of(envelope) gives all that it needs"
        raise NotFound("the envelope needs a blob that is not there", path=f"artifacts {address}", hint=hint) from None
    if not isinstance(data, bytes) or hashlib.sha256(data).hexdigest() != address:
        raise Damaged("the blob is not what was written", path=f"artifacts {address}")
    return data


def _parsed(data: bytes, address: str) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Damaged(f"the document is not readable: {error}", path=f"artifacts {address}") from None


# -- checking ----------------------------------------------------------------------------------------------------------------


def check(envelope: Envelope, *, lost: bool) -> None:
    """Refuse what must not continue here: a run that may still continue elsewhere, and names that no store holds."""
    if not (envelope.sealed or lost):
        raise Refused(
            f"run {envelope.run.name} was not handed over, and may still continue where it came from", path="envelope.sealed",
            hint="hand it over there (handle.hand_over()), or say lost=True if that store is gone for good",
        )  # fmt: skip
    for each in family(envelope):
        _check_run(each.run)
        for effect in each.effects:
            _check_effect(effect)
        for wait in each.waits:
            _check_wait(wait)
        for signal in each.signals:
            check_name(signal.name, "envelope.signals.name")
        named = [each.run.subjects, *(said.subjects for said in documents(each))]
        for subject in chain(*named, each.checkpoint.subjects if each.checkpoint else ()):
            check_name(subject, "envelope.subjects")


def _check_texts(part: Any, path: str, *names: str) -> None:
    for name in names:
        value = getattr(part, name)
        if value is not None:
            check_text(value, f"{path}.{name}")


def _check_run(run: RunPart) -> None:
    for name in ("name", "agent", "creator"):
        check_name(getattr(run, name), f"envelope.run.{name}")
    for name in ("session", "parent"):
        if getattr(run, name) is not None:
            check_name(getattr(run, name), f"envelope.run.{name}")
    if run.key is not None:
        check_name(run.key, "envelope.run.key", KEY_MAX_CHARS)
    _check_texts(run, "envelope.run", "digest", "program", "reason")
    _check_pins(run)
    if (run.ended_at is not None) != (run.status in ENDED):
        raise Invalid(
            f"a run that is {run.status} has an end if it is over, and none if not", path="envelope.run.ended_at"
        )


def _check_pins(run: RunPart) -> None:
    versions_of(run.pins, "envelope.run.pins")
    sessions.check_pins(run.session_pins, "envelope.run.session_pins")
    for name, pair in {} if run.pins_change is None else run.pins_change.moved.items():
        if len(pair) != 2:
            raise Invalid("expected a version before and one after", path=f"envelope.run.pins_change.moved.{name}")
        for text in pair:
            versions_of({name: text}, "envelope.run.pins_change.moved")


def _check_effect(effect: EffectPart) -> None:
    path = f"envelope.effects[{effect.seq}]"
    check_name(effect.tool, f"{path}.tool")
    check_name(effect.key, f"{path}.key", KEY_MAX_CHARS)
    _check_texts(effect, path, "digest", "place", "call", "holder", "actor", "error")
    if effect.kind is ToolKind.READ:
        raise Invalid("a tool that only reads has no effect", path=f"{path}.kind")
    told = effect.state in (EffectState.COMMITTED, EffectState.FAILED, EffectState.IN_DOUBT)
    if told and effect.became is None:
        raise Invalid(f"it is {effect.state}, and nothing says what came of it", path=path)


def _check_wait(wait: WaitPart) -> None:
    path = f"envelope.waits[{wait.seq}]"
    _check_texts(wait, path, "name", "place", "digest", "actor", "met_by")
    if (wait.met_at is None) != (wait.state is WaitState.OPEN):
        raise Invalid(f"a wait that is {wait.state} has an end unless it is open", path=path)


# -- writing -----------------------------------------------------------------------------------------------------------------


def adopt(tx: Tx, envelope: Envelope, luggage: NeededBlobs, epoch: int) -> Stream:
    """Begin the run here, with what it did and what it waits for, in one commit. Returns its stream.

    Conflict when this store has the run already, or another of its name or key; Invalid when what the envelope says cannot be
    read back; nothing is written then.
    """
    for row in luggage.nodes:
        tx.keep_row(row)
    placed = [_Adoption(tx, each, luggage.documents, epoch).begin() for each in family(envelope)]
    for stream in placed:
        _read_back(tx, stream)
    return placed[0]


def _read_back(tx: Tx, stream: Stream) -> None:
    """The rows just written must be readable by the process that will continue the run."""
    try:
        runs.run(tx, stream)
        steps.steps(tx, stream)
        waits.waits(tx, stream)
        ledger.all_effects(tx, stream)
    except (Damaged, TypeError, ValueError, AttributeError) as error:  # errors that its shape causes
        raise Invalid(f"the envelope cannot be read back: {error}", path="envelope") from None


class _Adoption:
    """One run on its way in. Entries are written in their old order, and get new numbers."""

    def __init__(self, tx: Tx, envelope: Envelope, said: Mapping[str, Any], epoch: int) -> None:
        self._tx = tx
        self._envelope = envelope
        self._said = said
        self._epoch = epoch
        self._renumbered: dict[int, int] = {}
        self._stream: Stream

    def begin(self) -> Stream:
        """Write it all; nothing is kept if something in it is refused."""
        run = self._envelope.run
        self._refuse_known(run)
        self._stream = self._tx.new_stream("run", run.name, uid=bytes.fromhex(run.uid))
        self._begin_run(run)
        self._cut()
        parts: list[_Entry] = [
            *self._envelope.steps,
            *self._envelope.effects,
            *self._envelope.waits,
            *self._envelope.signals,
        ]
        for part in sorted(parts, key=lambda each: each.seq):
            self._renumbered[part.seq] = self._write(part)
        if run.became is not None:
            self._record("run.adopted", RUNS, Op.SET, doc=self._outcome(run.became), mark="outcome_seq")
        if not (self._envelope.sealed or run.restored):  # its store may have done more since: as after a restore
            self._record("run.adopted", RUNS, Op.SET, set={"known_seq": self._tx.seq(self._stream)})
        return self._stream

    def _refuse_known(self, run: RunPart) -> None:
        taken = self._taken(run)
        # Looked for last: the run that has its name or its key may be this very run, which was adopted meanwhile.
        if self._tx.query(LOG.stream_by_uid, uid=bytes.fromhex(run.uid), tenant=None):
            raise self._known(run)
        if taken is not None:
            raise taken

    def _taken(self, run: RunPart) -> Conflict | None:
        """The error for a run whose name or key another run here has; None if none has."""
        tx = self._tx
        if tx.find_stream("run", run.name) is not None:
            return Conflict(f"this store has another run {run.name}", path="envelope.run.name")
        if run.key is not None and tx.query(runs.Q.run_by_key, tenant=tx.tenant, agent=run.agent, key=run.key):
            return Conflict(f"the key {run.key!r} stands for another run of {run.agent}", path="envelope.run.key")
        return None

    def _known(self, run: RunPart) -> Conflict:
        """The error for a run that this store has already. The hint does not advise to continue one that was handed over from
        here.
        """
        here = self._tx.find_stream("run", run.name)  # None: it is another tenant's
        standing = None if here is None else runs.run(self._tx, here)
        hint = f"`perdure show {run.name}` tells how it stands here"
        if standing is not None and standing.reason == parked_runs.MOVED:
            hint = (
                f"it was handed over from here, and what it did since is not known here: `perdure unpark {run.name}` where the "
                "envelope was made, or adopt it in a store that never had it"
            )
        return Conflict(f"this store has run {run.name} already", path="run", hint=hint)

    def _begin_run(self, run: RunPart) -> None:
        tx, envelope = self._tx, self._envelope
        status = run.status if run.status in (*ENDED, RunStatus.PARKED) else RunStatus.READY
        if run.session is not None and sessions.find_session(tx, run.session) is None:
            sessions.pin_as(tx, sessions.open_session(tx, run.session)[0], run.session_pins)
        columns = {
            "name": run.name, "agent": run.agent, "key": run.key, "digest": run.digest, "status": status.value,
            "session": run.session, "parent": self._parent(run), "creator": run.creator, "created_at": run.created_at,
            "ended_at": run.ended_at, "wake_at": tx.now if status is RunStatus.READY else None, "timeout_at": run.timeout_at,
            "token": run.token + 1, "claimed_seq": 0, "deaths": 0, "suspect": 0, "cancelling": int(run.cancelling),
            "cuts": envelope.cursor.cut, "cut_seq": 0, "program": run.program, "pinned": int(run.pinned),
            "epoch": self._epoch, "reason": run.reason if status is RunStatus.PARKED else None,
            "known_seq": 0 if run.restored else None, "pins": pin_columns.to_column(run.pins), "on_change": run.on_change,
            "pins_change": pin_columns.change_to_column(run.pins_change),
        }  # fmt: skip
        origin = {
            "store": envelope.store,
            "epoch": envelope.epoch,
            "seq": envelope.cursor.seq,
            "hash": envelope.cursor.hash,
        }
        doc = {**_fields(self._doc(run.given)), "adopted": {**origin, "sealed": envelope.sealed}}
        named = sorted({*run.subjects, *run.given.subjects})
        self._record("run.adopted", RUNS, Op.INSERT, set=columns, doc=doc, mark="doc_seq", subjects=named)

    def _outcome(self, became: Document) -> Any:
        """The outcome of the run; the effect that is blamed for it has another number now."""
        doc = self._doc(became)
        blamed = doc.get("effect") if isinstance(doc, dict) else None
        return doc if type(blamed) is not int else {**doc, "effect": self._renumbered.get(blamed)}

    def _parent(self, run: RunPart) -> str | None:
        """The parent of the run, if this store has it. Nobody hears of the end of a run whose parent stayed elsewhere."""
        known = run.parent is not None and self._tx.find_stream("run", run.parent) is not None
        return run.parent if known else None

    def _cut(self) -> None:
        saved = self._envelope.checkpoint
        if (saved is None) != (self._envelope.cursor.cut == 0):
            raise Invalid("a run that was cut has a checkpoint, and no other has", path="envelope.checkpoint")
        if saved is None:
            return
        columns = {"name": "default", "parent": None, "root": saved.root, "size": saved.size, "at": saved.at}
        change = Change(
            "checkpoint.saved", self._stream, CHECKPOINTS, set=columns, blobs=[saved.root], subjects=saved.subjects,
            derived_from=[self._origin()],
        )  # fmt: skip
        self._tx.record(change)
        self._record("run.cut", RUNS, Op.SET, doc=self._doc(saved.about), mark="cut_seq")

    def _origin(self) -> Ref:
        """The event of the other run, or of this one elsewhere, whose state this one continues from."""
        supposed = _fields(self._doc(self._envelope.run.given)).get("what_if")
        uid = supposed.get("uid") if isinstance(supposed, dict) else None
        return Ref(uid if isinstance(uid, str) else self._envelope.run.uid, self._envelope.cursor.cut_seq)

    def _write(self, part: _Entry) -> int:
        match part:
            case StepPart():
                return self._record("step.done", STEPS, Op.NOTE, **self._said_in(part.meant))
            case SignalPart():
                return self._record(
                    "run.signalled", SIGNALS, Op.INSERT, set={"name": part.name}, **self._said_in(part.meant)
                )
            case WaitPart():
                return self._write_wait(part)
        return self._write_effect(part)

    def _write_wait(self, part: WaitPart) -> int:
        subject = "ask" if part.kind in waits.PEOPLE else "run.wait"
        awaits_child = part.kind is WaitKind.CHILD and part.state is WaitState.OPEN
        if awaits_child and part.name not in {child.run.name for child in self._envelope.children}:
            raise Invalid(f"it waits for run {part.name}, which is not in the envelope", path="envelope.children")
        columns = {
            "kind": part.kind.value, "state": part.state.value, "name": part.name, "place": part.place,
            "effect": self._number(part.effect), "digest": part.digest, "actor": part.actor, "at": part.at,
            "expires_at": part.expires_at, "met_by": part.met_by, "met_at": part.met_at,
        }  # fmt: skip
        return self._with_outcome(f"{subject}.adopted", WAITS, columns, part.meant, part.became)

    def _write_effect(self, part: EffectPart) -> int:
        part = self._doubted(part)
        columns = {
            "state": part.state.value, "tool": part.tool, "kind": part.kind.value, "key": part.key, "digest": part.digest,
            "place": part.place, "call": part.call, "undoes": self._number(part.undoes), "attempt": part.attempt,
            "epoch": part.epoch, "holder": part.holder, "actor": part.actor, "at": part.at,
            "dispatched_at": part.dispatched_at, "deadline_at": part.deadline_at, "quiet_at": part.quiet_at,
            "error": part.error, "mishaps": part.mishaps, "first_dispatched_at": part.first_dispatched_at,
        }  # fmt: skip
        supposed = _fields(self._doc(part.meant)).get("what_if") is not None
        return self._with_outcome(
            f"effect.{'supposed' if supposed else 'adopted'}", EFFECTS, columns, part.meant, part.became
        )

    def _doubted(self, part: EffectPart) -> EffectPart:
        """An effect under way, and if the run was not handed over also a planned one, is doubt (docs/decisions/0006).

        How long something may take to land is counted anew, on this store's clock.
        """
        quiet_at = None if part.quiet_at is None else self._tx.store_now()
        part = msgspec.structs.replace(part, quiet_at=quiet_at, epoch=self._epoch)
        planned = part.state is EffectState.PLANNED and not self._envelope.sealed
        if part.state is not EffectState.DISPATCHED and not planned:
            return part
        became = Document(doc={"error": {"code": settling.RESTORED, "message": LOST}})
        return msgspec.structs.replace(part, state=EffectState.IN_DOUBT, error=settling.RESTORED, became=became)

    def _with_outcome(
        self, kind: str, table: Table, columns: dict[str, Any], meant: Document, became: Document | None
    ) -> int:
        seq = self._record(kind, table, Op.INSERT, set=columns, **self._said_in(meant))
        if became is not None:
            self._record(kind, table, Op.SET, key={"seq": seq}, mark="outcome_seq", **self._said_in(became))
        return seq

    def _record(self, kind: str, table: Table, op: Op, **what: Any) -> int:
        return self._tx.record(Change(kind, self._stream, table, op, **what))

    def _said_in(self, document: Document) -> dict[str, Any]:
        return {"doc": self._doc(document), "subjects": document.subjects}

    def _doc(self, document: Document) -> Any:
        return self._said[document.blob] if document.blob else document.doc

    def _number(self, seq: int | None) -> int | None:
        if seq is not None and seq not in self._renumbered:
            raise Invalid(f"it names entry {seq}, which is not in the envelope", path="envelope")
        return None if seq is None else self._renumbered[seq]


def _fields(doc: Any) -> dict[str, Any]:
    if not isinstance(doc, dict):
        raise Invalid(f"expected fields by name, got {type(doc).__name__}", path="envelope")
    return doc

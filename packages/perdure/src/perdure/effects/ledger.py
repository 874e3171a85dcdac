"""The ledger: one row for each act on the outside world, moved along the arrows of docs/decisions/0006. Keeps P2-P4.

    plan ─▶ planned ── dispatch ─▶ dispatched ── commit ─▶ committed ── undo ─▶ undoing ── undone ─▶ undone
              │ withdraw              │    └── fail ─▶ failed     ▲
              ▼                       ▼ doubt                     │ settle
           withdrawn               in_doubt ──────────────────────┤ ── settle ─▶ failed
              ▲ absent ───────────────┘ (back to planned: the next attempt)

The verbs are plain functions of a transaction. The engine runs them before and after it calls a tool. A dispatch is a
compare-and-set on the head of the stream, so that only one of several callers sends (P3). Callers: the engine, and the handles.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from perdure.effects.settling import MISHAPS, has_landed
from perdure.errors import Cancelled, Conflict, Failed, KeyReused, NotFound, Stale
from perdure.log.change import Change, Op, Stream
from perdure.log.subjects import subjects_in
from perdure.model.filters import EffectFilters
from perdure.model.instants import to_datetime
from perdure.model.limits import KEY_MAX_CHARS, check_name, check_page
from perdure.model.records.effects import EffectError, EffectRecord, EffectState, Rule, ToolKind, sent_key_of, text_of
from perdure.model.values import to_plain
from perdure.planes import subjects
from perdure.planes.conversation.calls import call_of
from perdure.planes.execution import imported
from perdure.planes.reading.body_reading import IN_DOCUMENT, doc_of, marked, stored_value
from perdure.planes.reading.listing import Listing
from perdure.planes.reading.paging import Page, page_by_seq, read_rows, seq_or_cursor
from perdure.planes.reading.row_reading import (
    stored_as,
    stored_fields,
    stored_instant,
    stored_instant_or_none,
    stored_state,
)
from perdure.planes.recovery import epochs
from perdure.planes.tables import EFFECTS
from perdure.stores.statements import Statements
from perdure.stores.store import Reads
from perdure.stores.tx import Tx

Q = Statements("perdure.effects", "ledger.sql")

PLANNED, DISPATCHED, IN_DOUBT = EffectState.PLANNED, EffectState.DISPATCHED, EffectState.IN_DOUBT
COMMITTED, FAILED, WITHDRAWN = EffectState.COMMITTED, EffectState.FAILED, EffectState.WITHDRAWN
UNDOING, UNDONE = EffectState.UNDOING, EffectState.UNDONE
INSTANTS = ("first_dispatched_at", "dispatched_at", "deadline_at", "quiet_at")
UNSENT = "its sender"  # the author of the word that an attempt was stopped before its call
UNANSWERED = EffectError("Unanswered", "no answer came, and asking a model changes nothing in the outside world")
AGAIN = frozenset({ToolKind.IDEMPOTENT, ToolKind.KEYED})  # kinds that may be called again though they may have happened


class Arrow(NamedTuple):
    """One arrow of the drawing: the kind of its event, the states that it may begin in (none: it makes the row), and the state
    that it ends in.
    """

    kind: str
    sources: frozenset[EffectState]
    target: EffectState


ARROWS = {
    "plan": Arrow("effect.planned", frozenset(), PLANNED),
    "dispatch": Arrow("effect.dispatched", frozenset({PLANNED}), DISPATCHED),
    "withdraw": Arrow("effect.withdrawn", frozenset({PLANNED}), WITHDRAWN),
    "commit": Arrow("effect.committed", frozenset({DISPATCHED, IN_DOUBT}), COMMITTED),
    "fail": Arrow("effect.failed", frozenset({DISPATCHED, IN_DOUBT}), FAILED),
    "doubt": Arrow("effect.doubted", frozenset({PLANNED, DISPATCHED, IN_DOUBT}), IN_DOUBT),
    "again": Arrow("effect.redispatched", frozenset({DISPATCHED, IN_DOUBT}), DISPATCHED),
    "absent": Arrow("effect.absent", frozenset({DISPATCHED, IN_DOUBT}), PLANNED),
    "retry": Arrow("effect.retried", frozenset({FAILED, WITHDRAWN}), PLANNED),
    "undo": Arrow("effect.undoing", frozenset({COMMITTED, IN_DOUBT, FAILED}), UNDOING),
    "undone": Arrow("effect.undone", frozenset({UNDOING}), UNDONE),
}


class Intent(msgspec.Struct, frozen=True):
    """An effect before anything of it is written: the argument of `plan` and `dispatch`."""

    tool: str
    kind: ToolKind
    key: str
    digest: str
    args: dict[str, Any]
    rule: Rule
    place: str | None = None
    call: str | None = None
    undoes: int | None = None
    notes: dict[str, Any] = {}  # kept with the plan: the verdicts of guards
    about: tuple[str, ...] = ()
    sagas: tuple[str, ...] | None = None  # of a run, those that it is done in; None: it is not recorded


class Sender(NamedTuple):
    """The dispatching side: the open store, and the epoch that it believes in."""

    holder: str
    epoch: int


class Outcome(NamedTuple):
    """The outcome of an attempt: a result, or an error. by: the person or the rule that said so.

    unkept: why the kept result is not the one that the tool gave. doubtful: an attempt before it may have happened all the same.
    """

    result: Any = None
    error: EffectError | None = None
    by: str = ""
    unkept: str = ""
    doubtful: bool = False
    about: tuple[str, ...] = ()


class LateAnswer(NamedTuple):
    """The outcome of a call for which nobody waits any more, and the arrow that records it. quiet: of doubt, whether its sender
    can send no more.
    """

    arrow: str
    outcome: Outcome
    quiet: bool = False


# -- planning and sending -----------------------------------------------------------------------------------------------


def plan(tx: Tx, stream: Stream, intent: Intent, epoch: int) -> EffectRecord:
    """Plan an effect, or give the one that stands under its key. Raises KeyReused when that one has other input."""
    found = standing(tx, stream, intent)
    if found is not None:
        return found
    return _insert(tx, stream, "plan", intent, {"attempt": 0, "mishaps": 0, "epoch": epoch})


def dispatch(tx: Tx, stream: Stream, intent: Intent, sender: Sender) -> tuple[EffectRecord, bool]:
    """Make an intent durable, so that it may be sent (P2). Gives the effect, and whether this call dispatched it and so must send
    it.

    A new or planned effect is dispatched. Any other is given as it stands.
    """
    found = standing(tx, stream, intent)
    if found is None:
        return begin_first_attempt(tx, stream, intent, sender), True
    if found.state is not PLANNED or found.epoch != sender.epoch:
        return found, False
    return begin_next_attempt(tx, stream, found.seq, sender), True


def begin_first_attempt(tx: Tx, stream: Stream, intent: Intent, sender: Sender) -> EffectRecord:
    """Plan and dispatch, in one event, an effect that is known to be new. The unique key refuses any other."""
    return _insert(tx, stream, "dispatch", intent, {"mishaps": 0, **_sending(tx, intent.rule, sender, 0)})


def begin_next_attempt(tx: Tx, stream: Stream, seq: int, sender: Sender) -> EffectRecord:
    """Dispatch the next attempt of a planned effect. Raises Conflict if it is not planned, or was planned before a restore."""
    epochs.check(tx, sender.epoch)
    found = effect(tx, stream, seq)
    if found.state is PLANNED and found.epoch != sender.epoch:
        raise Conflict(
            f"effect {found.id} was planned before the store was restored: it may have been sent since", path="effect",
            state=found.state.value,
        )  # fmt: skip
    return _move(tx, stream, found, "dispatch", _sending(tx, found.rule, sender, found.attempt))


def begin_attempt_again(tx: Tx, stream: Stream, seq: int, attempt: int, sender: Sender) -> EffectRecord:
    """Dispatch the next attempt of an effect that may have happened, and whose tool may be called again. Raises Conflict if it
    has moved on.
    """
    found = effect(tx, stream, seq)
    if found.kind not in AGAIN or found.attempt != attempt:
        raise Conflict(
            f"effect {found.id} ({found.kind}) is at attempt {found.attempt}", path="effect", state=found.state
        )
    outcome = Outcome(error=found.error, doubtful=True)
    return _move(tx, stream, found, "again", {**_sending(tx, found.rule, sender, attempt), "error": None}, outcome)


def _sending(tx: Tx, rule: Rule, sender: Sender, attempts: int) -> dict[str, Any]:
    now = tx.now if rule.timeout is None else tx.store_now()
    return {
        "attempt": attempts + 1,
        "epoch": sender.epoch,
        "holder": sender.holder,
        "dispatched_at": now,
        "deadline_at": None if rule.timeout is None else now + rule.timeout,
        "quiet_at": None,
        **({} if attempts else {"first_dispatched_at": now}),
    }


def standing(tx: Tx, stream: Stream, intent: Intent) -> EffectRecord | None:
    """The effect that stands under the key of an intent. Raises KeyReused when it has other input, Imported when it is a copy."""
    check_name(intent.key, "key", KEY_MAX_CHARS)
    found = find(tx, stream, intent.key)
    if found is not None and found.copy:
        imported.check_own(
            tx, stream, found.key, found.seq, (tx.row(EFFECTS, stream, found.seq) or {}).get("outcome_seq")
        )
    if found is not None and found.digest not in ("", intent.digest):  # "": its input was erased, its key was not
        raise KeyReused(
            f"the key {intent.key!r} stands for another effect, {found.id} ({found.tool})", path="key",
            hint="another effect needs another key", stored=found.digest, given=intent.digest, seq=found.seq,
        )  # fmt: skip
    return found


def _insert(tx: Tx, stream: Stream, verb: str, intent: Intent, columns: dict[str, Any]) -> EffectRecord:
    arrow = ARROWS[verb]
    fixed = {
        "state": arrow.target.value, "tool": intent.tool, "kind": intent.kind.value, "key": intent.key,
        "digest": IN_DOCUMENT, "place": intent.place, "call": intent.call, "undoes": intent.undoes, "actor": tx.actor,
        "at": tx.now,
    }  # fmt: skip
    sent_key = sent_key_of(stream.uid.hex(), intent.key)
    meant = {
        "args": to_plain(intent.args, "args"), "rule": msgspec.to_builtins(intent.rule), "sent_key": sent_key,
        "digest": intent.digest,
    }  # fmt: skip
    if intent.sagas is not None:
        meant["sagas"] = [*intent.sagas]
    doc = {**meant, **intent.notes}
    seq = tx.record(
        Change(arrow.kind, stream, EFFECTS, set=fixed | columns, doc=doc, subjects=_subjects(tx, stream, intent))
    )
    return EffectRecord(
        seq=seq, stream_kind=stream.kind, stream=stream.name, tool=intent.tool, kind=intent.kind,
        state=arrow.target, key=intent.key, digest=intent.digest, args=intent.args, rule=intent.rule,
        attempt=columns["attempt"], holder=columns.get("holder"), place=intent.place, call=intent.call,
        undoes=intent.undoes, epoch=columns["epoch"], actor=tx.actor, at=to_datetime(tx.now),
        dispatched_at=_when(columns.get("dispatched_at")), deadline_at=_when(columns.get("deadline_at")),
        quiet_at=None, result=None, error=None, settled_by=None, ref=stream.ref(seq), mishaps=0,
        first_dispatched_at=_when(columns.get("first_dispatched_at")), sent_key=sent_key, sagas=intent.sagas,
    )  # fmt: skip


def _subjects(tx: Tx, stream: Stream, intent: Intent) -> Sequence[str]:
    """Whom an effect is about: those that the caller names, those of the call that it is for, those of what it undoes."""
    if intent.call is None and intent.undoes is None:
        return intent.about
    made = None if intent.call is None else call_of(tx, stream, intent.call)
    undone = None if intent.undoes is None else tx.row(EFFECTS, stream, intent.undoes)
    return sorted({*intent.about, *subjects_in(made.about if made else None), *subjects.in_row(undone)})


def _when(at: int | None) -> Any:
    return None if at is None else to_datetime(at)


# -- what became of it ------------------------------------------------------------------------------------------------


def commit(tx: Tx, stream: Stream, seq: int, attempt: int, outcome: Outcome) -> EffectRecord:
    """Record that it happened, with this result. A late result settles the doubt about its own attempt; after settlement it is
    only noted.
    """
    return _conclude(tx, stream, seq, attempt, "commit", outcome)


def check_kept(tx: Tx, stream: Stream, known: EffectRecord) -> None:
    """Stale when the database has lost an effect that this process sent: its number may be another's by now."""
    if not epochs.is_of_another(tx, known.epoch):
        return
    row = tx.row(EFFECTS, stream, known.seq)
    if row is None or row["key"] != known.key:
        raise Stale(f"{epochs.LOST_SINCE}: {known.tool} was called, and effect {known.id} is not known any more", path="effect",
                    hint=f"look whether {known.tool} happened before you call it again")  # fmt: skip


def commit_own(tx: Tx, stream: Stream, known: EffectRecord, outcome: Outcome) -> EffectRecord:
    """Commit an attempt that the caller has just sent. While nobody moved it, the caller's own record saves reading it again."""
    check_kept(tx, stream, known)
    row = tx.row(EFFECTS, stream, known.seq)
    if row is None or (row["state"], row["attempt"]) != (known.state, known.attempt):
        return commit(tx, stream, known.seq, known.attempt, outcome)
    return _move(tx, stream, known, "commit", {"error": None}, outcome)


def fail(tx: Tx, stream: Stream, seq: int, attempt: int, outcome: Outcome) -> EffectRecord:
    """Record that it did not happen, and is not tried again."""
    return _conclude(tx, stream, seq, attempt, "fail", outcome)


def fail_quiet(tx: Tx, stream: Stream, seq: int, attempt: int, outcome: Outcome) -> EffectRecord:
    """Fail an attempt by the word of its caller, which has come back and sends nothing more."""
    return _hush(tx, stream, fail(tx, stream, seq, attempt, outcome), attempt)


def absent(tx: Tx, stream: Stream, seq: int, attempt: int, outcome: Outcome) -> EffectRecord:
    """Record that it did not happen, and plan the next attempt."""
    return _conclude(tx, stream, seq, attempt, "absent", outcome)


def unsent(tx: Tx, stream: Stream, seq: int, attempt: int, outcome: Outcome) -> EffectRecord:
    """Record that this attempt was not sent, and plan the next. Doubt, if an attempt before it may have happened (P4)."""
    found = effect(tx, stream, seq)
    if not found.doubtful or found.attempt != attempt or found.state not in ARROWS["absent"].sources:
        return absent(tx, stream, seq, attempt, outcome)
    assert outcome.error is not None
    return doubt(tx, stream, seq, attempt, outcome.error, quiet=True, by=outcome.by)


def take_back(tx: Tx, stream: Stream, made: EffectRecord, outcome: Outcome) -> None:
    """`unsent`, for a dispatch that stands as it was made. Nothing if it was rolled back, or if more than doubt was recorded."""
    found = find(tx, stream, made.key)
    if found is None or found.state not in (DISPATCHED, IN_DOUBT):
        return
    same = ("seq", "attempt", "holder", "epoch", "dispatched_at")
    if all(getattr(found, each) == getattr(made, each) for each in same):
        unsent(tx, stream, made.seq, made.attempt, outcome)


def doubt(
    tx: Tx,
    stream: Stream,
    seq: int,
    attempt: int,
    error: EffectError,
    *,
    quiet: bool = False,
    by: str = "",
    epoch: int | None = None,
) -> EffectRecord:
    """Record that nobody knows whether it happened. quiet: its sender is proved to be unable to send from now on.

    epoch: of the store, for doubt because of a restore. The effect belongs to this epoch from then on.
    """
    found = effect(tx, stream, seq)
    if found.attempt != attempt or found.state not in ARROWS["doubt"].sources:
        return _hush(tx, stream, found, attempt) if quiet else found
    if found.state is IN_DOUBT and (found.quiet_at is not None or not quiet):
        return found
    outcome = Outcome(error=error, by=by, doubtful=found.doubtful)
    columns = {"quiet_at": tx.store_now() if quiet else None, "error": error.code, **_mishap(found, outcome)}
    columns |= {} if epoch is None else {"epoch": epoch}
    return _move(tx, stream, found, "doubt", columns, outcome)


def _hush(tx: Tx, stream: Stream, found: EffectRecord, attempt: int) -> EffectRecord:
    """Record that the sender of an effect that was given up can send no more: from then on it may be undone."""
    if found.state is not FAILED or found.quiet_at is not None or found.attempt != attempt:
        return found
    now = tx.store_now()
    tx.record(Change("effect.quiet", stream, EFFECTS, Op.SET, {"seq": found.seq}, {"quiet_at": now}))
    return msgspec.structs.replace(found, quiet_at=to_datetime(now))


def withdraw(tx: Tx, stream: Stream, seq: int, error: EffectError, by: str = "") -> EffectRecord:
    """Withdraw a planned effect: a guard or a person said no before it was sent."""
    found = effect(tx, stream, seq)
    if found.state is WITHDRAWN:
        return found
    return _move(tx, stream, found, "withdraw", {"error": error.code}, Outcome(error=error, by=by))


def _conclude(tx: Tx, stream: Stream, seq: int, attempt: int, verb: str, outcome: Outcome) -> EffectRecord:
    found = effect(tx, stream, seq)
    if found.attempt != attempt or found.state not in ARROWS[verb].sources:
        return _note_late(tx, stream, found, attempt, verb, outcome)
    if verb == "fail" and found.doubtful:
        outcome = outcome._replace(doubtful=True)
    cleared = {"error": outcome.error.code if outcome.error and verb != "absent" else None}
    return _move(tx, stream, found, verb, cleared | _mishap(found, outcome), outcome)


def _mishap(found: EffectRecord, outcome: Outcome) -> dict[str, Any]:
    """Count a mishap, if an attempt ended by no doing of its tool: that uses up no retry."""
    mishap = outcome.by == UNSENT or (outcome.error is not None and outcome.error.code in MISHAPS)
    return {"mishaps": found.mishaps + 1} if mishap and found.state is DISPATCHED else {}


def _note_late(tx: Tx, stream: Stream, found: EffectRecord, attempt: int, verb: str, outcome: Outcome) -> EffectRecord:
    """Note an outcome that comes after settlement. It changes nothing, and is noted once.

    Raises Conflict for an effect that was never sent: it can have no outcome (P2).
    """
    if not found.attempt:
        raise Conflict(
            f"effect {found.id} was never dispatched: nothing can have become of it",
            path="effect",
            state=found.state.value,
        )
    if (found.attempt, found.state) != (attempt, ARROWS[verb].target):
        doc = {"effect": found.seq, "attempt": attempt, "said": verb, **_document(outcome)}
        named = {*outcome.about, *subjects.in_row(tx.row(EFFECTS, stream, found.seq))}
        tx.record(Change("effect.late", stream, op=Op.NOTE, doc=doc, subjects=sorted(named)))
    return _hush(tx, stream, found, attempt)


def _move(
    tx: Tx, stream: Stream, found: EffectRecord, verb: str, columns: dict[str, Any], outcome: Outcome | None = None
) -> EffectRecord:
    arrow = ARROWS[verb]
    if found.state not in arrow.sources:
        raise Conflict(
            f"effect {found.id} is {found.state} and cannot be {arrow.target}", path="effect", state=found.state.value
        )
    doc, mark = (None, "") if outcome is None else (_document(outcome), "outcome_seq")
    values = {"state": arrow.target.value, **columns}
    tx.record(Change(
        kind=arrow.kind, stream=stream, table=EFFECTS, op=Op.SET, key={"seq": found.seq}, set=values, doc=doc, mark=mark,
        subjects=outcome.about if outcome is not None else (),
    ))  # fmt: skip
    if verb == "commit" and found.undoes is not None:
        _move(tx, stream, effect(tx, stream, found.undoes), "undone", {})
    return _moved(tx, found, arrow.target, columns, outcome)


def _document(outcome: Outcome) -> dict[str, Any]:
    doc = {name: value for name in ("by", "unkept", "doubtful") if (value := getattr(outcome, name))}
    if outcome.error is not None:
        return doc | {"error": msgspec.to_builtins(outcome.error)}
    return doc | {"result": to_plain(outcome.result, "result")}


def _moved(
    tx: Tx, found: EffectRecord, state: EffectState, columns: dict[str, Any], outcome: Outcome | None
) -> EffectRecord:
    fields: dict[str, Any] = {name: _when(at) if name in INSTANTS else at for name, at in columns.items()}
    fields["error"] = found.error  # the column has its code alone
    if outcome is not None:
        fields |= {"result": outcome.result, "error": outcome.error, "settled_by": outcome.by or None}
        fields |= {"unkept": outcome.unkept or None, "doubtful": outcome.doubtful, "outcome_at": to_datetime(tx.now)}
    if found.what_if and "dispatched_at" in columns:  # now it is really done here
        fields |= {"what_if": False, "sent_key": sent_key_of(found.ref.uid, found.key)}
    return msgspec.structs.replace(found, state=state, **fields)


def revive(tx: Tx, stream: Stream, seq: int) -> EffectRecord | None:
    """Plan a failed effect anew, for a run that ended by that failure and is tried again. None if it did not fail."""
    found = effect(tx, stream, seq)
    if found.state not in ARROWS["retry"].sources:
        return None
    return _move(tx, stream, found, "retry", {"error": None})


def plan_anew(tx: Tx, stream: Stream, key: str) -> bool:
    """Plan a call anew that failed, or that is in doubt and changes nothing in the outside world. Gives whether it was
    planned: a refusal stands.
    """
    found = find(tx, stream, key)
    if found is None or found.state not in (FAILED, IN_DOUBT):
        return False
    if found.state is FAILED:
        return revive(tx, stream, found.seq) is not None
    absent(tx, stream, found.seq, found.attempt, Outcome(error=UNANSWERED, by="its caller"))
    return True


def begin_undo(tx: Tx, stream: Stream, seq: int, intent: Intent, epoch: int) -> EffectRecord:
    """Plan the undo of an effect, which is an effect of its own. The undone one is `undoing` from here on."""
    found = effect(tx, stream, seq)
    _check_undoable(tx, found)
    undo = plan(tx, stream, msgspec.structs.replace(intent, undoes=seq), epoch)
    if found.state not in (UNDOING, UNDONE):
        _move(tx, stream, found, "undo", {})
    return undo


def _check_undoable(tx: Tx, found: EffectRecord) -> None:
    """Raise Conflict for an effect that cannot be undone now. Doubt is settled first, unless undoing does no harm; and a sent
    call must not arrive after its undo.
    """
    if found.state is IN_DOUBT and not (found.rule.undo_idempotent and has_landed(found, tx.store_now())):
        raise Conflict(f"effect {found.id} is in doubt: settle it before it is undone", path="effect", state="in_doubt")
    if found.state is FAILED and found.kind is not ToolKind.IDEMPOTENT:
        raise Conflict(f"effect {found.id} did not happen: there is nothing to undo", path="effect", state="failed")
    if found.state is FAILED and not has_landed(found, tx.store_now()):
        raise Conflict(
            f"effect {found.id} was given up, and may still arrive: undo it later", path="effect", state="failed"
        )


# -- reading -----------------------------------------------------------------------------------------------------------


def find(reads: Reads, stream: Stream, key: str) -> EffectRecord | None:
    """The effect under a key of this stream."""
    rows = reads.query(Q.effect_get, touches=[(EFFECTS, stream.id)], stream=stream.id, key=key, seq=None)
    return _record(reads, stream, rows[0]) if rows else None


def effect(reads: Reads, stream: Stream, seq: int) -> EffectRecord:
    """One effect of a session or run. NotFound if there is none with this number."""
    rows = reads.query(Q.effect_get, touches=[(EFFECTS, stream.id)], stream=stream.id, seq=seq, key=None)
    if not rows:
        hint = "`perdure effects` lists them"
        raise NotFound(f"{stream.kind} {stream.name!r} has no effect {seq}", path="effect", hint=hint)
    return _record(reads, stream, rows[0])


def effects(
    reads: Reads,
    stream: Stream,
    *,
    after: int | str = 0,
    limit: int = 1_000,
    open_only: bool = False,
    about: str | None = None,
) -> Page[EffectRecord]:
    """The effects of a session or run, oldest first, after a sequence number or the cursor of a page."""
    count = check_page(limit)
    rows = reads.query(
        Q.effects_of_stream, touches=[(EFFECTS, stream.id)], stream=stream.id, after=seq_or_cursor(after), limit=count + 1,
        open=1 if open_only else None, about=subjects.wanted_here(reads, stream.id, about),
    )  # fmt: skip
    page = page_by_seq(rows, count, lambda row: row[0])
    return read_rows(page, partial(_record, reads, stream), page.next)


def all_effects(reads: Reads, stream: Stream, *, after: int = 0, open_only: bool = False) -> list[EffectRecord]:
    """All effects, however many there are."""
    found: list[EffectRecord] = []
    while page := effects(reads, stream, after=found[-1].seq if found else after, open_only=open_only).whole():
        found += page
    return found


def effects_of_store(reads: Reads, asked: EffectFilters, *, of: str | None = None) -> Page[tuple[Stream, EffectRecord]]:
    """The effects of this tenant, newest first, each with its stream. of: session or run.

    what_if: also those that what-if forks copied.
    """
    listing = Listing(reads, asked)
    rows = reads.query(Q.effects_of_store, **listing.asked, of=of, done=None if asked.what_if else 1)
    return listing.page(rows, partial(_record, reads), at=13, number=0)


def effects_gone_wrong(reads: Reads, asked: EffectFilters) -> Page[tuple[Stream, EffectRecord]]:
    """The effects of this tenant with which something went wrong, the last trouble first: span and order are of when that was
    recorded.
    """
    listing = Listing(reads, asked)
    rows = reads.query(Q.effects_gone_wrong, **listing.asked, done=None if asked.what_if else 1)
    return listing.page(rows, lambda stream, row: _record(reads, stream, row[:-1]), at=23, number=0)


def _record(reads: Reads, stream: Stream, row: tuple[Any, ...]) -> EffectRecord:
    (seq, state, tool, kind, key, digest, place, call, undoes, attempt, epoch, holder, actor, at, dispatched_at,
     deadline_at, quiet_at, mishaps, first_dispatched_at, planned, ended, outcome_at, copied) = row  # fmt: skip
    where = f"{stream.kind} {stream.name} effect {seq}"
    meant = stored_fields(doc_of(reads, planned, where), where)
    became = stored_fields(doc_of(reads, ended, where), where)
    what_if = meant.get("what_if") == (dispatched_at or 0)
    sent_key = sent_key_of(stream.uid.hex(), key)
    return EffectRecord(
        seq=seq, stream_kind=stream.kind, stream=stream.name, tool=tool, kind=stored_state(ToolKind, kind, where),
        state=stored_state(EffectState, state, where), key=key, digest=marked(digest, meant),
        args=stored_fields(stored_value(meant.get("args"), where), where),
        rule=stored_as(Rule, meant.get("rule") or {}, "rule of a tool", where), attempt=attempt, holder=holder,
        place=place, call=call, undoes=undoes, epoch=epoch, actor=actor, at=stored_instant(at, where),
        dispatched_at=stored_instant_or_none(dispatched_at, where),
        deadline_at=stored_instant_or_none(deadline_at, where), quiet_at=stored_instant_or_none(quiet_at, where),
        result=stored_value(became.get("result"), where),
        error=stored_as(EffectError | None, became.get("error"), "error", where),
        settled_by=stored_as(str | None, became.get("by"), "name", where), ref=stream.ref(seq), mishaps=mishaps,
        first_dispatched_at=stored_instant_or_none(first_dispatched_at, where),
        unkept=stored_as(str | None, became.get("unkept"), "reason", where), doubtful=bool(became.get("doubtful")),
        sent_key=str(meant.get("sent_key", sent_key)) if what_if or key.startswith(imported.GIVEN_UP) else sent_key,
        what_if=what_if,
        outcome_at=stored_instant_or_none(outcome_at, where), copy=bool(copied),
        sagas=stored_as(tuple[str, ...] | None, meant.get("sagas"), "list of sagas", where),
    )  # fmt: skip


def error_of(error: BaseException) -> EffectError:
    """An exception as it is kept: its name, or the code that it gives, and what it says."""
    return EffectError(error.code if isinstance(error, (Cancelled, Failed)) else type(error).__name__, _said(error))


def _said(error: BaseException) -> str:
    """The message of an exception; a group by itself says only how many it holds."""
    if not isinstance(error, BaseExceptionGroup):
        return text_of(error)
    held = "; ".join(f"{type(each).__name__}: {_said(each)}" for each in error.exceptions)
    return f"{text_of(error)}: {held}"

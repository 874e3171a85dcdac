"""Turns: what is said, the calls that are made and their results. The plane behind `say result retract turns`.

A turn's row is thin; what it says is in its event alone. Saying something without a key reads nothing at all
(P8). Identity comes from the caller's key or call id, never from the content.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import msgspec

from perdure.errors import Conflict, Damaged, Invalid, KeyReused, NotFound, TooLarge
from perdure.log.change import Change, Op, Stream
from perdure.log.event import Body
from perdure.log.subjects import subjects_in
from perdure.model.instants import to_datetime
from perdure.model.limits import KEY_MAX_CHARS, REFS_MAX, check_name, check_page, check_text
from perdure.model.records.conversation import Call, Native, Role, Turn
from perdure.model.refs import Ref
from perdure.model.values import digest, to_plain
from perdure.planes import subjects
from perdure.planes.conversation.calls import call_of, line_touches, maker_of
from perdure.planes.reading.body_reading import body_of, stored_value
from perdure.planes.reading.lineage import MAX_SEQ, Segment, segments, touching
from perdure.planes.reading.origins import check_seq, home, to_refs
from perdure.planes.reading.paging import Page, page_by_seq, read_rows, seq_or_cursor
from perdure.planes.reading.row_reading import stored_as, stored_fields, stored_instant, stored_state
from perdure.planes.tables import TURNS
from perdure.stores.batch import EVENTS
from perdure.stores.statements import Statement, Statements
from perdure.stores.store import Reads
from perdure.stores.tx import LOG, Tx

Q = Statements("perdure.planes.conversation", "sessions.sql")

_Row: TypeAlias = "tuple[Any, ...]"

_ABOUT = frozenset({"native", "usage", "model", "parent"})
_SPEAKERS = {role.value: role for role in (Role.SYSTEM, Role.USER, Role.ASSISTANT)}


# -- saying --------------------------------------------------------------------------------------------------


def say(
    tx: Tx,
    stream: Stream,
    role: str,
    content: Any = None,
    *,
    key: str | None = None,
    calls: Sequence[Call] = (),
    about: Iterable[str] = (),
    shown: Iterable[object] = (),
    origin: Mapping[str, Any] | None = None,
    native: tuple[str, Any] | Native | None = None,
    usage: Mapping[str, Any] | None = None,
    model: str | None = None,
    parent: Turn | int | None = None,
) -> Turn:
    """Add a turn, or with a key that was used before, give the turn that stands under it.

    origin: where it came from, if it was said elsewhere before; shown: what the speaker had been shown; usage, model: what it
    took; parent: what it follows. These are kept as data, no part of what the key stands for.
    """
    speaker = _speaker(role)
    checked_calls = _checked_calls(calls, speaker) if calls else ()
    form = None if native is None else _native(native)
    if content is None and not checked_calls and form is None:
        raise Invalid("a turn says something or makes calls", path="content")
    doc = _document(content, checked_calls)
    if origin is not None or form is not None or usage is not None or model is not None:
        doc |= _origin(origin) | _about(form, usage, model)
    if key is not None:
        before = said(tx, stream, key)
        if before is not None:
            fresh = Turn(
                seq=0, role=speaker, content=content, calls=checked_calls, at=before.at, actor="", key=key, native=form
            )
            return _same(before, fresh, f"key {key!r}", "key")
    if parent is not None:
        doc["parent"] = 0 if parent == 0 else visible(tx, stream, parent, "parent").seq
    for i, call in enumerate(checked_calls):
        _refuse_open(tx, stream, call.id, f"calls[{i}].id")
    shown_refs = list(dict.fromkeys(to_refs(tx, stream, shown, "shown"))) if shown else []
    change = Change(
        "turn.said", stream, TURNS, set={"role": str(speaker), "key": key, "call": None}, doc=doc, refs=shown_refs,
        subjects=_subjects(tx, about, shown_refs) if about or shown_refs else (),
        calls=[(call.id, call.tool) for call in checked_calls] if checked_calls else (),
    )  # fmt: skip
    seq = tx.record(change)
    ref = Ref(stream.uid.hex(), seq)
    at = to_datetime(tx.now)
    return Turn(
        seq=seq, role=speaker, content=content, calls=checked_calls, at=at, actor=tx.actor, key=key, ref=ref,
        origin=doc.get("origin"), shown=tuple(shown_refs), native=form, usage=doc.get("usage"), model=doc.get("model"),
        parent=doc.get("parent"),
    )  # fmt: skip


def _subjects(tx: Tx, about: Iterable[str], shown_refs: Sequence[Ref]) -> list[str]:
    """Whom a turn is about: those that the caller names, and those of what its speaker was shown."""
    return sorted({*subjects.named(about), *subjects.of_refs(tx, shown_refs)})


def answered(
    tx: Tx, stream: Stream, content: Any, key: str | None, calls: Sequence[Call], about: Iterable[str] = ()
) -> Turn:
    """The turn of a model's answer: the one that made these very calls, under whatever key it was said, or else a new one.

    A model may use ids again: an answer with other calls is a new turn, if every call of the one before has its result.
    """
    before = _made_by(tx, stream, calls[0].id) if calls else None
    if before is None:
        return say(tx, stream, "assistant", content, key=key, calls=calls, about=about)
    checked_calls = _checked_calls(calls, Role.ASSISTANT)
    fresh = Turn(seq=0, role=Role.ASSISTANT, content=content, calls=checked_calls, at=before.at, actor="")
    if before.calls != checked_calls and not unanswered(tx, stream, before):
        return say(tx, stream, "assistant", content, key=key, calls=calls, about=about)
    hint = "to continue: turn = session.pending().turn, then session.respond(turn.content, calls=turn.calls, …)"
    return _same(before, fresh, f"call {calls[0].id!r}", "calls", hint)


def result(
    tx: Tx,
    stream: Stream,
    call_id: str,
    value: Any,
    *,
    error: bool = False,
    key: str | None = None,
    about: Iterable[str] = (),
    origin: Mapping[str, Any] | None = None,
    native: tuple[str, Any] | Native | None = None,
) -> Turn:
    """Add the result of a call, of the newest turn that made it; if that has one already, give that one. origin, native: as for
    `say`. key: the name of this result, if its call has been made anew since. It is about whom the call is, and `about`.
    """
    check_name(call_id, "call_id")
    form = _native(native)
    doc = {"content": to_plain(value, "value")} | ({"error": True} if error else {}) | _origin(origin)
    doc |= _about(form, None, None)
    fresh = Turn(
        seq=0, role=Role.TOOL, content=value, calls=(), at=to_datetime(tx.now), actor="", key=key, call=call_id,
        error=bool(error), native=form,
    )  # fmt: skip
    if key is not None:
        before = said(tx, stream, key)
        if before is not None:
            return _same(before, fresh, f"key {key!r}", "key")
    call = call_of(tx, stream, call_id)
    if call is None:
        raise NotFound(f"no turn of this session made the call {call_id!r}", path="call_id")
    earlier = _result_after(tx, stream, call_id, call.seq)
    if earlier is not None:
        return _same(earlier, fresh, f"call {call_id!r}", "value")
    columns = {"role": Role.TOOL.value, "key": key, "call": call_id}
    subject_names = {*subjects.named(about), *subjects_in(call.about)} if about or call.about else ()
    seq = tx.record(Change("call.answered", stream, TURNS, set=columns, doc=doc, subjects=sorted(subject_names)))
    return msgspec.structs.replace(
        fresh, seq=seq, actor=tx.actor, ref=stream.ref(seq), origin=doc.get("origin")
    )  # fmt: skip


def said(reads: Reads, stream: Stream, key: str) -> Turn | None:
    """The turn that was said under a key, if there is one."""
    return _find(reads, stream, Q.turn_by_key, key=check_name(key, "key", KEY_MAX_CHARS))


def result_of(reads: Reads, stream: Stream, call_id: str) -> Turn | None:
    """The result of a call, if it has one: of the newest turn that made it."""
    maker = maker_of(reads, stream, call_id)
    return None if maker is None else _result_after(reads, stream, call_id, maker)


def _result_after(reads: Reads, stream: Stream, call_id: str, maker: int) -> Turn | None:
    return _find(reads, stream, Q.turn_by_call, call=call_id, maker=maker)


def retract(
    tx: Tx, stream: Stream, turns_: Iterable[Turn | int], because: str | None = None, *, about: Iterable[str] = ()
) -> int:
    """Hide turns from everything that shows the conversation; they stay in the log. Returns how many this call hid.

    A turn that was retracted before is left as it is; NotFound for what is no turn here. A fork that retracts a turn which it
    shares with its parent hides it for itself: by a row of its own, under the number that the turn has.
    """
    doc = None if because is None else {"because": check_text(because, "because")}
    done = 0
    for i, turn in enumerate(turns_):
        seq = check_seq(turn.seq if isinstance(turn, Turn) else turn, f"turns[{i}]")
        own = tx.row(TURNS, stream, seq)
        if own is not None and own["retracted_seq"] is not None:
            continue
        shared = visible(tx, stream, seq, f"turns[{i}]") if own is None else None
        inherited = {"role": shared.role.value, "call": shared.call} if shared is not None else {}
        source = home(tx, stream, seq).ref(seq)
        tx.record(Change(
            "turn.retracted", stream, TURNS, op=Op.SET if shared is None else Op.BASE, key={"seq": seq}, set=inherited, doc=doc,
            mark="retracted_seq", refs=[source], subjects=_subjects(tx, about, [source]),
        ))  # fmt: skip
        done += 1
    return done


def durable(reads: Reads, stream: Stream, position: Turn | int | str) -> int | None:
    """The number of what was meant, once it is committed: an event by its number, or a turn by its key."""
    if isinstance(position, str):
        turn = said(reads, stream, position)
        return None if turn is None else turn.seq
    seq = check_seq(position.seq if isinstance(position, Turn) else position, "position")
    head = reads.query(LOG.stream_head, touches=[(EVENTS, stream.id)], stream=stream.id)[0][0]
    return seq if head >= seq else None


def visible(reads: Reads, stream: Stream, turn: Turn | int, path: str) -> Turn:
    """A turn of this session by its number. NotFound if there is none, or it was retracted."""
    seq = check_seq(turn.seq if isinstance(turn, Turn) else turn, path)
    turns = turns_back(reads, stream, seq - 1, seq, 1)
    if not turns:
        raise NotFound(f"turn {seq} of this session does not exist, or was retracted", path=path)
    return turns[0]


def _speaker(role: object) -> Role:
    speaker = _SPEAKERS.get(role) if isinstance(role, str) else None
    if speaker is not None:
        return speaker
    hint = "result(call_id, value) keeps what a tool gave" if role == "tool" else ""
    raise Invalid(f"unknown role {str(role)[:40]!r} (system, user, assistant)", path="role", hint=hint)


def _document(content: Any, calls: Sequence[Call]) -> dict[str, Any]:
    doc = {"content": to_plain(content, "content")}
    if calls:
        doc["args"] = [to_plain(call.args, f"calls[{i}].args") for i, call in enumerate(calls)]
    return doc


def _origin(origin: Mapping[str, Any] | None) -> dict[str, Any]:
    return {} if origin is None else {"origin": to_plain(dict(origin), "origin")}


def _native(native: object) -> Native | None:
    if native is None or isinstance(native, Native):
        return native
    if not isinstance(native, (tuple, list)) or len(native) != 2:
        raise Invalid(f"expected (form, body), got {type(native).__name__}", path="native")
    return Native(native[0], native[1])


def _about(form: Native | None, usage: object, model: str | None) -> dict[str, Any]:
    about: dict[str, Any] = {}
    if form is not None:
        about["native"] = [check_name(form.form, "native.form"), to_plain(form.body, "native.body")]
    if usage is not None:
        if not isinstance(usage, Mapping):
            raise Invalid(f"expected numbers by name, got {type(usage).__name__}", path="usage")
        about["usage"] = to_plain(dict(usage), "usage")
    if model is not None:
        about["model"] = check_name(model, "model")
    return about


def _checked_calls(calls: object, speaker: Role) -> tuple[Call, ...]:
    if speaker is not Role.ASSISTANT:
        raise Invalid(f"only assistant turns make calls, not {speaker} turns", path="calls")
    if not isinstance(calls, (list, tuple)):
        raise Invalid(f"expected a list of calls, got {type(calls).__name__}", path="calls")
    if len(calls) > REFS_MAX:
        raise TooLarge(f"{len(calls)} calls, at most {REFS_MAX} in one turn", path="calls")
    ids: set[str] = set()
    for i, call in enumerate(calls):
        if type(call) is not Call:
            raise Invalid(f"expected a Call, got {type(call).__name__}", path=f"calls[{i}]")
        check_name(call.tool, f"calls[{i}].tool")
        if check_name(call.id, f"calls[{i}].id") in ids:
            raise Conflict(f"the call {call.id!r} is made twice", path=f"calls[{i}].id")
        ids.add(call.id)
    return tuple(calls)


def _refuse_open(tx: Tx, stream: Stream, call: str, path: str) -> None:
    """Conflict while a call of this id has no result: nobody could tell to which of the two a result belongs."""
    maker = maker_of(tx, stream, call)
    if maker is not None and _result_after(tx, stream, call, maker) is None:
        hint = "give that one its result first, or retract the turn"
        raise Conflict(
            f"turn {maker} of this session made the call {call!r}, which has no result yet",
            path=path,
            hint=hint,
            seq=maker,
        )


def _same(stored: Turn, fresh: Turn, what: str, path: str, hint: str = "") -> Turn:
    """The stored turn if it says the same as the given one; the first input stands."""
    before, now = _digest(stored), _digest(fresh)
    if before == now:
        return stored
    raise KeyReused(
        f"{what} stands for another input, turn {stored.seq}",
        path=path,
        hint=hint,
        seq=stored.seq,
        stored=before,
        given=now,
    )


def _digest(turn: Turn) -> str:
    calls = [[call.id, call.tool, call.args] for call in turn.calls]
    parts = {"role": turn.role.value, "content": turn.content, "calls": calls, "error": turn.error}
    if turn.native is not None:
        parts["native"] = [turn.native.form, turn.native.body]
    return digest(parts, "turn").hex()


# -- reading -------------------------------------------------------------------------------------------------


def turns(reads: Reads, stream: Stream, **options: Any) -> Page[Turn]:
    """`shown`, for whoever continues a conversation: one with a hole is another one. Damaged for a turn that cannot be read."""
    return shown(reads, stream, **options).whole()


def shown(
    reads: Reads,
    stream: Stream,
    *,
    last: int | None = None,
    after: int | str | None = None,
    before: int | str | None = None,
    about: str | None = None,
    limit: int = 100,
) -> Page[Turn]:
    """A page of turns, in order: the last ones, or those before or after a sequence number or the cursor of a page. A turn that
    cannot be read is named in `damaged`.
    """
    if last is not None and (after is not None or before is not None):
        raise Invalid("`last` stands alone; with `after` or `before` use `limit`", path="last")
    rows = check_page(limit) if last is None else check_page(last, "last")
    first = 0 if after is None else _bound(after, "after")
    upto = MAX_SEQ if before is None else _bound(before, "before") - 1
    fetch = _rows_back if after is None else _rows_on
    subject = subjects.wanted(about)
    page = page_by_seq(fetch(reads, stream, first, upto, rows + 1, about=subject), rows, lambda row: row[0])
    ordered = page[::-1] if after is None else page
    return read_rows(ordered, partial(_turn_of, reads, stream), page.next)


def _bound(position: int | str, path: str) -> int:
    seq = seq_or_cursor(position, path)
    return 0 if seq == 0 else check_seq(seq, path)


def line(reads: Reads, stream: Stream, head: Turn | int, *, limit: int = 100) -> list[Turn]:
    """The branch that ends with a turn, in order, the newest `limit` of it: each turn follows its `parent`, or else the turn
    before it.
    """
    count, upto = check_page(limit), visible(reads, stream, head, "head").seq
    branch: list[Turn] = []
    while upto > 0 and len(branch) < count:
        page = turns_back(reads, stream, 0, upto, count - len(branch))
        upto = 0
        for turn in reversed(page):
            branch.append(turn)
            if turn.parent is not None:
                upto = min(turn.parent, turn.seq - 1)
                break
    return branch[::-1]


def turns_back(reads: Reads, stream: Stream, first: int, upto: int, limit: int) -> list[Turn]:
    """The newest turns with first < seq <= upto, in order."""
    return [_turn_of(reads, stream, row) for row in reversed(_rows_back(reads, stream, first, upto, limit))]


def _rows_back(
    reads: Reads, stream: Stream, first: int, upto: int, limit: int, *, about: str | None = None
) -> list[_Row]:
    """The rows, newest first."""
    rows: list[_Row] = []
    for segment in segments(reads, stream, upto):
        if len(rows) == limit or segment.last <= first:
            break
        subject = subjects.wanted_here(reads, segment.stream, about)
        rows += _rows(reads, stream, Q.turns_back, above(segment, first), limit=limit - len(rows), about=subject)
    return rows


def turns_on(reads: Reads, stream: Stream, first: int, upto: int, limit: int, *, rules: bool = False) -> list[Turn]:
    """The oldest turns (or of those, the rules: what the system says) with first < seq <= upto, in order."""
    return [_turn_of(reads, stream, row) for row in _rows_on(reads, stream, first, upto, limit, rules=rules)]


def _rows_on(
    reads: Reads, stream: Stream, first: int, upto: int, limit: int, *, rules: bool = False, about: str | None = None
) -> list[_Row]:
    rows: list[_Row] = []
    for segment in reversed(segments(reads, stream, upto)):
        if segment.last > first and len(rows) < limit:
            span = above(segment, first)
            subject = subjects.wanted_here(reads, segment.stream, about)
            filters = {"rules": 1 if rules else None, "about": subject}
            rows += _rows(reads, stream, Q.turns_on, span, limit=limit - len(rows), **filters)
    return rows


def above(segment: Segment, first: int) -> Segment:
    """A part of a line without what is not after `first`."""
    return segment._replace(first=max(segment.first, first))


def _rows(reads: Reads, stream: Stream, statement: Statement, span: Segment, **params: Any) -> list[_Row]:
    touches = touching(TURNS, stream, span.stream)
    if stream.parent is None:
        return reads.query(statement, touches=touches, **span._asdict(), own=1, heir=None, **params)
    touches = [*touches, *line_touches(stream, TURNS)]
    seen_by = {"own": None, "heir": stream.id, "whole": MAX_SEQ}
    return reads.query(statement, touches=touches, **span._asdict(), **seen_by, **params)


def _find(reads: Reads, stream: Stream, statement: Statement, **params: Any) -> Turn | None:
    """The turn that a key or call names: one statement, however often this session was forked."""
    forked = stream.parent is not None
    rows = reads.query(
        statement,
        touches=line_touches(stream, TURNS),
        stream=stream.id,
        alone=None if forked else stream.id,
        forked=1 if forked else None,
        last=MAX_SEQ,
        **params,
    )
    return _turn_of(reads, stream, rows[0]) if rows else None


def _turn_of(reads: Reads, stream: Stream, row: _Row) -> Turn:
    seq, role, key, call, at, actor, stored = row
    path = f"session {stream.name} seq {seq}"
    body = body_of(reads, stored, path)
    doc = stored_fields(body.doc, path)
    calls = _calls_of(body, doc, path) if body.calls else ()
    content = stored_value(doc.get("content"), path)
    error = bool(doc.get("error"))
    said_as, when = stored_state(Role, role, path), stored_instant(at, path)
    origin = stored_value(doc.get("origin"), path)
    turn = Turn(
        seq=seq, role=said_as, content=content, calls=calls, at=when, actor=actor, key=key, call=call, error=error,
        ref=stream.ref(seq), origin=origin, shown=tuple(body.refs),
    )  # fmt: skip
    if doc.keys().isdisjoint(_ABOUT):  # nearly every turn
        return turn
    usage = stored_value(doc.get("usage"), path)
    return msgspec.structs.replace(
        turn,
        native=_stored_native(doc.get("native"), path),
        usage=stored_fields(usage, path) if usage is not None else None,
        model=stored_as(str | None, doc.get("model"), "name", path),
        parent=stored_as(int | None, doc.get("parent"), "number", path),
    )


def _stored_native(stored: Any, path: str) -> Native | None:
    if stored is None:
        return None
    if type(stored) is not list or len(stored) != 2 or type(stored[0]) is not str:
        raise Damaged("the native form of a turn is none", path=path)
    return Native(stored[0], stored_value(stored[1], path))


def _calls_of(body: Body, doc: dict[str, Any], path: str) -> tuple[Call, ...]:
    args = doc.get("args") or []
    if type(args) is not list or len(args) != len(body.calls):
        raise Damaged("the calls of a turn and their arguments differ in number", path=path)
    pairs = zip(body.calls, args, strict=True)
    return tuple(Call(call, tool, stored_value(arguments, path)) for (call, tool), arguments in pairs)


def _made_by(reads: Reads, stream: Stream, call: str) -> Turn | None:
    maker = maker_of(reads, stream, call)
    page = turns(reads, stream, after=maker - 1, limit=1) if maker is not None else ()
    return next((turn for turn in page if turn.seq == maker), None)


def refuse_gone(reads: Reads, stream: Stream, span: Segment, path: str, hint: str) -> None:
    """NotFound when turns of a range were pruned (planes/retention/retain)."""
    touches = touching(TURNS, stream, span.stream)
    count, first, last = reads.query(Q.turns_emptied, touches=touches, **span._asdict())[0]
    if count:
        what = f"{count} turns from {first} to {last} were pruned since, and no summary stands for them here"
        raise NotFound(what, path=path, hint=hint)


def unanswered(reads: Reads, stream: Stream, maker: Turn) -> tuple[Call, ...]:
    """The calls of a turn that have no result yet."""
    if not maker.calls:
        return ()
    answered: set[str] = set()
    for segment in segments(reads, stream):
        if segment.last > maker.seq:
            rows = _rows(reads, stream, Q.calls_answered, above(segment, maker.seq))
            answered |= {call for (call,) in rows}
    return tuple(call for call in maker.calls if call.id not in answered)

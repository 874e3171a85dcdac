"""Covers: summaries that stand for a range of turns, which stays. The plane behind `summarise covers
transcript`.

Ranges never cross: a later cover swallows earlier ones whole or lies apart from them. So the covers that
nothing has swallowed, and the turns that none of them covers, tell the whole session in order; reading them
costs what happened since the last summary (P8). System turns are the rules that were given: a summary never
stands for them.

A summary loses no identifier: those of its range that its text does not say are kept beside it as keys (`keys_of`), the most
frequent ones first. A summary of summaries takes them from these, so that making it reads no turn again. `due` says what to
summarise next so that opening a session reads O(log n) rows, however many turns it has.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

from perdure.errors import Conflict, Damaged, Invalid, NotFound, TooLarge
from perdure.log.change import Change, Stream
from perdure.model.identifiers import identifiers
from perdure.model.instants import to_datetime
from perdure.model.limits import PAGE_MAX_ROWS, check_name, check_page, check_text
from perdure.model.records.conversation import Cover, Due, Role, Turn
from perdure.model.values import encode
from perdure.planes import subjects
from perdure.planes.conversation.calls import maker_of
from perdure.planes.conversation.pending import pending_among_left
from perdure.planes.conversation.transcript import Item, Transcript, as_text, format_of, render
from perdure.planes.conversation.turns import refuse_gone, turns_back, turns_on
from perdure.planes.reading.body_reading import doc_of
from perdure.planes.reading.lineage import MAX_SEQ, Segment, segments, touching
from perdure.planes.reading.origins import check_seq, home
from perdure.planes.reading.row_reading import stored_as, stored_instant
from perdure.planes.reading.snapshots import one_state
from perdure.planes.tables import CALLS, COVERS, TURNS
from perdure.stores.past_store import PastReader
from perdure.stores.statements import Statements
from perdure.stores.store import Reads
from perdure.stores.tx import Tx

Q = Statements("perdure.planes.conversation", "sessions.sql")

KEYS_MAX = 200  # of one summary
KEYS_MAX_CHARS = 4_000


def summarise(
    tx: Tx,
    stream: Stream,
    upto: int,
    text: str,
    *,
    from_: int | None = None,
    keys: Iterable[str] = (),
    about: Iterable[str] = (),
) -> Cover:
    """Cover the turns from `from_` (or the first) to `upto`. keys: what of them is named beside the text. A summary is about
    whom the turns are, and the summaries in between.
    """
    if not check_text(text, "text").strip():
        raise Invalid("a summary cannot be empty", path="text")
    names = _checked_keys(keys)
    start = 1 if from_ is None else check_seq(from_, "from_")
    first, last = _ends(tx, stream, start, check_seq(upto, "upto"))
    _refuse_crossing(tx, stream, first, last)
    _refuse_cut(tx, stream, last, "upto")
    if from_ is not None:
        _refuse_cut(tx, stream, first - 1, "from_")
    _refuse_pending(tx, stream, last)
    sources = [home(tx, stream, seq).ref(seq) for seq in dict.fromkeys((first, last))]
    columns = {"first_seq": first, "last_seq": last}
    doc = {"text": text, "keys": list(names)} if names else text
    subject_names = sorted({*subjects.named(about), *subjects.of_range(tx, stream, first, last)})
    change = Change(
        "turns.summarised", stream, COVERS, set=columns, doc=doc, subjects=subject_names, derived_from=sources
    )
    seq = tx.record(change)
    return Cover(
        seq=seq,
        first_seq=first,
        last_seq=last,
        text=text,
        at=to_datetime(tx.now),
        actor=tx.actor,
        ref=stream.ref(seq),
        keys=names,
    )


def _checked_keys(keys: Iterable[str]) -> tuple[str, ...]:
    if isinstance(keys, (str, bytes)) or not isinstance(keys, Iterable):
        raise Invalid(f"expected a list of names, got {type(keys).__name__}", path="keys")
    names = tuple(dict.fromkeys(check_name(key, f"keys[{i}]") for i, key in enumerate(keys)))
    if len(names) > KEYS_MAX:
        raise TooLarge(f"{len(names)} keys, at most {KEYS_MAX} are kept", path="keys")
    return names


def _ends(tx: Tx, stream: Stream, start: int, upto: int) -> tuple[int, int]:
    first = turns_on(tx, stream, start - 1, upto, 1)
    last = turns_back(tx, stream, start - 1, upto, 1)
    if not first or not last or upto > tx.seq(stream):
        raise NotFound(f"no turns from {start} to {upto}", path="upto")
    return first[0].seq, last[0].seq


def _refuse_crossing(tx: Tx, stream: Stream, first: int, last: int) -> None:
    for span in segments(tx, stream):
        touches = touching(COVERS, stream, span.stream)
        rows = tx.query(Q.cover_crossing, touches=touches, stream=span.stream, last=span.last, start=first, upto=last)
        if rows:
            seq, begin, end = rows[0]
            raise Conflict(
                f"the summary {seq} covers {begin} to {end}, which is not inside {first} to {last}",
                path="upto",
                hint=f"use upto={max(end, last)}, from_={min(begin, first)}",
                seq=seq,
            )


def _refuse_cut(tx: Tx, stream: Stream, cut: int, path: str) -> None:
    """A call and its result belong together: no summary begins or ends between them."""
    touches = [(TURNS, stream.id), (CALLS, stream.id)]
    rows = tx.query(Q.answer_across, touches=touches, stream=stream.id, cut=cut)
    if rows:
        answer, maker = rows[0]
        raise Conflict(f"turn {answer} is the result of a call that turn {maker} made: cover both or none", path=path)


def _refuse_pending(tx: Tx, stream: Stream, last: int) -> None:
    """A result that is still to come would find its call covered, and be lost to the transcript."""
    open_now = pending_among_left(tx, stream)
    if open_now is not None and open_now.calls and open_now.turn.seq <= last:
        raise Conflict(
            f"calls of turn {open_now.turn.seq} have no result yet", path="upto",
            hint=f"end before {open_now.turn.seq}, or give the results first",
        )  # fmt: skip


# -- reading -------------------------------------------------------------------------------------------------


@one_state
def covers(reads: Reads, stream: Stream, *, nested: bool = False, about: str | None = None) -> list[Cover]:
    """The summaries that stand now, in the order of what they cover; nested: also those that others have
    swallowed. about: only those that are about this subject.
    """
    summaries = _all(reads, stream) if nested else _outermost(reads, stream)
    if about is None:
        return summaries
    about_seqs = {cover.seq for cover in _all(reads, stream, about)}
    return [cover for cover in summaries if cover.seq in about_seqs]


def _all(reads: Reads, stream: Stream, about: str | None = None) -> list[Cover]:
    summaries: list[Cover] = []
    for span in reversed(segments(reads, stream)):
        touches = touching(COVERS, stream, span.stream)
        subject = subjects.wanted_here(reads, span.stream, about)
        rows = reads.query(Q.covers_page, touches=touches, **span._asdict(), limit=PAGE_MAX_ROWS, about=subject)
        summaries += [_cover_of(reads, stream, row) for row in rows]
    return summaries


@one_state
def newest(reads: Reads, stream: Stream, count: int) -> list[Cover]:
    """The newest of the summaries that stand, in the order of what they cover. Costs as many lookups, however many there are."""
    return _outermost(reads, stream, count)


def _outermost(reads: Reads, stream: Stream, count: int = MAX_SEQ) -> list[Cover]:
    """From the end: of all that end last the widest, then the same before it; at most so many."""
    outermost: list[Cover] = []
    spans = segments(reads, stream)
    before = MAX_SEQ
    while True:
        rows = [
            row
            for span in spans
            for row in reads.query(
                Q.cover_before,
                touches=touching(COVERS, stream, span.stream),
                stream=span.stream,
                last=span.last,
                before=before,
            )
        ]
        if not rows or len(outermost) == count:
            return outermost[::-1]
        widest = max(rows, key=lambda row: (row[2], -row[1], row[0]))
        outermost.append(_cover_of(reads, stream, widest))
        before = outermost[-1].first_seq


def _cover_of(reads: Reads, stream: Stream, row: tuple[Any, ...]) -> Cover:
    seq, first, last, at, actor, body = row
    path = f"session {stream.name} seq {seq}"
    if not 0 < first <= last:  # looking for the one before it would never end
        raise Damaged("the range of a summary ends before it begins", path=path)
    doc = doc_of(reads, body, path) or ""
    text, keys = (doc.get("text"), doc.get("keys")) if type(doc) is dict else (doc, [])
    if type(text) is not str:
        raise Damaged("the text of a summary is no text", path=path)
    names = stored_as(tuple[str, ...], keys, "list of keys", path)
    return Cover(
        seq=seq,
        first_seq=first,
        last_seq=last,
        text=text,
        at=stored_instant(at, path),
        actor=actor,
        ref=stream.ref(seq),
        keys=names,
    )


# -- what a summary must name --------------------------------------------------------------------------------


@one_state
def keys_of(reads: Reads, stream: Stream, upto: int, text: str, *, from_: int | None = None) -> list[str]:
    """The identifiers of a range that a text does not say, the most frequent first, as many as are kept."""
    counts = _identifier_counts(
        reads, stream, 1 if from_ is None else check_seq(from_, "from_"), check_seq(upto, "upto")
    )
    summary_text = check_text(text, "text")
    keys: list[str] = []
    room = KEYS_MAX_CHARS
    for name, _ in counts.most_common():
        if name not in summary_text and len(name) <= room and len(keys) < KEYS_MAX:
            keys.append(name)
            room -= len(name)
    return keys


@one_state
def lacking(reads: Reads, stream: Stream, cover: Cover) -> list[str]:
    """The identifiers of what a summary covers that neither its text nor its keys say; those of inner summaries count as its."""
    summary_text = "\n".join([cover.text, *cover.keys])
    return [
        name
        for name in _identifier_counts(reads, stream, cover.first_seq, cover.last_seq, inside=cover)
        if name not in summary_text
    ]


def _identifier_counts(
    reads: Reads, stream: Stream, first: int, last: int, inside: Cover | None = None
) -> Counter[str]:
    """How often each identifier of a range is said: by the summaries in it, and the turns that none of them covers."""
    counts: Counter[str] = Counter()
    start = first - 1
    for summary in _within(reads, stream, first, last, inside):
        counts.update(name for turn in _range(reads, stream, start, summary.first_seq - 1) for name in _names_in(turn))
        counts.update([*identifiers(summary.text), *summary.keys])
        start = summary.last_seq
    counts.update(name for turn in _range(reads, stream, start, last) for name in _names_in(turn))
    return counts


def _within(reads: Reads, stream: Stream, first: int, last: int, inside: Cover | None) -> list[Cover]:
    """The outermost summaries that lie in a range, apart from the one that covers just that."""
    if inside is None:
        return [
            summary for summary in _outermost(reads, stream) if first <= summary.first_seq and summary.last_seq <= last
        ]
    earlier = [summary for summary in _all(reads, stream) if summary.seq < inside.seq]
    outermost: list[Cover] = []
    for summary in sorted(earlier, key=lambda summary: (summary.first_seq, -summary.last_seq, -summary.seq)):
        is_inside = first <= summary.first_seq and summary.last_seq <= last
        if is_inside and (not outermost or summary.first_seq > outermost[-1].last_seq):
            outermost.append(summary)
    return outermost


def _names_in(turn: Turn) -> list[str]:
    texts = [as_text(turn.content), *(encode(call.args).decode() for call in turn.calls)]
    return identifiers("\n".join(texts)) if turn.role is not Role.SYSTEM else []


@one_state
def due(reads: Reads, stream: Stream, *, width: int = 50, fan: int = 10) -> Due | None:
    """The range to summarise next; None while there is nothing to do. See `handles`."""
    if type(width) is not int or type(fan) is not int or width < 2 or fan < 2:
        raise Invalid("expected numbers of at least 2", path="width" if type(width) is not int or width < 2 else "fan")
    summaries = _outermost(reads, stream)
    last = summaries[-1].last_seq if summaries else 0
    page = turns_on(reads, stream, last, MAX_SEQ, min(2 * width, PAGE_MAX_ROWS))
    if len(page) >= 2 * width:
        upto = _last_settled_turn(reads, stream, [turn.seq for turn in page[:width]])
        return None if upto is None else Due(page[0].seq, upto)
    return _to_join(summaries, width, fan)


def _to_join(summaries: list[Cover], width: int, fan: int) -> Due | None:
    """The summaries at the end that one should stand for: as soon as `fan` of one level stand there, smaller ones among them."""
    levels = [int(math.log(max(summary.last_seq - summary.first_seq + 1, width) / width, fan)) for summary in summaries]
    for level in range(max(levels, default=-1) + 1):
        start = next((i for i in reversed(range(len(levels))) if levels[i] > level), -1) + 1
        same = [i for i in range(start, len(levels)) if levels[i] == level]
        if len(same) >= fan:
            group = summaries[start : same[-1] + 1]
            return Due(group[0].first_seq, group[-1].last_seq, tuple(group))
    return None


def _last_settled_turn(reads: Reads, stream: Stream, seqs: list[int]) -> int | None:
    """The last of these turns after which no call waits for a result that comes later."""
    for seq in reversed(seqs):
        if not reads.query(
            Q.answer_across, touches=[(TURNS, stream.id), (CALLS, stream.id)], stream=stream.id, cut=seq
        ):
            return seq
    return None


# -- the transcript ------------------------------------------------------------------------------------------


@one_state
def transcript(reads: Reads, stream: Stream, shape: str, *, full: bool = False, last: int | None = None) -> Transcript:
    """The session as messages: rules, summaries, and the turns that they do not cover."""
    chosen = format_of(shape)
    summaries = [] if full else _outermost(reads, stream)
    if full or stream.parent is not None or isinstance(reads, PastReader):  # else what went is covered
        _refuse_gone(reads, stream, summaries)
    if last is None:
        items = _uncovered(reads, stream, summaries)
    else:
        items = _newest(reads, stream, summaries, check_page(last, "last"))
    if not items and stream.parent is None:
        _refuse_gone(reads, stream, [])  # of a session that ended, all went
    return render(items, chosen)


def _refuse_gone(reads: Reads, stream: Stream, summaries: list[Cover]) -> None:
    """NotFound when turns went (by retention) for which no summary stands here: in the past, or in a fork made there since.

    Looks only between the summaries, where mostly nothing went.
    """
    starts = [0, *(cover.last_seq for cover in summaries)]
    ends = [*(cover.first_seq - 1 for cover in summaries), MAX_SEQ]
    hint = "turns() gives those that are left; later, a summary stands for the others"
    for span in segments(reads, stream):
        for start, end in zip(starts, ends, strict=True):
            first, last = max(start, span.first), min(end, span.last)
            if first < last:
                refuse_gone(reads, stream, Segment(span.stream, first, last), "transcript", hint)


def _uncovered(reads: Reads, stream: Stream, summaries: list[Cover]) -> list[Item]:
    items: list[Item] = []
    first = 0
    for cover in summaries:
        items += _range(reads, stream, first, cover.first_seq - 1)
        items += _range(reads, stream, cover.first_seq - 1, cover.last_seq, rules=True)
        items.append(cover)
        first = cover.last_seq
    return items + _range(reads, stream, first, MAX_SEQ)


def _newest(reads: Reads, stream: Stream, summaries: list[Cover], count: int) -> list[Item]:
    """Rules and summaries, and the newest turns after them: at least `count`, and back to the turn that made
    the call of every result among them, however much was said in between.
    """
    floor = summaries[-1].last_seq if summaries else 0
    tail = turns_back(reads, stream, floor, MAX_SEQ, count)
    while (start := _first_maker(reads, stream, tail, floor)) is not None:
        before = _range(reads, stream, start - 1, tail[0].seq - 1)
        if not before:  # looking for it again would never end
            raise Damaged("a call is listed where no turn made one", path=f"session {stream.name} seq {start}")
        tail = before + tail
    rules = _range(reads, stream, 0, tail[0].seq - 1 if tail else MAX_SEQ, rules=True)
    return [*rules, *summaries, *tail]


def _first_maker(reads: Reads, stream: Stream, tail: list[Turn], floor: int) -> int | None:
    """The earliest turn before the tail whose call is answered in it; None when there is none."""
    own_calls = {call.id for turn in tail for call in turn.calls}
    answered = [turn.call for turn in tail if turn.call is not None and turn.call not in own_calls]
    makers = [seq for call in answered if (seq := maker_of(reads, stream, call)) is not None]
    return min((seq for seq in makers if floor < seq < tail[0].seq), default=None)


def _range(reads: Reads, stream: Stream, first: int, last: int, *, rules: bool = False) -> list[Turn]:
    turns: list[Turn] = []
    while first < last:
        page = turns_on(reads, stream, first, last, PAGE_MAX_ROWS, rules=rules)
        turns += page
        if len(page) < PAGE_MAX_ROWS:
            break
        first = page[-1].seq
    return turns

"""The learning export: sessions as rows of a data set, with what came of them, and where each row came from.

One snapshot, in the order of names, streamed: the same state gives the same bytes, and memory holds a chunk of one session.
Content that was pruned, erased or retracted is not there to be read, and a reader sees its own tenant alone. Beside the rows,
`FILE.lineage.jsonl` says of each row which events it was made from, its outcome and what people corrected. See
decision 0062. Callers: the handles.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from perdure.effects import ledger
from perdure.errors import Invalid, NotFound
from perdure.interchange.bundle_out import Chosen, sessions_of
from perdure.interchange.learning_forms import FORMS, encode, preference
from perdure.log.change import Stream
from perdure.model.filters import RunFilters, SessionDecisionFilters
from perdure.model.records.conversation import Role, Turn
from perdure.model.records.effects import EffectRecord, EffectState
from perdure.model.records.runs import RunRecord, RunStatus, WaitState
from perdure.model.values import to_plain
from perdure.planes.conversation import turns
from perdure.planes.execution import decisions, runs, waits
from perdure.stores.atomic_files import check_folder, whole_file
from perdure.stores.core import Core, Reader
from perdure.stores.store import Reads
from perdure.stores.tx import LOG

PREFERENCES = "preferences"
SHAPES = (*FORMS, PREFERENCES)
LABELS = ("worked", "failed", "unknown")
PAGE_ROWS = 500
CHUNK_MAX_TURNS = (
    2_000  # beyond it a call and its result may come apart: a model that makes so many calls at once is none
)
TAKEN_BACK = frozenset({EffectState.UNDONE, EffectState.UNDOING, EffectState.WITHDRAWN})


class Learnt(msgspec.Struct, frozen=True):
    """A finished export. `digest` is the sha256 of the rows; `lineage` the file that says where each came from."""

    path: str
    lineage: str
    format: str
    digest: str
    rows: int
    turns: int
    left_out: int


class _Session(msgspec.Struct):
    """A session as it is labelled. disliked: the calls whose effects a person refused or had undone."""

    stream: Stream
    label: str
    outcome: dict[str, Any]
    corrections: list[dict[str, Any]]
    disliked: set[str]
    agent: str


def export(
    core: Core, tenant: int, path: Path, shape: str, sessions: Collection[str], *, everything: bool, outcome: str | None
) -> Learnt:
    """Write rows and lineage into two new files, each whole or not at all. outcome: only sessions with this label.

    Raises NotFound for a name, Conflict when a file is there already, Invalid for a word.
    """
    _check_word(shape, SHAPES, "format")
    if outcome is not None:
        _check_word(outcome, LABELS, "outcome")
    path = path.absolute()
    lineage = path.with_name(f"{path.name}.lineage.jsonl")
    check_folder(path)
    with whole_file(path) as rows, whole_file(lineage) as sources:
        counts = core.snapshot(
            _written, Chosen([*sessions], everything=everything), shape, outcome, rows, sources, tenant=tenant
        )
    digest, count, turn_count, left_out = counts
    return Learnt(
        path=str(path),
        lineage=str(lineage),
        format=shape,
        digest=digest,
        rows=count,
        turns=turn_count,
        left_out=left_out,
    )


def _check_word(word: object, words: Sequence[str], path: str) -> None:
    if word not in words:
        raise Invalid(f"no {path} {str(word)[:40]!r}", path=path, hint=" or ".join(words))


def _written(
    reader: Reader, chosen: Chosen, shape: str, outcome: str | None, rows: Path, sources: Path
) -> tuple[str, int, int, int]:
    """Write both files; may be run again from the start. Gives the digest of the rows, their number, turns, sessions left out."""
    digest, number, turn_count, left_out = hashlib.sha256(), 0, 0, 0
    with rows.open("wb") as out, sources.open("wb") as lineage:
        for stream in sessions_of(reader, chosen):
            session = _labelled(reader, stream)
            row = _row(reader, session, shape) if outcome in (None, session.label) else None
            if row is None:
                left_out += 1
                continue
            pieces, about, counted = row
            for piece in pieces:
                digest.update(piece)
                out.write(piece)
            lineage.write(encode({"row": number, **about, "turns": counted[0]}) + b"\n")
            number, turn_count = number + 1, turn_count + counted[0]
    return digest.hexdigest(), number, turn_count, left_out


def _row(reader: Reader, session: _Session, shape: str) -> tuple[Iterator[bytes], dict[str, Any], list[int]] | None:
    """The pieces of a row, its lineage and a count of its turns, which is right when the pieces are used up. None: no row."""
    stream, counted = session.stream, [0]
    head_seq, head_hash = reader.query(LOG.stream_head, stream=stream.id)[0]
    about = {
        "session": stream.name, "uid": stream.uid.hex(), "first_seq": 1, "head_seq": head_seq,
        "head_hash": bytes(head_hash).hex(), "outcome": session.outcome, "corrections": session.corrections,
    }  # fmt: skip
    if shape == PREFERENCES:
        return _pair(reader, session, about, counted)
    if not turns.turns(reader, stream, last=1):
        return None
    description = {**about, "agent": session.agent, "version": version("perdure")}
    return FORMS[shape](_chunks(reader, stream, 0, None, counted), session.disliked, description), about, counted


def _pair(
    reader: Reader, session: _Session, about: dict[str, Any], counted: list[int]
) -> tuple[Iterator[bytes], dict[str, Any], list[int]] | None:
    """A fork and what it was forked from, if one of them worked and the other failed, and both went on."""
    stream = session.stream
    rows = reader.query(LOG.stream_by_id, id=stream.parent) if stream.parent is not None else ()
    if not rows:
        return None
    other = _labelled(reader, Stream(*rows[0]), since=stream.fork_seq)
    own = _labelled(reader, stream, since=stream.fork_seq)
    if {own.label, other.label} != {"worked", "failed"}:
        return None
    if not all(_answers_after(reader, side.stream, stream.fork_seq) for side in (own, other)):
        return None
    chosen, rejected = (own, other) if own.label == "worked" else (other, own)
    pieces = preference(
        _chunks(reader, stream, 0, stream.fork_seq, counted),
        _chunks(reader, chosen.stream, stream.fork_seq, None, counted),
        _chunks(reader, rejected.stream, stream.fork_seq, None, counted),
    )
    forked = {"uid": other.stream.uid.hex(), "session": other.stream.name, "seq": stream.fork_seq}
    return pieces, about | {"forked_from": forked, "chosen": chosen.stream.uid.hex()}, counted


def _answers_after(reader: Reader, stream: Stream, after: int) -> bool:
    page = turns.turns(reader, stream, after=after, limit=PAGE_ROWS)
    return any(turn.role is Role.ASSISTANT for turn in page)


def _chunks(
    reader: Reader, stream: Stream, after: int, upto: int | None, counted: list[int]
) -> Iterator[Sequence[Turn]]:
    """Turns in order, cut where no call waits for its result."""
    held: list[Turn] = []
    waiting: set[str] = set()
    for turn in _all_turns(reader, stream, after, upto):
        if held and not waiting and turn.role is not Role.TOOL and len(held) >= PAGE_ROWS:
            yield held
            held = []
        held.append(turn)
        counted[0] += 1
        waiting |= {call.id for call in turn.calls}
        waiting.discard(turn.call or "")
        if len(held) >= CHUNK_MAX_TURNS:
            yield held
            held, waiting = [], set()
    if held:
        yield held


def _all_turns(reader: Reader, stream: Stream, after: int, upto: int | None) -> Iterator[Turn]:
    while page := turns.turns(reader, stream, after=after, limit=PAGE_ROWS):
        for turn in page:
            if upto is not None and turn.seq > upto:
                return
            yield turn
        after = page[-1].seq


# -- outcomes --------------------------------------------------------------------------------------------------------------


def _labelled(reader: Reader, stream: Stream, since: int = 0) -> _Session:
    """A session with its outcome after an event: by its decisions that were closed, else by its runs."""
    closed = [outcome for seq, outcome in _closed(reader, stream) if seq > since]
    listed = [*_runs(reader, stream.name)]
    agents = sorted({record.agent for _, record in listed})
    states: Counter[str] = Counter()
    corrections: list[dict[str, Any]] = []
    disliked: set[str] = set()
    for member in (stream, *(run for run, _ in listed)):
        for effect in _effects(reader, member):
            states[effect.state.value] += 1
            if effect.state in TAKEN_BACK:
                corrections.append({"kind": effect.state.value, "event": effect.id, "tool": effect.tool})
                disliked |= {effect.call} if effect.call is not None else set()
        if member is not stream:
            corrections += _answers(reader, member)
    statuses = Counter(record.status.value for _, record in listed)
    outcome = {
        "label": _label(closed, statuses), "runs": dict(statuses), "effects": dict(states),
        "decisions": dict(Counter(closed)),
    }  # fmt: skip
    return _Session(
        stream=stream, label=outcome["label"], outcome=outcome, corrections=corrections, disliked=disliked,
        agent=agents[0] if agents else "agent",
    )  # fmt: skip


def _label(closed: Sequence[str], statuses: Counter[str]) -> str:
    if closed:
        return "worked" if closed[-1] == "worked" else "failed"
    if statuses[RunStatus.FAILED.value] or statuses[RunStatus.CANCELLED.value]:
        return "failed"
    ended = statuses and set(statuses) == {RunStatus.COMPLETED.value}
    return "worked" if ended else "unknown"


def _closed(reader: Reads, stream: Stream) -> list[tuple[int, str]]:
    """Numbers and outcomes of the decisions that were closed, oldest first."""
    outcomes, after = [], None
    while True:
        page = decisions.decisions(reader, stream, SessionDecisionFilters(limit=PAGE_ROWS, after=after))
        outcomes += [(decision.seq, decision.outcome) for decision in page if decision.outcome is not None]
        if page.next is None:
            return outcomes[::-1]
        after = page.next


def _runs(reader: Reads, session: str) -> Iterator[tuple[Stream, RunRecord]]:
    after = None
    while True:
        page = runs.runs_of_store(reader, RunFilters(session=session, limit=PAGE_ROWS, after=after))
        yield from page
        if page.next is None:
            return
        after = page.next


def _effects(reader: Reads, stream: Stream) -> Iterable[EffectRecord]:
    after: int | str = 0
    while True:
        page = ledger.effects(reader, stream, after=after, limit=PAGE_ROWS).whole()
        yield from page
        if page.next is None:
            return
        after = page.next


def _answers(reader: Reads, stream: Stream) -> list[dict[str, Any]]:
    """The answers of people in a run; none if retention took some."""
    try:
        records = waits.waits(reader, stream)
    except NotFound:
        return []
    met = [wait for wait in records if wait.kind in waits.PEOPLE and wait.state is WaitState.MET]
    return [
        {"kind": "answered", "event": wait.id, "answer": to_plain(wait.answer, "answer", from_store=True)}
        for wait in met
    ]

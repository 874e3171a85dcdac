"""Gathering: what of a session could be in its pack, the most important first in each section. One reading of one state.

Every list has a limit and stands on an index, so this costs what is shown, not what was ever said (P8). Callers: `making`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

from msgspec.structs import replace

from perdure.boot.checking import Carrier
from perdure.boot.items import MORE, Item, Section
from perdure.effects import ledger
from perdure.errors import Damaged, NewerSchema, NotFound
from perdure.log.change import Stream
from perdure.model.filters import (
    OwnMemoryFilters,
    RunFilters,
    SessionDecisionFilters,
    SessionFilters,
    SessionTaskFilters,
)
from perdure.model.instants import instant_us
from perdure.model.records.checks import ModelOffered
from perdure.model.records.conversation import Cover, Pending, SessionRecord, Turn
from perdure.model.records.decisions import DecisionRecord, DecisionStatus
from perdure.model.records.effects import EffectRecord
from perdure.model.records.memories import MemoryKind, MemoryRecord
from perdure.model.records.runs import RunRecord, RunStatus, WaitKind, WaitRecord, WaitState
from perdure.model.records.tasks import TaskRecord, TaskStatus
from perdure.model.values import encode
from perdure.planes.conversation import pending, sessions, summaries, turns
from perdure.planes.conversation.transcript import Exchange, as_text, pair
from perdure.planes.execution import decisions, runs, tasks, waits
from perdure.planes.memory import checks, memories, values
from perdure.planes.memory.checks import Thing
from perdure.planes.memory.scopes import read_from
from perdure.planes.reading.durations import store_now
from perdure.planes.reading.paging import Page
from perdure.planes.reading.snapshots import one_state
from perdure.stores.store import Reads

TASKS_MAX = 50
WHOLE_DECISIONS = 20  # recent ones that are shown with their reasons
DECISIONS_MAX = 50  # that are open, or standing
DAMAGED = "damaged"  # the kind of an item for what cannot be read
STANDING = "standing"  # the tag of decisions that are shown however old they are
CHECKS_MAX = 200
RUNS_MAX = 20
EFFECTS_MAX = 50
VALUES_MAX = 50
SUMMARIES_MAX = 3
OTHER_SESSIONS = 3  # of the same scopes, whose last summary is shown
RESULT_CHARS = 1_000  # of a tool's result: the fact stays, the rest can be fetched
OLD_RESULT_CHARS = 400  # of one from before the last question
BRIEF_CHARS = 60  # of a call, where there is little room
PEOPLE = (WaitKind.ASK, WaitKind.APPROVAL)
OF_MEMORY = {
    MemoryKind.RULE: Section.RULES,
    MemoryKind.FAILED_APPROACH: Section.LESSONS,
    MemoryKind.CORRECTION: Section.LESSONS,
    MemoryKind.LESSON: Section.LESSONS,
    MemoryKind.VOCABULARY: Section.WORDS,
    MemoryKind.MAP: Section.WORDS,
}

KINDS = (MemoryKind.RULE, *(kind for kind in MemoryKind if kind not in (MemoryKind.RULE, MemoryKind.DOCUMENT)))

T = TypeVar("T")
Known = tuple[Stream, MemoryRecord]
Shown: TypeAlias = Callable[[Section, Page[Any]], Page[Any]]  # a listing, whose damaged rows become items of a section


class GatherLimits(NamedTuple):
    """How much is looked at: of the last turns, of memories of each kind and scope (of rules all), of recent decisions."""

    turns: int
    memories: int
    decisions: int


class Gathered(NamedTuple):
    """The candidates for a pack. tail: newest first."""

    info: SessionRecord
    now: int
    items: list[Item]
    memories: list[Known]
    tail: list[Exchange]


@one_state
def gather(reads: Reads, stream: Stream, limits: GatherLimits, *, remembered: bool) -> Gathered:
    """The candidates for the pack of a session. remembered: also memories that are not rules."""
    now = store_now(reads)
    damaged: list[Item] = []
    part = partial(_readable, damaged, now)
    info = _info(reads, stream, part)
    (rests,) = part(Section.WORKSPACE, lambda: [Resting(reads, stream)]) or [Resting(reads, stream, read=False)]
    page = partial(_readable_rows, damaged, now)
    tail: list[Exchange] = []
    items = [
        *part(Section.PLAN, lambda: _plan(reads, stream, info, rests, page)),
        *part(Section.LOOPS, lambda: _loops(reads, stream, rests, page)),
        *part(Section.DECISIONS, lambda: _decisions(reads, stream, limits.decisions, rests, page)),
        *part(Section.WORKSPACE, lambda: _workspace(reads, stream, info, rests, page)),
    ]
    tail += part(Section.TAIL, lambda: _tail(reads, stream, limits.turns))
    items += part(Section.RECALLED, lambda: _summarised(reads, stream))
    items += part(Section.RECALLED, lambda: _of_others(reads, info) if remembered else ())
    memories_of_scopes = part(
        Section.RULES, lambda: _memories(reads, stream, limits.memories, page, now=now, remembered=remembered)
    )
    return Gathered(info, now, [*damaged, *items], memories_of_scopes, tail)


def _readable(damaged: list[Item], now: int, section: Section, part: Callable[[], Iterable[T]]) -> list[T]:
    """A part of a pack as far as it can be read; what ends it is an item in its place."""
    rows: list[T] = []
    try:
        rows.extend(part())  # the rows before it stay
    except (Damaged, NewerSchema) as error:
        damaged.append(_damaged(section, error.path, error.message, now))
    return rows


def _readable_rows(damaged: list[Item], now: int, section: Section, page: Page[T]) -> Page[T]:
    """A listing whose damaged rows are items in their section."""
    damaged += [_damaged(section, row.where, row.reason, now) for row in page.damaged]
    return page


def _damaged(section: Section, where: str, why: str, now: int) -> Item:
    what = "a rule" if section is Section.RULES else "something"
    text = (
        f"{what} stands here that cannot be read: {why}\nAsk the user before you rely on this part (`perdure verify`)."
    )
    return Item(section, DAMAGED, where, text, "perdure", now, whole=True)


def _info(reads: Reads, stream: Stream, part: Callable[..., list[Any]]) -> SessionRecord:
    """About the session; its goal and its pins only if they can be read."""
    goal = part(Section.PLAN, lambda: [sessions.get_goal(reads, stream)])
    pins = part(Section.WORKSPACE, lambda: [sessions.get_pins(reads, stream)])
    return sessions.with_header(reads, stream, goal[0] if goal else None, pins[0] if pins else None)


class Resting:
    """On what the values, decisions and tasks of a session rest: the newest are read at once, older ones when they are shown."""

    def __init__(self, reads: Reads, stream: Stream, *, read: bool = True) -> None:
        self._reads = reads
        self._stream = stream
        self._checks = checks.checks_of(reads, stream, CHECKS_MAX) if read else {}

    def on(self, thing: Thing, name: str | int, since_us: int, version: int = 0) -> Carrier | None:
        """The checks of one of them; None if it has none."""
        own_checks = self._checks.get((thing, str(name), version))
        if own_checks is None and len(self._checks) >= CHECKS_MAX:
            own_checks = checks.checks_on(self._reads, self._stream, thing, str(name), version)
        if not own_checks:
            return None
        return Carrier(self._stream, own_checks, since_us, int(name) if thing is Thing.TASK else 0)


# -- memories ------------------------------------------------------------------------------------------------


def _memories(reads: Reads, stream: Stream, most: int, page: Shown, *, now: int, remembered: bool) -> Iterator[Known]:
    places = read_from(reads, stream, None)
    for kind in KINDS if remembered else KINDS[:1]:
        for place in places:
            yield from ((place, record) for record in _of_kind(reads, place, kind, most, page) if holds_at(record, now))


def _of_kind(reads: Reads, place: Stream, kind: MemoryKind, most: int, page: Shown) -> Iterator[MemoryRecord]:
    """The newest of a kind; of rules all."""
    filters = OwnMemoryFilters(kind=kind, limit=most)
    section = OF_MEMORY.get(kind, Section.RECALLED)
    rows = page(section, memories.memories(reads, place, filters))
    yield from rows
    while kind is MemoryKind.RULE and rows.next is not None:
        rows = page(section, memories.memories(reads, place, replace(filters, after=rows.next)))
        yield from rows


def holds_at(record: MemoryRecord, now: int) -> bool:
    """Whether an instant lies in the time for which a memory says that it holds."""
    start, end = record.valid_from, record.valid_to
    return (start is None or instant_us(start, 0) <= now) and (end is None or now < instant_us(end, 0))


# -- plan ----------------------------------------------------------------------------------------------------


def _plan(reads: Reads, stream: Stream, info: SessionRecord, rests: Resting, page: Shown) -> Iterator[Item]:
    if info.goal:
        yield Item(Section.PLAN, "goal", info.name, info.goal, info.creator, instant_us(info.created_at, 0))
    ids: set[int] = set()
    doing, blocked, rest = (
        page(Section.PLAN, tasks.tasks(reads, stream, SessionTaskFilters(status=status, limit=TASKS_MAX)))
        for status in (TaskStatus.DOING, TaskStatus.BLOCKED, TaskStatus.TODO)
    )
    ready = tasks.ready(reads, stream, limit=TASKS_MAX)
    abandoned = [record for record in doing if record.abandoned]
    for group, status_text in ((abandoned, "its claimer is gone: free"), (doing, "being done"), (ready, "ready"),
                        (blocked, "blocked"), (rest, "waits for other tasks")):  # fmt: skip
        for record in group:
            if record.id not in ids:
                ids.add(record.id)
                yield _task(record, status_text, rests)


def _task(record: TaskRecord, status_text: str, rests: Resting) -> Item:
    noted = f"\nNote: {record.note}" if record.note else ""
    needs = f"; needs {', '.join(map(str, record.needs))}" if record.needs else ""
    at, changed = instant_us(record.at, 0), instant_us(record.changed_at, 0)
    return Item(
        section=Section.PLAN, kind="task", id=f"{record.session}/{record.id}", text=record.title + noted, by=record.actor,
        at=at, said=status_text + needs, rests=rests.on(Thing.TASK, record.id, changed), changed=changed,
    )  # fmt: skip


# -- open loops ----------------------------------------------------------------------------------------------


def _loops(reads: Reads, stream: Stream, rests: Resting, page: Shown) -> Iterator[Item]:
    loops = partial(page, Section.LOOPS)
    yield from _of_stream(reads, stream, loops)
    at_hand = [
        pair
        for status in (RunStatus.WAITING, RunStatus.PARKED, RunStatus.FAILED, RunStatus.RUNNING, RunStatus.READY)
        for pair in loops(runs.runs_of_store(reads, RunFilters(session=stream.name, status=status, limit=RUNS_MAX)))
    ]
    for of_run, record in at_hand:
        open_of_it = list(_of_stream(reads, of_run, loops))
        yield from open_of_it
        if record.status is not RunStatus.WAITING or not open_of_it:  # else they say for what it waits
            yield _run(record)
    yield from _pending(reads, stream)
    yield from (
        decision_item(decision, Section.LOOPS, rests)
        for decision in loops(
            decisions.decisions(reads, stream, SessionDecisionFilters(open=True, limit=DECISIONS_MAX))
        )
    )
    for of_run, _ in runs.runs_of_store(reads, RunFilters(session=stream.name, limit=RUNS_MAX)):
        answered = [ask for ask in waits.waits(reads, of_run) if ask.kind in PEOPLE and ask.state is WaitState.MET]
        yield from map(_ask, reversed(answered))


def _of_stream(reads: Reads, stream: Stream, loops: Callable[[Page[Any]], Page[Any]]) -> Iterator[Item]:
    yield from map(_effect, loops(ledger.effects(reads, stream, open_only=True, limit=EFFECTS_MAX)))
    yield from (_ask(ask) for ask in waits.waiting(reads, stream) if ask.kind in PEOPLE)


def _effect(record: EffectRecord) -> Item:
    wrong = f"\n{record.error}" if record.error else ""
    text = f"{record.tool} {encode(record.args).decode()}{wrong}"
    status_text = f"{record.state.replace('_', ' ')}, outcome unknown" if record.attempt else record.state.value
    at = instant_us(record.at, 0)
    return Item(section=Section.LOOPS, kind="effect", id=record.id, text=text, by=record.actor, at=at, said=status_text)


def _run(record: RunRecord) -> Item:
    why = "\n".join(str(part) for part in (record.error, record.reason, record.hint) if part)
    status_text = f"{record.status.value}{', its process is gone' if record.abandoned else ''}"
    text = f"agent {record.agent}" + (f"\n{why}" if why else "")
    return Item(
        section=Section.LOOPS,
        kind="run",
        id=f"run:{record.id}",
        text=text,
        by=record.creator,
        at=instant_us(record.created_at, 0),
        said=status_text,
    )


def _ask(record: WaitRecord) -> Item:
    text = record.question + (f"\nChoices: {', '.join(record.choices)}" if record.choices else "")
    if record.state is not WaitState.MET:
        return Item(
            section=Section.LOOPS,
            kind=record.kind.value,
            id=record.id,
            text=text,
            by=record.actor,
            at=instant_us(record.at, 0),
            said="not answered",
        )
    answer = record.answer if isinstance(record.answer, str) else encode(record.answer).decode()
    at = instant_us(record.met_at or record.at, 0)
    return Item(
        section=Section.LOOPS,
        kind=record.kind.value,
        id=record.id,
        text=f"{text}\nAnswer: {answer}",
        by=record.met_by or "",
        at=at,
        said="answered",
    )


def _pending(reads: Reads, stream: Stream) -> Iterator[Item]:
    try:
        open_turn = pending.pending(reads, stream)
    except NotFound:  # turns by which it is decided were pruned
        open_turn = None
    if open_turn is not None:
        yield _open_turn(stream, open_turn)


def _open_turn(stream: Stream, record: Pending) -> Item:
    turn = record.turn
    calls = "".join(f"\n{call.id} {call.tool} {encode(call.args).decode()}" for call in record.calls)
    status_text = "these calls have no result" if record.calls else "not answered yet"
    text = calls.strip() or as_text(turn.content) or "(empty)"
    return Item(
        section=Section.LOOPS,
        kind="turn",
        id=f"{stream.name}/{turn.seq}",
        text=text,
        by=turn.actor,
        at=instant_us(turn.at, 0),
        said=status_text,
    )


# -- decisions, workspace ------------------------------------------------------------------------------------


def _decisions(reads: Reads, stream: Stream, most: int, rests: Resting, page: Shown) -> Iterator[Item]:
    """By depth: the standing ones, then the recent ones, then older ones without their reasons."""
    filters = SessionDecisionFilters(open=False, limit=most)
    lasting = decisions.decisions(reads, stream, replace(filters, tag=STANDING, limit=DECISIONS_MAX))
    recent = page(Section.DECISIONS, decisions.decisions(reads, stream, filters))
    in_force = [decision for decision in recent if decision.status is not DecisionStatus.SUPERSEDED]
    for number, decision in enumerate({decision.seq: decision for decision in [*lasting, *in_force]}.values()):
        item = decision_item(decision, Section.DECISIONS, rests)
        yield item if number < len(lasting) + WHOLE_DECISIONS else item._replace(text=decision.text)


def found_decisions(reads: Reads, stream: Stream, seqs: Iterable[int]) -> Iterator[tuple[int, Item]]:
    """Older decisions in force that were found for a task, by number."""
    rests = Resting(reads, stream)
    for seq in seqs:
        try:
            decision = decisions.decision(reads, stream, seq)
        except NotFound:  # of a session that this one was forked from, and not restated
            continue
        if decision.status is DecisionStatus.CLOSED:
            item = decision_item(decision, Section.DECISIONS, rests)
            yield seq, item._replace(said=f"{item.said}; found for the task")


def decision_item(record: DecisionRecord, section: Section, rests: Resting) -> Item:
    """A decision with its reason and what came of it."""
    parts = (("Because", record.because), ("Then", record.then), ("Outcome", record.outcome), ("Note", record.note))
    text = "\n".join([record.text, *(f"{name}: {content}" for name, content in parts if content)])
    at, changed = instant_us(record.at, 0), instant_us(record.changed_at, 0)
    status_text = record.status.value + (f", {STANDING}" if STANDING in record.tags else "")
    return Item(
        section=section, kind="decision", id=f"{record.session}/{record.seq}", text=text, by=record.actor, at=at,
        said=status_text, rests=rests.on(Thing.DECISION, record.seq, changed), changed=changed,
    )  # fmt: skip


def _workspace(reads: Reads, stream: Stream, info: SessionRecord, rests: Resting, page: Shown) -> Iterator[Item]:
    if info.pins is not None:
        pinned = {"model": info.pins.model, "commit": info.pins.commit, "tools": info.pins.tools or None}
        text = "\n".join(f"{name}: {version}" for name, version in pinned.items() if version)
        if text:
            at = instant_us(info.last_at, 0)
            on = Carrier(stream, (ModelOffered(info.pins.model),), at) if info.pins.model else None
            yield Item(
                section=Section.WORKSPACE,
                kind="pins",
                id=info.name,
                text=text,
                by=info.creator,
                at=at,
                said="in force",
                rests=on,
            )
    for entry in page(Section.WORKSPACE, values.entries(reads, stream, limit=VALUES_MAX)):
        value = entry.value if isinstance(entry.value, str) else _as_json(entry.value)
        at, status_text = instant_us(entry.updated_at, 0), f"version {entry.version}"
        on = rests.on(Thing.VALUE, entry.name, at, entry.version)
        yield Item(
            section=Section.WORKSPACE,
            kind="value",
            id=f"{info.name}/{entry.name}",
            text=value,
            by=entry.actor,
            at=at,
            said=status_text,
            rests=on,
        )


def _as_json(value: Any) -> str:
    return encode(value).decode()


# -- the last turns ------------------------------------------------------------------------------------------


def _tail(reads: Reads, stream: Stream, turns_max: int) -> list[Exchange]:
    """The newest turns, each with the results of its calls, newest first."""
    return [entry for entry in pair(turns.turns(reads, stream, last=turns_max)) if isinstance(entry, Exchange)][::-1]


def _summarised(reads: Reads, stream: Stream) -> Iterator[Item]:
    """The newest summaries of what was before the last turns."""
    for cover in summaries.newest(reads, stream, SUMMARIES_MAX):
        yield Item(
            section=Section.RECALLED,
            kind="summary",
            id=f"{stream.name}/{cover.seq}",
            text=_summary(cover),
            by=cover.actor,
            at=instant_us(cover.at, 0),
            said=f"of turns {cover.first_seq} to {cover.last_seq}",
        )


def _summary(cover: Cover) -> str:
    return cover.text + (f"\nAlso named there: {', '.join(cover.keys)}" if cover.keys else "")


def _of_others(reads: Reads, info: SessionRecord) -> Iterator[Item]:
    """The last summary of each of the newest other sessions that read one of the same scopes."""
    names = {info.name}
    for label in info.labels:
        for other in sessions.sessions(reads, SessionFilters(label=label, limit=OTHER_SESSIONS + 1)):
            if other.name in names or len(names) > OTHER_SESSIONS or ":" not in label:
                continue
            names.add(other.name)
            row = sessions.find_session(reads, other.name)
            for cover in summaries.newest(reads, row[0], 1) if row else ():
                status_text = f"of turns {cover.first_seq} to {cover.last_seq} of another session"
                at = instant_us(cover.at, 0)
                yield Item(
                    section=Section.RECALLED,
                    kind="summary",
                    id=f"{other.name}/{cover.seq}",
                    text=_summary(cover),
                    by=cover.actor,
                    at=at,
                    said=status_text,
                )


def exchange_item(stream: Stream, exchange: Exchange, last_asked: int) -> Item:
    """A turn with its calls and their results, as one item. Results from before the last question are marked as old."""
    turn = exchange.turn
    return Item(
        section=Section.TAIL,
        kind="turn",
        id=f"{stream.name}/{turn.seq}",
        text=_exchanged(exchange, last_asked),
        by=turn.actor,
        at=instant_us(turn.at, 0),
        said=turn.role.value,
        brief=_brief(exchange) if exchange.answered else "",
    )


def _exchanged(exchange: Exchange, last_asked: int) -> str:
    """The text of a turn with its calls and their results."""
    content = as_text(exchange.turn.content)
    parts = [content] if content.strip() or not exchange.answered else []
    for call, result in exchange.answered:
        parts.append(f"[call {call.id}: {call.tool} {_short(_as_json(call.args), RESULT_CHARS)}]")
        result_text = f"\n{_short(as_text(result.content), _chars_of(result, last_asked))}" if result else ""
        parts.append(f"[{_result_said(result, last_asked)}]{result_text}")
    return "\n".join(parts).strip() or "(empty)"


def _brief(exchange: Exchange) -> str:
    """A turn with its calls, each on one line, without their results: where there is little room."""
    called = (
        f"[call {call.tool} {_short(_as_json(call.args), BRIEF_CHARS)}; result left out]"
        for call, _ in exchange.answered
    )
    return "\n".join(filter(str.strip, [as_text(exchange.turn.content), *called]))


def _chars_of(result: Turn, last_asked: int) -> int:
    return OLD_RESULT_CHARS if result.seq < last_asked else RESULT_CHARS


def _result_said(result: Turn | None, last_asked: int) -> str:
    if result is None:
        return "no result: its outcome is unknown; check before doing it again"
    failed = "error" if result.error else "result"
    return f"{failed} of {result.call}" + (", old: look again before relying on it" if result.seq < last_asked else "")


def _short(text: str, most: int) -> str:
    """The beginning and the end of a text: a log says at its end how it went."""
    if len(text) <= most + len(MORE):
        return text
    half = most // 2
    return f"{text[:half].rstrip()} […{len(text) - 2 * half}{MORE} {text[-half:].lstrip()}"

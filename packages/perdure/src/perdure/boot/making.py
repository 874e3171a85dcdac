"""Making a pack: gather, recall, look whether it all still holds, choose, keep the manifest. Blocking work.

The cost depends on what is shown, not on how much was ever said: every list has a limit, and earlier turns are looked for
within a bound of their own (`planes.memory.session_search`). Callers: the handles. Keeps P8, P15.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from itertools import zip_longest
from typing import Any, NamedTuple

from perdure.boot.checking import Looking, Outcomes, carrier_of, judged
from perdure.boot.gather import (
    OF_MEMORY,
    WHOLE_DECISIONS,
    Gathered,
    GatherLimits,
    Known,
    exchange_item,
    found_decisions,
    gather,
)
from perdure.boot.items import Item, Section
from perdure.boot.manifest import PackManifest, encode_manifest, read_manifest
from perdure.boot.pack import PROFILES, Made, Pack, PackRequest, build
from perdure.errors import Error, Invalid, ReadOnly, TimedOut
from perdure.log.change import Stream
from perdure.model.instants import instant_us
from perdure.model.limits import check_text
from perdure.model.records.checks import standing_of
from perdure.model.records.conversation import Role
from perdure.model.records.memories import MemoryKind, MemoryRecord, Validity
from perdure.model.tokens import estimate
from perdure.model.words import words
from perdure.planes.conversation import turns
from perdure.planes.conversation.transcript import Exchange
from perdure.planes.memory import boots, search
from perdure.planes.memory.session_search import best_in_session
from perdure.planes.memory.texts import parts_of
from perdure.planes.reading.snapshots import one_state
from perdure.stores.core import Core
from perdure.stores.store import Reads

TURNS_MAX = 200  # of the last turns, that are looked at
MEMORIES_MAX = 100  # of each kind in each scope; of rules there is no limit
DECISIONS_MAX = 200  # recent ones, beside those that are open, standing or found
RECALLED_MAX = 100  # memories
FOUND_MAX = 12  # earlier turns and decisions
BUDGET_MAX = 10_000_000
UNSAVED_SHOWN = 20
MEANT = 3  # words, that being the nearest in meaning stands for
LOOK_SECONDS = 1.0


Shared = tuple[Item, int]  # found for a task, and how many words it shares with it


class FoundForTask(NamedTuple):
    """The findings for a task: memories, and what was said and decided earlier, each ranked. words: those of the task."""

    memories: dict[str, int]
    turns: list[Shared]
    decisions: list[Shared]
    known: list[Known]
    notes: list[str]
    words: frozenset[str] = frozenset()


def asked_for(budget: object, max_chars: object, tokenizer: object, profile: object) -> PackRequest:
    """The pack that is asked for. Invalid with the path of what makes no sense."""
    if type(budget) is not int or not 0 < budget <= BUDGET_MAX:
        raise Invalid(f"expected a number of tokens from 1 to {BUDGET_MAX}, got {budget!r}"[:200], path="budget")
    if max_chars is not None and (type(max_chars) is not int or max_chars < 1):
        raise Invalid(f"expected a number of characters, got {max_chars!r}"[:200], path="max_chars")
    if not isinstance(profile, str) or profile not in PROFILES:
        raise Invalid(f"expected one of {', '.join(PROFILES)}; got {profile!r}"[:200], path="profile")
    if tokenizer is not None and not callable(tokenizer):
        hint = "a function from a text to its tokens or their number"
        raise Invalid(f"expected a function, got {type(tokenizer).__name__}", path="tokenizer", hint=hint)
    count = estimate if tokenizer is None else _counting(tokenizer)
    return PackRequest(budget, max_chars, count, profile, adds_up=tokenizer is None)


def _counting(tokenizer: Callable[[str], Any]) -> Callable[[str], int]:
    def count(text: str) -> int:
        try:
            answer = tokenizer(text)
            number = answer if isinstance(answer, int) else len(answer)
        except Error:
            raise
        except Exception as error:  # a user's function may raise anything
            raise Invalid(f"the tokenizer failed: {type(error).__name__}: {error}"[:500], path="tokenizer") from error
        if isinstance(number, bool) or number < 0:
            raise Invalid(f"the tokenizer gave {answer!r} for a text"[:200], path="tokenizer")
        return number

    return count


def boot(core: Core, tenant: int, stream: Stream, task: str | None, request: PackRequest, looking: Looking) -> Pack:
    """The pack of a session for a task. Its manifest is kept, unless the store can only be read."""
    sought = None if task is None else check_text(task, "task", search.QUERY_MAX_CHARS)
    remembered = request.profile != "without-memory"
    gathered = core.read(gather, stream, _limits(request.budget, sought), remembered=remembered, tenant=tenant)
    # A goal that was imported may hold what no query may.
    query = (sought or gathered.info.goal or "").replace("\0", " ")[: search.QUERY_MAX_CHARS].strip()
    findings = FoundForTask({}, [], [], [], [])
    if remembered and query:
        findings = _findings(core, tenant, stream, query, request, earlier=bool(sought))
    by_id = {_id(record): (of, record) for of, record in [*findings.known, *gathered.memories]}
    of_memories = {name: _memory(item, findings.words) for name, item in by_id.items()}
    recalled = [(of_memories.pop(name), shared) for name, shared in findings.memories.items()]
    answers = _answers(recalled, findings.turns, findings.decisions)
    items = _each_once([*answers, *gathered.items, *of_memories.values()])
    workspace = _workspace_now(gathered, looking.root)
    pack = build(
        _material(
            stream,
            gathered,
            [*workspace.items, *_with_outcomes(core, tenant, items, looking)],
            findings.notes,
            workspace,
        ),
        request,
    )
    used = [(by_id[item.id][0], by_id[item.id][1].seq) for item in pack.manifest.shown if item.id in by_id]
    with suppress(ReadOnly):
        core.write(boots.keep, stream, encode_manifest(pack.manifest), used, actor="", tenant=tenant)
    return pack


def _limits(budget: int, task: str | None) -> GatherLimits:
    """How much could be shown in a budget. For a task, decisions beyond the recent ones too: its words may not be theirs."""
    return GatherLimits(
        turns=min(TURNS_MAX, 10 + budget // 80),
        memories=min(MEMORIES_MAX, 10 + budget // 200),
        decisions=min(DECISIONS_MAX, 10 + budget // 80) if task else WHOLE_DECISIONS,
    )


def _each_once(items: list[Item]) -> list[Item]:
    """Each thing once in a section, where it comes first: a decision may be recent and found for the task as well."""
    once: dict[tuple[str, str, str], Item] = {}
    for item in items:
        once.setdefault((item.section, item.kind, item.id), item)
    return list(once.values())


def _answers(*ranked: list[Shared]) -> list[Item]:
    """The findings, those first that share most words with the task: scores of different rankings cannot be compared. Those
    that share more than half as many as the best are said to answer it.
    """
    rows = [pair for row in zip_longest(*ranked) for pair in row if pair is not None]
    most = max((shared for _, shared in rows), default=0)
    return [item._replace(found=2 * shared > most) for item, shared in sorted(rows, key=lambda pair: -pair[1])]


def manifests(reads: Reads, stream: Stream) -> list[PackManifest]:
    """The manifests of the last boots of a session, the newest first."""
    return [read_manifest(text) for _, text in boots.manifests(reads, stream)]


class Seen(NamedTuple):
    """The workspace as it is now: its commit, and what of it is worth an item."""

    commit: str
    items: list[Item]


def _workspace_now(gathered: Gathered, root: str | None) -> Seen:
    """Where the workspace is at, and what is in it that no commit has."""
    if root is None:
        return Seen("", [])
    from perdure.runtime import workspace  # noqa: PLC0415 - only who names a folder wants it looked at

    look = workspace.look(root, LOOK_SECONDS)
    name, now = gathered.info.name, gathered.now
    if not look.head:
        return Seen("", [])
    text = f"commit {look.head}" + (f"\nbranch {look.branch}" if look.branch else "")
    items = [Item(section=Section.WORKSPACE, kind="head", id=name, text=text, by="git", at=now, said="looked at now")]
    if look.count:
        paths = list(look.paths)[:UNSAVED_SHOWN]
        more = [f"… and {look.count - len(paths)} more"] if look.count > len(paths) else []
        words = f"{look.count} files that no commit has, looked at now"
        items.append(
            Item(
                section=Section.LOOPS,
                kind="unsaved",
                id=name,
                text="\n".join([*paths, *more]),
                by="git",
                at=now,
                said=words,
            )
        )
    return Seen(look.head, items)


def _material(stream: Stream, gathered: Gathered, items: list[Item], notes: list[str], workspace: Seen) -> Made:
    """The material of the pack."""
    info = gathered.info
    last_asked = next((exchange.turn.seq for exchange in gathered.tail if exchange.turn.role is Role.USER), 0)
    tail = {(item := exchange_item(stream, exchange, last_asked)).id: (item, exchange) for exchange in gathered.tail}
    commit = workspace.commit or ((info.pins.commit or "") if info.pins else "")
    exchanges = {name: exchange for name, (_, exchange) in tail.items()}
    at = instant_us(info.last_at, 0)
    all_items = [*items, *(item for item, _ in tail.values())]
    return Made(
        session=info.name, uid=stream.uid.hex(), seq=info.last_seq, at=at, now=gathered.now, commit=commit,
        items=all_items, tail=exchanges, notes=notes,
    )  # fmt: skip


def _findings(
    core: Core, tenant: int, stream: Stream, query: str, request: PackRequest, *, earlier: bool
) -> FoundForTask:
    """The answers to the task; earlier: also what was said and decided. A backlog of the index costs that, never the pack."""
    k = min(RECALLED_MAX, 10 + request.budget // 400)
    try:
        recalled = search.recall(core, tenant, stream, query, k=k, counted=False)
    except TimedOut:
        return FoundForTask({}, [], [], [], ["Nothing was recalled: the index is behind. Boot again."])
    notes = [] if recalled.complete else ["The last turns are not in the index: the store can only be read."]
    notes += [f"A memory that may answer cannot be read: {row.where}: {row.reason}" for row in recalled.damaged]
    # Rules keep their own order, whatever the task is: they are the beginning that a provider caches.
    fitting = [hit for hit in recalled if hit.memory.kind is not MemoryKind.RULE]
    memories = [(hit.stream, hit.memory) for hit in fitting]
    shared = {_id(hit.memory): len(hit.why.words) for hit in fitting}
    if fitting and fitting[0].why.vector is not None:  # it may be the best by its meaning
        shared[_id(fitting[0].memory)] = MEANT
    answers, decided = core.read(_earlier, stream, query, min(FOUND_MAX, k), tenant=tenant) if earlier else ([], [])
    return FoundForTask(shared, answers, decided, memories, notes, frozenset(words(query)))


@one_state
def _earlier(reads: Reads, stream: Stream, query: str, limit: int) -> tuple[list[Shared], list[Shared]]:
    """Turns and decisions that answer a query, whole."""
    answers: list[Shared] = []
    for seq, shared in best_in_session(reads, stream, query, limit).items():
        for turn in turns.turns_on(reads, stream, seq - 1, seq, 1):
            item = exchange_item(stream, Exchange(turn), 0)
            answers.append((item._replace(section=Section.RECALLED, said=f"{turn.role.value}, said earlier"), shared))
    decided = best_in_session(reads, stream, query, limit, "decision")
    return answers, [(item, decided[seq]) for seq, item in found_decisions(reads, stream, decided)]


def _id(record: MemoryRecord) -> str:
    return f"{record.scope}/{record.seq}"


def _part(record: MemoryRecord, sought: frozenset[str]) -> tuple[str, str]:
    """The text of a memory; of a long document the part that answers the task best, and which one that is."""
    parts = parts_of(record.text) if record.kind is MemoryKind.DOCUMENT else [record.text]
    if len(parts) == 1:
        return record.text, ""
    best = max(range(len(parts)), key=lambda i: (len(sought.intersection(words(parts[i]))), -i))
    return _from_match(parts[best], sought), f"part {best + 1} of {len(parts)}"


def _from_match(text: str, sought: frozenset[str]) -> str:
    """A text from the sentence on that first has a word of the task, so that a shortened form has it too."""
    start = 0
    for sentence in re.split(r"(?<=[.!?\n]) *", text):
        if sought.intersection(words(sentence)):
            break
        start = text.index(sentence, start) + len(sentence)
    else:
        start = 0
    return f"…{text[start:].lstrip()}" if start else text


def _memory(placed_memory: Known, sought: frozenset[str]) -> Item:
    """A memory as an item. sought: the words of the task."""
    of, record = placed_memory
    section = OF_MEMORY.get(record.kind, Section.RECALLED)
    rule = section is Section.RULES
    text, part = _part(record, sought)
    source = f"from {', '.join(record.sources)}"[:200] if record.sources else ""
    status_text = "; ".join(filter(None, ("" if rule else record.kind.value, part, source)))
    at = instant_us(record.confirmed_at or record.at, 0)
    rests = carrier_of(of, record) if record.checks else None
    kind = "rule" if rule else "memory"
    return Item(
        section=section, kind=kind, id=_id(record), text=text, by=record.actor, at=at, said=status_text, whole=rule,
        rests=rests,
    )  # fmt: skip


def _with_outcomes(core: Core, tenant: int, items: list[Item], looking: Looking) -> list[Item]:
    """The items, each with whether it still holds; what does not goes behind the rest, except for rules."""
    resting = [item for item in items if item.rests and (item.kind != "pins" or looking.models is not None)]
    outcomes = judged(core, tenant, [item.rests for item in resting if item.rests], looking)
    outcomes_by_id = {id(item): checked for item, checked in zip(resting, outcomes, strict=True)}
    firm: list[Item] = []
    stale: list[Item] = []
    for item in items:
        checked = outcomes_by_id.get(id(item), ())
        held = standing_of(checked)
        behind = held is Validity.STALE and item.section is not Section.RULES
        (stale if behind else firm).append(_with_outcome(item, held, checked) if checked else item)
    return [*firm, *stale]


def _with_outcome(item: Item, held: Validity, checked: Outcomes) -> Item:
    why = "; ".join(result.why for result in checked if result.why)
    says = f"{held.value}{f' ({why})'[:200] if why else ''}"
    return item._replace(said="; ".join(filter(None, (says, item.said))))

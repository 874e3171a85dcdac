"""Making a pack: recall, gather, look whether memories still hold, choose, write. Blocking work; callers: the handles."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from perdure.boot.checking import Looking, Outcomes, head_of, judged
from perdure.boot.gather import OF_MEMORY, Gathered, Known, exchange_item, gather
from perdure.boot.items import Item, Section
from perdure.boot.pack import PROFILES, Asked, Made, Pack, build
from perdure.errors import Error, Invalid, TimedOut
from perdure.log.change import Stream
from perdure.model.instants import instant_us
from perdure.model.limits import check_text
from perdure.model.records.checks import standing_of
from perdure.model.records.conversation import Role
from perdure.model.records.memories import MemoryKind, SearchKind, Validity
from perdure.model.tokens import estimate
from perdure.planes import turns
from perdure.planes.memory import search
from perdure.planes.transcript import Exchange
from perdure.stores.core import Core
from perdure.stores.store import Reads

TURNS_MAX = 200  # of the last turns, that are looked at
RECALLED_MAX = 100  # memories, and earlier turns
BUDGET_MAX = 10_000_000
FOUND_KINDS = (SearchKind.TURN.value,)


class Answers(NamedTuple):
    """The findings for a task: memories, and the numbers of turns."""

    memories: list[Known]
    turns: list[int]
    notes: list[str]


def asked_for(budget: object, max_chars: object, tokenizer: object, profile: object) -> Asked:
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
    return Asked(budget, max_chars, count, profile, adds_up=tokenizer is None)


def _counting(tokenizer: Callable[[str], Any]) -> Callable[[str], int]:
    def count(text: str) -> int:
        try:
            found = tokenizer(text)
            number = found if isinstance(found, int) else len(found)
        except Error:
            raise
        except Exception as error:  # a user's function may raise anything
            raise Invalid(f"the tokenizer failed: {type(error).__name__}: {error}"[:500], path="tokenizer") from error
        if isinstance(number, bool) or number < 0:
            raise Invalid(f"the tokenizer gave {found!r} for a text"[:200], path="tokenizer")
        return number

    return count


def boot(core: Core, tenant: int, stream: Stream, task: str | None, asked: Asked, looking: Looking) -> Pack:
    """The pack of a session for a task."""
    sought = None if task is None else check_text(task, "task", search.QUERY_MAX_CHARS)
    remembered = asked.profile != "without-memory"
    turns_max = min(TURNS_MAX, 10 + asked.budget // 40)
    gathered = core.read(gather, stream, turns_max, remembered=remembered, tenant=tenant)
    query = (sought or gathered.info.goal or "")[: search.QUERY_MAX_CHARS].strip()
    found = (
        _found(core, tenant, stream, query, asked, turns=bool(sought)) if remembered and query else Answers([], [], [])
    )
    remembered_items = _of_memories(core, tenant, [*found.memories, *gathered.memories], looking)
    earlier = core.read(_earlier, stream, found.turns, tenant=tenant)
    head = head_of(looking.root) if looking.root is not None else ("", "")
    return build(_made(stream, gathered, [*remembered_items, *earlier], found.notes, head), asked)


def _made(stream: Stream, gathered: Gathered, recalled: list[Item], notes: list[str], head: tuple[str, str]) -> Made:
    """The material of the pack. head: the commit and branch that the workspace is at now, if it was looked at."""
    info = gathered.info
    last_asked = next((each.turn.seq for each in gathered.tail if each.turn.role is Role.USER), 0)
    tail = {(item := exchange_item(stream, each, last_asked)).id: (item, each) for each in gathered.tail}
    commit, branch = head
    now = f"commit {commit}" + (f"\nbranch {branch}" if branch else "")
    looked = [Item(Section.WORKSPACE, "head", info.name, now, "git", gathered.now, "looked at now")] if commit else []
    items = [*looked, *gathered.items, *recalled, *(item for item, _ in tail.values())]
    commit = commit or ((info.pins.commit or "") if info.pins else "")
    exchanges = {name: each for name, (_, each) in tail.items()}
    at = instant_us(info.last_at, 0)
    return Made(info.name, stream.uid.hex(), info.last_seq, at, gathered.now, commit, items, exchanges, notes)


def _found(core: Core, tenant: int, stream: Stream, query: str, asked: Asked, *, turns: bool) -> Answers:
    """The answers to the task; turns: also what was said. A backlog of the index costs that, never the pack."""
    k = min(RECALLED_MAX, 10 + asked.budget // 100)
    try:
        recalled = search.recall(core, tenant, stream, query, k=k)
        said = search.search(core, tenant, query, kinds=FOUND_KINDS, session=stream.name, limit=k) if turns else []
    except TimedOut:
        return Answers([], [], ["Nothing was recalled: the index is behind. Boot again."])
    notes = [] if recalled.complete else ["The last turns are not in the index: the store can only be read."]
    # Rules keep their own order, whatever the task is: they are the beginning that a provider caches.
    memories = [(each.stream, each.memory) for each in recalled if each.memory.kind is not MemoryKind.RULE]
    return Answers(memories, [each.seq for each in said if each.stream_kind == "session"], notes)


def _of_memories(core: Core, tenant: int, found: list[Known], looking: Looking) -> list[Item]:
    """Memories as items, each once; what does not hold any more goes behind what may."""
    once = list({(stream.id, record.seq): (stream, record) for stream, record in reversed(found)}.values())[::-1]
    outcomes = judged(core, tenant, once, looking)
    items = [_memory(known, checked) for known, checked in zip(once, outcomes, strict=True)]
    return [*(item for item, stale in items if not stale), *(item for item, stale in items if stale)]


def _memory(known: Known, checked: Outcomes) -> tuple[Item, bool]:
    _, record = known
    section = OF_MEMORY.get(record.kind, Section.RECALLED)
    standing = standing_of(checked)
    why = "; ".join(each.why for each in checked if each.why)
    source = f"from {', '.join(record.sources)}"[:200] if record.sources else ""
    shown = f"{standing.value}{f' ({why})'[:200] if why else ''}" if record.checks else ""
    said = "; ".join(filter(None, (record.kind.value if section is not Section.RULES else "", shown, source)))
    at = instant_us(record.confirmed_at or record.at, 0)
    rule = section is Section.RULES
    item = Item(
        section,
        "rule" if rule else "memory",
        f"{record.scope}/{record.seq}",
        record.text,
        record.actor,
        at,
        said,
        whole=rule,
    )
    return item, standing is Validity.STALE and not rule


def _earlier(reads: Reads, stream: Stream, found: Iterable[int]) -> list[Item]:
    """Turns that were found, whole."""
    items: list[Item] = []
    for seq in found:
        for turn in turns.turns_on(reads, stream, seq - 1, seq, 1):
            item = exchange_item(stream, Exchange(turn), 0)
            items.append(item._replace(section=Section.RECALLED, said=f"{turn.role.value}, said earlier"))
    return items

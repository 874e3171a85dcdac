# Generated from handles/aio/memory.py by tools/unasync.py: edit that one.
"""Handles for memories: the verbs of sessions, scopes and stores, and the memory itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any

from perdure.handles.facts import CheckedFacts, HitFacts, MemoryFacts
from perdure.handles.later import checking, memories, search, stale, upkeep
from perdure.handles.sync.base import StoreHandle, StreamHandle
from perdure.handles.sync.made import changes, finds, lists, lists_all, makes, replaces
from perdure.log.change import Stream
from perdure.model.filters import MemoryFilters, OwnMemoryFilters, SearchFilters
from perdure.model.instants import Instant
from perdure.model.records.memories import Found, Indexed, MemoryRecord
from perdure.runtime.callers import Caller
from perdure.verbs import memory as verbs

if TYPE_CHECKING:
    from perdure.planes.memory.search import Results


class Memory(MemoryFacts, StreamHandle):
    """One memory, as it was last read. Each verb and `refresh` bring it up to date."""

    __slots__ = ("_record",)

    def __init__(self, caller: Caller, stream: Stream, pin: str, record: MemoryRecord) -> None:
        super().__init__(caller, stream, pin)
        self._record = record

    def refresh(self) -> Memory:
        """Read the memory again; returns itself."""
        self._record = self._read(memories.memory, self.seq)
        return self

    supersede = replaces(verbs.supersede)

    confirm = changes(verbs.confirm)

    forget = changes(verbs.forget)


class Hit(HitFacts[Memory]):
    """A memory that was recalled: its score, why it fits, and whether it still holds.

    Scores of one recall can be compared. `outcomes` has the outcome of each of its checks; `standing` sums them up.
    """

    __slots__ = ()


class Checked(CheckedFacts[Memory]):
    """A memory, value, decision or task that carries checks: whether it still holds, and the outcome of each check.

    name: its number in its session or scope, or the name of a value. memory: its handle, if it is a memory.
    """

    __slots__ = ()

    def __init__(self, caller: Caller, stood: stale.Stood) -> None:
        memory, stream = stood.thing.memory, stood.thing.carrier.stream
        super().__init__(stood, Memory(caller, stream, "", memory) if memory else None)


def _recall(
    caller: Caller, stream: Stream | None, query: str, asked: dict[str, Any], looking: checking.Looking
) -> Results[Hit]:
    caller.check_may_search()
    found = caller.work(partial(search.recall, caller.core, caller.tenant, stream, query, **asked))
    known = [checking.carrier_of(each.stream, each.memory) for each in found]
    judged = caller.work(checking.judged, caller.core, caller.tenant, known, looking)
    hits = [
        Hit(Memory(caller, each.stream, "", each.memory), each.score, each.why, outcomes)
        for each, outcomes in zip(found, judged, strict=True)
    ]
    return search.Results(hits, complete=found.complete, vectors=found.vectors, damaged=found.damaged)


class Memories(StreamHandle):
    """Verbs of a session or scope for memories."""

    __slots__ = ()

    remember = makes(verbs.remember, lambda: Memory)

    correct = makes(verbs.correct, lambda: Memory)

    rule_from = makes(verbs.rule_from, lambda: Memory)

    workflow_from = makes(verbs.workflow_from, lambda: Memory)

    memory = finds(verbs.memory, lambda: Memory)

    memories = lists(verbs.own_memories, OwnMemoryFilters, lambda: Memory)

    def recall(
        self,
        query: str,
        k: int = 10,
        *,
        kinds: Iterable[str] | None = None,
        scopes: Iterable[str] | None = None,
        at: Instant | None = None,
        tags: Iterable[str] = (),
        about: Iterable[str] = (),
        since: Instant | None = None,
        root: str | PathLike[str] | None = None,
        commands: Iterable[Sequence[str]] = (),
        urls: Iterable[str] = (),
        models: Iterable[str] | None = None,
    ) -> Results[Hit]:
        """Return the memories that answer a question best, at most `k`. The query is plain words; quotes and operators are
        text.

        It reads this session, the scopes that its labels name, and the scope `tenant`. Everything that was committed before is
        found. Returned memories are counted as used; besides that it writes only the index.
        scopes: read these scopes instead ("session": this session).
        at: memories that held at that instant, superseded ones included.
        tags, about: only memories that have all of these.

        Checks of the returned memories are run, for a second at most; the `standing` of each hit is holds, stale or unknown.
        root: the folder from which relative paths of checks start, instead of the folder of the writer.
        commands: the commands, as lists, that checks may run; no other is run.
        urls: the addresses below which checks may ask for pages.
        models: the models that are offered now.

        Raises Invalid (an empty query), NotFound (no such scope), TimedOut (a very large backlog is being indexed: call it
        again to continue), and Refused inside `atomic`.
        """
        asked = {"k": k, "kinds": kinds, "scopes": scopes, "at": at, "tags": tags, "about": about, "since": since}
        return _recall(self._caller, self._stream, query, asked, checking.looking_at(root, commands, urls, models))


class MemoriesAcross(StoreHandle):
    """Verbs of a store that ask across all memories, and across everything that was said, decided and done."""

    __slots__ = ()

    def recall(
        self,
        query: str,
        k: int = 10,
        *,
        kinds: Iterable[str] | None = None,
        at: Instant | None = None,
        tags: Iterable[str] = (),
        about: Iterable[str] = (),
        since: Instant | None = None,
        root: str | PathLike[str] | None = None,
        commands: Iterable[Sequence[str]] = (),
        urls: Iterable[str] = (),
        models: Iterable[str] | None = None,
    ) -> Results[Hit]:
        """Return the memories of all sessions and scopes of this tenant that answer a question best; see `session.recall`."""
        asked = {"k": k, "kinds": kinds, "at": at, "tags": tags, "about": about, "since": since}
        return _recall(self._caller, None, query, asked, checking.looking_at(root, commands, urls, models))

    def checked(
        self,
        *,
        root: str | PathLike[str] | None = None,
        commands: Iterable[Sequence[str]] = (),
        urls: Iterable[str] = (),
        models: Iterable[str] | None = None,
    ) -> list[Checked]:
        """Return everything of this tenant that carries checks, each with the outcomes of its checks now.

        Live memories come first, newest first, then values, decisions in force and unfinished tasks, and the tasks whose
        claimer has died. Looks through all of them, for ten seconds at most for the checks of each hundred. The arguments are
        as in `session.recall`.
        """
        looking = checking.looking_at(root, commands, urls, models, stale.PAGE_SECONDS)
        caller = self._caller
        found = caller.work(stale.checked, caller.core, caller.tenant, looking)
        return [Checked(caller, each) for each in found]

    def index(self, tell: Callable[[str, int, int], None] | None = None) -> Indexed:
        """Bring the index up to date, and the vectors if the store has an embedding, however long it takes.

        You need not call it: a search indexes everything since the last one, and embeds a few texts. It is for large backlogs,
        for another embedding, and for the background (`perdure index`). If it is stopped anywhere, the next call continues.
        tell: called with "events" or "vectors", how many are done, and of how many.

        Raises ReadOnly, and Unavailable or Invalid when the embedding fails; work that was done is kept.
        """
        self._caller.check_may_search()
        return self._caller.work(upkeep.bring_up_to_date, self._caller.core, self._caller.tenant, tell)

    def search(
        self,
        query: str,
        *,
        kinds: Iterable[str] | None = None,
        session: str | None = None,
        scopes: Iterable[str] | None = None,
        actor: str | None = None,
        tags: Iterable[str] = (),
        about: Iterable[str] = (),
        since: Instant | None = None,
        until: Instant | None = None,
        limit: int = 10,
    ) -> Results[Found]:
        """Return everything that was said, decided, done or remembered and shares words with a query, best first.

        kinds: of turn, summary, decision, task, effect, event, result (of calls, effects, steps and runs), memory.
        session: in this session and its runs.
        scopes: in these scopes, besides the session if one is named.
        tags, about: only things that have all of these. The labels of a task count as tags.

        Everything that was committed before is found; each result says why. Raises as `session.recall` does.
        """
        self._caller.check_may_search()
        asked = SearchFilters(
            kinds=kinds, session=session, scopes=scopes, actor=actor, tags=tags, about=about, since=since, until=until,
            limit=limit,
        )  # fmt: skip
        return self._caller.work(search.search, self._caller.core, self._caller.tenant, query, asked)

    memories = lists_all(verbs.all_memories, MemoryFilters, lambda: Memory)

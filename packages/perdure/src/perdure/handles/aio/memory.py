"""Handles for memories: the verbs of sessions, scopes and stores, and the memory itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any

from perdure.handles.aio.base import AsyncStoreHandle, AsyncStreamHandle
from perdure.handles.facts import CheckedFacts, HitFacts, MemoryFacts
from perdure.handles.filtered import filtered
from perdure.handles.later import checking, memories, search, stale, upkeep
from perdure.handles.later import memory_making as making
from perdure.log.change import Stream
from perdure.model.filters import MemoryFilters, OwnMemoryFilters, SearchFilters
from perdure.model.instants import Instant
from perdure.model.records.memories import Found, Indexed, MemoryRecord
from perdure.planes.reading.paging import Page
from perdure.runtime.callers import AsyncCaller

if TYPE_CHECKING:
    from perdure.planes.memory.search import Results


class AsyncMemory(MemoryFacts, AsyncStreamHandle):
    """One memory, as it was last read. Each verb and `refresh` bring it up to date."""

    __slots__ = ("_record",)

    def __init__(self, caller: AsyncCaller, stream: Stream, pin: str, record: MemoryRecord) -> None:
        super().__init__(caller, stream, pin)
        self._record = record

    async def refresh(self) -> AsyncMemory:
        """Read the memory again; returns itself."""
        self._record = await self._read(memories.memory, self.seq)
        return self

    async def supersede(
        self,
        text: str,
        *,
        because: str,
        key: str | None = None,
        kind: str | None = None,
        source: Iterable[object] = (),
        about: Iterable[str] | None = None,
        tags: Iterable[str] | None = None,
        confidence: float | None = None,
        valid_from: Instant | None = None,
        valid_to: Instant | None = None,
        checks: Iterable[object] = (),
    ) -> AsyncMemory:
        """Replace it by a new memory, which is returned. Each names the other. Atomic.

        The new memory holds from `valid_from` (default: now) on, and the old one until then. It has the kind, subjects and tags
        of the old one unless they are given. Raises Conflict if the old one is no longer live (`facts` says by which it was
        superseded). So a repetition after a crash is refused, or returns the same memory if it has the same `key`.
        """
        self._record, new = await self._write(
            memories.supersede, self.seq, text, because=because, key=key, kind=kind, source=source, about=about,
            tags=tags, confidence=confidence, valid_from=valid_from, valid_to=valid_to,
            checks=await self._caller.work(checking.observed, checks),
        )  # fmt: skip
        return AsyncMemory(self._caller, self._stream, self._pin, new)

    async def confirm(self, because: str | None = None, *, about: Iterable[str] = ()) -> AsyncMemory:
        """Record that it still holds, now; returns itself. Atomic. Raises Conflict if it is no longer live."""
        self._record = await self._write(memories.confirm, self.seq, because=because, about=about)
        return self

    async def forget(self, because: str, *, about: Iterable[str] = ()) -> AsyncMemory:
        """Hide it from recall and search; returns itself. Atomic; a second time it changes nothing.

        Its text stays in the log, which never changes; erasing is another verb. Raises Conflict if it was superseded.
        """
        self._record = await self._write(memories.forget, self.seq, because=because, about=about)
        return self


class AsyncHit(HitFacts[AsyncMemory]):
    """A memory that was recalled: its score, why it fits, and whether it still holds.

    Scores of one recall can be compared. `outcomes` has the outcome of each of its checks; `standing` sums them up.
    """

    __slots__ = ()


class AsyncChecked(CheckedFacts[AsyncMemory]):
    """A memory, value, decision or task that carries checks: whether it still holds, and the outcome of each check.

    name: its number in its session or scope, or the name of a value. memory: its handle, if it is a memory.
    """

    __slots__ = ()

    def __init__(self, caller: AsyncCaller, stood: stale.Stood) -> None:
        memory, stream = stood.thing.memory, stood.thing.carrier.stream
        super().__init__(stood, AsyncMemory(caller, stream, "", memory) if memory else None)


async def _recall(
    caller: AsyncCaller, stream: Stream | None, query: str, asked: dict[str, Any], looking: checking.Looking
) -> Results[AsyncHit]:
    caller.check_may_search()
    found = await caller.work(partial(search.recall, caller.core, caller.tenant, stream, query, **asked))
    known = [checking.carrier_of(each.stream, each.memory) for each in found]
    judged = await caller.work(checking.judged, caller.core, caller.tenant, known, looking)
    hits = [
        AsyncHit(AsyncMemory(caller, each.stream, "", each.memory), each.score, each.why, outcomes)
        for each, outcomes in zip(found, judged, strict=True)
    ]
    return search.Results(hits, complete=found.complete, vectors=found.vectors, damaged=found.damaged)


class AsyncMemories(AsyncStreamHandle):
    """Verbs of a session or scope for memories."""

    __slots__ = ()

    async def remember(
        self,
        text: str,
        *,
        kind: str = "fact",
        key: str | None = None,
        source: Iterable[object] = (),
        about: Iterable[str] = (),
        tags: Iterable[str] = (),
        confidence: float | None = None,
        valid_from: Instant | None = None,
        valid_to: Instant | None = None,
        checks: Iterable[object] = (),
    ) -> AsyncMemory:
        """Record knowledge that outlives this run. Atomic; with a `key`, a repetition returns the same memory.

        It lives in this session, or in this scope, where every session that is labelled with the scope's name reads it.
        `recall` finds it as soon as this returns; it waits for no index.
        kind: fact, preference, workflow, snippet, lesson, failed_approach, rule, correction, vocabulary, map or document.
        source: turns, decisions, events (anything with a `ref`), or texts: "file:Makefile", "commit:1a2b", "https://…".
        about: the subjects that it names.
        confidence: from 0 to 1.
        valid_from, valid_to: the time for which it holds.
        checks: conditions under which it holds (`perdure.FileHash`, `GitRef`, `Age` …), looked at whenever it is recalled.

        Raises KeyReused (the key stands for another text), Invalid, TooLarge or NotFound with the path; nothing is written
        then.
        """
        record = await self._write(
            memories.remember, text, kind=kind, key=key, source=source, about=about, tags=tags, confidence=confidence,
            valid_from=valid_from, valid_to=valid_to, checks=await self._caller.work(checking.observed, checks),
        )  # fmt: skip
        return AsyncMemory(self._caller, self._stream, self._pin, record)

    async def correct(
        self,
        text: str,
        *,
        rule: str,
        key: str | None = None,
        source: Iterable[object] = (),
        about: Iterable[str] = (),
        tags: Iterable[str] = (),
    ) -> AsyncMemory:
        """Record that somebody corrected the agent, and the rule that follows, in one commit; returns the rule.

        The rule's `refs` name the correction. With a `key`, a repetition returns the same two.
        """
        _, ruled = await self._write(making.correct, text, rule=rule, key=key, source=source, about=about, tags=tags)
        return AsyncMemory(self._caller, self._stream, self._pin, ruled)

    async def rule_from(self, decision: object, *, tags: Iterable[str] | None = None) -> AsyncMemory:
        """Make a rule of a decision, which becomes its source. Atomic; a repetition returns the same rule."""
        record = await self._write(making.rule_from, decision, tags=tags)
        return AsyncMemory(self._caller, self._stream, self._pin, record)

    async def workflow_from(self, run: object, *, text: str | None = None, tags: Iterable[str] = ()) -> AsyncMemory:
        """Make a workflow of a completed run: its steps and effects by name. Atomic; a repetition returns the same workflow.

        run: a run's handle, record or id. Raises Refused if it has not completed, NotFound if there is none.
        """
        record = await self._write(making.workflow_from, run, text=text, tags=tags)
        return AsyncMemory(self._caller, self._stream, self._pin, record)

    async def memory(self, seq: int) -> AsyncMemory:
        """Return the memory with this number. Raises NotFound."""
        record = await self._read(memories.memory, seq)
        return AsyncMemory(self._caller, self._stream, self._pin, record)

    @filtered(OwnMemoryFilters)
    async def memories(self, asked: OwnMemoryFilters) -> Page[AsyncMemory]:
        """Return the memories of this session or scope alone, newest first.

        status: "live", "superseded", "forgotten", or None for all. unread: only those that no recall has returned yet.
        """
        found = await self._read(memories.memories, asked)
        return found.each(lambda record: AsyncMemory(self._caller, self._stream, self._pin, record))

    async def recall(
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
    ) -> Results[AsyncHit]:
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
        return await _recall(
            self._caller, self._stream, query, asked, checking.looking_at(root, commands, urls, models)
        )


class AsyncMemoriesAcross(AsyncStoreHandle):
    """Verbs of a store that ask across all memories, and across everything that was said, decided and done."""

    __slots__ = ()

    async def recall(
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
    ) -> Results[AsyncHit]:
        """Return the memories of all sessions and scopes of this tenant that answer a question best; see `session.recall`."""
        asked = {"k": k, "kinds": kinds, "at": at, "tags": tags, "about": about, "since": since}
        return await _recall(self._caller, None, query, asked, checking.looking_at(root, commands, urls, models))

    async def checked(
        self,
        *,
        root: str | PathLike[str] | None = None,
        commands: Iterable[Sequence[str]] = (),
        urls: Iterable[str] = (),
        models: Iterable[str] | None = None,
    ) -> list[AsyncChecked]:
        """Return everything of this tenant that carries checks, each with the outcomes of its checks now.

        Live memories come first, newest first, then values, decisions in force and unfinished tasks, and the tasks whose
        claimer has died. Looks through all of them, for ten seconds at most for the checks of each hundred. The arguments are
        as in `session.recall`.
        """
        looking = checking.looking_at(root, commands, urls, models, stale.PAGE_SECONDS)
        caller = self._caller
        found = await caller.work(stale.checked, caller.core, caller.tenant, looking)
        return [AsyncChecked(caller, each) for each in found]

    async def index(self, tell: Callable[[str, int, int], None] | None = None) -> Indexed:
        """Bring the index up to date, and the vectors if the store has an embedding, however long it takes.

        You need not call it: a search indexes everything since the last one, and embeds a few texts. It is for large backlogs,
        for another embedding, and for the background (`perdure index`). If it is stopped anywhere, the next call continues.
        tell: called with "events" or "vectors", how many are done, and of how many.

        Raises ReadOnly, and Unavailable or Invalid when the embedding fails; work that was done is kept.
        """
        self._caller.check_may_search()
        return await self._caller.work(upkeep.bring_up_to_date, self._caller.core, self._caller.tenant, tell)

    async def search(
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
        return await self._caller.work(search.search, self._caller.core, self._caller.tenant, query, asked)

    @filtered(MemoryFilters)
    async def memories(self, asked: MemoryFilters) -> Page[AsyncMemory]:
        """Return the memories of all sessions and scopes of this tenant, newest first. The filters are those of
        `session.memories`.

        since, until: instants ("2026-01-31", a datetime) or ages ("7d"). The next page is `after=page.next`.
        """
        found = await self._caller.read(memories.memories_of_store, asked)
        return found.each(lambda each: AsyncMemory(self._caller, each[0], "", each[1]))

# Generated from handles/aio/retention.py by tools/unasync.py: edit that one.
"""Handles for retention: removing old state by rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perdure.errors import NotFound
from perdure.handles.later import collect, retain
from perdure.handles.sync.upkeep import Upkeep
from perdure.model.records.retention import Retained, RetainReport, Retention
from perdure.planes.conversation import sessions
from perdure.planes.reading.durations import Duration


class Retaining(Upkeep):
    """Verbs of a store for removing old state."""

    __slots__ = ()

    def retain(
        self,
        *rules: Retention,
        dry_run: bool = True,
        grace: Duration = "1h",
        progress: Callable[[int, int], None] | None = None,
    ) -> RetainReport:
        """Remove old state of this tenant by rule: checkpoints, covered turns, replaced values, emitted events, and what ended
        long ago.

        Blobs that nothing needs any more go too. Everything else reads back as before, in forks too. The emptied bodies are
        recorded, the chain stays, and `verify` lists it; a files store rewrites the lines that held the bodies. Atomic in pages
        of 500; safe beside writers and forks; after a crash, call it again.
        dry_run: the default; the report says what would go. Pass False to remove it.
        grace: as in `collect`.
        progress: called with (done, total) for streams.

        Raises Invalid for a rule or a grace that makes no sense, Damaged when a checkpoint cannot be read whole.
        """
        checked = retain.check_rules(rules)
        collect.check_grace(grace, self._caller.core.blobs)
        found = self._judged()
        if dry_run:
            return self._would_go(found, checked, grace, progress)
        streams = [self._let_go(each, checked, at, len(found), progress) for at, each in enumerate(found, 1)]
        collected = self.collect(grace, dry_run=False)
        left = self._caller.work(retain.purge, self._caller.core)
        gone = tuple(each for each in streams if each.checkpoints or each.turns or each.events or each.values)
        size = sum(each.bytes for each in gone) + collected.bytes
        return RetainReport(gone, collected.blobs, size, dry_run=False, lingering=left)

    def delete(self, session: str, *, dry_run: bool = True) -> RetainReport:
        """Remove what a session said, by retention's rules for it alone, and archive it. Only with `dry_run=False`.

        Its turns, checkpoints, emitted events and replaced values go, and the steps and checkpoints of its runs. Its row,
        tasks, decisions, values, artifacts and effects stay: they are the record of what was done. Nothing goes of a session
        that was forked or has an unfinished run. A copy that came by import gives its keys up, and so do its runs. After a
        crash, call it again.
        Raises NotFound if there is no session of this name, Conflict while it is open.
        """
        found = self._caller.read(sessions.find_session, session)
        if found is None:
            raise NotFound(f"there is no session {session!r}", path="session", hint="`perdure sessions` lists them")
        self._caller.read(sessions.check_over, found[0])
        rule = Retention(sessions=True, runs=True, checkpoints=1, values=1, emitted=0, session=session)
        report = self.retain(rule, dry_run=dry_run)
        if not dry_run:
            self._write(retain.put_away, found[0])
        return report

    def _judged(self) -> list[retain.Judged]:
        upto = self._caller.read(retain.last_stream)
        found: list[retain.Judged] = []
        while page := self._caller.read(retain.judged, found[-1].stream.id if found else 0, upto):
            found += page
        return found

    def _would_go(
        self,
        found: list[retain.Judged],
        rules: list[Retention],
        grace: Duration,
        progress: Callable[[int, int], None] | None,
    ) -> RetainReport:
        doomed: list[retain.PrunableParts] = []
        for at, each in enumerate(found, 1):
            doomed += [self._caller.read(retain.choose, each, rule) for rule in rules]
            if progress is not None:
                progress(at, len(found))
        doomed = [each for each in retain.united(doomed) if each]
        weighed = tuple([self._caller.read(retain.weigh, each) for each in doomed])
        blobs, size = self._caller.read(retain.freed, doomed)
        left = self.collect(grace)
        size += sum(each.bytes for each in weighed) + left.bytes
        lingering = self._caller.work(retain.lingering, self._caller.core)
        return RetainReport(weighed, blobs + left.blobs, size, dry_run=True, lingering=lingering)

    def _let_go(
        self,
        judged: retain.Judged,
        rules: Sequence[Retention],
        at: int,
        total: int,
        progress: Callable[[int, int], None] | None,
    ) -> Retained:
        """Take from one stream what the rules let go, all judged before any is applied, as the dry run does. Not in its name:
        whoever looks after a store does not attend a session.
        """
        gone: list[list[int]] = [[], [], [], []]  # as in `ways`
        size = 0
        for doomed in [self._caller.read(retain.choose, judged, rule) for rule in rules]:
            for sort, (verb, chosen) in enumerate(retain.ways(doomed)):
                for page in retain.pages_of(chosen):
                    taken = self._write(verb, doomed, page)
                    gone[sort] += taken.seqs
                    size += taken.bytes
        if progress is not None:
            progress(at, total)
        return retain.retained(judged.stream, gone, size)

"""Whether the database is still the one that this process knew, and has all that it had acknowledged.

Point-in-time recovery, or a failover to a standby that lacked commits, takes a PostgreSQL database back without a word, and
external calls since then would be made again. The server says of which history it is (system identifier and time line), and
`meta` keeps what it said. Each new connection is compared with that, and with the last event that this process saw committed.
Where a loss cannot be excluded the epoch is raised, as after a restore (docs/decisions/0038). A store that was put
back while no process ran is noticed by the mark that each one leaves outside (`rollback_guard`).

Callers: the core, when it is opened and for its readers, and the lane, before anything is written. Keeps P3, P4.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from perdure.stores import migrate, schema_upgrade
from perdure.stores.clocks import Epochs
from perdure.stores.migrate import SERVER, Q
from perdure.stores.rollback_guard import NotedEvent, RollbackGuard
from perdure.stores.tx import LOG

if TYPE_CHECKING:
    from perdure.stores.store import Engine, History, NewEvent, Reads

log = logging.getLogger("perdure.store")

NOTHING = (0, 0)  # no stream has this number


class Continuity(Epochs):
    """The knowledge of one open store about its database, and the epoch that it believes in. Threads may share it."""

    def __init__(
        self, engine: Engine, epoch: int, history: History | None, guard: RollbackGuard, *, keeps: bool
    ) -> None:
        super().__init__(epoch)
        self.last: NewEvent | None = (
            None  # the last event that was acknowledged here: the database must have it from here on
        )
        self._engine = engine
        self.guard = guard
        self._history = history
        self._keeps = keeps  # whether it may raise the epoch: not for who only reads
        self._mutex = threading.Lock()

    def look_ahead(self, reads: Reads) -> Callable[[], None]:
        """Look for the newest event, whoever made it. Gives the function that notes it, to be called after a commit that waited
        for all who must have it.
        """
        count = self.guard.count
        newest = [
            NotedEvent(self.epoch, bytes(uid), seq, bytes(digest)) for uid, seq, digest in reads.query(LOG.event_newest)
        ]

        def note() -> None:
            if newest and self.guard.count == count:  # else a newer one was noted meanwhile
                self.guard.note(newest[0])

        return note

    def begin(self, facts: Mapping[str, str]) -> None:
        """The store is being opened: this process knows only what the store says of itself."""
        history = self._history
        if history is None or history.recovers or not history.name or facts.get(SERVER) == history.name:
            return
        if self._keeps:
            self._continue(history, kept=True)
        else:
            log.warning("the database is of another history than it says: open it for writing to find out more")

    def met(self, connection: Any) -> None:
        """A new connection, to whatever server: is it the one that was known? Raises Fault, or what is wrong with the store."""
        history = self._engine.history_of(connection)
        if history is not None and self._keeps and history.name != self._known:
            self._compare(connection, history)

    def resumed(self, connection: Any) -> None:
        """`met`, for the connection that writes: what was acknowledged is looked for as well, on the same server too."""
        history = self._engine.history_of(connection)
        if history is not None and self._keeps and (self.last is not None or history.name != self._known):
            self._compare(connection, history)

    @property
    def _known(self) -> str:
        return "" if self._history is None else self._history.name

    def _compare(self, connection: Any, history: History) -> None:
        if history.recovers:  # a standby takes no writes, and has whatever its primary has sent
            return
        with self._mutex:
            last = self.last
            connection.tenants = () if last is None else (last.tenant,)
            epoch, server, digest = self._engine.look_back(
                connection, NOTHING if last is None else (last.stream, last.seq)
            )
            kept = last is None or digest == last.hash
            # As it was, or looked at by somebody who came before.
            if kept and history.name in ("", self._known, server):
                self.heard(migrate.number_in({"epoch": epoch or ""}, "epoch"))
                self._history = history
            else:
                self._continue(history, kept=kept)

    def _continue(self, history: History, *, kept: bool) -> None:
        """Continue from what is there. Of many processes that come at once, one raises the epoch; the others find it raised.

        kept: nothing is missing that this process knows of.
        """
        with schema_upgrade.changing(self._engine) as script:
            facts = migrate.facts_of(script)
            epoch, said = migrate.number_in(facts, "epoch"), facts.get(SERVER, "")
            done = said == history.name and (kept or epoch > self.epoch)
            if not done and not (kept and (not said or _is_lossless(self._history, history))):
                epoch = migrate.next_epoch(script, self.epoch)
            if history.name not in ("", said):
                script.query(Q.meta_put, name=SERVER, value=history.name)
        self._tell(history, facts, epoch)
        self.heard(epoch)
        self._history, self.last = history, None

    def _tell(self, history: History, facts: Mapping[str, str], epoch: int) -> None:
        about = {"server": history.name, "before": facts.get(SERVER, ""), "epoch": epoch}
        if epoch > migrate.number_in(facts, "epoch"):
            log.warning(
                "the database may have lost what was acknowledged: it was restored, or a standby took over. It is treated as"
                " restored: whatever was under way is in doubt",
                extra=about,
            )
        elif facts.get(SERVER) and facts.get(SERVER) != history.name:
            log.info("a standby took over that has all that was acknowledged here", extra=about)


def _is_lossless(before: History | None, now: History) -> bool:
    """Whether nothing that anybody was told can be missing: commits waited for a standby, and a standby it is that took over."""
    return before is not None and before.system == now.system and before.synchronous and now.followed

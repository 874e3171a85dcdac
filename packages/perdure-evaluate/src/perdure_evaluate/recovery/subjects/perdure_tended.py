"""Acts on a Perdure store by others than its agent: people answer, settle and mend; a colleague changes a note; somebody keeps a
backup and restores it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import perdure
from perdure_evaluate.recovery.interface import Away, Belief, Subject


class Tended(Subject):
    """A subject whose store has a URL. Its run and its session are named by the folder."""

    @property
    def url(self) -> str:
        """Where the store is."""
        return f"sqlite:///{self.place.folder}/agent.db"

    @property
    def key(self) -> str:
        """The name of the run and the session."""
        return self.place.folder.name

    def believe(self) -> Belief:
        """From the store alone."""
        try:
            with perdure.open(self.url, read_only=True) as store:
                return self._belief(store)
        except perdure.Unavailable as away:
            if not self.needs:
                raise
            raise Away(str(away)) from away

    def _belief(self, store: perdure.Store) -> Belief:
        for run in store.runs(session=self.key):
            done = {
                effect.record.args["name"]: effect.result for effect in run.effects() if effect.state == "committed"
            }
            return Belief(self._notes(store.session(self.key)), done, run.record.result, run.record.ended)
        return Belief()

    def _notes(self, session: perdure.Session, after: str | None = None) -> dict[str, Any]:
        page = session.entries(limit=1000, after=after)
        return {entry.name: entry.value for entry in page} | (self._notes(session, page.next) if page.next else {})

    def hand_in(self, store: perdure.Store) -> None:
        """Hand in the answers that people have given since."""
        for run in store.runs(session=self.key):
            for wait in run.waits():
                if wait.kind == "ask" and wait.detail in self.inbox:
                    store.answer(wait.id, self.inbox[wait.detail], by="person")
            for effect in run.effects(open=True):
                if effect.state == "in_doubt" and (answer := self.inbox.get(effect.record.args["name"])):
                    effect.settle(
                        perdure.Happened(answer["result"]) if answer["happened"] else perdure.Absent(), by="person"
                    )
            if run.status == "parked" and "mended" in self.inbox:
                run.resume()
            if run.status == "failed" and "mended" in self.inbox:
                run.retry()

    def amend(self, key: str, value: Any) -> None:
        """Set the value anew."""
        with perdure.open(self.url, actor="colleague") as store:
            store.session(self.key).set(key, value)

    def backup(self, target: Path) -> None:
        """`perdure backup`."""
        with perdure.open(self.url, actor="operator") as store:
            store.backup(target)

    def restore(self, source: Path) -> None:
        """`perdure restore`, where the lost one was."""
        for lost in self.place.folder.glob("agent.db*"):
            if lost.is_file():
                lost.unlink()
        perdure.restore(source, self.url)

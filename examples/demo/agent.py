"""The agent of the demo, on Perdure: a loop that asks its model and does what it says.

Its model's answers are steps, its acts on the outside world are effects of the ready-made tools. Nothing else is done about
crashes. Each way to settle doubt occurs: a probe that knows the file, the commit, the push, the marker of a command; a key
that the forge knows; a question to the forge; an approval that a person gives.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import perdure
from demo.order import DemoOrder, DemoPlace, read_order, tell
from demo.script import AGENT, BRANCH, MODEL, answer
from demo.strikes import Fate
from perdure_agents.ready.files import write_file
from perdure_agents.ready.git import git_commit, git_push
from perdure_agents.ready.http_tool import http_probe, http_tool
from perdure_agents.ready.shell import marker_folder, shell

QUESTION = "May this be merged?"


class LedgerHands:
    """The actions that the model may ask for, done through the ledger: the same calls as the agents on files have."""

    def __init__(self, run: perdure.Run, place: DemoPlace) -> None:
        self._run = run
        self._place = place
        self._pull = http_tool("open_pull", origin=place.forge)
        # The forge takes every comment that comes: it is asked whether it has this one.
        asked = http_probe(f"{place.forge}/comments/{{key}}", found=lambda body: {"body": body})
        self._comment = http_tool("comment", origin=place.forge, probe=asked, lands_within="500ms")
        self._merge = http_tool("merge", origin=place.forge)

    def by_name(self) -> dict[str, Callable[..., dict[str, Any]]]:
        """The calls that there are."""
        return {
            "test": self.test, "fix": self.fix, "note": self.note, "commit": self.commit, "push": self.push,
            "pull": self.pull, "comment": self.comment, "merge": self.merge,
        }  # fmt: skip

    def test(self) -> dict[str, Any]:
        """Run the tests, once; red is an answer, too."""
        place, command = self._place, [sys.executable, "-B", "-m", "unittest", "-q"]
        done = self._run.act(shell, command, cwd=place.work, ok=[0, 1], timeout=60, markers=f"{place.own}/markers")
        return {"green": done["exit"] == 0}

    def fix(self, path: str, content: str) -> dict[str, Any]:
        """Write a file."""
        return self._run.act(write_file, path, content, root=self._place.work)

    def note(self, path: str, entry: str) -> dict[str, Any]:
        """Add a line to a file: what was read is a step, so a second try does not add to what the first has added."""
        text = self._run.step(_read, f"{self._place.work}/{path}")
        return self._run.act(write_file, path, text + entry, root=self._place.work)

    def commit(self, message: str) -> dict[str, Any]:
        """Commit what was changed."""
        return self._run.act(git_commit, self._place.work, message, paths=["."])

    def push(self, sha: str) -> dict[str, Any]:
        """Push that commit."""
        return self._run.act(git_push, self._place.work, self._place.remote, BRANCH, sha)

    def pull(self, title: str, head: str) -> dict[str, Any]:
        """Open a pull request."""
        body = {"title": title, "head": head}
        return self._run.act(self._pull, "POST", f"{self._place.forge}/pulls", body=body)["body"]

    def comment(self, number: int, text: str) -> dict[str, Any]:
        """Comment on a pull request."""
        url = f"{self._place.forge}/pulls/{number}/comments"
        return self._run.act(self._comment, "POST", url, body={"text": text})["body"]

    def merge(self, number: int) -> dict[str, Any]:
        """Merge a pull request, if a person agrees to this very call."""
        return self._run.act(self._merge, "POST", f"{self._place.forge}/pulls/{number}/merge", approve=QUESTION)["body"]


def _read(path: str) -> str:
    return Path(path).read_text()


@perdure.agent(name=AGENT, pins={"model": MODEL})
def mend(run: perdure.Run, where: Mapping[str, str]) -> str:
    """Ask the model what to do, do it, and ask again."""
    done: list[dict[str, Any]] = []
    hands = LedgerHands(run, DemoPlace(**where)).by_name()
    while "call" in (said := run.model(_think, done)):
        LIFE.enter(said["call"], len(done))
        done = [*done, hands[said["call"]](**said["args"])]
    return said["text"]


def _think(done: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    tell(model=len(done))
    return answer(done)


class DemoLife:
    """The reports of this process about itself: they change nothing that the agent does."""

    def __init__(self) -> None:
        self._fate = Fate(None)
        self._recorded = self._begun = 0

    def begin(self, order: DemoOrder, effects: Sequence[perdure.Effect]) -> None:
        """From here on it may die. effects: what the lives before it did; each action is one."""
        self._fate = Fate(order.strike)
        self._recorded = sum(effect.settled for effect in effects)
        self._begun = len(effects)
        tell(resumed=self._recorded)

    def enter(self, action: str, number: int) -> None:
        """An action begins. A recorded action returns what it gave, and is not worth a word."""
        if number >= self._recorded:
            tell(do=action, number=number, open=number < self._begun)
            self._fate.enter(action)


LIFE = DemoLife()


def main() -> None:
    """Continue the run, to its end or until a person must be asked."""
    order = read_order()
    marker_folder(f"{order.place.own}/markers")
    where = {name: getattr(order.place, name) for name in DemoPlace.__struct_fields__}
    with perdure.open(order.store, actor="agent") as store:
        LIFE.begin(order, store.start(mend, where, key=order.key).effects())
        try:
            tell(result=store.drive(mend, where, key=order.key))
        except perdure.Waiting as waiting:
            tell(waiting=waiting.facts["asks"][0])


if __name__ == "__main__":
    main()

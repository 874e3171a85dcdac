"""An agent on a session file: the control.

It is what one writes first, and written fairly: it saves after every action, which is more often than most, and resumes from
what it saved. The file is rewritten whole, as `json.dump` does it; `fair` renames a new one into place instead. It asks the same
model and makes the same calls, with git and HTTP as they are; it reaches the same crash points at the places that correspond to
the ledger's.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from demo.order import DemoPlace, read_order, tell
from demo.script import BRANCH, MERGE, answer
from demo.strikes import Fate
from perdure.model.crash_points import reach

SECONDS = 30.0


class NaiveHands:
    """The actions that the model may ask for, done without a ledger."""

    def __init__(self, place: DemoPlace) -> None:
        self._place = place
        self._work = Path(place.work)

    def by_name(self) -> dict[str, Callable[..., dict[str, Any]]]:
        """The calls that there are."""
        return {
            "test": self.test, "fix": self.fix, "note": self.note, "commit": self.commit, "push": self.push,
            "pull": self.pull, "comment": self.comment, "merge": self.merge,
        }  # fmt: skip

    def test(self) -> dict[str, Any]:
        """Run the tests."""
        return {"green": self._run(sys.executable, "-B", "-m", "unittest", "-q").returncode == 0}

    def fix(self, path: str, content: str) -> dict[str, Any]:
        """Write a file."""
        (self._work / path).write_text(content)
        return {"path": path}

    def note(self, path: str, entry: str) -> dict[str, Any]:
        """Add a line to a file."""
        text = (self._work / path).read_text()
        (self._work / path).write_text(text + entry)
        return {"path": path}

    def commit(self, message: str) -> dict[str, Any]:
        """Commit what was changed. Git itself helps here: where nothing is left to commit, it says so."""
        self._run("git", "commit", "-q", "--all", "--message", message)
        return {"sha": self._run("git", "rev-parse", "HEAD").stdout.decode().strip()}

    def push(self, sha: str) -> dict[str, Any]:
        """Push that commit."""
        self._run("git", "push", "-q", self._place.remote, f"{sha}:refs/heads/{BRANCH}")
        return {"sha": sha}

    def pull(self, title: str, head: str) -> dict[str, Any]:
        """Open a pull request."""
        return self._post("pulls", {"title": title, "head": head})

    def comment(self, number: int, text: str) -> dict[str, Any]:
        """Comment on a pull request."""
        return self._post(f"pulls/{number}/comments", {"text": text})

    def merge(self, number: int) -> dict[str, Any]:
        """Merge a pull request."""
        return self._post(f"pulls/{number}/merge", {})

    def _run(self, *command: str) -> subprocess.CompletedProcess[bytes]:
        given: Any = {"cwd": self._work, "stdin": subprocess.DEVNULL, "capture_output": True, "timeout": SECONDS}
        return subprocess.run(command, check=False, **given)  # noqa: S603 - the script's own commands

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        url, data = f"{self._place.forge}/{path}", json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=SECONDS) as response:
            return json.load(response)


class SessionFile:
    """The actions done so far, in one JSON file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> list[dict[str, Any]]:
        """The state that was saved last. Nothing if there is no file, or if it is torn: then somebody would delete it and begin
        anew.
        """
        try:
            return json.loads(self.path.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return []

    def save(self, done: list[dict[str, Any]]) -> None:
        """Rewrite it. Opening it for writing has emptied it: between that and the last byte, nothing is there."""
        reach("effect.commit.before")
        with self.path.open("w") as file:
            reach("lane.before_commit")
            json.dump(done, file)
        reach("effect.commit.after")


def mend(place: DemoPlace, session: SessionFile, fate: Fate) -> str:
    """Ask the model what to do, do it, save it, and ask again."""
    done = session.load()
    tell(resumed=len(done))
    hands = NaiveHands(place).by_name()
    while "call" in (said := _think(done)):
        tell(do=said["call"], number=len(done), open=False)
        fate.enter(said["call"])
        _approve(said["call"])
        reach("effect.dispatch.before")
        reach("effect.call.before")
        result = hands[said["call"]](**said["args"])
        reach("effect.call.after")
        done.append(result)
        session.save(done)
    return said["text"]


def _think(done: list[dict[str, Any]]) -> dict[str, Any]:
    tell(model=len(done))
    return answer(done)


def _approve(action: str) -> None:
    """Ask the person at the keyboard, who answers in a line."""
    if action == MERGE:
        tell(ask=action)
        sys.stdin.readline()


def main() -> None:
    """Resume from the session file, and work to the end."""
    live(SessionFile)


def live(kept_in: type[SessionFile]) -> None:
    """One life of the agent, with its state in a file of this kind."""
    order = read_order()
    tell(result=mend(order.place, kept_in(Path(order.place.own, "session.json")), Fate(order.strike)))


if __name__ == "__main__":
    main()

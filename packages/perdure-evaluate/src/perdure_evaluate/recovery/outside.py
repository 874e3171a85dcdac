"""The other side: a witness that counts what arrives, and a git repository; and what each kind of effect lets one know.

`World` is the harness's view: it makes the place and counts afterwards. `Reached` is what a subject's process calls; the
boundaries `calling`, `sent` and `replied` are in here, so they are the same for every subject. Nothing is ever counted from a
subject's word.
"""

from __future__ import annotations

import enum
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from perdure.model import programs
from perdure.stores import git as asked_git
from perdure_testing import witness

MARK_CHARS = 12
GIT_SECONDS = 60
WORK_TREE = "work"  # in the folder of the other side
WHO = {"NAME": "agent", "EMAIL": "agent@example.org", "DATE": "2026-01-01T00:00:00Z"}


class Knowing(enum.StrEnum):
    """The knowledge that one can have about an effect after a crash in the middle of it."""

    KEYED = "keyed"  # the other side does it once for a key
    FOUND = "found"  # one can look whether it was done
    SAME = "same"  # twice is as good as once
    BLIND = "blind"  # none of these: only a person can find out


KINDS = {
    "refund": Knowing.KEYED,
    "pull": Knowing.KEYED,
    "ticket": Knowing.FOUND,
    "commit": Knowing.FOUND,
    "write": Knowing.SAME,
    "push": Knowing.SAME,
    "mail": Knowing.BLIND,
    "publish": Knowing.BLIND,
}


def mark(payload: Any) -> str:
    """A short digest of a JSON value: the same value, the same mark."""
    text = json.dumps(payload, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:MARK_CHARS]


def receipt(name: str, kind: str) -> dict[str, str]:
    """The answer of the other side: the same for the same name."""
    return {"id": f"{kind}-{mark(name)}"}


class Reached:
    """The other side, as one life of a subject reaches it. reach: called at every boundary with its name."""

    def __init__(self, port: int, case: str, folder: Path, reach: Callable[[str, str], None]) -> None:
        self._port = port
        self._case = case
        self._git = OutsideRepository(folder)
        self._reach = reach

    def send(self, name: str, kind: str, payload: Any, key: str = "") -> Any:
        """Do it; it has arrived when this returns, and maybe before."""
        self._reach(name, "calling")
        if kind in self._git.verbs:
            answer = self._git.verbs[kind](name, payload)
            self._reach(name, "sent")
        else:
            own = f"{self._case}/{key}" if key and KINDS[kind] is Knowing.KEYED else None
            what = f"{self._case}/{name}/{mark(payload)}"
            witness.tell(self._port, what, key=own, sent=lambda: self._reach(name, "sent"))
            answer = receipt(name, kind)
        self._reach(name, "replied")
        return answer

    def find(self, name: str, kind: str, payload: Any) -> Any:
        """Its result, if it was done; None if not."""
        if kind == "commit":
            return self._git.commit_of(name, payload)
        arrived = witness.count(self._port, f"{self._case}/{name}/{mark(payload)}")
        return receipt(name, kind) if arrived else None


class OutsideRepository:
    """A small git repository with a bare remote, in a folder of the other side."""

    def __init__(self, folder: Path) -> None:
        self._work = folder / WORK_TREE
        self._remote = folder / "remote.git"
        self.verbs: dict[str, Callable[[str, Any], Any]] = {
            "write": self._write,
            "commit": self._commit,
            "push": self._push,
        }

    @classmethod
    def make(cls, folder: Path) -> None:
        """Make both."""
        folder.mkdir(parents=True)
        for words in (["--bare", "remote.git"], [WORK_TREE]):
            git(folder, "init", "-q", "--template=", "-b", "main", *words)

    def arrivals(self) -> Counter[str]:
        """The arrivals in the remote: commits by their title, which is `name/mark`."""
        titles = git(self._remote, "log", "--format=%s", "main", ok=(0, 128))
        return Counter(titles.split())

    def committed(self, title: str, path: str) -> str | None:
        """The content of the pushed commit of that title at a path; None if there is none."""
        commits = git(self._remote, "log", "--format=%H", f"--grep=^{title}$", "main", ok=(0, 128))
        return git(self._remote, "show", f"{commits.split()[0]}:{path}") if commits else None

    def content(self, path: str) -> str | None:
        """The content of a file."""
        file = self._work / path
        return file.read_text() if file.exists() else None

    def pushed(self, path: str) -> str | None:
        """The content of a file of the remote."""
        return git(self._remote, "show", f"main:{path}", ok=(0, 128)) or None

    def commit_of(self, name: str, payload: Any) -> Any:
        """A commit, by its title."""
        return self.titled(f"{name}/{mark(payload)}")

    def titled(self, title: str) -> Any:
        """The newest commit whose title begins so."""
        commits = git(self._work, "log", "--format=%H", f"--grep=^{title}", ok=(0, 128))
        return {"id": commits.split()[0]} if commits else None

    def _write(self, name: str, payload: Any) -> Any:
        (self._work / payload["path"]).write_text(payload["content"])
        return receipt(name, "write")

    def _commit(self, name: str, payload: Any) -> Any:
        """Git itself helps: where nothing is left to commit, it says so."""
        (self._work / ".git" / "index.lock").unlink(missing_ok=True)  # left by a git that was killed
        git(self._work, "add", payload["path"])
        git(self._work, "commit", "-q", "-m", f"{name}/{mark(payload)}", ok=(0, 1))
        return {"id": git(self._work, "rev-parse", "HEAD").strip()}

    def _push(self, name: str, payload: Any) -> Any:
        git(self._work, "push", "-q", str(self._remote), f"{payload['sha']}:refs/heads/main")
        return receipt(name, "push")


def git(folder: Path, *words: str, ok: tuple[int, ...] = (0,)) -> str:
    """The output of git, run in a folder, the same on every machine. OSError if it ends otherwise than `ok`."""
    identity = {f"GIT_{who}_{name}": value for who in ("AUTHOR", "COMMITTER") for name, value in WHO.items()}
    plain = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    ended = asked_git.work(
        folder, GIT_SECONDS, *words, most_bytes=asked_git.OUTPUT_MAX_BYTES, env={**identity, **plain}
    )
    if ended.exit not in ok:
        raise OSError(f"git {words[0]}: {str(ended.err)[:200]}")
    return bytes(ended.out).decode()


class OutsideWorld:
    """The other side of one case, as the harness sees it."""

    def __init__(self, observer: witness.Witness, case: str, folder: Path, *, git: bool) -> None:
        self._observer = observer
        self._case = case
        self._from = observer.path.stat().st_size
        self._git = OutsideRepository(folder) if git else None
        if git:
            OutsideRepository.make(folder)

    def arrivals(self) -> Counter[tuple[str, str]]:
        """The arrivals, by name and mark, and how often. Everything sent before is in it: the witness answers in turn."""
        witness.count(self._observer.port, "")
        with self._observer.path.open("rb") as file:
            file.seek(self._from)
            names = [json.loads(line)["what"] for line in file.read().splitlines()]
        mine = [what.removeprefix(f"{self._case}/") for what in names if what.startswith(f"{self._case}/")]
        counts = Counter(mine) + (self._git.arrivals() if self._git else Counter())
        return Counter({(name.rpartition("/")[0], name.rpartition("/")[2]): times for name, times in counts.items()})

    def result_of(self, name: str, kind: str) -> Any:
        """The result of an effect, as a person finds it; None if it did not happen. A commit has happened before it is pushed."""
        if self._git and kind == "commit":
            return self._git.titled(f"{name}/")
        return receipt(name, kind) if any(arrival == name for arrival, _ in self.arrivals()) else None

    def committed(self, title: str, path: str) -> str | None:
        """The content of a pushed commit at a path; None if there is no such commit."""
        return self._git.committed(title, path) if self._git else None

    def stands(self, kind: str, payload: Any) -> bool:
        """Whether an effect that leaves no trace of its own stands as it should: a file's content, a pushed branch."""
        if self._git is None:
            return False
        if kind == "write":
            return payload["content"] in (self._git.content(payload["path"]), self._git.pushed(payload["path"]))
        return bool(self._git.arrivals())


def needed() -> str:
    """The means that are missing for the tasks that use git; nothing, if all are there."""
    return "" if programs.find("git") else "git is not installed"

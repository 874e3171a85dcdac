"""A store from which something went, and what must hold of it whatever became of its log: for test_purge, and its programs."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import perdure
from perdure.model.records.retention import Retention
from perdure.runtime.callers import caller_of
from perdure.stores.core import open_core
from perdure_files.store.engine import FilesEngine
from perdure_files.store.journal import LineLog
from perdure_files.store.layout import Layout
from stores.files import rebuilt

RULE = Retention(checkpoints=1, turns=0)
ROUNDS = 12


def talked(url: str) -> None:
    with perdure.open(url, actor="me") as store:
        session = store.session("a")
        for n in range(ROUNDS):
            session.say("user", f"secret-question-{n:03} " + "x" * 200)
            session.say("assistant", f"secret-answer-{n:03} " + "y" * 200)
            session.checkpoint({"n": n, "note": f"saved-{n:03}"})
            session.set("round", n)
        turns = session.turns(after=0, limit=1000)
        session.summarise(upto=turns[-5].seq, text="what was said first")
        session.fork(name="f").say("user", "in the fork")


def retained(url: str, rule: Retention = RULE) -> list[str]:
    """Let go what may; returns the words that went."""
    with perdure.open(url, actor="me") as store:
        before = {turn.seq: turn.content for turn in store.session("a").turns(after=0, limit=1000)}
        report = store.retain(rule, dry_run=False)
        gone = {seq for each in report.streams if each.name == "a" for seq in each.turns}
        return [content.split()[0] for seq, content in before.items() if seq in gone]


def words_in(folder: Path, words: list[str]) -> set[str]:
    """Which of these words any file of the store still holds."""
    layout = Layout(folder)
    data = [layout.read(path) for number in layout.numbers() for path in layout.files(number)]
    data += [path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.suffix != ".zst"]
    return {word for word in words if any(word.encode() in each for each in data)}


def state(url: str) -> object:
    with perdure.open(url, actor="me") as store:
        sessions = [store.session(name) for name in ("a", "f")]
        said = [
            (each.transcript(), each.turns(after=0, limit=1000), each.restore(), each.entries()) for each in sessions
        ]
        return caller_of(store).core.epoch, repr([(*each[:3], [entry.value for entry in each[3]]) for each in said])


def check(url: str, folder: Path, expected: object) -> None:
    """The store is as it was, verified, and so is one that is made from its log alone."""
    assert state(url) == expected
    with perdure.open(url) as store:
        report = store.verify()
        assert report.ok, report.problems
    rebuilt.check(folder)


def torn(layout: Layout, path: Path, data: bytes) -> None:
    """The control's way to give a file its content: in its place, a half at a time."""
    from perdure.model.crash_points import reach

    path.write_bytes(data[: len(data) // 2])
    reach("files.written")
    path.write_bytes(data)


def copied(folder: Path, name: str) -> tuple[str, Path]:
    copy = shutil.copytree(folder, folder.with_name(name))
    return f"files:///{copy}", copy


if __name__ == "__main__":
    FilesEngine.journal = lambda engine: LineLog(engine.layout, int(sys.argv[2]))
    if sys.argv[3] == "torn":
        Layout.place = torn
    core = open_core(sys.argv[1])
    core.engine.purge()
    core.close()

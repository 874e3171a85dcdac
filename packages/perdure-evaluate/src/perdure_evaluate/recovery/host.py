"""A host: a process without threads that runs cases, one after the other, by forking lives.

Its first line is a `Setting`; then one line of JSON each way: a case, and what it showed. It ends when its standard input does,
and so does its witness.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import msgspec

from perdure_evaluate.recovery.faults import FAULTS
from perdure_evaluate.recovery.lives import Lives
from perdure_evaluate.recovery.score import Score, judge
from perdure_evaluate.recovery.story import Case, Ground, Story
from perdure_testing.witness import Witness

LATER = (
    "perdure.handles.opening", "perdure.handles.sync.store", "perdure.handles.sync.run", "perdure.runtime.shells",
    "perdure.artifacts.local", "perdure.artifacts.disk", "perdure.stores.sqlite", "perdure_files.store.engine",
    "perdure_files.store.purge", "perdure_files.store.page_digest", "perdure_files.views.gather",
    "perdure.planes.conversation.emitted", "concurrent.futures.thread", "encodings.idna",
    "perdure_evaluate.recovery.subjects.controls",
)  # fmt: skip
ON_A_SERVER = ("perdure.stores.postgres", "perdure_evaluate.recovery.subjects.perdure_postgres")


class Setting(msgspec.Struct, frozen=True):
    """Where a host works. postgres: the URL of the server that was started for the evaluation, if any; modules: what a peer's
    lives need, in whose interpreter this host then is.
    """

    seed: int
    folder: str
    postgres: str
    modules: tuple[str, ...] = ()


class ShownCase(msgspec.Struct, kw_only=True):
    """The result of a case. broken: why it could not be tried at all, which is the harness's failure and nobody else's."""

    case: Case
    score: Score
    note: str = ""
    lives: list[str] = []
    seconds: float = 0.0
    broken: str = ""


def show(ground: Ground, case: Case) -> ShownCase:
    """Run one case."""
    began = time.monotonic()
    story = None
    try:
        story = Story(ground, case)
        FAULTS[case.fault].tell(story, case.schedule)
        if story.final is None:
            story.finish()
        lives = [" ".join(filter(None, (life.end, life.at, life.said))) for life in story.lives]
        return ShownCase(case=case, score=judge(story), note=story.note, lives=lives, seconds=time.monotonic() - began)
    except Exception:  # noqa: BLE001 - told as the harness's own failure
        trace = traceback.format_exc()[-800:]
        return ShownCase(case=case, score=Score(), seconds=time.monotonic() - began, broken=trace)
    finally:
        if story is not None:
            story.clear()


def main() -> None:
    """Take cases until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the evaluation, which ends its hosts
    setting = msgspec.json.decode(sys.stdin.readline(), type=Setting)
    folder = Path(setting.folder)
    try:
        _keep_to(folder / "temporary")
        _serve(setting, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            folder.parent.rmdir()  # the last of them, if the evaluation was killed


def _keep_to(place: Path) -> None:
    """Files that killed lives leave in the temporary folder, the proof of their deaths above all, go with this host."""
    place.mkdir(parents=True, mode=0o700, exist_ok=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(place)


def _serve(setting: Setting, folder: Path) -> None:
    with Witness.start(folder / "witness") as witness:
        lives = Lives((*LATER, *(ON_A_SERVER if setting.postgres else ()), *setting.modules))
        ground = Ground(setting.seed, witness, lives, folder, setting.postgres)
        with ground.closing:
            for line in sys.stdin:
                outcome = show(ground, msgspec.json.decode(line, type=Case))
                os.write(1, msgspec.json.encode(outcome) + b"\n")


if __name__ == "__main__":
    main()

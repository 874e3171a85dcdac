"""Power loss after a kill: of what was written and not synced, some prefix is there, and the write after it is torn.

The first life is traced until it is killed, at a boundary or in the middle of a call, and the trace replayed (`file_replay`): for
each file what a sync has made durable, and the writes and cuts that came after its last sync, in order. A power loss keeps any
number of these and cuts the next one at any byte, for each file by itself. If replaying everything does not give the files that
are there, nothing is claimed about the case.
"""

from __future__ import annotations

import random
from pathlib import Path

from perdure_evaluate.recovery.faults import system_calls
from perdure_evaluate.recovery.faults.fault import Control, RecoveryFault
from perdure_evaluate.recovery.faults.file_replay import RECORDING, Files, Untold
from perdure_evaluate.recovery.interface import Subject
from perdure_evaluate.recovery.oracle import points_of
from perdure_evaluate.recovery.story import LIVES_MAX, Story
from perdure_evaluate.recovery.tasks import RecoveryTask

VARIANTS = 4


def _lost(story: Story, schedule: str) -> None:
    """Kill it, at a boundary or in the middle of a call, then leave of the unsynced writes what the variant says."""
    at, _, variant = schedule.rpartition("~")
    log = system_calls.kill_at(story, int(at[:-1]), *RECORDING) if at.endswith("‰") else recorded(story, at)
    cut = _cut(story, log.read_text(), random.Random(f"{story.ground.seed}/{schedule}"), int(variant))
    story.note = "; ".join(filter(None, (story.note, cut)))


def recorded(story: Story, at: str = "") -> Path:
    """Live under a trace until it is killed at this boundary, or to its end; returns where the trace is."""
    log = story.top / "trace"
    for _ in range(LIVES_MAX):
        child = story.ground.lives.hold(story.order(at=at))
        with system_calls.traced(child, "-o", str(log), "-A", *RECORDING):
            child.begin()
            life = story.add(child.wait())
        if life.end != "waiting":
            break
    return log


def _cut(story: Story, trace: str, rng: random.Random, variant: int) -> str:
    """Put every file into a state that a power loss may leave. Variant 0: nothing that was not synced is there."""
    files = Files(story.folder)
    files.replay(trace)
    check(files)
    notes: list[str] = []
    for path, file in files.files.items():
        if file.pending:
            count = 0 if variant == 0 else rng.randrange(len(file.pending))
            data = file.pending[count].data or b""
            cut = rng.randrange(len(data)) if variant and data else 0
            Path(path).write_bytes(file.content(count, cut))
            notes.append(
                f"{Path(path).name}: {count} of {len(file.pending)} unsynced operations, {cut} bytes of the next"
            )
    return "; ".join(notes) or "nothing was unsynced"


def check(files: Files) -> None:
    """The trace explains every file that is there. Raises Untold if it does not."""
    for path, file in files.files.items():
        if path not in files.mapped and Path(path).read_bytes() != file.content(len(file.pending)):
            raise Untold(f"the trace does not explain {Path(path).name}")


def _variants(task: RecoveryTask, seed: int) -> list[str]:
    """At every boundary, and at as many moments in between."""
    moments = [*points_of(task.name, seed), *system_calls.shares(task, seed)]
    return [f"{moment}~{variant}" for moment in moments for variant in range(VARIANTS)]


def unfit(subject: type[Subject], task: RecoveryTask) -> str:
    """Whose writes cannot be seen, or are too many."""
    return "its files are a server's: server-power" if subject.needs else system_calls.unfit(subject, task)


POWER = RecoveryFault(
    name="power", about="power loss: what was not synced is gone, in part or torn", schedules=_variants, tell=_lost,
    control=Control("control-unsynced", "support", ("acknowledged_lost",)), missing=system_calls.missing, unfit=unfit,
)  # fmt: skip

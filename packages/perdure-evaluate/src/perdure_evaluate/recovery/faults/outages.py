"""Power-loss states, enumerated: one story is recorded, and every write of it is the one that a power loss tears.

For each write of the trace the power goes at the last moment at which nothing had synced it. Of that write some bytes are there;
of what was written to the same file later, nothing or everything; of the other files, all that was written or only what was
synced. Each such state is laid out and opened, and what the subject then believes is compared with what had been acknowledged by
that moment: the acknowledgements are in the same trace. The story is not finished: `power` does that for some. A schedule is one
part of all states.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from perdure_evaluate.recovery.faults import power, system_calls
from perdure_evaluate.recovery.faults.fault import Control, RecoveryFault
from perdure_evaluate.recovery.faults.file_replay import File, FileOp, Files, made_of
from perdure_evaluate.recovery.interface import Belief
from perdure_evaluate.recovery.lives import Ack
from perdure_evaluate.recovery.score import forgotten
from perdure_evaluate.recovery.story import Story
from perdure_evaluate.recovery.tasks import RecoveryTask

SECTOR = 512
PARTS = 128
TOLD = b'{"what": "ack"'


class Heard(Files):
    """The files of a trace, and the acknowledgements that were told in it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.acks: list[tuple[int, Ack]] = []

    def _write(self, args: str, count: int) -> None:
        super()._write(args, count)
        data = self.data_of(args)
        if data.startswith(TOLD) and count == len(data):
            message: dict[str, Any] = json.loads(data)
            self.acks.append((self.now, Ack(message["verb"], message["name"], message["value"], message["t"])))

    def acknowledged_before(self, when: int) -> dict[tuple[str, str], Any]:
        """The acknowledgements that others relied on before this call."""
        return {(ack.verb, ack.name): ack.value for at, ack in self.acks if at < when}


class OutageState(NamedTuple):
    """The power goes before call `when`. file: the one whose operation `number` is torn after `cut` bytes; later: whether what
    was written to it after that is there; others: whether the other files have what was not synced.
    """

    when: int
    file: File
    number: int
    cut: int
    later: bool
    others: bool

    def content(self, file: File) -> bytes:
        """The content of a file then."""
        done = file.done_before(self.when)
        if file is not self.file:
            return made_of(file.ops[: done if self.others else file.durable_before(self.when)])
        rest = file.ops[self.number + 1 : done] if self.later else []
        return made_of([*file.ops[: self.number], file.ops[self.number].torn(self.cut), *rest])

    def __str__(self) -> str:
        op = self.file.ops[self.number]
        what = f"{self.cut} of {len(op.data)} bytes" if op.data is not None else "nothing of a cut"
        later = "and later writes" if self.later else "and nothing later"
        return (
            f"operation {self.number} at {op.at}: {what} {later}; others {'as written' if self.others else 'as synced'}"
        )


def states_of(files: Files, seed: str) -> Iterator[OutageState]:
    """Every state, in the order of the files' operations."""
    chance = random.Random(seed)
    distinct = {id(file): (path, file) for _, names in files.names for path, file in names.items()}
    for path, file in distinct.values():
        if path not in files.mapped:
            for number, op in enumerate(file.ops):
                yield from _torn(files, file, number, _cuts(op, chance))


def _torn(files: Files, file: File, number: int, cuts: list[int]) -> Iterator[OutageState]:
    """One write that is torn, at the last moment at which it could be."""
    when = min(file.safe_at(number) or files.now + 1, _removal_of(files, file))
    present = files.named_before(when).values()
    if file not in present or file.done_before(when) <= number:
        return
    open_elsewhere = any(other.durable_before(when) < other.done_before(when) for other in present if other is not file)
    for later in (False, True)[: 1 + (file.done_before(when) > number + 1)]:
        for others in (False, True)[: 1 + open_elsewhere]:
            yield from (OutageState(when, file, number, cut, later, others) for cut in cuts)


def _removal_of(files: Files, file: File) -> int:
    """The call that removed it; else the end."""
    last = max(at for at, (_, names) in enumerate(files.names) if file in names.values())
    return files.names[last + 1][0] if last + 1 < len(files.names) else files.now + 1


def _cuts(op: FileOp, chance: random.Random) -> list[int]:
    """Where a write is torn: before its first byte, at every sector, and at one byte more."""
    if not op.data:
        return [0]
    return sorted({*range(0, len(op.data), SECTOR), chance.randrange(len(op.data))})


# -- the fault -------------------------------------------------------------------------------------------------------


def _enumerated(story: Story, schedule: str) -> None:
    """Record the story, then look at the states of this part, each once."""
    files = Heard(story.folder)
    files.replay(power.recorded(story).read_text())
    power.check(files)
    part = int(schedule.rpartition("-")[2]) - 1
    marks: set[tuple[str, int]] = set()
    for state in [*states_of(files, f"{story.ground.seed}/{story.case.task}")][part::PARTS]:
        due = files.acknowledged_before(state.when)
        mark = (_lay_out(files, state, story), len(due))
        if mark not in marks:
            marks.add(mark)
            _look(story, state, due)
    story.note = f"{story.states} states; {len(files.acks)} operations were acknowledged in {files.now} calls"


def _place(story: Story) -> Path:
    """Where a state is laid out: a folder of the same name."""
    return story.top / "state" / story.name


def _lay_out(files: Files, state: OutageState, story: Story) -> str:
    """Make the files of a state. Returns a digest of all of them."""
    place = _place(story)
    shutil.rmtree(place.parent, ignore_errors=True)
    place.mkdir(parents=True)
    digest = hashlib.sha256()
    for path, file in sorted(files.named_before(state.when).items()):
        target, content = place / Path(path).relative_to(story.folder), state.content(file)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        digest.update(f"{path} {len(content)} ".encode() + content)
    return digest.hexdigest()


def _look(story: Story, state: OutageState, due: dict[tuple[str, str], Any]) -> None:
    """Open it, and compare."""
    life = story.ground.lives.run(story.order(believing=True, folder=_place(story)))
    story.states += 1
    lost = sorted(forgotten(due, life.belief or Belief()))
    if lost:
        story.taken.append(f"{len(lost)} of {len(due)} acknowledged, such as {lost[0]}: {state}")


def _parts(task: RecoveryTask, seed: int) -> list[str]:
    del task, seed
    return [f"part-{number}" for number in range(1, PARTS + 1)]


OUTAGES = RecoveryFault(
    name="outages",
    about="every write of a story torn at every sector by a power loss; each state is opened",
    schedules=_parts,
    tell=_enumerated,
    control=Control("control-normal", "relay-5", ("acknowledged_lost",)),
    missing=system_calls.missing,
    unfit=power.unfit,
)

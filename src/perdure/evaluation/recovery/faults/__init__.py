"""What goes wrong: schedules by name. Each has a control, a subject that is known to be broken and must be caught by it."""

from __future__ import annotations

from perdure.evaluation.recovery.faults import changes, copies, disk, power, racing, strikes, tracing
from perdure.evaluation.recovery.faults.fault import Fault

FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        strikes.NONE,
        strikes.KILL,
        strikes.KILLS,
        racing.RACE,
        tracing.SYSCALL,
        power.POWER,
        disk.FULL,
        changes.PROGRAM,
        changes.WORKSPACE,
        changes.STALE,
        copies.BACKUP,
        copies.REWIND,
    )
}

"""Faults: schedules by name. Each has a control, a subject that is known to be broken and must be caught by it."""

from __future__ import annotations

from perdure_evaluate.recovery.faults import (
    changes,
    clocks,
    copies,
    disk,
    io_errors,
    outages,
    power,
    races,
    server_disks,
    servers,
    strikes,
    system_calls,
)
from perdure_evaluate.recovery.faults.fault import RecoveryFault

_ALL = (
    strikes.NONE,
    strikes.KILL,
    strikes.KILLS,
    races.RACE,
    races.STOP,
    system_calls.SYSCALL,
    io_errors.EIO,
    servers.RESTART,
    servers.REPLY,
    clocks.CLOCK,
    clocks.SKEW,
    power.POWER,
    outages.OUTAGES,
    disk.FULL,
    server_disks.POWER,
    server_disks.FULL,
    changes.PROGRAM,
    changes.WORKSPACE,
    changes.STALE,
    copies.BACKUP,
    copies.REWIND,
)
FAULTS: dict[str, RecoveryFault] = {fault.name: fault for fault in _ALL}

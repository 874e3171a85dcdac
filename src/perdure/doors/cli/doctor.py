"""`perdure doctor`: what state a store is in. The rules are in `stores/health.py`; this shows them."""

from __future__ import annotations

import sys

from perdure.doors.cli.options import Asked, command, whole
from perdure.doors.cli.output import note, say_json
from perdure.doors.cli.tables import Column, folded, say_table

COLUMNS = (
    Column("", lambda finding: finding.severity),
    Column("check", lambda finding: finding.check),
    folded("what", lambda finding: finding.says),
    folded("fix", lambda finding: finding.fix),
)


@command("doctor", "perdure doctor", "perdure doctor --store postgresql://me@host/db --json")
@whole
def doctor(asked: Asked) -> None:
    """Look at a store from outside and inside: library, settings, disk, structure, heads; and what it suffers from while it
    lives: writers that wait, growth, leases of the dead, runs that stand still. Says when it is outgrown.

    Changes nothing, locks nothing. Exits with 1 if something is wrong; warnings alone exit with 0. Whether anything was
    tampered with is for `perdure verify` to prove.
    """
    import perdure.planes.tables  # noqa: PLC0415, F401 - a log that has no cache yet is folded into these
    from perdure.stores import health  # noqa: PLC0415 - help must not load the stores

    asked.check_exists()
    found = health.examine(asked.store)
    if asked.as_json:
        say_json(
            {"store": found.store, "sound": found.sound, "outgrown": bool(found.outgrown), "findings": found.findings}
        )
    else:
        say_table(COLUMNS, found.findings)
        if found.outgrown:
            note(f"this store is outgrown: {found.outgrown[0].says}")
    sys.exit(0 if found.sound else 1)

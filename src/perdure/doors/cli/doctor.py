"""`perdure doctor`: what state a store is in. The rules are in `stores/health.py`; this shows them."""

from __future__ import annotations

import shlex
import sys

import click

from perdure.doors.cli.options import Asked, command, whole
from perdure.doors.cli.output import note, say_json
from perdure.doors.cli.tables import Column, folded, say_table, state
from perdure.model.records.memories import Validity

COLUMNS = (
    state("", lambda finding: finding.severity),
    Column("check", lambda finding: finding.check),
    folded("what", lambda finding: finding.says),
    folded("fix", lambda finding: finding.fix),
)


STALE_COLUMNS = (
    Column("scope", lambda checked: checked.memory.scope),
    Column("seq", lambda checked: checked.memory.seq),
    Column("standing", lambda checked: checked.standing),
    folded("memory", lambda checked: checked.memory.text),
    folded("why", lambda checked: "; ".join(each.why for each in checked.outcomes if each.why)),
)


@command(
    "doctor",
    "perdure doctor",
    "perdure doctor --store postgresql://me@host/db --json",
    "perdure doctor --stale",
    "perdure doctor --stale --root . --allow-command 'make -v'",
)
@click.option("--stale", is_flag=True, help="Memories whose checks say that they hold no longer, instead.")
@click.option(
    "--tenant",
    envvar="PERDURE_TENANT",
    show_envvar=True,
    default="default",
    metavar="NAME",
    help="With --stale: whose memories.",
)
@click.option("--root", metavar="DIR", help="With --stale: what relative paths of checks start from.")
@click.option(
    "--allow-command", "allowed", multiple=True, metavar="COMMAND", help="With --stale: one that checks may run."
)
@whole
def doctor(asked: Asked, *, stale: bool, tenant: str, root: str | None, allowed: tuple[str, ...]) -> None:
    """Examine a store: library, settings, disk, structure and heads, writers that wait, growth, leases of dead processes and
    stalled runs. Says when the store is outgrown.

    Changes nothing, locks nothing. Exits with 1 if something is wrong; warnings alone exit with 0. Whether anything was
    tampered with is for `perdure verify` to prove. With --stale: runs the checks of all memories, lists those that do not
    hold or cannot be told, and exits with 1 if one is stale.
    """
    if stale:
        sys.exit(_say_stale(asked, tenant, root, allowed))
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


def _say_stale(asked: Asked, tenant: str, root: str | None, allowed: tuple[str, ...]) -> int:
    with Asked(asked.store, tenant, as_json=asked.as_json).open() as store:
        checked = store.checked(root=root, commands=[shlex.split(each) for each in allowed])
    found = [each for each in checked if each.standing is not Validity.HOLDS]
    if asked.as_json:
        rows = [{"memory": each.memory.record, "standing": each.standing, "checks": each.outcomes} for each in found]
        say_json({"checked": len(checked), "items": rows})
    else:
        say_table(STALE_COLUMNS, found)
        note(f"{len(checked)} memories carry checks; {len(checked) - len(found)} hold")
    return 1 if any(each.standing is Validity.STALE for each in found) else 0

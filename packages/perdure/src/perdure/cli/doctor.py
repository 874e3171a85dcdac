"""`perdure doctor`: what state a store is in. The rules are in `upkeep/health.py`; this shows them."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perdure.cli.options import StoreOptions, command, whole
from perdure.cli.output import note, say_json
from perdure.cli.tables import Column, folded, say_table, state
from perdure.model.records.memories import Validity

if TYPE_CHECKING:
    from perdure.handles.sync.memory import Checked

COLUMNS = (
    state("", lambda finding: finding.severity),
    Column("check", lambda finding: finding.check),
    folded("what", lambda finding: finding.says),
    folded("fix", lambda finding: finding.fix),
)


STALE_COLUMNS = (
    Column("kind", lambda checked: checked.kind),
    Column("where", lambda checked: checked.scope),
    Column("name", lambda checked: checked.name),
    Column("standing", lambda checked: checked.standing),
    folded("what", lambda checked: checked.text),
    folded("why", lambda checked: "; ".join(each.why for each in checked.outcomes if each.why)),
)


HOST_COLUMNS = (
    Column("host", lambda finding: finding.host),
    *COLUMNS,
)


@command(
    "doctor",
    "perdure doctor",
    "perdure doctor --hosts",
    "perdure doctor --store postgresql://me@host/db --json",
    "perdure doctor --stale",
    "perdure doctor --stale --root . --allow-command 'make -v'",
)
@click.option("--stale", is_flag=True, help="Instead, list memories, values and plans whose checks no longer hold.")
@click.option(
    "--hosts",
    is_flag=True,
    help="Coding agents that were installed in this workspace, instead: connected, trusted, allowed.",
)
@click.option(
    "--tenant",
    envvar="PERDURE_TENANT",
    show_envvar=True,
    default="default",
    metavar="NAME",
    help="With --stale: whose.",
)
@click.option(
    "--root",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    help="With --stale: the folder from which relative paths of checks start.",
)
@click.option(
    "--allow-command", "allowed", multiple=True, metavar="COMMAND", help="With --stale: a command that checks may run."
)
@click.option(
    "--allow-url", "urls", multiple=True, metavar="URL", help="With --stale: an address below which checks may ask."
)
@click.option("--offered", "models", multiple=True, metavar="MODEL", help="With --stale: a model that is offered.")
@whole
def doctor(
    asked: StoreOptions, *, stale: bool, hosts: bool, tenant: str, root: str | None,
    allowed: tuple[str, ...], urls: tuple[str, ...],
    models: tuple[str, ...],
) -> None:  # fmt: skip
    """Examine a store: library, settings, disk, structure and heads, waiting writers, growth, leases of dead processes and
    stalled runs. Says when the store is outgrown.

    Changes nothing, locks nothing. Exits with 1 if something is wrong; warnings alone exit with 0. `perdure verify` proves
    whether anything was tampered with. With --stale: runs the checks of all memories, values, decisions and tasks, lists those
    that do not hold or cannot be told, and the tasks whose claimer is gone; exits with 1 if one is stale. With --hosts: looks
    at what `perdure install` wrote here.
    """
    if hosts:
        sys.exit(_say_hosts(asked, root))
    if stale:
        commands = [shlex.split(each) for each in allowed]
        with StoreOptions(asked.store, tenant, as_json=asked.as_json).open() as store:
            checked = store.checked(root=root, commands=commands, urls=urls, models=models or None)
        sys.exit(_say_stale(asked, checked))
    import perdure.planes.tables  # noqa: PLC0415, F401 - a log that has no cache yet is folded into these
    from perdure.upkeep import health  # noqa: PLC0415 - help must not load the stores

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


def _say_hosts(asked: StoreOptions, root: str | None) -> int:
    from perdure.model import siblings  # noqa: PLC0415 - help must not load this

    found = siblings.load("perdure.doctor", "hosts", "perdure-agents", "doctor --hosts")(Path(root or "."))
    if asked.as_json:
        say_json({"findings": [each._asdict() for each in found]})
    else:
        say_table(HOST_COLUMNS, found)
        if not found:
            note("no coding agent was installed here: perdure install --for claude-code")
    return 1 if any(each.severity == "error" for each in found) else 0


def _say_stale(asked: StoreOptions, checked: list[Checked]) -> int:
    found = [each for each in checked if each.standing is not Validity.HOLDS]
    if asked.as_json:
        rows = [
            {
                "kind": each.kind, "where": each.scope, "name": each.name, "text": each.text, "standing": each.standing,
                "checks": each.outcomes, "memory": each.memory.record if each.memory else None,
            }
            for each in found
        ]  # fmt: skip
        say_json({"checked": len(checked), "items": rows})
    else:
        say_table(STALE_COLUMNS, found)
        note(f"{len(checked)} carry checks; {len(checked) - len(found)} hold")
    return 1 if any(each.standing is Validity.STALE for each in found) else 0

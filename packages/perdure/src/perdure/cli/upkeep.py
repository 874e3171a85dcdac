"""`perdure migrate`, `backup` and `restore`: a store over time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from perdure.cli.anchors import anchored, keys_read, read_anchored
from perdure.cli.options import StoreOptions, command, json_option, log_options, store_option, whole
from perdure.cli.output import bytes_size, counted, note, say_facts, say_json
from perdure.cli.progress import progress
from perdure.cli.tables import Column, say_table

if TYPE_CHECKING:
    from perdure.model.records.integrity import WrittenBack
    from perdure.stores.store import Engine

STEPS = (Column("number", lambda step: step.number), Column("step", lambda step: step.name))


@command(
    "migrate",
    "perdure migrate --dry-run",
    "perdure migrate --store sqlite:///agent.db",
    "perdure migrate --roles --store postgresql://postgres@db/agents",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be applied.")
@click.option("--roles", is_flag=True, help="PostgreSQL: also make roles and wall tenants off by row-level security.")
@store_option
@json_option
@log_options
def migrate(*, store: str, dry_run: bool, roles: bool, as_json: bool) -> None:
    """Bring a store to the schema of this version. On SQLite a copy of the old file is kept beside it.

    Forward only, all of it or nothing. A store that a newer Perdure wrote is refused. --roles: perdure_owner has the tables,
    perdure_app is for servers and workers, perdure_keeper for upkeep; run it again after every migration.
    """
    import perdure.planes.tables  # noqa: PLC0415, F401 - a log that has no cache yet is folded into these
    from perdure.stores import core, schema_upgrade, url  # noqa: PLC0415 - help must not load the stores
    from perdure.stores.migrate import latest, migrations  # noqa: PLC0415

    StoreOptions(store, "", as_json=as_json).check_exists()
    engine = core.engine_for(url.parse(store))
    try:
        with schema_upgrade.told("store"):
            engine.prepare()  # of a files store: its cache may have to be made first
            steps = schema_upgrade.plan(engine) if dry_run else schema_upgrade.bring_up_to_date(engine)
            if roles and not dry_run:
                _raise_wall(engine)
    finally:
        engine.close()
    if as_json:
        done = [{"number": step.number, "name": step.name} for step in steps]
        say_json({"dry_run": dry_run, "steps": done})
        return
    if steps:
        say_table(STEPS, steps)
    applied = "would be applied" if dry_run else "applied"
    newest = f"schema {latest(migrations())} is the newest: nothing to do"
    note(f"{counted(len(steps), 'step')} {applied}" if steps else newest)


def _raise_wall(engine: Engine) -> None:
    engine.raise_wall()
    note(
        "tenants are walled off: give perdure_app and perdure_keeper a password (ALTER ROLE … PASSWORD), and connect so"
    )


@command("backup", "perdure backup agent-$(date +%F).bak", "perdure backup agent.bak --json")
@click.argument("path", type=click.Path(path_type=Path))
@whole
def backup(asked: StoreOptions, *, path: Path) -> None:
    """Write a consistent copy of the store to PATH while others write. Nothing is ever overwritten.

    SQLite: the whole database as of one moment, and PATH.blobs with the large blobs. PostgreSQL: a logical snapshot of one
    schema; no point in time between two backups, no roles, no settings of the server.
    """
    with asked.open_whole() as store, progress("backing up") as step:
        made = store.backup(path, progress=step)
    if asked.as_json:
        say_json(made)
        return
    facts = {"backup": made.path, "size": bytes_size(made.size), "large blobs": str(made.blobs)}
    say_facts({**facts, "store": made.store, "epoch": str(made.epoch), "schema": str(made.schema)})
    note(made.note)


@command(
    "restore",
    "perdure restore agent.bak --store sqlite:///restored.db",
    "perdure restore agent.bak --store 'postgresql://me@host/db?schema=restored' --json",
    "perdure restore --from-cache --dry-run --store files:///state",
)
@click.argument("source", type=click.Path(path_type=Path), required=False)
@click.option(
    "--from-cache", is_flag=True, help="Write back what the log of a files store lost and its cache still has."
)
@click.option("--dry-run", is_flag=True, help="With --from-cache: only say what would be written back.")
@anchored
@store_option
@json_option
@log_options
def restore(
    *,
    source: Path | None,
    from_cache: bool,
    dry_run: bool,
    anchor_file: Path | None,
    public_key: Path | None,
    store: str,
    as_json: bool,
) -> None:
    """Make a new store from backup SOURCE. It is verified before it becomes visible.

    An existing store is never touched. The store keeps its identity and gets the next epoch, so that older cursors are refused
    and open effects are settled rather than trusted.

    With --from-cache no backup is needed: a files store whose log lost lines gets back those that its cache still has.
    """
    from perdure.handles import restoring  # noqa: PLC0415 - help must not load the stores

    if from_cache == (source is not None):
        raise click.UsageError("name a backup, or --from-cache and the files store that it belongs to")
    if source is None:
        return _say_mended(restoring.from_cache(store, dry_run=dry_run), dry_run=dry_run, as_json=as_json)
    if dry_run:
        raise click.UsageError("--dry-run goes with --from-cache: restoring a backup touches no store that exists")
    anchor, key = read_anchored(anchor_file, public_key)
    with progress("restoring") as step, keys_read():
        made = restoring.restore(source, store, anchor=anchor, public_key=key, progress=step)
    if as_json:
        say_json(made)
        return None
    say_facts(
        {
            "store": made.store,
            "epoch": str(made.epoch),
            "schema": str(made.schema),
            "large blobs": str(made.blobs),
        }
    )
    note(f"restored and verified: {counted(made.report.counts.events, 'event')}")
    return None


def _say_mended(made: WrittenBack, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        say_json({"dry_run": dry_run, **msgspec.to_builtins(made)})
        return
    would = "would be written" if dry_run else "written"
    facts = {"events": str(made.events), "streams": str(made.streams), "segments": ", ".join(made.segments) or "none"}
    say_facts({**facts, "epoch": str(made.epoch)})
    note(f"{counted(made.events, 'event')} {would} back into the log from the cache")
    if made.behind:
        note(
            "the log had gone further than its cache: what came after is lost here, and the epoch rises as after a restore"
        )

"""`perdure merge`: two branches of a files store as one."""

from __future__ import annotations

import click

from perdure.cli.options import StoreOptions, actor_option, command, json_option, log_options, store_option
from perdure.cli.output import counted, note, plain, say_json
from perdure.cli.tables import Column, say_table

FORKED = (
    Column("kind", lambda fork: fork.kind),
    Column("theirs", lambda fork: fork.name),
    Column("is now", lambda fork: fork.now),
    Column("parted after", lambda fork: fork.parted_after),
    Column("events", lambda fork: fork.events),
)


@command(
    "merge",
    "git merge other || perdure merge --store files:///state && git add state && git commit",
    "perdure merge other-branch --store files:///state",
    "perdure merge ../clone/state --name ann --store files:///state",
)
@click.argument("theirs", required=False)
@click.option("--name", default="", help="Name for their side. Default: the branch, ref or folder.")
@store_option
@actor_option
@json_option
@log_options
def merge(*, theirs: str | None, name: str, store: str, actor: str, as_json: bool) -> None:
    """Merge another branch or clone into this files store. THEIRS is a folder or a git ref.

    Without THEIRS: the conflict that `git merge` left in the log. Streams that only they wrote are taken over as they are. A
    session that both changed keeps ours; theirs stands beside it as NAME@BRANCH, and `perdure diff NAME NAME@BRANCH` compares
    them. A run is never doubled. Repeating the merge adds nothing. A store with another origin is refused: `perdure export` and
    `import` bring its sessions, as copies.
    """
    from perdure_files.merge import merge as merged  # noqa: PLC0415 - help must not load the stores

    StoreOptions(store, "", as_json=as_json).check_exists()
    done = merged(store, theirs, name, actor)
    if as_json:
        say_json(plain(done))
        return
    if done.forked:
        say_table(FORKED, done.forked)
    for what, why in done.refused:
        note(f"left out: {what}: {why}")
    note(f"{counted(done.added, 'event')} of {done.branch} came over as they were; the epoch is {done.epoch}")

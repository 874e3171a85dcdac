"""`perdure boot`: what a fresh context window needs to continue a session, in a budget."""

from __future__ import annotations

import difflib
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.finding import existing_session
from perdure.cli.memory import searchable
from perdure.cli.names import argument, session_names
from perdure.cli.options import StoreOptions, command, writes
from perdure.cli.output import note, say_facts, say_json
from perdure.cli.tables import Column, folded, prose, say_table
from perdure.errors import NotFound

if TYPE_CHECKING:
    from perdure.boot.manifest import PackManifest
    from perdure.boot.pack import Pack
    from perdure.handles.sync.store import Store

PROFILES = ("full", "small", "without-memory")
FORMATS = ("text", "agents-md", "openai", "anthropic")
SHOWN_COLUMNS = (
    Column("section", lambda shown: shown.section),
    Column("kind", lambda shown: shown.kind),
    folded("id", lambda shown: shown.id),
    Column("tokens", lambda shown: shown.tokens),
    Column("chars", lambda shown: shown.chars),
    Column("shortened", lambda shown: "yes" if shown.shortened else ""),
    prose("why", lambda shown: shown.said or WHY[shown.section]),
)
CHANGED_COLUMNS = (
    Column("how", lambda changed: changed.how),
    Column("section", lambda changed: changed.section),
    Column("kind", lambda changed: changed.kind),
    folded("id", lambda changed: changed.id),
    prose("now", lambda changed: changed.now),
    prose("then", lambda changed: changed.then),
)
WHY = {
    "rules": "always shown, whole",
    "plan": "the goal, or an unfinished task",
    "loops": "open, or answered lately",
    "decisions": "in force",
    "lessons": "a mistake not to repeat",
    "workspace": "a fact of the workspace",
    "tail": "one of the last turns",
    "recalled": "answers the task",
    "words": "a word or a place to know",
}


@command(
    "boot",
    "perdure boot issue-42 --budget 4000 --task 'fix the login test'",
    "perdure boot issue-42 --max-chars 10000",
    "perdure boot issue-42 --budget 16000 --part 2",
    "perdure boot issue-42 --explain",
    "perdure boot issue-42 --diff",
    "perdure boot issue-42 --format agents-md",
    "perdure boot issue-42 --check",
)
@argument("session", session_names, required=False)
@click.option("--budget", type=click.IntRange(1), default=4_000, show_default=True, metavar="N", help="Tokens at most.")
@click.option("--max-chars", type=click.IntRange(1), metavar="N", help="Characters at most.")
@click.option("--task", metavar="TEXT", help="The task: memories and turns are recalled for it.")
@click.option("--profile", type=click.Choice(PROFILES), default="full", show_default=True, help="Which sections.")
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="text", show_default=True, help="The form of the text."
)
@click.option("--part", type=click.IntRange(1), metavar="N", help="Only part N, of at most 10,000 characters.")
@click.option(
    "--explain", is_flag=True, help="List what is in it and why, what each part takes, and what was left out."
)
@click.option(
    "--diff", is_flag=True, help="List what came, went or changed since the last boot; exit with 1 if anything did."
)
@click.option(
    "--diff-text",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Show the difference to this text.",
)
@click.option("--check", is_flag=True, help="Whether the section in AGENTS.md is up to date; exits with 4 if not.")
@click.option(
    "--file",
    "path",
    type=click.Path(path_type=Path),
    default="AGENTS.md",
    show_default=True,
    help="The file with the section.",
)
@click.option("--force", is_flag=True, help="With agents-md: also write over a section that was edited by hand.")
@click.option(
    "--root",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    help="The workspace: its commit is shown, and relative paths of checks start there.",
)
@click.option("--allow-command", "allowed", multiple=True, metavar="COMMAND", help="A command that checks may run.")
@click.option("--allow-url", "urls", multiple=True, metavar="URL", help="An address below which checks may ask.")
@click.option(
    "--offered", "models", multiple=True, metavar="MODEL", help="A model that is offered; all others are not."
)
@writes
def boot(
    asked: StoreOptions, *, session: str | None, part: int | None, explain: bool, check: bool, form: str, path: Path, force: bool,
    diff: bool, diff_text: Path | None, allowed: tuple[str, ...], models: tuple[str, ...], **given: Any,
) -> None:  # fmt: skip
    """Print what is needed to continue SESSION (by default the newest one): rules, plan, open loops, decisions, lessons,
    workspace, the last turns, what is recalled, and what was left out. It never takes more than it may.

    With --format agents-md, a marked section in AGENTS.md is kept instead: a copy for hosts that read only that.
    """
    commands = [shlex.split(each) for each in allowed]
    asked.check_exists()
    with searchable(asked) as store:
        found = existing_session(store, session or _newest(store))
        then = found.boots()[:1] if diff else []
        pack = found.boot(commands=commands, models=models or None, **given)
    if check or form == "agents-md":
        _agents_md(asked, pack, path, check=check, force=force)
    elif form in ("openai", "anthropic"):
        messages = pack.messages(form)
        say_json({"system": messages.system, "messages": list(messages)})
    elif diff:
        _say_difference(asked, then, pack.manifest)
    elif asked.as_json:
        say_json({"text": _text(pack, part), "manifest": pack.manifest})
    elif explain:
        _explain(pack)
    elif diff_text is not None:
        lines = difflib.unified_diff(
            diff_text.read_text("utf-8").splitlines(), pack.text.splitlines(), str(diff_text), "now", lineterm=""
        )
        click.echo("\n".join(lines))
    else:
        click.echo(_text(pack, part), nl=False)


def _newest(store: Store) -> str:
    for header in store.sessions(limit=1):
        return header.name
    raise NotFound(
        "the store has no session yet",
        path="session",
        hint="`perdure say NAME TEXT --new` or store.session(name) makes one",
    )


def _text(pack: Pack, part: int | None) -> str:
    if part is None:
        return pack.text
    parts = pack.parts()
    if part > len(parts):
        raise NotFound(f"there are {len(parts)} parts", path="part", hint="leave --part out to print all of them")
    return parts[part - 1]


def _say_difference(asked: StoreOptions, then: list[PackManifest], now: PackManifest) -> None:
    from perdure.boot.manifest import difference  # noqa: PLC0415 - help must not load the stores

    if not then:
        raise NotFound(
            "this session was not booted before", path="diff", hint="the next boot can be compared with this one"
        )
    changed = difference(then[0], now)
    if asked.as_json:
        say_json({"from_event": then[0].seq, "to_event": now.seq, "items": changed})
    else:
        say_table(CHANGED_COLUMNS, changed)
        note(f"from event {then[0].seq} ({then[0].made_at}) to event {now.seq}: {len(changed)} differences")
    sys.exit(1 if changed else 0)


def _explain(pack: Pack) -> None:
    made = pack.manifest
    taken = {
        "session": made.session,
        "event": made.seq,
        "tokens": f"{made.tokens} of {made.budget}",
        "characters": made.chars,
    }
    say_facts(taken | {"parts": len(pack.parts())})
    say_table(SHOWN_COLUMNS, list(made.shown))
    for section, ids in made.left_out.items():
        note(f"{section}: {len(ids)} left out")
    for each in made.notes:
        note(each)


def _agents_md(asked: StoreOptions, pack: Pack, path: Path, *, check: bool, force: bool) -> None:
    from perdure.boot import agents_md  # noqa: PLC0415 - help must not load the stores

    if check:
        stood, says = agents_md.standing(agents_md.found_in(agents_md.read(path)), pack.manifest)
        if asked.as_json:
            say_json({"file": str(path), "standing": stood, "says": says})
        else:
            click.echo(f"{path}: {says}")
        sys.exit(0 if stood is agents_md.SectionStanding.CURRENT else 4)
    stood = agents_md.keep(path, pack, force=force)
    if asked.as_json:
        say_json({"file": str(path), "stood": stood, "manifest": pack.manifest})
    else:
        note(f"{path}: the section is of event {pack.manifest.seq}; the one before was {stood.value}")

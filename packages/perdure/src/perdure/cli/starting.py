"""`perdure start`, `signal` and `recover`: runs that are begun, told something, and taken over from the dead, by hand."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.finding import find_run
from perdure.cli.names import argument, run_names, session_names
from perdure.cli.options import StoreOptions, command, subjects_option, writes
from perdure.cli.output import counted, note, say_facts, say_heading, say_json
from perdure.cli.tables import Column, prose, say_table, state
from perdure.cli.values import value_of
from perdure.errors import Invalid

if TYPE_CHECKING:
    from perdure.model.records.recovery import Recovered
    from perdure.runtime.agent import Agent

TAKEN = (
    Column("run", lambda run: run.id),
    Column("agent", lambda run: run.agent),
    state("status", lambda run: run.status),
    prose("why", lambda run: run.reason),
    prose("error", lambda run: run.error and f"{run.error.code}: {run.error.message}"),
)
EFFECTS = (
    Column("effect", lambda effect: effect.id),
    Column("tool", lambda effect: effect.tool),
    state("state", lambda effect: effect.state),
)


def _pairs(_ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]) -> dict[str, Any]:
    """--with NAME=VALUE"""
    pairs = [each.partition("=") for each in given]
    if any(not (name.isidentifier() and equals) for name, equals, _ in pairs):
        raise click.BadParameter("expected NAME=VALUE")
    if own := [name for name, _, _ in pairs if name in ("key", "session", "about")]:
        raise click.BadParameter(f"--{own[0]} says it: no agent has a parameter of that name")
    return {name: value_of(value, name) for name, _, value in pairs}


@command(
    "start",
    "perdure start app:fix 42 --key issue-42",
    "perdure start app:writer 'Write about tides' '[\"tides\", \"the moon\"]' --session issue-42 --json",
    "perdure start app:fix --with issue=42 --with dry=true",
)
@click.argument("target", metavar="MODULE:AGENT")
@click.argument("args", nargs=-1)
@click.option(
    "--with", "kwargs", multiple=True, metavar="NAME=VALUE", callback=_pairs, help="An argument by name; repeatable."
)
@click.option("--key", metavar="KEY", help="The same key and arguments again: the same run.")
@click.option("--session", metavar="NAME", help="The session that it works for.", shell_complete=session_names)
@click.option("--text", "as_text", is_flag=True, help="Read ARGS as text, even if they are JSON.")
@subjects_option
@writes
def start(
    asked: StoreOptions, *, target: str, args: tuple[str, ...], kwargs: dict[str, Any], key: str | None, session: str | None,
    as_text: bool, about: tuple[str, ...],
) -> None:  # fmt: skip
    """Begin a run of AGENT with ARGS, and leave it to the workers.

    MODULE is imported from this folder. Each of ARGS is read as JSON, or else as text (-: standard input).
    """
    agent = _agent(target)
    given = [value_of(each, f"args[{place}]", as_text=as_text) for place, each in enumerate(args)]
    with asked.open() as store:
        record = store.start(agent, *given, key=key, session=session, about=about, **kwargs).record
    if asked.as_json:
        say_json(record)
        return
    say_facts({"run": record.id, "agent": record.agent, "status": record.status, "key": record.key})
    module = target.partition(":")[0]
    note(f"`perdure worker {module}` drives it; `perdure tail run:{record.id}` follows it")


def _agent(target: str) -> Agent:
    from perdure.cli.agents import agents_at  # noqa: PLC0415 - help must be light

    found = agents_at(target)
    if len(found) > 1:
        names = ", ".join(found)
        raise Invalid(f"{target} has several agents: {names}", path="agents", hint="name one: MODULE:AGENT")
    return next(iter(found.values()))


@command(
    "signal",
    "perdure signal 4f1c2a9b77d0 deployed",
    "perdure signal 4f1c2a9b77d0 ci '{\"green\": true}' --key build-117 --actor alice --json",
)
@argument("run", run_names)
@click.argument("name")
@click.argument("payload", required=False, metavar="[JSON]")
@click.option("--key", metavar="KEY", help="Send it once for this key, however often this is called.")
@subjects_option
@writes
def signal(
    asked: StoreOptions, *, run: str, name: str, payload: str | None, key: str | None, about: tuple[str, ...]
) -> None:
    """Send RUN the signal NAME, with JSON (or text; -: standard input) as its payload. It stays until the run takes it."""
    sent = None if payload is None else value_of(payload, "payload")
    with asked.open() as store:
        handle = find_run(store, run)
        handle.signal(name, sent, key=key, about=about)
        record = handle.refresh().record
    if asked.as_json:
        say_json(record)
        return
    say_facts({"run": record.id, "agent": record.agent, "status": record.status})
    note("sent; a worker continues the run when it waits for this signal")


@command(
    "recover",
    "perdure recover --dry-run",
    "perdure recover app --dry-run",
    "perdure recover app --actor alice --json",
)
@click.argument("target", required=False, metavar="[MODULE[:AGENTS]]")
@click.option("--dry-run", is_flag=True, help="Only list what would be taken.")
@writes
def recover(asked: StoreOptions, *, target: str | None, dry_run: bool) -> None:
    """Continue the work of dead processes once, here: runs of the agents in MODULE that they left, and runs that are ready.

    Effects of sessions are settled by the rules of MODULE's tools. MODULE is imported from this folder; without it no run is
    driven. Living processes keep their work. `perdure worker` does this all the time.
    """
    agents = _agents(target)
    if dry_run:
        with StoreOptions(asked.store, asked.tenant, as_json=asked.as_json).open() as store:
            found = store.recoverable(agents)
    else:
        with asked.open() as store:
            found = store.recover(agents)
    if asked.as_json:
        say_json({"dry_run": dry_run, **{name: getattr(found, name) for name in found.__struct_fields__}})
    else:
        _say(found, dry_run=dry_run)
    sys.exit(1 if found.damaged else 0)


def _agents(target: str | None) -> list[Agent]:
    from perdure.cli.agents import agents_at  # noqa: PLC0415 - as above

    return [] if target is None else [*agents_at(target).values()]


def _say(found: Recovered, *, dry_run: bool) -> None:
    headings = ("Would be driven", "", "Would be settled by rule, or left to a person") if dry_run else (
        "Driven", "Settled", "Left in doubt"
    )  # fmt: skip
    columns = (TAKEN, EFFECTS, EFFECTS)
    for heading, shown, items in zip(headings, columns, (found.runs, found.settled, found.waiting), strict=True):
        if items:
            say_heading(heading)
            say_table(shown, items)
    for each in found.damaged:
        note(f"damaged: {each}")
    note(_outcome(found, dry_run=dry_run))


def _outcome(found: Recovered, *, dry_run: bool) -> str:
    if not (found.runs or found.settled or found.waiting or found.damaged):
        return "dead processes left no work"
    if dry_run:
        return "nothing was changed: a dry run"
    left = (
        f"; settle the rest: perdure settle EFFECT VERDICT ({counted(len(found.waiting), 'effect')})"
        if found.waiting
        else ""
    )
    return f"{counted(len(found.runs), 'run')} driven, {counted(len(found.settled), 'effect')} settled{left}"

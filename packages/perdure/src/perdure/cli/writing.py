"""`perdure say`, `task`, `decide`, `set` and `label`: what people and scripts write into a session, by the handles' verbs.

A session is made by --new alone, so that a misspelt name makes none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perdure.cli.arguments import arguments_of
from perdure.cli.finding import existing_session
from perdure.cli.names import argument, session_names
from perdure.cli.options import Body, StoreOptions, command, writes
from perdure.cli.output import compact, note, say_facts, say_json
from perdure.cli.values import text_of, value_of
from perdure.errors import NotFound
from perdure.verbs import conversation, decisions, values, work

if TYPE_CHECKING:
    from perdure.handles.sync.session import Session
    from perdure.handles.sync.store import Store

SPEAKERS = ("user", "assistant", "system")


def _in_session(function: Body) -> Body:
    """SESSION and --new."""
    new = click.option("--new", is_flag=True, help="Make the session if there is none.")
    return argument("session", session_names)(new(function))


def _opened(store: Store, name: str, *, new: bool) -> Session:
    if new:
        return store.session(name)
    try:
        return existing_session(store, name)
    except NotFound as error:
        error.hint = f"{error.hint}; --new makes it"
        raise


@command(
    "say",
    "perdure say issue-42 'Login fails on Safari' --key m1",
    "perdure say issue-42 'Be brief' --role system",
    "git diff | perdure say issue-42 - --json",
)
@_in_session
@click.argument("text")
@click.option("--role", type=click.Choice(SPEAKERS), default="user", show_default=True, help="Role of the speaker.")
@arguments_of(conversation.say, without=("content",))
@writes
def say(asked: StoreOptions, *, session: str, new: bool, text: str, role: Any, **given: Any) -> None:
    """Add a turn with TEXT (-: standard input) to SESSION."""
    said = text_of(text, "text")
    with asked.open() as store:
        turn = _opened(store, session, new=new).say(role, said, **given)
    if asked.as_json:
        say_json(turn)
    else:
        note(f"said as turn {turn.seq}; `perdure show {session}` shows it")


@command(
    "task",
    "perdure task issue-42 'Write the test' --priority 1 --label release",
    "perdure task issue-42 'Ship it' --needs 12 --key ship --json",
)
@_in_session
@click.argument("title")
@arguments_of(work.task)
@writes
def task(asked: StoreOptions, *, session: str, new: bool, title: str, **given: Any) -> None:
    """Add a task with TITLE (-: standard input) to SESSION."""
    called = text_of(title, "title")
    with asked.open() as store:
        record = _opened(store, session, new=new).task(called, **given).record
    if asked.as_json:
        say_json(record)
        return
    say_facts({"task": record.id, "status": record.status, "title": record.title})
    note(f"`perdure tasks --session {session}` lists them")


@command(
    "decide",
    "perdure decide issue-42 'Use approach A' --because 'B breaks Safari'",
    "perdure decide issue-42 'Ship on Friday' --because 'the client asked' --tag release --json",
)
@_in_session
@click.argument("text")
@arguments_of(decisions.decide)
@writes
def decide(asked: StoreOptions, *, session: str, new: bool, text: str, **given: Any) -> None:
    """Record the decision TEXT (-: standard input) in SESSION, before anything is done about it. Repeating it records two."""
    decided = text_of(text, "text")
    with asked.open() as store:
        record = _opened(store, session, new=new).decide(decided, **given).record
    if asked.as_json:
        say_json(record)
        return
    say_facts({"decision": record.seq, "status": record.status, "text": record.text, "because": record.because})
    note("`perdure decisions --status open` lists those that are open")


@command(
    "set",
    "perdure set issue-42 branch fix-42",
    "perdure set issue-42 limits '{\"retries\": 3}' --expect 2 --json",
    "perdure set user:alice theme dark --scope --ttl 30d",
    "cat plan.json | perdure set issue-42 plan -",
)
@argument("session", session_names, metavar="SESSION|SCOPE")
@click.argument("name")
@click.argument("value")
@click.option("--new", is_flag=True, help="Make the session if there is none.")
@click.option("--scope", is_flag=True, help="A value of a scope, which outlives sessions: user:alice, project:acme.")
@click.option("--text", "as_text", is_flag=True, help="Read VALUE as text, even if it is JSON.")
@arguments_of(values.set_)
@writes
def set_(
    asked: StoreOptions, *, session: str, name: str, value: str, new: bool, scope: bool, as_text: bool, **given: Any
) -> None:
    """Set the value NAME of SESSION to VALUE. VALUE is read as JSON, or else as text (-: standard input)."""
    found = value_of(value, "value", as_text=as_text)
    with asked.open() as store:
        target = store.scope(session) if scope else _opened(store, session, new=new)
        entry = target.set(name, found, **given)
    if asked.as_json:
        say_json(entry)
    else:
        say_facts({"name": entry.name, "value": compact(entry.value), "version": entry.version})


@command("label", "perdure label issue-42 prod urgent", "perdure label issue-42 urgent --remove --json")
@_in_session
@click.argument("labels", nargs=-1, required=True)
@click.option("--remove", is_flag=True, help="Remove these labels instead.")
@writes
def label(asked: StoreOptions, *, session: str, new: bool, labels: tuple[str, ...], remove: bool) -> None:
    """Add LABELS to SESSION, or remove them. Repeating it changes nothing."""
    with asked.open() as store:
        found = _opened(store, session, new=new)
        left = found.unlabel(*labels) if remove else found.label(*labels)
    if asked.as_json:
        say_json({"session": session, "labels": left})
    else:
        say_facts({"session": session, "labels": left or "none"})

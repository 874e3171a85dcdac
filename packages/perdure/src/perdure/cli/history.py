"""`perdure diff` and `perdure fork`: two points side by side, and another way on from one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.finding import existing_session, find_run, find_session, is_run
from perdure.cli.names import argument, stream_names
from perdure.cli.options import StoreOptions, command, reads, writes
from perdure.cli.output import compact, note, plain, say_heading, say_json
from perdure.errors import Invalid, NotFound
from perdure.model.display import shortened, visible
from perdure.model.records.differences import SessionDiff

if TYPE_CHECKING:
    from perdure.handles.sync.run_handle import RunHandle
    from perdure.handles.sync.session import Session
    from perdure.handles.sync.store import Store
    from perdure.model.records.conversation import Turn
    from perdure.model.records.differences import Difference, RunDiff

SHOWN_CHARS = 100
HEADINGS = {"about": "About", "tasks": "Plan"}  # the others are called as they are
MARKS = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}


def moment_of(text: str) -> int | str:
    """A point as a command takes it: the number of an event, an instant, an age; or a place in a run."""
    return int(text) if text.isdecimal() else text


def at_point(store: Store, text: str) -> Session | RunHandle:
    """A session or run:ID; with @WHEN, as it was then. A name of a session may itself hold an @."""
    if is_run(text):
        name, _, when = text.partition("@")
        run = find_run(store, name)
        return run.at(moment_of(when)) if when else run
    try:
        return find_session(store, text)
    except NotFound:
        name, at, when = text.rpartition("@")
        if not at:
            raise
        return find_session(store, name).at(moment_of(when))


@command(
    "diff",
    "perdure diff issue-42@17",
    "perdure diff issue-42@2h issue-42@1h",
    "perdure diff issue-42 try-b",
    "perdure diff issue-42@17 issue-42 --json",
    "perdure diff run:4f1c2a9b77d0 run:9b77d04f1c2a",
)
@argument("a", stream_names, metavar="A")
@argument("b", stream_names, metavar="[B]", required=False)
@reads
def diff(asked: StoreOptions, *, a: str, b: str | None) -> None:
    """Show the difference from A to B: goal, values, plan, decisions, checkpoints and turns, or the work of two runs.

    Each is a session or run:ID, or one at an earlier point: NAME@SEQ, NAME@WHEN, NAME@AGE. Without B, A is compared with its
    present state. Two forks are compared from where they parted. An earlier point takes longer in a long history.
    """
    if b is not None and is_run(a) != is_run(b):
        raise click.UsageError("a session and a run have nothing to compare: name two of a kind")
    with asked.open() as store:
        first = at_point(store, a)
        found: Any = first.diff(at_point(store, _now(first) if b is None else b))  # type: ignore[arg-type] - two of a kind
    if asked.as_json:
        say_json({"same": found.same, **plain(found)})
    else:
        _say(found)


def _now(side: Session | RunHandle) -> str:
    """The name of the same session or run, as it is now."""
    return side.name if hasattr(side, "turns") else f"run:{side.id}"  # type: ignore[union-attr]


def _say(found: SessionDiff | RunDiff) -> None:
    if found.same:
        note("nothing differs")
    for part in found.__struct_fields__:
        if not part.startswith("turns_"):
            _say_part(HEADINGS.get(part, part.capitalize()), getattr(found, part))
    if isinstance(found, SessionDiff):
        _say_turns([*_turns("removed", found.turns_removed), *_turns("added", found.turns_added)])


def _say_turns(turns: list[str]) -> None:
    if turns:
        say_heading("Turns")
        for line in turns:
            click.echo(line)


def _say_part(heading: str, differences: Iterable[Difference]) -> None:
    lines = [line for each in differences for line in _lines(each)]
    if lines:
        say_heading(heading)
        for line in lines:
            click.echo(line)


def _lines(each: Difference) -> list[str]:
    how = each.how.value
    if isinstance(each.before, dict) and isinstance(each.after, dict) and how == "changed":
        names = dict.fromkeys([*each.before, *each.after])
        changes = [f"{name}: {_shown(each.before.get(name))} → {_shown(each.after.get(name))}" for name in names]
        return [marked(how, each.name), *(marked("", f"    {line}") for line in changes)]
    if how == "changed":
        return [marked(how, f"{each.name}: {_shown(each.before)} → {_shown(each.after)}")]
    return [marked(how, f"{each.name}: {_told(each.name, each.after if how == 'added' else each.before)}")]


def _told(name: str, value: Any) -> str:
    """A value as it is; of a thing with fields, those that its name does not say."""
    if not isinstance(value, dict):
        return _shown(value)
    return shortened(
        ", ".join(f"{field} {compact(said)}" for field, said in value.items() if str(said) not in name), SHOWN_CHARS
    )


def _turns(how: str, turns: Iterable[Turn]) -> list[str]:
    said = [(turn, compact(turn.content) if turn.content is not None else _calls(turn)) for turn in turns]
    return [marked(how, f"{turn.seq} {turn.role.value}: {shortened(text, SHOWN_CHARS)}") for turn, text in said]


def _calls(turn: Turn) -> str:
    return ", ".join(f"→ {call.tool}" for call in turn.calls)


def _shown(value: Any) -> str:
    return shortened(compact(value), SHOWN_CHARS)


def marked(how: str, text: str) -> str:
    """A line of a difference, with its mark; in colour where somebody looks (and NO_COLOR is not set)."""
    mark, colour = MARKS.get(how, (" ", ""))
    line = f"{mark} {visible(text)}"
    return click.style(line, fg=colour) if colour and not os.environ.get("NO_COLOR") else line


@command(
    "fork",
    "perdure fork issue-42 --name try-b",
    "perdure fork issue-42 --at 117 --name try-b",
    "perdure fork issue-42 --at 2h --name before-lunch --json",
    "perdure fork run:4f1c2a9b77d0 --at 0//3 --replace '\"hold\"'",
    "perdure fork run:4f1c2a9b77d0 --at 12 --replace '{\"hits\": 0}' --allow-effects",
)
@argument("name", stream_names)
@click.option(
    "--at", metavar="SEQ|WHEN|PLACE", help="From there; of a run: a place or number that it shows. Else from now."
)
@click.option("--name", "called", metavar="NAME", help="Name for the fork of a session.")
@click.option(
    "--replace", metavar="JSON", help="Of a run: the result that the step, effect or answer there gets instead."
)
@click.option("--allow-effects", is_flag=True, help="Of a run: let it call external systems without asking a person.")
@writes
def fork(
    asked: StoreOptions, *, name: str, at: str | None, called: str | None, replace: str | None, allow_effects: bool
) -> None:
    """Continue in another session from a point of session NAME, or from a place of run:NAME with another result there.

    The originals stay as they are. A fork of a session shares turns, checkpoints and artifacts up to the point, and restates
    values, plan and decisions; effects that were under way stay the parent's. A fork of a run does not repeat recorded work,
    and asks a person before it calls any external system.
    """
    with asked.open() as store:
        if not is_run(name):
            if called is None or replace is not None or allow_effects:
                raise click.UsageError("a session is forked with --name NAME and --at; --replace is for run:NAME")
            _fork_session(store, name, at, called, as_json=asked.as_json)
            return
        if at is None or replace is None or called is not None:
            raise click.UsageError("a run is forked with --at PLACE and --replace JSON")
        made = find_run(store, name).fork(moment_of(at), _value_of(replace), allow_effects=allow_effects)
    if asked.as_json:
        say_json({"run": made.record})
    else:
        note(f"forked as run {made.id}; a worker drives it, `perdure asks` shows what it asks")


def _value_of(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise Invalid(f"it is not JSON: {error}", path="replace", hint="text stands in quotes: '\"hold\"'") from None


def _fork_session(store: Store, name: str, at: str | None, called: str, *, as_json: bool) -> None:
    parent = existing_session(store, name)
    made = parent.fork(at=None if at is None else moment_of(at), name=called)
    about = made.info()
    if as_json:
        say_json({"session": about, "uid": made.uid, "parent": parent.name})
    else:
        point = "" if at is None else f" at {visible(at)}"
        note(f"forked {visible(parent.name)}{point} as {visible(called)}")

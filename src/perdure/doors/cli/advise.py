"""`perdure advise`: where the state of an agent belongs, and what state a project has already.

The rules are in `choosing`; this asks and shows.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from perdure.choosing.questions import FIRST, QUESTIONS, USUAL, Option, Question
from perdure.doors.cli.options import Body, command, json_option, log_options
from perdure.doors.cli.output import bytes_size, counted, note, say_facts, say_heading, say_json
from perdure.doors.cli.tables import Column, folded, say_table

if TYPE_CHECKING:
    from perdure.choosing.inventory import Inventory
    from perdure.choosing.recommend import Recommendation

REASONS = (
    Column("part", lambda reason: reason.part),
    Column("at least", lambda reason: reason.wants),
    Column("because of", lambda reason: _said(reason.answers)),
    folded("why", lambda reason: reason.because),
)
CHANGES = (
    Column("if", lambda change: f"{change.question} is {change.answer}"),
    folded("then", lambda change: "; ".join(f"{part}: {found}" for part, found in change.gives.items())),
)
RISKS = (folded("failure", lambda risk: risk.fails), folded("what helps", lambda risk: risk.against))
FILES = (
    folded("file", lambda file: file.path),
    Column("category", lambda file: file.category),
    Column("kept as", lambda file: file.form),
    Column("changes by", lambda file: file.updates),
    Column("size", lambda file: bytes_size(file.size)),
    Column("in git", lambda file: file.tracked),
    folded("lost with it", lambda file: file.loses),
    folded("comes back by", lambda file: file.recovers),
    folded("stale", lambda file: f"{file.stale}: {file.why}"),
    folded("next", lambda file: file.next),
)


def _said(answers: dict[str, str]) -> str:
    return ", ".join(f"{name} {answer}" for name, answer in answers.items())


def asked_in_options(function: Body) -> Body:
    """An option for every question."""
    for question in reversed(QUESTIONS):
        means = "; ".join(f"{answer}: {means}" for answer, means in zip(question.answers, question.means, strict=True))
        words = question.asks if question.means == ("no", "yes") else f"{question.asks} {means}."
        values = click.Choice([str(answer) for answer in question.answers])
        function = click.option(f"--{question.name}", type=values, help=words)(function)
    return function


@command(
    "advise",
    "perdure advise",
    "perdure advise --lasts persistent --twice hurts --stopped goes-on",
    "perdure advise --owners team --writers machines --json | jq .recommendation.choice",
    "perdure advise ~/project --inventory",
)
@click.argument("folder", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--inventory", is_flag=True, help="List the state files of FOLDER (default: this one) instead.")
@asked_in_options
@json_option
@log_options
def advise(*, folder: Path | None, inventory: bool, as_json: bool, **given: str | None) -> None:
    """Recommend a store, a place for artifacts, a shape of runtime and a preset, with the reasons.

    On a terminal it asks the three questions that decide most, then the others if you want to; Enter takes the usual answer.
    Without a terminal it assumes the usual answers, and names them. With --inventory it looks at a project instead: which files
    hold state, how they change, what is lost with each. Nothing is run or changed.
    """
    if inventory:
        _take_inventory(folder or Path(), as_json=as_json)
        return
    if folder is not None:
        raise click.UsageError("FOLDER is for --inventory")
    from perdure.choosing.recommend import recommend  # noqa: PLC0415 - help must be light

    said = _answered(given, as_json=as_json)
    answers = msgspec.structs.replace(USUAL, **said)
    found = recommend(answers)
    assumed = [question.name for question in QUESTIONS if question.name not in said]
    if as_json:
        say_json({"answers": answers, "assumed": assumed, "recommendation": found})
    else:
        _say(found, assumed)


def _answered(given: dict[str, str | None], *, as_json: bool) -> dict[str, Any]:
    """The answers of the options, and a person's answers to the rest."""
    said = {name: value for name, value in given.items() if value is not None}
    missing = [question for question in QUESTIONS if question.name not in said]
    if sys.stdin.isatty() and not as_json:
        said |= {question.name: _ask(question) for question in missing if question.name in FIRST}
        others = [question for question in missing if question.name not in FIRST]
        if others and click.confirm(f"\n{counted(len(others), 'more question')} for a closer look?", err=True):
            said |= {question.name: _ask(question) for question in others}
    return {question.name: _typed(question, said[question.name]) for question in QUESTIONS if question.name in said}


def _typed(question: Question, word: str) -> Option:
    return next(answer for answer in question.answers if answer == word)


def _ask(question: Question) -> str:
    click.echo(f"\n{question.asks}", err=True)
    words = [str(answer) for answer in question.answers]
    for word, means in zip(words, question.means, strict=True):
        if word != means:
            click.echo(f"  {word}: {means}", err=True)
    usual = str(getattr(USUAL, question.name))
    return click.prompt("", type=click.Choice(words), default=usual, prompt_suffix="> ", err=True)


def _say(found: Recommendation, assumed: list[str]) -> None:
    choice = found.choice
    say_facts(
        {
            "store": choice.store,
            "expect": found.expect,
            "artifacts": choice.artifacts,
            "runtime": choice.runtime,
            "cache": choice.cache,
            "rung": f"{choice.rung} ({', '.join(found.rungs)})",
            "scenario": choice.scenario,
            "begin with": found.begin,
        }
    )
    for heading, columns, rows in (
        ("Why", REASONS, [reason for reason in found.reasons if reason.decides]),
        ("Facts that would change it", CHANGES, found.changes),
        ("Risks that remain", RISKS, found.remaining),
    ):
        if rows:
            say_heading(heading)
            say_table(columns, rows)
    if assumed:
        note(f"assumed, because nothing was said: {', '.join(f'--{name}' for name in assumed)}")


def _take_inventory(folder: Path, *, as_json: bool) -> None:
    from perdure.choosing.inventory import take  # noqa: PLC0415 - as above

    found = take(folder)
    if as_json:
        say_json(found)
        return
    if found.files:
        say_table(FILES, found.files)
    _say_counts(found)


def _say_counts(found: Inventory) -> None:
    note(f"{counted(len(found.files), 'state file')} among {counted(found.looked_at, 'file')}")
    for why in found.left_out:
        note(why)

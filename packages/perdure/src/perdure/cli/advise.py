"""`perdure advise`: the smallest store that meets a need, with the answers that ask for it. docs/guide/choosing.md is its page.

QUESTIONS and RULES are the whole of it: a rule says for which answers a part is not smaller than a value, so it can only raise.
"""

from __future__ import annotations

import shlex
from typing import Any

import click

from perdure.cli.options import Body, command, json_option, log_options
from perdure.cli.output import note, say_facts, say_heading, say_json
from perdure.cli.retired import retired_option
from perdure.cli.tables import Column, folded, say_table

PAGE = (
    "docs/guide/choosing.md says how to choose; perdure import FILE --dry-run says what a file of another program holds"
)
NO_OR_YES = {"no": "no", "yes": "yes"}

# name -> (the question, its answers with their meaning, the modest one first)
QUESTIONS: dict[str, tuple[str, dict[str, str]]] = {
    "lasts": ("What has to outlive one call?", {
        "nothing": "input in, output out", "session": "the conversation, until it is over",
        "persistent": "decisions, tasks, memories: for days and weeks"}),
    "twice": ("What if an external call is made twice (a mail, a payment, a pull request)?", {
        "no-effects": "it makes no external calls", "harmless": "twice is as good as once",
        "hurts": "it costs money, trust or data"}),
    "stopped": ("What if it is stopped half-way (a crash, a deploy, a wait for a person)?", {
        "never": "it is over too soon for that", "starts-over": "it may start over",
        "goes-on": "it has to continue where it was"}),
    "writers": ("What writes to the same state?", {
        "one": "one process", "machine": "several processes of one machine", "machines": "processes on several machines"}),
    "owners": ("Whose state is it?", {
        "one": "one person's", "team": "a team's: several see and decide",
        "tenants": "of tenants who must not see each other"}),
    "audit": ("What must be shown afterwards?", {
        "none": "nothing", "history": "the author, time and reason of every act",
        "proof": "the same as a proof, under rules of retention"}),
    "rate": ("How much is written?", {"modest": "up to some hundred changes a second", "high": "more than that"}),
    "queries": ("Will you ask across sessions (by status, tool, person, time)?", NO_OR_YES),
    "many": ("Will it be more than 100,000 records?", NO_OR_YES),
    "large": ("Are there large files (logs, screenshots, builds) beside the state?", NO_OR_YES),
    "readable": ("Do you want to read the state as text and have it in git?", NO_OR_YES),
    "server": ("Is there a database server, and somebody who looks after it?", NO_OR_YES),
}  # fmt: skip
USUAL = {name: next(iter(answers)) for name, (_, answers) in QUESTIONS.items()} | {"lasts": "persistent"}

# part -> its values, the smallest first
PARTS: dict[str, tuple[str, ...]] = {
    "durable": ("no", "yes"),
    "store": ("memory", "files", "sqlite", "postgresql"),
    "artifacts": ("in the store", "a folder beside it", "object storage"),
}  # fmt: skip
URLS = {"memory": "memory:", "files": "files:///state", "sqlite": "sqlite:///agent.db",
        "postgresql": "postgresql://USER@HOST/DATABASE"}  # fmt: skip
PLACES = {"a folder beside it": "?artifacts=file:///srv/artifacts", "object storage": "?artifacts=s3://BUCKET/PREFIX"}
COLUMNS = (
    Column("part", lambda reason: reason["part"]),
    Column("at least", lambda reason: reason["wants"]),
    Column("because of", lambda reason: ", ".join(f"{name} {value}" for name, value in reason["answers"].items())),
    folded("why", lambda reason: reason["because"]),
)

# part, its value by its place in PARTS, the reason, and where it holds: answers, or parts that were chosen before
RULES: tuple[tuple[str, int, str, dict[str, str]], ...] = (
    ("durable", 1, "state that outlives a session must outlive the process", {"lasts": "persistent"}),
    ("durable", 1, "to continue, the cursor and what is pending must be on a disk", {"stopped": "goes-on"}),
    ("durable", 1, "an intent must be durable before it is sent, or a crash sends it again", {"twice": "hurts"}),
    ("durable", 1, "history that dies with the process is none", {"audit": "history proof"}),
    ("durable", 1, "files in git are on a disk", {"readable": "yes"}),
    ("store", 1, "text that git can diff is what you want to read", {"durable": "yes", "readable": "yes"}),
    ("store", 2, "one file with transactions is simpler than text", {"durable": "yes", "readable": "no"}),
    ("store", 2, "questions across sessions need tables and indexes, not a scan of files", {"queries": "yes"}),
    ("store", 2, "beyond some 100,000 records text files are read for too long", {"many": "yes"}),
    ("store", 2, "many small changes want shared commits, not lines behind one lock", {"rate": "high"}),
    ("store", 2, "readers and a writer work side by side; a file behind one lock queues them", {"writers": "machine"}),
    ("store", 2, "a proof is asked for by time, person and kind: that is a query", {"audit": "proof"}),
    ("store", 2, "state that several look at is asked across sessions, sooner or later", {"owners": "team"}),
    ("store", 3, "only a server is written to from several machines", {"writers": "machines"}),
    ("store", 3, "tenants want roles, backups to a point in time and many writers at once", {"owners": "tenants"}),
    ("store", 3, "state that is shared belongs on the server that you have", {"owners": "team", "server": "yes"}),
    ("store", 3, "one writer at a time is too few for a busy team", {"owners": "team", "rate": "high"}),
    ("store", 3, "shared and under rules: backups and rights are the server's work", {"owners": "team", "audit": "proof"}),
    ("store", 3, "SQLite lets one process write at a time", {"rate": "high", "writers": "machine machines"}),
    ("artifacts", 1, "large files beside the database keep it small and quick", {"large": "yes", "durable": "yes"}),
    ("artifacts", 2, "every machine must reach them", {"large": "yes", "writers": "machines"}),
    ("artifacts", 2, "a platform's files outgrow one disk", {"large": "yes", "owners": "tenants"}),
)  # fmt: skip


def choose(answers: dict[str, str]) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """The smallest value of every part that no rule finds too small, and the reasons why nothing less would do."""
    facts, held = {**answers, **{part: values[0] for part, values in PARTS.items()}}, []
    for part, at, because, when in RULES:
        if all(facts[name] in values.split() for name, values in when.items()):
            facts[part] = max(facts[part], PARTS[part][at], key=PARTS[part].index)
            by = {name: facts[name] for name in when}
            held.append({"part": part, "wants": PARTS[part][at], "answers": by, "because": because})
    server = {"compliance": ("audit", "proof"), "platform": ("owners", "tenants"), "throughput": ("rate", "high")}
    named = [scenario for scenario, (name, value) in server.items() if answers[name] == value]
    scenario = [*named, "team"][0] if facts["store"] == "postgresql" else "local"
    choice = {"store": facts["store"], "artifacts": facts["artifacts"], "scenario": scenario}
    return choice, [reason for reason in held if reason["wants"] == facts[reason["part"]]]


def begin(choice: dict[str, str]) -> str:
    """The command that makes it so. On SQLite and files large artifacts lie beside the store by themselves."""
    if choice["store"] == "memory":
        return 'perdure.open("memory:")'
    is_beside = choice["store"] != "postgresql" and choice["artifacts"] == PARTS["artifacts"][1]
    url = URLS[choice["store"]] + ("" if is_beside else PLACES.get(choice["artifacts"], ""))
    return f"perdure init --scenario {choice['scenario']} --store {shlex.quote(url)}"


def _with_questions(function: Body) -> Body:
    for name, (question, answers) in reversed(QUESTIONS.items()):
        means = "; ".join(f"{word}: {text}" for word, text in answers.items() if word != text)
        text = f"{question} {means}".strip()
        function = click.option(f"--{name}", type=click.Choice([*answers]), help=text)(function)
    return function


@command(
    "advise",
    "perdure advise --lasts persistent --twice hurts --stopped goes-on",
    "perdure advise --owners team --writers machines --json | jq .recommendation.choice",
)
@_with_questions
@retired_option("--inventory", PAGE, is_flag=True)
@retired_option("--evolves", PAGE)
@retired_option("--hot", PAGE)
@json_option
@log_options
def advise(*, as_json: bool, **options: str | None) -> None:
    """Recommend a store, a place for artifacts and a preset, with the reasons.

    A question without an answer is assumed to have the usual one, and named. An answer that asks for more never gets less.
    """
    answers = {name: options[name] or usual for name, usual in USUAL.items()}
    assumed = [name for name in USUAL if options[name] is None]
    choice, reasons = choose(answers)
    if as_json:
        recommendation = {"choice": choice, "reasons": reasons, "begin": begin(choice)}
        say_json({"answers": answers, "assumed": assumed, "recommendation": recommendation})
        return
    say_facts({**choice, "begin with": begin(choice)})
    say_heading("Why")
    say_table(COLUMNS, reasons)
    if assumed:
        note(f"assumed, because nothing was said: {', '.join(f'--{name}' for name in assumed)}")

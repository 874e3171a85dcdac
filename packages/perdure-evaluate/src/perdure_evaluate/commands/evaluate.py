"""`perdure evaluate`: run the recovery protocol of `evaluation/recovery`, show it as it goes, and write what it found."""

from __future__ import annotations

import shlex
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.options import command, json_option, log_options
from perdure.cli.output import console, counted, note, say_facts, say_json
from perdure.cli.tables import Column, prose, say_table
from perdure.errors import Invalid

if TYPE_CHECKING:
    from perdure_evaluate.recovery.host import ShownCase
    from perdure_evaluate.recovery.plan import EvaluationPlan
    from perdure_evaluate.recovery.scorecard import Scorecard
    from perdure_evaluate.recovery.story import Case

NO_BUDGET = "none"
TELL_EVERY_SECONDS = 10.0
JOBS_MAX = 64
TRIES_MAX = 1000


@command(
    "evaluate", "perdure evaluate --budget 60s --out recovery",
    "perdure evaluate --subjects json-file,perdure-sqlite --faults kill",
    "perdure evaluate --subjects langgraph,dbos --install-peers", "perdure evaluate --case json-file/support/kill/mail:sent",
    "perdure evaluate --subjects path/to/mine.py --tasks support",
)  # fmt: skip
@click.option(
    "--subjects", multiple=True, metavar="NAMES", help="Which stores, or a FILE.py of your own; default: all."
)
@click.option("--tasks", multiple=True, metavar="NAMES", help="Which work; default: all but relay-50000.")
@click.option("--faults", multiple=True, metavar="NAMES", help="Faults to inject; default: all.")
@click.option("--seed", type=click.IntRange(0, 2**31), help="Decides the order and every choice; default: 1, or DIR's.")
@click.option(
    "--budget", default="60s", show_default=True, metavar="TIME", help="How long, as 90s or 2h; none: to the end."
)
@click.option(
    "--cases",
    "count",
    type=click.IntRange(min=1),
    metavar="N",
    help="The first N of the plan, and the controls; default: all.",
)
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), default="recovery", show_default=True,
    help="Where it is written; an evaluation that lies there is continued.",
)  # fmt: skip
@click.option("--jobs", type=click.IntRange(1, JOBS_MAX), help="How many at once; default: one for each core.")
@click.option(
    "--must-hold", multiple=True, metavar="NAMES", help="Exit with 1 if one of these subjects has a violation."
)
@click.option(
    "--install-peers", is_flag=True, help="Get the frameworks that the subjects need, each on its own, first."
)
@click.option("--case", "case_id", metavar="ID", help="Run this single case again, and write nothing.")
@click.option(
    "--tries", type=click.IntRange(1, TRIES_MAX), default=1, show_default=True,
    help="With --case: until it shows a violation, so often at most; a subject with threads is not always as quick.",
)  # fmt: skip
@click.option("--list", "listing", is_flag=True, help="The subjects, tasks and faults that there are.")
@json_option
@log_options
def evaluate(*, case_id: str | None, tries: int, listing: bool, as_json: bool, **options: Any) -> None:
    """Kill agents at every boundary, on any store, and count what really happened in the outside world.

    Writes scorecard.json, report.html and cases.jsonl. If it is stopped or killed itself, it continues where it was. Exits with
    1 if a fault did not catch its control (then nothing is proved), or if --must-hold does not hold. docs/protocol.md defines
    the measures and the limits of a score.
    """
    if listing:
        _list(as_json=as_json)
    elif case_id is not None:
        install = options["install_peers"]
        sys.exit(_replay(case_id, options["seed"], options["out"], tries=tries, install=install, as_json=as_json))
    elif tries != 1:
        raise Invalid("--tries is for a single case", path="tries", hint="name the case: --case ID")
    else:
        sys.exit(_evaluate(as_json=as_json, **options))


def _evaluate(
    *, subjects: tuple[str, ...], tasks: tuple[str, ...], faults: tuple[str, ...], seed: int | None, budget: str,
    count: int | None, out: Path, jobs: int | None, must_hold: tuple[str, ...], install_peers: bool, as_json: bool,
) -> int:  # fmt: skip
    from perdure_evaluate.recovery import plan, run, scorecard  # noqa: PLC0415 - help must not load the stores

    own = plan.named_subjects(subjects)
    held = plan.chosen(must_hold, own, "subject", "must-hold")
    plan.check(tasks, faults)  # misspelt names are refused before anything is started
    seconds = _seconds(budget)
    chosen = seed if seed is not None else run.seed_of(out) if (out / run.CASES).is_file() else 1
    lacking = run.peers_for(own, note if install_peers else None)
    with ExitStack() as stack:
        ledger = stack.enter_context(run.Ledger(out, chosen))
        url, without = run.server_for(own, stack, out)
        planned = plan.make(own, tasks, faults, chosen, lacking | without)
        progress = _progress(stack, planned, quiet=as_json)
        workers = jobs or run.cores()
        until = time.monotonic() + seconds
        run.evaluate(planned, ledger, postgres=url, jobs=workers, until=until, progress=progress, count=count)
        words = {"subjects": subjects, "tasks": tasks, "faults": faults, "seed": (str(chosen),), "budget": (budget,)}
        card = scorecard.sum_up(planned, ledger, out, _command(words | ({"cases": (str(count),)} if count else {})))
    _write(card, out)
    _say(card, out, as_json=as_json)
    return 0 if card.valid and all(_holds(card, name) for name in held) else 1


def _command(words: dict[str, tuple[str, ...]]) -> str:
    """The line that asks for the same."""
    options = [f"--{name} {shlex.quote(','.join(values))}" for name, values in words.items() if values]
    return " ".join(["perdure evaluate", *options])


def _holds(card: Scorecard, name: str) -> bool:
    """Whether a subject stood all that it was put to. One that was skipped, or never tried, has not shown it."""
    subject = card.subjects.get(name)
    return subject is not None and subject.total.ran > 0 and not subject.total.failed


def _seconds(budget: str) -> float:
    from perdure.model.instants import SECOND_US, duration_us  # noqa: PLC0415 - as above

    return float("inf") if budget == NO_BUDGET else duration_us(budget, "budget") / SECOND_US


def _write(card: Scorecard, out: Path) -> None:
    import msgspec  # noqa: PLC0415 - as above

    from perdure_evaluate.recovery import report  # noqa: PLC0415

    (out / "scorecard.json").write_bytes(msgspec.json.format(msgspec.json.encode(card), indent=2) + b"\n")
    (out / "report.html").write_text(report.page(card), "utf-8")


# -- on the way ------------------------------------------------------------------------------------------------------


class EvaluationLines:
    """Progress for a log: a line now and then, and one for every first failure of a cell."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._said = time.monotonic()
        self._seen: set[tuple[str, str, str]] = set()
        self._ended = 0

    def begins(self, case: Case) -> None:
        """Say it if nothing was said for a while."""
        with self._mutex:
            if time.monotonic() - self._said > TELL_EVERY_SECONDS:
                self._said = time.monotonic()
                note(f"{counted(self._ended, 'case')}; now {case.id}")

    def ends(self, outcome: ShownCase) -> None:
        """Say what failed, once for a subject, task and fault."""
        with self._mutex:
            self._ended += 1
            cell = (outcome.case.subject, outcome.case.task, outcome.case.fault)
            if cell not in self._seen and (outcome.score.failed or outcome.broken):
                self._seen.add(cell)
                note(f"{outcome.case.id}: {'BROKEN' if outcome.broken else ', '.join(outcome.score.failed)}")


class Quiet(EvaluationLines):
    """Nothing: for machines."""

    def begins(self, case: Case) -> None:
        """Nothing."""

    def ends(self, outcome: ShownCase) -> None:
        """Nothing."""


class Live(EvaluationLines):
    """One line at the bottom of a terminal, and the failures above it."""

    def __init__(self, status: Any) -> None:
        super().__init__()
        self._status = status

    def begins(self, case: Case) -> None:
        """Show it."""
        self._status.update(
            f"{counted(self._ended, 'case')}; now {case.subject} at {case.task}: {case.fault} {case.schedule}"
        )


def _progress(stack: ExitStack, planned: EvaluationPlan, *, quiet: bool) -> Any:
    if quiet:
        return Quiet()
    for what, why in planned.skipped.items():
        if " " in what:
            note(f"{what} is skipped: {why}")
    if not sys.stderr.isatty():
        return EvaluationLines()
    return Live(stack.enter_context(console(err=True).status("the controls first")))


# -- at the end ------------------------------------------------------------------------------------------------------


def _say(card: Scorecard, out: Path, *, as_json: bool) -> None:
    if as_json:
        import msgspec  # noqa: PLC0415 - as above

        say_json(msgspec.to_builtins(card))
        return
    columns = (
        Column("subject", lambda row: row[0]), Column("cases", lambda row: row[1].ran),
        Column("failed", lambda row: row[1].failed),
        Column("twice", lambda row: row[1].sums["duplicates"]), Column("lost", lambda row: row[1].sums["lost"]),
        Column("acks lost", lambda row: row[1].sums["acknowledged_lost"]), Column("wrong", lambda row: row[1].sums["wrong"]),
        Column("stranded", lambda row: row[1].sums["stranded"]), Column("guessed", lambda row: row[1].sums["guessed"]),
        Column("recovers", lambda row: _milliseconds(row[1].recover_median_seconds)),
    )  # fmt: skip
    say_table(columns, [(name, subject.total) for name, subject in card.subjects.items()])
    for fault, control in card.controls.items():
        if not control.case:
            note(
                f"the control of {fault} ({control.subject}) was NOT caught in {counted(control.tried, 'case')}: "
                f"{fault} proves nothing"
            )
    for problem in card.broken:
        note(f"could not be tried: {problem}")
    click.echo(f"{'valid' if card.valid else 'NOT VALID'}; {out / 'report.html'}, {out / 'scorecard.json'}")


def _milliseconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds * 1000:.1f} ms"


def _replay(case_id: str, seed: int | None, out: Path, *, tries: int, install: bool, as_json: bool) -> int:
    """One case again, until it shows a violation: then 1, so that a script can look for the change that brought it."""
    import msgspec  # noqa: PLC0415 - as above

    from perdure_evaluate.recovery import SCRATCH, plan, run  # noqa: PLC0415
    from perdure_testing.scratch import scratch  # noqa: PLC0415 - as above

    chosen = seed if seed is not None else run.seed_of(out) if (out / run.CASES).is_file() else 1
    case = plan.parse_case(case_id, chosen)
    if (why := plan.impossible(case)):  # fmt: skip
        raise Invalid(f"this case cannot be tried here: {why}", path="case")
    lacking = run.peers_for([case.subject], note if install else None)
    with ExitStack() as stack:
        place = stack.enter_context(scratch(SCRATCH))
        url, without = run.server_for([case.subject], stack, place)
        if lacking := lacking | without:
            raise Invalid(lacking[case.subject], path="case")
        outcome = run.show_one(case, chosen, url, tries)
    if as_json:
        say_json(msgspec.to_builtins(outcome))
    else:
        _say_case(outcome)
    return 1 if outcome.score.failed or outcome.broken else 0


def _say_case(outcome: ShownCase) -> None:
    score = outcome.score
    say_facts(
        {"case": outcome.case.id, "violations": score.failed or "none", "where": outcome.note, "broken": outcome.broken}
    )
    for number, life in enumerate(outcome.lives, 1):
        click.echo(f"life {number}: {life}")
    for line in score.detail:
        click.echo(line)
    say_facts(
        {"asked about": score.surfaced, "guessed": score.guessed, "recovered in": _milliseconds(score.recover_seconds)}
    )


def _list(*, as_json: bool) -> None:
    from perdure_evaluate.recovery.faults import FAULTS  # noqa: PLC0415 - as above
    from perdure_evaluate.recovery.subjects import SUBJECTS, load  # noqa: PLC0415
    from perdure_evaluate.recovery.tasks import TASKS  # noqa: PLC0415

    by_kind = {
        "subjects": {name: load(name).about for name in SUBJECTS},
        "tasks": {name: task.about for name, task in TASKS.items()},
        "faults": {name: fault.about for name, fault in FAULTS.items()},
    }
    if as_json:
        say_json(by_kind)
        return
    rows = [(kind.removesuffix("s"), name, about) for kind, names in by_kind.items() for name, about in names.items()]
    say_table(
        (Column("kind", lambda row: row[0]), Column("name", lambda row: row[1]), prose("about", lambda row: row[2])),
        rows,
    )

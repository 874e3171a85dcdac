"""`report.html`: one file, no scripts, readable on a phone. Everything in it is measured; everything from outside is escaped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from html import escape
from itertools import groupby

from perdure_evaluate.recovery.faults import FAULTS
from perdure_evaluate.recovery.plots import PlotLine, bars, lines
from perdure_evaluate.recovery.score import grown
from perdure_evaluate.recovery.scorecard import Failure, Scorecard, Subjected, Tally

STYLE = """
:root { color-scheme: light dark; --bad: #b3261e; --good: #1b6e3c; --line: #8884; --badly: #b3261e1f; --well: #1b6e3c14; }
@media (prefers-color-scheme: dark) { :root { --bad: #ff8a80; --good: #7fd6a0; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 72rem; padding: 1rem; }
h1 { font-size: 1.5rem; margin: .5rem 0; } h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; } h3 { font-size: 1rem; }
p, ul { max-width: 46rem; }
.scroll { overflow-x: auto; } table { border-collapse: separate; border-spacing: 0; font-size: .875rem; }
th, td { border-bottom: 1px solid var(--line); padding: .4rem .6rem; text-align: left; vertical-align: top; white-space: nowrap; }
th { font-weight: 600; white-space: normal; } td { font-variant-numeric: tabular-nums; }
tr > :first-child { position: sticky; left: 0; background: Canvas; white-space: normal; min-width: 8rem; max-width: 15rem; }
tr > :first-child small { display: block; font-weight: 400; opacity: .7; }
.bad { color: var(--bad); background: var(--badly); font-weight: 600; } .good { color: var(--good); background: var(--well); }
.none { opacity: .6; } small { font-size: .75rem; }
code, pre { font-family: ui-monospace, monospace; font-size: .8rem; } code { overflow-wrap: anywhere; }
details { border-bottom: 1px solid var(--line); padding: .4rem 0; } details details { margin-left: 1rem; }
summary { cursor: pointer; } summary .bad { background: none; }
pre { background: #8881; margin: .4rem 0; padding: .6rem; white-space: pre-wrap; overflow-wrap: anywhere; }
.banner { padding: .8rem 1rem; border: 2px solid var(--good); border-radius: .4rem; max-width: none; }
.banner.bad { border-color: var(--bad); }
.bars { display: grid; grid-template-columns: max-content 1fr; gap: .35rem .8rem; align-items: center; font-size: .875rem; }
.bars .bar { background: #8881; height: 1.1rem; position: relative; } .bars .bar i { position: absolute; inset: 0 auto 0 0; }
.bars small { position: relative; padding: 0 .3rem; line-height: 1.1rem; display: block; white-space: nowrap; }
.plot { display: flex; flex-wrap: wrap; gap: 1rem 2rem; } .plot svg { width: 100%; max-width: 30rem; height: auto; }
.plot ul { list-style: none; margin: 0; padding: 0; font-size: .875rem; } .plot li { margin: .2rem 0; }
@media (max-width: 40rem) {
  .bars { grid-template-columns: 1fr; gap: .1rem; } .bars .bar { margin-bottom: .6rem; }
  tr > :first-child { max-width: 9rem; min-width: 7rem; } th, td { padding: .4rem .45rem; }
}
"""
MEANT = (  # the counts over all faults
    ("Tool call duplicated", "effects that arrived more than once", "duplicates"),
    ("Effect lost", "effects that never arrived", "lost"),
    ("Acknowledged state lost", "operations, or power-loss states without them", "acknowledged_lost"),
    ("Wrong resumption, in silence", "cases", "wrong"),
    ("Stale state acted on", "effects", "stale"),
    ("Stranded", "cases that came to no end", "stranded"),
)
HOW_TO_READ = (
    "One row for each way to fail, one column for each store. n/m: n cases with a violation, of m that were tried; or n states "
    "of a power loss that miss something acknowledged, of m that were looked at. A dash: not tried, see below."
)
RECOVERY = "From the opened store to the first new operation after a kill: the median, and the longest. The scale is logarithmic."
GROWTH = (
    "Bytes that the process writes for one operation, in each fifth of an undisturbed story; × compares the last fifth with the "
    "second. The scale is logarithmic. A store whose server writes for it is not counted."
)


def page(card: Scorecard) -> str:
    """The whole report."""
    protocol = escape(card.header.protocol)
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width, initial-scale=1'>",
        f"<title>Recovery protocol {protocol}</title><style>{STYLE}</style>",
        f"<h1>Recovery protocol {protocol}</h1>", _banner(card),
        f"<h2>Failure modes, measured</h2><p>{HOW_TO_READ}</p>", _matrix(card),
        "<h2>What went wrong</h2>", _sums(card), _about(card),
        f"<h2>Time to recover</h2><p>{RECOVERY}</p>", _recovery(card),
        f"<h2>What is written</h2><p>{GROWTH}</p>", _growth(card),
        "<h2>Controls</h2><p>Each fault must catch a subject that is known to be broken; else it proves nothing.</p>",
        _controls(card), "<h2>Failures</h2>", _failures(card), "<h2>Task by task</h2>", _tasks(card),
        "<h2>Not tried</h2>", _skipped(card), "</html>",
    ]  # fmt: skip
    return "\n".join(parts)


def _banner(card: Scorecard) -> str:
    ran = sum(subject.total.ran for subject in card.subjects.values())
    kills = sum(subject.total.sums["kills"] for subject in card.subjects.values())
    extent = "all that was planned" if card.complete else "the time was over before all that was planned"
    where = f"seed {card.header.seed}, Perdure {escape(card.header.perdure)}, {card.machine['cores']} cores"
    about = f"{where}; {ran:,} cases with {kills:,} kills: {extent}."
    if card.valid:
        return f"<p class=banner>Every fault was shown to bite: its control was caught. {about}</p>"
    return f"<p class='banner bad'>NOT VALID: a control was not caught, or a case could not be tried. {about}</p>"


# -- tables ----------------------------------------------------------------------------------------------------------


def _table(card: Scorecard, rows: Iterable[str]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in card.subjects)
    return f"<div class=scroll><table><tr><th></th>{head}</tr>{''.join(rows)}</table></div>"


def _row(name: str, about: str, cells: Iterable[str]) -> str:
    return f"<tr><th>{escape(name)}<small>{escape(about)}</small></th>{''.join(cells)}</tr>"


def _marked(text: str, *, bad: bool) -> str:
    return f"<td class={'bad' if bad else 'good'}>{text}</td>"


def _matrix(card: Scorecard) -> str:
    tried = [fault for fault in FAULTS.values() if fault.name != "none" and _of(card, fault.name)]
    return _table(
        card,
        (
            _row(fault.name, fault.about, (_cell(subject, fault.name) for subject in card.subjects.values()))
            for fault in tried
        ),
    )


def _of(card: Scorecard, fault: str) -> list[Tally]:
    return [cells[fault] for subject in card.subjects.values() for cells in subject.cells.values() if fault in cells]


def _cell(subject: Subjected, fault: str) -> str:
    return _tried([cells[fault] for cells in subject.cells.values() if fault in cells])


def _tried(tallies: list[Tally]) -> str:
    """Cases with a violation of cases; of a power loss, states that lost something of states."""
    ran, failed = sum(tally.ran for tally in tallies), sum(tally.failed for tally in tallies)
    states = sum(tally.sums["states"] for tally in tallies)
    if not ran:
        return "<td class=none>–</td>"
    if states:
        lost = sum(tally.sums["acknowledged_lost"] for tally in tallies)
        return _marked(f"{lost:,}/{states:,}<br><small>states</small>", bad=bool(lost or failed))
    return _marked(f"{failed:,}/{ran:,}", bad=bool(failed))


def _sums(card: Scorecard) -> str:
    totals = [total.total for total in card.subjects.values()]
    rows = [
        _row(what, about, (_marked(f"{total.sums[name]:,}", bad=bool(total.sums[name])) for total in totals))
        for what, about, name in MEANT
    ]
    rows.append(
        _row("Doubt guessed away", "and how often a person was asked", (
            _marked(f"{one.sums['guessed']:,} <small>asked: {one.sums['surfaced']:,}</small>", bad=bool(one.sums["guessed"]))
            for one in totals)),
    )  # fmt: skip
    rows.append(_row("Audit: missing, invented", "of effects that arrived", map(_audit, totals)))
    rows.append(_row("Cases", "with kills", (f"<td>{total.ran:,}, {total.sums['kills']:,}</td>" for total in totals)))
    return _table(card, rows)


def _audit(total: Tally) -> str:
    missing, invented = total.sums["audit_missing"], total.sums["audit_invented"]
    return _marked(
        f"{missing:,}, {invented:,} <small>of {total.sums['effects']:,}</small>", bad=bool(missing or invented)
    )


def _about(card: Scorecard) -> str:
    return (
        "<ul>"
        + "".join(f"<li><b>{escape(name)}</b>: {escape(subject.about)}</li>" for name, subject in card.subjects.items())
        + "</ul>"
    )


def _tasks(card: Scorecard) -> str:
    tasks = dict.fromkeys(task for subject in card.subjects.values() for task in subject.cells)
    return "".join(
        f"<details><summary>{escape(task)}</summary>{_table(card, _faults_of(card, task))}</details>" for task in tasks
    )


def _faults_of(card: Scorecard, task: str) -> Iterator[str]:
    own = [subject.cells.get(task, {}) for subject in card.subjects.values()]
    for fault in dict.fromkeys(fault for cells in own for fault in cells):
        yield _row(fault, "", (_tried([cells[fault]] if fault in cells else []) for cells in own))


def _controls(card: Scorecard) -> str:
    rows = [
        f"<tr><th>{escape(fault)}</th><td>{escape(control.subject)}</td>"
        + (f"<td class=good>caught: <code>{escape(control.case)}</code></td>" if control.case
           else f"<td class=bad>NOT CAUGHT in {control.tried} cases</td>") + "</tr>"
        for fault, control in card.controls.items()
    ]  # fmt: skip
    return f"<div class=scroll><table>{''.join(rows)}</table></div>"


# -- plots -----------------------------------------------------------------------------------------------------------


def _recovery(card: Scorecard) -> str:
    drawn: list[tuple[str, float, str]] = []
    for name, subject in card.subjects.items():
        if subject.total.recover_median_seconds is not None and subject.total.recover_max_seconds is not None:
            middle, longest = subject.total.recover_median_seconds * 1000, subject.total.recover_max_seconds * 1000
            drawn.append((name, math.log10(1 + middle), f"{middle:.1f} ms, longest {longest:,.0f} ms"))
    return bars(drawn)


def _growth(card: Scorecard) -> str:
    tasks = dict.fromkeys(
        task for subject in card.subjects.values() for task, cells in subject.cells.items() if "none" in cells
    )
    return "".join(
        f"<h3>{escape(task)}</h3>{lines(drawn)}" for task in tasks if (drawn := list(_drawn(card, task)))
    )  # fmt: skip


def _drawn(card: Scorecard, task: str) -> Iterator[PlotLine]:
    """The subjects that were counted at a task that is long enough for its fifths to say something."""
    for name, subject in card.subjects.items():
        cell = subject.cells.get(task, {}).get("none")
        if cell is not None and cell.bytes_fifths and cell.sums["operations"] >= LONG:
            fifths = cell.bytes_fifths
            yield PlotLine(name, fifths, f"{fifths[-1]:,.0f} B, × {grown(fifths):.2f}")


LONG = 100  # operations


# -- lists -----------------------------------------------------------------------------------------------------------


def _failures(card: Scorecard) -> str:
    """By subject; a subject may have hundreds."""
    if not card.failures:
        return "<p>None.</p>"
    parts: list[str] = []
    for subject, group in groupby(sorted(card.failures, key=_subject), key=_subject):
        own = list(group)
        total = card.subjects[subject].total.failed if subject in card.subjects else len(own)
        extent = f"{len(own)} of {total} shown; all are in cases.jsonl" if total > len(own) else f"{total}"
        parts.append(f"<details><summary><b>{escape(subject)}</b>: {extent}</summary>")
        parts += [*map(_failure, own), "</details>"]
    return "".join(parts)


def _subject(failure: Failure) -> str:
    return failure.case.rsplit("/", 3)[0]


def _failure(failure: Failure) -> str:
    lives = "\n".join(f"life {number}: {life}" for number, life in enumerate(failure.lives, 1))
    note = f"{failure.note}\n" if failure.note else ""
    text = escape(f"{note}{lives}\n\n" + "\n".join(failure.detail) + f"\n\n{failure.replay}")
    where = "/".join(failure.case.rsplit("/", 3)[1:])
    head = f"<code>{escape(where)}</code> <span class=bad>{escape(', '.join(failure.violations))}</span>"
    return f"<details><summary>{head}</summary><pre>{text}</pre></details>"


def _skipped(card: Scorecard) -> str:
    """With the reasons; what has the same reason under the same fault stands together."""
    together: dict[tuple[str, str], dict[str, list[str]]] = {}
    for what, why in card.skipped.items():
        subject, task, fault = what.rsplit("/", 2) if what.count("/") > 1 else ("", "", what)
        together.setdefault((fault, why), {}).setdefault(task, []).append(subject)
    listed = [f"{escape(fault)}: {escape(why)}{_where(tasks)}" for (fault, why), tasks in together.items()]
    listed += [f"<span class=bad>broken</span> {escape(problem)}" for problem in card.broken]
    return f"<ul>{''.join(f'<li>{item}</li>' for item in listed)}</ul>" if listed else "<p>–</p>"


def _where(tasks: dict[str, list[str]]) -> str:
    """The subjects and tasks that a reason is about."""
    subjects = dict.fromkeys(name for names in tasks.values() for name in names if name)
    return f" <small>({escape(', '.join(subjects))}; {escape(', '.join(tasks))})</small>" if subjects else ""

"""`report.html`: one file, no scripts, readable on a phone. Everything in it is measured; everything from outside is escaped."""

from __future__ import annotations

from html import escape

from perdure.evaluation.recovery.faults import FAULTS
from perdure.evaluation.recovery.scorecard import Failure, Scorecard, Subjected, Tally

STYLE = """
:root { color-scheme: light dark; --bad: #b3261e; --good: #1b6e3c; --line: #8884; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 70rem; padding: 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .875rem; }
th, td { border-bottom: 1px solid var(--line); padding: .4rem .7rem; text-align: left; vertical-align: top; white-space: nowrap; }
th:first-child { position: sticky; left: 0; background: Canvas; }
.bad { color: var(--bad); font-weight: 600; } .good { color: var(--good); } .none { opacity: .6; }
code { font-size: .8rem; overflow-wrap: anywhere; } details { border-bottom: 1px solid var(--line); padding: .5rem 0; }
pre { overflow-x: auto; background: #8881; padding: .6rem; font-size: .8rem; }
svg { width: 100%; max-width: 44rem; height: auto; }
.banner { padding: .8rem 1rem; border: 2px solid; border-radius: .4rem; }
"""
RECOVERY = "From the opened store to the first new operation after a kill; median, and the longest."
GROWTH = (
    "Bytes an operation in the last fifth of an undisturbed story; in brackets: times the first fifth. "
    "A store whose server writes for it is not counted."
)
MODES = (  # failure mode -> the faults that bring it about
    ("Crash at a boundary", ("kill", "kills")),
    ("Crash during a write", ("syscall",)),
    ("Power loss, torn files", ("power",)),
    ("Concurrent resumption", ("race",)),
    ("Disk full", ("full",)),
)
SUMS = (  # what was counted over all faults
    ("Tool call duplicated", "duplicates"),
    ("Effect lost", "lost"),
    ("Acknowledged state lost", "acknowledged_lost"),
    ("Wrong resumption, in silence", "wrong"),
    ("Stranded", "stranded"),
)


def page(card: Scorecard) -> str:
    """The whole report."""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width, initial-scale=1'>",
        f"<title>Recovery protocol {escape(card.header.protocol)}</title><style>{STYLE}</style>",
        f"<h1>Recovery protocol {escape(card.header.protocol)}</h1>", _banner(card),
        "<h2>Failure modes, measured</h2>", _matrix(card),
        f"<h2>Time to recover</h2><p>{RECOVERY}</p>", _recovery(card),
        f"<h2>What is written</h2><p>{GROWTH}</p>", _growth(card),
        "<h2>Controls</h2>", _controls(card), "<h2>Failures</h2>", *(_failure(each) for each in card.failures),
        "" if card.failures else "<p>None.</p>", "<h2>Not tried</h2>", _skipped(card), "</html>",
    ]  # fmt: skip
    return "\n".join(parts)


def _banner(card: Scorecard) -> str:
    ran = sum(each.total.ran for each in card.subjects.values())
    whole = "all that was planned" if card.complete else "the time was over before all that was planned"
    where = f"seed {card.header.seed}, Perdure {escape(card.header.perdure)}, {card.machine['cores']} cores"
    about = f"{where}; {ran} cases, {whole}."
    if card.valid:
        return f"<p class=banner>Every fault was shown to bite: its control was caught. {about}</p>"
    return f"<p class='banner bad'>NOT VALID: a control was not caught, or a case could not be tried. {about}</p>"


def _matrix(card: Scorecard) -> str:
    rows = [_row(mode, [_cell(each, faults) for each in card.subjects.values()]) for mode, faults in MODES]
    rows += [_row(what, [_count(each.total, name) for each in card.subjects.values()]) for what, name in SUMS]
    rows.append(_row("Doubt: asked / guessed", [_doubt(each.total) for each in card.subjects.values()]))
    rows.append(_row("Audit: missing / invented", [_audit(each.total) for each in card.subjects.values()]))
    head = "".join(
        f"<th title='{escape(each.about, quote=True)}'>{escape(name)}</th>" for name, each in card.subjects.items()
    )
    about = "".join(f"<li><b>{escape(name)}</b>: {escape(each.about)}</li>" for name, each in card.subjects.items())
    table = f"<div class=scroll><table><tr><th></th>{head}</tr>{''.join(rows)}</table></div>"
    return f"{table}<p>n/m: so many of m cases had a violation.</p><ul>{about}</ul>"


def _row(name: str, cells: list[str]) -> str:
    return f"<tr><th>{escape(name)}</th>{''.join(cells)}</tr>"


def _cell(subject: Subjected, faults: tuple[str, ...]) -> str:
    found = [cell for cells in subject.cells.values() for fault, cell in cells.items() if fault in faults]
    ran, failed = sum(cell.ran for cell in found), sum(cell.failed for cell in found)
    if not ran:
        return "<td class=none>not tried</td>"
    return f"<td class={'bad' if failed else 'good'}>{failed}/{ran}</td>"


def _count(total: Tally, name: str) -> str:
    count = total.sums[name]
    return f"<td class={'bad' if count else 'good'}>{count}</td>"


def _doubt(total: Tally) -> str:
    guessed = total.sums["guessed"]
    return f"<td class={'bad' if guessed else 'good'}>{total.sums['surfaced']} / {guessed}</td>"


def _audit(total: Tally) -> str:
    missing, invented = total.sums["audit_missing"], total.sums["audit_invented"]
    return (
        f"<td class={'bad' if missing or invented else 'good'}>{missing} / {invented} of {total.sums['effects']}</td>"
    )


def _recovery(card: Scorecard) -> str:
    bars = []
    for name, each in card.subjects.items():
        if each.total.recover_median_seconds is not None and each.total.recover_max_seconds is not None:
            middle, longest = each.total.recover_median_seconds * 1000, each.total.recover_max_seconds * 1000
            bars.append((name, middle, f"{middle:.1f} ms; {longest:.0f} ms"))
    return _bars(bars)


def _growth(card: Scorecard) -> str:
    bars = []
    for name, each in card.subjects.items():
        for task, cells in each.cells.items():
            cell = cells.get("none")
            if cell is not None and cell.bytes_first and cell.bytes_last and task.endswith("-500"):
                times = cell.bytes_last / cell.bytes_first
                bars.append((f"{name}, {task}", cell.bytes_last, f"{cell.bytes_last:,.0f} B (× {times:.1f})"))
    return _bars(bars)


def _bars(bars: list[tuple[str, float, str]]) -> str:
    """Bars with their figures: a picture that needs no script."""
    if not bars:
        return "<p class=none>Nothing was measured.</p>"
    most = max(value for _, value, _ in bars) or 1
    height = 44 * len(bars)
    drawn = [
        f"<text x=0 y={44 * at + 14} font-size=13 fill=currentColor>{escape(name)}: {escape(said)}</text>"
        f"<rect x=0 y={44 * at + 20} width={max(value / most * 600, 1):.1f} height=12 fill=currentColor opacity=.5 />"
        for at, (name, value, said) in enumerate(bars)
    ]
    return f"<svg viewBox='0 0 620 {height}' role=img>{''.join(drawn)}</svg>"


def _controls(card: Scorecard) -> str:
    rows = [
        f"<tr><th>{escape(fault)}</th><td>{escape(FAULTS[fault].about)}</td><td>{escape(each.subject)}</td>"
        + (f"<td class=good>caught by <code>{escape(each.case)}</code></td>" if each.case
           else f"<td class=bad>NOT CAUGHT in {each.tried} cases</td>") + "</tr>"
        for fault, each in card.controls.items()
    ]  # fmt: skip
    return f"<div class=scroll><table>{''.join(rows)}</table></div>"


def _failure(each: Failure) -> str:
    lives = "\n".join(f"life {number}: {life}" for number, life in enumerate(each.lives, 1))
    note = f"{each.note}\n" if each.note else ""
    text = escape(f"{note}{lives}\n\n" + "\n".join(each.detail) + f"\n\n{each.replay}")
    head = f"<code>{escape(each.case)}</code> <span class=bad>{', '.join(each.violations)}</span>"
    return f"<details><summary>{head}</summary><pre>{text}</pre></details>"


def _skipped(card: Scorecard) -> str:
    listed = [*card.skipped.items(), *(("broken", said) for said in card.broken)]
    return (
        "<ul>" + "".join(f"<li>{escape(what)}: {escape(why)}</li>" for what, why in listed) + "</ul>"
        if listed
        else "<p>–</p>"
    )

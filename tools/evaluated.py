"""Puts what an evaluation found into the README, so that its table is what was measured and nothing else.

    python tools/evaluated.py DIR        take DIR/scorecard.json: keep it as docs/scorecard.json, and write the table
    python tools/evaluated.py --check    change nothing; exit 1 if the table is not that of docs/scorecard.json

The rows of the table are kept, and one failure for each subject and fault; all of them are in DIR/cases.jsonl.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

import msgspec

from perdure_evaluate.recovery.score import grown
from perdure_evaluate.recovery.scorecard import Failure, Scorecard, Subjected, Tally

ROOT = Path(__file__).resolve().parent.parent
README, CARD = ROOT / "README.md", ROOT / "docs" / "scorecard.json"
BEGIN, END = "<!-- evaluated: written by tools/evaluated.py -->\n", "<!-- end of evaluated -->\n"
COUNTED = (
    ("sent twice", "duplicates"), ("never sent", "lost"), ("acknowledged, then lost", "acknowledged_lost"),
    ("wrong in silence", "wrong"), ("on stale state", "stale"), ("stranded", "stranded"), ("doubt guessed away", "guessed"),
)  # fmt: skip
GROWN_ON = "relay-500"
PLACE = re.compile(r"(?<![\w.:/-])/[\w.-]+(?:/[\w.-]+)+")


def table(card: Scorecard) -> str:
    """The subjects as rows, what was counted as columns, and the command that made it."""
    head = [
        "store",
        "cases",
        "kills",
        *(name for name, _ in COUNTED),
        "torn states that lost",
        "recovers in",
        "writes grow",
    ]
    rows = [[name, *_row(each)] for name, each in card.subjects.items()]
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    drawn = "".join(f"| {' | '.join(each.replace('|', '/') for each in line)} |\n" for line in lines)
    said = "every control was caught" if card.valid else "NOT VALID: a control was not caught"
    about = f"Protocol {card.header.protocol}, seed {card.header.seed}, {card.machine['cores']} cores; {said}."
    return f"{drawn}\n{about} Made by `{card.command.replace('`', '')}`.\n"


def _row(subject: Subjected) -> list[str]:
    total, sums = subject.total, subject.total.sums
    recovers = "–" if total.recover_median_seconds is None else f"{total.recover_median_seconds * 1000:.0f} ms"
    counted = [f"{sums[name]:,}" for _, name in COUNTED]
    return [f"{total.ran:,}", f"{sums['kills']:,}", *counted, _states(subject), recovers, _growth(subject)]


def _states(subject: Subjected) -> str:
    found = [cells["outages"] for cells in subject.cells.values() if "outages" in cells]
    states, lost = (sum(each.sums[name] for each in found) for name in ("states", "acknowledged_lost"))
    return f"{lost:,} of {states:,}" if states else "–"


def _growth(subject: Subjected) -> str:
    cell = subject.cells.get(GROWN_ON, {}).get("none")
    return f"× {grown(cell.bytes_fifths):.1f}" if cell is not None and cell.bytes_fifths else "–"


def kept(card: Scorecard) -> Scorecard:
    """The rows of the table, and one failure for each subject and fault, without the places of the machine that found it."""
    some: dict[tuple[str, str], Failure] = {}
    for failure in card.failures:
        subject, _, fault, _ = failure.case.rsplit("/", 3)
        some.setdefault((subject, fault), failure)
    subjects = {
        name: msgspec.structs.replace(subject, cells=_shown(subject)) for name, subject in card.subjects.items()
    }
    failures = [_placeless(failure) for failure in some.values()]
    return msgspec.structs.replace(card, subjects=subjects, failures=failures, controls={}, skipped={})


def _shown(subject: Subjected) -> dict[str, dict[str, Tally]]:
    """The cells of a subject that the table shows apart."""
    wanted = {
        task: {
            fault: cell for fault, cell in cells.items() if fault == "outages" or (task, fault) == (GROWN_ON, "none")
        }
        for task, cells in subject.cells.items()
    }
    return {task: cells for task, cells in wanted.items() if cells}


def _placeless(failure: Failure) -> Failure:
    said = [PLACE.sub("…", each) for each in failure.lives]
    return msgspec.structs.replace(failure, lives=said, replay=re.sub(r" --out \S+", " --out recovery", failure.replay))


def laid_out(card: Scorecard) -> str:
    """A line for each subject and each failure, so that a difference can be read."""
    lines = []
    for name, value in msgspec.to_builtins(card).items():
        match value:
            case dict() if name == "subjects":
                lines.append(
                    f'"{name}": {{\n' + ",\n".join(f'"{key}": {json.dumps(item)}' for key, item in value.items()) + "}"
                )
            case [_, *_]:
                lines.append(f'"{name}": [\n' + ",\n".join(map(json.dumps, value)) + "]")
            case _:
                lines.append(f'"{name}": {json.dumps(value)}')
    return "{\n" + ",\n".join(lines) + "}\n"


def written(readme: str, card: Scorecard) -> str:
    """The README with this table in its place."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"README.md has no place for the table: {BEGIN.strip()} … {END.strip()}")
    return f"{before}{BEGIN}{table(card)}{END}{after}"


def main() -> int:
    """Take an evaluation, or compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dir", nargs="?", type=Path)
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    if (asked.dir is None) is not asked.check:
        parser.error("name a folder, or --check")
    source = CARD if asked.check else asked.dir / "scorecard.json"
    card = msgspec.json.decode(source.read_bytes(), type=Scorecard)
    text = written(README.read_text("utf-8"), card)
    if asked.check:
        return int(text != README.read_text("utf-8"))
    CARD.write_text(laid_out(kept(card)), "utf-8")
    README.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

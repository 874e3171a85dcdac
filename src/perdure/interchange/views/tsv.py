"""A page as a table: one thing a row, tabs between, for spreadsheets, `cut` and `awk`. Pure. Callers: `forms`.

An empty cell is a field that is not there; an empty text is `\\u{}`. No cell is a formula.
"""

from __future__ import annotations

from perdure.interchange.views.escapes import for_cell, unescaped
from perdure.interchange.views.view import ABOUT, SECTIONS, Holds, PageThing, SessionPage, wrong

COLUMNS = (
    "what", "id", "status", "text", "because", "then", "outcome", "note", "priority", "parent", "needs", "labels", "version",
    "value", "bytes", "kind", "actor", "at",
)  # fmt: skip
# the column of a field, where it has another name
_COLUMN = {
    "session": {"title": "text"},
    "goal": {"goal": "text"},
    "decision": {"tags": "labels"},
    "task": {"title": "text", "by": "actor"},
    "value": {"name": "id"},
    "event": {"seq": "id", "says": "text"},
}
_GOAL = {"goal": ABOUT["goal"]}
_SESSION = {name: holds for name, holds in ABOUT.items() if name != "goal"}
_SECTION_OF = {section.one: name for name, section in SECTIONS.items()}
_FIELDS = {"session": _SESSION, "goal": _GOAL} | {section.one: section.fields for section in SECTIONS.values()}


def lines_of(view: SessionPage) -> list[str]:
    """The page, row by row."""
    rows = [_row("session", view.about)]
    if "goal" in view.about:
        rows.append(_row("goal", view.about))
    rows += [
        _row(section.one, thing.fields) for name, section in SECTIONS.items() for thing in view.things.get(name, [])
    ]
    return ["\t".join(COLUMNS), *rows]


def _row(what: str, fields: dict[str, str]) -> str:
    cells: dict[str, str] = dict.fromkeys(COLUMNS, "")
    cells["what"] = what
    for name, holds in _FIELDS[what].items():
        if name in fields:
            text = fields[name]
            cells[_COLUMN[what].get(name, name)] = for_cell(text) if holds is Holds.TEXT else text
    return "\t".join(cells.values()).rstrip("\t")


def read_lines(lines: list[tuple[int, str]]) -> tuple[dict[str, str], dict[str, list[PageThing]]]:
    """Read a page's statements about the session, and the things on it. Raises Invalid with the line of what cannot be read."""
    rows = [(number, line.split("\t")) for number, line in lines if line.strip() and not line.startswith("#")]
    if not rows or tuple(rows[0][1]) != COLUMNS:
        raise wrong(rows[0][0] if rows else 1, "the first row does not name the columns", "leave them as they were")
    about: dict[str, str] = {}
    things: dict[str, list[PageThing]] = {name: [] for name in SECTIONS}
    for number, cells in rows[1:]:
        what = cells[0]
        if what not in _FIELDS or len(cells) > len(COLUMNS):
            raise wrong(number, "this row cannot be read", f"the first cell is one of {', '.join(_FIELDS)}")
        fields = _fields(number, what, dict(zip(COLUMNS, cells, strict=False)))
        if what in _SECTION_OF:
            things[_SECTION_OF[what]].append(PageThing(fields, number))
        elif about.keys() & fields.keys():
            raise wrong(number, f"{what} stands here twice")
        else:
            about |= fields
    return about, things


def _fields(number: int, what: str, cells: dict[str, str]) -> dict[str, str]:
    known = {_COLUMN[what].get(name, name): (name, holds) for name, holds in _FIELDS[what].items()}
    found: dict[str, str] = {}
    for column, cell in cells.items():
        if column == "what" or not cell.strip(" "):
            continue
        if column not in known:
            raise wrong(number, f"a {what} has no {column}")
        name, holds = known[column]
        found[name] = unescaped(cell, number) if holds is Holds.TEXT else cell.strip(" ")
    return found

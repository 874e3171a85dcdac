"""Each verb is on each door, or a reason says why not: in its declaration, or in docs/surface/doors.txt and arguments.txt."""

from __future__ import annotations

import pytest

from surface.reading import ARGUMENTS, DOORS, beside, gaps, load, reasons

TOOL = load()
# Cells and rows that nobody has decided: none. A new gap is offered, or a reason says why not.
DRIFT = {"http": 0, "cli": 0, "mcp": 0}


def offered(door: str) -> set[str]:
    """Everything that a door has: routes by name, commands with their word, tools."""
    names = {"http": TOOL.routes, "cli": TOOL.commands, "mcp": lambda: TOOL.TOOLS}[door]()
    return {name for name in names if door != "cli" or " " not in name}


def unknown(table: dict[str, dict[str, str]]) -> list[str]:
    """The cells that name nobody: a route, a command, a tool or a reason that is not there."""
    known, explained = {door: offered(door) for door in TOOL.DOORS}, reasons(DOORS)
    return [
        f"{verb}, {door}: {cell}"
        for verb, cells in table.items()
        for door, cell in cells.items()
        if cell != "drift"
        and not (cell.startswith("- ") and verb in TOOL.ROWS and cell == TOOL.said(TOOL.ROWS[verb], verb)[door])
        and not (cell.removeprefix("- ") in explained if cell.startswith("- ") else {*cell.split(", ")} <= known[door])
    ]


def undecided(table: dict[str, dict[str, str]]) -> dict[str, int]:
    return {door: sum(cells[door] == "drift" for cells in table.values()) for door in TOOL.DOORS}


def test_every_verb_has_a_row_and_every_row_a_verb() -> None:
    table, verbs = TOOL.offers(), TOOL.verbs()
    assert len(verbs) >= 220
    assert verbs.keys() - table.keys() == set(), "a new verb: on which doors is it?"
    assert table.keys() - verbs.keys() == set(), "a row of a verb that is gone"


def test_every_cell_names_who_offers_it_or_a_reason() -> None:
    assert unknown(TOOL.offers()) == []


@pytest.mark.parametrize("door", ["http", "cli", "mcp"])
def test_every_route_command_and_tool_is_of_a_verb_or_has_a_reason(door: str) -> None:
    names = {name for cells in TOOL.offers().values() for name in TOOL.offerers(cells[door])}
    alone = {name.removeprefix("perdure ") for name in beside() if name.startswith("perdure ") == (door == "cli")}
    assert offered(door) - names - alone == set(), "it is in no row of docs/surface/doors.txt"
    assert alone & names == set(), "it offers a verb, and is listed as one that offers none"
    assert door == "mcp" or alone <= offered(door), "a row of what is gone"


def test_what_offers_no_verb_says_why() -> None:
    assert {*beside().values()} <= reasons(DOORS)
    assert len(beside()) > 50


def test_no_cell_is_undecided() -> None:
    assert undecided(TOOL.offers()) == DRIFT


def test_every_argument_is_taken_or_a_row_says_why_not() -> None:
    lacking = {pair: len(verbs) for pair, verbs in TOOL.lacking().items()}
    agreed = {(gap.door, gap.argument): gap.verbs for gap in gaps()}
    more = {pair: TOOL.lacking()[pair] for pair, count in lacking.items() if count > agreed.get(pair, 0)}
    less = {pair: lacking.get(pair, 0) for pair, count in agreed.items() if lacking.get(pair, 0) < count}
    assert more == {}, "a door does not take an argument: take it, or say why not in docs/surface/arguments.txt"
    assert less == {}, "a gap is closed: lower its number in docs/surface/arguments.txt"


def test_an_argument_under_another_name_is_there() -> None:
    table, lacking = TOOL.offers(), TOOL.lacking()
    for gap in (gap for gap in gaps() if gap.why.startswith("as ")):
        for verb in lacking[gap.door, gap.argument]:
            names = set().union(*(TOOL.taken(gap.door, name) for name in TOOL.offerers(table[verb][gap.door])))
            assert names & {*gap.why.removeprefix("as ").split(", ")}, f"{verb}, {gap.door}: {gap.argument} {gap.why}"


def test_a_row_of_an_argument_has_a_reason_that_is_explained() -> None:
    explained = reasons(ARGUMENTS)
    assert [gap for gap in gaps() if not gap.why.startswith("as ")
            and gap.why.removeprefix("- ") not in explained] == []  # fmt: skip
    assert [gap for gap in gaps() if gap.why == "drift"] == []


def test_reasons_that_nothing_gives_are_gone() -> None:
    cells = {cell for row in TOOL.offers().values() for cell in row.values()}
    assert reasons(DOORS) - {cell.removeprefix("- ") for cell in cells} - {*beside().values()} == set()
    assert reasons(ARGUMENTS) - {gap.why.removeprefix("- ") for gap in gaps()} == set()


def test_control_a_new_gap_is_seen(monkeypatch) -> None:
    table = TOOL.offers()
    assert unknown(table | {"Session.say": {"http": "utter", "cli": "- nothing", "mcp": "say"}}) == [
        "Session.say, http: utter", "Session.say, cli: - nothing",
    ]  # fmt: skip
    assert undecided(table | {"Session.say": dict.fromkeys(TOOL.DOORS, "drift")}) == {
        door: count + 1 for door, count in DRIFT.items()
    }
    monkeypatch.setattr(TOOL, "taken", lambda _door, _name: {"text"})
    assert "Run.wait" in TOOL.lacking()["http", "name"]

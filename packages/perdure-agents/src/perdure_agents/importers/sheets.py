"""State files as rows: CSV, TSV, JSON, JSON lines and YAML. A mapping says what they mean, see `state`.

YAML is read by PyYAML's safe loader, which makes no objects; aliases are refused: a few lines of them are gigabytes.
Which of these a file is, is seen from what is in it; only YAML, which may look like anything, is believed its name.
Keeps P10, P15.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from perdure.errors import Invalid, Refused, TooLarge
from perdure.model.limits import VALUE_MAX_DEPTH
from perdure_agents.importers.items import ImportedRepair, LeftOut
from perdure_agents.importers.packed import plain
from perdure_agents.importers.sources import Record, Source, parsed_document, records, text_of

DELIMITERS = "\t,;|"
CELL_MAX_CHARS = 8 * 1024 * 1024
YAML_ENDINGS = (".yaml", ".yml")
CELL_ENDINGS = (".csv", ".tsv")  # of which one with a single column has nothing between its cells


class Row(NamedTuple):
    """One row. `name` is the key of a document that is an object of rows."""

    cells: dict[str, Any]
    place: str
    name: str = ""


def rows_of(source: Source) -> Iterator[Row | LeftOut | ImportedRepair]:
    """The rows of a file. Invalid if it is none of these."""
    if source.path.suffix.lower() in YAML_ENDINGS:
        yield from _tree_rows(_yaml(text_of(source.path), source), source)
        return
    text = text_of(source.path)
    if text.lstrip()[:1] in ("{", "["):
        yield from _json_rows(text, source)
    elif source.path.suffix.lower() in CELL_ENDINGS or any(delimiter in _first_line(text) for delimiter in DELIMITERS):
        yield from _cells(text, source)
    else:
        yield from _tree_rows(_yaml(text, source), source)


def _first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), "")


# -- trees -------------------------------------------------------------------------------------------------------


def _json_rows(text: str, source: Source) -> Iterator[Row | LeftOut | ImportedRepair]:
    try:
        tree = parsed_document(text, source.path)
    except Invalid:
        for record in records(source, lambda _: True):
            yield Row(record.data, record.place) if isinstance(record, Record) else record
        return
    yield from _tree_rows(tree, source)


def _tree_rows(tree: Any, source: Source) -> Iterator[Row | LeftOut]:
    """A list of rows; an object that has one list of rows; an object of rows by name; an object that is one row of values."""
    listed = _list_in(tree)
    if listed is not None:
        for number, row in enumerate(listed):
            place = f"{source.name}:[{number}]"
            yield Row(row, place) if isinstance(row, dict) else LeftOut(place, "no object")
    elif isinstance(tree, dict):
        for name, value in tree.items():
            place = f"{source.name}:{str(name)[:80]}"
            yield Row(value if isinstance(value, dict) else {"value": value}, place, str(name))
    else:
        raise Invalid("neither a list of rows nor an object", path=source.name)


def _list_in(tree: Any) -> list[Any] | None:
    if isinstance(tree, list):
        return tree
    if isinstance(tree, dict):
        lists = [value for value in tree.values() if isinstance(value, list) and value and isinstance(value[0], dict)]
        return lists[0] if len(lists) == 1 else None
    return None


def _yaml(text: str, source: Source) -> Any:
    try:
        import yaml  # noqa: PLC0415 - an extra
    except ImportError:
        raise Refused("YAML needs an extra", path=source.name, hint="pip install 'perdure[yaml]'") from None
    try:
        _look_through(yaml, text, source)
        return plain(yaml.safe_load(text))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise Invalid(f"not YAML: {' '.join(str(error).split())[:120]}", path=source.name) from None


def _look_through(yaml: Any, text: str, source: Source) -> None:
    """Refuse what would take long to read: what is named once and repeated, and what is nested ever deeper."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise Invalid("YAML with aliases is not read: write them out", path=source.name)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > VALUE_MAX_DEPTH:
            raise TooLarge(f"nested more than {VALUE_MAX_DEPTH} deep", path=source.name)


# -- cells -------------------------------------------------------------------------------------------------------


def _cells(text: str, source: Source) -> Iterator[Row | LeftOut | ImportedRepair]:
    csv.field_size_limit(CELL_MAX_CHARS)
    head = _first_line(text)
    delimiter = max(DELIMITERS, key=head.count)
    lines = io.StringIO(text.replace("\0", ""), newline="")
    reader = csv.DictReader(lines, delimiter=delimiter, restkey="", strict=True)
    reader.fieldnames = headings = _headings(reader.reader, source)
    yield from _doubled(headings, f"{source.name}:{reader.reader.line_num}")
    while True:
        try:
            row: Any = next(reader, None)
        except csv.Error as error:
            yield LeftOut(f"{source.name}:{reader.reader.line_num}", f"broken row: {error}")
            continue
        if row is None:
            return
        place = f"{source.name}:{reader.reader.line_num}"
        cells = {
            name.strip(): value for name, value in row.items() if isinstance(name, str) and name and value is not None
        }
        yield LeftOut(place, "more cells than there are headings") if row.get("") else Row(cells, place)


def _headings(rows: Iterator[list[str]], source: Source) -> list[str]:
    """The first row that says something. Invalid if that is broken or not there: nothing below it can be read."""
    try:
        headings = next((row for row in rows if any(cell.strip() for cell in row)), None)
    except csv.Error as error:
        raise Invalid(f"its headings cannot be read: {error}", path=source.name) from None
    if headings is None:
        raise Invalid("the file is empty", path=source.name)
    return headings


def _doubled(headings: list[str], place: str) -> Iterator[ImportedRepair]:
    for name, count in Counter(name.strip() for name in headings).items():
        if name and count > 1:
            yield ImportedRepair(place, f"{count} columns are called {name[:40]!r}: the last one is read")

"""Subjects: the people and things that a record is about, and the derived table that finds their records (docs/decisions/0035).

An event names its own subjects in its body. A row keeps those of its events in a column, so that a later event of the row has
them without a query; the row of a session or run holds them for everything in its stream. `derive` makes the table
(tenant, subject, stream, seq, of_seq) out of both: of_seq is the number of the record that an event belongs to, so that a listing
finds a question whose answer names somebody. Subjects are personal data: they stand in bodies and rows, never in a header.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from perdure.errors import Damaged
from perdure.log.change import Op
from perdure.log.event import Body
from perdure.log.table import Row, Table, TableClass

SUBJECTS = Table("subjects", TableClass.DERIVED, ("seq", "subject"), ("whole", "of_seq"), tenant=True)
# A scope has no row: events of this table say its subjects.
SCOPES = Table("scopes", TableClass.RECORDED, ("seq",), (), rowless=True, owns=True)


def subjects_in(column: str | None) -> list[str]:
    """The subjects in a column of a row. Damaged when it holds something else."""
    if not column:
        return []
    names = json.loads(column)
    if type(names) is not list or not all(type(name) is str for name in names):
        raise Damaged("the subjects are no list of names", path="about")
    return names


def as_column(subjects: Iterable[str]) -> str | None:
    """The column for these subjects: each once and sorted, so that equal sets are equal columns. None for nobody."""
    names = sorted(set(subjects))
    return json.dumps(names, ensure_ascii=False) if names else None


def with_subjects(column: str | None, more: Iterable[str]) -> str | None:
    """A column with these subjects added."""
    return as_column([*subjects_in(column), *more])


def rows_of(table: Table | None, seq: int, body: Body, old: Row | None, new: Row | None, of_seq: int) -> Iterator[Row]:
    """The rows of SUBJECTS that an event of a record gives. `whole`: the subject is that of everything in the stream."""
    stream_subjects: set[str] = set()
    own_subjects = set(body.subjects)
    if table is not None and table.owns:
        stream_subjects = _introduced(table, body, old, new)
    elif table is not None and table.about:
        own_subjects.update(subjects_in(((new or old) or {}).get("about")))
    for subject in sorted(own_subjects | stream_subjects):
        yield {"subject": subject, "seq": seq, "whole": int(subject in stream_subjects), "of_seq": of_seq}


def _introduced(table: Table, body: Body, old: Row | None, new: Row | None) -> set[str]:
    """The subjects that a stream has from this event on. A base event says all of them again: those before it may be emptied."""
    if table.rowless:
        return set(body.subjects)
    now = set(subjects_in((new or {}).get("about")))
    return now if old is None or body.op == Op.BASE else now - set(subjects_in(old["about"]))

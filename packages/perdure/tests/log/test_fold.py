"""The reducer's one step: what an event does to its row, also when what made the row was pruned."""

from __future__ import annotations

import pytest

from perdure.errors import Damaged
from perdure.log.event import Body
from perdure.log.fold import step
from perdure.log.table import Table, TableClass

SEQUENCED = Table("things", TableClass.RECORDED, ("seq",), ("a", "b"))
NAMED = Table("names", TableClass.RECORDED, ("name",), ("a",))
ONCE = Table("births", TableClass.RECORDED, ("seq",), ("a", "b"), once=("a",))


def apply(table, body, seq=5, rows=None, *, pruned=False):
    return step(table, body, seq, (rows or {}).get, pruned=pruned)


def test_rows_are_made_changed_and_taken_away():
    made = apply(SEQUENCED, Body("insert", set={"a": 1}))
    assert made == ((5,), None, {"seq": 5, "a": 1, "b": None})
    changed = apply(SEQUENCED, Body("set", {"seq": 5}, {"b": 2}, mark="a"), 6, {(5,): made.new})
    assert changed.new == {"seq": 5, "a": 6, "b": 2}
    assert apply(SEQUENCED, Body("delete", {"seq": 5}), 7, {(5,): changed.new}).new is None


@pytest.mark.parametrize("op", ["set", "delete"])
def test_what_became_of_a_pruned_row_is_passed_over(op):
    body = Body(op, {"seq": 3}, {"a": 1} if op == "set" else {})
    assert apply(SEQUENCED, body, pruned=True) is None
    with pytest.raises(Damaged, match="not there"):
        apply(SEQUENCED, body)


@pytest.mark.parametrize("pruned", [False, True])
def test_a_base_restates_and_nothing_is_made_twice(pruned):
    row = {"name": "x", "a": 1}
    assert apply(NAMED, Body("base", {"name": "x"}, {"a": 2}), rows={("x",): row}, pruned=pruned).new["a"] == 2
    with pytest.raises(Damaged, match="twice"):
        apply(NAMED, Body("insert", {"name": "x"}, {"a": 2}), rows={("x",): row}, pruned=pruned)


def test_a_key_that_lacks_a_column_is_damage():
    with pytest.raises(Damaged, match="lacks"):
        apply(NAMED, Body("set", {}, {"a": 1}))


@pytest.mark.parametrize("body", [
    Body("set", {"seq": 3}, {"a": 2}), Body("set", {"seq": 3}, {"b": 1}, mark="a"), Body("base", {"seq": 3}, {"b": 1}),
    Body("delete", {"seq": 3}),
])  # fmt: skip
def test_what_is_said_once_stays(body):
    """A store leaves such a column alone when it writes the row again: no event may say that it changed."""
    with pytest.raises(Damaged):
        apply(ONCE, body, rows={(3,): {"seq": 3, "a": 1, "b": None}})


@pytest.mark.parametrize("op", ["set", "base"])
def test_what_is_said_once_may_be_restated(op):
    row = {"seq": 3, "a": 1, "b": None}
    assert apply(ONCE, Body(op, {"seq": 3}, {"a": 1, "b": 2}), rows={(3,): row}).new == {"seq": 3, "a": 1, "b": 2}

"""What differs between two points: values are the same if they are written the same."""

from __future__ import annotations

import pytest

import perdure


@pytest.mark.parametrize(
    ("before", "after"), [(1, True), (0, False), (1, 1.0), ([1], [True]), ({"a": 0}, {"a": False})]
)
def test_values_that_python_takes_for_equal_differ_if_they_are_written_otherwise(before, after):
    with perdure.open("memory:") as store:
        session = store.session("a")
        session.set("x", before)
        then = session.at(session.info().last_seq)
        assert then.diff(session).same
        session.set("x", after)
        (found,) = then.diff(session).values
        assert (found.name, repr(found.before), repr(found.after)) == ("x", repr(before), repr(after))

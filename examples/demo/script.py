"""The model of the demo, which is no model: a script that always says the same. Both agents ask it.

It is asked with everything that was done so far and says what to do next, as a real one would. Its answers are the whole task:
find the bug, mend it, note it, commit, push, open a pull request, comment on it, merge it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

AGENT = "demo-mend"
MODEL = "a script, no model: it always says the same"
BRANCH = "fix-discount"
ENTRY = "- A discount is a percentage.\n"
MERGE = "merge"

BROKEN = '''"""Prices."""


def total(prices, discount=0):
    """The sum of the prices, less a discount in percent."""
    return sum(prices) * (1 - discount)
'''
MENDED = BROKEN.replace("(1 - discount)", "(1 - discount / 100)")
TESTS = '''"""Tests of the prices."""

import unittest

from prices import total


class Total(unittest.TestCase):
    def test_sum(self):
        self.assertEqual(total([1, 2, 3]), 6)

    def test_discount(self):
        self.assertEqual(total([50, 50], discount=10), 90)
'''
FILES = {"prices.py": BROKEN, "test_prices.py": TESTS, "CHANGELOG.md": "# Changes\n\n"}

Done = Sequence[Mapping[str, Any]]
SCRIPT: tuple[tuple[str, Callable[[Done], dict[str, Any]]], ...] = (
    ("test", lambda _: {}),
    ("fix", lambda _: {"path": "prices.py", "content": MENDED}),
    ("note", lambda _: {"path": "CHANGELOG.md", "entry": ENTRY}),
    ("test", lambda _: {}),
    ("commit", lambda _: {"message": "A discount is a percentage"}),
    ("push", lambda done: {"sha": done[-1]["sha"]}),
    ("pull", lambda _: {"title": "A discount is a percentage", "head": BRANCH}),
    ("comment", lambda done: {"number": done[-1]["number"], "text": "The tests pass. Ready to merge."}),
    (MERGE, lambda done: {"number": done[-2]["number"]}),
)
ACTIONS = tuple(name for name, _ in SCRIPT)


def answer(done: Done) -> dict[str, Any]:
    """The next action: {"call", "args"}; without a call, the task is done. Deterministic."""
    if len(done) == len(SCRIPT):
        return {"text": "The bug is mended and merged."}
    name, args = SCRIPT[len(done)]
    return {"call": name, "args": args(done)}

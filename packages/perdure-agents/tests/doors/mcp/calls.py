"""One call of every tool, with what must be there before it. For the tests of the server and for the program that kills it."""

from __future__ import annotations

from typing import Any

SESSION = "work"
# What is written before, in this order: decision 2, task 3, effect 4 (dispatched), effect 5 (planned).
BEFORE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("decide", {"text": "Use A", "because": "B breaks", "key": "before-1"}),
    ("task", {"title": "Write the test", "key": "before-2"}),
    ("effect_begin", {"tool": "mail", "args": {"to": "a"}, "key": "mail-1"}),
    ("effect_begin", {"tool": "push", "args": {"branch": "b"}, "key": "push-1"}),
    ("effect_dispatch", {"effect": f"session:{SESSION}/4", "key": "before-3"}),
)
READS: dict[str, dict[str, Any]] = {
    "boot": {"task": "write the test"},
    "recall": {"query": "test"},
    "search": {"query": "test"},
    "ready": {},
    "get": {"name": "branch"},
    "open_loops": {},
}
WRITES: dict[str, dict[str, Any]] = {
    "remember": {"text": "Tests run with make", "kind": "fact", "source": ["file:Makefile"], "tags": ["tests"]},
    "goal": {"text": "Login works"},
    "decide": {"text": "Use C", "because": "A is slow", "supersedes": 2},
    "close": {"decision": 2, "outcome": "worked"},
    "task": {"title": "Publish", "needs": [3], "priority": 1},
    "claim": {"task": 3},
    "move": {"task": 3, "to": "done", "note": "it passes"},
    "say": {"role": "user", "text": "Please go on"},
    "set": {"name": "branch", "value": {"name": "fix", "ahead": 2}, "expect": 0},
    "effect_begin": {"tool": "deploy", "args": {"to": "prod"}, "kind": "keyed"},
    "effect_dispatch": {"effect": f"session:{SESSION}/5"},
    "effect_commit": {"effect": f"session:{SESSION}/4", "outcome": "happened", "result": {"id": 7}},
    "effect_settle": {
        "effect": f"session:{SESSION}/4",
        "verdict": "happened",
        "evidence": "saw it",
        "result": {"id": 7},
    },
    "ask": {"question": "Merge?", "choices": ["merge", "hold"]},
}

"""Programs: which code drove a run, so that a changed one is noticed (P13).

The digest is taken of what the function means, not of how it is laid out: comments, blank lines and docstrings do not count.
Called when an agent is declared.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

from perdure.model.values import digest

PROGRAM_CHARS = 16


def program_of(fn: Callable[..., Any], pins: Mapping[str, Any]) -> str:
    """A short digest of a function's code and of the versions that it is pinned to."""
    return hashlib.sha256(_meaning(fn).encode() + digest(dict(pins), "pins")).hexdigest()[:PROGRAM_CHARS]


def _meaning(fn: Callable[..., Any]) -> str:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(fn)))
    except (OSError, TypeError, SyntaxError):  # no source: a function that was typed in, or compiled
        code = getattr(fn, "__code__", None)
        return f"{getattr(fn, '__qualname__', fn)} {code.co_code.hex() if code else ''}"
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and _is_text(body[0]):
            del body[0]
    return ast.dump(tree)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)

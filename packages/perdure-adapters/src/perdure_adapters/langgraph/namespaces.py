"""LangGraph's namespaces as scopes: ("users", "42") is the scope `langgraph/users.42`, and a key is the name of a value in it.

A label has no period in it, so names read as they are, and the namespaces below another are one range of names. Characters that
no name can have are written as in URLs. Everything from outside is checked here, before anything is read or written. Keeps P15.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import quote, unquote

from langgraph.store.base import InvalidNamespaceError, ListNamespacesOp, MatchCondition

from perdure.errors import Invalid
from perdure.model.limits import PAGE_MAX_ROWS, check_name
from perdure.planes.memory import across
from perdure.planes.memory.across import ScopeTree
from perdure.stores.store import Reads

PREFIX = "langgraph/"
SEPARATOR = "."
ANY = "*"
EMPTY_KEY = "%"  # no written text is that alone: a per cent sign in a text is written %25

Namespace = tuple[str, ...]


class BadNamespace(Invalid, InvalidNamespaceError):
    """A namespace that cannot be one: fix it. LangGraph's own error too, so that code which catches that still does."""


def checked(namespace: object, path: str = "namespace", *, empty: bool = False) -> Namespace:
    """A namespace: labels that are text, not empty and without periods. empty: none of them is fine too."""
    if isinstance(namespace, (str, bytes)) or not isinstance(namespace, Sequence):
        raise BadNamespace(f"expected a tuple of labels, got {type(namespace).__name__}", path=path)
    if not namespace and not empty:
        raise BadNamespace("a namespace needs a label", path=path)
    for i, label in enumerate(namespace):
        where = f"{path}[{i}]"
        if not isinstance(label, str):
            raise BadNamespace(f"a label is text, got {type(label).__name__}", path=where)
        if not label or SEPARATOR in label or "\0" in label:
            raise BadNamespace(f"a label is not empty and has no period or NUL in it, got {label[:40]!r}", path=where)
    return tuple(namespace)


def scope_of(namespace: Namespace) -> str:
    """The name of the scope that holds the items of a namespace."""
    return check_name(PREFIX + SEPARATOR.join(_written(label, "namespace") for label in namespace), "namespace")


def namespace_of(scope: str) -> Namespace:
    """The namespace of a scope."""
    return tuple(map(unquote, scope.removeprefix(PREFIX).split(SEPARATOR)))


def tree_of(namespace: Namespace) -> ScopeTree:
    """The scopes of a namespace and of those below it."""
    if not namespace:
        return ScopeTree(PREFIX, PREFIX)
    scope = scope_of(namespace)
    return ScopeTree(scope, scope + SEPARATOR)


def name_of(key: object) -> str:
    """The name of the value that holds the item of a key."""
    if not isinstance(key, str):
        raise Invalid(f"a key is text, got {type(key).__name__}", path="key")
    return check_name(_written(key, "key") or EMPTY_KEY, "key")


def key_of(name: str) -> str:
    """The key of an item, by the name of its value."""
    return "" if name == EMPTY_KEY else unquote(name)


def _written(text: str, path: str) -> str:
    if text.isprintable() and "%" not in text:
        return text
    try:
        return "".join(char if char.isprintable() and char != "%" else quote(char) for char in text)
    except UnicodeEncodeError:
        raise Invalid("the text has half of a surrogate pair in it", path=path) from None


# -- listing -------------------------------------------------------------------------------------------------


def check_listing(op: ListNamespacesOp) -> ListNamespacesOp:
    """A listing that can be carried out."""
    for i, condition in enumerate(op.match_conditions or ()):
        if condition.match_type not in ("prefix", "suffix"):
            problem = f"expected 'prefix' or 'suffix', got {condition.match_type!r}"
            raise Invalid(problem, path=f"match_conditions[{i}].match_type")
        checked(condition.path, f"match_conditions[{i}].path", empty=True)
    if op.max_depth is not None and (type(op.max_depth) is not int or op.max_depth < 1):
        raise Invalid(f"expected a number of labels, at least 1, got {op.max_depth!r}", path="max_depth")
    return op


def listed(reads: Reads, op: ListNamespacesOp) -> list[Namespace]:
    """The namespaces that hold an item now and match, cut to `max_depth`, in the order of their names."""
    conditions = op.match_conditions or ()
    namespaces: dict[Namespace, None] = {}
    end = op.offset + op.limit
    for scope in _scopes(reads, tree_of(_shared_stem(conditions))):
        namespace = namespace_of(scope)
        if all(namespace) and all(_matches(namespace, condition) for condition in conditions):
            namespaces[namespace[: op.max_depth]] = None
            if len(namespaces) >= end:
                break
    return [*namespaces][op.offset : end]


def _scopes(reads: Reads, tree: ScopeTree) -> Iterator[str]:
    after = None
    while True:
        page = across.scopes(reads, tree, after=after, limit=PAGE_MAX_ROWS)
        yield from page
        if len(page) < PAGE_MAX_ROWS:
            return
        after = page[-1]


def _shared_stem(conditions: Iterable[MatchCondition]) -> Namespace:
    """The labels that every match begins with: the longest prefix up to its first wildcard."""
    prefixes = [tuple(condition.path) for condition in conditions if condition.match_type == "prefix"]
    stems = [labels[: labels.index(ANY)] if ANY in labels else labels for labels in prefixes]
    return max(stems, key=len, default=())


def _matches(namespace: Namespace, condition: MatchCondition) -> bool:
    path = tuple(condition.path)
    if len(path) > len(namespace):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(pattern in (ANY, label) for pattern, label in zip(path, part, strict=True))

"""Listings whose keywords are the fields of a record of filters (`model.filters`): written once there, typed and shown here."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, get_type_hints

if TYPE_CHECKING:
    import inspect

S = TypeVar("S")
F = TypeVar("F")
T = TypeVar("T")
P = ParamSpec("P")


def filtered(record: Callable[P, F]) -> Callable[[Callable[[S, F], T]], Callable[Concatenate[S, P], T]]:
    """Let a method that takes a record be called with the fields of the record as keywords."""

    def listing(verb: Callable[[S, F], T]) -> Callable[Concatenate[S, P], T]:
        @functools.wraps(verb)
        def called(self: S, *args: P.args, **kwargs: P.kwargs) -> T:
            return verb(self, record(*args, **kwargs))

        called.__wrapped__ = _Shown(record)  # type: ignore[attr-defined]
        return called

    return listing


class _Shown:
    """The signature that `help` and editors show, made when somebody looks: `inspect` is not for every start."""

    def __init__(self, record: Callable[..., Any]) -> None:
        self._record = record

    @property
    def __signature__(self) -> inspect.Signature:
        return shown_filters(self._record)


def shown_filters(record: Callable[..., Any]) -> inspect.Signature:
    """The signature of a listing: `self`, the filters, and which page of it."""
    from inspect import Parameter, signature  # noqa: PLC0415 - see above

    made, types = signature(record), get_type_hints(record)
    taken = [each.replace(annotation=types[name]) for name, each in made.parameters.items()]
    page_last = sorted(taken, key=lambda each: each.name in {"limit", "after"})
    return made.replace(parameters=[Parameter("self", Parameter.POSITIONAL_OR_KEYWORD), *page_last])

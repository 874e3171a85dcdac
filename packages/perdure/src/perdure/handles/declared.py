"""Methods that are made of declarations (`verbs`): their names, signatures and docstrings, and the check of what they are given.

Checkers and editors read the signature from the types (`ParamSpec`); `help` and `inspect` from here. A keyword that a verb does
not take is a TypeError before anything is queued. Callers: `aio.made`, and by translation `sync.made`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.handles.filtered import shown_filters
from perdure.verbs.declaring import Verb, shown_signature, verb_of

if TYPE_CHECKING:
    import inspect

M = TypeVar("M", bound=Callable[..., Any])


class DeclaredMethod:
    """A verb as a method calls it. plane: what does it, loaded when it is first called."""

    __slots__ = ("_least", "_most", "_names", "_needed", "takes_checks", "verb")

    def __init__(self, function: Callable[..., Any]) -> None:
        code, defaults = function.__code__, function.__defaults__ or ()
        placed = code.co_varnames[: code.co_argcount]
        keywords = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
        self.verb: Verb = verb_of(function)
        self.takes_checks = "checks" in keywords
        self._names = frozenset({*placed, *keywords})
        self._needed = frozenset(keywords) - {*(function.__kwdefaults__ or ())}
        self._least = len(placed) - len(defaults)
        self._most = len(placed)

    @property
    def plane(self) -> Callable[..., Any]:
        """The function of the plane."""
        assert self.verb.plane is not None
        return self.verb.plane()

    def check(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """TypeError for arguments that the verb does not take. Mostly three comparisons: the whole answer is asked for when they
        say no.
        """
        names = kwargs.keys()
        if not (self._least <= len(args) <= self._most and names <= self._names and self._needed <= names):
            try:
                shown_signature(self.verb.function).bind(None, *args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{self.verb.name}() {error}") from None


def named_as(
    method: M,
    verb: Callable[..., Any],
    answer: Callable[[], Any] | None = None,
    filters: Callable[..., Any] | None = None,
) -> M:
    """A method under the name, with the docstring and the signature of its declaration. Tracebacks say its name, too.

    answer: what it gives, if that is not what the plane answers. filters: the record of a listing, whose fields are the keywords.
    """
    name = verb_of(verb).name
    method.__name__ = method.__qualname__ = name
    method.__doc__ = verb.__doc__
    method.__annotations__ = (
        {} if filters else {name: hint for name, hint in verb.__annotations__.items() if name != "return"}
    )
    method.__code__ = method.__code__.replace(co_name=name)  # type: ignore[attr-defined]
    method.__wrapped__ = ShownVerb(verb, answer, filters)  # type: ignore[attr-defined]
    return method


class ShownVerb:
    """The signature that `help` and editors show, made when somebody looks: `inspect` is not for every start."""

    def __init__(
        self, verb: Callable[..., Any], answer: Callable[[], Any] | None, filters: Callable[..., Any] | None
    ) -> None:
        self.verb = verb
        self._answer = answer
        self._filters = filters
        self.__globals__ = verb.__globals__  # where `typing.get_type_hints` looks

    @property
    def __signature__(self) -> inspect.Signature:
        shown = shown_signature(self.verb) if self._filters is None else shown_filters(self._filters)
        return shown if self._answer is None else shown.replace(return_annotation=self._answer())

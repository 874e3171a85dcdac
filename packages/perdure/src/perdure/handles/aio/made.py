"""Methods of handles that follow from declarations: one line in a class for a verb that is one call of one plane.

`gives` what the plane answers, `makes` a handle of it, `changes` the record of the handle itself, `replaces` it by another;
`reads`, `finds` and `lists` without writing. Each takes the light function that declares the verb (`perdure.verbs`).
"""

from __future__ import annotations

# async-only
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Self, TypeAlias, TypeVar

# end
# sync: from collections.abc import Callable
# sync: from typing import Annotated, Any, Concatenate, ParamSpec, Self, TypeAlias, TypeVar
from perdure.handles.declared import DeclaredMethod, named_as
from perdure.handles.later import checking
from perdure.planes.reading.paging import Page
from perdure.verbs.declaring import verb_of

P = ParamSpec("P")
R = TypeVar("R")
H = TypeVar("H")
S = TypeVar("S")
F = TypeVar("F")
A = TypeVar("A")

# async-only
Answer: TypeAlias = Coroutine[Any, Any, A]  # of a method: it is awaited
# end
# sync: Answer: TypeAlias = Annotated[A, "at once"]


async def _prepare(handle: Any, declared: DeclaredMethod, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """See that the arguments fit, and look at the checks of this machine before anything is queued."""
    declared.check(args, kwargs)
    if declared.takes_checks and kwargs.get("checks"):
        kwargs["checks"] = await handle._caller.work(checking.observed, kwargs["checks"])


def gives(verb: Callable[P, R]) -> Callable[Concatenate[Any, P], Answer[R]]:
    """A write, whose answer is that of the plane."""
    declared = DeclaredMethod(verb)

    async def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        await _prepare(self, declared, args, kwargs)
        answer: R = await self._write(declared.plane, *args, **kwargs)
        return answer

    return named_as(method, verb)


def makes(verb: Callable[P, Any], handle: Callable[[], Callable[..., H]]) -> Callable[Concatenate[Any, P], Answer[H]]:
    """A write that makes a thing, of which it gives a handle. Of two records that it made, the last."""
    declared = DeclaredMethod(verb)

    async def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> H:
        await _prepare(self, declared, args, kwargs)
        record = await self._write(declared.plane, *args, **kwargs)
        made = record[-1] if isinstance(record, tuple) else record
        return handle()(self._caller, self._stream, self._pin, made)

    return named_as(method, verb, handle)


def changes(verb: Callable[P, R]) -> Callable[Concatenate[S, P], Answer[S]]:
    """A write that changes the thing of this handle; the handle shows it then, and is given back."""
    declared = DeclaredMethod(verb)

    async def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        await _prepare(self, declared, args, kwargs)
        self._record = await self._write(declared.plane, self.seq, *args, **kwargs)
        return self

    return named_as(method, verb, lambda: Self)


def replaces(verb: Callable[P, Any]) -> Callable[Concatenate[S, P], Answer[S]]:
    """A write that puts another thing in the place of this one: the handle shows the old one, and one of the new one is given."""
    declared = DeclaredMethod(verb)

    async def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        await _prepare(self, declared, args, kwargs)
        self._record, new = await self._write(declared.plane, self.seq, *args, **kwargs)
        return type(self)(self._caller, self._stream, self._pin, new)

    return named_as(method, verb, lambda: Self)


def reads(verb: Callable[P, R]) -> Callable[Concatenate[Any, P], Answer[R]]:
    """A read of one stream."""
    declared = DeclaredMethod(verb)

    async def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        declared.check(args, kwargs)
        answer: R = await self._read(declared.plane, *args, **kwargs)
        return answer

    return named_as(method, verb)


def finds(verb: Callable[P, Any], handle: Callable[[], Callable[..., H]]) -> Callable[Concatenate[Any, P], Answer[H]]:
    """A read of one thing, of which it gives a handle."""
    declared = DeclaredMethod(verb)

    async def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> H:
        declared.check(args, kwargs)
        record = await self._read(declared.plane, *args, **kwargs)
        return handle()(self._caller, self._stream, self._pin, record)

    return named_as(method, verb, handle)


def reads_all(verb: Callable[P, R]) -> Callable[Concatenate[Any, P], Answer[R]]:
    """A read of a whole store."""
    declared = DeclaredMethod(verb)

    async def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        declared.check(args, kwargs)
        answer: R = await self._caller.read(declared.plane, *args, **kwargs)
        return answer

    return named_as(method, verb)


def lists(
    verb: Callable[[F], Any], filters: Callable[P, F], handle: Callable[[], Callable[..., H]]
) -> Callable[Concatenate[Any, P], Answer[Page[H]]]:
    """A listing of one stream, of handles. Its keywords are the fields of its record of filters."""
    plane = _plane(verb)

    async def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Page[H]:
        page: Page[Any] = await self._read(plane(), filters(*args, **kwargs))
        return page.each(lambda record: handle()(self._caller, self._stream, self._pin, record))

    return named_as(method, verb, lambda: _page_of(handle()), filters)


def lists_all(
    verb: Callable[[F], Any], filters: Callable[P, F], handle: Callable[[], Callable[..., H]]
) -> Callable[Concatenate[Any, P], Answer[Page[H]]]:
    """A listing of a whole store, of handles, each of a record and its stream."""
    plane = _plane(verb)

    async def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Page[H]:
        page: Page[Any] = await self._caller.read(plane(), filters(*args, **kwargs))
        return page.each(lambda each: handle()(self._caller, each[0], "", each[1]))

    return named_as(method, verb, lambda: _page_of(handle()), filters)


def pages_all(verb: Callable[[F], R], filters: Callable[P, F]) -> Callable[Concatenate[Any, P], Answer[R]]:
    """A listing of a whole store, of records."""
    plane = _plane(verb)

    async def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        page: R = await self._caller.read(plane(), filters(*args, **kwargs))
        return page

    return named_as(method, verb, lambda: verb_of(verb).answer, filters)


def _plane(verb: Callable[..., Any]) -> Callable[[], Callable[..., Any]]:
    plane = verb_of(verb).plane
    assert plane is not None
    return plane


def _page_of(handle: Any) -> Any:
    return Page[handle]

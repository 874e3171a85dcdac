"""Functions that users pass in, and what they declare about them.

Some are called in the middle of something and must be plain: a coroutine function would do nothing and look as if it had; so
would a generator function. Callers: `atomic`, `update` and `fold`; the declarations of tools and agents. Keeps P15.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeAlias, TypeVar

from perdure.errors import Invalid

# The types of a user's function: its parameters, without the run of an agent, and what it gives. Those of a class need not be
# written out (`perdure.Tool` is `Tool[..., Any]`): Python 3.11 knows no such defaults, type checkers do.
P = ParamSpec("P")
R = TypeVar("R")
if TYPE_CHECKING:
    import typing_extensions

    P_of = typing_extensions.ParamSpec("P_of", default=...)
    R_co = typing_extensions.TypeVar("R_co", covariant=True, default=Any)
else:
    P_of = ParamSpec("P_of")
    R_co = TypeVar("R_co", covariant=True)
Coro: TypeAlias = Coroutine[Any, Any, R]  # the result of an async function; acting, steps and runs give the R in it

_HINT = "write it with `def`, and await before or after the call"


class Named(Protocol):
    """A function under the name that the store keeps."""

    name: str
    fn: Callable[..., Any]


class Driven:
    """A function that only a store calls: an agent."""

    name: str


T = TypeVar("T", bound=Named)


class Declared(dict[str, T]):
    """The declarations of this process, by name: how the store's records find their functions.

    Two functions of one name stand under neither of them: which one a record means, nobody could tell. `clashes` says where
    they are. One that is declared anew (a module that is loaded again, a cell of a notebook, a function inside another)
    takes the place of the one before.
    """

    def __init__(self) -> None:
        super().__init__()
        self.clashes: dict[str, str] = {}

    def declare(self, entry: T) -> None:
        """Put it under its name, if that is free or was its own."""
        before = self.get(entry.name)
        if before is not None and _are_two(before.fn, entry.fn):
            del self[entry.name]
            self.clashes[entry.name] = f"{_where(before.fn)} and {_where(entry.fn)}"
        elif entry.name not in self.clashes:
            self[entry.name] = entry


def _are_two(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Whether these are two functions, and not one that is declared anew."""
    (module, name, file), (others_module, others_name, others_file) = _origin(one), _origin(other)
    if "<locals>" in name + others_name:
        return False
    if module == others_module or (file is not None and file == others_file):
        return name != others_name and module != "__main__"
    return True


def _origin(fn: Callable[..., Any]) -> tuple[str, str, str | None]:
    """Its module, its name there, and its file, if it tells one."""
    bare = inspect.unwrap(fn)
    code = getattr(bare, "__code__", None)
    return (
        str(getattr(bare, "__module__", "")),
        str(getattr(bare, "__qualname__", "")),
        getattr(code, "co_filename", None),
    )


def _where(fn: Callable[..., Any]) -> str:
    return ".".join(_origin(fn)[:2])


def plain(fn: Callable[..., Any], path: str) -> Callable[..., Any]:
    """The function, refusing to give what would have to be awaited. Raises Invalid before anything is called."""
    if not callable(fn):
        raise Invalid(f"expected a function, got {type(fn).__name__}", path=path)
    if inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn) or inspect.isgeneratorfunction(fn):
        raise Invalid("expected a plain function: an async one or a generator would never run", path=path, hint=_HINT)

    def checked(*args: Any) -> Any:
        result = fn(*args)
        if inspect.isawaitable(result):
            _abandon(result)
            raise Invalid("the function returned an awaitable, which would never be awaited", path=path, hint=_HINT)
        return result

    return checked


def _abandon(awaitable: Any) -> None:
    """A coroutine that is closed does not warn that it was never awaited; a future is cancelled."""
    for end in ("close", "cancel"):
        if callable(getattr(awaitable, end, None)):
            getattr(awaitable, end)()
            return


def check_called(fn: object, path: str) -> None:
    """Refuse an agent where a function is to be called: it would have no run of its own. Raises Invalid."""
    if isinstance(fn, Driven):
        hint = f"run.call({fn.name}, …) in an agent, or store.drive({fn.name}, …)"
        raise Invalid(f"{fn.name} is an agent: it is driven in a run of its own", path=path, hint=hint)


def signature_of(fn: Callable[..., Any], path: str) -> inspect.Signature:
    """The parameters of a function. Invalid for what is none, and for one that does not tell them: some of Python's own."""
    if not callable(fn):
        raise Invalid(f"expected a function, got {type(fn).__name__}", path=path)
    try:
        return inspect.signature(fn)
    except (ValueError, TypeError):
        name = getattr(fn, "__name__", type(fn).__name__)
        raise Invalid(
            f"{name} has no signature that Python can read", path=path, hint="wrap it in a function"
        ) from None


def check_unbound(signature: inspect.Signature, path: str) -> None:
    """Refuse a method as its class declares it: nobody would hand in its object."""
    if next(iter(signature.parameters), None) == "self":
        hint = f"declare a function, or the method of an object: perdure.{path}(it.method)"
        raise Invalid(
            f"a method cannot be declared as {path} in its class: its object would be missing", path=path, hint=hint
        )


def takes_by_name(signature: inspect.Signature, name: str) -> bool:
    """Whether a function has a parameter that can be given by this name."""
    parameter = signature.parameters.get(name)
    return parameter is not None and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)


def check_free(signature: inspect.Signature, options: Mapping[str, Any], called: str) -> None:
    """Refuse options that were given to whoever calls a function and that it has parameters for: it would not get them."""
    for name, value in options.items():
        if value is not None and takes_by_name(signature, name):
            raise Invalid(
                f"{called} has a parameter {name!r}, but {name}= here is an option of the verb that calls it", path=name,
                hint="pass the parameter by position, or rename it to use both",
            )  # fmt: skip


def check_options(options: Iterable[str], declare: Callable[..., Any]) -> None:
    """Refuse options that a declaration does not have: its keyword parameters are those that it has."""
    parameters = inspect.signature(declare).parameters.values()
    allowed = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    for name in options:
        if name not in allowed:
            raise Invalid(f"there is no option {name!r}; there are {', '.join(sorted(allowed))}", path=name)


def named_args(args: object, path: str = "args") -> dict[str, Any]:
    """Arguments or pins, which must be given by name. Raises Invalid for anything else."""
    if args is None:
        return {}
    if not isinstance(args, Mapping):
        raise Invalid(f"expected {path} by name, got {type(args).__name__}", path=path)
    return dict(args)

"""Tools: functions that act on the outside world, and the declaration of each.

The declaration decides how doubt about a call is settled (`ToolKind`, `settling`). A function without a declaration is unsafe:
Perdure never calls it a second time by itself. Callers: users (`@perdure.tool`), and every verb that acts. Keeps P2, P4, P15.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import update_wrapper
from typing import Any, Generic, Literal, TypedDict, Unpack, overload

import msgspec

from perdure.errors import Invalid
from perdure.model.functions import (
    Declared,
    P,
    P_of,
    R,
    R_co,
    check_called,
    check_free,
    check_options,
    check_unbound,
    signature_of,
    takes_by_name,
)
from perdure.model.instants import duration_us
from perdure.model.limits import check_name, check_one_of
from perdure.model.records.effects import Rule, ToolKind, ToolKindName, Verdict
from perdure.model.values import digest
from perdure.planes.reading.durations import Duration

Probe = Callable[..., "Verdict | Awaitable[Verdict]"]
Guard = Callable[..., Any]

HANDED_IN = frozenset({"key", "token"})  # parameters that the ledger fills in; they are no part of the arguments
RETRIES_MAX = 1_000
_LANDS_WITHIN = "60s"
# Nothing, of its kind.
_BARE: dict[Any, Any] = {
    inspect.Parameter.VAR_POSITIONAL: (),
    inspect.Parameter.VAR_KEYWORD: {},
}

DECLARED: Declared[Tool] = Declared()  # the tools with which recovery can settle doubt in this process


class Tool(Generic[P_of, R_co]):
    """A function with its declaration, made by `@perdure.tool`.

    Calling it calls the bare function, and records nothing. `session.act(tool, …)` and `run.act(tool, …)` record the call.
    """

    def __init__(
        self, fn: Callable[P_of, R_co], name: str, kind: ToolKind, rule: Rule, *, probe: Probe | None, undo: Tool | None,
        fails: tuple[type[BaseException], ...], guards: tuple[Guard, ...], limit: int | None, isolate: bool,
        backoff: float, keep: str,
    ) -> None:  # fmt: skip
        self.fn = fn
        self.name = name
        self.kind = kind
        self.rule = rule
        self.probe = probe
        self.undo = undo
        self.fails = fails
        self.guards = guards
        self.limit = limit
        self.isolate = isolate
        self.backoff = backoff
        self.keep = keep
        self.declared = False
        self.signature = signature_of(fn, "tool")
        self.is_async = inspect.iscoroutinefunction(fn)
        # To a step nothing is handed in: its key is an argument.
        handed = HANDED_IN if kind is not ToolKind.READ else ()
        self.takes = frozenset(name for name in handed if takes_by_name(self.signature, name))
        self._plain = _plain_parameters(self.signature, self.takes)
        update_wrapper(self, fn)

    def __call__(self, *args: P_of.args, **kwargs: P_of.kwargs) -> R_co:
        """Call the bare function. Nothing is recorded."""
        return self.fn(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.name} ({self.kind})>"

    def for_function(self, fn: Callable[..., Any], name: str, probe: Probe | None) -> Tool:
        """Return a tool with this declaration that calls another function, in this process: an adapter's, which lets its
        framework call the tool.
        """
        made = Tool(
            fn, name, self.kind, self.rule, probe=probe, undo=self.undo, fails=self.fails, guards=self.guards,
            limit=self.limit, isolate=False, backoff=self.backoff, keep=self.keep,
        )  # fmt: skip
        made.declared = self.declared
        return made

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments by name, without defaults. Raises Invalid for an argument that does not fit the function."""
        if not kwargs and self._plain is not None and len(args) == len(self._plain):
            return dict(zip(self._plain, args, strict=True))
        handed = dict.fromkeys(self.takes, "")
        for name in sorted(self.takes & kwargs.keys()):
            raise Invalid(f"{self.name}: {name} is filled in by the ledger", path=f"args.{name}", hint="leave it out")
        try:
            bound = self.signature.bind(*args, **{**kwargs, **handed})
        except TypeError as error:
            raise Invalid(f"{self.name}: {error}", path="args") from None
        named = {name: value for name, value in bound.arguments.items() if name not in self.takes}
        for name, value in named.items():
            if type(value) is tuple and self.signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
                named[name] = list(value)
        return named

    def check_free(self, **options: Any) -> None:
        """Refuse options of `act` that are also parameters of the tool: the value could be meant for either."""
        for name, value in options.items():
            if value is not None and name not in self.takes:
                check_free(self.signature, {name: value}, self.name)

    def call(self, fn: Callable[..., Any], args: Mapping[str, Any], **handed: Any) -> Any:
        """Call the tool's function, its probe or its undo with arguments by name and what the ledger hands in."""
        if fn is self.fn and self._plain is not None:
            if not self.takes:
                return fn(**args)
            return fn(**args, **{name: value for name, value in handed.items() if name in self.takes})
        signature = self.signature if fn is self.fn else inspect.signature(fn)
        positional, named = _spread(signature, args)
        wanted = {name: value for name, value in handed.items() if takes_by_name(signature, name)}
        return fn(*positional, **named, **wanted)

    def named(self, **args: Any) -> Any:
        """Call the bare function with arguments as `bind` returns them."""
        return self.call(self.fn, args)


def _plain_parameters(signature: inspect.Signature, handed: frozenset[str]) -> list[str] | None:
    """The parameters of an ordinary function, each of which can be given by its place and by its name: those that are handed in
    come last. None for any other function, whose arguments take a longer way.
    """
    kinds = {name: each.kind for name, each in signature.parameters.items()}
    plain = [name for name in kinds if name not in handed]
    is_ordinary = plain == [*kinds][: len(plain)] and all(
        kinds[name] is inspect.Parameter.POSITIONAL_OR_KEYWORD for name in plain
    )
    return plain if is_ordinary else None


def _spread(signature: inspect.Signature, args: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Arguments by name as a call passes them. Arguments before a given *rest must be passed by position."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    kinds = {name: parameter.kind for name, parameter in signature.parameters.items()}
    rest = next((name for name in args if kinds.get(name) is inspect.Parameter.VAR_POSITIONAL), None)
    before = [*itertools.takewhile(lambda name: name != rest, kinds)] if rest else []
    for name, value in args.items():
        kind = kinds.get(name, inspect.Parameter.KEYWORD_ONLY)
        if name == rest:
            positional += value
        elif kind is inspect.Parameter.VAR_KEYWORD:
            named |= value
        elif kind is inspect.Parameter.POSITIONAL_ONLY or name in before:
            positional.append(value)
        else:
            named[name] = value
    return positional, named


class Declaration(TypedDict, total=False):
    """The options of a tool besides its kind and its probe; see `tool`."""

    name: str | None
    undo: Callable[..., Any] | None
    timeout: Duration | None
    lands_within: Duration | float
    keeps_keys: Duration | None
    retries: int
    backoff: Duration | None
    fails: Iterable[type[BaseException]]
    guards: Iterable[Guard]
    limit: int | None
    isolate: bool
    keep: Literal["value", "digest"]
    known: bool


# No checker can take `key` out of a function's parameters. Tools that are keyed, or have a probe, which finds by it, are known
# by what they give alone.
@overload
def tool(fn: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    fn: Callable[P, R], /, *, kind: ToolKind | ToolKindName | None = None, probe: Probe | None = None,
    **declared: Unpack[Declaration],
) -> Tool[P, R]: ...  # fmt: skip
@overload
def tool(
    *, kind: Literal["keyed", ToolKind.KEYED], probe: Probe | None = None, **declared: Unpack[Declaration]
) -> Callable[[Callable[..., R]], Tool[..., R]]: ...
@overload
def tool(
    *, kind: ToolKind | ToolKindName | None = None, probe: Probe, **declared: Unpack[Declaration]
) -> Callable[[Callable[..., R]], Tool[..., R]]: ...
@overload
def tool(
    *, kind: ToolKind | ToolKindName | None = None, probe: None = None, **declared: Unpack[Declaration]
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(fn: Callable[..., Any] | None = None, /, **declared: Any) -> Any:
    """Declare how a function acts on the outside world, and so how Perdure settles doubt after a crash.

        @perdure.tool(kind="keyed", timeout=30, retries=3)
        def open_pr(repo, title, *, key): ...

    kind: read, idempotent, keyed (the function takes `key=`) or unsafe. Default: unsafe, or probed if `probe` is given.
    probe: a function that asks the other side; it takes the tool's arguments and returns Happened, Absent or Unknown.
    undo: a function that takes the call back; it gets the tool's arguments, and `result=` and `key=` if it has such parameters.
    timeout: a call that takes longer is in doubt.
    lands_within: how long a request that was sent may still take to arrive.
    keeps_keys: how long the other side remembers keys.
    retries, backoff: how often, and after which pause, a call that is safe to repeat is tried again.
    fails: exceptions that mean a clear no: the call had no effect.
    guards: functions that see a planned call first; see `perdure.Refuse` and `perdure.RequireApproval`.
    limit: the most calls at the same time in one worker.
    isolate: call it in a process of its own, which can be killed.
    keep: "digest" keeps only a digest of a read tool's result. On replay it is called again; another result parks the run.
    known: whether recovery in this process finds the tool by its name. Pass False for a function that is made on the spot and
        holds something that only its maker has (a client, a request):

        send = perdure.tool(lambda to: client.send(to), name="send", kind="idempotent", known=False)

    After a crash, doubt about such a call waits until a tool of the same name is made again and acts with the same key, or a
    person settles it. Raises Invalid at once for a declaration that does not fit the function.
    """
    known = bool(declared.pop("known", True))
    check_options(declared, _made)
    return (
        _declare(fn, known=known, **declared)
        if fn is not None
        else lambda found: _declare(found, known=known, **declared)
    )


def as_tool(fn: Callable[..., Any]) -> Tool:
    """Return a tool as it is, and any other function as an unsafe tool."""
    return fn if isinstance(fn, Tool) else _check_handed(_made(fn))


def _declare(fn: Any, *, known: bool, **declared: Any) -> Tool:
    """A tool that settlement finds by its name in this process; not known: one that only its maker has."""
    made = _check_handed(_made(fn, **declared))
    return _known(made) if known else made


def _known(made: Tool) -> Tool:
    made.declared = True
    DECLARED.declare(made)
    return made


def _made(
    fn: Any, *, kind: str | None = None, name: str | None = None, probe: Any = None, undo: Any = None,
    timeout: Any = None, lands_within: Any = _LANDS_WITHIN, keeps_keys: Any = None, retries: int = 0, backoff: Any = None,
    fails: Iterable[type[BaseException]] = (), guards: Iterable[Guard] = (), limit: int | None = None, isolate: bool = False,
    keep: str = "value",
) -> Tool:  # fmt: skip
    check_called(fn, "tool")
    signature_of(fn, "tool")
    called = check_name(name or getattr(fn, "__name__", ""), "name")
    undoing = None if undo is None else _undo(undo, called)
    rule = Rule(
        timeout=_us(timeout, "timeout"),
        lands_within=0 if lands_within == 0 else duration_us(lands_within, "lands_within"),
        keeps_keys=_us(keeps_keys, "keeps_keys"),
        retries=check_retries(retries),
        undo=undoing.name if undoing else "",
        undo_idempotent=undoing is not None and undoing.kind in (ToolKind.IDEMPOTENT, ToolKind.KEYED),
    )
    made = Tool(
        fn, called, kind_of(kind, probe), rule, probe=probe, undo=undoing, fails=_exceptions(fails),
        guards=guards_of(guards), limit=_limit(limit), isolate=bool(isolate),
        backoff=(_us(backoff, "backoff") or 500_000) / 1e6, keep=keep,
    )  # fmt: skip
    return _checked(made)


def _undo(undo: Callable[..., Any], name: str) -> Tool:
    """The tool that undoes another; a plain function is taken to be idempotent, as undoing should be."""
    return undo if isinstance(undo, Tool) else _known(_made(undo, kind="idempotent", name=f"{name}.undo", retries=3))


def kind_of(kind: object, probe: object = None) -> ToolKind:
    """A kind by its name; if none is given, what follows from whether there is a probe."""
    if kind is None:
        return ToolKind.UNSAFE if probe is None else ToolKind.PROBED
    return check_one_of(ToolKind, kind, "kind")


def _us(duration: Duration | None, path: str) -> int | None:
    return None if duration is None else duration_us(duration, path)


def check_retries(retries: object) -> int:
    """Return the number of retries. Raises Invalid for anything that is not such a number."""
    if type(retries) is not int or not 0 <= retries <= RETRIES_MAX:
        raise Invalid(f"expected a number of retries, 0 to {RETRIES_MAX}, got {retries!r}", path="retries")
    return retries


def _limit(limit: object) -> int | None:
    if limit is not None and (type(limit) is not int or limit < 1):
        raise Invalid(f"expected a number of calls, at least 1, got {limit!r}", path="limit")
    return limit


def _exceptions(fails: object) -> tuple[type[BaseException], ...]:
    given = tuple(fails) if isinstance(fails, Iterable) else (fails,)
    for each in given:
        if not (isinstance(each, type) and issubclass(each, Exception)):
            raise Invalid(f"expected exception classes, got {each!r}", path="fails")
    return given  # type: ignore[return-value]


def guards_of(guards: object) -> tuple[Guard, ...]:
    """Return the guards, which are asked before an effect is sent. Raises Invalid for a guard that cannot be called."""
    given: tuple[Any, ...] = tuple(guards) if isinstance(guards, Iterable) else (guards,)
    for each in given:
        if not callable(each):
            raise Invalid(f"expected functions of an intent and an actor, got {each!r}", path="guards")
    return given


def _checked(made: Tool) -> Tool:
    """Refuse what contradicts itself, when it is declared."""
    check_unbound(made.signature, "tool")
    if made.kind is ToolKind.KEYED and "key" not in made.takes:
        hint = f"def {made.name}(…, *, key): pass the key on to the other side"
        raise Invalid(f"the keyed tool {made.name!r} has no parameter key", path="key", hint=hint)
    if made.kind is ToolKind.UNSAFE and made.probe is not None:
        raise Invalid(f"the tool {made.name!r} has a probe, so it is not unsafe", path="kind", hint="leave kind= out")
    if made.kind is ToolKind.PROBED and made.probe is None:
        raise Invalid(f"the tool {made.name!r} has no probe", path="probe")
    if made.probe is not None:
        _check_probe(made, signature_of(made.probe, "probe"))
    if inspect.isgeneratorfunction(made.fn) or inspect.isasyncgenfunction(made.fn):
        raise Invalid(f"the tool {made.name!r} is a generator and would never run", path="tool")
    if made.keep not in ("value", "digest") or (made.keep == "digest" and made.kind is not ToolKind.READ):
        raise Invalid('expected "value", or for a tool that only reads "digest"', path="keep")
    if made.isolate:
        _check_isolated(made)
    return made


def _check_handed(made: Tool) -> Tool:
    """Refuse a parameter that callers would fill in, and that the ledger fills in with its own: a path that is called `key`."""
    for name in sorted(made.takes):
        wanted = made.kind is ToolKind.KEYED and name == "key"
        if not wanted and made.signature.parameters[name].kind is not inspect.Parameter.KEYWORD_ONLY:
            hint = (
                f"def {made.name}(…, *, {name}) takes the ledger's {name}; an argument of your own needs another name"
            )
            raise Invalid(f"the tool {made.name!r} would get the ledger's {name} as its {name}", path=name, hint=hint)
    return made


def _check_probe(made: Tool, signature: inspect.Signature) -> None:
    """Refuse a probe that cannot be called with what its tool is called with: after a crash that would be found out too late."""
    every = [each for each in made.signature.parameters.values() if each.name not in made.takes]
    needed = [each for each in every if each.default is each.empty]
    handed = {"key": ""} if takes_by_name(signature, "key") else {}
    for given in (needed, every):
        positional, named = _spread(signature, {each.name: _BARE.get(each.kind) for each in given})
        try:
            signature.bind(*positional, **named, **handed)
        except TypeError as error:
            hint = (
                "a probe has the tool's parameters, by the same names and with the same defaults, and key= if it wants"
            )
            raise Invalid(f"the probe of {made.name!r} does not fit it: {error}", path="probe", hint=hint) from None


def _check_isolated(made: Tool) -> None:
    """Refuse what a process of its own could not call."""
    from perdure.effects.child_process import address_of  # noqa: PLC0415 - only an isolated tool pays for it

    if made.kind is ToolKind.READ:
        raise Invalid(
            f"the tool {made.name!r} only reads, so it is never isolated", path="isolate", hint="leave it out"
        )
    address_of(made.fn)


def digest_of(name: str, args: Mapping[str, Any]) -> str:
    """Return the digest of a tool and its arguments, to which keys, approvals and comparisons bind. Invalid names an argument
    that cannot be kept.
    """
    return digest_of_parts(tool=name, args=dict(args))


def digest_of_parts(**parts: Any) -> str:
    """Return one digest of several values, in order. Invalid names the value, and the part of it, that cannot be kept."""
    try:
        return digest([*parts.values()], "").hex()
    except Invalid as error:
        number, _, rest = error.path.removeprefix("[").partition("]")
        error.path = [*parts][int(number)] + rest
        raise


class Refuse(msgspec.Struct, frozen=True):
    """Returned by a guard: this call must not happen. The caller gets Failed with the reason.

    def no_fridays(intent, actor):
        return perdure.Refuse("no deploys on Fridays") if is_friday() else None
    """

    reason: str


class RequireApproval(msgspec.Struct, frozen=True):
    """Returned by a guard: a person must approve of the call first. The question is shown to that person."""

    question: str

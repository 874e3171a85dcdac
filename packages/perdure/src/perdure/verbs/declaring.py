"""Declarations of verbs, and how they are read. A declaration is data: nothing runs through it, and no plane is loaded.

A light function has the public signature (its words are of `model.arguments`), the public docstring and the record that it
answers as its return type. `@verb` says the rest: the plane that does it, whose verb it is, the right that it needs, its routes,
and for each door that does without the verb, or without one of its arguments, the reason. Callers: the modules of this package,
the handles, `remote`, the doors. Keeps P11: what names no right reaches no network door.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_args, get_type_hints

if TYPE_CHECKING:
    import inspect

    from perdure.model.arguments import Word
    from perdure.model.filters import FilterRecord

F = TypeVar("F", bound=Callable[..., Any])


class Right(enum.StrEnum):
    """The permissions that routes ask for."""

    READ = "read"
    WRITE = "write"
    OPERATE = "operate"  # the decisions of people: answer, settle, cancel, retry
    WORK = "work"  # the verbs of workers: claim runs, record their steps and effects
    AUDIT = "audit"  # verify, doctor, the directory of actors
    ADMIN = "admin"  # tokens


class Kind(enum.Enum):
    """How a verb is done. A TRANSACTION or a READ of one plane follows from its row; the others have a body by hand at a door."""

    TRANSACTION = enum.auto()
    READ = enum.auto()
    ENGINE = enum.auto()  # several commits, a loop, a lease or a rescue
    STREAM = enum.auto()  # bytes, or what has no end
    CONTEXT = enum.auto()  # entered and left
    LOCAL = enum.auto()  # a function, a file or an object of this process: no door


class Key(enum.Enum):
    """Where the key of a repetition travels."""

    MARK = enum.auto()  # the verb has none: a header marks the request
    BODY = enum.auto()
    HEADER = enum.auto()  # the header is the key of the verb itself
    NONE = enum.auto()  # nothing is written


class VerbPlace(NamedTuple):
    """Whose verb it is, and its address. mark: the stream in which a keyed write keeps its mark.

    part: the part of the path that names one thing in that stream. finder: the verb by which its handle is had.
    """

    handle: str
    path: str
    mark: str
    part: str = ""
    finder: str = ""


STORE = VerbPlace("Store", "/v1", "")
SESSION = VerbPlace("Session", "/v1/sessions/{session}", "session")
SCOPE = VerbPlace("Scope", "/v1/scopes/{scope}", "scope")
MEMORY = VerbPlace("Memory", "/v1/sessions/{session}/memories/{seq}", "session", "seq", "memory")
SCOPE_MEMORY = VerbPlace("Memory", "/v1/scopes/{scope}/memories/{seq}", "scope", "seq", "memory")
DECISION = VerbPlace("Decision", "/v1/sessions/{session}/decisions/{seq}", "session", "seq", "decision")
TASK = VerbPlace("Task", "/v1/sessions/{session}/tasks/{task}", "session", "task", "get_task")
RUN = VerbPlace("RunHandle", "/v1/runs/{run}", "run")
EFFECT = VerbPlace("Effect", "/v1/effects/{effect}", "effect")


class Endpoint(NamedTuple):
    """One route of a verb. name: in the OpenAPI document. says: its summary there. path: below that of its place.

    defaults: what an argument that is absent means on the wire, where that is not the default of the verb.
    missing: the sentence for an answer that is not there; without it, null is answered.
    """

    place: VerbPlace
    method: str
    path: str
    name: str
    says: str
    status: int = 200
    defaults: Mapping[str, Any] = {}
    missing: str = ""

    def absent(self, argument: Argument) -> Any:
        """The value that an argument has which was not sent: null is none where None is no value of it."""
        value = self.defaults.get(argument.name, argument.default)
        return argument.default if value is None and not argument.takes_none else value


class Argument(NamedTuple):
    """An argument of a verb: its type without the word, its word, its default (REQUIRED: none)."""

    name: str
    hint: Any
    word: Word
    default: Any
    positional: bool
    several: bool = False  # any number of them, by position

    @property
    def may_be_none(self) -> bool:
        """Whether None is a value of its own."""
        return self.hint is not Any and type(None) in get_args(self.hint)

    @property
    def takes_none(self) -> bool:
        """Whether None says something."""
        return self.may_be_none or self.hint is Any

    @property
    def required(self) -> bool:
        """Whether it must be given."""
        return self.default is REQUIRED


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = _Required()
Lacks = Mapping[str, "str | Mapping[str, str]"]


class Verb:
    """A declared verb. called: its name at the handle, where several places declare verbs of one name.

    names: door -> argument -> the name under which it is there.

    lacks: door -> the reason why it does without the verb, or argument -> why it does without that. command, tool: who offers it
    on the command line and to models. body: the name and the sentence of its body in the OpenAPI document. routes: those that
    are written by hand, of a verb without addresses.
    """

    def __init__(
        self, function: Callable[..., Any], plane: Callable[[], Callable[..., Any]] | None, **said: Any
    ) -> None:
        self.function = function
        self.plane = plane
        self.name: str = said.pop("called", "") or function.__name__.rstrip("_")
        self.kind: Kind = said.pop("kind")
        self.on: tuple[VerbPlace, ...] = said.pop("on")
        self.right: Right | None = said.pop("right", None)
        self.key: Key = said.pop("key", Key.NONE if self.kind is Kind.READ else Key.MARK)
        self.at: tuple[Endpoint, ...] = said.pop("at", ())
        self.routes: tuple[str, ...] = said.pop("routes", ()) or tuple(each.name for each in self.at)
        self.command: str = said.pop("command", "")
        self.tool: str = said.pop("tool", "")
        self.names: Mapping[str, Mapping[str, str]] = said.pop("names", {})
        self.lacks: Lacks = said.pop("lacks", {})
        self.body: tuple[str, str] = said.pop("body", ("", ""))
        self.filters: type[FilterRecord] | None = said.pop("filters", None)
        if said:
            raise TypeError(f"{self.name}: {', '.join(said)} says nothing of a verb")
        if self.routes and self.right is None:
            raise TypeError(f"{self.name}: a verb without a right reaches no network door")

    def __repr__(self) -> str:
        return f"Verb({self.qualified})"

    @property
    def qualified(self) -> str:
        """Its name with that of the first handle that has it: several verbs have one name."""
        return f"{self.on[0].handle}.{self.name}"

    @property
    def rows(self) -> tuple[str, ...]:
        """Its rows in the matrix of verbs and doors."""
        return tuple(dict.fromkeys(f"{place.handle}.{self.name}" for place in self.on))

    @cached_property
    def hints(self) -> dict[str, Any]:
        """The types of its arguments, with their words."""
        return get_type_hints(self.function, include_extras=True)

    @cached_property
    def arguments(self) -> dict[str, Argument]:
        """Its arguments by name; of a listing, none: its filters are those of its record."""
        from inspect import Parameter, signature  # noqa: PLC0415 - only doors read declarations

        found: dict[str, Argument] = {}
        for name, each in signature(self.function).parameters.items():
            if self.filters is not None:
                break
            hint, word = get_args(self.hints[name])[:2]
            default = REQUIRED if each.default is Parameter.empty else each.default
            positional = each.kind is not Parameter.KEYWORD_ONLY
            several = each.kind is Parameter.VAR_POSITIONAL
            found[name] = Argument(name, hint, word, default, positional, several)
        return found

    @property
    def answer(self) -> Any:
        """The record that it answers, as the planes have it."""
        return self.hints.get("return")

    def name_at(self, door: str, argument: str) -> str:
        """The name of an argument at a door."""
        return self.names.get(door, {}).get(argument, argument)

    def why_not(self, door: str) -> str:
        """The reason why a door does without this verb; "" if it offers it."""
        said = self.lacks.get(door, "")
        return said if isinstance(said, str) else ""

    def why_without(self, door: str, argument: str) -> str:
        """The reason why a door does without an argument of this verb; "" if it takes it."""
        said = self.lacks.get(door, {})
        return "" if isinstance(said, str) else said.get(argument, "")


_DECLARED: dict[Callable[..., Any], Verb] = {}


def verb(
    plane: Callable[[], Callable[..., Any]] | None = None,
    *,
    on: tuple[VerbPlace, ...],
    kind: Kind = Kind.TRANSACTION,
    **said: Any,
) -> Callable[[F], F]:
    """Declare a verb: see `Verb` for what can be said of it. plane: the function that does it, named and not loaded."""

    def declare(function: F) -> F:
        _DECLARED[function] = Verb(function, plane, on=on, kind=kind, **said)
        return function

    return declare


def read(
    plane: Callable[[], Callable[..., Any]] | None = None, *, on: tuple[VerbPlace, ...], **said: Any
) -> Callable[[F], F]:
    """Declare a verb that only reads."""
    return verb(plane, on=on, kind=Kind.READ, **{"right": Right.READ, **said})


def verb_of(function: Callable[..., Any]) -> Verb:
    """The declaration that a light function is."""
    return _DECLARED[function]


def declared() -> tuple[Verb, ...]:
    """The verbs that were declared so far: `verbs.table` imports the modules that declare them, and has all."""
    return tuple(_DECLARED.values())


def shown_signature(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of a light function as users see it: with `self`, and the types without their words."""
    from inspect import Parameter, signature  # noqa: PLC0415 - only who looks pays for it

    plain = get_type_hints(function)
    made = signature(function)
    taken = [each.replace(annotation=plain[name]) for name, each in made.parameters.items()]
    own = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
    return made.replace(parameters=[own, *taken], return_annotation=plain.get("return", made.return_annotation))

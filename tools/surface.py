"""Write docs/surface/api.txt: all that a caller can depend on, one line for each thing. `python tools/surface.py [--check]`

A line for each function, class and verb of `import perdure` (arguments, types, defaults, and which doors have it), for each route
(right, fields, bounds, answer), command and tool. A change of the surface is a change of this file: review reads it, and a silent
rename fails tests/surface/test_surface.py. The doors of a verb stand in docs/surface/doors.txt, which is written by hand.
"""

from __future__ import annotations

import ast
import difflib
import enum
import inspect
import re
import sys
import textwrap
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import click
import msgspec

import perdure
from perdure.cli.main import COMMANDS, cli
from perdure.handles.declared import ShownVerb
from perdure.remote import core as _core  # noqa: F401 - its modules enter what they answer
from perdure.remote.asking import ANSWERED
from perdure.verbs.declaring import Verb as DeclaredVerb
from perdure.verbs.declaring import verb_of
from perdure.verbs.table import ROWS
from perdure_agents.mcp.server import TOOLS
from perdure_server.http.app import TABLE
from perdure_server.http.table import IfMatch, NoQuery, Route
from perdure_server.http.wire import DAMAGED

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "surface"
ROW = re.compile(r"^(\w+\.\w+) \| (.+?) \| (.+?) \| (.+)$", re.MULTILINE)
DOORS = ("http", "cli", "mcp")
# The roads to a transaction: the verb of a plane is what they are given first.
ROADS = {"_write", "_read", "_state", "_take", "_speak", "read", "write", "write_in", "work", "aread"}
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
BOUNDS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<", "min_length": "len>=", "max_length": "len<=", "pattern": "~"}


# -- what there is -----------------------------------------------------------------------------------------------


class Verb(NamedTuple):
    """A public method of a handle."""

    name: str
    function: Callable[..., Any]
    owner: type

    @property
    def arguments(self) -> dict[str, inspect.Parameter]:
        """Its arguments, without the handle."""
        return {name: each for name, each in inspect.signature(self.function).parameters.items() if name != "self"}


def handles(colour: str = "") -> list[type]:
    """The classes of handles: sync ones, or with "Async" the others."""
    known = [getattr(perdure, name) for name in perdure.__all__]
    classes = [kind for kind in known if inspect.isclass(kind) and kind.__module__.startswith("perdure.handles.")]
    mine = [kind for kind in classes if kind.__name__.startswith("Async") == bool(colour)]
    return sorted(mine, key=lambda kind: kind.__name__)


def verbs(colour: str = "") -> dict[str, Verb]:
    """Every public method of the handles by its name; what is a fact of a record, a property, is no verb."""
    pairs = [(kind, name) for kind in handles(colour) for name in sorted(dir(kind)) if not name.startswith("_")]
    methods = [(kind, name) for kind, name in pairs if callable(getattr(kind, name))]
    return {f"{kind.__name__}.{name}": Verb(name, getattr(kind, name), kind) for kind, name in methods}


def routes() -> dict[str, Route]:
    """The routes of the server by their names."""
    return {route.name: route for route in TABLE}


def commands() -> dict[str, click.Command]:
    """The commands, those of a group by both words."""
    context = click.Context(cli)
    top = {name: command for name in COMMANDS if (command := cli.get_command(context, name)) is not None}
    below = {
        f"{name} {word}": part
        for name, group in top.items()
        if isinstance(group, click.Group)
        for word, part in sorted(group.commands.items())
    }
    return top | below


def offers() -> dict[str, dict[str, str]]:
    """The table of doors: verb -> door -> who offers it there, or `- reason`, or `drift`. Declared verbs say it themselves."""
    return by_hand() | {row: said(verb, row) for row, verb in ROWS.items()}


def by_hand() -> dict[str, dict[str, str]]:
    """The rows of verbs that are not declared yet."""
    rows = ROW.findall((FOLDER / "doors.txt").read_text("utf-8"))
    return {verb: dict(zip(DOORS, cells, strict=True)) for verb, *cells in rows}


def said(verb: DeclaredVerb, row: str) -> dict[str, str]:
    """The row of a declared verb: its routes, command and tool, or its reasons."""
    handle = row.partition(".")[0]
    routes = [each.name for each in verb.at if each.place.handle == handle] or list(verb.routes)
    cells = {"http": ", ".join(routes), "cli": verb.command, "mcp": verb.tool}
    return {door: cell or f"- {verb.why_not(door)}" for door, cell in cells.items()}


def offerers(cell: str) -> list[str]:
    """The routes, commands or tools that a cell of the table names; none where it is a reason or drift."""
    return [] if cell == "drift" or cell.startswith("- ") else cell.split(", ")


def taken(door: str, name: str) -> set[str]:
    """The names of all arguments that a route, a command or a tool takes."""
    if door == "cli":
        return {str(each.name) for each in commands()[name].params}
    if door == "mcp":
        return set(inspect.signature(TOOLS[name][1]).parameters)
    route = routes()[name]
    kinds = [kind for kind in (route.query, route.filters, route.body) if inspect.isclass(kind)]
    of = [field for kind in kinds if issubclass(kind, msgspec.Struct) for field in msgspec.structs.fields(kind)]
    headers = {"key"} if route.takes_key else set()
    headers |= {"expect"} if route.match is not IfMatch.NONE else set()
    return {*route.parameters, *headers, *[field.name for field in of], *[field.encode_name for field in of]}


def lacking() -> dict[tuple[str, str], list[str]]:
    """The arguments that a door does not take by their name, each with the verbs that it offers without them."""
    gaps: dict[tuple[str, str], list[str]] = {}
    table, known = offers(), verbs()
    for verb, cells in table.items():
        for door, cell in cells.items() if verb not in ROWS else ():
            names: set[str] = set().union(*(taken(door, name) for name in offerers(cell)))
            for argument in known[verb].arguments if names and verb in known else ():
                if argument not in names:
                    gaps.setdefault((door, argument), []).append(verb)
    return gaps


def planes_of(verb: Verb) -> list[Callable[..., Any]]:
    """The verbs of the planes that a method of a handle runs, as far as its text says it."""
    declared = declaration_of(verb.function)
    if declared is not None:
        return [declared.plane()] if declared.plane is not None else []
    source = ast.parse(textwrap.dedent(inspect.getsource(written(verb.function))))
    names = [
        ast.unparse(call.args[at])
        for call in ast.walk(source)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in ROADS
        for at in range(min(1, len(call.args)))
    ]
    found = [_named(name, written(verb.function).__globals__) for name in names]
    return [plane for plane in found if callable(plane) and not inspect.isclass(plane)]


def declaration_of(function: Any) -> DeclaredVerb | None:
    """The declaration that a method was made of, if it was."""
    shown = getattr(function, "__wrapped__", None)
    return verb_of(shown.verb) if isinstance(shown, ShownVerb) else None


def written(function: Any) -> Any:
    """The function that stands in the source: a listing with filters keeps it in its closure."""
    inner = getattr(function, "__wrapped__", None)
    if inner is None or isinstance(inner, ShownVerb):
        return function
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    return written(inner if inspect.isfunction(inner) else next(each for each in cells if inspect.isfunction(each)))


def _named(name: str, names: dict[str, Any]) -> Any:
    """The thing that a dotted name stands for in a module; None for an expression or a local name."""
    first, *rest = name.split(".")
    thing = names.get(first)
    for part in rest:
        thing = getattr(thing, part, None)
    return thing


def remote(verb: Verb) -> str:
    """Whether a store on a server answers it: yes, no, in part; "" where the method only calls others."""
    answered = {plane in ANSWERED for plane in planes_of(verb)}
    return (
        ""
        if not answered
        else "remote"
        if answered == {True}
        else "remote in part"
        if True in answered
        else "no remote"
    )


# -- as text -----------------------------------------------------------------------------------------------------


def spelt(kind: Any) -> str:
    """A type as a reader writes it, with its bounds."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        return spelt(args[0]) + "".join(_bounds(each) for each in args[1:])
    if origin in (typing.Union, type(int | str)):
        return " | ".join(spelt(each) for each in args)
    if origin is typing.Literal:
        return " | ".join(repr(each) for each in args)
    if origin is not None and args:
        return f"{spelt(origin)}[{', '.join('…' if each is ... else spelt(each) for each in args)}]"
    if kind is None or kind is type(None):
        return "None"
    return getattr(kind, "__name__", None) or ADDRESS.sub("", str(kind)).replace("typing.", "")


def _bounds(meta: Any) -> str:
    metas = [meta, *getattr(meta, "metadata", ())]  # pydantic keeps them in a list
    pairs = [(sign, getattr(each, name, None)) for each in metas for name, sign in BOUNDS.items()]
    limits = [f"{sign}{value}" for sign, value in pairs if value is not None]
    return f"({' '.join(limits)})" if limits else ""


def default(value: Any) -> str:
    """A default as it is written in code."""
    if value is ...:
        return "..."
    shown = value.value if isinstance(value, enum.Enum) and value is not msgspec.UNSET else value
    return ADDRESS.sub("", repr(shown))


def parameter(name: str, each: inspect.Parameter) -> str:
    """An argument with its type and default."""
    star = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(each.kind, "")
    kind = each.annotation if isinstance(each.annotation, str) else spelt(each.annotation)
    shown = f"{star}{name}" + ("" if each.annotation is each.empty else f": {kind}")
    return shown if each.default is each.empty else f"{shown} = {default(each.default)}"


def arguments(function: Any, *, without: tuple[str, ...] = ("self",)) -> str:
    """A signature, with the marks for what is only positional or only a keyword."""
    shown: list[str] = []
    before = None
    signature = inspect.signature(function)
    for name, each in signature.parameters.items():
        if name in without:
            before = each.kind
            continue
        if before is each.POSITIONAL_ONLY and each.kind is not each.POSITIONAL_ONLY and shown:
            shown.append("/")
        if each.kind is each.KEYWORD_ONLY and before not in (each.KEYWORD_ONLY, each.VAR_POSITIONAL):
            shown.append("*")
        shown.append(parameter(name, each))
        before = each.kind
    answer = returned(function)
    return f"({', '.join(shown)})" + (f" -> {answer}" if answer else "")


def returned(function: Any) -> str:
    """The type of an answer. A listing with filters shows the fields of its record, and keeps its answer to itself."""
    kind = inspect.signature(function).return_annotation
    if kind is inspect.Signature.empty and inspect.isfunction(function):
        kind = getattr(written(function), "__annotations__", {}).get("return", kind)
    return "" if kind is inspect.Signature.empty else kind if isinstance(kind, str) else spelt(kind)


def fields(struct: Any, order: Callable[..., Any] = lambda field: field.encode_name) -> str:
    """The fields of a record; of a body or a query in the order of the alphabet, since they are sent by name."""
    if not (inspect.isclass(struct) and issubclass(struct, msgspec.Struct)):
        return spelt(struct)
    shown = []
    for field in sorted(msgspec.structs.fields(struct), key=order):
        factory = field.default_factory
        value = field.default if factory is msgspec.NODEFAULT else factory()
        shown.append(f"{field.encode_name}: {spelt(field.type)}" + ("" if field.required else f" = {default(value)}"))
    return f"{struct.__name__}({', '.join(shown)})"


def surface() -> Iterator[str]:
    """The functions and classes of `import perdure` that are no handles."""
    yield f"error tree: {', '.join(f'{kind.__name__}={kind.exit_code}' for kind in _errors())}"
    for name in sorted(perdure.__all__):
        thing = getattr(perdure, name)
        if inspect.isclass(thing) and issubclass(thing, Exception):
            yield f"{name}({thing.__bases__[0].__name__})"
        elif inspect.isclass(thing) and thing not in [*handles(), *handles("Async")]:
            yield f"{name} = {_shape(thing)}"
        elif inspect.isroutine(thing):
            yield f"{name}{arguments(thing)}"


def _errors() -> list[Any]:
    known = [getattr(perdure, name) for name in perdure.__all__]
    return [kind for kind in known if inspect.isclass(kind) and issubclass(kind, perdure.Error)]


def _shape(kind: type) -> str:
    if issubclass(kind, msgspec.Struct):
        return fields(kind, lambda _: 0)  # as they are given by position
    if values := getattr(kind, "__members__", None):
        return " | ".join(repr(each.value) for each in values.values())
    try:
        return arguments(kind)
    except ValueError:
        return "class"


def of_verbs() -> Iterator[str]:
    """The verbs of the sync handles; those of the async ones differ in `await` alone, which the contract holds."""
    table, known = offers(), verbs("Async")
    for name, verb in verbs().items():
        cells = table.get(name, {})
        doors = [f"{door}: {cell}" for door, cell in cells.items() if offerers(cell)]
        twin = known.get(f"Async{name}", verb)
        doors += [answer] if (answer := remote(twin)) else []
        yield f"{name}{arguments(verb.function)}" + (f"  [{'; '.join(doors)}]" if doors else "")


def of_routes() -> Iterator[str]:
    """Method, path, right, and all that can be sent."""
    for name, route in sorted(routes().items()):
        parts = [f"{route.method} {route.path} ({route.right.value}) -> {route.status} {spelt(route.answer)}"]
        parts += [f"query {fields(route.query)}"] if route.query is not NoQuery else []
        parts += [f"body {fields(route.body)}"] if route.body is not None else []
        parts += [f"body {route.takes}"] if route.takes else []
        parts += ["Idempotency-Key"] if route.takes_key else []
        parts += [f"header {DAMAGED}"] if route.names_damage else []
        parts += [f"If-Match: {route.match.value}"] if route.match is not IfMatch.NONE else []
        yield f"{name}: {'; '.join(parts)}"


def of_commands() -> Iterator[str]:
    """Words and options, in the order of the alphabet."""
    for name, command in commands().items():
        shown = [_option(each) for each in sorted(command.params, key=lambda each: each.opts[0]) if each.name != "help"]
        yield f"perdure {name} {' '.join(shown)}".strip()


def _option(each: click.Parameter) -> str:
    choice = each.type
    kind = "|".join(map(str, choice.choices)) if isinstance(choice, click.Choice) else choice.name
    kind = "" if getattr(each, "is_flag", False) else f"={kind}" if each.opts[0].startswith("-") else f":{kind}"
    value = each.default if isinstance(each.default, (str, int, float)) and each.default is not False else None
    shown = "/".join([*each.opts, *each.secondary_opts]) + kind + ("" if value is None else f"({value})")
    shown += "…" if getattr(each, "multiple", False) or each.nargs == -1 else ""
    return shown if each.required else f"[{shown}]"


def of_tools() -> Iterator[str]:
    """The tools of coding agents."""
    for name, (_, function, _) in sorted(TOOLS.items()):
        kinds = typing.get_type_hints(function, include_extras=True)
        signature = inspect.signature(function)
        typed = [each.replace(annotation=kinds[each.name]) for each in signature.parameters.values()]
        told = signature.replace(parameters=typed, return_annotation=kinds["return"])
        yield f"{name}{arguments(_Signed(told), without=('ctx', 'replied'))}"


class _Signed:
    def __init__(self, signature: inspect.Signature) -> None:
        self.__signature__ = signature

    def __call__(self) -> None:
        """inspect wants a callable."""


SECTIONS: dict[str, Callable[[], Iterator[str]]] = {
    "import perdure": surface, "verbs": of_verbs, "routes": of_routes, "commands": of_commands, "tools": of_tools,
}  # fmt: skip


def text() -> str:
    """The whole file."""
    head = "# Made by tools/surface.py: all that a caller can depend on. A change here is a change of the surface.\n"
    return head + "".join(
        f"\n## {name}\n\n" + "".join(f"{line}\n" for line in section()) for name, section in SECTIONS.items()
    )


def main(options: list[str]) -> int:
    """Write the file, or with --check show how it differs."""
    target, now = FOLDER / "api.txt", text()
    if "--check" not in options:
        target.write_text(now, "utf-8")
        return 0
    before = target.read_text("utf-8") if target.exists() else ""
    diff = list(difflib.unified_diff(before.splitlines(), now.splitlines(), "committed", "now", lineterm="", n=0))
    print("\n".join([*diff, "If that is meant: python tools/surface.py"] if diff else []), end="")
    return bool(diff)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

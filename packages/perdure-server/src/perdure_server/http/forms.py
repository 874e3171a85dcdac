"""How arguments stand in bodies and parameters: one way for each form (`model.arguments`), none for a verb. Callers: `bound`."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal, Optional

import msgspec

from perdure.model.arguments import Word, WordForm
from perdure.model.records.conversation import Call, Native
from perdure.model.refs import Ref
from perdure.verbs.declaring import Argument, Verb
from perdure_server.http.inputs import Input, NativeInput, Span
from perdure_server.http.queries import Name, When
from perdure_server.http.wire import value_from

Read = Callable[[Any, str], Any]


def _meta(word: Word) -> msgspec.Meta:
    return msgspec.Meta(max_length=None if word.most is None else int(word.most))


def _text(word: Word) -> Any:
    return Annotated[str, msgspec.Meta(max_length=int(word.most or 0))]


def _name(word: Word) -> Any:
    return Annotated[str, msgspec.Meta(min_length=1, max_length=int(word.most or 0))]


def _names(word: Word) -> Any:
    return Annotated[list[Name], _meta(word)]


def _texts(word: Word) -> Any:
    return Annotated[list[Annotated[str, msgspec.Meta(max_length=word.item_most)]], _meta(word)]


def _word(word: Word) -> Any:
    return word.words if inspect.isclass(word.words) else Literal[tuple(word.words)]


def _words(word: Word) -> Any:
    return Annotated[list[_word(word)], _meta(word)]


def _number(word: Word) -> Any:
    return Annotated[int, msgspec.Meta(ge=int(word.least or 0), le=int(word.most or 0))]


def _fraction(word: Word) -> Any:
    return Annotated[float, msgspec.Meta(ge=word.least, le=word.most)]


TYPES: dict[WordForm, Callable[[Word], Any]] = {
    WordForm.TEXT: _text,
    WordForm.NAME: _name,
    WordForm.NAMES: _names,
    WordForm.TEXTS: _texts,
    WordForm.WORD: _word,
    WordForm.WORDS: _words,
    WordForm.NUMBER: _number,
    WordForm.NUMBERS: lambda word: Annotated[list[int], msgspec.Meta(max_length=int(word.most or 0))],
    WordForm.FRACTION: _fraction,
    WordForm.FLAG: lambda _: bool,
    WordForm.INSTANT: lambda _: When,
    WordForm.SPAN: lambda _: Span,
    WordForm.VALUE: lambda _: Any,
    WordForm.FIELDS: lambda _: dict[str, Any],
    WordForm.TABLE: lambda _: dict[str, str],
    WordForm.REF: lambda _: Ref,
    WordForm.RUN: _name,
    WordForm.REFS: lambda word: Annotated[list[Ref], _meta(word)],
    WordForm.SOURCES: lambda word: Annotated[list[Name | Ref], _meta(word)],
    WordForm.CALLS: lambda word: Annotated[list[Call], _meta(word)],
    WordForm.NATIVE: lambda _: NativeInput,
    WordForm.CURSOR: lambda word: Annotated[str, _meta(word)],
    WordForm.PLACE: lambda word: Annotated[str, _meta(word)],
}


def _calls(given: list[Call], path: str) -> list[Call]:
    return [Call(each.id, each.tool, value_from(each.args, f"{path}[{i}].args")) for i, each in enumerate(given)]


def _native(given: NativeInput, path: str) -> Native:
    return Native(given.form, value_from(given.body, f"{path}.body"))


READS: dict[WordForm, Read] = {
    WordForm.VALUE: value_from,
    WordForm.FIELDS: value_from,
    WordForm.CALLS: _calls,
    WordForm.NATIVE: _native,
}


def type_of(argument: Argument, default: Any) -> Any:
    """The type of an argument on the wire: null where None is a value of its own, absent where it stays as before."""
    kind = TYPES[argument.word.form](argument.word)
    if argument.may_be_none or default is None:
        kind = Optional[kind]  # noqa: UP045 - made at run time
    return kind | msgspec.UnsetType if default is ... else kind


def default_of(default: Any, word: Word) -> Any:
    """A default on the wire: a list for what is empty, a word as what it is, nothing for what stays as before."""
    if default is ...:
        return msgspec.UNSET
    if default == () and isinstance(default, tuple):
        return []
    if isinstance(default, str) and inspect.isclass(word.words) and issubclass(word.words, enum.Enum):
        return word.words(default)
    return default


def field(argument: Argument, name: str, defaults: dict[str, Any], *, says: bool) -> tuple[Any, ...]:
    """The field of a body or of parameters that an argument is."""
    default = defaults.get(argument.name, argument.default)
    kind = type_of(argument, default)
    shown = Annotated[kind, msgspec.Meta(description=argument.word.says)] if says else kind
    if argument.required and default is argument.default:
        return name, shown
    return name, shown, default_of(default, argument.word)


def body_type(verb: Verb, arguments: list[Argument]) -> type[msgspec.Struct] | None:
    """The record of a body: made of what a verb takes, and refused for anything else."""
    if not arguments:
        return None
    defaults = dict(verb.at[0].defaults)
    fields = [field(each, verb.name_at("http", each.name), defaults, says=False) for each in arguments]
    name, says = verb.body
    made: Any = msgspec.defstruct(
        name, fields, bases=(Input,), module=__name__, namespace={"__doc__": says},
        forbid_unknown_fields=True, kw_only=True, frozen=True,
    )  # fmt: skip
    return made

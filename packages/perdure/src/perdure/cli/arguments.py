"""Options that follow from a declaration (`verbs`): one for each argument of a verb, by its form, with its bounds in the help.

An argument that is required by position is the command's own. Options that are not typed are left out: the verb has its default.
Callers: the modules of commands. No plane is loaded for `--help`.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable
from typing import Any

import click

from perdure.cli.options import Body
from perdure.cli.values import value_of
from perdure.errors import Invalid
from perdure.model.arguments import SEQ_MAX, Word, WordForm
from perdure.model.records.conversation import Call, Native
from perdure.model.refs import Ref
from perdure.verbs.declaring import Argument, verb_of

SEVERAL = frozenset(
    {WordForm.NAMES, WordForm.TEXTS, WordForm.WORDS, WordForm.NUMBERS, WordForm.REFS, WordForm.SOURCES, WordForm.CALLS}
)


def arguments_of(verb: Callable[..., Any], *, without: tuple[str, ...] = ()) -> Callable[[Body], Body]:
    """Give a command the options of a verb. without: arguments that it asks for in its own way.

    The command gets by name what was typed, and nothing else.
    """
    declared = verb_of(verb)
    taken = [each for each in declared.arguments.values() if _is_option(each) and each.name not in without]
    offered = [each for each in taken if not declared.why_without("cli", each.name)]

    def options(function: Body) -> Body:
        @functools.wraps(function)
        def run(*args: Any, **typed: Any) -> Any:
            for each in offered:
                if typed[each.name] is None or typed[each.name] is False or typed[each.name] == ():
                    del typed[each.name]
            return function(*args, **typed)

        made: Body = run
        for each in reversed(offered):
            made = _option(each)(made)
        return made

    return options


def _is_option(argument: Argument) -> bool:
    return argument.word.form is not WordForm.LOCAL and not (argument.positional and argument.required)


def _option(argument: Argument) -> Callable[[Body], Body]:
    word = argument.word
    spelt = word.option or f"--{argument.name.replace('_', '-')}"
    said: dict[str, Any] = {"help": _help(argument), "required": argument.required}
    if word.form is WordForm.FLAG:
        return click.option(spelt, argument.name, is_flag=True, **said)
    if word.metavar:
        said["metavar"] = word.metavar
    if word.form in SEVERAL:
        said["multiple"] = True
    if (kind := _type(word)) is not None:
        said["type"] = kind
    if word.form in READS:
        said["callback"] = _reading(argument)
    return click.option(spelt, argument.name, **said)


def _help(argument: Argument) -> str:
    word = argument.word
    said = f"{word.says} At most {int(word.most)}." if word.form in SEVERAL and word.most is not None else word.says
    return f"{said} Default: {argument.default}." if word.words and isinstance(argument.default, str) else said


def _type(word: Word) -> click.ParamType | None:
    if word.form in (WordForm.WORD, WordForm.WORDS):
        words = [each.value for each in word.words] if inspect.isclass(word.words) else list(word.words)
        return click.Choice(words)
    if word.form is WordForm.FRACTION:
        return click.FloatRange(word.least, word.most)
    if word.form is WordForm.NUMBER:
        least, most = word.least, None if word.most == SEQ_MAX else word.most
        return click.IntRange(None if least is None else int(least), None if most is None else int(most))
    return click.IntRange(0) if word.form is WordForm.NUMBERS else None


# -- what was typed, as values -----------------------------------------------------------------------------------------


def _reading(argument: Argument) -> Callable[[click.Context, click.Parameter, Any], Any]:
    read = READS[argument.word.form]

    def callback(_ctx: click.Context, _param: click.Parameter, typed: Any) -> Any:
        if typed is None:
            return None
        if isinstance(typed, tuple):
            return tuple(read(each, f"{argument.name}[{i}]") for i, each in enumerate(typed))
        return read(typed, argument.name)

    return callback


def _ref(typed: str, path: str) -> Ref:
    uid, _, seq = typed.partition("/")
    if len(uid) != 32 or not seq.isdecimal():
        raise Invalid(f"expected UID/SEQ, got {typed[:60]!r}", path=path, hint="`--json` shows the ref of a record")
    return Ref(uid, int(seq))


def _object(typed: str, path: str) -> dict[str, Any]:
    try:
        found = json.loads(typed)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Invalid(f"expected a JSON object, got {typed[:60]!r}", path=path)
    return found


def _call(typed: str, path: str) -> Call:
    given = _object(typed, path)
    if given.keys() - {"id", "tool", "args"} or not {"id", "tool"} <= given.keys():
        raise Invalid("expected id, tool and args", path=path)
    return Call(given["id"], given["tool"], given.get("args", {}))


def _native(typed: str, path: str) -> Native:
    given = _object(typed, path)
    if given.keys() != {"form", "body"}:
        raise Invalid("expected form and body", path=path)
    return Native(given["form"], given["body"])


READS: dict[WordForm, Callable[[str, str], Any]] = {
    WordForm.VALUE: value_of,
    WordForm.FIELDS: _object,
    WordForm.REF: _ref,
    WordForm.REFS: _ref,
    WordForm.CALLS: _call,
    WordForm.NATIVE: _native,
}

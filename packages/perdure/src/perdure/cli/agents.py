"""Agents by their place: `app:agents` on the command line becomes agents by their names.

`perdure worker` calls it. A misspelt name is refused with the names that exist; nothing is started then.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any

from perdure.errors import Error, Invalid, NotFound
from perdure.runtime.agent import Agent, by_name, declared


def agents_at(target: str, only: tuple[str, ...] = ()) -> dict[str, Agent]:
    """The agents of `module` (all that it declares), or of `module:attribute` (an agent, or a list or dict of agents).

    only: of these, those with these names. Raises NotFound or Invalid with what is wrong.
    """
    name, _, attribute = target.partition(":")
    module = _module(name, target)
    found = by_name(_listed(_attribute(module, attribute), target)) if attribute else declared()
    if not found:
        raise NotFound(f"{target} declares no agent", path="agents", hint="@perdure.agent makes a function one")
    unknown = [wanted for wanted in only if wanted not in found]
    if unknown:
        raise NotFound(f"{target} has no agent {unknown[0]!r}", path="agents", hint=f"it has {', '.join(found)}")
    return {wanted: found[wanted] for wanted in only} if only else found


def _module(name: str, target: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise Invalid(
            f"expected module or module:attribute, got {target!r}", path="agents", hint="perdure worker app:agents"
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise Invalid(f"{name} cannot be imported: {error}", path="agents") from error
        raise NotFound(f"there is no module {name!r}", path="agents", hint=_where(target)) from None
    except Error:
        raise
    except Exception as error:  # its import may do anything, and is not ours
        raise Invalid(f"{name} cannot be imported: {_failure(error)}", path="agents") from error


def _where(target: str) -> str:
    """How to find a module; who named its file is told its name."""
    name, colon, attribute = target.partition(":")
    if name.endswith(".py"):
        return f"did you mean {name.removesuffix('.py')}{colon}{attribute} ?"
    return "run it in the folder that has it"


def _failure(error: Exception) -> str:
    """The error that a module failed with, and where; an error of syntax says that itself."""
    last = extract_tb(error.__traceback__)[-1]
    where = "" if isinstance(error, SyntaxError) else f" ({Path(last.filename).name}, line {last.lineno})"
    return f"{type(error).__name__}: {error}{where}"


def _attribute(module: ModuleType, name: str) -> Any:
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise NotFound(f"{module.__name__} has no {name!r}", path="agents", hint=_near(module))
        found = getattr(found, part)
    return found


def _near(module: ModuleType) -> str:
    found = [name for name, value in vars(module).items() if name[0] != "_" and any(map(_is_agent, _each(value)))]
    return f"it has {', '.join(found)}" if found else "it declares no agent: @perdure.agent makes a function one"


def _is_agent(value: Any) -> bool:
    return isinstance(value, Agent)


def _each(value: Any) -> Iterable[Any]:
    """A value, or those that a list or dict has."""
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else (value,)


def _listed(found: Any, target: str) -> list[Agent]:
    """One agent, or those of a list or dict."""
    listed = [found] if isinstance(found, Agent) else list(found.values()) if isinstance(found, dict) else found
    if not isinstance(listed, (list, tuple)):
        raise Invalid(f"{target} is a {type(found).__name__}, not an agent or a list of agents", path="agents")
    for each in listed:
        if not isinstance(each, Agent):
            raise Invalid(
                f"{target} holds {each!r}, which is no agent", path="agents", hint="@perdure.agent makes it one"
            )
    return list(listed)

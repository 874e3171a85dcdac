"""The state of a workflow as values, and back: JSON, the framework's own records, and classes that were allowed. Keeps P10.

The framework's file storage pickles whatever a state holds. Here nothing is pickled, and nothing that data names is imported: a
name is only looked up among the classes of this storage. A class that is not among them is refused when it is written, because a
state that cannot be read back is lost, and when it is read; the error names the type and the path.

    None, bool, int, float, str, bytes, list, tuple, date, time, Decimal, UUID, …    as they are (docs/format.md)
    a class of `@perdure.registered`                                                 as it is
    any other                                                                        {"perdure.type": NAME, "is": …}
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import agent_framework  # pyright: ignore[reportMissingImports]

from perdure.errors import Damaged, Invalid
from perdure.model import registered_types
from perdure.model.registered_types import Unregistered

TAG, IS = "perdure.type", "is"

# Those of the framework that stand in checkpoints of its own executors. A version may lack one.
_AS_DICT = (  # by their own to_dict and from_dict
    "AgentResponse", "AgentResponseUpdate", "AgentSession", "ChatResponse", "ChatResponseUpdate", "Content", "Message",
)  # fmt: skip
_BY_ATTRIBUTES = (
    "AgentExecutorRequest", "AgentExecutorResponse", "SubWorkflowRequestMessage", "SubWorkflowResponseMessage",
    "WorkflowCheckpoint", "WorkflowErrorDetails", "WorkflowEvent", "WorkflowEventSource", "WorkflowMessage", "WorkflowRunState",
)  # fmt: skip
_PRIVATE = (("_workflows._runner_context", "MessageType"), ("_workflows._workflow_executor", "ExecutionContext"))
_PLAIN = (bool, int, float, str, bytes, date, datetime, time, timedelta, Decimal, UUID)
_CLASSES: dict[str, Any] = {
    each.__name__: each for each in (*_PLAIN, list, tuple, dict, set, frozenset, object, type(None))
} | {"Any": Any}


class TypeNotAllowed(Invalid):
    """A state holds, or a checkpoint names, a class that was not allowed. Nothing of it is imported or built."""


def _exported(names: Iterable[str]) -> list[Any]:
    return [getattr(agent_framework, name) for name in names if hasattr(agent_framework, name)]


def own_types() -> list[type]:
    """The framework's classes that are always allowed."""
    classes = _exported((*_AS_DICT, *_BY_ATTRIBUTES))
    for module, name in _PRIVATE:
        where = agent_framework
        for part in module.split("."):
            where = getattr(where, part, None)
        classes.append(getattr(where, name, None))
    return [cls for cls in classes if isinstance(cls, type)]


def name_of(cls: type) -> str:
    """The name of a class in a checkpoint."""
    return f"{cls.__module__}:{cls.__qualname__}"


class Encoding:
    """Turns states into values and back. allow: classes of your own that may stand in a state: data classes, Pydantic models,
    enumerations, and classes whose attributes are their state.
    """

    def __init__(self, allow: Iterable[type] = ()) -> None:
        self._as_dict = frozenset(_exported(_AS_DICT))
        self._known = {name_of(cls): cls for cls in (*own_types(), *allow)}

    # -- writing -----------------------------------------------------------------------------------------------------

    def encode(self, value: Any, path: str) -> Any:
        """A value of a state as a value of Perdure. TypeNotAllowed with its path if it could not be read back."""
        kind = type(value)
        if value is None or (kind in _PLAIN and kind is not datetime):
            return value
        writer = self._writers().get(kind)
        if writer is not None:
            return writer(value, path)
        if isinstance(value, (type, types.GenericAlias, types.UnionType)) or typing.get_origin(value) is not None:
            return {TAG: "class", IS: self._class_name(value, path)}
        if registered_types.dump(value) is not None:
            return value
        return {TAG: self._name(kind, path), IS: self.encode(self._parts(value), path)}

    def _writers(self) -> dict[type, Callable[[Any, str], Any]]:
        return {
            list: lambda value, path: [self.encode(item, f"{path}[{at}]") for at, item in enumerate(value)],
            tuple: lambda value, path: tuple(self.encode(item, f"{path}[{at}]") for at, item in enumerate(value)),
            dict: self._dict,
            set: lambda value, path: {TAG: "set", IS: self._members(value, path)},
            frozenset: lambda value, path: {TAG: "frozenset", IS: self._members(value, path)},
            datetime: lambda value, _path: {TAG: "naive", IS: value.isoformat()} if value.tzinfo is None else value,
            type(Any): lambda value, path: {TAG: "class", IS: self._class_name(value, path)},
        }

    def _dict(self, value: dict[Any, Any], path: str) -> Any:
        if all(type(key) is str for key in value) and TAG not in value:
            return {key: self.encode(item, f"{path}.{key}") for key, item in value.items()}
        pairs = [
            [self.encode(key, f"{path} key"), self.encode(item, f"{path}[{key!r}]")] for key, item in value.items()
        ]
        return {TAG: "dict", IS: pairs}

    def _members(self, value: Iterable[Any], path: str) -> list[Any]:
        return sorted((self.encode(item, f"{path} member") for item in value), key=repr)

    def _parts(self, value: Any) -> Any:
        if isinstance(value, Enum):
            return value.name
        if type(value) in self._as_dict:
            return value.to_dict()
        if dataclasses.is_dataclass(value):
            return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return dict(vars(value))

    def _name(self, cls: type, path: str) -> str:
        name = name_of(cls)
        if self._known.get(name) is not cls or not (dataclasses.is_dataclass(cls) or hasattr(cls, "__dict__")):
            raise _unknown(name, path)
        return name

    def _class_name(self, value: Any, path: str) -> Any:
        """A class itself, as events have it: by its name, or with its arguments (`list[str]`, `int | None`)."""
        origin = typing.get_origin(value)
        if origin is not None:
            head = "union" if origin in (typing.Union, types.UnionType) else self._class_name(origin, path)
            return [head, *(self._class_name(part, path) for part in typing.get_args(value))]
        for name, cls in (*_CLASSES.items(), *self._known.items()):
            if cls is value:
                return name
        raise _unknown(name_of(value) if isinstance(value, type) else repr(value), path)

    # -- reading -----------------------------------------------------------------------------------------------------

    def decode(self, value: Any, path: str) -> Any:
        """The value that was encoded. TypeNotAllowed for a name that is not allowed, Damaged for a form that is none of ours."""
        if isinstance(value, list):
            return [self.decode(item, f"{path}[{at}]") for at, item in enumerate(value)]
        if isinstance(value, tuple):
            return tuple(self.decode(item, f"{path}[{at}]") for at, item in enumerate(value))
        if isinstance(value, Unregistered):
            raise _unknown(value.name, path)
        if not isinstance(value, dict):
            return value
        if TAG not in value:
            return {key: self.decode(item, f"{path}.{key}") for key, item in value.items()}
        try:
            return self._tagged(value[TAG], value[IS], path)
        except Invalid:
            raise
        except Exception as error:
            raise Damaged(f"a {value[TAG]} cannot be built again: {error}", path=path) from error

    def _tagged(self, name: Any, body: Any, path: str) -> Any:
        if name == "class":
            return self._class(body, path)
        reader = _READERS.get(name) if isinstance(name, str) else None
        if reader is not None:
            return reader(self.decode(body, path))
        cls = self._known.get(name) if isinstance(name, str) else None
        if cls is None:
            raise _unknown(str(name), path)
        return self._built(cls, self.decode(body, path))

    def _built(self, cls: Any, parts: Any) -> Any:
        if issubclass(cls, Enum):
            return cls[parts]
        if cls in self._as_dict:
            return cls.from_dict(parts)
        if hasattr(cls, "model_construct"):
            return cls.model_construct(**parts)
        instance = object.__new__(cls)
        for name, item in parts.items():
            object.__setattr__(instance, name, item)
        return instance

    def _class(self, name: Any, path: str) -> Any:
        if isinstance(name, list):
            first, *arguments = name
            classes = tuple(self._class(argument, path) for argument in arguments)
            return typing.Union[classes] if first == "union" else self._class(first, path)[classes]  # noqa: UP007 - computed
        cls = _CLASSES.get(name, self._known.get(name))
        if cls is None:
            raise _unknown(str(name), path)
        return cls


_READERS: dict[str, Callable[[Any], Any]] = {
    "set": set,
    "frozenset": frozenset,
    "dict": dict,
    "naive": datetime.fromisoformat,
}


def _unknown(name: str, path: str) -> TypeNotAllowed:
    short = name.rpartition(":")[2]
    hint = f"if it is yours, say PerdureCheckpointStorage(…, allow=[{short}]), or keep plain data in the state"
    return TypeNotAllowed(f"the type {name} is not allowed", path=path, hint=hint)

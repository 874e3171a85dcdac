"""Short addresses of siblings: `perdure.adapters.langgraph` is the module `perdure_adapters.langgraph`, and no second copy.

Callers: `perdure.adapters` and `perdure.testing`, which are nothing but such addresses. Nothing of the core imports them.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


def stand_in(name: str, package: str, extra: str) -> None:
    """Let the module `name`, which is being imported, be the package of a sibling, with all that is below it."""
    try:
        sys.modules[name] = import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        hint = f"pip install 'perdure[{extra}]'"
        raise ModuleNotFoundError(f"{name} is in the package {package.replace('_', '-')} ({hint})", name=name) from None
    sys.meta_path.insert(0, StandIns(name, package))


class StandIns(MetaPathFinder, Loader):
    """Finds `perdure.adapters.X` as the module `perdure_adapters.X`."""

    def __init__(self, name: str, package: str) -> None:
        self._prefix, self._package = f"{name}.", package

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        """A name below ours is a stand-in."""
        return ModuleSpec(fullname, self) if fullname.startswith(self._prefix) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The sibling's own module."""
        module = import_module(f"{self._package}.{spec.name.removeprefix(self._prefix)}")
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """The module was executed under its own name, whose spec it gets back."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state

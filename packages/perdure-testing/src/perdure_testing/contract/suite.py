"""Every class of the contract as a test class, in both colours: `from perdure_testing.contract.suite import *` in a test module.

Each takes the fixture `opener`, which `perdure_testing.plugin` makes from the fixture `store_url` of the package under test.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import perdure_testing.contract.aio


def _run(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """An async test as pytest calls it: in an event loop of its own."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


def _bound(contract: type) -> type:
    name = f"Test{contract.__name__}"
    tests = {
        key: _run(test)
        for key, test in inspect.getmembers(contract, inspect.iscoroutinefunction)
        if key.startswith("test_")
    }
    return type(name, (contract,), {"__module__": __name__, **tests})


def _contracts() -> Iterator[type]:
    names = [module.name for module in pkgutil.iter_modules(perdure_testing.contract.aio.__path__)]
    for colour in ("aio", "sync"):
        for name in names:
            module = importlib.import_module(f"perdure_testing.contract.{colour}.{name}")
            classes = [it for it in vars(module).values() if isinstance(it, type) and it.__module__ == module.__name__]
            yield from (it for it in classes if it.__name__.endswith("Contract"))


_SUITE = {it.__name__: it for it in map(_bound, _contracts())}
globals().update(_SUITE)
__all__ = list(_SUITE)  # pyright: ignore[reportUnsupportedDunderAll]

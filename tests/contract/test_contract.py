"""Binds the shipped contract to our own stores. A new contract module is found by itself."""

from __future__ import annotations

import importlib
import pkgutil

import perdure.testing.contract.aio
import perdure.testing.contract.sync


def _bind(package) -> None:
    for module in pkgutil.iter_modules(package.__path__):
        found = importlib.import_module(f"{package.__name__}.{module.name}")
        for name, thing in vars(found).items():
            if isinstance(thing, type) and name.endswith("Contract") and thing.__module__ == found.__name__:
                globals()[f"Test{name}"] = type(f"Test{name}", (thing,), {"__module__": __name__})


_bind(perdure.testing.contract.aio)
_bind(perdure.testing.contract.sync)

"""The orders and reports of an agent of the demo: lines of JSON on standard input and output.

An order is no argument of a process: it holds the store's URL, and others can read arguments.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import msgspec

from demo.strikes import Strike


class DemoPlace(msgspec.Struct, frozen=True):
    """Where an agent works: its clone, the remote, its repository on the forge, and a folder for its own files."""

    work: str
    remote: str
    forge: str
    own: str


class DemoOrder(msgspec.Struct, frozen=True):
    """One life of an agent. store: of the one that has one. key: of its run there. strike: where it dies, if it does."""

    place: DemoPlace
    store: str = ""
    key: str = ""
    strike: Strike | None = None


def read_order() -> DemoOrder:
    """The order that this process gets, once, before anything else."""
    return msgspec.json.decode(sys.stdin.readline(), type=DemoOrder)


def line_of(order: DemoOrder) -> bytes:
    """An order as it is sent."""
    return msgspec.json.encode(order) + b"\n"


def tell(**fact: Any) -> None:
    """Tell the story a fact, at once: what was told before a SIGKILL is heard."""
    os.write(1, msgspec.json.encode(fact) + b"\n")

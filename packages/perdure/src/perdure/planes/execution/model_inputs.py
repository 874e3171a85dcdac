"""The inputs of models: kept by reference with the step that called them, and read back.

An input is a tree of content-addressed nodes, as a checkpoint's state is, and has a row among the checkpoints of its run, under a
name of its own: so a list of messages that grows costs what it grows by, and whatever looks after checkpoints looks after
inputs. Callers: `runs`. Keeps P6, P8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.artifacts import tree
from perdure.errors import NotFound
from perdure.log.change import Stream
from perdure.planes.reading.body_reading import stored_value
from perdure.planes.reading.row_reading import stored_address, stored_fields
from perdure.planes.recovery import checkpoints
from perdure.planes.recovery.checkpoints import Prepared
from perdure.stores.store import Reads
from perdure.stores.tx import Tx

NAME = "input"  # among the checkpoints of a run; its states are called "default"


def freeze(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
    """The input of a model, as it is now: changes to it during the call are not kept."""
    return checkpoints.freeze({"args": list(args), "kwargs": dict(kwargs)})


def prepare(reads: Reads, stream: Stream, frozen: bytes) -> Prepared:
    """Cut an input into nodes, on top of the one that its run gave last."""
    return checkpoints.prepare(reads, stream, frozen, NAME)


def keep(tx: Tx, stream: Stream, prepared: Prepared) -> str:
    """Keep an input with its run; returns its address."""
    return checkpoints.save(tx, stream, prepared, NAME, "step.given").hash


def load(reads: Reads, address: str, where: str) -> dict[str, Any]:
    """An input by its address: `args` and `kwargs`. NotFound where it is not: a run that was adopted has left it behind."""
    root = stored_address(address, where)
    if not reads.known([root]):
        raise NotFound("its input is not in this store", path=where, hint="look in the store where the step was done")
    return stored_fields(stored_value(tree.load(root, reads.fetch), where), where)

"""Records of checkpoints, as the verbs of `planes.recovery.checkpoints` return them."""

from __future__ import annotations

from datetime import datetime

import msgspec

from perdure.model.refs import Ref


class CheckpointRecord(msgspec.Struct, frozen=True):
    """One checkpoint. `hash` is the root of its state: equal states have equal hashes, on every store.

    parent: the sequence number of the checkpoint of that name before it.
    size: bytes of the whole state, shared or not.
    key, parent_key: its own name and its parent's, if the caller gave them.
    """

    seq: int
    name: str
    parent: int | None
    hash: str
    size: int
    at: datetime
    actor: str
    ref: Ref
    key: str | None = None
    parent_key: str | None = None


class PruneReport(msgspec.Struct, frozen=True):
    """The checkpoints that a prune removed, or with `dry_run` would remove.

    pruned: their sequence numbers, oldest first.
    kept: how many remain in this session.
    bytes: of the nodes that only they reach in this session; `store.collect` frees those that nothing else shares. None unless
        it was a dry run.
    """

    pruned: tuple[int, ...]
    kept: int
    bytes: int | None
    dry_run: bool

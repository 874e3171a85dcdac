"""The history of delta channels: what was written since a channel last stood whole, along the parents of a checkpoint.

One read in the store, as of one moment. Of a checkpoint on the way only the names of its channels are read, and the writes to
the channels that are asked for; the walk ends at the nearest checkpoints that have them. Callers: `saver`. Keeps P8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from langgraph.checkpoint.serde.base import SerializerProtocol

from perdure.log.change import Stream
from perdure.planes.reading.snapshots import one_state
from perdure.planes.recovery import keyed
from perdure.planes.recovery.keyed import StoredWrite
from perdure.stores.store import Reads
from perdure_adapters.langgraph.layout import load_channel, nodes_of_write, read_write

if TYPE_CHECKING:  # not in the first versions that are supported
    from langgraph.checkpoint.base import DeltaChannelHistory


class StoredHistory(NamedTuple):
    """The stored history of channels: for each its writes, newest first, and its last whole value, where there is one."""

    writes: dict[str, list[StoredWrite]]
    seeds: dict[str, Any]
    nodes: Mapping[bytes, bytes]


@one_state
def history(reads: Reads, stream: Stream, name: str, key: str | None, channels: Sequence[str]) -> StoredHistory:
    """The writes to channels before a checkpoint, since each of them stood whole."""
    writes: dict[str, list[StoredWrite]] = {channel: [] for channel in channels}
    seeds: dict[str, Any] = {}
    checkpoint = keyed.get(reads, stream, name, key)
    while checkpoint is not None and checkpoint.parent_key is not None and len(seeds) < len(writes):
        checkpoint = keyed.get(reads, stream, name, checkpoint.parent_key)
        if checkpoint is None:
            break
        for write in reversed(keyed.writes_of(reads, stream, name, checkpoint.key)):
            if write.channel in writes and write.channel not in seeds:
                writes[write.channel].append(write)
        complete = (writes.keys() - seeds.keys()) & keyed.names_in(reads, checkpoint, "values")
        if complete:
            values = keyed.state(checkpoint, reads.fetch)["values"]
            seeds |= {channel: values[channel] for channel in complete}
    addresses = {
        address for stored in writes.values() for write in stored for address in nodes_of_write(write.document)
    }
    return StoredHistory(writes, seeds, reads.fetch(addresses) if addresses else {})


def read_history(serde: SerializerProtocol, stored: StoredHistory) -> dict[str, DeltaChannelHistory]:
    """A history as LangGraph takes it, oldest write first."""
    histories: dict[str, DeltaChannelHistory] = {}
    for channel, writes in stored.writes.items():
        histories[channel] = {
            "writes": [
                (write.task, channel, read_write(serde, write.document, stored.nodes, channel))
                for write in reversed(writes)
            ]
        }
        if channel in stored.seeds:
            histories[channel]["seed"] = load_channel(serde, stored.seeds[channel], channel)
    return histories

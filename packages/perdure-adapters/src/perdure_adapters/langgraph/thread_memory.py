"""The memory of a saver: the threads that it wrote to last, their streams, the parts of their last checkpoints, and recent nodes.

Nothing here is needed for correctness: a thread that was forgotten is laid out whole once more, a node is read from the store.
Threads may share it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping
from functools import partial
from threading import Condition, Lock
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol

from perdure.artifacts.tree import Fetch
from perdure.log.change import Stream
from perdure_adapters.langgraph.layout import ThreadMemory

THREADS_MAX = 256
NODES_MAX_BYTES = 16 * 1024 * 1024


class RecentNodes:
    """Nodes that were stored or read lately. The tree verifies each by its address, wherever it comes from.

    Two halves: what the older one holds goes when the newer one is full, but for the nodes that were asked for since.
    """

    __slots__ = ("_bytes", "_mutex", "_newer", "_older")

    def __init__(self) -> None:
        self._mutex = Lock()
        self.forget()

    def before(self, fetch: Fetch) -> Fetch:
        """A way to fetch nodes that asks the store, by `fetch`, only for those that are not here."""
        return partial(self._fetch, fetch)

    def keep(self, nodes: Mapping[bytes, bytes]) -> None:
        """Nodes that are stored."""
        with self._mutex:
            self._newer.update(nodes)
            self._bytes += sum(map(len, nodes.values()))
            if self._bytes > NODES_MAX_BYTES // 2:
                self._older, self._newer, self._bytes = self._newer, {}, 0

    def forget(self) -> None:
        """Forget all of them."""
        with self._mutex:
            self._newer: dict[bytes, bytes] = {}
            self._older: dict[bytes, bytes] = {}
            self._bytes = 0

    def _fetch(self, fetch: Fetch, addresses: Collection[bytes]) -> Mapping[bytes, bytes]:
        newer, older = self._newer, self._older
        recent = {address: newer[address] for address in addresses if address in newer}
        used = {address: older[address] for address in addresses if address not in recent and address in older}
        missing = [address for address in addresses if address not in recent and address not in used]
        read = fetch(missing) if missing else {}
        if used or read:
            self.keep({**used, **read})
        return {**recent, **used, **read}


class RememberedThreads:
    """The threads that a saver wrote to last. `stored` wakes callers that wait for a checkpoint, `nodes` are of all threads."""

    __slots__ = ("_memories", "_mutex", "_streams", "nodes", "stored")

    def __init__(self) -> None:
        self._memories: OrderedDict[tuple[str, str], ThreadMemory] = OrderedDict()
        self._streams: OrderedDict[str, Stream] = OrderedDict()
        self._mutex = Lock()
        self.stored = Condition()
        self.nodes = RecentNodes()

    def stream(self, thread: str) -> Stream | None:
        """The stream of a thread, if it is known."""
        with self._mutex:
            return self._streams.get(thread)

    def know(self, thread: str, stream: Stream) -> None:
        """Remember the stream of a thread."""
        with self._mutex:
            _put_last(self._streams, thread, stream)

    def last_key(self, thread: str, ns: str) -> str | None:
        """The checkpoint that was saved last."""
        with self._mutex:
            memory = self._memories.get((thread, ns))
        return None if memory is None else memory.base.key

    def base_for(self, thread: str, ns: str, parent: str | None, serde: SerializerProtocol) -> ThreadMemory | None:
        """The last checkpoint, if a new one follows it and is written by the same serializer."""
        with self._mutex:
            memory = self._memories.get((thread, ns))
        fits = memory is not None and memory.base.key == parent and memory.serde is serde
        return memory if fits else None

    def remember(self, thread: str, ns: str, memory: ThreadMemory) -> None:
        """A checkpoint is durable."""
        with self._mutex:
            _put_last(self._memories, (thread, ns), memory)
        with self.stored:
            self.stored.notify_all()

    def forget(self, thread: str | None = None) -> None:
        """Forget the checkpoints of a thread, or of all, and every node: which are theirs is not known."""
        with self._mutex:
            for place in [place for place in self._memories if thread in (None, place[0])]:
                del self._memories[place]
        self.nodes.forget()


def _put_last(remembered: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    remembered[key] = value
    remembered.move_to_end(key)
    while len(remembered) > THREADS_MAX:
        remembered.popitem(last=False)

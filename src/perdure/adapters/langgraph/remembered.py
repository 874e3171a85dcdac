"""The memory of a saver: the threads that it wrote to last, their streams, and the parts of their last checkpoints.

Nothing here is needed for correctness: a thread that was forgotten is laid out whole once more. Threads may share it.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Condition, Lock
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol

from perdure.adapters.langgraph.layout import ThreadMemory
from perdure.log.change import Stream

THREADS_MAX = 256


class RememberedThreads:
    """The threads that a saver wrote to last. `stored` wakes callers that wait for a checkpoint."""

    __slots__ = ("_memories", "_mutex", "_streams", "stored")

    def __init__(self) -> None:
        self._memories: OrderedDict[tuple[str, str], ThreadMemory] = OrderedDict()
        self._streams: OrderedDict[str, Stream] = OrderedDict()
        self._mutex = Lock()
        self.stored = Condition()

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
        """Forget the checkpoints of a thread, or of all."""
        with self._mutex:
            for place in [place for place in self._memories if thread in (None, place[0])]:
                del self._memories[place]


def _put_last(remembered: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    remembered[key] = value
    remembered.move_to_end(key)
    while len(remembered) > THREADS_MAX:
        remembered.popitem(last=False)

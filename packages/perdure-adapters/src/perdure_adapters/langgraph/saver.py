"""LangGraph's checkpoints in a store of Perdure: a thread is a session, and every write is recorded.

Every method of the contract and of its extensions, sync and async on one object. A put costs what changed (`layout`). Reading is
strict (`serde`). A deleted thread leaves a mark, so that a run that is still writing cannot bring it back. Keeps P1, P5, P8, P10.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import RESUME

from perdure.errors import Invalid
from perdure.log.change import Stream
from perdure.planes.reading.snapshots import one_state
from perdure.planes.recovery import keyed
from perdure.planes.recovery.keyed import Base, KeyedCheckpoint, StoredWrite
from perdure.stores.blobs import BlobRow
from perdure.stores.store import Reads
from perdure_adapters.both import Asked, Both, Read, WriteIn, find_session, open_session
from perdure_adapters.langgraph import deltas, threads, turns
from perdure_adapters.langgraph.layout import (
    LaidState,
    ThreadMemory,
    lay_out,
    lay_writes,
    nodes_of_write,
    read_back,
    read_write,
)
from perdure_adapters.langgraph.serde import StrictSerializer
from perdure_adapters.langgraph.thread_memory import RecentNodes, RememberedThreads
from perdure_adapters.shared_store import ClosedByBlock

if TYPE_CHECKING:  # not in the first versions that are supported
    from langgraph.checkpoint.base import DeltaChannelHistory

NAME = "langgraph"  # checkpoints of LangGraph bear this name, with their namespace after it
PREFIX = NAME + "/"
ANY_TASK = "00000000-0000-0000-0000-000000000000"  # LangGraph's name for what is no task's own, such as an answer
_write_json = json.JSONEncoder(ensure_ascii=False).encode
LOOK_SECONDS = 0.2  # how often a waiting call looks for a checkpoint that another process may store


class PerdureSaver(ClosedByBlock, BaseCheckpointSaver[Any]):
    """A checkpointer that keeps LangGraph's state in a store of Perdure.

        graph.compile(checkpointer=PerdureSaver.from_conn_string("sqlite:///agent.db"))

    store: a URL, or an open store (sync or async). allow: classes of your own that stand in the state; messages, dates and
    the like are known. serde: another serializer, which then answers for what it reads. turns: say the messages of each
    checkpoint as turns of the session, in its commit, so that other frameworks, search and people read the conversation; it
    costs a commit's worth of their bytes. A context manager; `close` closes a store that was opened from a URL.
    """

    def __init__(
        self,
        store: Any,
        *,
        serde: SerializerProtocol | None = None,
        allow: Iterable[type | tuple[str, str]] = (),
        turns: bool = False,
    ) -> None:
        super().__init__(serde=serde or StrictSerializer(allow))
        self._says_turns = turns
        self._both = Both(store)
        self._threads = RememberedThreads()

    @classmethod
    def from_conn_string(cls, url: str, **options: Any) -> Self:
        """A saver on the store of this URL: `sqlite:///agent.db`, `postgresql://…`, `files:///folder`."""
        return cls(url, **options)

    @property
    def store(self) -> Any:
        """The open store."""
        return self._both.store

    def setup(self) -> None:
        """Nothing: a store is made when it is opened."""

    async def asetup(self) -> None:
        """Nothing, as above."""

    def close(self) -> None:
        """Close the store if it was opened here. Calling it again does nothing."""
        self._both.close()

    # -- the contract --------------------------------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that the config names, or the newest of its thread and namespace."""
        return self._both.run(self._get(config))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See `get_tuple`."""
        return await self._both.arun(self._get(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the contract's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, newest first: of a thread (and namespace), or of all threads. filter: by metadata."""
        page = _Page(self, config, filter, before, limit)
        while not page.done:
            yield from self._both.run(page.next())

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the contract's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """See `list`."""
        page = _Page(self, config, filter, before, limit)
        while not page.done:
            for checkpoint in await self._both.arun(page.next()):
                yield checkpoint

    def put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:  # fmt: skip
        """Store a checkpoint; durable when this returns. Raises Invalid with the channel that cannot be stored, Conflict when the
        thread was deleted meanwhile.
        """
        return self._both.run(self._put(config, checkpoint, metadata, new_versions))

    async def aput(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:  # fmt: skip
        """See `put`."""
        return await self._both.arun(self._put(config, checkpoint, metadata, new_versions))

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote after a checkpoint; idempotent by task and index. Raises as `put`."""
        self._both.run(self._put_writes(config, writes, task_id, task_path))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """See `put_writes`."""
        await self._both.arun(self._put_writes(config, writes, task_id, task_path))

    def delete_thread(self, thread_id: str) -> None:
        """Let all checkpoints of a thread go. From then on a run that is still writing there is refused."""
        self._both.run(self._delete(thread_id))

    async def adelete_thread(self, thread_id: str) -> None:
        """See `delete_thread`."""
        await self._both.arun(self._delete(thread_id))

    # -- the extensions ------------------------------------------------------------------------------------------

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Let the checkpoints go that these runs made, in all threads. Those that a kept one is rebuilt from stay."""
        self._both.run(threads.drop_runs(PREFIX, run_ids))
        self._threads.forget()

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """See `delete_for_runs`."""
        await self._both.arun(threads.drop_runs(PREFIX, run_ids))
        self._threads.forget()

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints of a thread, with what tasks wrote, to another: rows alone, their states are shared."""
        self._both.run(threads.copy(PREFIX, source_thread_id, target_thread_id))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """See `copy_thread`."""
        await self._both.arun(threads.copy(PREFIX, source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep the newest checkpoint of each namespace, with its writes and those that it is rebuilt from; or delete all."""
        self._both.run(self._prune(thread_ids, strategy))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """See `prune`."""
        await self._both.arun(self._prune(thread_ids, strategy))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """The writes to delta channels before a checkpoint since each stood whole, and that value: one read."""
        return self._both.run(self._history(config, channels))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """See `get_delta_channel_history`."""
        return await self._both.arun(self._history(config, channels))

    def get_next_version(self, current: str | int | None, channel: None) -> str | int:  # noqa: ARG002 - the contract's
        """The version after this one: a number; in a thread that began elsewhere, text that sorts after it."""
        if isinstance(current, str):
            return f"{int(current.partition('.')[0]) + 1:016}"
        return 1 if current is None else int(current) + 1

    def bring_from(self, other: BaseCheckpointSaver[Any], thread_id: str) -> int:
        """Copy a thread of another saver here, to continue it: every checkpoint with its writes. Returns how many.

        It is read by this saver's own serializer, so strictly. May be run again: a checkpoint that is here is replaced by itself.
        """
        before, other.serde = other.serde, self.serde
        try:
            checkpoints = [*other.list({"configurable": {"thread_id": thread_id}})]
        finally:
            other.serde = before
        for saved in sorted(checkpoints, key=lambda saved: saved.checkpoint["id"]):
            place = dict(saved.config.get("configurable") or {})
            parent = get_checkpoint_id(saved.parent_config) if saved.parent_config else None
            place["checkpoint_id"] = parent
            versions = saved.checkpoint["channel_versions"]
            stored = self.put({"configurable": place}, saved.checkpoint, saved.metadata, versions)
            writes: dict[str, list[tuple[str, Any]]] = {}
            for task, channel, value in saved.pending_writes or ():
                writes.setdefault(task, []).append((channel, value))
            for task, written in writes.items():
                self.put_writes(stored, written, task)
        return len(checkpoints)

    def say_turns(self, thread_id: str) -> int:
        """Say the messages of a thread's newest checkpoint as turns of its session; gives how many turns changed. Idempotent."""
        newest = self.get_tuple({"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}})
        if newest is None:
            return 0
        changed = turns.ChangedMessages(newest.checkpoint["channel_values"])
        return self.store.atomic(lambda tx: changed.say(tx.session(_thread(thread_id))))

    def await_durable(self, thread_id: str, checkpoints: Mapping[str, str], seconds: float) -> str | None:
        """Wait until the checkpoints of these namespaces are stored. Gives one that is not within this time, or None."""
        deadline = time.monotonic() + seconds
        for ns, key in checkpoints.items():
            while not self._both.run(self._is_durable(thread_id, ns, key)):
                with self._threads.stored:
                    remaining = deadline - time.monotonic()
                    if remaining <= 0:
                        return key
                    self._threads.stored.wait(min(remaining, LOOK_SECONDS))
        return None

    def resumed_at(self, thread_id: str, checkpoints: Mapping[str, str]) -> int:
        """The number of the last event by which somebody answered the graph after one of these checkpoints; 0 if none did."""
        return self._both.run(self._resumed_at(thread_id, checkpoints))

    def _resumed_at(self, thread: str, checkpoints: Mapping[str, str]) -> Asked[int]:
        stream = yield from self._stream(thread)
        if stream is None:
            return 0
        writes: list[StoredWrite] = []
        for ns, key in checkpoints.items():
            writes += yield Read(keyed.writes_of, (stream, name_of(ns), key))
        return max((write.seq for write in writes if write.task == ANY_TASK and write.channel == RESUME), default=0)

    def _is_durable(self, thread: str, ns: str, key: str) -> Asked[bool]:
        if self._threads.last_key(thread, ns) == key:
            return True
        stream = yield from self._stream(thread)
        return stream is not None and (yield Read(keyed.get, (stream, name_of(ns), key))) is not None

    # -- how, in no colour ---------------------------------------------------------------------------------------

    def _get(self, config: RunnableConfig) -> Asked[CheckpointTuple | None]:
        thread, ns = _place(config)
        stream = yield from self._stream(thread)
        if stream is None:
            return None
        opened = yield Read(_open_at, (stream, name_of(ns), get_checkpoint_id(config), self._threads.nodes))
        return None if opened is None else self._tuple(thread, opened)

    def _history(self, config: RunnableConfig, channels: Sequence[str]) -> Asked[Mapping[str, DeltaChannelHistory]]:
        thread, ns = _place(config)
        stream = (yield from self._stream(thread)) if channels else None
        if stream is None:
            return {channel: {"writes": []} for channel in channels}
        about = (stream, name_of(ns), get_checkpoint_id(config), channels)
        return deltas.read_history(self.serde, (yield Read(deltas.history, about)))

    def _tuple(self, thread: str, opened: _Opened) -> CheckpointTuple:
        checkpoint, state, writes, nodes = opened
        ns = ns_of(checkpoint.name)
        parent = None if checkpoint.parent_key is None else _config(thread, ns, checkpoint.parent_key)
        document = checkpoint.document if isinstance(checkpoint.document, dict) else {}
        return CheckpointTuple(
            _config(thread, ns, checkpoint.key),
            read_back(state, self.serde),  # type: ignore[arg-type]
            document.get("metadata") or {},  # type: ignore[arg-type]
            parent,
            [
                (write.task, write.channel, read_write(self.serde, write.document, nodes, write.channel))
                for write in writes
            ],
        )

    def _put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> Asked[RunnableConfig]:  # fmt: skip
        thread, ns = _place(config)
        key, parent = checkpoint["id"], get_checkpoint_id(config)
        stream = yield from self._opened(thread)
        document = {"metadata": _plain_metadata(config, metadata)}
        memory = self._threads.base_for(thread, ns, parent, self.serde)
        while True:
            state = lay_out(checkpoint, new_versions, self.serde, memory)
            laid = yield Read(_packed, (state, memory))
            args = (laid, name_of(ns), key, parent, document)
            try:
                if self._says_turns and not ns:
                    before = memory.channels if memory is not None else None
                    changed = turns.ChangedMessages(checkpoint["channel_values"], before, state.channels)
                    yield WriteIn(stream, turns.save, (*args, changed, self._both.caller))
                else:
                    yield WriteIn(stream, threads.save, args)
            except keyed.Outdated:
                if memory is None:
                    raise
                memory = None
                continue
            break
        self._threads.remember(thread, ns, ThreadMemory(Base(key, state.root.hex()), self.serde, state.channels))
        self._threads.nodes.keep(state.nodes)
        return _config(thread, ns, key)

    def _put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task: str, path: str
    ) -> Asked[None]:
        thread, ns = _place(config)
        checkpoint = get_checkpoint_id(config)
        if checkpoint is None:
            raise Invalid("the config names no checkpoint", path="configurable.checkpoint_id")
        stream = yield from self._opened(thread)
        laid, nodes = lay_writes(self.serde, writes)
        rows = (yield Read(_packed_nodes, (nodes,))) if nodes else ()
        yield WriteIn(stream, threads.write, (name_of(ns), checkpoint, task, path, laid, rows))

    def _delete(self, thread_id: str) -> Asked[None]:
        yield from threads.delete(PREFIX, _thread(thread_id))
        stream = yield from self._stream(_thread(thread_id))
        if stream is not None:
            yield WriteIn(stream, turns.retract_all, (self._both.caller,))
        self._threads.forget(_thread(thread_id))

    def _prune(self, thread_ids: Sequence[str], strategy: str) -> Asked[None]:
        if strategy not in ("keep_latest", "delete"):
            raise Invalid(f"expected 'keep_latest' or 'delete', got {strategy!r}", path="strategy")
        for thread in map(_thread, thread_ids):
            if strategy == "delete":
                yield from self._delete(thread)
            else:
                yield from threads.keep_latest(PREFIX, thread)
                self._threads.forget(thread)

    def _stream(self, thread: str) -> Asked[Stream | None]:
        stream = self._threads.stream(thread)
        if stream is None:
            stream = yield from find_session(thread)
            if stream is not None:
                self._threads.know(thread, stream)
        return stream

    def _opened(self, thread: str) -> Asked[Stream]:
        stream = yield from self._stream(thread)
        if stream is None:
            stream = yield from open_session(thread)
            self._threads.know(thread, stream)
        return stream


class _Page:
    """A listing under way: page by page, so that a long thread never stands in memory."""

    def __init__(
        self, saver: PerdureSaver, config: RunnableConfig | None, conditions: dict[str, Any] | None,
        before: RunnableConfig | None, limit: int | None,
    ) -> None:  # fmt: skip
        self._saver = saver
        self._conditions = conditions or {}
        self._remaining = limit
        place = (config or {}).get("configurable") or {}
        self._thread = _thread(place["thread_id"]) if "thread_id" in place else None
        self._ns: str | None = place.get("checkpoint_ns")
        self._key: str | None = place.get("checkpoint_id")
        self._before = get_checkpoint_id(before) if before else None
        self._last: KeyedCheckpoint | None = None
        self.done = limit is not None and limit <= 0

    def next(self) -> Asked[Sequence[CheckpointTuple]]:
        """The tuples of the next page."""
        checkpoints: Sequence[KeyedCheckpoint] = ()
        stream: Stream | None = None
        if self._thread is None:
            checkpoints = yield Read(keyed.page_across, (PREFIX,), {"upto": self._before, "after": self._last})
        else:
            stream = yield from self._saver._stream(self._thread)
            if stream is not None:
                upto = self._last.key if self._last is not None else self._before
                name = None if self._ns is None else name_of(self._ns)
                checkpoints = yield Read(keyed.page, (stream,), {"prefix": PREFIX, "name": name, "before": upto})
        self.done = len(checkpoints) < keyed.PAGE_ROWS
        if checkpoints:
            self._last = checkpoints[-1]
        tuples = []
        for checkpoint in checkpoints:
            if self._remaining != 0 and self._fits(checkpoint):
                tuples.append((yield from self._tuple(checkpoint, stream)))
                self._remaining = None if self._remaining is None else self._remaining - 1
        self.done = self.done or self._remaining == 0
        return tuples

    def _fits(self, checkpoint: KeyedCheckpoint) -> bool:
        if self._key is not None and checkpoint.key != self._key:
            return False
        if self._thread is None and (
            checkpoint.key == self._before or (self._ns is not None and ns_of(checkpoint.name) != self._ns)
        ):
            return False
        metadata = checkpoint.document.get("metadata") if isinstance(checkpoint.document, dict) else None
        return all(_at(metadata, name) == value for name, value in self._conditions.items())

    def _tuple(self, checkpoint: KeyedCheckpoint, stream: Stream | None) -> Asked[CheckpointTuple]:
        thread = self._thread or checkpoint.session
        if stream is None:
            stream = yield from self._saver._stream(thread)
        opened = yield Read(_opened, (stream, checkpoint, self._saver._threads.nodes))
        return self._saver._tuple(thread, opened)


class _Opened(NamedTuple):
    """A checkpoint with all that is read of it: its state, the writes after it, and the nodes that those name."""

    checkpoint: KeyedCheckpoint
    state: Any
    writes: Sequence[StoredWrite]
    nodes: Mapping[bytes, bytes]


@one_state
def _open_at(reads: Reads, stream: Stream, name: str, key: str | None, nodes: RecentNodes) -> _Opened | None:
    checkpoint = keyed.get(reads, stream, name, key)
    return None if checkpoint is None else _opened(reads, stream, checkpoint, nodes)


def _opened(reads: Reads, stream: Stream, checkpoint: KeyedCheckpoint, nodes: RecentNodes) -> _Opened:
    writes = keyed.writes_of(reads, stream, checkpoint.name, checkpoint.key)
    addresses = {address for write in writes for address in nodes_of_write(write.document)}
    state = keyed.state(checkpoint, nodes.before(reads.fetch))
    return _Opened(checkpoint, state, writes, reads.fetch(addresses) if addresses else {})


def _packed_nodes(reads: Reads, nodes: Mapping[bytes, bytes]) -> Sequence[BlobRow]:
    return [*map(reads.pack, nodes.values())]


def _packed(reads: Reads, state: LaidState, memory: ThreadMemory | None) -> keyed.Laid:
    """The new nodes as rows. With nothing remembered all nodes were made, and those that are stored are left out."""
    if memory is not None:
        rows = [reads.pack(node) for node in state.nodes.values()]
        return keyed.Laid(state.root, state.size, rows, (), memory.base)
    stored: Collection[bytes] = reads.known(state.nodes.keys())
    rows = [reads.pack(node) for address, node in state.nodes.items() if address not in stored]
    return keyed.Laid(state.root, state.size, rows, stored)


def name_of(ns: str) -> str:
    """The name that checkpoints of a namespace bear."""
    return PREFIX + ns


def ns_of(name: str) -> str:
    """The namespace of such a name."""
    return name.removeprefix(PREFIX)


def _place(config: RunnableConfig) -> tuple[str, str]:
    place = config.get("configurable") or {}
    if "thread_id" not in place:
        raise Invalid(
            "the config names no thread", path="configurable.thread_id", hint='say {"configurable": {"thread_id": …}}'
        )
    return _thread(place["thread_id"]), place.get("checkpoint_ns") or ""


def _thread(thread_id: Any) -> str:
    return thread_id if isinstance(thread_id, str) else str(thread_id)


def _config(thread: str, ns: str, key: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": key}}


def _plain_metadata(config: RunnableConfig, metadata: CheckpointMetadata) -> Any:
    try:
        return json.loads(_write_json(get_checkpoint_metadata(config, metadata)).encode("utf-8", "ignore").decode())
    except (TypeError, ValueError) as error:
        raise Invalid(f"the metadata are not JSON: {error}", path="metadata") from error


def _at(metadata: Mapping[str, Any] | None, name: str) -> Any:
    """The value of a name in metadata, or of a path into them."""
    value: Any = metadata
    if isinstance(value, dict) and name in value:
        return value[name]
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value

"""LangGraph's store (long-term memory across threads) in a store of Perdure: a namespace is a scope, an item is a value of it.

Every operation of the contract, sync and async on one object. So audit, retention and bundles know the items as they know all
values. Keeps P1, P5, P8, P15.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, Self

from langgraph.store.base import (
    BaseStore,
    IndexConfig,
    Op,
    Result,
    SearchOp,
    TTLConfig,
    ensure_embeddings,
    get_text_at_path,
    tokenize_path,
)

from perdure.errors import Invalid
from perdure_adapters.both import Both
from perdure_adapters.langgraph.items import ItemPut, ItemsAsked, Place, carry_out, check_ops, swept, unit
from perdure_adapters.langgraph.sweeper import Sweeper
from perdure_adapters.shared_store import ClosedByBlock

SWEEP_MINUTES = 5.0


class _Text(NamedTuple):
    """A text to embed: of which item, and of which of its fields."""

    place: Place
    field: str
    text: str


class PerdureStore(ClosedByBlock, BaseStore):
    """LangGraph's store, kept in a store of Perdure.

        with PerdureStore.from_conn_string("sqlite:///agent.db") as memory:
            graph.compile(store=memory)

    store: a URL, or an open store (sync or async). index: `embed`, `dims` and `fields`, to search by meaning. ttl: `default_ttl`
    and `sweep_interval_minutes`, in minutes, and `refresh_on_read`. A context manager; `close` closes a store that was opened by
    its URL.
    """

    supports_ttl = True

    def __init__(self, store: Any, *, index: IndexConfig | None = None, ttl: TTLConfig | None = None) -> None:
        self.index_config = _checked_index(index)
        self.embeddings = ensure_embeddings(index.get("embed")) if index else None
        self.ttl_config = ttl
        self._fields = _fields(self.index_config)
        self._both = Both(store)
        self._sweeper = Sweeper(lambda: self._both.run(swept()))

    @classmethod
    def from_conn_string(cls, url: str, *, index: IndexConfig | None = None, ttl: TTLConfig | None = None) -> Self:
        """A store at this URL: `sqlite:///agent.db`, `postgresql://…`, `files:///folder`."""
        return cls(url, index=index, ttl=ttl)

    @property
    def store(self) -> Any:
        """The open store of Perdure."""
        return self._both.store

    def setup(self) -> None:
        """Nothing: a store is made when it is opened."""

    async def asetup(self) -> None:
        """Nothing, as above."""

    def close(self) -> None:
        """Stop sweeping, and close the store if it was opened here. Calling it again does nothing."""
        self._sweeper.stop()
        self._both.close()

    # -- the contract --------------------------------------------------------------------------------------------

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations: reads see the store before the writes, and all writes are one commit, durable when this returns.

        Raises Invalid with the path of what is wrong, before anything is done.
        """
        items = check_ops([*ops])
        texts, queries = self._texts(items), self._queries(items)
        vectors = self.embeddings.embed_documents([text.text for text in texts]) if self.embeddings and texts else []
        query_vectors = [self.embeddings.embed_query(query) for query in queries] if self.embeddings else []
        return self._both.run(self._carried_out(items, texts, vectors, queries, query_vectors))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """See `batch`."""
        items = check_ops([*ops])
        texts, queries = self._texts(items), self._queries(items)
        vectors = (
            await self.embeddings.aembed_documents([text.text for text in texts]) if self.embeddings and texts else []
        )
        query_vectors = [await self.embeddings.aembed_query(query) for query in queries] if self.embeddings else []
        return await self._both.arun(self._carried_out(items, texts, vectors, queries, query_vectors))

    # -- time to live --------------------------------------------------------------------------------------------

    def sweep_ttl(self) -> int:
        """Take items away whose time has ended, and say how many. They are not read any more even before that."""
        return self._both.run(swept())

    async def asweep_ttl(self) -> int:
        """See `sweep_ttl`."""
        return await self._both.arun(swept())

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """Sweep now and then in a thread, until `stop_ttl_sweeper` `close`, or the future is cancelled. Without ttl= nothing."""
        if not self.ttl_config:
            nothing: Future[None] = Future()
            nothing.set_result(None)
            return nothing
        minutes = sweep_interval_minutes or self.ttl_config.get("sweep_interval_minutes") or SWEEP_MINUTES
        return self._sweeper.start(float(minutes) * 60)

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Stop sweeping; whether it has stopped within this many seconds."""
        return self._sweeper.stop(timeout)

    # -- embedding -----------------------------------------------------------------------------------------------

    def _texts(self, items: ItemsAsked) -> list[_Text]:
        """The texts of the items to write that are to be found by their meaning."""
        if self.embeddings is None:
            return []
        texts_of_items: list[_Text] = []
        for place, op in items.puts.items():
            if op.value is None or op.index is False:
                continue
            fields = self._fields if op.index is None else [(field, tokenize_path(field)) for field in op.index]
            for field, path in fields:
                texts = get_text_at_path(op.value, path)
                many = len(texts) > 1
                texts_of_items += [
                    _Text(place, f"{field}.{i}" if many else field, text) for i, text in enumerate(texts)
                ]
        return texts_of_items

    def _queries(self, items: ItemsAsked) -> list[str]:
        """The different queries of a batch."""
        if self.embeddings is None:
            return []
        return [*dict.fromkeys(op.query for _, op in items.reads if isinstance(op, SearchOp) and op.query)]

    def _carried_out(
        self, items: ItemsAsked, texts: Sequence[_Text], vectors: Sequence[Any],
        queries: Sequence[str], query_vectors: Sequence[Any],
    ) -> Any:  # fmt: skip
        if len(vectors) != len(texts):
            raise Invalid(f"{len(vectors)} embeddings came for {len(texts)} texts", path="index.embed")
        dims = self.index_config.get("dims") if self.index_config else None
        by_place: dict[Place, dict[str, bytes]] = {}
        for text, vector in zip(texts, vectors, strict=True):
            unit_vector = unit(vector, dims)
            if unit_vector is not None:
                by_place.setdefault(text.place, {})[text.field] = unit_vector
        puts = {
            place: ItemPut(None if op.value is None else dict(op.value), op.ttl, by_place.get(place, {}))
            for place, op in items.puts.items()
        }
        by_query = {query: unit(vector, dims) or b"" for query, vector in zip(queries, query_vectors, strict=True)}
        refresh = bool(self.ttl_config and self.ttl_config.get("refresh_on_read"))
        return carry_out(items, puts, by_query, refresh=refresh)


def _checked_index(index: IndexConfig | None) -> IndexConfig | None:
    """A copy of the configuration; only exact cosine is known."""
    if not index:
        return None
    distance = index.get("distance_type") or "cosine"
    if distance != "cosine":
        raise Invalid(f"vectors are compared by cosine, not by {distance!r}", path="index.distance_type")
    return index.copy()


def _fields(index: IndexConfig | None) -> list[tuple[str, Any]]:
    """The fields that are embedded unless a put says others, with their paths; LangGraph's SQLite store says `text_fields`."""
    if index is None:
        return []
    fields = index.get("fields") or index.get("text_fields") or ["$"]
    if isinstance(fields, str):
        fields = [fields]
    if not isinstance(fields, (list, tuple)):
        raise Invalid(f"expected a list of fields, got {type(fields).__name__}", path="index.fields")
    return [(field, field if field == "$" else tokenize_path(field)) for field in fields]

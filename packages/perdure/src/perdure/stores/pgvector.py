"""pgvector, where a PostgreSQL has it: the nearest of many vectors by the database's own index.

`prepare` adds to the table `vectors` a column that PostgreSQL computes from the bytes of each, and an index over it once there
are many. Neither is in the schema: a database without the extension, or a role that may not create it, does without, and nearest
texts are found by bits in memory (`planes.memory.nearest`). Callers: `planes.memory`. Its statements are PostgreSQL's alone.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from perdure.stores.statements import Statement
from perdure.stores.store import Fault

if TYPE_CHECKING:
    from perdure.stores.core import Core, Reader

log = logging.getLogger("perdure.store")

EXACT_MAX = 20_000  # vectors of a scope that are compared one by one
INDEXED_FROM = 10_000  # vectors of an embedding from which on an index is made
_EF_SEARCH = 200

# The schema of the extension, quoted by the server: our connections see no schema but the store's.
_HOME = Statement(
    "near_home", "Where the type of the column lives, if it is there.",
    "SELECT quote_ident(n.nspname) FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid "
    "JOIN pg_namespace n ON n.oid = t.typnamespace "
    "WHERE a.attrelid = to_regclass('vectors') AND a.attname = 'near' AND NOT a.attisdropped",
)  # fmt: skip
_COUNTED = Statement(
    "vectors_counted", "How many vectors there are in some streams, up to a limit.",
    "SELECT count(*) FROM (SELECT 1 FROM vectors v WHERE v.tenant = :tenant AND v.embedding = :embedding "
    "AND v.in_stream = ANY (:streams) LIMIT :limit) AS counted",
)  # fmt: skip
# A plan that is kept does not know how large the scope is: it reads all vectors to count two thousand. So does one that takes
# twenty thousand for many.
_SET = Statement(
    "nearest_set", "For this transaction: plan for these very values, and look on until enough fit the filters.",
    "SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('enable_seqscan', 'off', true), "
    "set_config('hnsw.ef_search', :ef, true), "
    "set_config('hnsw.iterative_scan', 'relaxed_order', true), set_config('hnsw.max_scan_tuples', '60000', true)",
)  # fmt: skip
_NEAREST = """
SELECT v.in_stream, v.seq, v.part, v.shelf FROM vectors v
WHERE v.tenant = :tenant AND v.embedding = {embedding} AND v.near IS NOT NULL AND v.shelf = ANY (:shelves)
  AND v.in_stream = ANY (:streams) --? streams
  AND v.at >= :since --? since
  AND v.at < :until --? until
  AND v.actor = ANY (:actor) --? actor
ORDER BY {near} OPERATOR({home}.<=>) CAST(CAST(:query AS text) AS {home}.halfvec{size}) LIMIT :limit"""


class NearColumn(NamedTuple):
    """How the nearest are asked for in this database: where the extension lives."""

    home: str


@cache
def _nearest(home: str, embedding: int, dims: int, *, by_index: bool) -> Statement:
    """By the index, whose expression and condition it repeats; or one by one, when it repeats neither."""
    size = f"({int(dims)})" if by_index else ""
    text = _NEAREST.format(
        embedding=int(embedding) if by_index else ":embedding",
        near=f"CAST(v.near AS {home}.halfvec{size})" if by_index else "v.near",
        home=home,
        size=size,
    )
    return Statement("vectors_nearest", "The vectors that lie nearest to one.", text)


def find(reads: Reader) -> NearColumn | None:
    """How this database finds the nearest by itself; None where it cannot."""
    if not reads.connection.is_server:
        return None
    rows = reads.query(_HOME)
    return NearColumn(rows[0][0]) if rows else None


def nearest(
    reads: Any, near: NearColumn, embedding: int, query: Sequence[float], shelves: list[str], streams: list[int] | None,
    filters: dict[str, Any], count: int,
) -> list[tuple[int, int, int, str]]:  # fmt: skip
    """The places of the nearest vectors. Exact when the scope is small; else it may miss one in a hundred."""
    scope = {"tenant": reads.tenant, "embedding": embedding, "streams": streams}
    asked = {**scope, **filters, "shelves": shelves, "query": f"[{','.join(map(repr, query))}]", "limit": count}
    with reads.snapshot():
        reads.query(_SET, ef=str(min(1000, max(_EF_SEARCH, count))))
        small = streams is not None and reads.query(_COUNTED, **scope, limit=EXACT_MAX + 1)[0][0] <= EXACT_MAX
        return reads.query(_nearest(near.home, embedding, len(query), by_index=not small), **asked)


def prepare(core: Core, embedding: int, dims: int) -> bool:
    """Make the column, and the index once there are many vectors. False where the database does not let us: nothing is lost."""
    if not core.engine.is_server:
        return False
    connection: Any = core.engine.connect()
    try:
        home = _installed(connection)
        if home is not None:
            _prepared(connection, home, embedding, dims)
        return home is not None
    except Fault as fault:
        log.warning("nearest texts are found without pgvector: %s", fault)
        return False
    finally:
        connection.close()


def _define(connection: Any, text: str) -> None:
    """Change the schema by a text of our own, in a transaction of its own."""
    import psycopg  # noqa: PLC0415 - an extra, and only a connection of it comes here

    from perdure.stores.postgres_faults import fault_of  # noqa: PLC0415 - as above

    try:
        connection.raw.execute(text, prepare=False)
    except psycopg.Error as error:
        raise fault_of(error) from error


def _installed(connection: Any) -> str | None:
    """The schema of the extension, which is made where we may; None where there is none."""
    asked = Statement("extension", "Where it lives.", "SELECT quote_ident(n.nspname) FROM pg_extension e "
                      "JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'")  # fmt: skip
    there = Statement(
        "extensions", "Whether it can be had.", "SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"
    )
    rows = connection.query(asked, {})
    if not rows and connection.query(there, {}):
        try:
            _define(connection, "CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
        except Fault as fault:  # somebody else makes it at this moment, or we may not
            log.info("vector: %s", fault)
        rows = connection.query(asked, {})
    return rows[0][0] if rows else None


def _prepared(connection: Any, home: str, embedding: int, dims: int) -> None:
    _define(
        connection,
        f"""
        CREATE OR REPLACE FUNCTION near_of(data bytea) RETURNS {home}.halfvec LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
        SELECT CAST(array_agg(CAST((get_byte(data, i) + 128) % 256 - 128 AS real) ORDER BY i) AS {home}.halfvec)
        FROM generate_series(0, length(data) - 1) i $$""",
    )
    _define(
        connection,
        f"ALTER TABLE vectors ADD COLUMN IF NOT EXISTS near {home}.halfvec GENERATED ALWAYS AS (near_of(vector)) STORED",
    )
    some = "SELECT 1 FROM vectors WHERE embedding = :embedding LIMIT :limit"
    many = Statement("vectors_many", "How many there are, up to a limit.", f"SELECT count(*) FROM ({some}) AS counted")
    count = connection.query(many, {"embedding": embedding, "limit": INDEXED_FROM})[0][0]
    if count >= INDEXED_FROM:
        _define(connection, "SET statement_timeout = 0")
        _define(connection, "SET maintenance_work_mem = '1GB'")
        _define(
            connection,
            f"CREATE INDEX CONCURRENTLY IF NOT EXISTS vectors_near_{int(embedding)} ON vectors USING hnsw "
            f"((CAST(near AS {home}.halfvec({int(dims)}))) {home}.halfvec_cosine_ops) "
            f"WHERE embedding = {int(embedding)} AND near IS NOT NULL",
        )

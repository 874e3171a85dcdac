"""The PostgreSQL type of every column, by its name: arrays of rows need to be told. A contract test compares the schema."""

from __future__ import annotations

_INTEGERS = (
    "id tenant stream seq parent fork_seq at codec size created_at ended_at expires_at goal_seq pin_seq first_seq last_seq "
    "priority claim_expires_at token doc_seq note_seq supersedes superseded_by outcome_seq version updated_at gone "
    "heads started_at epoch xid pos acked batch_xid batch_pos task target_seq "
    "undoes attempt mishaps first_dispatched_at dispatched_at deadline_at quiet_at wake_at timeout_at deaths claimed_seq "
    "suspect cancelling cuts cut_seq pinned effect met_at taken_by known_seq changed_at closed_at archived_at "
    "valid_from valid_to confirmed_at memory uses used_at in_stream part of_seq user_said is_short len tf df texts words shorts "
    "number made_at added dims embedding done batches batch whole retracted_seq"
)
_TEXTS = (
    "kind tbl actor name title status creator labels pin role key call tool holder claimed_by tags root media_type host "
    "reducer thing tag taker digest place error agent session program reason met_by about shelf term terms "
    "manifest sha256 parent_key checkpoint path places subject pins pins_change on_change"
)
_BYTES = "uid tx commitment hash salt body address data target state bits vector"

COLUMN_TYPES: dict[str | tuple[str, str], str] = {
    **dict.fromkeys(_INTEGERS.split(), "bigint"),
    **dict.fromkeys(_TEXTS.split(), "text"),
    **dict.fromkeys(_BYTES.split(), "bytea"),
    ("tasks", "needs"): "text",
    ("task_needs", "needs"): "bigint",
    ("artifacts", "address"): "text",
    ("effects", "state"): "text",
    ("waits", "state"): "text",
    ("runs", "parent"): "text",
    ("checkpoint_writes", "task"): "text",
}


def type_of(table: str, column: str) -> str:
    """The type of a column: `bigint`, `text` or `bytea`."""
    return COLUMN_TYPES.get((table, column)) or COLUMN_TYPES[column]

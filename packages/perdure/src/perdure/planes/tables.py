"""Every table of the planes, as declared to the log, and what follows from changes of each.

`RECORDED` is what folding needs; a contract test compares all of it with the schemas of every store.
"""

from __future__ import annotations

from collections.abc import Iterator

from perdure.log.actors import ACTORS
from perdure.log.derive import BLOB_REFS, REFS, Derived, Deriver, register, register_calls
from perdure.log.event import Body
from perdure.log.subjects import SCOPES, SUBJECTS, as_column
from perdure.log.table import Row, Table, TableClass, declare
from perdure.model.pins import ASKED_MAX_CHARS
from perdure.planes.reading.row_reading import stored_names, stored_numbers, stored_versions

_R, _D, _E = TableClass.RECORDED, TableClass.DERIVED, TableClass.EPHEMERAL

SESSIONS = Table(
    "sessions", _R, (),
    ("name", "title", "status", "creator", "created_at", "ended_at", "expires_at", "labels", "goal_seq", "pin_seq", "pin",
     "archived_at", "about"),
    tenant=True, owns=True, documents=("goal_seq", "pin_seq"),
)  # fmt: skip
TURNS = Table(
    "turns", _R, ("seq",), ("role", "key", "call", "retracted_seq"), tenant=True, once=("role", "key", "call")
)  # fmt: skip
COVERS = Table("covers", _R, ("seq",), ("first_seq", "last_seq"), tenant=True, fixed=True)
TASKS = Table(
    "tasks", _R, ("seq",),
    ("key", "status", "priority", "parent", "title", "actor", "at", "labels", "needs", "holder", "claimed_by", "claim_expires_at",
     "token", "doc_seq", "note_seq", "changed_at", "closed_at", "about"),
    tenant=True, documents=("doc_seq", "note_seq"),
)  # fmt: skip
DECISIONS = Table(
    "decisions", _R, ("seq",),
    ("status", "actor", "at", "tags", "supersedes", "superseded_by", "doc_seq", "outcome_seq", "changed_at", "closed_at",
     "about"),
    tenant=True, documents=("doc_seq", "outcome_seq"),
)  # fmt: skip
ENTRIES = Table(
    "entries",
    _R,
    ("name",),
    ("version", "updated_at", "expires_at", "gone", "seq", "about"),
    tenant=True,
    documents=("seq",),
    says_all=True,
)
LOCKS = Table("locks", _R, ("name",), ("token", "holder", "expires_at"), tenant=True)
CHECKPOINTS = Table(
    "checkpoints", _R, ("seq",), ("name", "parent", "root", "size", "at", "key", "parent_key"), tenant=True, fixed=True
)
CHECKPOINT_WRITES = Table(
    "checkpoint_writes", _R, ("seq",), ("name", "checkpoint", "task", "path", "places"), tenant=True, fixed=True
)
ARTIFACTS = Table(
    "artifacts", _R, ("seq",), ("name", "media_type", "size", "address", "actor", "at"), tenant=True, fixed=True
)
ANCHORS = Table("anchors", _R, ("seq",), ("root", "heads", "at"), tenant=True, fixed=True)
EFFECTS = Table(
    "effects", _R, ("seq",),
    ("state", "tool", "kind", "key", "digest", "place", "call", "undoes", "attempt", "mishaps", "epoch", "holder",
     "actor", "at", "first_dispatched_at", "dispatched_at", "deadline_at", "quiet_at", "error", "doc_seq", "outcome_seq",
     "about"),
    tenant=True, documents=("doc_seq", "outcome_seq"),
    once=("tool", "kind", "key", "digest", "place", "call", "undoes", "actor", "at"), yields=("key",),
)  # fmt: skip
RUNS = Table(
    "runs", _R, (),
    ("name", "agent", "key", "digest", "status", "session", "parent", "creator", "created_at", "ended_at", "wake_at",
     "timeout_at", "holder", "token", "claimed_seq", "deaths", "suspect", "cancelling", "cuts", "cut_seq", "program",
     "pinned", "epoch", "reason", "doc_seq", "outcome_seq", "known_seq", "about", "pins", "pins_change", "on_change"),
    tenant=True, owns=True, documents=("doc_seq", "outcome_seq"), announces=("status", "ready"),
    once=("name", "agent", "key", "digest", "session", "parent", "creator", "created_at"),
    yields=("key",),
)  # fmt: skip
WAITS = Table(
    "waits", _R, ("seq",),
    ("kind", "state", "name", "place", "effect", "digest", "actor", "at", "expires_at", "met_by", "met_at", "doc_seq",
     "outcome_seq", "about"),
    tenant=True, documents=("doc_seq", "outcome_seq"),
)  # fmt: skip
SIGNALS = Table("signals", _R, ("seq",), ("name", "taken_by", "doc_seq", "about"), tenant=True, documents=("doc_seq",))
MEMORIES = Table(
    "memories", _R, ("seq",),
    ("kind", "status", "key", "actor", "at", "valid_from", "valid_to", "confirmed_at", "tags", "about", "supersedes",
     "superseded_by", "doc_seq", "note_seq"),
    tenant=True, documents=("doc_seq", "note_seq"),
)  # fmt: skip
CHECKS = Table("checks", _R, ("name", "thing"), ("version", "doc_seq"), tenant=True, documents=("doc_seq",))
STEPS = Table("steps", _R, ("seq",), (), rowless=True)

CALLS = Table("calls", _D, ("call", "seq"), ("tool", "about"), tenant=True, fixed=True)
TAGS = Table("tags", _D, ("thing", "tag", "id"), ("at", "priority"), tenant=True)
TASK_NEEDS = Table("task_needs", _D, ("task", "needs"), (), tenant=True)

HOLDERS = Table("holders", _E, ("holder",), ("actor", "host", "started_at", "expires_at"), tenant=True, streamed=False)
WORKERS = Table("workers", _E, ("holder",), ("about",), tenant=True, streamed=False)
ATTENDANCE = Table("attendance", _E, ("holder",), (), tenant=True)
SUBSCRIPTIONS = Table(
    "subscriptions", _E, ("name",), ("epoch", "xid", "pos", "token", "about"), tenant=True, streamed=False
)
BLOB_PINS = Table("blob_pins", _E, ("address", "holder"), ("expires_at",), tenant=True, streamed=False)
FOLD_SNAPSHOTS = Table("fold_snapshots", _E, ("reducer",), ("seq", "state"), tenant=True)
MEMORY_USES = Table("memory_uses", _E, ("memory",), ("uses", "used_at"), tenant=True)
BOOTS = Table("boots", _E, ("number",), ("made_at", "manifest"), tenant=True)

# The index of what was said (planes/memory/index). Ephemeral, for it is made later; triggers write all but the first two.
TEXTS = Table(
    "texts", _E, ("in_stream", "seq", "part", "shelf"),
    ("of_seq", "actor", "at", "user_said", "is_short", "len", "terms", "added"), tenant=True, streamed=False,
)  # fmt: skip
INDEXING = Table("indexing", _E, (), ("epoch", "xid", "pos", "version", "added"), tenant=True, streamed=False)
POSTINGS = Table(
    "postings", _E, ("shelf", "term", "in_stream", "seq", "part"), ("tf", "len"), tenant=True, streamed=False
)
TERMS = Table("terms", _E, ("shelf", "term"), ("df",), tenant=True, streamed=False)
SHELVES = Table("shelves", _E, ("shelf",), ("texts", "words", "shorts"), tenant=True, streamed=False)

# The vectors that an embedding made of the index (planes/memory/vectors); they go with their texts.
EMBEDDINGS = Table(
    "embeddings", _E, ("name", "sha256", "dims"), ("embedding", "done", "batches", "gone"), tenant=True, streamed=False
)
VECTORS = Table(
    "vectors", _E, ("in_stream", "seq", "part", "shelf", "embedding"), ("batch", "actor", "at", "bits", "vector"),
    tenant=True, streamed=False,
)  # fmt: skip

ALL = (
    SESSIONS, TURNS, COVERS, TASKS, DECISIONS, ENTRIES, LOCKS, CHECKPOINTS, CHECKPOINT_WRITES, ARTIFACTS, ANCHORS, EFFECTS, RUNS,
    WAITS, SIGNALS, MEMORIES, ACTORS, CHECKS, REFS, BLOB_REFS, SUBJECTS, CALLS, TAGS,
    TASK_NEEDS, HOLDERS, WORKERS, ATTENDANCE, SUBSCRIPTIONS, BLOB_PINS, FOLD_SNAPSHOTS,
    MEMORY_USES, BOOTS, TEXTS, INDEXING, POSTINGS, TERMS, SHELVES, EMBEDDINGS, VECTORS,
)  # fmt: skip
RECORDED: dict[str, Table] = declare((*ALL, STEPS, SCOPES))


def _tagged(thing: str, column: str, at: str, *, own_id: bool) -> Deriver:
    """Keep `tags` in step with a column that holds a JSON list of labels, dated as the thing is."""

    def derive(_seq: int, _body: Body, old: Row | None, new: Row | None) -> Iterator[Derived]:
        before, after = _labels(old, column), _labels(new, column)
        row = new or old or {}
        priority = _open_priority(new)
        identity = {"thing": thing, "id": row["seq"] if own_id else 0, "at": row[at], "priority": priority}
        for tag in sorted(before ^ after if priority == _open_priority(old) else before | after):
            yield TAGS, {**identity, "tag": tag}, tag not in after

    return derive


def _open_priority(row: Row | None) -> int | None:
    """The priority of a task while it is unfinished; None for everything else."""
    return row.get("priority") if row and row["status"] in ("todo", "doing", "blocked") else None


def _labels(row: Row | None, column: str) -> set[str]:
    return set(stored_names(row[column], column)) if row else set()


def _run_versions(_seq: int, _body: Body, old: Row | None, new: Row | None) -> Iterator[Derived]:
    """Keep `tags` in step with the versions of a run, dated as the run is, so that runs are found by them."""
    columns = [None if row is None else row.get("pins") for row in (old, new)]
    if columns[0] == columns[1]:
        return
    before, after = map(_version_tags, columns)
    identity = {"thing": "run", "id": 0, "at": (new or old or {})["created_at"], "priority": None}
    for tag in sorted(before ^ after):
        yield TAGS, {**identity, "tag": tag}, tag not in after


def _version_tags(column: str | None) -> set[str]:
    """The versions by which a run is found; what no agent can declare, which an import may bring, is not among them."""
    versions = stored_versions(column, "pins").items()
    return {f"{name}={value}" for name, value in versions if len(name) + len(value) < ASKED_MAX_CHARS}


def _turn_calls(seq: int, body: Body, old: Row | None, new: Row | None) -> Iterator[Derived]:
    if new is not None and old is None:
        about = as_column(body.subjects)
        for call, tool in body.calls:
            yield CALLS, {"call": call, "seq": seq, "tool": tool, "about": about}, False


def _task(seq: int, body: Body, old: Row | None, new: Row | None) -> Iterator[Derived]:
    yield from _task_tags(seq, body, old, new)
    before, after = _needs(old), _needs(new)
    for needed in sorted(before ^ after):
        yield TASK_NEEDS, {"task": (new or old or {})["seq"], "needs": needed}, needed in before


def _memory(seq: int, body: Body, old: Row | None, new: Row | None) -> Iterator[Derived]:
    yield from _memory_tags(seq, body, old, new)
    yield from _memory_subjects(seq, body, old, new)


def _needs(row: Row | None) -> set[int]:
    return set(stored_numbers(row["needs"], "needs")) if row else set()


_task_tags = _tagged("task", "labels", "at", own_id=True)
_memory_tags = _tagged("memory", "tags", "at", own_id=True)
_memory_subjects = _tagged("memory_about", "about", "at", own_id=True)
register(SESSIONS, _tagged("session", "labels", "created_at", own_id=False))
register(DECISIONS, _tagged("decision", "tags", "at", own_id=True))
register(TASKS, _task)
register(MEMORIES, _memory)
register_calls(TURNS, _turn_calls)
register(RUNS, _run_versions)

"""The rules of choosing, as tables that can be read: what an answer asks for, and what no choice takes away.

`recommend` applies them: of every part (store, artifacts, runtime) the smallest is taken that no rule finds too small,
so a rule can only raise, and whoever asks for more never gets less. `when` names answers, or parts that were chosen
before; all must hold. Pure data. The figures are those of the design's sources; `perdure bench` has those of your disk.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

from perdure.choosing.questions import Audit, Lasts, Option, Owners, PlainAnswer, Twice, WhenStopped, WriteRate, Writers


class Store(Option):
    """Where state is kept, the smallest first."""

    MEMORY = "memory"
    FILES = "files"
    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"


class Artifacts(Option):
    """Where large files are kept, the nearest first."""

    STORE = "in the store"
    FOLDER = "a folder beside it"
    OBJECTS = "object storage"


class Runtime(Option):
    """The driver of the agent, the simplest first."""

    FUNCTION = "a function"
    LOOP = "a loop of your own"
    DRIVEN = "agents, driven by your program"
    WORKERS = "agents, driven by workers"
    FLEET = "agents, driven by workers on several machines"


class Cache(Option):
    """The cache in front of the store."""

    NONE = "none"
    REDIS = "redis"


class Scenario(enum.StrEnum):
    """The presets of `perdure init`."""

    LOCAL = "local"
    TEAM = "team"
    THROUGHPUT = "throughput"
    PLATFORM = "platform"
    COMPLIANCE = "compliance"


class Rung(Option):
    """How deep the operation goes; each rung asks something of the one below."""

    PURE = "pure"
    EFFECTFUL = "effectful"
    INTERRUPTIBLE = "interruptible"
    RESUMABLE = "resumable"
    CONCURRENT = "concurrent"
    AUDITABLE = "auditable"


Wanted = tuple[str, ...]
When = Mapping[str, Wanted]  # answer or part -> the values with which the rule holds


class ChoosingRule(msgspec.Struct, frozen=True):
    """Where `when` holds, `part` must not be smaller than this."""

    part: str
    at_least: Option
    when: When
    because: str


class Remaining(msgspec.Struct, frozen=True):
    """A failure that stays possible where `when` holds, and what to do about it."""

    when: When
    fails: str
    against: str


YES = (PlainAnswer.YES,)
NO = (PlainAnswer.NO,)
SEVERAL_WRITE = (Writers.MACHINE, Writers.MACHINES)
SHARED = (Owners.TEAM, Owners.TENANTS)
EFFECTS = (Twice.HARMLESS, Twice.HURTS)
STORED = (Store.FILES, Store.SQLITE, Store.POSTGRESQL)

LASTING: tuple[ChoosingRule, ...] = tuple(
    ChoosingRule("durable", PlainAnswer.YES, when, because)
    for when, because in (
        ({"lasts": (Lasts.PERSISTENT,)}, "state that outlives a session must outlive the process"),
        ({"stopped": (WhenStopped.GOES_ON,)}, "to continue, the cursor and what is pending must be on a disk"),
        ({"twice": (Twice.HURTS,)}, "an intent must be durable before it is sent, or a crash sends it again"),
        ({"audit": (Audit.HISTORY, Audit.PROOF)}, "history that dies with the process is none"),
        ({"readable": YES}, "files in git are on a disk"),
    )
)

STORES: tuple[ChoosingRule, ...] = tuple(
    ChoosingRule("store", at_least, when, because)
    for at_least, when, because in (
        (Store.FILES, {"durable": YES, "readable": YES}, "text that git can diff is what you want to read"),
        (
            Store.SQLITE,
            {"durable": YES, "readable": NO},
            "nobody reads it as text: one file with transactions is simpler",
        ),
        (Store.SQLITE, {"queries": YES}, "questions across sessions need tables and indexes, not a scan of files"),
        (Store.SQLITE, {"many": YES}, "beyond some 100,000 records text files are read for too long"),
        (
            Store.SQLITE,
            {"rate": (WriteRate.HIGH,)},
            "many small changes want shared commits, not lines behind one lock",
        ),
        (
            Store.SQLITE,
            {"writers": (Writers.MACHINE,)},
            "readers and a writer work side by side; a file behind one lock queues them",
        ),
        (Store.SQLITE, {"audit": (Audit.PROOF,)}, "a proof is asked for by time, person and kind: that is a query"),
        (
            Store.SQLITE,
            {"owners": (Owners.TEAM,)},
            "state that several look at is asked across sessions, sooner or later",
        ),
        (Store.SQLITE, {"hot": YES}, "fast reads go by an index"),
        (
            Store.POSTGRESQL,
            {"writers": (Writers.MACHINES,)},
            "only a server is written to from several machines: SQLite's locks end at one",
        ),
        (
            Store.POSTGRESQL,
            {"owners": (Owners.TENANTS,)},
            "tenants want roles, backups to a point in time and many writers at once",
        ),
        (
            Store.POSTGRESQL,
            {"owners": (Owners.TEAM,), "server": YES},
            "state that is shared belongs on the server that you have",
        ),
        (
            Store.POSTGRESQL,
            {"owners": (Owners.TEAM,), "rate": (WriteRate.HIGH,)},
            "one writer at a time is too few for a busy team",
        ),
        (
            Store.POSTGRESQL,
            {"owners": (Owners.TEAM,), "audit": (Audit.PROOF,)},
            "shared and under rules: backups and rights are the server's work",
        ),
        (
            Store.POSTGRESQL,
            {"rate": (WriteRate.HIGH,), "writers": SEVERAL_WRITE},
            "SQLite lets one process write at a time; these would wait for each other",
        ),
    )
)

PLACES: tuple[ChoosingRule, ...] = tuple(
    ChoosingRule("artifacts", at_least, when, because)
    for at_least, when, because in (
        (Artifacts.FOLDER, {"large": YES, "store": STORED}, "large files beside the database keep it small and quick"),
        (Artifacts.OBJECTS, {"large": YES, "writers": (Writers.MACHINES,)}, "every machine must reach them"),
        (Artifacts.OBJECTS, {"large": YES, "owners": (Owners.TENANTS,)}, "a platform's files outgrow one disk"),
        (
            Artifacts.OBJECTS,
            {"large": YES, "audit": (Audit.PROOF,), "owners": SHARED},
            "retained state is kept where it can be locked",
        ),
    )
)

RUNTIMES: tuple[ChoosingRule, ...] = tuple(
    ChoosingRule("runtime", at_least, when, because)
    for at_least, when, because in (
        (
            Runtime.LOOP,
            {"lasts": (Lasts.SESSION, Lasts.PERSISTENT)},
            "a session is said, decided and kept step by step",
        ),
        (Runtime.LOOP, {"store": STORED}, "state that is kept must be said to the store"),
        (Runtime.LOOP, {"twice": EFFECTS}, "external calls go through the ledger: session.act"),
        (
            Runtime.DRIVEN,
            {"stopped": (WhenStopped.GOES_ON,)},
            "a run that continues is replayed: store.drive, and store.recover after a crash",
        ),
        (Runtime.WORKERS, {"writers": SEVERAL_WRITE}, "several processes share work by leases, not by luck"),
        (
            Runtime.WORKERS,
            {"stopped": (WhenStopped.GOES_ON,), "owners": SHARED},
            "it continues while nobody is logged in",
        ),
        (
            Runtime.WORKERS,
            {"stopped": (WhenStopped.GOES_ON,), "rate": (WriteRate.HIGH,)},
            "a process that dies must not stop the others",
        ),
        (Runtime.FLEET, {"writers": (Writers.MACHINES,)}, "workers on every machine take over from each other"),
    )
)

CACHES: tuple[ChoosingRule, ...] = (
    ChoosingRule(
        "cache",
        Cache.REDIS,
        {"hot": YES, "store": (Store.POSTGRESQL,)},
        "a server over the network answers in 5 to 20 ms, a cache in less than 1; it costs memory and a second system",
    ),
)

# In this order: a store may depend on what is durable, a place on the store.
RULES = (
    *LASTING,
    *STORES,
    *PLACES,
    *RUNTIMES,
    *CACHES,
)

SCENARIOS: tuple[tuple[Scenario, When], ...] = (  # the first that holds
    (Scenario.LOCAL, {"store": (Store.MEMORY, Store.FILES, Store.SQLITE)}),
    (Scenario.COMPLIANCE, {"audit": (Audit.PROOF,)}),
    (Scenario.PLATFORM, {"owners": (Owners.TENANTS,)}),
    (Scenario.THROUGHPUT, {"rate": (WriteRate.HIGH,)}),
    (Scenario.TEAM, {}),
)

RUNGS: tuple[tuple[Rung, When], ...] = (
    (Rung.EFFECTFUL, {"twice": EFFECTS}),
    (Rung.INTERRUPTIBLE, {"stopped": (WhenStopped.STARTS_OVER, WhenStopped.GOES_ON)}),
    (Rung.RESUMABLE, {"stopped": (WhenStopped.GOES_ON,)}),
    (Rung.CONCURRENT, {"writers": SEVERAL_WRITE}),
    (Rung.CONCURRENT, {"owners": SHARED}),
    (Rung.AUDITABLE, {"audit": (Audit.HISTORY, Audit.PROOF)}),
)

REMAINING: tuple[Remaining, ...] = tuple(
    Remaining(when, fails, against)
    for when, fails, against in (
        ({"store": (Store.MEMORY,)}, "everything is gone with the process", "keep nothing in it that you would miss"),
        (
            {"twice": (Twice.HURTS,)},
            "a call whose answer was lost stays in doubt: no store knows what the other side did",
            "declare tools keyed, or with a probe; the rest waits for a person (perdure effects --state in_doubt)",
        ),
        (
            {"twice": EFFECTS, "store": (Store.MEMORY,)},
            "the outcome of a call that was sent before a crash is not known after it",
            "name a store that lasts",
        ),
        (
            {"store": (Store.FILES,)},
            "git can take the state back, and not its external calls",
            "a log that was rewound is noticed: open effects are settled anew",
        ),
        ({"store": (Store.FILES, Store.SQLITE)}, "the disk is the only copy", "perdure backup, to another disk"),
        (
            {"store": (Store.FILES, Store.SQLITE)},
            "on a network file system locks cannot be trusted",
            "keep it on a local disk; perdure doctor says which it is",
        ),
        (
            {"store": (Store.SQLITE,)},
            "one process writes at a time, and a long reader keeps the WAL from shrinking",
            "perdure doctor says when it is outgrown; perdure move leads to PostgreSQL",
        ),
        (
            {"store": (Store.POSTGRESQL,)},
            "a server that fails over to a replica that lags loses what was acknowledged",
            "synchronous replication, or name the primary only",
        ),
        (
            {"store": (Store.POSTGRESQL,), "server": NO},
            "nobody looks after the server: backups, upgrades, room",
            "take a managed one",
        ),
        (
            {"store": STORED, "twice": EFFECTS},
            "after a restore, what was sent after the backup is not known",
            "docs/guarantees.md: After a restore",
        ),
        (
            {"lasts": (Lasts.SESSION, Lasts.PERSISTENT)},
            "stored knowledge can be stale: a branch was merged, a file moved",
            "check before you act; entries carry their age",
        ),
        (
            {"evolves": YES},
            "a changed program may not be able to continue an old run",
            "the run is parked with the reason: perdure runs --status parked",
        ),
        (
            {"large": YES, "artifacts": (Artifacts.FOLDER, Artifacts.OBJECTS)},
            "the database and its files are two things to keep",
            "perdure backup takes both; perdure verify finds what is missing",
        ),
        (
            {"owners": (Owners.TENANTS,)},
            "everybody with the database's password sees every tenant",
            "one role for the workers, nobody else",
        ),
        (
            {"audit": (Audit.HISTORY, Audit.PROOF)},
            "a tail that is cut off together with its head is noticed by nobody",
            "perdure anchor, and keep the anchor elsewhere",
        ),
        (
            {"audit": (Audit.PROOF,), "store": (Store.SQLITE,)},
            "there is no state between two backups to go back to",
            "back up often, or PostgreSQL with its WAL archived",
        ),
        (
            {"cache": (Cache.REDIS,)},
            "a cache answers with what was true a moment ago",
            "decide on what the store says; Perdure ships no cache yet",
        ),
        (
            {"writers": SEVERAL_WRITE, "stopped": (WhenStopped.NEVER, WhenStopped.STARTS_OVER)},
            "two processes can do the same work",
            "claim tasks, lock names, or let workers drive runs",
        ),
    )
)

EXPECT: Mapping[Store, str] = {
    Store.MEMORY: "nothing waits, nothing lasts",
    Store.FILES: "a commit is one synced line; readable with cat and git diff; no server",
    Store.SQLITE: "a commit is one sync of the disk, shared by many callers; no server",
    Store.POSTGRESQL: "5 to 20 ms a round trip over a network; a server to look after",
}

"""Sealing: a store that moves away takes no more events, and one that is arriving is not opened before it is whole.

Two facts of a store say so. `moved` (on the source) goes with a trigger that refuses every new event, in one transaction: so
also who has had the store open all the while, and a worker that was only paused, writes nothing any more (P7). `arriving` (on the
target) stands from before the first event until everything was verified. Callers: `interchange.move`, opening. Keeps P3, P7.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from perdure.errors import Damaged, Refused
from perdure.stores import migrate, schema_upgrade
from perdure.stores.migrate import Script
from perdure.stores.statements import Statements
from perdure.stores.store import Engine
from perdure.stores.url import without_password

Q = Statements("perdure.stores", "moved_away.sql")

MOVED, ARRIVING, ORIGIN = "moved", "arriving", "origin"


class Departure(msgspec.Struct, frozen=True):
    """Where a store went. fenced: somebody held something when it did. done: everything is there."""

    to: str
    fenced: bool
    done: bool = False


def departure(facts: dict[str, str]) -> Departure | None:
    """Where a store says that it went; None if it did not."""
    if MOVED not in facts:
        return None
    try:
        gone = msgspec.json.decode(facts[MOVED], type=Departure)
    except msgspec.DecodeError as error:
        raise Damaged(f"the store does not say where it was moved: {error}", path=f"meta.{MOVED}") from None
    return msgspec.structs.replace(gone, to=without_password(gone.to))  # an older version may have kept a secret in it


def facts_of(engine: Engine) -> dict[str, str]:
    """The store's facts about itself."""
    with schema_upgrade.told(), schema_upgrade.looking_at(engine) as script:
        return migrate.facts_of(script) if script else {}


def check_open(facts: dict[str, str], *, read_only: bool) -> None:
    """Refused for a store that was moved away (it can still be read), and for one that is not all there yet."""
    gone = departure(facts)
    if gone is not None and not read_only:
        hint = f"open {gone.to}; `perdure move SRC --take-back` opens this one again, if that one is given up"
        raise Refused(f"this store was moved to {gone.to}", path="store", hint=hint)
    if ARRIVING in facts:
        hint = "run the same `perdure move` again: it continues where it stopped"
        raise Refused("a move into this store is not finished", path="store", hint=hint)


def seal(engine: Engine, departing: Callable[[], Departure]) -> Departure:
    """Let nobody append an event any more. Atomic: `departing` is asked in the same transaction, and may refuse. Repeatable.

    It is asked after the seal, which waits for who is in the middle of a commit: before it, that could not be seen. A store
    that was sealed meanwhile goes where it goes by then.
    """
    with schema_upgrade.told(), schema_upgrade.changing(engine) as script:
        standing = departure(migrate.facts_of(script))
        if standing is not None:
            return standing
        script.run(Q.seal.text(script.dialect, {}))
        gone = departing()
        _put(script, MOVED, msgspec.json.encode(gone).decode())
    return gone


def unseal(engine: Engine) -> None:
    """Take a store back that was moved away. Its epoch rises: where it went, what is open here may have been done. Repeatable."""
    with schema_upgrade.told(), schema_upgrade.changing(engine) as script:
        migrate.next_epoch(script)
        open_again(script)


def open_again(script: Script) -> None:
    """Open it again inside a transaction: also for a copy that is restored on purpose."""
    script.run(Q.unseal.text(script.dialect, {}))
    script.query(Q.meta_drop, name=MOVED)


def is_seal(name: str, text: str) -> bool:
    """Whether a trigger of a SQLite database is the seal of a store that was moved, and nothing else."""
    return name == "events_moved" and text == Q.seal.source.replace("IF NOT EXISTS ", "")


def say_done(engine: Engine, gone: Departure) -> None:
    """The source knows that everything has arrived."""
    with schema_upgrade.told(), schema_upgrade.changing(engine) as script:
        _put(script, MOVED, msgspec.json.encode(msgspec.structs.replace(gone, done=True)).decode())


def expect(engine: Engine, origin: str) -> None:
    """The target waits for a store. Refused when it holds something of its own, or waits for another. Repeatable."""
    with schema_upgrade.told(), schema_upgrade.changing(engine) as script:
        facts = migrate.facts_of(script)
        if facts.get(ARRIVING) == origin:
            return
        if ARRIVING in facts or script.query(Q.streams_any):
            hint = "name a new file, or on PostgreSQL a new schema (?schema=…)"
            raise Refused("the target holds something already", path="target", hint=hint)
        _put(script, ARRIVING, origin)


def welcome(engine: Engine, origin: str, epoch: int) -> None:
    """The target is whole: from here on it is opened as any other. It keeps from where it came. An epoch never falls."""
    with schema_upgrade.told(), schema_upgrade.changing(engine) as script:
        _put(script, "epoch", str(max(epoch, migrate.number_in(migrate.facts_of(script), "epoch"))))
        _put(script, ORIGIN, origin)
        script.query(Q.meta_drop, name=ARRIVING)


def _put(script: Script, name: str, value: str) -> None:
    script.query(migrate.Q.meta_put, name=name, value=value)

"""What is left of an emptied event confirms no guess: no digest of arguments, inputs or questions stays in a row (P6).

`PERDURE_ROUNDS=100` tries a million addresses; a part of them by default.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import perdure
from perdure.effects.tool import digest_of
from perdure.log.change import Change, Op, Stream
from perdure.model.values import digest
from perdure.stores.core import open_core
from perdure.stores.statements import Statement
from perdure.stores.tx import Tx

GUESSES = 10_000 * max(1, min(100, int(os.environ.get("PERDURE_ROUNDS", "2"))))
HERS = f"user{GUESSES - 7}@example.org"
FIXTURES = Path(__file__).parents[4] / "tests" / "fixtures" / "schema"
STREAMS = Statement("all", "every stream", "SELECT id, uid, tenant, kind, name, parent, fork_seq, seq FROM streams")


@perdure.tool(kind="idempotent")
def send(to: str) -> str:
    return f"sent to {to}"


@perdure.agent
def sending(run: Any, to: str) -> str:
    run.step(str.upper, to)
    run.act(send, to)
    return run.ask(f"May I write to {to}?", choices=["yes", "no"])


def lived_in(url: str) -> None:
    """A turn, an effect, a run with a step, an effect and a question: each was given the address, and lost its body since."""
    with perdure.open(url) as store:
        store.session("s").act(send, HERS, key="first")
        store.session("s").say("user", f"write to {HERS}")
        with contextlib.suppress(perdure.Waiting):
            store.drive(sending, HERS, key="k", session="s")
        store._caller.write(empty_all)


def empty_all(tx: Tx) -> None:
    """Take every body away, as an erasure of all that was said would; rows and headers stay."""
    for *columns, seq in tx.query(STREAMS):
        stream = Stream(*columns)
        if stream.kind in ("session", "run"):
            tx.record(Change("log.pruned", stream, op=Op.NOTE, doc={"emptied": [*range(1, seq + 1)]}))
            tx.empty(stream, range(1, seq + 1))


def left(url: str) -> set[str]:
    """Every value that stands in any table, texts as they are and bytes in hexadecimal."""
    core = open_core(url)
    connection = core.engine.connect()
    found: set[str] = set()
    for (table,) in [*connection.raw.execute("SELECT name FROM tables")]:
        for row in [*connection.raw.execute(f"SELECT * FROM {table}")]:
            found |= {value.hex() if isinstance(value, bytes) else str(value) for value in row if value is not None}
    connection.close()
    core.close()
    return found


def guesses(address: str) -> Iterator[str]:
    """What somebody who knows our code would look for."""
    yield address
    yield hashlib.sha256(address.encode()).hexdigest()
    yield digest_of("send", {"to": address})
    yield digest([[address], {}], "args").hex()
    yield digest({"question": f"May I write to {address}?", "choices": ["yes", "no"]}, "ask").hex()


def found_in(kept: set[str], numbers: Iterable[int]) -> list[str]:
    addresses = (f"user{n}@example.org" for n in numbers)
    return [address for address in addresses if not kept.isdisjoint(guesses(address))]


def test_a_dictionary_of_addresses_finds_nothing_in_what_is_left(tmp_path):
    lived_in(url := f"sqlite:///{tmp_path}/a.db")
    kept = left(url)
    assert len(kept) > 100
    assert found_in(kept, range(GUESSES)) == []


def test_control_digests_in_rows_confirm_the_guess(tmp_path, monkeypatch):
    """As it was before schema 5: the digest stood in the row."""

    def in_row(record: Callable[[Tx, Change], int]) -> Callable[[Tx, Change], int]:
        def recorded(tx: Tx, change: Change) -> int:
            if "digest" in change.set:
                change.set["digest"] = change.doc["digest"]
            return record(tx, change)

        return recorded

    monkeypatch.setattr(Tx, "record", in_row(Tx.record))
    lived_in(url := f"sqlite:///{tmp_path}/a.db")
    assert found_in(left(url), range(GUESSES - 50, GUESSES)) == [HERS]


def test_a_key_is_known_though_its_input_was_erased(tmp_path):
    lived_in(url := f"sqlite:///{tmp_path}/a.db")
    with perdure.open(url) as store:
        store.session("s").act(send, HERS, key="first")
        assert [each.record.attempt for each in store.session("s").effects()] == [1]


@pytest.mark.parametrize("schema", ["0002", "0003", "0004"])
def test_rows_of_before_are_compared_by_what_they_have(tmp_path, schema):
    connection = apsw.Connection(str(tmp_path / "old.db"))
    for _ in connection.execute((FIXTURES / f"{schema}.sql").read_text("utf-8")):
        pass
    connection.close()
    with perdure.open(f"sqlite:///{tmp_path}/old.db") as store:
        effects = store.effects(limit=1000)
        assert effects
        assert all(len(each.record.digest) == 64 for each in effects)

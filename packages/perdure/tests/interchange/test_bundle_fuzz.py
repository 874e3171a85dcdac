"""Any JSON value at any place of what a bundle says, in a chain that is right: no such bundle ends a reader (P10, P15).

    refused    the rehearsal finds it: Damaged, with the place, and nothing is written
    accepted   every reader reads it, and `boot` of every session
    let in     a store that took it all the same (it is older than its rehearsal): listings and boot name the row, and go on

The sweep: `PERDURE_ROUNDS=10000 PERDURE_SEED=7 pytest packages/perdure/tests/interchange/test_bundle_fuzz.py
-o faulthandler_timeout=0 -o log_cli_level=INFO`.
"""

from __future__ import annotations

import json
import logging
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from forged import Members, exported, manifest_of, packed, with_lines, with_manifest
from furnished import furnish
from perdure import errors
from perdure.interchange import bundle_in
from perdure.log.event import GENESIS, commit_to, hash_header
from perdure.planes.reading import listing
from perdure.planes.reading.paging import Page

log = logging.getLogger(__name__)
ROUNDS = int(os.environ.get("PERDURE_ROUNDS", "40"))
CONTROL_ROUNDS = 40
SEED = int(os.environ.get("PERDURE_SEED", "1"))
ANY: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 2**53, 2**70, "", "x", "\0", "2026-01-01", "[1]", [], [[]], ["x", 1], {}, {"a": {"b": 1}},
    {"$": ["bytes", "!"]}, {"$": ["int", "zz"]}, {"$": []}, "0" * 32, "f" * 64,
)  # fmt: skip


def filled(store: Any) -> None:
    furnish(store, b"a large artifact")
    session, scope = store.session("main"), store.scope("user:alice")
    for place in (session, scope):
        place.remember("Never push to main", kind="rule", tags=["forbid:git push"], source=["file:RULES.md"])
        place.remember("It broke once", kind="lesson", confidence=0.5, checks=[perdure.Age("30d")])
    session.label("user:alice")  # so that `boot` reads the rules of that scope, too


@pytest.fixture(scope="module")
def sound() -> Members:
    return exported(filled, everything=True)


# -- how a bundle is made anew ---------------------------------------------------------------------------------------------


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a value, the whole of it first."""
    yield path
    for name, inner in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield from places(inner, (*path, name))


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    inner = value
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = new
    return value


def mutated(members: Members, dice: random.Random) -> Members:
    """The bundle with one to three values exchanged in the bodies of its events, and all that follows from it made right."""

    def exchange(events: list[dict[str, Any]]) -> None:
        for _ in range(dice.choice((1, 1, 1, 2, 3))):
            event = dice.choice(events)
            part = dice.choice(("doc", "doc", "doc", "set", "body"))
            inside = event["body"] if part == "body" else event["body"].get(part)
            new = dice.choice(ANY)
            if inside is None or (part == "body" and not isinstance(inside, dict)):
                event["body"][part] = new
                continue
            where = dice.choice([*places(inside)])
            if part == "body" and not where:
                continue
            changed = put(inside, where, new)
            if part != "body":
                event["body"][part] = changed

    return with_bodies(members, exchange)


def with_bodies(members: Members, change: Callable[[list[dict[str, Any]]], None]) -> Members:
    """The bundle with the bodies of its events changed, and all that follows from it made right."""
    manifest = manifest_of(members)
    lines = [json.loads(line) for line in members["log.jsonl"].splitlines()]
    streams = [line for line in lines if "seq" not in line]
    events = [line for line in lines if "seq" in line]
    change([event for event in events if "body" in event])
    hashes: dict[tuple[str, int], bytes] = {}
    forks = {stream["uid"]: (stream.get("parent", ""), stream.get("fork", 0)) for stream in streams}
    texts = [json.dumps(each).encode() for each in streams]
    for event in events:
        uid, seq = event["stream"], event["seq"]
        previous = hashes.get((uid, seq - 1)) or hashes.get(forks[uid], GENESIS)
        raw = json.dumps(event.pop("body")) if "body" in event else ""
        commitment = bytes.fromhex(event["commitment"])
        if raw:
            commitment = commit_to(bytes.fromhex(event["salt"]), raw.encode())
        header = (event["kind"], event["table"], event["actor"], event["at"], 1, commitment)
        hashes[uid, seq] = hash_header(bytes.fromhex(uid), seq, previous, *header)
        event |= {"commitment": commitment.hex(), "hash": hashes[uid, seq].hex()}
        texts.append((json.dumps(event)[:-1] + (f', "body": {raw}}}' if raw else "}")).encode())
    for listed in manifest["streams"]:
        listed["head"] = hashes[listed["uid"], listed["last"]].hex()
    return with_lines(with_manifest(members, manifest), texts)


# -- how it is read -----------------------------------------------------------------------------------------------------------


def readers(store: Any) -> Iterator[tuple[str, Callable[[], Any], bool]]:
    """Every reading verb: its name, the call, and whether it is a listing, which no row may end."""
    yield from (
        (name, getattr(store, name), True)
        for name in (
            "sessions",
            "runs",
            "tasks",
            "decisions",
            "memories",
            "effects",
            "asks",
            "artifacts",
            "events",
            "feed",
        )
    )
    yield "runs(errors)", lambda: store.runs(errors=True), True
    yield "effects(errors)", lambda: store.effects(errors=True), True
    yield "effects(in doubt)", lambda: store.effects(in_doubt=True), True
    for status in ("superseded", "forgotten", None):
        yield f"memories({status})", lambda status=status: store.memories(status=status), True
    yield "search", lambda: store.search("main push login"), True
    yield "recall", lambda: store.recall("dark mode push"), True
    for name in ("main", "try-b"):
        session = store.session(name)
        for verb in (
            "tasks",
            "ready",
            "decisions",
            "memories",
            "effects",
            "artifacts",
            "entries",
            "checkpoints",
            "events",
            "boots",
        ):
            yield f"{name}.{verb}", getattr(session, verb), True
        yield f"{name}.memories(all)", lambda session=session: session.memories(status=None), True
        yield f"{name}.turns", lambda session=session: session.turns(last=100), False
        yield f"{name}.recall", lambda session=session: session.recall("dark mode push"), True
        for verb in ("info", "transcript", "pending", "covers", "restore"):
            yield f"{name}.{verb}", getattr(session, verb), False
        yield f"{name}.boot", session.boot, True
    for scope in ("user:alice",):
        place = store.scope(scope)
        yield f"{scope}.memories", place.memories, True
        yield f"{scope}.entries", place.entries, True
    for handle in store.runs():
        yield "run.waits", handle.waits, False
        yield "run.steps", handle.steps, False
        yield "run.effects", handle.effects, False


def read(store: Any, *, strict: bool) -> Iterator[str]:
    """Whatever ends a reader. strict: nothing may; else a reader of one thing may say Damaged."""
    try:
        found = [*readers(store)]
    except errors.Error as error:
        yield f"listing: {error!r}"
        return
    for name, reader, lists in found:
        try:
            answer = reader()
        except (errors.Damaged, errors.NewerSchema) as error:
            if strict or lists:
                yield f"{name}: {error!r}"
        except errors.Conflict as error:
            yield f"{name}: {error!r}"
        except Exception as error:
            yield f"{name}: {type(error).__name__}: {error}"
        else:
            if strict and isinstance(answer, Page) and answer.damaged:
                yield f"{name}: {answer.damaged[0]}"


def taken(path: Path, *, rehearsed: bool = True) -> tuple[Any, str]:
    """A store that took the bundle, or why none did."""
    store = perdure.open("memory:")
    try:
        with pytest.MonkeyPatch.context() as patch:
            if not rehearsed:
                patch.setattr(bundle_in, "_rehearse", lambda *_: None)
            store.import_(path)
    except (errors.Damaged, errors.Invalid, errors.TooLarge, errors.NewerSchema) as error:
        store.close()
        return None, type(error).__name__
    return store, ""


def swept(
    sound: Members, folder: Path, rounds: int, *, rehearsed: bool, strict: bool
) -> tuple[list[str], Counter[str]]:
    """The faults that ended a reader of so many bundles, and what became of them."""
    outcomes: Counter[str] = Counter()
    ended: list[str] = []
    for number in range(rounds):
        seed = SEED * 1_000_000 + number
        path = folder / "x.perdure"
        path.write_bytes(packed(mutated(sound, random.Random(seed))))
        try:
            store, refused = taken(path, rehearsed=rehearsed)
        except Exception as error:
            ended.append(f"{seed}: import: {type(error).__name__}: {error}")
            continue
        outcomes[refused or "taken"] += 1
        if store is not None:
            with store:
                ended += [f"{seed}: {said}" for said in read(store, strict=strict)]
    return ended, outcomes


@pytest.mark.parametrize("rehearsed", [True, False], ids=["rehearsed", "let in"])
def test_no_bundle_ends_a_reader(sound, tmp_path, rehearsed):
    ended, outcomes = swept(sound, tmp_path, ROUNDS, rehearsed=rehearsed, strict=rehearsed)
    log.info("%s of %s: %s", ROUNDS, "rehearsed" if rehearsed else "let in", dict(outcomes))
    assert not ended, "\n".join([f"{len(ended)} of {ROUNDS}", *ended[:40]])
    assert outcomes["taken"] > ROUNDS // 50


def test_control_a_bundle_that_was_not_rehearsed_has_rows_that_cannot_be_read(sound, tmp_path):
    ended, _ = swept(sound, tmp_path, CONTROL_ROUNDS, rehearsed=False, strict=True)
    assert len(ended) > CONTROL_ROUNDS // 4


def test_control_listings_that_name_no_damaged_rows_end(sound, tmp_path, monkeypatch):
    def strict_rows(rows, made, more=None):
        return Page(map(made, rows), more)

    monkeypatch.setattr(listing, "read_rows", strict_rows)
    ended, _ = swept(sound, tmp_path, CONTROL_ROUNDS, rehearsed=False, strict=False)
    assert ended


def test_control_a_sound_bundle_is_read_whole(sound, tmp_path):
    path = tmp_path / "x.perdure"
    path.write_bytes(packed(sound))
    store, refused = taken(path)
    assert not refused
    with store:
        assert [*read(store, strict=True)] == []

"""Damaged logs, generated: a whole log, what was done to it, and which of its lines are still whole, in order.

Every case says by itself what must come of it (`Case.whole`), so that the reader under test is not its own judge.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

import perdure

KINDS: dict[str, Callable[[list[bytes], random.Random], tuple[bytes, list[int]]]] = {}


class Case(NamedTuple):
    """A damaged segment. whole: the numbers of the lines that can still be told, in the order in which they stand."""

    name: str
    data: bytes
    whole: list[int]


def kind(make: Any) -> Any:
    KINDS[make.__name__] = make
    return make


def told(folder: Path) -> list[bytes]:
    """A log with several streams, lines that concern two of them, forks and blobs; its lines without their ends."""
    with perdure.open(f"files:///{folder}/whole") as store:
        sessions = [store.session(f"s{number}") for number in range(4)]
        for number in range(12):
            session = sessions[number % 4]
            session.say("user", f'word {number} with a brace {{"v":1 and ' + "a1" * 16)
            session.set("count", number)
            if number % 5 == 0:
                store.atomic(lambda tx: [tx.session(f"s{n}").set("both", n) for n in (0, 1)])
        sessions[1].fork(name="branch").say("user", "on a branch")
        sessions[2].task("something to do")
        sessions[3].say("user", "x" * 9_000)
    return (folder / "whole" / "log" / "000001.jsonl").read_bytes().splitlines()


def cases(lines: list[bytes], seeds: range) -> Iterator[Case]:
    for seed in seeds:
        for name, make in KINDS.items():
            data, whole = make(list(lines), random.Random(f"{name} {seed}"))
            yield Case(f"{name}-{seed}", data, whole)


def joined(lines: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def numbers(lines: list[bytes], *without: int) -> list[int]:
    return [number for number in range(len(lines)) if number not in without]


def some(lines: list[bytes], rng: random.Random) -> int:
    return rng.randrange(1, len(lines))


@kind
def torn_last(lines: list[bytes], rng: random.Random) -> tuple[bytes, list[int]]:
    last = lines.pop()
    return joined(lines) + last[: rng.randrange(1, len(last))], numbers(lines)


@kind
def last_without_its_end(lines: list[bytes], rng: random.Random) -> tuple[bytes, list[int]]:
    return joined(lines)[:-1], numbers(lines)


@kind
def torn_in_the_middle(lines: list[bytes], rng: random.Random) -> tuple[bytes, list[int]]:
    at = some(lines, rng)
    lines[at] = lines[at][: rng.randrange(1, len(lines[at]))]
    return joined(lines), numbers(lines, at)


@kind
def beginning_lost(lines: list[bytes], rng: random.Random) -> tuple[bytes, list[int]]:
    at = some(lines, rng)
    lines[at] = lines[at][rng.randrange(1, len(lines[at])) :]
    return joined(lines), numbers(lines, at)


@kind
def byte_changed(lines: list[bytes], rng: random.Random) -> tuple[bytes, list[int]]:
    at = some(lines, rng)
    place = rng.randrange(len(lines[at]))
    old = lines[at][place]
    new = rng.choice([byte for byte in range(256) if byte not in (old, 10, 13)])
    lines[at] = lines[at][:place] + bytes([new]) + lines[at][place + 1 :]
    return joined(lines), numbers(lines, at)


@kind
def glued(lines: list[bytes], rng: random.Random) -> tuple[bytes, list[int]]:
    at = some(lines, rng)
    whole = numbers(lines)
    lines[at - 1 : at + 1] = [lines[at - 1] + lines[at]]
    return joined(lines), whole


@kind
def glued_to_a_torn_one(lines: list[bytes], rng: random.Random) -> tuple[bytes, list[int]]:
    at = some(lines, rng)
    whole = numbers(lines, at - 1)
    torn = lines[at - 1]
    lines[at - 1 : at + 1] = [torn[: rng.randrange(1, len(torn))] + lines[at]]
    return joined(lines), whole


@kind
def crlf(lines: list[bytes], rng: random.Random) -> tuple[bytes, list[int]]:
    return b"".join(line + b"\r\n" for line in lines), numbers(lines)


@kind
def some_crlf(lines: list[bytes], rng: random.Random) -> tuple[bytes, list[int]]:
    return b"".join(line + rng.choice([b"\r\n", b"\n"]) for line in lines), numbers(lines)


@kind
def byte_order_mark(lines: list[bytes], rng: random.Random) -> tuple[bytes, list[int]]:
    return b"\xef\xbb\xbf" + joined(lines), numbers(lines)


@kind
def conflict_markers(lines: list[bytes], rng: random.Random) -> tuple[bytes, list[int]]:
    at = some(lines, rng)
    upto = rng.randrange(at, len(lines))
    marked = [*lines[:at], b"<<<<<<< HEAD", *lines[at:upto], b"=======", *lines[upto:], b">>>>>>> theirs"]
    return joined(marked), numbers(lines)


@kind
def repeated(lines: list[bytes], rng: random.Random) -> tuple[bytes, list[int]]:
    at = some(lines, rng)
    again = rng.randrange(at, len(lines))
    return joined([*lines[: again + 1], lines[at], *lines[again + 1 :]]), [
        *range(again + 1), at, *range(again + 1, len(lines)),
    ]  # fmt: skip


@kind
def zeros(lines: list[bytes], rng: random.Random) -> tuple[bytes, list[int]]:
    at = some(lines, rng)
    lines[at] = bytes(len(lines[at]))
    return joined(lines), numbers(lines, at)


@kind
def zeros_at_the_end(lines: list[bytes], rng: random.Random) -> tuple[bytes, list[int]]:
    return joined(lines) + bytes(rng.randrange(1, 5_000)), numbers(lines)


@kind
def line_missing(lines: list[bytes], rng: random.Random) -> tuple[bytes, list[int]]:
    at = rng.randrange(1, len(lines) - 1)
    whole = numbers(lines, at)
    del lines[at]
    return joined(lines), whole


@kind
def lines_swapped(lines: list[bytes], rng: random.Random) -> tuple[bytes, list[int]]:
    at = rng.randrange(1, len(lines) - 1)
    whole = numbers(lines)
    whole[at], whole[at + 1] = whole[at + 1], whole[at]
    return joined([lines[number] for number in whole]), whole


@kind
def somebody_elses_lines(lines: list[bytes], rng: random.Random) -> tuple[bytes, list[int]]:
    at = some(lines, rng)
    other = rng.choice([b"{}", b'{"v":1}', b"null", b"# a note", b'{"v":2,"prev":""}', b"\xff\xfe\x00", b"[" * 5_000])
    return joined([*lines[:at], other, *lines[at:]]), numbers(lines)


@kind
def several(lines: list[bytes], rng: random.Random) -> tuple[bytes, list[int]]:
    lost = rng.sample(range(1, len(lines)), 3)
    for at in lost:
        lines[at] = lines[at][: rng.randrange(1, len(lines[at]))]
    return joined(lines), numbers(lines, *lost)


# -- what must come of it ----------------------------------------------------------------------------------------------


def expected(lines: list[bytes], whole: list[int]) -> dict[str, list[str]]:
    """The hashes of the events of each stream that can be loaded: those that follow what was loaded before them."""
    loaded: dict[str, list[str]] = {}
    begins: dict[str, tuple[int, str, int]] = {}
    for number in whole:
        said = msgspec.json.decode(lines[number])
        for stream in said.get("streams", []):
            begins.setdefault(stream["uid"], (stream.get("fork", 0), stream.get("parent", ""), number))
        for event in said.get("events", []):
            _follow(event, loaded, begins)
    return {uid: hashes for uid, hashes in loaded.items() if hashes}


def _follow(event: Any, loaded: dict[str, list[str]], begins: dict[str, tuple[int, str, int]]) -> None:
    uid, seq = event["stream"], event["seq"]
    if uid not in begins:
        return
    fork, parent, _ = begins[uid]
    if parent and fork > _head(parent, loaded, begins) and uid not in loaded:
        return
    if seq == _head(uid, loaded, begins) + 1:
        loaded.setdefault(uid, []).append(event["hash"])


def _head(uid: str, loaded: dict[str, list[str]], begins: dict[str, tuple[int, str, int]]) -> int:
    return begins[uid][0] + len(loaded.get(uid, [])) if uid in begins else 0

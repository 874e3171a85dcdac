"""A damaged log: every valid line loads, everything else is set aside and listed, with its place and the reason (P6, P10)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import perdure
from perdure.artifacts.compress import zstd
from perdure.runtime.callers import caller_of
from perdure_files.store import line as lines_module
from perdure_files.store.line import Piece
from perdure_files.store.load import Loader
from stores.files import corpus, rebuilt
from stores.files.corpus import Case

SEEDS = range(14)


@pytest.fixture(scope="module")
def lines(tmp_path_factory) -> list[bytes]:
    return corpus.told(tmp_path_factory.mktemp("log"))


def loaded(folder: Path, case: Case) -> tuple[dict[str, list[str]], list[Piece]]:
    """The hashes of the events of each stream, and what was set aside."""
    (folder / "log").mkdir(parents=True, exist_ok=True)
    (folder / "log" / "000001.jsonl").write_bytes(case.data)
    found, pieces = rebuilt.made_from_the_log(folder)
    streams: dict[str, list[str]] = {}
    for event in map(dict, found["events"]):
        streams.setdefault(str(event["stream"]).lower(), []).append(event["hash"].hex())
    return streams, [piece for _, piece in pieces]


def unlisted(lines: list[bytes], case: Case, streams: dict[str, list[str]], pieces: list[Piece]) -> set[str]:
    """Events of the whole log that are neither loaded nor explained by something that was set aside as lost."""
    kept = {digest for hashes in streams.values() for digest in hashes}
    said = b"".join(piece.data for piece in pieces if piece.lost)
    damaged = {number for number in range(len(lines)) if number not in case.whole}
    explained = bool([piece for piece in pieces if piece.lost]) if damaged else False
    missing = set()
    for number, text in enumerate(lines):
        for event in corpus.msgspec.json.decode(text).get("events", []):
            if (
                event["hash"] not in kept
                and event["hash"].encode() not in said
                and not (number in damaged and explained)
            ):
                missing.add(event["hash"])
    return missing


def wrong(lines: list[bytes], case: Case, folder: Path) -> str:
    streams, pieces = loaded(folder, case)
    if streams != corpus.expected(lines, case.whole):
        return "other events than can be told were loaded"
    if unlisted(lines, case, streams, pieces):
        return "something is lost and not listed"
    everything_is_there = sorted(set(case.whole)) == [*range(len(lines))] and "swapped" not in case.name
    if everything_is_there and "elses" not in case.name and "end" not in case.name and any(p.lost for p in pieces):
        return "something is called lost that is not"
    return ""


def test_every_valid_line_loads_and_every_loss_is_listed(lines, tmp_path):
    found = {case.name: wrong(lines, case, tmp_path) for case in corpus.cases(lines, SEEDS)}
    assert len(found) >= 200
    assert {name: why for name, why in found.items() if why} == {}


def test_control_a_reader_that_stops_at_the_first_bad_line_is_caught(lines, tmp_path, monkeypatch):
    monkeypatch.setattr(lines_module, "_salvaged", lambda raw, start: iter([Piece(start, raw, "bad")]))
    found = {case.name: wrong(lines, case, tmp_path) for case in corpus.cases(lines, range(3))}
    assert {"glued-0", "crlf-0", "byte_order_mark-0"} <= {name for name, why in found.items() if why}


def test_control_a_reader_that_drops_in_silence_is_caught(lines, tmp_path, monkeypatch):
    load = Loader.load
    monkeypatch.setattr(Loader, "load", lambda loader, entries: load(loader, entries) and [])
    found = {case.name: wrong(lines, case, tmp_path) for case in corpus.cases(lines, range(3))}
    assert {"torn_in_the_middle-0", "zeros-0", "line_missing-0"} <= {name for name, why in found.items() if why}


def test_a_missing_segment_is_listed_and_the_others_load(lines, tmp_path):
    (tmp_path / "log").mkdir()
    for number, part in ((1, lines[:10]), (3, lines[20:])):
        (tmp_path / "log" / f"{number:06}.jsonl").write_bytes(corpus.joined(part))
    found, pieces = rebuilt.made_from_the_log(tmp_path)
    assert found["events"]
    reasons = {piece.reason for number, piece in pieces if number in (2, 3)}
    assert {"the segment is missing", "lines are missing before this one"} <= reasons


@pytest.mark.parametrize("how", ["torn", "changed"])
def test_of_a_packed_segment_that_is_damaged_what_comes_before_that_loads(lines, tmp_path, how):
    noisy = [line + b" " + os.urandom(20_000).hex().encode() for line in lines]
    (tmp_path / "log").mkdir()
    packed = zstd.compress(corpus.joined([*lines[:20], *noisy, *lines[20:]]))
    damaged = packed[:-200_000] if how == "torn" else packed[:-200_000] + b"?" * 200_000
    (tmp_path / "log" / "000001.jsonl.zst").write_bytes(damaged)
    found, pieces = rebuilt.made_from_the_log(tmp_path)
    assert len(found["events"]) >= 15
    assert any(b"cannot be unpacked" in piece.data and piece.lost for _, piece in pieces)


@pytest.mark.parametrize("name", corpus.KINDS)
def test_a_damaged_store_opens_goes_on_and_says_what_it_lost(lines, tmp_path, name):
    case = next(case for case in corpus.cases(lines, range(1)) if case.name == f"{name}-0")
    folder = tmp_path / "store"
    (folder / "log").mkdir(parents=True)
    (folder / "log" / "000001.jsonl").write_bytes(case.data)
    with perdure.open(f"files:///{folder}") as store:
        store.session("s0").say("user", "goes on")
        epoch = caller_of(store).core.epoch
        asides = caller_of(store).core.engine.asides()
        report = store.verify(blobs=False)
    assert epoch == 2  # nobody has seen this log here: it is a clone
    lost = [each for each in asides if each.lost]
    assert len([problem for problem in report.problems if problem.kind == "set-aside"]) == len(lost)
    assert len(report.problems) == len(lost)
    with perdure.open(f"files:///{folder}") as store:
        assert caller_of(store).core.epoch == epoch
        assert store.session("s0").turns(last=1)[0].content == "goes on"


@pytest.mark.parametrize("cut", [1, 40])
@pytest.mark.parametrize("cached", [True, False])
def test_a_packed_last_segment_that_does_not_end_with_a_line_opens_and_goes_on(tmp_path, cut, cached):
    folder = tmp_path / "store"
    with perdure.open(f"files:///{folder}") as store:
        store.session("a").say("user", "one")
    path = folder / "log" / "000001.jsonl"
    (folder / "log" / "000001.jsonl.zst").write_bytes(zstd.compress(path.read_bytes()[:-cut]))
    path.unlink()
    if cached and cut > 1:
        with pytest.raises(perdure.Damaged, match="now it ends within a line"):
            perdure.open(f"files:///{folder}")
    if not cached or cut > 1:
        shutil.rmtree(folder / ".perdure")
    with perdure.open(f"files:///{folder}") as store:
        store.session("b").say("user", "goes on")
    with perdure.open(f"files:///{folder}") as store:
        assert [turn.content for turn in store.session("b").turns()] == ["goes on"]
        assert any(each.lost for each in caller_of(store).core.engine.asides()) == (cut > 1)

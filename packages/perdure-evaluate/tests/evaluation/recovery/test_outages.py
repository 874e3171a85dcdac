"""Power-loss states, enumerated: which there are, and that what was acknowledged is in all of them (P1)."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from evaluation.recovery.conftest import SEED
from evaluation.recovery.test_power_model import FOLDER, coded, fd, opened, written
from perdure.stores import sqlite
from perdure_evaluate.recovery import host, plan
from perdure_evaluate.recovery.faults import outages, system_calls
from perdure_evaluate.recovery.faults.outages import Heard, OutageState, states_of
from perdure_evaluate.recovery.host import ShownCase
from perdure_evaluate.recovery.story import Ground

Show = Callable[[str], ShownCase]
needs_strace = pytest.mark.skipif(bool(system_calls.missing()), reason="strace cannot trace here")


def acked(name: str) -> str:
    line = json.dumps({"what": "ack", "name": name, "t": 1.0, "verb": "note", "value": 1}) + "\n"
    return f'7 write(9<{coded("pipe:[5]")}>, "{coded(line)}", {len(line)}) = {len(line)}'


def synced(name: str, number: int = 3) -> str:
    return f"7 fsync({fd(number, name)}) = 0"


def heard(*lines: str) -> Heard:
    files = Heard(FOLDER)
    files.replay("\n".join(lines))
    return files


def found(files: Heard) -> set[tuple[tuple[bytes, ...], int]]:
    """Every state: what the files hold, and how many acknowledgements must be in it."""
    return {
        (tuple(state.content(file) for file in files.named_before(state.when).values()),
         len(files.acknowledged_before(state.when)))
        for state in states_of(files, "seed")
    }  # fmt: skip


BEGUN = opened("a", "O_WRONLY|O_CREAT|O_APPEND")


def test_a_write_is_torn_at_the_last_moment_before_its_sync() -> None:
    files = heard(BEGUN, written("a", "x"), synced("a"), acked("one"), written("a", "y"), synced("a"), acked("two"))
    assert found(files) == {((b"",), 0), ((b"x",), 1)}


def test_what_is_acknowledged_before_its_sync_is_missed() -> None:
    files = heard(BEGUN, written("a", "x"), acked("one"), written("a", "y"), acked("two"))
    assert found(files) == {((b"",), 2), ((b"x",), 2), ((b"\0y",), 2)}


def test_the_other_files_have_all_or_what_was_synced() -> None:
    other = opened("b", "O_WRONLY|O_CREAT", 4)
    files = heard(BEGUN, other, written("b", "o", 4), written("a", "x"), acked("one"))
    assert found(files) == {((b"", b""), 1), ((b"o", b""), 1), ((b"", b"x"), 1)} | {((b"", b""), 1)}


def test_a_file_that_was_removed_is_in_no_state_after_that() -> None:
    gone = f'7 unlink("{coded(f"{FOLDER}/a")}") = 0'
    assert found(heard(BEGUN, written("a", "x"), gone, acked("one"))) == {((b"",), 0)}


def test_a_write_is_torn_at_every_sector_and_at_one_byte_more() -> None:
    files = heard(BEGUN, written("a", "x" * 1_300))
    cuts = [state.cut for state in states_of(files, "seed")]
    assert {0, 512, 1_024} < set(cuts)
    assert len(cuts) == 4
    assert cuts == [state.cut for state in states_of(files, "seed")]


# -- real stories ----------------------------------------------------------------------------------------------------


def looked_at(ground: Ground, subject: str, monkeypatch: pytest.MonkeyPatch, parts: int = 640) -> ShownCase:
    monkeypatch.setattr(outages, "PARTS", parts)
    return host.show(ground, plan.parse_case(f"{subject}/relay-5/outages/part-7", SEED))


@needs_strace
def test_nothing_that_was_acknowledged_is_missing_in_any_state(ground: Ground, monkeypatch) -> None:
    shown = looked_at(ground, "perdure-sqlite", monkeypatch, 160)
    assert (shown.broken, shown.score.failed) == ("", [])
    assert shown.score.states > 30


@needs_strace
def test_nor_where_the_wal_is_begun_anew_all_the_time(ground: Ground, monkeypatch) -> None:
    monkeypatch.setattr(sqlite, "WAL_PAGES", 12)
    shown = looked_at(ground, "perdure-sqlite", monkeypatch, 160)
    assert (shown.broken, shown.score.failed) == ("", [])


@needs_strace
@pytest.mark.parametrize("subject", ["control-normal", "control-unsynced"])
def test_control_less_than_a_full_sync_loses_some(ground: Ground, monkeypatch, subject: str) -> None:
    score = looked_at(ground, subject, monkeypatch, 64 if subject == "control-unsynced" else 640).score
    assert score.failed == ["acknowledged_lost"]
    assert 0 < score.acknowledged_lost <= score.states


@needs_strace
def test_the_states_of_a_real_story_are_thousands(ground: Ground, monkeypatch) -> None:
    kept: list[OutageState] = []
    monkeypatch.setattr(outages, "_look", lambda story, state, due: kept.append(state))
    shown = looked_at(ground, "perdure-sqlite", monkeypatch, 7)
    assert shown.broken == ""
    assert len(kept) * 7 > 5_000
    assert any(state.later for state in kept)

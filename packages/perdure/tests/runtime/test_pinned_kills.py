"""Kills at each point of a claim under changed versions: nothing is sent twice, and a change is decided once (P3, P13).

Every fourth point; with PERDURE_ROUNDS in the environment each of them.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import forked
import perdure
from perdure.planes.execution import run_pins
from runtime.pinned_life import arrived, live

POINTS = range(1, 200) if "PERDURE_ROUNDS" in os.environ else range(1, 200, 4)


def died(url: str, folder: Path, policy: str, point: int) -> bool:
    """Whether a life under the new model was killed at this point; it may have come to its end before."""
    words = ["-m", "runtime.pinned_life", url, str(folder), "m2", policy]
    ran = forked.run(*words, env=forked.environment(PERDURE_CRASH_AT=f"*:{point}"))
    assert ran.returncode in (0, -signal.SIGKILL), ran.stderr
    return ran.returncode == -signal.SIGKILL


def decide(store: perdure.Store, folder: Path) -> None:
    """A person's word wherever one is needed: doubt is settled by what arrived."""
    for asked in store.asks():
        store.answer(asked.id, "continue" if asked.choices else "yes", by="alice")
    for effect in store.effects(in_doubt=True):
        said = (
            perdure.Happened(effect.record.args["to"])
            if arrived(folder, effect.record.args["to"])
            else perdure.Absent()
        )
        effect.settle(said, by="alice", force=True)
    for parked in store.runs(status="parked"):
        parked.resume()


def swept(url: str, folder: Path, policy: str, point: int, *, decided: bool = False) -> tuple[bool, dict[str, Any]]:
    """The end of a run that began under m1 and was continued under m2 by a life that was killed at a point. decided: a person had
    already decided about the change.
    """
    folder.mkdir()
    for model in ("m1", "m2") if decided else ("m1",):
        live(url, str(folder), model, policy)
        with perdure.open(url, actor="alice") as store:
            decide(store, folder)
    killed = died(url, folder, policy, point)
    with perdure.open(url, actor="alice") as store:
        for _ in range(8):
            decide(store, folder)
            live(url, str(folder), "m2", policy)
            (run,) = store.runs()
            if run.record.ended:
                break
        kinds = Counter(each.kind for each in run.timeline(last=1000))
        return killed, {
            "result": run.record.result, "pins": run.record.pins, "ann": arrived(folder, "ann"), "bob": arrived(folder, "bob"),
            "changes": kinds["run.versions_changed"], "asks": kinds["ask.opened"], "sound": store.verify().ok,
        }  # fmt: skip


def expected(policy: str) -> dict[str, Any]:
    asks = 2 if policy == "ask" else 1
    return {
        "result": ["ann", "bob"], "pins": {"model": "m2"}, "ann": 1, "bob": 1, "changes": 1, "asks": asks, "sound": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "decided"), [("continue", False), ("park", False), ("ask", False), ("park", True), ("ask", True)]
)
def test_killed_at_each_point_of_a_claim_under_other_versions(policy: str, decided: bool, tmp_path: Path) -> None:
    for point in POINTS:
        url = f"sqlite:///{tmp_path}/{point}.db"
        killed, found = swept(url, tmp_path / str(point), policy, point, decided=decided)
        assert found == expected(policy), f"point {point}"
        if not killed:
            break
    assert 5 < point < POINTS[-1]


@pytest.mark.parametrize("policy", ["continue", "park", "ask"])
@pytest.mark.parametrize("point", [1, 2, 3])
def test_killed_around_the_claim_on_postgresql(policy: str, point: int, tmp_path: Path, postgres_store: str) -> None:
    killed, found = swept(postgres_store, tmp_path / "out", policy, point)
    assert (killed, found) == (True, expected(policy))


def test_control_a_claim_that_does_not_compare_is_noticed(tmp_path: Path, monkeypatch) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    monkeypatch.setattr(run_pins, "moved", lambda *_: {})
    assert swept(url, tmp_path / "out", "park", 10_000)[1] != expected("park")

"""Reads that pages are made of, without a browser: cheap ways give what the dear ones give."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

import perdure
from doors.console import scene
from doors.console.conftest import copied
from perdure.effects import envelope, glimpse, timeline
from perdure.runtime.callers import caller_of, stream_of
from perdure.runtime.journal import branch_name
from perdure.stores.tx import Tx
from perdure_server.console import attention, run_reads
from planes.tampering import Intruder


def each_run(url: str, work: Any) -> list[Any]:
    async def read() -> list[Any]:
        async with perdure.aopen(url, actor="alice", read_only=True) as store:
            return [await work(store, run) for run in await store.runs()]

    return asyncio.run(read())


@pytest.fixture(scope="module")
def url(filled: Path) -> str:
    return f"sqlite:///{filled}"


def test_the_present_is_what_the_fold_of_the_whole_log_gives(url: str) -> None:
    async def compare(store: Any, run: Any) -> bool:
        last = (await run.timeline(last=1))[-1].seq
        quick = await run_reads.at(store, run.id, last)
        _, folded = await _as_both(store, run.id, last)
        for each in (quick, folded):
            each["run"].pop("abandoned")  # of the present alone: who is dead is not in the log
        earlier = await run_reads.at(store, run.id, last - 1)
        assert msgspec.json.encode(earlier) != msgspec.json.encode(quick)  # a control: another event, another state
        assert quick == folded
        return True

    assert len(each_run(url, compare)) >= 6


async def _as_both(store: Any, run: Any, seq: int) -> tuple[Any, Any]:
    """The state after an event by the quick way, and by the fold of the whole log up to there."""
    handle = await store.run(run)
    folded = await handle.at(seq)
    newest = await folded._read(glimpse.newest_effects, run_reads.LATEST)
    return await run_reads.folded(handle, seq), await run_reads.state(folded, seq, newest)


def _differing(url: str) -> tuple[int, int]:
    """At how many events of all runs of a store there were the two, and at how many they differ."""

    async def compare(store: Any, run: Any) -> list[bool]:
        events = (await run.timeline(last=1))[-1].seq
        both = [await _as_both(store, run.id, seq) for seq in range(1, events + 1)]
        return [quick != folded for quick, folded in both]

    found = [each for differs in each_run(url, compare) for each in differs]
    return len(found), sum(found)


def test_a_state_after_any_event_is_what_the_fold_of_the_whole_log_gives(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_reads, "LOOKED_AT", 4)
    compared, differing = _differing(url)
    assert (compared > 60, differing) == (True, 0)


@pytest.fixture(params=["sqlite", "postgres"])
def busy(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/busy.db" if request.param == "sqlite" else request.getfixturevalue("postgres_store")
    scene.fill_busy(url)
    return url


def test_of_many_effects_and_waits_the_newest_are_folded(busy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_reads, "LATEST", 3)
    monkeypatch.setattr(run_reads, "LOOKED_AT", 5)
    compared, differing = _differing(busy)
    assert (compared > 40, differing) == (True, 0)


WRONG = {
    "a run's own events": {"run.claimed", "run.waiting"},
    "the last word about an effect": {"effect.committed", "effect.failed"},
    "an answer": {"ask.answered"},
}  # left out of the fold


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_fold_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    url = f"sqlite:///{tmp_path}/many.db"
    scene.fill_busy(url)
    real, kinds = glimpse.shown_events, WRONG[wrong]

    def lacking(*given: Any) -> Any:
        return (each for each in real(*given) if each.kind not in kinds)

    monkeypatch.setattr(glimpse, "shown_events", lacking)
    assert _differing(url)[1] > 0


def test_a_run_that_lost_the_beginning_of_an_effect_is_folded_whole(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/pruned.db"
    run = scene.fill_busy(url)
    with perdure.open(url, actor="alice") as store:
        handle = store.run(run)
        first = handle.effects()[0].record.seq
        caller_of(store).write(lambda tx: tx.empty(stream_of(handle), [first]))
    compared, differing = _differing(url)
    assert (compared > 40, differing) == (True, 0)


def test_a_step_of_the_scrubber_folds_what_is_shown_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = scene.fill_long(f"sqlite:///{tmp_path}/long.db", 500)
    taken: list[int] = []
    real = Tx.adopt

    def counted(self: Tx, *given: Any, **options: Any) -> None:
        taken.append(1)
        real(self, *given, **options)

    monkeypatch.setattr(Tx, "adopt", counted)
    counts = []
    with perdure.open(f"sqlite:///{tmp_path}/long.db", read_only=True) as store:
        handle = store.run(run)
        for view in (lambda: glimpse_at(store, handle, 450), lambda: handle.at(450)):
            taken.clear()
            view()
            counts.append(len(taken))
    assert counts[0] <= run_reads.LOOKED_AT + 10
    assert counts[1] == 450  # a control: a fold of the whole


def glimpse_at(store: Any, handle: Any, seq: int) -> Any:
    return handle._read(glimpse.view, seq, caller_of(store).core, run_reads.LATEST, run_reads.LOOKED_AT)


def test_a_state_is_of_its_event_though_another_comes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/moving.db"
    with perdure.open(url, actor="alice") as store:
        scene.drive(store, scene.asks_freely, "Now?", key="moving")
        last = next(iter(store.runs())).timeline(last=1)[-1].seq
    real, calls = run_reads.state, []

    async def moving(run: Any, *given: Any) -> dict[str, Any]:
        if not calls:
            with perdure.open(url, actor="bob") as other:
                next(iter(other.runs())).cancel()
        calls.append(run)
        return await real(await run.refresh(), *given)

    monkeypatch.setattr(run_reads, "state", moving)
    (found,) = each_run(url, lambda store, run: run_reads.at(store, run.id, last))
    assert (found["run"]["status"], len(calls)) == ("waiting", 2)  # read again, from the log


def test_a_verdict_alone_is_that_of_the_envelope(url: str) -> None:
    async def compare(_store: Any, run: Any) -> str:
        alone = await run._read(envelope.verdict, await run._witness())
        assert alone == (await run.envelope()).verdict
        return alone.standing

    assert len(set(each_run(url, compare))) >= 3  # runs that stand differently


def test_a_verdict_reads_no_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = scene.fill_long(f"sqlite:///{tmp_path}/long.db", 50)
    monkeypatch.setattr(envelope, "bodies", _refused)
    with perdure.open(f"sqlite:///{tmp_path}/long.db", read_only=True) as store:
        handle = store.run(run)
        assert handle._read(envelope.verdict, handle._witness()).standing == "waits for a person"
        with pytest.raises(AssertionError):
            handle.envelope()  # a control: the whole envelope does


def _refused(*_given: Any) -> Any:
    raise AssertionError("the steps of a run were read")


def test_an_outline_names_what_the_timeline_does_with_the_branch_of_each_event(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/branches.db"
    run = scene.fill_branches(url, ["auth", "billing", "search"])
    with perdure.open(url, read_only=True) as store:
        handle = store.run(run)
        told = handle.timeline(last=1000)
        found = handle._read(timeline.outline, most=1000)
        part = handle._read(timeline.outline, most=5)
    assert [(each.seq, each.kind, each.of) for each in found.entries] == [(e.seq, e.kind, e.of) for e in told]
    assert (found.complete, part.complete, len(part.entries)) == (True, False, 5)
    assert part.entries[-1].kind == found.entries[-1].kind
    committed = [each for each in found.entries if each.kind == "effect.committed"]
    # Of the effect, though the event has none; branches end in any order.
    assert sorted(each.place.split("/")[1] for each in committed) == ["1", "2", "3"]
    assert [e.place for e in told if e.kind == "effect.committed"] == ["", "", ""]  # a control
    child = [each.about for each in found.entries if each.kind.startswith("run.wait.")]
    assert child == ["audit-module", "audit-module"]


def test_branches_are_named_as_the_program_named_them() -> None:
    paths = {"": "main", "2": "2", "2.1": "2.1", ".'review'": "review", "1.'a.b'.3": "1.a.b.3", '."it\'s"': "it's"}
    assert {path: branch_name(path) for path in paths} == paths


@pytest.mark.parametrize(
    "harm",
    ["UPDATE effects SET kind = 'hurt'", "UPDATE events SET body = x'7b' WHERE kind LIKE 'run.%' AND body IS NOT NULL", ""],
    ids=["the doubts themselves", "events beside them", "control"],
)  # fmt: skip
def test_a_doubt_that_cannot_be_read_is_counted_and_named(filled: Path, tmp_path: Path, harm: str) -> None:
    url = f"sqlite:///{copied(filled, tmp_path)}"

    async def look() -> tuple[Any, Any]:
        async with perdure.aopen(url, actor="alice", read_only=True) as store:
            return await attention.counts(store), await attention.inbox(store)

    before, _ = asyncio.run(look())
    assert before["doubts"]
    if harm:
        Intruder(url).run(harm)
    counts, inbox = asyncio.run(look())
    assert (counts["doubts"] >= before["doubts"], bool(inbox["damaged"])) == (True, bool(harm))

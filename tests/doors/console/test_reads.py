"""Reads that pages are made of, without a browser: cheap ways give what the dear ones give."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

import perdure
from doors.console import scene
from perdure.doors.console import run_reads
from perdure.effects import envelope, timeline
from perdure.runtime.places import branch_name


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
        folded = await run_reads.state(await run.at(last), last)
        for each in (quick, folded):
            each["run"].pop("abandoned")  # of the present alone: who is dead is not in the log
        earlier = await run_reads.at(store, run.id, last - 1)
        assert msgspec.json.encode(earlier) != msgspec.json.encode(quick)  # a control: another event, another state
        assert quick == folded
        return True

    assert len(each_run(url, compare)) >= 6


def test_a_state_is_of_its_event_though_another_comes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/moving.db"
    with perdure.open(url, actor="alice") as store:
        scene.drive(store, scene.asks_freely, "Now?", key="moving")
        last = next(iter(store.runs())).timeline(last=1)[-1].seq
    real, calls = run_reads.state, []

    async def moving(run: Any, seq: int) -> dict[str, Any]:
        if not calls:
            with perdure.open(url, actor="bob") as other:
                next(iter(other.runs())).cancel()
        calls.append(run)
        return await real(await run.refresh(), seq)

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
    assert [each.place.split("/")[1] for each in committed] == [
        "1",
        "2",
        "3",
    ]  # of the effect, though the event has none
    assert [e.place for e in told if e.kind == "effect.committed"] == ["", "", ""]  # a control
    child = [each.about for each in found.entries if each.kind.startswith("run.wait.")]
    assert child == ["audit-module", "audit-module"]


def test_branches_are_named_as_the_program_named_them() -> None:
    paths = {"": "main", "2": "2", "2.1": "2.1", ".'review'": "review", "1.'a.b'.3": "1.a.b.3", '."it\'s"': "it's"}
    assert {path: branch_name(path) for path in paths} == paths

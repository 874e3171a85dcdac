"""Evidence in a boot, on the labelled histories that ship: ahead of the last turns and of a dump that is cut, in every class."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import perdure
from perdure.boot import pack
from perdure.errors import Invalid
from perdure_evaluate.boot import evidence_shares, histories, history_verbs
from perdure_testing.clock import FakeClock

Told = list[tuple[perdure.Session, histories.BootHistory]]


@pytest.fixture(scope="module")
def told() -> Iterator[Told]:
    """Every history, in a store of its own."""
    found: Told = []
    stores: list[perdure.Store] = []
    for name in histories.HISTORIES:
        history, clock = histories.history(name), FakeClock()
        stores.append(perdure.open("memory://", clock=clock))
        found.append((history_verbs.tell(stores[-1], history, clock), history))
    yield found
    for store in stores:
        store.close()


def means(told: Told, budget: int, every: int) -> evidence_shares.Shares:
    return evidence_shares.mean(
        evidence_shares.measure(session, history._replace(tasks=history.tasks[::every]), budget)
        for session, history in told
    )


def behind(means: evidence_shares.Shares) -> dict[str, dict[str, float]]:
    """The classes in which one of the others is not behind boot, with all figures."""
    return {
        of: {way: shares[of] for way, shares in means.items()}
        for of, ours in means["boot"].items()
        if not all(evidence_shares.is_ahead(ours, means[way][of]) for way in evidence_shares.WAYS[1:])
    }


@pytest.mark.parametrize("name", histories.HISTORIES)
def test_the_set_is_whole(name: str) -> None:
    history = histories.history(name)
    ids = [thing.id for thing in history.things if thing.id]
    assert len(set(ids)) == len(ids)
    needed = [*history.always.items(), *(each for task in history.tasks for each in task.needs.items())]
    assert {of for of, _ in needed} == set(histories.CLASSES)
    assert all(set(each) <= set(ids) for _, each in needed)
    assert len({task.text for task in history.tasks}) == len(history.tasks) >= 25
    assert sum(thing.kind in histories.TURNS for thing in history.things) >= 1_000
    assert histories.history(name) == history


@pytest.mark.parametrize("budget", evidence_shares.BUDGETS)
def test_boot_is_ahead_in_every_class_and_holds_all_rules(told: Told, budget: int) -> None:
    found = means(told, budget, every=2)
    assert behind(found) == {}
    assert found["boot"]["rules"] == 1.0


def test_control_without_answers_first_a_small_boot_falls_behind(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack, "ANSWERS", 0)
    found = means(told, 1_000, every=2)
    assert found["boot"]["decisions"] < 0.3
    assert behind(found)


def test_what_others_show_fits_the_budget_and_is_not_starved() -> None:
    history = histories.history("refunds")
    for budget in evidence_shares.BUDGETS:
        for text in (
            evidence_shares.within(history.things, budget),
            evidence_shares.within_last(history.things, budget),
        ):
            assert 0.9 * budget < evidence_shares.estimate(text) <= budget


def test_a_line_without_a_text_is_refused() -> None:
    with pytest.raises(Invalid, match="history"):
        histories.read("== s | project:p\nfiles a.py\nnames b\nx1 fact")

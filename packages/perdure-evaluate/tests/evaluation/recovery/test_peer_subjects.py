"""Frameworks at a short case each, in their own environments; skipped, with the way to get them, where they are not."""

from __future__ import annotations

import pytest

from evaluation.recovery.conftest import SEED
from perdure_evaluate import peers
from perdure_evaluate.recovery import plan, run
from perdure_evaluate.recovery.host import ShownCase
from perdure_evaluate.recovery.subjects import SUBJECTS, load

OF_PEERS = [name for name in SUBJECTS if load(name).peer]
WITH_ADAPTER = [name for name in OF_PEERS if name.endswith("-perdure")]
ADAPTED = {"langgraph", "openai-agents", "pydantic-ai", "google-adk", "strands", "agent-framework"}


def shown(name: str, rest: str) -> ShownCase:
    if why := peers.lacking(load(name).peer, "perdure evaluate --install-peers"):
        pytest.skip(why)
    found = run.show_one(plan.parse_case(f"{name}/{rest}", SEED), SEED, "")
    assert not found.broken, found.broken
    return found


def test_each_framework_is_there_stock_and_with_its_adapter() -> None:
    assert {load(name).peer for name in WITH_ADAPTER} == ADAPTED
    assert {load(name).peer for name in OF_PEERS if name not in WITH_ADAPTER} == ADAPTED | {"dbos"}


@pytest.mark.parametrize("name", OF_PEERS)
def test_undisturbed_it_does_all_of_its_work(name: str) -> None:
    found = shown(name, "support/none/-")
    assert found.score.failed == []
    assert found.score.effects == 3
    assert (found.score.audit_missing, found.score.audit_invented) == (0, 0)


@pytest.mark.parametrize("name", OF_PEERS)
def test_it_uses_the_keys_and_the_looks_that_the_other_side_offers(name: str) -> None:
    for effect in ("refund", "ticket"):
        assert shown(name, f"support/kill/{effect}:sent").score.duplicates == 0


@pytest.mark.parametrize("name", [name for name in OF_PEERS if name not in WITH_ADAPTER])
def test_a_mail_that_was_sent_and_not_recorded_is_sent_again(name: str) -> None:
    """The control of the one before: where nothing is offered, it is done twice, and nobody was asked."""
    found = shown(name, "support/kill/mail:sent")
    assert (found.score.duplicates, found.score.guessed, found.score.surfaced) == (1, 1, 0)


@pytest.mark.parametrize("name", WITH_ADAPTER)
def test_with_the_adapter_a_mail_that_was_sent_and_not_recorded_waits_for_a_person(name: str) -> None:
    found = shown(name, "support/kill/mail:sent")
    assert (found.score.duplicates, found.score.guessed, found.score.surfaced) == (0, 0, 1)
    assert (found.score.lost, found.score.acknowledged_lost, found.score.failed) == (0, 0, [])

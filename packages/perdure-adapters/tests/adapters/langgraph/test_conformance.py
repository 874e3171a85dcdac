"""LangGraph's own conformance suite on every kind of store: tests are counted, not the word that it prints.

The newest state of its repository has more tests than its release. To run those, fetch it and put its folder in front:
PYTHONPATH=$LANGGRAPH_SRC/libs/checkpoint-conformance python -m pytest …/adapters/langgraph/test_conformance.py
"""

from __future__ import annotations

import asyncio

import pytest

from installed import stores_here

pytest.importorskip("langgraph.checkpoint.conformance", reason="langgraph-checkpoint-conformance is not installed")

from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import Capability
from langgraph.checkpoint.memory import InMemorySaver

from perdure_adapters.langgraph import PerdureSaver

TESTS = {
    "put": 17, "put_writes": 10, "get_tuple": 10, "list": 16, "delete_thread": 5, "delete_for_runs": 7, "copy_thread": 8,
    "prune": 8,
}  # fmt: skip
if hasattr(Capability, "DELTA_CHANNEL_HISTORY"):
    TESTS["delta_channel_history"] = 8


def passed_by(make) -> tuple[dict[str, int], list[str]]:
    @checkpointer_test(name="saver")
    async def saver():
        made = make()
        try:
            yield made
        finally:
            getattr(made, "close", lambda: None)()

    report = asyncio.run(validate(saver))
    failures = [each for found in report.results.values() for each in found.failures or []]
    return {name: found.tests_passed for name, found in report.results.items() if found.detected}, failures


@pytest.fixture(params=stores_here("sqlite", "files", "postgres"))
def url(request, tmp_path):
    if request.param == "postgres":
        return request.getfixturevalue("postgres_store")
    return f"sqlite:///{tmp_path}/a.db" if request.param == "sqlite" else f"files:///{tmp_path}/store"


def test_every_test_of_the_suite_passes(url):
    passed, failures = passed_by(lambda: PerdureSaver.from_conn_string(url))
    assert failures == []
    assert passed == TESTS
    assert sum(passed.values()) in (81, 89)


def test_control_the_stock_saver_lacks_three_capabilities():
    passed, _ = passed_by(InMemorySaver)
    assert sum(passed.values()) == 58 + TESTS.get("delta_channel_history", 0)


def test_control_a_saver_that_forgets_writes_is_caught(tmp_path):
    class Forgetful(PerdureSaver):
        async def aput_writes(self, *args, **kwargs):
            return None

    _, failures = passed_by(lambda: Forgetful(f"sqlite:///{tmp_path}/a.db"))
    assert len(failures) > 5

"""The contract over HTTP: which of its tests run, and why the others cannot.

A test that fails after it asked for something that cannot be had over a network is excluded, by the reason that it was told. The
reasons are argued here, one by one; any other failure is a failure. Which tests these are stands in `excluded.txt`: a verb that
begins to refuse fails, and so does a test that is listed and passes. The summary counts what passed and what was excluded.
All of it runs with PERDURE_ROUNDS; PERDURE_LIST_EXCLUDED=1 with it writes the list anew.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import Error
from remote.contract_server import AsyncRemoteOpener, ContractServer, RemoteOpener

CONTRACT = "remote/test_contract.py"
HERE = Path(__file__).parent
LISTED = HERE / "excluded.txt"
LISTING = "PERDURE_LIST_EXCLUDED" in os.environ
# One colour of what clients do most, and of the async classes one: the transport is the same.
PART = (
    "TestTurnContract", "TestDecisionsContract", "TestHandlesContract", "TestEmittedContract", "TestAsyncTurnContract",
)  # fmt: skip


def is_in_part(nodeid: str) -> bool:
    return any(f"::{name}::" in nodeid for name in PART)


# The refusals of a store on a server, and why each is right.
EXCLUDED = {
    "runs are not driven, and tools not called": "a process drives runs where the store is open: its death must be provable",
    "several verbs in one commit": "a function cannot be sent; each route is one commit",
    "a claim over the network needs a time": "nobody can prove a death on another machine, so a claim ends by itself",
    "a lock, which is held by a process": "as a claim; and its fence stands in this process",
    "cannot be chosen for a server": "clock, guards, lease, embedding, artifacts and reading only are the server's own options",
    "checks are not taken over the network": "a check looks at files, from the server's place",
    "this token acts as": "the token says who acts; no client may say it is somebody else",
    "asking with SQL": "SQL is for those who run the store; routes have rights and bounds",
    "joining a transaction of yours": "as several verbs in one commit",
    "pruning": "retention is work of those who run the store",
    "collecting what nothing refers to": "as pruning",
    "an anchor": "as pruning",
    "a backup": "as pruning; it writes a file where the store lies",
    "recovering what the dead left": "as driving",
    "indexing": "as pruning; a search brings the index up to date by itself",
    "looking at checks": "as checks",
    "handing a run over": "the envelope carries a run from store to store, by those who run them",
    "a boot with a tokenizer": "a function cannot be sent, and checks look at files",
    "below the handles": "the test reaches into the open store itself: its lane, its engine, its blobs",
}  # fmt: skip

# Tests that nobody refuses anything, and that cannot pass all the same.
LIVES = "the server sends for its clients, and lives: a person settles with force (docs/guide/remote.md)"
MARKS = "the answers that are kept under keys are events of the feed too"
DIFFERENT = {
    "test_what_a_dead_one_was_sending_went_wrong_after_it_was_sent": LIVES,
    "test_a_person_can_settle_what_a_dead_one_left": LIVES,
    "test_after_a_restore_what_was_begun_is_doubt": "it puts the store back below the handles",
    "test_a_pack_holds_what_is_needed_to_continue": "a pack from a server is its text, and its messages are one",
    "PresenceContract": "the server attends sessions, and lives",
    "test_a_loop_goes_on_with_what_is_pending_whatever_key_its_turn_had": "a turn over a network has a key of its own",
    "pins.tools.grep": "the place of a wrong value in a mapping is named as the wire names it",
    "test_a_file_without_a_row_goes_when_it_is_old": "it stores content below the handles",
    "test_the_feed_has_every_event_once_in_order": MARKS,
    "test_a_subscription_keeps_its_place": MARKS,
    "test_several_consumers_each_have_a_batch": MARKS,
    "test_what_is_given_back_comes_again_with_a_count": MARKS,
    "test_a_subscription_may_start_at_the_end": MARKS,
    "test_one_batch_is_under_way_and_comes_again_after_its_lease": MARKS,
    "test_another_tenant_has_a_feed_of_its_own": MARKS,
    "test_a_record_is_about_whom_a_later_event_of_it_names": MARKS,
    "test_control_nothing_else_is_about_them": MARKS,
    "test_a_prefix_is_exact_text": "cursors are opaque, and carry the epoch: a name is none",
    "test_the_past_is_recalled_as_it_was": "the route for recalling has `at` for what held at an instant",
    "test_a_moment_that_has_not_come_is_refused": "the past of a past is the past of the session",
}  # fmt: skip


def _reason(says: str) -> str | None:
    for words in EXCLUDED:
        if words in says:
            return words
    return "below the handles" if "this cannot be done over the network" in says else None


def listed_name(nodeid: str) -> str:
    """A test as the list names it: without its colour."""
    return re.sub(r"^Test(Async)?", "", nodeid.partition("::")[2])


@cache
def listed() -> dict[str, str]:
    """The tests that are excluded, each with the reason that it is told."""
    lines = [line.split("\t") for line in LISTED.read_text().splitlines() if line]
    return {name: reason for reason, name in lines}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Exclude what is different by its nature. Without PERDURE_ROUNDS a part of the contract speaks for the rest."""
    ours = [item for item in items if item.path.is_relative_to(HERE)]  # the hook sees the items of all folders
    if "PERDURE_ROUNDS" not in os.environ:
        left_out = {item for item in ours if CONTRACT in item.nodeid and not is_in_part(item.nodeid)}
        config.hook.pytest_deselected(items=[*left_out])
        items[:] = [item for item in items if item not in left_out]
    for item in ours:
        for words, reason in DIFFERENT.items():
            if words in item.nodeid:
                item.add_marker(pytest.mark.skip(reason=f"over the network: {reason}"))


@pytest.fixture(scope="session")
def contract_server() -> Iterator[ContractServer]:
    server = ContractServer()
    yield server
    server.close()


@pytest.fixture
def opener(request: pytest.FixtureRequest, contract_server, tmp_path) -> RemoteOpener:
    """Opens a store over HTTP, in the colour of the test class."""
    is_async = request.cls is not None and request.cls.__name__.startswith("TestAsync")
    return (AsyncRemoteOpener if is_async else RemoteOpener)(contract_server, tmp_path)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[Any]:
    """Exclude a test that failed after it was told that something cannot be had over the network."""
    if "opener" not in pyfuncitem.fixturenames:
        return (yield)
    told: list[str] = []
    made = Error.__init__

    def note(self: Error, message: str, **facts: Any) -> None:
        made(self, message, **facts)
        reason = _reason(message)
        if reason is not None:
            told.append(reason)

    known = listed().get(listed_name(pyfuncitem.nodeid)) if CONTRACT in pyfuncitem.nodeid and not LISTING else None
    Error.__init__ = note  # type: ignore[method-assign]
    try:
        passed = yield
    except Exception as error:
        if not told or not (LISTING or known in told):
            raise
        raise pytest.skip.Exception(f"over the network: {known or told[0]}") from error
    finally:
        Error.__init__ = made  # type: ignore[method-assign]
    assert known is None, f"it passes over the network by now: take it out of {LISTED.name}"
    return passed


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How much of the contract passed over HTTP, and how much was excluded."""
    counts = {
        word: sum(CONTRACT in each.nodeid for each in terminalreporter.stats.get(word, ()) if hasattr(each, "nodeid"))
        for word in ("passed", "skipped", "failed")
    }
    if LISTING:
        _write_list(terminalreporter.stats.get("skipped", ()))
    if any(counts.values()):
        said = ", ".join(f"{count} {word}" for word, count in counts.items())
        terminalreporter.write_line(f"contract over HTTP: {said} (skipped: excluded by the reasons of tests/remote)")


def _write_list(skipped: Any) -> None:
    reasons = tuple(f"over the network: {words}" for words in EXCLUDED)
    found = {
        (each.longrepr[2].partition("over the network: ")[2], listed_name(each.nodeid))
        for each in skipped
        if CONTRACT in each.nodeid and each.longrepr[2].removeprefix("Skipped: ").startswith(reasons)
    }
    LISTED.write_text("".join(f"{reason}\t{name}\n" for reason, name in sorted(found)))

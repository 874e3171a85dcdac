"""Places: the same at every replay, whatever finishes first; none inside steps and tools."""

from __future__ import annotations

import asyncio

import pytest

from perdure.errors import Invalid, Refused
from perdure.runtime import current_branch
from perdure.runtime.current_branch import in_branch
from perdure.runtime.journal import Branch, BranchPoint, BranchSpan, is_below


def test_places_are_counted_in_their_branch():
    trunk = Branch()
    assert [trunk.next_place(0), trunk.next_place(0)] == ["0//1", "0//2"]
    first, second = trunk.child(), trunk.child()
    assert (first.path, second.path, first.child().path) == ("1", "2", "1.1")
    assert (second.next_place(0), trunk.next_place(0)) == ("0/2/1", "0//3")


def test_a_cut_begins_anew_also_in_branches_that_were_begun_before():
    trunk = Branch()
    named = trunk.named("a")
    assert (trunk.next_place(0), named.next_place(0)) == ("0//1", "0/.'a'/1")
    trunk.restart()
    assert (trunk.next_place(1), named.next_place(1), named.next_place(1)) == ("1//1", "1/.'a'/1", "1/.'a'/2")
    assert trunk.named("a").next_place(1) == "1/.'a'/1"  # the name is free again


def test_a_branch_of_a_resumed_run_keeps_its_children():
    """The control for the restart: counting begins once, not when the first place comes after the first child."""
    trunk = Branch()
    assert [trunk.child().path, trunk.child().path] == ["1", "2"]
    assert trunk.next_place(3) == "3//1"
    assert trunk.child().path == "3"


def test_a_name_is_taken_once():
    trunk = Branch()
    trunk.named("a")
    with pytest.raises(Refused):
        trunk.named("a")
    with pytest.raises(Invalid):
        trunk.named("")


@pytest.mark.parametrize(
    ("place", "path", "below"),
    [
        ("0//1", "", True), ("0/1/1", "", True), ("0/1.2/1", "1", True), ("0/1/7", "1", True), ("0/11/1", "1", False),
        ("0//1", "1", False), ("0/.'a/b'/1", ".'a/b'", True), ("0/2/1", "1", False),
    ],
)  # fmt: skip
def test_what_is_below_a_branch(place, path, below):
    assert is_below(place, path) is below


def test_a_run_is_not_used_inside_its_steps():
    trunk = Branch()
    current_branch.refuse_inside()  # in a thread of one's own nothing is known, and nothing refused
    with in_branch(trunk):
        current_branch.refuse_inside()
        assert current_branch.current(trunk) is trunk
        with pytest.raises(Refused):
            current_branch.current(Branch())
        with in_branch(None), pytest.raises(Refused):
            current_branch.refuse_inside()
        with in_branch(None), pytest.raises(Refused):
            current_branch.current(trunk)


def test_tasks_are_numbered_in_the_order_of_their_creation():
    trunk = Branch()

    async def where() -> str:
        await asyncio.sleep(0)
        return current_branch.current(trunk).path

    async def nested() -> list[str]:
        return await asyncio.gather(where(), where())

    async def main() -> None:
        current_branch.number_branches(asyncio.get_running_loop())
        current_branch.number_branches(asyncio.get_running_loop())  # again does nothing
        with in_branch(trunk):
            assert await asyncio.gather(nested(), where(), nested()) == [["1.1", "1.2"], "2", ["3.1", "3.2"]]
            with in_branch(None):
                await asyncio.gather(asyncio.sleep(0))  # what a step starts does not count
            assert await asyncio.gather(where()) == ["4"]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("place", "held"),
    [
        ("0/1/2", False), ("0/1/3", True), ("0/1/4", True), ("0/1/5", False), ("0/1.1/9", False), ("0/1.2/1", True),
        ("0/1.2.7/1", True), ("0/1.3/1", False), ("0/1.'a'/1", False), ("0/1.'b.c'/1", True), ("0/1.'b.c'.1/1", True),
        ("0/1.'d'/1", False), ("0//4", False), ("0/2/4", False), ("0/11/4", False),
    ],
)  # fmt: skip
def test_a_span_holds_what_was_done_and_begun_between_two_points(place, held):
    branch = Branch().child()
    branch.next_place(0), branch.next_place(0), branch.child(), branch.named("a")
    since = branch.mark(0)
    branch.next_place(0), branch.next_place(0), branch.child(), branch.named("b.c")
    assert BranchSpan(since, branch.mark(0)).holds(place) is held


def test_only_a_name_can_be_gone_on_with_after_a_span():
    span = BranchSpan(BranchPoint("1"), BranchPoint("1", 9, 9))
    assert [span.ends(place) for place in ("0/1/3", "0/1.2/3", "0/1.'a'/3", "0/1.2.'a'/3")] == [True, True, False, True]


def test_a_mark_after_a_cut_counts_from_the_beginning():
    branch = Branch().named("a")
    branch.next_place(0), branch.child()
    assert branch.mark(1) == BranchPoint(".'a'")


def test_a_task_is_finished_when_it_ends_by_itself():
    trunk = Branch()

    async def main() -> None:
        current_branch.number_branches(asyncio.get_running_loop())
        with in_branch(trunk):
            done, stopped = asyncio.create_task(asyncio.sleep(0)), asyncio.create_task(asyncio.sleep(60))
            assert trunk.unfinished == {"1", "2"}
            await done
            stopped.cancel()
            await asyncio.wait([stopped])
        assert trunk.unfinished == {"2"}

    asyncio.run(main())

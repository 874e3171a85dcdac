"""The contract of tasks: states, needs, what is ready, and asking across sessions. Claims: see `claims`."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from perdure.errors import Conflict, Invalid, KeyReused, NotFound, TooLarge
from perdure.handles.aio.session import AsyncSession
from perdure.handles.aio.tasks import AsyncTask
from perdure.handles.atomic import Atomic
from perdure.model.records.tasks import TaskStatus
from perdure_testing.openers import AsyncOpener
from perdure_testing.races import AsyncRace

UNFINISHED = ["todo", "doing", "blocked"]
ALLOWED = {
    "claim": ["todo"],
    "done": UNFINISHED,
    "fail": UNFINISHED,
    "cancel": UNFINISHED,
    "block": ["todo", "doing"],
    "unblock": ["blocked"],
    "release": ["doing"],
    "reopen": ["failed", "cancelled"],
}
TARGET = {
    "claim": "doing",
    "done": "done",
    "fail": "failed",
    "cancel": "cancelled",
    "block": "blocked",
    "unblock": "todo",
    "release": "todo",
    "reopen": "todo",
}


async def task_in(session: AsyncSession, status: str) -> AsyncTask:
    """A task in this state; one that is doing is held by its handle."""
    task = await session.task(f"a {status} one")
    match status:
        case "doing":
            await task.claim()
        case "blocked":
            await task.block("because")
        case "done":
            await task.done()
        case "failed":
            await task.fail()
        case "cancelled":
            await task.cancel()
        case _:
            pass
    return task


async def move(task: AsyncTask, verb: str) -> AsyncTask:
    """Call a verb by its name."""
    return await (task.block("because") if verb == "block" else getattr(task, verb)())


class AsyncWorkContract:
    """The duties of every store with tasks."""

    async def test_a_task_comes_back_as_it_was_written(self, opener: AsyncOpener) -> None:
        async with await opener(actor="alice") as store:
            session = await store.session("s")
            first = await session.task("Find the cause")
            task = await session.task(
                "Write the test",
                needs=[first],
                parent=first,
                priority=3,
                labels=["b", "a", "a"],
                detail={"x": (1, b"2")},
            )
            (listed, _) = await session.tasks()
            for handle in (task, listed, await listed.refresh()):
                assert (handle.title, handle.status, handle.priority) == ("Write the test", "todo", 3)
                assert (handle.needs, handle.parent, handle.labels) == ((first.id,), first.id, ("a", "b"))
                assert (handle.detail, handle.note, handle.actor) == ({"x": (1, b"2")}, None, "alice")
                assert (handle.session, handle.ref.seq, handle.abandoned) == ("s", handle.id, False)
            assert task.record == listed.record

    # -- states ----------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("status", [status.value for status in TaskStatus])
    async def test_every_arrow_of_the_drawing_and_no_other(self, opener: AsyncOpener, status: str) -> None:
        async with await opener() as store:
            for verb in ALLOWED:
                await self.check_arrow(await store.session(f"{verb} from {status}"), verb, status)

    async def check_arrow(self, session: AsyncSession, verb: str, status: str) -> None:
        """Follow one arrow from one state; the session, and so every failure, is named after both."""
        task, here = await task_in(session, status), session.name
        if status in ALLOWED[verb]:
            await move(task, verb)
            assert task.status == TARGET[verb], here
        elif status == TARGET[verb] and verb != "claim":
            before = await session.tasks()
            await move(task, verb)  # there already: nothing happens
            assert [task.record for task in await session.tasks()] == [row.record for row in before], here
        else:
            await self.check_refused(task, verb, here)
            assert (await task.refresh()).status == status, here

    async def check_refused(self, task: AsyncTask, verb: str, here: str) -> None:
        """Follow an arrow that does not begin here."""
        refused = ""
        try:
            await move(task, verb)
        except Conflict as error:
            refused = error.path
        assert refused == "task", here

    async def test_notes_stay_with_the_task(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            task = await session.task("t")
            assert (await task.block("waiting for CI")).note == "waiting for CI"
            assert (await task.unblock()).note == "waiting for CI"
            assert (await task.done("all green")).note == "all green"
            assert (await task.refresh()).note == "all green"
            assert (await task.done("all green")).status == "done"
            with pytest.raises(Conflict):
                await task.done("another note")

    # -- keys ------------------------------------------------------------------------------------------------

    async def test_the_same_key_is_the_same_task(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            first = await session.task("build", key="t1", labels=["b", "a"], detail={"n": 1})
            other = await session.task("test", needs=[first], key="t2")
            await first.done("green")
            again = await session.task("build", key="t1", labels=["a", "b"], detail={"n": 1})
            assert (again.id, again.key, again.status, again.note) == (first.id, "t1", "done", "green")
            assert again.record == (await session.tasks())[1].record
            await other.unneed(first)
            assert (await session.task("test", needs=[first], key="t2")).needs == ()  # as it is by now
            assert len(await session.tasks()) == 2
            assert [task.key for task in await store.tasks()] == ["t2", "t1"]

    async def test_the_same_key_for_another_task_is_refused(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            first = await session.task("build", key="t1", detail=1)
            for title, detail in (("ship", 1), ("build", 2), ("build", True)):
                with pytest.raises(KeyReused) as refused:
                    await session.task(title, key="t1", detail=detail)
                assert (refused.value.path, refused.value.facts["seq"]) == ("key", first.id)
            with pytest.raises(KeyReused):
                await session.task("build", key="t1", detail=1, priority=1)
            with pytest.raises(Invalid) as refused_name:
                await session.task("build", key="")
            assert refused_name.value.path == "key"
            assert len(await session.tasks()) == 1
            await (await store.session("other")).task("ship", key="t1")  # a key is of its session

    async def test_a_key_goes_along_into_a_fork(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            first = await session.task("build", key="t1")
            fork = await session.fork(name="f")
            assert (await fork.task("build", key="t1")).id == first.id
            await fork.task("later", key="t2")
            await session.task("something else", key="t2")
            assert (await store.verify()).ok

    async def test_many_with_one_key_make_one_task(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")

            def twice(tx: Atomic) -> list[int]:
                return [tx.session("s").task("build", key="t1").id for _ in range(2)]

            assert len({*await store.atomic(twice), (await session.task("build", key="t1")).id}) == 1

    # -- what is ready ---------------------------------------------------------------------------------------

    async def test_ready_under_a_label_follows_the_tasks(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            low = await session.task("low", labels=["hot", "x"])
            high = await session.task("high", labels=["hot"], priority=3)
            await session.task("other", priority=9)
            assert [task.id for task in await session.ready(label="hot")] == [high.id, low.id]
            assert [task.id for task in await session.ready(label="hot", limit=1)] == [high.id]
            await high.fail()
            assert [task.id for task in await session.ready(label="hot")] == [low.id]
            await high.reopen()
            await low.claim(ttl="10s")
            assert [task.id for task in await session.ready(label="hot")] == [high.id]
            opener.clock.advance("10s")
            assert [task.id for task in await session.ready(label="hot")] == [high.id, low.id]
            fork = await session.fork(name="f")
            assert [task.id for task in await fork.ready(label="hot")] == [high.id, low.id]
            assert [task.id for task in await session.tasks(label="hot")] == [high.id, low.id]
            assert (await store.verify()).ok

    async def test_ready_is_by_priority_then_by_age(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            low = await session.task("low", priority=-1)
            first, second = await session.task("first"), await session.task("second")
            high = await session.task("high", priority=9, labels=["hot"])
            waits = await session.task("waits", priority=99, needs=[low, first])
            blocked = await session.task("blocked", priority=99)
            await blocked.block("x")
            assert [task.id for task in await session.ready()] == [high.id, first.id, second.id, low.id]
            assert [task.id for task in await session.ready(limit=2)] == [high.id, first.id]
            assert [task.id for task in await session.ready(label="hot")] == [high.id]
            claimed = await session.claim_next(ttl="10s")
            assert claimed is not None
            assert claimed.id == high.id
            opener.clock.advance("10s")
            assert (await session.ready(limit=1))[0].id == high.id
            await low.done()
            with pytest.raises(Conflict) as refused:
                await waits.claim()
            assert (refused.value.path, refused.value.facts["needs"]) == ("needs", [first.id])
            await first.done()
            assert (await session.ready(limit=1))[0].id == waits.id
            assert (await waits.claim()).status == "doing"

    async def test_nothing_ready_is_nothing_to_claim(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            assert await session.ready() == []
            assert await session.claim_next() is None

    async def test_what_needs_a_failed_task_is_stuck_until_somebody_decides(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            root = await session.task("root")
            after = await session.task("after", needs=[root])
            await session.task("far", needs=[after])
            await root.fail("no way")
            assert await session.ready() == []
            assert [task.id for task in await session.tasks(stuck=True)] == [after.id]
            assert [task.id for task in await store.tasks(stuck=True)] == [after.id]
            await root.reopen()
            assert await session.tasks(stuck=True) == []
            await root.cancel()
            assert [task.id for task in await session.tasks(stuck=True)] == [after.id]
            await after.unneed(root)
            assert [task.id for task in await session.ready()] == [after.id]

    # -- editing ---------------------------------------------------------------------------------------------

    async def test_a_task_is_edited_and_dated(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            task = await session.task("writ it", key="k", labels=["a"], detail={"n": 1})
            assert (task.changed_at, task.closed_at) == (task.at, None)
            opener.clock.advance("1m")
            await task.edit(title="write it", priority=3, labels=["b"], detail={"n": 2})
            assert task.record == (await session.tasks())[0].record
            assert (task.title, task.priority, task.labels, task.detail) == ("write it", 3, ("b",), {"n": 2})
            assert task.changed_at == task.at + timedelta(minutes=1)
            before = (await session.info()).last_seq
            await task.edit(title="write it")
            assert (await session.info()).last_seq == before
            assert [task.id for task in await session.tasks(label="b")] == [task.id]
            assert await session.tasks(label="a") == []
            again = await session.task("writ it", key="k", labels=["a"], detail={"n": 1})  # as at first: a repetition
            assert (again.id, again.title) == (task.id, "write it")
            with pytest.raises(KeyReused):
                await session.task("write it", key="k", labels=["b"], detail={"n": 2}, priority=3)
            opener.clock.advance("1m")
            await task.done()
            assert task.closed_at == task.changed_at == task.at + timedelta(minutes=2)
            assert (await session.tasks())[0].closed_at == task.closed_at
            other = await session.task("another")
            await other.cancel()
            await other.reopen()
            assert (await other.refresh()).closed_at is None
            with pytest.raises(Invalid) as wrong:
                await other.edit(title="")
            assert wrong.value.path == "title"
            assert (await store.verify()).ok

    async def test_a_claimed_task_is_edited_by_who_holds_it(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            task = await session.task("t")
            await (await session.tasks())[0].claim()
            with pytest.raises(Conflict):
                await task.edit(title="mine")

    # -- cycles ----------------------------------------------------------------------------------------------

    async def test_needs_never_close_a_cycle(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            a = await session.task("a")
            b = await session.task("b", needs=[a])
            c = await session.task("c", needs=[b])
            with pytest.raises(Invalid) as refused:
                await a.need(c)
            assert refused.value.path == "needs"
            assert refused.value.facts["cycle"] == [a.id, c.id, b.id, a.id]
            assert f"{a.id} → {c.id} → {b.id} → {a.id}" in str(refused.value)
            with pytest.raises(Invalid):
                await a.need(a)
            assert (await a.refresh()).needs == ()
            assert (await c.need(a)).needs == (a.id, b.id)
            assert (await c.need(a.id)).needs == (a.id, b.id)

    async def test_parents_never_close_a_cycle(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            a = await session.task("a")
            b = await session.task("b", parent=a)
            c = await session.task("c", parent=b.id)
            with pytest.raises(Invalid) as refused:
                await a.put_under(c)
            assert (refused.value.path, refused.value.facts["cycle"]) == ("parent", [a.id, c.id, b.id, a.id])
            assert (await c.put_under(a)).parent == a.id
            assert [task.id for task in await session.tasks(parent=a)] == [c.id, b.id]
            assert (await c.put_under(None)).parent is None

    async def test_two_needs_at_once_do_not_close_a_cycle(self, opener: AsyncOpener) -> None:
        async with await opener() as x, await opener() if opener.shared else x as y:
            one, other = await x.session("s"), await y.session("s")
            for _ in range(6):
                a, b = await one.task("a"), await one.task("b")
                (theirs,) = await other.tasks(limit=1)
                outcomes = await AsyncRace.between(partial(a.need, b.id), partial(theirs.need, a.id))
                assert len(outcomes.won) == 1
                assert type(outcomes.refused[0]) is Invalid

    async def test_a_task_of_another_session_is_no_need(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            here, there = await store.session("here"), await store.session("there")
            await here.task("t")
            other = await there.task("other")
            for options, path in (({"needs": [other]}, "needs[0]"), ({"parent": other}, "parent")):
                with pytest.raises(Invalid) as refused:
                    await here.task("t", **options)  # type: ignore[arg-type]
                assert refused.value.path == path

    # -- asking ----------------------------------------------------------------------------------------------

    async def test_lists_go_on_where_they_ended(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            ids = [(await session.task(f"t{i}", labels=["even"] if i % 2 == 0 else [])).id for i in range(7)]
            for listing in (session.tasks, store.tasks):
                listed, after = [], None
                while True:
                    page = await listing(limit=3, after=after)
                    listed += [task.id for task in page]
                    if page.next is None:
                        break
                    after = page.next
                assert listed == ids[::-1]
                assert [task.id for task in await listing(label="even")] == ids[::-2]

    async def test_asking_across_sessions(self, opener: AsyncOpener) -> None:
        async with await opener(actor="alice") as store:
            bob = store.as_("bob")
            old = await (await store.session("a")).task("old", labels=["x"])
            opener.clock.advance("2d")
            new = await (await bob.session("b")).task("new", labels=["x", "y"])
            await new.claim()
            for options, expected in (
                ({}, [new, old]),
                ({"status": "doing"}, [new]),
                ({"status": TaskStatus.TODO}, [old]),
                ({"actor": "bob"}, [new]),
                ({"label": "x"}, [new, old]),
                ({"label": "y", "status": "todo"}, []),
                ({"since": "1d"}, [new]),
                ({"until": "1d"}, [old]),
                ({"since": old.at, "until": new.at}, [old]),
            ):
                listed = await store.tasks(**options)  # type: ignore[arg-type]
                assert [task.record for task in listed] == [task.record for task in expected]
            assert [task.session for task in await store.tasks()] == ["b", "a"]
            (listed,) = await store.tasks(status="todo")
            assert (await listed.done()).status == "done"

    async def test_another_tenant_sees_nothing(self, opener: AsyncOpener) -> None:
        if not opener.shared:
            pytest.skip("a memory store has no second open")
        async with await opener(tenant="one") as a, await opener(tenant="other") as b:
            await (await a.session("s")).task("secret", labels=["x"])
            assert await b.tasks() == []
            assert await b.tasks(label="x") == []
            assert await (await b.session("s")).tasks() == []

    # -- refusals --------------------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("title", "options", "error", "path"),
        [
            ("", {}, Invalid, "title"),
            ("t\0", {}, Invalid, "title"),
            ("t" * 201, {}, TooLarge, "title"),
            ("t", {"priority": "high"}, Invalid, "priority"),
            ("t", {"priority": True}, Invalid, "priority"),
            ("t", {"priority": 2**40}, Invalid, "priority"),
            ("t", {"needs": [99]}, NotFound, "needs[0]"),
            ("t", {"needs": [1, "two"]}, Invalid, "needs[1]"),
            ("t", {"needs": 3}, Invalid, "needs"),
            ("t", {"needs": [2**70]}, NotFound, "needs[0]"),
            ("t", {"parent": 99}, NotFound, "parent"),
            ("t", {"parent": -1}, NotFound, "parent"),
            ("t", {"labels": "abc"}, Invalid, "labels"),
            ("t", {"labels": ["ok", ""]}, Invalid, "labels[1]"),
            ("t", {"labels": [f"l{i}" for i in range(65)]}, TooLarge, "labels"),
            ("t", {"detail": {"a": {1, 2}}}, Invalid, "detail.a"),
        ],
    )
    async def test_bad_input_is_refused_with_its_path(
        self, opener: AsyncOpener, title: str, options: dict[str, Any], error: type[Invalid], path: str
    ) -> None:
        async with await opener() as store:
            session = await store.session("s")
            if path == "needs[1]":
                options = {"needs": [await session.task("first"), "two"]}
            count = len(await session.tasks())
            with pytest.raises(error) as refused:
                await session.task(title, **options)
            assert (type(refused.value), refused.value.path) == (error, path)
            assert len(await session.tasks()) == count

    async def test_bad_questions_are_refused_with_their_path(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            task = await session.task("t")
            seven: Any = 7
            for asking, path in (
                (partial(session.tasks, status="finished"), "status"),  # type: ignore[arg-type]
                (partial(store.tasks, status=seven), "status"),
                (partial(session.tasks, limit=0), "limit"),
                (partial(session.ready, limit=-1), "limit"),
                (partial(session.tasks, after="nonsense"), "after"),
                (partial(store.tasks, after="nonsense"), "after"),
                (partial(store.tasks, since="yesterday"), "since"),
                (partial(store.tasks, until=2**70), "until"),
                (partial(store.tasks, label=""), "label"),
                (partial(task.claim, ttl="soon"), "ttl"),
                (partial(task.block, seven), "note"),
            ):
                with pytest.raises(Invalid) as refused:
                    await asking()
                assert refused.value.path == path
            assert (await task.refresh()).status == "todo"

    @pytest.mark.parametrize("title", ["../../x", "'; DROP TABLE tasks; --", "<b>&amp;", "100% {x} %s", "задача ✓"])
    async def test_hostile_titles_are_only_titles(self, opener: AsyncOpener, title: str) -> None:
        async with await opener() as store:
            session = await store.session("s")
            await session.task(title, labels=[title], detail=title)
            (task,) = await session.tasks(label=title)
            assert (task.title, task.detail, task.labels) == (title, title, (title,))

    # -- in one commit with others ---------------------------------------------------------------------------

    async def test_atomic_sees_its_own_tasks(self, opener: AsyncOpener) -> None:
        def plan(tx: Any) -> list[int]:
            session = tx.session("s")
            first = session.task("first", labels=["x"])
            second = session.task("second", needs=[first])
            first.claim()
            first.done("quick")
            assert [task.id for task in session.ready()] == [second.id]
            return [task.id for task in session.tasks(label="x")]

        async with await opener() as store:
            (first,) = await store.atomic(plan)
            session = await store.session("s")
            assert [(task.id, task.status) for task in await session.tasks(status="done")] == [(first, "done")]

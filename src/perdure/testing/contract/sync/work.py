# Generated from testing/contract/aio/work.py by tools/unasync.py: edit that one.
"""The contract of tasks: states, needs, what is ready, and asking across sessions. Claims: see `claims`."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from perdure.errors import Conflict, Invalid, KeyReused, NotFound, TooLarge
from perdure.handles.atomic import Atomic
from perdure.handles.sync.session import Session
from perdure.handles.sync.work import Task
from perdure.model.records.work import TaskStatus
from perdure.testing.openers import Opener
from perdure.testing.races import Race

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


def task_in(session: Session, status: str) -> Task:
    """A task in this state; one that is doing is held by its handle."""
    task = session.task(f"a {status} one")
    match status:
        case "doing":
            task.claim()
        case "blocked":
            task.block("because")
        case "done":
            task.done()
        case "failed":
            task.fail()
        case "cancelled":
            task.cancel()
        case _:
            pass
    return task


def move(task: Task, verb: str) -> Task:
    """Call a verb by its name."""
    return task.block("because") if verb == "block" else getattr(task, verb)()


class WorkContract:
    """What every store must do with tasks."""

    def test_a_task_comes_back_as_it_was_written(self, opener: Opener) -> None:
        with opener(actor="alice") as store:
            session = store.session("s")
            first = session.task("Find the cause")
            task = session.task(
                "Write the test",
                needs=[first],
                parent=first,
                priority=3,
                labels=["b", "a", "a"],
                detail={"x": (1, b"2")},
            )
            (found, _) = session.tasks()
            for known in (task, found, found.refresh()):
                assert (known.title, known.status, known.priority) == ("Write the test", "todo", 3)
                assert (known.needs, known.parent, known.labels) == ((first.id,), first.id, ("a", "b"))
                assert (known.detail, known.note, known.actor) == ({"x": (1, b"2")}, None, "alice")
                assert (known.session, known.ref.seq, known.abandoned) == ("s", known.id, False)
            assert task.record == found.record

    # -- states ----------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("status", [status.value for status in TaskStatus])
    def test_every_arrow_of_the_drawing_and_no_other(self, opener: Opener, status: str) -> None:
        with opener() as store:
            for verb in ALLOWED:
                self.check_arrow(store.session(f"{verb} from {status}"), verb, status)

    def check_arrow(self, session: Session, verb: str, status: str) -> None:
        """Follow one arrow from one state; the session, and so every failure, is named after both."""
        task, here = task_in(session, status), session.name
        if status in ALLOWED[verb]:
            move(task, verb)
            assert task.status == TARGET[verb], here
        elif status == TARGET[verb] and verb != "claim":
            before = session.tasks()
            move(task, verb)  # there already: nothing happens
            assert [each.record for each in session.tasks()] == [each.record for each in before], here
        else:
            self.check_refused(task, verb, here)
            assert (task.refresh()).status == status, here

    def check_refused(self, task: Task, verb: str, here: str) -> None:
        """Follow an arrow that does not begin here."""
        refused = ""
        try:
            move(task, verb)
        except Conflict as error:
            refused = error.path
        assert refused == "task", here

    def test_notes_stay_with_the_task(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            task = session.task("t")
            assert (task.block("waiting for CI")).note == "waiting for CI"
            assert (task.unblock()).note == "waiting for CI"
            assert (task.done("all green")).note == "all green"
            assert (task.refresh()).note == "all green"
            assert (task.done("all green")).status == "done"
            with pytest.raises(Conflict):
                task.done("another note")

    # -- keys ------------------------------------------------------------------------------------------------

    def test_the_same_key_is_the_same_task(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            first = session.task("build", key="t1", labels=["b", "a"], detail={"n": 1})
            other = session.task("test", needs=[first], key="t2")
            first.done("green")
            again = session.task("build", key="t1", labels=["a", "b"], detail={"n": 1})
            assert (again.id, again.key, again.status, again.note) == (first.id, "t1", "done", "green")
            assert again.record == (session.tasks())[1].record
            other.unneed(first)
            assert (session.task("test", needs=[first], key="t2")).needs == ()  # as it is by now
            assert len(session.tasks()) == 2
            assert [task.key for task in store.tasks()] == ["t2", "t1"]

    def test_the_same_key_for_another_task_is_refused(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            first = session.task("build", key="t1", detail=1)
            for title, detail in (("ship", 1), ("build", 2), ("build", True)):
                with pytest.raises(KeyReused) as refused:
                    session.task(title, key="t1", detail=detail)
                assert (refused.value.path, refused.value.facts["seq"]) == ("key", first.id)
            with pytest.raises(KeyReused):
                session.task("build", key="t1", detail=1, priority=1)
            with pytest.raises(Invalid) as refused_name:
                session.task("build", key="")
            assert refused_name.value.path == "key"
            assert len(session.tasks()) == 1
            (store.session("other")).task("ship", key="t1")  # a key is of its session

    def test_a_key_goes_along_into_a_fork(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            first = session.task("build", key="t1")
            fork = session.fork(name="f")
            assert (fork.task("build", key="t1")).id == first.id
            fork.task("later", key="t2")
            session.task("something else", key="t2")
            assert (store.verify()).ok

    def test_many_with_one_key_make_one_task(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")

            def twice(tx: Atomic) -> list[int]:
                return [tx.session("s").task("build", key="t1").id for _ in range(2)]

            assert len({*store.atomic(twice), (session.task("build", key="t1")).id}) == 1

    # -- what is ready ---------------------------------------------------------------------------------------

    def test_ready_under_a_label_follows_the_tasks(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            low = session.task("low", labels=["hot", "x"])
            high = session.task("high", labels=["hot"], priority=3)
            session.task("other", priority=9)
            assert [task.id for task in session.ready(label="hot")] == [high.id, low.id]
            assert [task.id for task in session.ready(label="hot", limit=1)] == [high.id]
            high.fail()
            assert [task.id for task in session.ready(label="hot")] == [low.id]
            high.reopen()
            low.claim(ttl="10s")
            assert [task.id for task in session.ready(label="hot")] == [high.id]
            opener.clock.advance("10s")
            assert [task.id for task in session.ready(label="hot")] == [high.id, low.id]
            fork = session.fork(name="f")
            assert [task.id for task in fork.ready(label="hot")] == [high.id, low.id]
            assert [task.id for task in session.tasks(label="hot")] == [high.id, low.id]
            assert (store.verify()).ok

    def test_ready_is_by_priority_then_by_age(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            low = session.task("low", priority=-1)
            first, second = session.task("first"), session.task("second")
            high = session.task("high", priority=9, labels=["hot"])
            waits = session.task("waits", priority=99, needs=[low, first])
            gone = session.task("blocked", priority=99)
            gone.block("x")
            assert [task.id for task in session.ready()] == [high.id, first.id, second.id, low.id]
            assert [task.id for task in session.ready(limit=2)] == [high.id, first.id]
            assert [task.id for task in session.ready(label="hot")] == [high.id]
            claimed = session.claim_next(ttl="10s")
            assert claimed is not None
            assert claimed.id == high.id
            opener.clock.advance("10s")
            assert (session.ready(limit=1))[0].id == high.id
            low.done()
            with pytest.raises(Conflict) as refused:
                waits.claim()
            assert (refused.value.path, refused.value.facts["needs"]) == ("needs", [first.id])
            first.done()
            assert (session.ready(limit=1))[0].id == waits.id
            assert (waits.claim()).status == "doing"

    def test_nothing_ready_is_nothing_to_claim(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            assert session.ready() == []
            assert session.claim_next() is None

    def test_what_needs_a_failed_task_is_stuck_until_somebody_decides(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            root = session.task("root")
            after = session.task("after", needs=[root])
            session.task("far", needs=[after])
            root.fail("no way")
            assert session.ready() == []
            assert [task.id for task in session.tasks(stuck=True)] == [after.id]
            assert [task.id for task in store.tasks(stuck=True)] == [after.id]
            root.reopen()
            assert session.tasks(stuck=True) == []
            root.cancel()
            assert [task.id for task in session.tasks(stuck=True)] == [after.id]
            after.unneed(root)
            assert [task.id for task in session.ready()] == [after.id]

    # -- cycles ----------------------------------------------------------------------------------------------

    def test_needs_never_close_a_cycle(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            a = session.task("a")
            b = session.task("b", needs=[a])
            c = session.task("c", needs=[b])
            with pytest.raises(Invalid) as refused:
                a.need(c)
            assert refused.value.path == "needs"
            assert refused.value.facts["cycle"] == [a.id, c.id, b.id, a.id]
            assert f"{a.id} → {c.id} → {b.id} → {a.id}" in str(refused.value)
            with pytest.raises(Invalid):
                a.need(a)
            assert (a.refresh()).needs == ()
            assert (c.need(a)).needs == (a.id, b.id)
            assert (c.need(a.id)).needs == (a.id, b.id)

    def test_parents_never_close_a_cycle(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            a = session.task("a")
            b = session.task("b", parent=a)
            c = session.task("c", parent=b.id)
            with pytest.raises(Invalid) as refused:
                a.put_under(c)
            assert (refused.value.path, refused.value.facts["cycle"]) == ("parent", [a.id, c.id, b.id, a.id])
            assert (c.put_under(a)).parent == a.id
            assert [task.id for task in session.tasks(parent=a)] == [c.id, b.id]
            assert (c.put_under(None)).parent is None

    def test_two_needs_at_once_do_not_close_a_cycle(self, opener: Opener) -> None:
        with opener() as x, opener() if opener.shared else x as y:
            one, other = x.session("s"), y.session("s")
            for _ in range(6):
                a, b = one.task("a"), one.task("b")
                (seen,) = other.tasks(limit=1)
                outcomes = Race.between(partial(a.need, b.id), partial(seen.need, a.id))
                assert len(outcomes.won) == 1
                assert type(outcomes.refused[0]) is Invalid

    def test_a_task_of_another_session_is_no_need(self, opener: Opener) -> None:
        with opener() as store:
            here, there = store.session("here"), store.session("there")
            here.task("t")
            other = there.task("other")
            for options, path in (({"needs": [other]}, "needs[0]"), ({"parent": other}, "parent")):
                with pytest.raises(Invalid) as refused:
                    here.task("t", **options)  # type: ignore[arg-type]
                assert refused.value.path == path

    # -- asking ----------------------------------------------------------------------------------------------

    def test_lists_go_on_where_they_ended(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            ids = [(session.task(f"t{i}", labels=["even"] if i % 2 == 0 else [])).id for i in range(7)]
            for listing in (session.tasks, store.tasks):
                seen, after = [], None
                while True:
                    page = listing(limit=3, after=after)
                    seen += [task.id for task in page]
                    if page.next is None:
                        break
                    after = page.next
                assert seen == ids[::-1]
                assert [task.id for task in listing(label="even")] == ids[::-2]

    def test_asking_across_sessions(self, opener: Opener) -> None:
        with opener(actor="alice") as store:
            bob = store.as_("bob")
            old = (store.session("a")).task("old", labels=["x"])
            opener.clock.advance("2d")
            new = (bob.session("b")).task("new", labels=["x", "y"])
            new.claim()
            for options, wanted in (
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
                found = store.tasks(**options)  # type: ignore[arg-type]
                assert [task.record for task in found] == [task.record for task in wanted]
            assert [task.session for task in store.tasks()] == ["b", "a"]
            (found,) = store.tasks(status="todo")
            assert (found.done()).status == "done"

    def test_another_tenant_sees_nothing(self, opener: Opener) -> None:
        if not opener.shared:
            pytest.skip("a memory store has no second open")
        with opener(tenant="one") as a, opener(tenant="other") as b:
            (a.session("s")).task("secret", labels=["x"])
            assert b.tasks() == []
            assert b.tasks(label="x") == []
            assert (b.session("s")).tasks() == []

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
    def test_bad_input_is_refused_with_its_path(
        self, opener: Opener, title: str, options: dict[str, Any], error: type[Invalid], path: str
    ) -> None:
        with opener() as store:
            session = store.session("s")
            if path == "needs[1]":
                options = {"needs": [session.task("first"), "two"]}
            count = len(session.tasks())
            with pytest.raises(error) as refused:
                session.task(title, **options)
            assert (type(refused.value), refused.value.path) == (error, path)
            assert len(session.tasks()) == count

    def test_bad_questions_are_refused_with_their_path(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            task = session.task("t")
            seven: Any = 7
            for asking, path in (
                (partial(session.tasks, status="finished"), "status"),
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
                    asking()
                assert refused.value.path == path
            assert (task.refresh()).status == "todo"

    @pytest.mark.parametrize("title", ["../../x", "'; DROP TABLE tasks; --", "<b>&amp;", "100% {x} %s", "задача ✓"])
    def test_hostile_titles_are_only_titles(self, opener: Opener, title: str) -> None:
        with opener() as store:
            session = store.session("s")
            session.task(title, labels=[title], detail=title)
            (found,) = session.tasks(label=title)
            assert (found.title, found.detail, found.labels) == (title, title, (title,))

    # -- in one commit with others ---------------------------------------------------------------------------

    def test_atomic_sees_its_own_tasks(self, opener: Opener) -> None:
        def plan(tx: Any) -> list[int]:
            session = tx.session("s")
            first = session.task("first", labels=["x"])
            second = session.task("second", needs=[first])
            first.claim()
            first.done("quick")
            assert [task.id for task in session.ready()] == [second.id]
            return [task.id for task in session.tasks(label="x")]

        with opener() as store:
            (first,) = store.atomic(plan)
            session = store.session("s")
            assert [(task.id, task.status) for task in session.tasks(status="done")] == [(first, "done")]

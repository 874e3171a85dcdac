"""The envelope is sufficient: a run that is killed anywhere goes on in another store from its envelope and blobs alone."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import forked
import perdure
from effects import moving_agent as moving
from perdure import errors
from perdure.model.records.envelope import Envelope, Standing
from perdure.stores import schema_upgrade

STOPS = (
    "effect.dispatch.before:1", "effect.dispatch.after:1", "effect.call.after:1",  # idempotent, before the checkpoint
    "effect.dispatch.after:2", "effect.call.after:2", "effect.commit.after:2",  # keyed
    "effect.dispatch.after:3", "effect.call.after:3",  # probed
    "effect.call.after:4", "effect.undo.after:1", "effect.call.after:5",  # a saga that is being undone
    "answers:0+", "answers:1+", "answers:2+", "answers:3+",  # it waits: approval, ask, signal, a child's ask
    "answers:1", "answers:2", "answers:3", "answers:4",  # they were given, and nobody has gone on
)  # fmt: skip
ROADS = (("sqlite", "postgres"), ("postgres", "sqlite"), ("sqlite", "sqlite"))


@pytest.fixture
def world(tmp_path: Path) -> str:
    folder = tmp_path / "world"
    folder.mkdir()
    return str(folder)


@pytest.fixture
def url_of(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[str, str], str]:
    """The URL of a store of one kind; there is one PostgreSQL, so that a road never has two of them."""

    def url(kind: str, name: str) -> str:
        return f"sqlite:///{tmp_path}/{name}.db" if kind == "sqlite" else request.getfixturevalue("postgres_store")

    return url


def drive_until_killed(url: str, world: str, stop: str) -> None:
    """In a process of its own, which dies there."""
    name, _, count = stop.partition(":")
    answers = count if name == "answers" else "100"
    env = forked.environment()
    if name != "answers":
        env["PERDURE_CRASH_AT"] = stop
    ran = forked.run("-m", "effects.moving_agent", url, world, answers, env=env)
    assert ran.returncode == -signal.SIGKILL, ran.stderr


def handed_over(url: str) -> tuple[bytes, dict[str, bytes]]:
    """What another store gets, as it would travel; nothing else of the first one is looked at again."""
    with perdure.open(url, actor="mover") as store:
        handle = store.runs(agent="move_house")[0]
        envelope = handle.hand_over()
        return envelope.to_json(), store.artifacts_of(envelope)


def remove(url: str) -> None:
    if url.startswith("sqlite"):
        for path in Path(url.removeprefix("sqlite:///")).parent.glob("one.db*"):
            if path.is_file():
                path.unlink()


def check_world(world: str) -> None:
    counts = {what: moving.arrived(world, what) for what in ("pulls", "pushes", "mails")}
    assert counts == {"pulls": 1, "pushes": 1, "mails": 1}
    assert Path(world, "label").read_text() == "in review"
    assert Path(world, "given-back").read_text() == "yes"


@pytest.mark.parametrize("road", ROADS, ids="-".join)
@pytest.mark.parametrize("stop", STOPS)
def test_a_run_goes_on_elsewhere_from_its_envelope_and_blobs_alone(url_of, world, road, stop) -> None:
    first, second = url_of(road[0], "one"), url_of(road[1], "two")
    drive_until_killed(first, world, stop)
    envelope, artifacts = handed_over(first)
    remove(first)
    with perdure.open(second, actor="adopter") as store:
        run = store.adopt(envelope, artifacts)
        assert run.refresh().status == "ready"
        assert moving.finish(store, world) == moving.EXPECTED
        assert store.verify().ok
        assert store.runs(agent="move_house")[0].envelope().verdict.standing is Standing.OVER
    check_world(world)


def test_the_control_another_identity_is_another_key(url_of, world) -> None:
    """What the proof rests on: the run stays the same run. A variant that makes a new one of it opens two pull requests."""
    first, second = url_of("sqlite", "one"), url_of("sqlite", "two")
    drive_until_killed(first, world, "effect.call.after:2")
    envelope, artifacts = handed_over(first)
    found = Envelope.from_json(envelope)
    forged = msgspec.structs.replace(found, effects=(), run=msgspec.structs.replace(found.run, uid="0" * 32))
    with perdure.open(second, actor="adopter") as store:
        store.adopt(forged, artifacts)
        moving.finish(store, world)
    assert moving.arrived(world, "pulls") == 2


def test_it_can_be_handed_on_and_on(url_of, world) -> None:
    """Three stores, and a person's answer in each."""
    url = url_of("sqlite", "one")
    drive_until_killed(url, world, "answers:0+")
    for name in ("two", "three"):
        envelope, artifacts = handed_over(url)
        url = url_of("sqlite", name)
        with perdure.open(url, actor="adopter") as store:
            store.adopt(envelope, artifacts)
            moving.finish(store, world, 1)
    with perdure.open(url, actor="adopter") as store:
        assert moving.finish(store, world) == moving.EXPECTED
    check_world(world)


def test_what_was_handed_over_goes_on_nowhere_else(url_of, world) -> None:
    url = url_of("sqlite", "one")
    drive_until_killed(url, world, "answers:3+")
    handed_over(url)
    with perdure.open(url, actor="mover") as store:
        with pytest.raises(errors.Parked):
            moving.finish(store, world)
        assert {run.record.reason for run in store.runs()} == {"moved"}  # the child too
        assert store.recover().runs == ()


def test_what_is_taken_back_comes_with_its_children(url_of, world) -> None:
    """They stayed parked as moved, and the run waited for them."""
    url = url_of("sqlite", "one")
    drive_until_killed(url, world, "answers:3+")
    handed_over(url)
    with perdure.open(url, actor="mover") as store:
        store.runs(agent="move_house")[0].unpark()
        assert {run.record.reason for run in store.runs()} == {None}
        assert moving.finish(store, world) == moving.EXPECTED
    check_world(world)


def test_it_is_handed_over_once(url_of, world) -> None:
    """A second envelope could be adopted in another store than the first; one that was lost is made anew once it is back."""
    url = url_of("sqlite", "one")
    drive_until_killed(url, world, "answers:0+")
    handed_over(url)
    with pytest.raises(errors.Conflict, match=r"was handed over.*never adopted anywhere.*perdure unpark"):
        handed_over(url)
    with perdure.open(url, actor="mover") as store:
        store.runs(agent="move_house")[0].unpark()
    envelope, artifacts = handed_over(url)
    with perdure.open(url_of("sqlite", "two"), actor="adopter") as store:
        assert store.adopt(envelope, artifacts).status == "ready"
        assert moving.finish(store, world) == moving.EXPECTED
    check_world(world)


def test_a_run_that_somebody_drives_is_not_handed_over(url_of, world) -> None:
    def hand_over(run: perdure.Run) -> str:
        with pytest.raises(errors.Conflict, match="is being driven"):
            other.run(run.id).hand_over()
        return "still here"

    url = url_of("sqlite", "one")
    with perdure.open(url, actor="a") as store, perdure.open(url, actor="b") as other:
        assert store.drive(hand_over) == "still here"


def test_a_child_goes_with_its_parent_alone(url_of, world) -> None:
    url = url_of("sqlite", "one")
    drive_until_killed(url, world, "answers:3+")
    with perdure.open(url, actor="mover") as store:
        child = store.runs(agent="review")[0]
        with pytest.raises(errors.Conflict, match="waits for run"):
            child.hand_over()
        assert child.refresh().status == "waiting"


# -- a store that is lost ----------------------------------------------------------------------------------


def test_what_was_not_handed_over_is_refused_unless_its_store_is_lost(url_of, world) -> None:
    first, second = url_of("sqlite", "one"), url_of("sqlite", "two")
    drive_until_killed(first, world, "effect.call.after:3")
    with perdure.open(first, actor="mover") as store:
        envelope = store.runs()[0].envelope()
        artifacts = store.artifacts_of(envelope)
        assert store.runs()[0].status == "running"  # reading it changed nothing
    with perdure.open(second, actor="adopter") as store:
        with pytest.raises(errors.Refused, match="not handed over"):
            store.adopt(envelope, artifacts)
        assert not store.runs()
        run = store.adopt(envelope, artifacts, lost=True)
        doubted = [effect.record for effect in run.effects(open=True)]
        assert [(each.tool, each.state, each.error and each.error.code) for each in doubted] == [
            ("push", "in_doubt", "Restored")
        ]
        with pytest.raises(errors.Waiting):
            store.drive(moving.move_house, world, key=moving.KEY)
        run.resume(vouch=True)
        assert moving.finish(store, world) == moving.EXPECTED
    check_world(world)


def test_what_was_only_planned_is_doubt_when_its_store_is_lost(url_of, world) -> None:
    first, second = url_of("sqlite", "one"), url_of("sqlite", "two")
    drive_until_killed(first, world, "answers:0+")
    with perdure.open(first, actor="mover") as store:
        envelope = store.runs()[0].envelope()
        artifacts = store.artifacts_of(envelope)
    with perdure.open(second, actor="adopter") as store:
        run = store.adopt(envelope, artifacts, lost=True)
        with pytest.raises(errors.Waiting):
            store.drive(moving.move_house, world, key=moving.KEY)
        assert run.envelope().verdict.standing is Standing.DOUBT
        (left,) = run.effects(open=True)
        assert (left.tool, left.state) == ("mail", "in_doubt")
        left.settle(perdure.Absent("the store is gone, and no mail came"), by="alice")
        assert moving.finish(store, world) == moving.EXPECTED
    check_world(world)


def test_what_was_only_planned_and_handed_over_is_of_the_adopters_epoch(url_of) -> None:
    """The adopting store was restored once, which says nothing about a run that came after that: nobody is asked."""
    mailed: list[str] = []

    @perdure.tool(name="mail planned")
    def mail() -> str:
        mailed.append("x")
        return "mailed"

    @perdure.agent(name="planner")
    def planner(run: perdure.Run) -> str:
        return run.act(mail, approve="Really?")

    with perdure.open(url_of("sqlite", "one"), actor="mover") as store:
        with pytest.raises(errors.Waiting):
            store.drive(planner, key="k")
        envelope = store.runs()[0].hand_over()
        artifacts = store.artifacts_of(envelope)
    with perdure.open(url_of("sqlite", "two"), actor="adopter") as store:
        core = store._caller.core
        core.epoch = schema_upgrade.raise_epoch(core.engine, core.epoch)
        store.adopt(envelope, artifacts)
        store.answer(store.asks()[0].id, "approve", by="alice")
        assert store.drive(planner, key="k") == "mailed"
    assert mailed == ["x"]


def test_what_a_lost_store_did_after_the_envelope_was_made_is_not_done_again_unasked(url_of) -> None:
    """Neither by the run nor by the run that it starts. Control: before, both were paid a second time."""
    paid: list[str] = []

    @perdure.tool(name="pay late")
    def pay(what: str) -> str:
        paid.append(what)
        return what

    @perdure.agent(name="late child")
    def child(run: perdure.Run) -> str:
        return run.act(pay, "child")

    @perdure.agent(name="late payer")
    def payer(run: perdure.Run) -> str:
        run.act(pay, "early")
        run.wait("go")
        run.act(pay, "late")
        return run.call(child)

    with perdure.open(url_of("sqlite", "one"), actor="mover") as store:
        handle = store.start(payer, key="k")
        store.recover(agents=[payer, child])
        envelope = handle.envelope()
        handle.signal("go")
        assert store.drive(payer, key="k") == "child"
    with perdure.open(url_of("sqlite", "two"), actor="adopter") as store:
        store.adopt(envelope, lost=True).signal("go")
        for _ in ("late", "child"):
            with pytest.raises(errors.Waiting) as waiting:
                store.drive(payer, key="k")
            (doubt,) = waiting.value.facts["doubts"]
            store.effect(doubt).settle(perdure.Happened("child"), by="alice")
        assert store.drive(payer, key="k") == "child"
    assert paid == ["early", "late", "child"]


# -- what is refused ---------------------------------------------------------------------------------------------


def test_it_is_adopted_once(url_of, world) -> None:
    first, second = url_of("sqlite", "one"), url_of("sqlite", "two")
    drive_until_killed(first, world, "answers:0+")
    envelope, artifacts = handed_over(first)
    with perdure.open(second, actor="adopter") as store:
        store.adopt(envelope, artifacts)
        with pytest.raises(errors.Conflict, match="already"):
            store.adopt(envelope, artifacts)
    with perdure.open(first, actor="mover") as store, pytest.raises(errors.Conflict, match="already"):
        store.adopt(envelope, artifacts)


def test_nobody_is_told_to_go_on_where_a_run_was_before(url_of, world) -> None:
    """It came back: what is known of it here is old, and unparked here it would do again what it did since."""
    first, second = url_of("sqlite", "one"), url_of("sqlite", "two")
    drive_until_killed(first, world, "answers:0+")
    envelope, artifacts = handed_over(first)
    with perdure.open(second, actor="adopter") as store:
        run = store.adopt(envelope, artifacts)
        with pytest.raises(errors.Conflict, match="already") as refused:
            store.adopt(envelope, artifacts)
        assert "unpark" not in (refused.value.hint or "")
        moving.finish(store, world, 1)
    envelope, artifacts = handed_over(second)
    with perdure.open(first, actor="mover") as store, pytest.raises(errors.Conflict, match="already") as refused:
        store.adopt(envelope, artifacts)
    assert "where the envelope was made" in (refused.value.hint or "")
    with perdure.open(second, actor="adopter") as store:
        store.run(run.id).unpark()
        assert moving.finish(store, world) == moving.EXPECTED
    check_world(world)


def test_a_key_that_stands_for_another_run_is_a_conflict(url_of, world) -> None:
    first, second = url_of("sqlite", "one"), url_of("sqlite", "two")
    drive_until_killed(first, world, "answers:0+")
    envelope, artifacts = handed_over(first)
    with perdure.open(second, actor="adopter") as store:
        store.start(moving.move_house, world, key=moving.KEY)
        with pytest.raises(errors.Conflict, match="another run"):
            store.adopt(envelope, artifacts)
        assert len(store.runs()) == 1


def test_blobs_that_are_missing_or_altered(url_of, world) -> None:
    first, second = url_of("sqlite", "one"), url_of("sqlite", "two")
    drive_until_killed(first, world, "answers:0+")
    envelope, artifacts = handed_over(first)
    assert set(Envelope.from_json(envelope).artifacts) <= artifacts.keys()
    with perdure.open(second, actor="adopter") as store:
        for address in artifacts:
            with pytest.raises((errors.NotFound, errors.Damaged), match=address[:8]):
                store.adopt(envelope, {name: data for name, data in artifacts.items() if name != address})
            with pytest.raises(errors.Damaged, match=address[:8]):
                store.adopt(envelope, {**artifacts, address: artifacts[address] + b"x"})
        assert not store.runs()
        assert store.adopt(envelope, artifacts).status == "ready"


@perdure.tool(name="no_such_user")
def no_such_user(world: str) -> str:
    if not Path(world, "user").exists():
        raise perdure.Failed("nobody", code="NoSuchUser")
    return "somebody"


@perdure.agent(name="greet")
def greet(run: perdure.Run, world: str) -> str:
    run.step(len, "abc")
    return run.act(no_such_user, world)


def test_a_run_that_failed_is_tried_again_elsewhere(url_of, world) -> None:
    """The effect that is to be tried again has another number there."""
    with perdure.open(url_of("sqlite", "one"), actor="mover") as store:
        for _ in range(3):
            store.start(greet, world)  # so that names and numbers differ
        with pytest.raises(errors.Failed):
            store.drive(greet, world, key="k")
        failed = next(run for run in store.runs() if run.record.key == "k")
        with pytest.raises(errors.Conflict, match=r"nothing to hand over.*perdure retry"):
            failed.hand_over()
        envelope = failed.envelope()
    with perdure.open(url_of("sqlite", "two"), actor="adopter") as store:
        run = store.adopt(envelope, lost=True)
        assert run.status == "failed"
        Path(world, "user").touch()
        run.retry()
        with pytest.raises(errors.Waiting) as waiting:  # it may have been tried again where it was, too
            store.drive(greet, world, key="k")
        store.effect(waiting.value.facts["doubts"][0]).settle(perdure.Absent(), by="alice")
        assert store.drive(greet, world, key="k") == "somebody"


# -- runs that were started ------------------------------------------------------------------------------------


@perdure.tool(name="pay once")
def pay_once(folder: str) -> str:
    moving.arrive(folder, "payments")
    return "paid"


def look_for(folder: str) -> str:
    if not Path(folder, "user").exists():
        raise ValueError("nobody is there")
    return "somebody"


@perdure.agent(name="pays and looks")
def pays_and_looks(run: perdure.Run, folder: str) -> str:
    run.act(pay_once, folder)
    return run.step(look_for, folder)


@perdure.agent(name="lets pay")
def lets_pay(run: perdure.Run, folder: str) -> str:
    return run.call(pays_and_looks, folder)


def test_a_child_that_is_tried_again_goes_along(url_of, world) -> None:
    """Left behind, it was begun anew where its parent went on, and paid again; and it went on where it was, too."""
    with perdure.open(url_of("sqlite", "one"), actor="mover") as store:
        with pytest.raises(errors.Failed):
            store.drive(lets_pay, world, key="k")
        handle = next(run for run in store.runs() if run.record.key == "k").retry()
        envelope = handle.hand_over()
        Path(world, "user").touch()
        assert [each.run.agent for each in envelope.children] == ["pays and looks"]
        assert {run.record.reason for run in store.runs()} == {"moved"}
        assert store.recover(agents=[lets_pay, pays_and_looks]).runs == ()
    with perdure.open(url_of("sqlite", "two"), actor="adopter") as store:
        store.adopt(envelope)
        assert store.drive(lets_pay, world, key="k") == "somebody"
        assert store.verify().ok
    assert moving.arrived(world, "payments") == 1


def test_a_child_that_failed_elsewhere_is_not_begun_anew(url_of, world) -> None:
    with perdure.open(url_of("sqlite", "one"), actor="mover") as store:
        with pytest.raises(errors.Failed):
            store.drive(lets_pay, world, key="k")
        child, parent = (run.envelope() for run in store.runs())
    Path(world, "user").touch()
    with perdure.open(url_of("sqlite", "two"), actor="adopter") as store:
        run = store.adopt(parent, lost=True)
        with pytest.raises(errors.Conflict, match="is not in this store") as refused:
            run.retry()
        assert f"adopt the envelope of run {child.run.name}" in (refused.value.hint or "")
        assert run.refresh().status == "failed"
        assert run.envelope().children == ()
        store.adopt(child, lost=True)
        run.retry()
        assert store.drive(lets_pay, world, key="k") == "somebody"
    assert moving.arrived(world, "payments") == 1

"""Moves: a store goes from one database into another, whole, with its chains, and goes on in one place alone."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path

import psycopg
import pytest

import forked
import perdure
from furnished import furnish, whole_feed
from perdure import errors
from perdure.interchange import move as moving
from perdure.interchange.move import move, take_back
from perdure.model import crash_points
from perdure.model.records.runs import RunStatus
from perdure.stores import moved_away
from perdure.stores.url import parse
from perdure_evaluate.bench.raw_events import fill_events

POINTS = ("expected", "said", "sealed", "blobs", "events", "events:2", "proved", "welcomed")


@pytest.fixture
def source(tmp_path):
    url = f"sqlite:///{tmp_path}/source.db"
    with perdure.open(url, actor="alice") as store:
        furnish(store)
        fill_events(store, 300, kinds=3, actors=2, days=2)
    return url


@pytest.fixture(params=["sqlite", "postgres", "files"])
def target(request, tmp_path):
    if request.param != "postgres":
        return f"sqlite:///{tmp_path}/target.db" if request.param == "sqlite" else f"files:///{tmp_path}/target"
    return f"{request.getfixturevalue('postgres_store')}&artifacts=file://{tmp_path}/places"


def exported(url: str, path: Path) -> bytes:
    with perdure.open(url, read_only=True) as store:
        store.export(path, everything=True)
    return path.read_bytes()


def heads(url: str) -> dict[bytes, object]:
    with moving._opened(url) as core:
        return core.read(moving._heads, tenant=0)


# -- there and back ------------------------------------------------------------------------------------------------------------


def test_there_and_back_everything_is_the_same(source, target, tmp_path):
    before = exported(source, tmp_path / "1")
    done = move(source, target, actor="mover")
    assert exported(target, tmp_path / "2") == before
    back = f"sqlite:///{tmp_path}/back.db"
    assert move(target, back, actor="mover").events == done.events + 1  # that it moves is an event too
    assert exported(back, tmp_path / "3") == before
    with perdure.open(back) as store:
        assert store.verify().ok
        assert store.session("main").artifact("core.bin").read()
        store.session("main").say("user", "and it goes on")
        kinds = [event.kind for event in store.events(kind="store.*", limit=10)]
    assert sorted(kinds) == ["store.anchored", "store.moving", "store.moving", "store.tenants_named"]


def test_the_order_of_the_feed_stays(source, target):
    with perdure.open(source) as store:
        before = [event.ref for event in store.feed(limit=1000)]
    move(source, target, actor="mover")
    with perdure.open(target) as store:
        after = [event.ref for event in whole_feed(store, len(before))]
    assert len(before) > 300
    assert after[: len(before)] == before


def test_every_tenant_comes_and_stays_behind_its_wall(tmp_path, target):
    source = f"sqlite:///{tmp_path}/tenants.db"
    for tenant in ("acme", "other"):
        with perdure.open(source, tenant=tenant) as store:
            store.session("a").say("user", f"of {tenant}")
            store.session("a").attach("big", tenant.encode() * 50_000)
            store.session("a").fork(name="b").say("user", "on")
    move(source, target, actor="mover")
    for tenant in ("acme", "other"):
        with perdure.open(target, tenant=tenant) as store:
            assert [turn.content for turn in store.session("b").turns(last=5)] == [f"of {tenant}", "on"]
            assert store.session("a").artifact("big").read() == tenant.encode() * 50_000


def test_an_imported_copy_stays_a_copy_when_it_moves(source, target, tmp_path):
    with perdure.open(source) as store:
        store.export(tmp_path / "x", ["main"])
    middle = f"sqlite:///{tmp_path}/middle.db"
    with perdure.open(middle) as store:
        store.import_(tmp_path / "x", names={"main": "theirs"})
        statuses = {each.id: each.record.status for each in store.runs()}
    move(middle, target, actor="mover")
    with perdure.open(target) as store:
        assert store.verify().ok
        assert {each.id: each.record.status for each in store.runs()} == statuses
        assert {each.record.session for each in store.runs()} == {"theirs"}


def test_a_fork_that_comes_before_what_it_was_forked_from_brings_that_along(source, tmp_path, monkeypatch):
    """As on PostgreSQL, where a transaction that began early may have forked what a later one wrote."""
    real, target = moving._next, f"sqlite:///{tmp_path}/target.db"
    monkeypatch.setattr(moving, "_next", lambda *args: sorted(real(*args), key=lambda row: (-row[12], row[0])))
    move(source, target, actor="mover")
    assert heads(source) == heads(target)


# -- killed anywhere -----------------------------------------------------------------------------------------------------------

MOVE = "import sys; from perdure.interchange.move import move; move(*sys.argv[1:], actor='mover')"


@pytest.mark.parametrize("point", POINTS)
def test_a_move_that_is_killed_goes_on(source, target, tmp_path, monkeypatch, point):
    monkeypatch.setattr(moving, "PAGE_EVENTS", 100)
    before = exported(source, tmp_path / "1")
    program = MOVE.replace("; move(", "; import perdure.interchange.move as m; m.PAGE_EVENTS = 100; move(")
    done = forked.run("-c", program, source, target, env=forked.environment(PERDURE_CRASH_AT=f"move.{point}"))
    assert done.returncode == -signal.SIGKILL, done.stderr
    if point not in ("expected", "said"):
        with pytest.raises(errors.Refused, match="was moved"):
            perdure.open(source)
    if point != "welcomed":
        with pytest.raises(errors.Refused, match="not finished"):
            perdure.open(target)
    move(source, target, actor="mover")
    assert exported(target, tmp_path / "2") == before
    assert heads(source) == heads(target)
    move(source, target, actor="mover")  # it is done, and says so
    with perdure.open(target) as store:
        assert store.verify().ok


# -- who is at work ------------------------------------------------------------------------------------------------------------

SENT: list[int] = []


@perdure.tool
def pay(amount: int) -> int:
    SENT.append(amount)
    return amount


@perdure.agent(name="mover")
def payer(run: perdure.Run) -> str:
    run.act(pay, 1)
    run.wait("go")
    run.act(pay, 2)
    return "done"


def test_a_move_is_refused_while_somebody_holds_something_and_nothing_is_changed(source, target, tmp_path):
    with perdure.open(source, actor="worker") as store:
        effect = store.session("main").begin("pay", {"amount": 1}, kind="unsafe", key="x")
        effect.dispatch()
        with pytest.raises(errors.Refused, match=r"effect pay.*--fence"):
            move(source, target, actor="mover")
        assert move(source, target, actor="mover", dry_run=True).held[0].what == "effect pay"
        effect.commit({"ok": True})
        store.session("main").say("user", "goes on")
    assert not Path(tmp_path / "target.db").exists() or target.startswith("postgres")
    assert not move(source, target, actor="mover").fenced


def test_a_claimed_task_and_a_held_lock_stop_a_move(source, target):
    with perdure.open(source, actor="worker") as store:
        session = store.session("main")
        task = session.task("Write it").claim()
        with pytest.raises(errors.Refused, match=r"task Write it.*--fence"):
            move(source, target, actor="mover")
        task.done()
        with session.lock("deploy"), pytest.raises(errors.Refused, match="lock deploy"):
            move(source, target, actor="mover")
        session.task("Nobody has it")
    assert not move(source, target, actor="mover").fenced


DIE = """
import os, signal, sys, perdure
effect = perdure.open(sys.argv[1]).session("main").begin("pay", {"amount": 1}, kind="unsafe", key="x")
effect.dispatch()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("proved", [True, False])
def test_who_is_proved_dead_holds_nothing_whatever_its_heartbeat_says(source, tmp_path, proved):
    forked.run("-c", DIE, source)
    (lock,) = [each for each in (tmp_path / "source.db.live").iterdir() if len(each.name) == 32]
    target = f"sqlite:///{tmp_path}/target.db"
    if proved:
        assert move(source, target, actor="mover").held == []
        return
    lock.unlink()
    with pytest.raises(errors.Refused, match="effect pay"):
        move(source, target, actor="mover")


@pytest.fixture
def at_the_last_moment(request):
    """Arm the point right before a source is sealed."""

    def armed(act):
        request.addfinalizer(crash_points.arm("move.said", act))

    return armed


def test_what_is_taken_right_before_the_seal_refuses_the_move_too(source, target, at_the_last_moment):
    with perdure.open(source, actor="worker") as store:
        effect = store.session("main").begin("pay", {"amount": 1}, kind="unsafe", key="x")
        at_the_last_moment(effect.dispatch)
        with pytest.raises(errors.Refused, match=r"effect pay.*--fence"):
            move(source, target, actor="mover")
        effect.commit({"ok": True})
        store.session("main").say("user", "goes on")


def test_what_is_taken_right_before_the_seal_is_fenced_and_doubt_too(source, target, at_the_last_moment):
    with perdure.open(source, actor="worker") as store:
        effect = store.session("main").begin("pay", {"amount": 1}, kind="unsafe", key="x")
        at_the_last_moment(effect.dispatch)
        assert move(source, target, actor="mover", fence=True).fenced
    with perdure.open(target) as store:
        assert store._caller.core.epoch == 2


def test_nobody_on_postgresql_is_in_the_middle_of_a_commit_when_it_is_asked_what_is_held(
    postgres_store, tmp_path, monkeypatch
):
    """A dispatch that is not committed yet is not seen: the seal waits for it, so it must come before the question."""
    with perdure.open(postgres_store) as store:
        store.session("main")
    asked, address = [], parse(postgres_store)

    def holding(core):
        with psycopg.connect(address.url.partition("?")[0]) as connection:
            try:
                connection.execute(f'LOCK TABLE "{address.schema}".events IN ROW EXCLUSIVE MODE NOWAIT')
                asked.append("others may write")
            except psycopg.errors.LockNotAvailable:
                asked.append("sealed")
        return real(core)

    real = moving.holding
    monkeypatch.setattr(moving, "holding", holding)
    move(postgres_store, f"sqlite:///{tmp_path}/target.db", actor="mover")
    assert asked == ["others may write", "sealed"]


def test_a_fenced_source_takes_nothing_more_and_what_was_open_is_doubt(source, target):
    with perdure.open(source, actor="worker") as store:
        session = store.session("main")
        planned = session.begin("pay", {"amount": 1}, kind="unsafe", key="planned")
        sent = session.begin("pay", {"amount": 2}, kind="unsafe", key="sent")
        sent.dispatch()
        assert move(source, target, actor="mover", fence=True).fenced
        for late in (
            planned.dispatch,
            lambda: sent.commit({}),
            lambda: session.say("user", "late"),
            lambda: store.session("new"),
        ):
            with pytest.raises(errors.ReadOnly, match="moved"):
                late()
        assert session.turns(last=1)  # it can still be read
    with perdure.open(target) as store:
        with pytest.raises(errors.Conflict, match="in_doubt"):
            store.session("main").begin("pay", {"amount": 1}, kind="unsafe", key="planned").dispatch()
        store.recover()
        assert {effect.key: effect.state for effect in store.effects(tool="pay")}["sent"] == "in_doubt"


def test_who_begins_to_work_while_a_move_looks_is_fenced_too(source, target, monkeypatch):
    sound = moving._check_sound
    with perdure.open(source, actor="worker") as store:

        def begun_meanwhile(core, *, blobs):
            sound(core, blobs=blobs)
            if core.engine.url == source:
                store.session("main").begin("pay", {"amount": 1}, kind="unsafe", key="sent").dispatch()

        monkeypatch.setattr(moving, "_check_sound", begun_meanwhile)
        assert move(source, target, actor="mover", fence=True).fenced
    with perdure.open(target) as store:
        assert store._caller.core.epoch == 2


def test_a_store_that_is_taken_back_while_it_is_carried_goes_on_alone(source, target, monkeypatch):
    prove = moving._prove

    def taken_back_meanwhile(*given):
        prove(*given)
        take_back(source, actor="another")

    monkeypatch.setattr(moving, "_prove", taken_back_meanwhile)
    with pytest.raises(errors.Conflict, match="taken back"):
        move(source, target, actor="mover")
    with perdure.open(source) as store:
        store.session("main").say("user", "it goes on here")
    with pytest.raises(errors.Refused, match="not finished"):
        perdure.open(target)


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "files"])
def test_of_two_who_move_a_store_to_two_places_at_once_one_does(kind, request, tmp_path, monkeypatch):
    """Both have looked whether it was moved, and it was not: what is said in the seal's own transaction counts."""
    source = request.getfixturevalue("postgres_store") if kind == "postgres" else f"{kind}:///{tmp_path}/source"
    here, there = f"sqlite:///{tmp_path}/here.db", f"sqlite:///{tmp_path}/there.db"
    with perdure.open(source) as store:
        store.session("s").say("user", "only once")
    seal = moved_away.seal

    def another_is_faster(*given):
        monkeypatch.setattr(moved_away, "seal", seal)
        move(source, there, actor="another")
        return seal(*given)

    monkeypatch.setattr(moved_away, "seal", another_is_faster)
    with pytest.raises(errors.Conflict, match="was moved to"):
        move(source, here, actor="mover")
    with perdure.open(there) as store:
        assert [turn.content for turn in store.session("s").turns()] == ["only once"]
    with pytest.raises(errors.Refused, match="not finished"):
        perdure.open(here)
    assert move(source, there, actor="mover").events == 7  # it went there, and that is said to whoever asks again


def test_postgresql_takes_nothing_more_either(postgres_store, tmp_path):
    with perdure.open(postgres_store, actor="worker") as store:
        session = store.session("main")
        session.say("user", "before")
        move(postgres_store, f"sqlite:///{tmp_path}/target.db", actor="mover")
        for late in (lambda: session.say("user", "late"), lambda: store.session("new")):
            with pytest.raises(errors.ReadOnly, match="moved"):
                late()
        assert [turn.content for turn in session.turns(last=9)] == ["before"]
    take_back(postgres_store, actor="mover")
    with perdure.open(postgres_store) as store:
        store.session("main").say("user", "again")
        assert store.verify().ok


def test_a_store_that_holds_nothing_is_moved_too(tmp_path):
    perdure.open(f"sqlite:///{tmp_path}/empty.db").close()
    assert move(f"sqlite:///{tmp_path}/empty.db", f"sqlite:///{tmp_path}/target.db", actor="mover").streams == 2
    with perdure.open(f"sqlite:///{tmp_path}/target.db") as store:
        assert store.verify().ok


def test_a_waiting_run_goes_on_where_it_was_moved_and_nothing_is_done_twice(tmp_path, target):
    SENT.clear()
    source = f"sqlite:///{tmp_path}/runs.db"
    with perdure.open(source) as store:
        with pytest.raises(errors.Waiting):
            store.drive(payer, key="k")
        run = store.runs()[0].id
    move(source, target, actor="mover")
    with perdure.open(target) as store:
        assert store.run(run).record.status is RunStatus.WAITING
        store.signal(run, "go", {})
        assert store.drive(payer, key="k") == "done"
    assert SENT == [1, 2]


def test_a_store_that_was_moved_can_be_taken_back_on_purpose(source, target):
    move(source, target, actor="mover")
    with pytest.raises(errors.Refused, match="--take-back"):
        perdure.open(source)
    with perdure.open(source, read_only=True) as store:
        assert store.sessions()
    take_back(source, actor="mover")
    with perdure.open(source) as store:
        store.session("main").say("user", "here again")
        assert "store.taken_back" in [event.kind for event in store.events(kind="store.*", limit=10)]
        assert store.verify().ok
    with pytest.raises(errors.Invalid, match="not moved"):
        take_back(source, actor="mover")


@pytest.mark.parametrize("kind", ["sqlite", "files"])
def test_in_a_store_that_is_taken_back_what_the_other_one_may_have_done_is_doubt(tmp_path, kind):
    SENT.clear()
    source, target = f"{kind}:///{tmp_path}/source", f"sqlite:///{tmp_path}/target.db"
    with perdure.open(source) as store:
        store.session("main").begin("pay", {"amount": 7}, kind="unsafe", key="planned")
        with pytest.raises(errors.Waiting):
            store.drive(payer, key="k")
        run = store.runs()[0].id
    move(source, target, actor="mover")
    with perdure.open(target) as store:
        store.signal(run, "go", {})
        assert store.drive(payer, key="k") == "done"
    take_back(source, actor="mover")
    with perdure.open(source) as store:
        with pytest.raises(errors.Conflict, match="in_doubt"):
            store.session("main").begin("pay", {"amount": 7}, kind="unsafe", key="planned").dispatch()
        store.signal(run, "go", {})
        with pytest.raises(errors.Waiting, match="outcome of pay is unknown"):
            store.drive(payer, key="k")
        assert store.verify().ok
    assert SENT == [1, 2]


def test_a_backup_of_a_store_that_was_moved_is_restored_as_a_store_of_its_own(source, tmp_path):
    move(source, f"sqlite:///{tmp_path}/target.db", actor="mover")
    with perdure.open(source, read_only=True) as store:
        store.backup(tmp_path / "backup")
    perdure.restore(tmp_path / "backup", f"sqlite:///{tmp_path}/restored.db")
    with perdure.open(f"sqlite:///{tmp_path}/restored.db") as store:
        store.session("main").say("user", "on purpose")


# -- files: what is sealed is so in the log, not only in a cache that can be made again ---------------------------------------


@pytest.fixture
def folder(tmp_path):
    with perdure.open(f"files:///{tmp_path}/agent", actor="alice") as store:
        store.session("main").say("user", "hello")
    return tmp_path / "agent"


def copied(folder: Path, name: str) -> Path:
    return shutil.copytree(folder, folder.with_name(name))


def put_back(kept: Path, folder: Path) -> None:
    shutil.rmtree(folder)
    shutil.copytree(kept, folder)


def test_a_files_store_that_was_moved_stays_so_without_its_cache(folder, tmp_path):
    move(f"files:///{folder}", f"sqlite:///{tmp_path}/target.db", actor="mover")
    shutil.rmtree(folder / ".perdure")
    for _ in range(2):
        with pytest.raises(errors.Refused, match=r"was moved to .*target\.db"):
            perdure.open(f"files:///{folder}")
    with perdure.open(f"files:///{folder}", read_only=True) as store:
        assert store.session("main").turns()[0].content == "hello"


def test_a_log_from_before_the_move_does_not_open_the_store_again(folder, tmp_path):
    before = copied(folder / "log", "before")
    move(f"files:///{folder}", f"sqlite:///{tmp_path}/target.db", actor="mover")
    put_back(before, folder / "log")
    with pytest.raises(errors.Damaged, match="lost lines"):  # no git around it can have done that
        perdure.open(f"files:///{folder}")
    subprocess.run(["git", "init", "-q", folder], check=True)
    with pytest.raises(errors.Refused, match="was moved"):
        perdure.open(f"files:///{folder}")
    take_back(f"files:///{folder}", actor="mover")
    with perdure.open(f"files:///{folder}") as store:
        assert store._caller.core.epoch == 3  # the log was put back, and the store taken back


def test_a_cache_that_is_behind_follows_the_seal_and_what_came_after_it_was_taken_back(folder, tmp_path):
    url, own = f"files:///{folder}", folder / ".perdure"
    opened = copied(own, "opened")
    move(url, f"sqlite:///{tmp_path}/target.db", actor="mover")
    sealed = copied(own, "sealed")
    put_back(opened, own)
    with pytest.raises(errors.Refused, match="was moved"):
        perdure.open(url)
    take_back(url, actor="mover")
    with perdure.open(url) as store:
        store.session("main").say("user", "here again")
    for kept in (opened, sealed):
        put_back(kept, own)
        with perdure.open(url) as store:
            assert [turn.content for turn in store.session("main").turns()] == ["hello", "here again"]
            assert store.verify().ok


def test_who_waits_for_a_store_waits_without_its_cache_too(source, tmp_path, monkeypatch):
    target, own = f"files:///{tmp_path}/target", tmp_path / "target" / ".perdure"
    before = exported(source, tmp_path / "1")
    with monkeypatch.context() as patched:
        patched.setattr(moving, "_prove", lambda *_: (_ for _ in ()).throw(errors.Damaged("stopped", path="here")))
        with pytest.raises(errors.Damaged, match="stopped"):
            move(source, target, actor="mover")
    shutil.rmtree(own)
    with pytest.raises(errors.Refused, match="not finished"):
        perdure.open(target)
    move(source, target, actor="mover")
    shutil.rmtree(own)
    assert exported(target, tmp_path / "2") == before


# -- refused -------------------------------------------------------------------------------------------------------------------


def test_what_cannot_be_moved_is_refused(source, tmp_path):
    used, elsewhere = f"sqlite:///{tmp_path}/used.db", f"sqlite:///{tmp_path}/elsewhere.db"
    with perdure.open(used) as store:
        store.session("mine")
    for where, error, what in (
        ("memory:", errors.Invalid, "memory"), (source, errors.Invalid, "same"), (used, errors.Refused, "already"),
    ):  # fmt: skip
        with pytest.raises(error, match=what):
            move(source, where, actor="mover")
    perdure.open(source).close()  # nothing came of it
    move(source, elsewhere, actor="mover")
    with pytest.raises(errors.Conflict, match="elsewhere"):
        move(source, f"sqlite:///{tmp_path}/third.db", actor="mover")


SPELLINGS = (
    "link.db",
    "./source.db",
    "{folder}/source.db",
    "{folder}/x/../source.db",
    "source.db?artifacts=file://{folder}/b",
)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_store_is_not_moved_into_itself_however_that_is_spelled(tmp_path, monkeypatch, spelling):
    monkeypatch.chdir(tmp_path)
    perdure.open("sqlite:///source.db").close()  # one that holds nothing: else it is refused for what it holds
    Path("link.db").symlink_to("source.db")
    Path("x").mkdir()
    with pytest.raises(errors.Invalid, match="same store"):
        move("sqlite:///source.db", f"sqlite:///{spelling.format(folder=tmp_path)}", actor="mover")
    perdure.open("sqlite:///source.db").close()


def test_postgresql_is_not_moved_into_itself_by_another_name(postgres_store):
    perdure.open(postgres_store).close()
    with pytest.raises(errors.Invalid, match="same store"):
        move(postgres_store, f"{postgres_store}&application_name=other", actor="mover")
    perdure.open(postgres_store).close()


def test_a_move_goes_on_to_the_same_place_from_another_folder(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # As if killed: the target lives, and nobody knows.
    monkeypatch.setattr(moving.moved_away, "say_done", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        move(source, "sqlite:///target.db", actor="mover")
    monkeypatch.undo()
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    with pytest.raises(errors.Conflict, match=f"moved to sqlite:///{tmp_path}/target.db"):
        move(source, "sqlite:///target.db", actor="mover")  # this is another place
    assert not Path("target.db").exists()
    move(source, "sqlite:///../target.db", actor="mover")
    with pytest.raises(errors.Refused, match=f"open sqlite:///{tmp_path}/target.db"):
        perdure.open(source)


def test_what_is_damaged_stays_where_it_is(source, tmp_path):
    with moving._opened(source) as core:
        core.lane.borrow(
            lambda connection: connection.raw.execute("UPDATE turns SET role = 'system' WHERE role = 'user'")
        )
    with pytest.raises(errors.Damaged, match="does not verify"):
        move(source, f"sqlite:///{tmp_path}/target.db", actor="mover")
    perdure.open(source).close()


@pytest.mark.parametrize("cheat", ["events", "rows", "blobs"])
def test_control_a_move_that_loses_something_is_not_proved(source, tmp_path, monkeypatch, cheat):
    target = f"sqlite:///{tmp_path}/target.db"
    if cheat == "events":
        monkeypatch.setattr(moving._Carrier, "_with_parents", lambda _self, page: iter(page[:-1]))
    elif cheat == "rows":
        monkeypatch.setattr(moving, "RECORDED", {**moving.RECORDED, "turns": moving.RECORDED["steps"]})
    else:
        monkeypatch.setattr(moving, "_keep", lambda tx, rows: None)
    with pytest.raises(errors.Damaged):
        move(source, target, actor="mover")
    with pytest.raises(errors.Refused, match="not finished"):
        perdure.open(target)

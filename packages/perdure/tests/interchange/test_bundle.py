"""Bundles: what is exported comes in as it was, once, whole, and never acts as if it were its original."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import perdure
from furnished import furnish
from installed import needs
from perdure import errors
from perdure.interchange import bundle_in, bundle_out
from perdure.model.records.effects import EffectState
from perdure.model.records.retention import Retention
from perdure.model.records.runs import RunStatus
from perdure.planes.execution import imported
from perdure_testing.contract.sync.history import facts, lived_in
from perdure_testing.contract.sync.retention import covered_upto, kept, talked


@pytest.fixture
def source(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/source.db", actor="alice") as store:
        yield store


@pytest.fixture(params=["sqlite", "postgres", "memory"])
def target_url(request, tmp_path):
    urls = {"memory": lambda: "memory:", "sqlite": lambda: f"sqlite:///{tmp_path}/target.db"}
    found = urls.get(request.param)
    return found() if found else request.getfixturevalue("postgres_store")


@pytest.fixture
def target(target_url, tmp_path):
    with perdure.open(target_url, actor="bob", artifacts=f"file://{tmp_path}/places") as store:
        yield store


@pytest.fixture
def bundle(tmp_path):
    return tmp_path / "x.perdure"


# -- out and in ----------------------------------------------------------------------------------------------------------------


def test_everything_that_is_in_a_store_comes_in_as_it_was(source, target, bundle):
    furnish(source)
    made = source.export(bundle, everything=True)
    done = target.import_(bundle)
    assert (len(done.streams), done.added, done.blobs) == (made.streams, made.events, made.blobs)
    assert target.verify().ok, target.verify().problems
    for name in ("main", "try-b"):
        ours, theirs = source.session(name), target.session(name)
        assert ours.uid == theirs.uid
        assert ours.transcript(format="openai") == theirs.transcript(format="openai")
        assert ours.restore() == theirs.restore()
        assert ours.artifact("core.bin").read() == theirs.artifact("core.bin").read()


def test_what_the_read_verbs_say_is_the_same(source, target, bundle):
    before = facts(lived_in(source))
    source.export(bundle, ["a"])
    target.import_(bundle)
    assert facts(target.session("a")) == before


def test_the_same_content_gives_the_same_bytes_from_whatever_store(source, target, bundle, tmp_path):
    furnish(source)
    source.export(bundle, everything=True)
    source.export(tmp_path / "again", everything=True)
    target.import_(bundle)
    target.export(tmp_path / "other", everything=True)
    assert bundle.read_bytes() == (tmp_path / "again").read_bytes()
    assert bundle.read_bytes() == (tmp_path / "other").read_bytes()


def test_the_manifest_and_the_log_can_be_read_by_people(source, bundle):
    source.session("a").say("user", "Login fails")
    made = source.export(bundle, ["a"])
    with zipfile.ZipFile(bundle) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        lines = [json.loads(line) for line in archive.read("log.jsonl").splitlines()]
    assert [each["name"] for each in manifest["streams"]] == ["a"]
    assert manifest["events"] == made.events == 2
    assert lines[0]["kind"] == "session"
    assert lines[-1]["body"]["doc"]["content"] == "Login fails"


def test_a_fork_brings_its_past_and_no_more(source, target, bundle):
    session = source.session("a")
    turn = session.say("user", "one")
    fork = session.fork(at=turn.seq, name="b")
    session.say("user", "only in the parent")
    fork.say("user", "two")
    source.export(bundle, ["b"])
    target.import_(bundle)
    assert [each.content for each in target.session("b").turns(last=9)] == ["one", "two"]
    assert [each.content for each in target.session("a").turns(last=9)] == ["one"]
    bundle.unlink()
    source.export(bundle, ["a"])
    assert target.import_(bundle).added == 1
    assert len(target.session("a").turns(last=9)) == 2
    assert target.verify().ok


def test_pruned_bodies_stay_gone_and_the_rest_comes(source, target, bundle):
    session = source.session("a")
    for number in range(5):
        session.checkpoint({"n": number, "big": "x" * 50_000})
    session.prune_checkpoints(keep=1, dry_run=False)
    source.collect(dry_run=False)
    made = source.export(bundle, ["a"])
    target.import_(bundle)
    assert target.session("a").restore() == session.restore()
    report = target.verify()
    assert report.ok
    assert len(report.unverifiable) == 4
    assert made.blobs < 5


def forked_then_pruned(source):
    """A session, a fork of it, and what of the past that they share was pruned since."""
    session = talked(source)
    covered_upto(session, 21)
    fork = session.fork(name="fork")
    fork.say("user", "goes on")
    report = source.retain(Retention(checkpoints=1, turns=0), dry_run=False)
    return fork, {*report.streams[0].turns, *report.streams[0].checkpoints}


def test_what_was_pruned_of_its_past_after_a_fork_left_is_known_to_be_gone(
    source, target, bundle, tmp_path, monkeypatch
):
    monkeypatch.setattr(imported, "NOTE_EVENTS", 10, raising=False)  # so that it takes several notes
    fork, gone = forked_then_pruned(source)
    source.export(bundle, ["fork"])  # the prune is not in it: it came after
    target.import_(bundle)
    report = target.verify()
    assert report.ok, report.problems
    assert {each.seq for each in report.unverifiable} == gone
    assert kept(target.session("fork")) == kept(fork)
    target.export(tmp_path / "on", ["fork"])
    with perdure.open(f"sqlite:///{tmp_path}/third.db") as third:
        third.import_(tmp_path / "on")
        assert third.verify().ok
    source.export(tmp_path / "whole", ["a"])
    target.import_(tmp_path / "whole")
    assert target.verify().ok


@pytest.mark.parametrize("when", ["before it is read", "after it was read"])
def test_an_export_beside_a_retention_is_whole(source, target, bundle, monkeypatch, when):
    covered_upto(talked(source), 21)
    events = bundle_out._Log._events

    def pruned_meanwhile(log, part):
        if when == "before it is read":
            source.retain(Retention(checkpoints=1, turns=0), dry_run=False)
        yield from events(log, part)
        source.retain(Retention(checkpoints=1, turns=0), dry_run=False)

    monkeypatch.setattr(bundle_out._Log, "_events", pruned_meanwhile)
    source.export(bundle, ["a"])
    target.import_(bundle)
    assert target.verify().ok, target.verify().problems
    assert kept(target.session("a")) == kept(source.session("a"))


def test_control_a_body_that_goes_from_a_copy_without_a_prune_is_still_missed(source, target, bundle):
    forked_then_pruned(source)
    source.export(bundle, ["fork"])
    target.import_(bundle)
    parent = target.session("a")
    seq = parent.turns(last=3)[0].seq  # also a copy, and it came with its body
    target._caller.write(lambda tx: tx.empty(parent._stream, [seq]))
    assert {(each.kind.value, each.seq) for each in target.verify().problems} == {("body-emptied", seq)}


# -- again, longer, diverged -------------------------------------------------------------------------------------------------


def test_importing_again_changes_nothing_and_a_longer_one_extends(source, target, bundle, tmp_path):
    session = source.session("a")
    session.say("user", "one")
    source.export(bundle, ["a"])
    assert target.import_(bundle).added == 2
    before = target.events(limit=100)
    assert target.import_(bundle).added == 0
    assert target.events(limit=100) == before
    session.say("user", "two")
    source.export(tmp_path / "longer", ["a"])
    assert [(each.name, each.added) for each in target.import_(tmp_path / "longer").streams] == [("a", 1)]
    assert target.import_(bundle).added == 0  # the shorter one after the longer
    assert [each.content for each in target.session("a").turns(last=9)] == ["one", "two"]
    assert target.verify().ok


def test_what_went_another_way_is_a_conflict_that_names_the_event(source, target, bundle, tmp_path):
    session = source.session("a")
    source.export(bundle, ["a"])
    target.import_(bundle)
    session.say("user", "here")
    target.session("a").say("user", "there")
    source.export(tmp_path / "longer", ["a"])
    before = target.events(limit=100)
    with pytest.raises(errors.Conflict, match=r"session a seq 2.*import it into another store\)") as caught:
        target.import_(tmp_path / "longer")
    assert caught.value.facts["seq"] == 2
    assert target.events(limit=100) == before


def test_a_bundle_that_is_replaced_while_it_is_imported_is_refused(source, target, bundle, tmp_path, monkeypatch):
    """What was verified is what is written, or nothing is."""
    source.session("a").say("user", "one")
    source.export(bundle, ["a"])
    source.session("a").say("user", "two")
    source.export(tmp_path / "longer", ["a"])
    real = bundle_in.carry

    def carry(*args):
        shutil.copyfile(tmp_path / "longer", bundle)
        return real(*args)

    monkeypatch.setattr(bundle_in, "carry", carry)
    with pytest.raises(errors.Conflict, match="changed while it was imported"):
        target.import_(bundle)
    assert not target.sessions()


def test_a_run_whose_key_stands_for_another_one_here_is_a_conflict(source, target, bundle):
    waiting_run(source)
    ours = target.start(sender, key="k")
    source.export(bundle, ["a"])
    with pytest.raises(errors.Conflict, match="the key 'k' belongs to another run of sender"):
        target.import_(bundle)
    assert [each.id for each in target.runs()] == [ours.id]


def test_a_bundle_of_the_store_itself_is_nothing_new(source, bundle):
    furnish(source)
    source.export(bundle, everything=True)
    assert source.import_(bundle).added == 0
    assert source.verify().ok


def test_many_who_import_the_same_at_once_import_it_once(source, bundle, postgres_store, tmp_path):
    furnish(source)
    source.export(bundle, everything=True)
    for url in (postgres_store, f"sqlite:///{tmp_path}/many.db"):
        stores = [perdure.open(f"{url}", artifacts=f"file://{tmp_path}/many") for _ in range(3)]
        with ThreadPoolExecutor(3) as pool:
            done = [*pool.map(lambda store: store.import_(bundle), stores)]
        assert sorted(each.added > 0 for each in done) == [False, False, True]
        assert stores[0].verify().ok
        for store in stores:
            store.close()


def test_who_finds_that_another_one_was_faster_looks_again(source, bundle, postgres_store, tmp_path, monkeypatch):
    """On PostgreSQL others commit between the look at what is there and the first event."""
    furnish(source)
    source.export(bundle, everything=True)
    real, places = bundle_in._keep_blobs, f"file://{tmp_path}/places"
    with perdure.open(postgres_store, artifacts=places) as one, perdure.open(postgres_store, artifacts=places) as other:

        def keep_blobs(tx, opened, blobs, large):
            if blobs:  # else it is only the rehearsal
                monkeypatch.setattr(bundle_in, "_keep_blobs", real)
                assert other.import_(bundle).added > 0
            real(tx, opened, blobs, large)

        monkeypatch.setattr(bundle_in, "_keep_blobs", keep_blobs)
        assert one.import_(bundle).added == 0
        assert one.verify().ok


def test_who_finds_the_name_taken_by_the_same_stream_has_it_already(
    source, bundle, postgres_store, tmp_path, monkeypatch
):
    """On PostgreSQL others commit between the look for the stream and the look for its name."""
    furnish(source)
    source.export(bundle, everything=True)
    taken, carry, places = bundle_in._clash, bundle_in.carry, f"file://{tmp_path}/places"
    with perdure.open(postgres_store, artifacts=places) as one, perdure.open(postgres_store, artifacts=places) as other:

        def another_is_faster(reads, coming):
            monkeypatch.undo()
            assert other.import_(bundle).added > 0
            return taken(reads, coming)

        def carry_and_meet(*given):
            monkeypatch.setattr(bundle_in, "_clash", another_is_faster)  # in the transaction that comes next
            return carry(*given)

        monkeypatch.setattr(bundle_in, "carry", carry_and_meet)
        assert one.import_(bundle).added == 0
        assert bundle_in._clash is taken


async def _there_and_back(source, bundle, url):
    async with perdure.aopen(source) as store:
        await store.export(bundle, ["a"])
    async with perdure.aopen(url) as store:
        return await store.import_(bundle)


def test_async_stores_do_the_same(tmp_path, bundle):
    with perdure.open(f"sqlite:///{tmp_path}/one.db") as store:
        store.session("a").say("user", "hello")
    done = asyncio.run(_there_and_back(f"sqlite:///{tmp_path}/one.db", bundle, f"sqlite:///{tmp_path}/two.db"))
    assert done.added == 2


# -- names and tenants ---------------------------------------------------------------------------------------------------------


def test_a_session_comes_in_under_another_name_and_its_runs_with_it(source, target, bundle, tmp_path):
    furnish(source)
    target.session("main").say("user", "another one of that name")
    source.export(bundle, ["main"])
    with pytest.raises(errors.Conflict, match=r"session main.*--rename main=OTHER"):
        target.import_(bundle)
    target.import_(bundle, names={"main": "theirs"})
    assert target.verify().ok, target.verify().problems
    assert target.session("theirs").uid == source.session("main").uid
    assert "theirs" in [each.name for each in target.sessions()]
    ours = [each.record.id for each in source.runs(session="main")]
    assert [each.record.id for each in target.runs(session="theirs")] == ours != []
    assert target.import_(bundle).added == 0  # it is known by its identity, not by its name
    target.export(tmp_path / "on", ["theirs"])
    with perdure.open(f"sqlite:///{tmp_path}/third.db") as third:
        third.import_(tmp_path / "on")
        assert [each.record.id for each in third.runs(session="theirs")] == ours
        assert third.verify().ok


def test_a_bundle_never_says_for_which_tenant_it_is(source, tmp_path, bundle):
    source.session("a").say("user", "hello")
    source.export(bundle, ["a"])
    url = f"sqlite:///{tmp_path}/tenants.db"
    with perdure.open(url, tenant="acme") as acme, perdure.open(url, tenant="other") as other:
        assert acme.import_(bundle).tenant == "acme"
        assert [each.name for each in acme.sessions()] == ["a"]
        assert not other.sessions()
        assert other.import_(bundle).tenant == "other"  # and it is not told that another one has it


@pytest.mark.parametrize(
    ("names", "path"), [({"b": "c"}, "rename b"), ({"a": ""}, "rename a"), ({"a": "x\n"}, "rename a")], ids=str
)
def test_names_that_make_no_sense_are_refused(source, target, bundle, names, path):
    source.session("a")
    source.export(bundle, ["a"])
    with pytest.raises(errors.Invalid) as caught:
        target.import_(bundle, names=names)
    assert caught.value.path == path


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(source, target, bundle):
    furnish(source)
    source.export(bundle, everything=True)
    would = target.import_(bundle, dry_run=True)
    assert would.dry_run
    assert would.added > 20
    assert not target.sessions()
    assert target.import_(bundle).added == would.added


def test_what_does_not_exist_is_not_exported_and_nothing_is_overwritten(source, bundle):
    for chosen in ({"sessions": ["x"]}, {"scopes": ["x"]}, {"runs": ["x"]}, {}):
        with pytest.raises(errors.NotFound):
            source.export(bundle, **chosen)
    assert not bundle.exists()
    bundle.write_text("mine")
    source.session("a")
    with pytest.raises(errors.Conflict):
        source.export(bundle, ["a"])
    assert bundle.read_text() == "mine"


# -- a copy never acts ---------------------------------------------------------------------------------------------------------

SENT: list[str] = []


@perdure.tool(kind="idempotent")
def post(text: str) -> str:
    SENT.append(text)
    return text


@perdure.tool
def pay(amount: int) -> int:
    SENT.append(f"pay {amount}")
    return amount


@perdure.agent(name="sender")
def sender(run: perdure.Run) -> str:
    run.act(post, "first")
    if run.ask("Go on?", choices=["yes", "no"]) == "yes":
        run.act(pay, 7)
    return "done"


def waiting_run(store):
    handle = store.start(sender, key="k", session="a")
    with pytest.raises(errors.Waiting):
        store.drive(sender, key="k", session="a")
    return handle


def test_an_imported_run_is_parked_and_nobody_drives_it(source, target, bundle):
    SENT.clear()
    handle = waiting_run(source)
    source.export(bundle, ["a"])
    done = target.import_(bundle)
    assert [(each.kind, each.parked) for each in done.streams] == [("session", False), ("run", True)]
    copy = target.run(handle.record.id)
    assert (copy.record.status, copy.record.reason) == (RunStatus.PARKED, "imported")
    target.recover()
    with pytest.raises(errors.Imported, match="unpark"):
        target.drive(sender, key="k", session="a")
    for verb in (copy.resume, copy.retry, copy.cancel):
        with pytest.raises(errors.Conflict, match="copy"):
            verb()
    assert SENT == ["first"]
    assert target.verify().ok


def test_an_imported_run_that_nobody_has_driven_yet_is_parked_too(source, target, bundle):
    handle = source.start(sender, key="k", session="a")
    source.export(bundle, ["a"])
    target.import_(bundle)
    assert target.run(handle.id).record.reason == "imported"
    with pytest.raises(errors.Imported):
        target.drive(sender, key="k", session="a")


@needs("perdure-files")
def test_a_copy_stays_a_copy_when_a_files_store_makes_its_tables_anew(source, bundle, tmp_path):
    handle = waiting_run(source)
    source.export(bundle, ["a"])
    url = f"files:///{tmp_path}/files"
    with perdure.open(url) as store:
        store.import_(bundle, names={"a": "theirs"})
    shutil.rmtree(tmp_path / "files" / ".perdure")
    with perdure.open(url) as store:
        assert store.run(handle.record.id).record.reason == "imported"
        assert store.run(handle.record.id).record.session == "theirs"
        assert store.verify().ok


def test_a_copy_grows_with_its_original_as_long_as_nobody_goes_on_with_it(source, target, bundle, tmp_path):
    handle = waiting_run(source)
    source.export(bundle, ["a"])
    target.import_(bundle)
    source.answer(source.asks()[0].id, "no", by="alice")
    assert source.drive(sender, key="k", session="a") == "done"
    source.export(tmp_path / "longer", ["a"])
    assert target.import_(tmp_path / "longer").added > 0
    assert target.run(handle.record.id).record.status is RunStatus.COMPLETED
    assert target.verify().ok


@pytest.mark.parametrize("first", ["the session", "the run alone"])
def test_a_run_that_grows_stays_with_the_session_that_it_has_here(source, target, bundle, tmp_path, first):
    handle = waiting_run(source)
    alone = {"runs": [handle.record.id]}
    together = {"sessions": ["a"]}
    source.export(bundle, **(together if first == "the session" else alone))
    target.import_(bundle, names={"a": "theirs"} if first == "the session" else {})
    here = target.run(handle.record.id).record.session
    source.answer(source.asks()[0].id, "no", by="alice")
    source.drive(sender, key="k", session="a")
    source.export(tmp_path / "longer", **(alone if first == "the session" else together))
    target.import_(tmp_path / "longer", names={} if first == "the session" else {"a": "theirs"})
    assert target.run(handle.record.id).record.status is RunStatus.COMPLETED
    assert target.run(handle.record.id).record.session == here
    assert target.verify().ok, target.verify().problems


def test_a_run_that_comes_alone_joins_no_other_session_of_that_name(source, target, bundle):
    handle = waiting_run(source)
    target.session("a").say("user", "another one of that name")
    source.export(bundle, runs=[handle.id])
    for dry_run in (True, False):
        (came,) = target.import_(bundle, dry_run=dry_run).streams
        assert came.without == "a"
    assert target.run(handle.id).record.session is None
    assert target.runs(session="a") == []
    assert target.import_(bundle).streams[0].without == "a"
    assert target.verify().ok, target.verify().problems


def test_a_run_that_comes_alone_joins_its_own_session_whatever_that_is_called_here(source, target, bundle, tmp_path):
    source.session("a").say("user", "before there was a run")
    source.export(tmp_path / "before", ["a"])
    target.import_(tmp_path / "before", names={"a": "theirs"})
    target.session("a").say("user", "another one of that name")
    handle = waiting_run(source)
    source.export(bundle, runs=[handle.id])
    assert target.import_(bundle).streams[0].without == ""
    assert target.run(handle.id).record.session == "theirs"
    assert target.verify().ok, target.verify().problems


def test_a_run_that_comes_alone_does_not_look_into_other_tenants(source, bundle, tmp_path):
    handle = waiting_run(source)
    url = f"sqlite:///{tmp_path}/shared.db"
    source.export(tmp_path / "session", ["a"])
    source.export(bundle, runs=[source.start(sender, key="other", session="a").id])
    with perdure.open(url, tenant="one") as one, perdure.open(url, tenant="two") as two:
        assert len(one.import_(tmp_path / "session").streams) == 2
        (came,) = two.import_(bundle).streams
        assert (came.without, two.run(came.name).record.session) == ("a", None)
        assert one.run(handle.id).record.session == "a"


def test_a_copy_that_a_person_lets_go_on_asks_before_it_sends_what_its_original_may_have_sent(
    source, target, bundle, tmp_path
):
    SENT.clear()
    handle = waiting_run(source)
    source.export(bundle, ["a"])
    target.import_(bundle)
    copy = target.run(handle.record.id)
    copy.unpark()
    target.answer(target.asks()[0].id, "yes", by="bob")
    source.answer(source.asks()[0].id, "yes", by="alice")
    assert source.drive(sender, key="k", session="a") == "done"
    with pytest.raises(errors.Waiting):  # its original may have paid: a person says
        target.drive(sender, key="k", session="a")
    assert SENT == ["first", "pay 7"]
    assert target.verify().ok
    source.export(tmp_path / "longer", ["a"])
    with pytest.raises(errors.Conflict, match=f"run {handle.record.id} seq"):
        target.import_(tmp_path / "longer")


def test_what_was_planned_or_under_way_in_a_session_is_doubt_in_the_copy(source, target, bundle):
    SENT.clear()
    session = source.session("a")
    session.begin("pay", {"amount": 1}, kind="unsafe", key="planned")
    session.begin("pay", {"amount": 2}, kind="unsafe", key="sent").dispatch()
    source.export(bundle, ["a"])
    target.import_(bundle)
    target.session("a").unpark()
    with pytest.raises(errors.Conflict, match="in_doubt"):
        target.session("a").begin("pay", {"amount": 1}, kind="unsafe", key="planned").dispatch()
    target.recover()
    assert [each.state for each in target.effects()] != [EffectState.COMMITTED] * 2
    assert not SENT


# -- dying in the middle -------------------------------------------------------------------------------------------------------

IMPORT = "import sys, perdure\nperdure.open(sys.argv[1]).import_(sys.argv[2])"
EXPORT = "import sys, perdure\nperdure.open(sys.argv[1]).export(sys.argv[2], everything=True)"


def killed(program: str, point: str, *args: object) -> None:
    env = {**os.environ, "PERDURE_CRASH_AT": point}
    done = subprocess.run([sys.executable, "-c", program, *map(str, args)], env=env, check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize("point", ["import.carried:1", "import.page:1", "import.page:3", "lane.before_commit:1"])
def test_an_import_that_is_killed_leaves_nothing_and_is_repeated(source, bundle, tmp_path, point):
    furnish(source)
    source.export(bundle, everything=True)
    url = f"sqlite:///{tmp_path}/killed.db"
    perdure.open(url).close()
    killed(IMPORT, point, url, bundle)
    with perdure.open(url) as store:
        assert not store.sessions()
        assert store.import_(bundle).added > 0
        assert store.verify().ok


def test_an_export_that_is_killed_leaves_no_bundle(source, bundle, tmp_path):
    furnish(source)
    killed(EXPORT, "copy.filled:1", f"sqlite:///{tmp_path}/source.db", bundle)
    assert not bundle.exists()
    source.export(bundle, everything=True)


def test_what_is_damaged_does_not_travel(source, bundle, tmp_path):
    source.session("a").say("user", "hello")
    core = source._caller.core
    core.lane.borrow(lambda connection: connection.raw.execute("DROP TRIGGER events_fixed"))
    core.lane.borrow(lambda connection: connection.raw.execute("UPDATE events SET actor = 'eve' WHERE seq = 2"))
    with pytest.raises(errors.Damaged, match="session a seq 2"):
        source.export(bundle, ["a"])
    assert not Path(bundle).exists()


def test_a_fork_of_a_copy_whose_checkpoint_a_longer_bundle_pruned_says_so(tmp_path):
    """Its original knows nothing of the fork; the fork is given no older state in silence."""
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as source, perdure.open(f"sqlite:///{tmp_path}/b.db") as target:
        session = source.session("main")
        session.checkpoint({"at": 1})
        session.checkpoint({"at": 2})
        source.export(tmp_path / "short.perdure", ["main"])
        target.import_(tmp_path / "short.perdure")
        fork = target.session("main").fork(name="fork")
        assert fork.restore() == {"at": 2}
        session.checkpoint({"at": 3})
        source.retain(Retention(checkpoints=1), dry_run=False)
        source.export(tmp_path / "long.perdure", ["main"])
        target.import_(tmp_path / "long.perdure")
        assert target.session("main").restore() == {"at": 3}
        with pytest.raises(errors.NotFound, match="pruned"):
            fork.restore()
        report = target.verify()
        assert report.ok, report

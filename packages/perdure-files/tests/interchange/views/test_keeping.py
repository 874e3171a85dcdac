"""The views beside a files store: brought up to date, never over an edit, never half, and no name leaves the folder."""

from __future__ import annotations

import hashlib
import threading

import pytest
from hypothesis import given

import perdure
from interchange.views.generated import names
from perdure.errors import Unavailable
from perdure.runtime.callers import caller_of
from perdure_files.store.page_digest import is_edited, is_untouched
from perdure_files.views import page_keeper
from perdure_files.views.folder import stem
from perdure_files.views.gather import gather


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "state"


def work(folder, **options):
    return perdure.open(f"files:///{folder}", **options)


def test_closing_a_store_that_wrote_brings_them_up_to_date(folder, monkeypatch):
    monkeypatch.setattr(page_keeper, "EVERY_SECONDS", 10**6)  # whatever the machine does: nobody looks before
    with work(folder) as store:
        store.session("a", goal="first").say("user", "hello")
        assert not (folder / "views").exists()
    page = folder / "views" / "a.md"
    assert "> first" in page.read_text()
    assert "turn.said: hello" in page.read_text()
    assert "| [a](a.md) |" in (folder / "views" / "README.md").read_text()
    with work(folder) as store:
        store.session("a").goal = "second"
    assert "> second" in page.read_text()
    assert all(is_untouched(each.read_bytes()) for each in (folder / "views").iterdir())


def test_a_page_says_which_tool_acted_and_what_was_attached(folder):
    with work(folder) as store:
        session = store.session("a")
        session.act(pay, 7, key="k")
        session.attach("build.log", b"...")
        session.checkpoint({"cursor": 7}, name="before")
    page = (folder / "views" / "a.md").read_text()
    assert 'effect.dispatched: pay: {"amount": 7}' in page
    assert 'effect.committed: 2: {"paid": 7}' in page
    assert "artifact.attached: build.log" in page
    assert "checkpoint.saved: before" in page


@perdure.tool
def pay(amount: int) -> dict[str, int]:
    return {"paid": amount}


def test_reading_and_closing_writes_nothing(folder):
    with work(folder) as store:
        store.session("a")
    page = folder / "views" / "a.md"
    before = page.stat().st_mtime_ns
    for read_only in (True, False):
        with work(folder, read_only=read_only) as store:
            store.session("a").turns()
    assert page.stat().st_mtime_ns == before


def test_a_session_that_did_not_move_is_not_read_again(folder, monkeypatch):
    with work(folder) as store:
        store.session("a")
        store.session("b")
    read = []
    monkeypatch.setattr(page_keeper, "gather", lambda reads, stream: read.append(stream.name) or gather(reads, stream))
    with work(folder) as store:
        store.session("b").say("user", "more")
    assert read == ["b"]


def test_a_page_that_was_edited_is_left_and_told(folder, caplog):
    with work(folder) as store:
        store.session("a", goal="first")
    page = folder / "views" / "a.md"
    page.write_text(page.read_text().replace("> first", "> mine"))
    mine = page.read_bytes()
    with work(folder) as store:
        store.session("a").goal = "second"
    assert page.read_bytes() == mine
    assert "was edited by hand" in caplog.text


def test_pages_of_forms_that_once_were_go_unless_somebody_edited_them(folder):
    with work(folder) as store:
        store.session("a", goal="first")
    body = b"# perdure view 1 of a session\ngoal: x\n"
    seal = hashlib.sha256(body).hexdigest()[:32].encode()
    untouched, edited, own = (folder / "views" / name for name in ("a.yaml", "a.tsv", "notes.tsv"))
    untouched.write_bytes(body + b"# perdure digest " + seal + b"\n")
    edited.write_bytes(body + b"mine\n# perdure digest " + seal + b"\n")
    own.write_text("notes of somebody")
    with work(folder) as store:
        store.session("a").goal = "second"
    assert [path.exists() for path in (untouched, edited, own)] == [False, True, True]


def test_an_older_page_that_git_brought_back_is_no_edit(folder):
    with work(folder) as store:
        store.session("a", goal="first")
    page = folder / "views" / "a.md"
    old = page.read_bytes()
    with work(folder) as store:
        store.session("a").goal = "second"
    page.write_bytes(old.replace(b"\n", b"\r\n"))
    with work(folder) as store:
        store.session("a").goal = "third"
    assert "> third" in page.read_text()


@pytest.mark.parametrize("remains", [b"", b"\0" * 100])
def test_what_a_power_loss_left_is_no_edit(folder, remains):
    with work(folder) as store:
        store.session("a", goal="first")
    (folder / "views" / "a.md").write_bytes(remains)
    with work(folder) as store:
        store.session("a").goal = "second"
    assert "> second" in (folder / "views" / "a.md").read_text()
    assert not is_edited(remains)


def test_a_long_lived_store_keeps_them_by_a_thread(folder, monkeypatch):
    monkeypatch.setattr(page_keeper, "EVERY_SECONDS", 0.0)
    monkeypatch.setattr(page_keeper, "REST_TIMES", 0)
    with work(folder) as store:
        await_looks()  # who comes while one looks is seen by the next, and to open it was a commit
        store.session("a", goal="first")
        await_looks()
        assert (folder / "views" / "a.md").exists()


def await_looks():
    for thread in threading.enumerate():
        if thread.name == "perdure-views":
            thread.join()


class Clock:
    """Time as the keeper sees it: it goes on when a test says so."""

    def __init__(self) -> None:
        self.now = self.worked = 0.0

    def monotonic(self) -> float:
        return self.now

    def thread_time(self) -> float:
        return self.worked


@pytest.mark.parametrize(("cost", "rest"), [(0.01, 5.0), (4.0, 80.0)])
def test_a_keeper_rests_in_proportion_to_what_its_work_costs(monkeypatch, cost, rest):
    clock, looks = Clock(), []

    class Costly(page_keeper.Keeper):
        def _keep(self, *, all_sessions: bool = False) -> None:
            looks.append(all_sessions)
            clock.now, clock.worked = clock.now + cost, clock.worked + cost

        def noticed(self, later: float) -> int:
            clock.now += later
            self.notice()
            if self._thread is not None:
                self._thread.join()
            return len(looks)

    monkeypatch.setattr(page_keeper, "time", clock)
    keeper = Costly(None)  # type: ignore[arg-type] - it asks nothing of the store here
    assert keeper.noticed(page_keeper.EVERY_SECONDS + 0.001) == 1
    assert keeper.noticed(rest - 0.001) == 1
    assert keeper.noticed(0.002) == 2
    keeper.notice()
    keeper.finish()
    assert len(looks) == 3  # what was noticed while it rested is on the pages when the store is closed


def test_the_page_of_a_session_that_is_no_more_goes_unless_it_was_edited(folder):
    """As after a checkout of a time before the session; notes of somebody's own are nobody's business."""
    with work(folder) as store:
        store.session("a", goal="first")
    page = folder / "views" / "a.md"
    gone, edited, notes = (page.with_name(f"{name}.md") for name in ("gone", "edited", "notes"))
    gone.write_bytes(page.read_bytes())
    edited.write_text(page.read_text().replace("> first", "> second"))
    notes.write_text("mine")
    with work(folder) as store:
        core = caller_of(store).core
        kept = page_keeper.keep(core, core.tenant_id("default"), all_sessions=True)
    assert (kept.removed, kept.edited) == ([gone], [edited])
    assert [each.exists() for each in (page, gone, edited, notes)] == [True, False, True, True]


def test_what_fails_here_costs_no_commit_and_no_close(folder, monkeypatch, caplog):
    def broken(*_, **_options):
        raise Unavailable("no disk")

    monkeypatch.setattr(page_keeper, "keep", broken)
    with work(folder) as store:
        store.session("a").say("user", "hello")
    assert "the views are behind" in caplog.text
    with work(folder, read_only=True) as store:
        assert len(store.session("a").turns()) == 1


def test_a_crash_between_the_pages_leaves_whole_ones(folder, monkeypatch):
    with work(folder) as store:
        store.session("a", goal="first")
    real, calls = page_keeper.Folder.replace, []

    def dying(self, path, data):
        calls.append(path)
        if len(calls) == 2:
            raise OSError("killed")
        real(self, path, data)

    monkeypatch.setattr(page_keeper.Folder, "replace", dying)
    with work(folder) as store:
        store.session("a").goal = "second"
    assert all(is_untouched(each.read_bytes()) for each in (folder / "views").iterdir())
    monkeypatch.undo()
    with work(folder) as store:
        store.session("b")
    assert "second" in (folder / "views" / "a.md").read_text()


def test_other_tenants_have_a_folder_of_their_own(folder):
    for tenant in ("default", "acme"):
        with work(folder, tenant=tenant) as store:
            store.session("a", goal=tenant)
    assert "> default" in (folder / "views" / "a.md").read_text()
    assert "> acme" in (folder / "views" / "@acme" / "a.md").read_text()


def test_hostile_names_stay_in_the_folder_and_apart(folder):
    odd = [
        "../x",
        "..",
        ".",
        "A",
        "a",
        "README",
        "readme",
        "con",
        "\xe9",
        "e\u0301",
        "x" * 200,
        "a/b",
        "a\\b",
        ".hidden",
        "a.md",
        "~",
    ]
    with work(folder) as store:
        for name in odd:
            store.session(name, goal=name)
    views = folder / "views"
    pages = list(views.glob("*.md"))
    assert len(pages) == len(odd) + 1
    assert len({page.name.lower() for page in pages}) == len(pages)
    assert {each.name for each in folder.iterdir()} <= {"log", "views", "blobs", ".perdure", ".gitattributes"}


@given(name=names, other=names)
def test_no_two_names_share_a_file(name, other):
    found = stem(name)
    assert found
    assert found == found.lower()
    assert not set(found) - set("abcdefghijklmnopqrstuvwxyz0123456789_.-~")
    assert not found.startswith(".")
    assert (stem(other) == found) == (name == other)

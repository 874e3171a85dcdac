"""Edits on a page: each becomes its verb, all or none; what moved is a Conflict; what cannot be is Invalid with its line."""

from __future__ import annotations

import pytest

import perdure
from perdure.errors import Conflict, Error, Invalid, NotFound
from perdure.planes.audit import history
from perdure.runtime.callers import caller_of
from perdure.stores.core import open_core
from perdure_files.store.page_digest import is_edited
from perdure_files.views import apply as applying
from perdure_files.views.apply import apply_view
from perdure_files.views.gather import gather
from perdure_files.views.page_keeper import find, write_to
from perdure_testing.clock import FakeClock


class Desk:
    """A files store, and its pages as a person has them open."""

    def __init__(self, folder):
        self.url = f"files:///{folder}"
        self.views = folder / "views"

    def page(self):
        return self.views / "work.md"

    def edit(self, *changes):
        text = self.page().read_text("utf-8")
        for old, new in changes:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        self.page().write_text(text, "utf-8")

    def apply(self, **options):
        core = open_core(self.url)
        try:
            return apply_view(core, core.tenant_id("default"), "ann", self.page(), **options).changes
        finally:
            core.close()

    def look(self):
        with perdure.open(self.url, read_only=True) as store:
            return store.session("work").info().last_seq

    def session(self):
        store = perdure.open(self.url)
        return store, store.session("work")


@pytest.fixture
def desk(tmp_path):
    with perdure.open(f"files:///{tmp_path}/state") as store:
        session = store.session("work", title="Fix login", goal="Make it work")
        session.task("First")
        session.task("Second", priority=2)
        session.decide("Use A", because="B breaks")
        session.set("branch", "fix/login")
        session.set("brief", "x", ttl="1h")
        session.emit("deploy.done", {"to": "prod"})
    return Desk(tmp_path / "state")


EDITS = [
    ("> Make it work", "> Make it work\n> on Safari"),
    ("- [ ] **3** First", "- [x] **3** First\n  - note: easy"),
    ("- [ ] **4** Second", "- [!] **4** Second\n  - note: waits for a key"),
    ("  - because: B breaks", "  - because: B breaks\n  - outcome: it held"),
    ('- branch v1 = "fix/login"', '- branch v1 = "main"\n- new.one = {"a": 1}'),
    ("## Values", "- [ ] Third\n  - priority: 5\n\n## Values"),
    ("## Tasks", '- Use C\n  - because: A is slow\n  - tags: ["speed"]\n\n## Tasks'),
]


def test_every_edit_becomes_its_verb_in_one_transaction(desk):
    desk.edit(*EDITS)
    would = desk.apply(dry_run=True)
    assert len(desk.apply()) == len(would) == 8
    store, session = desk.session()
    with store:
        assert session.goal == "Make it work\non Safari"
        tasks = {task.title: task for task in session.tasks()}
        assert (tasks["First"].status, tasks["First"].note) == ("done", "easy")
        assert (tasks["Second"].status, tasks["Second"].note) == ("blocked", "waits for a key")
        assert tasks["Third"].priority == 5
        made = {decision.text: decision for decision in session.decisions()}
        assert (made["Use A"].outcome, made["Use C"].because, made["Use C"].tags) == (
            "it held",
            "A is slow",
            ("speed",),
        )
        assert (session.get("branch"), session.get("new.one")) == ("main", {"a": 1})
        new = session.events(after=8)
        assert {event.actor for event in new} == {"ann"}
        assert new[-1].kind == "view.applied"
        assert len(new[-1].data["changes"]) == 8
        assert {each.seq for each in new[-1].refs} >= {3, 4, 5}
        assert store.verify().ok
    assert not is_edited(desk.page().read_bytes())


def test_applying_again_changes_nothing_after_a_crash_too(desk):
    desk.edit(*EDITS)
    before = desk.page().read_bytes()
    assert desk.apply()
    at = desk.look()
    assert desk.apply() == []  # the page as it was brought up to date
    desk.page().write_bytes(before)  # a crash before that
    assert desk.apply() == []
    assert desk.look() == at
    assert not is_edited(desk.page().read_bytes())


def test_a_page_that_is_saved_again_with_more_in_it_adds_only_that(desk):
    desk.edit(("## Values", "- [ ] Third\n\n## Values"))
    open_in_editor = desk.page().read_text()
    desk.apply()
    desk.page().write_text(open_in_editor.replace("- [ ] Third\n", "- [ ] Third\n- [ ] Fourth\n"))
    assert desk.apply() == ["new task: Fourth"]


def test_what_somebody_else_moved_is_a_conflict_and_nothing_is_applied(desk):
    desk.edit(("- [ ] **3** First", "- [-] **3** First"), ("> Make it work", "> Other"))
    store, session = desk.session()
    with store:
        next(task for task in session.tasks() if task.id == 3).done("by another")
    at = desk.look()
    with pytest.raises(Conflict, match="task 3 has changed since") as caught:
        desk.apply()
    assert caught.value.path.startswith(f"{desk.page()}:")
    with pytest.raises(Conflict):
        desk.apply(dry_run=True)
    assert desk.look() == at


REFUSED = {
    "a need that is not there": ("## Values", "- [ ] Third\n  - needs: [99]\n\n## Values"),
    "a need that is no task": ("## Values", '- [ ] Third\n  - needs: ["one"]\n\n## Values'),
    "a parent that is not there": ("## Values", "- [ ] Third\n  - parent: 99\n\n## Values"),
    "a title that is too long": ("## Values", f"- [ ] {'x' * 200_000}\n\n## Values"),
    "a value twice": ("## Values\n", "## Values\n\n- one = 1\n- one = 2\n"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_a_verb_refuses_a_dry_run_refuses_too_with_its_line(desk, what):
    desk.edit(REFUSED[what])
    at, said = desk.look(), []
    for dry_run in (True, False):
        with pytest.raises(Error) as caught:
            desk.apply(dry_run=dry_run)
        said.append((caught.value.path, caught.value.message))
    assert said[0] == said[1]
    assert said[0][0].startswith(f"{desk.page()}:")
    assert desk.look() == at


def test_what_nobody_moved_is_applied_to_what_went_on(desk):
    desk.edit(("- [ ] **3** First", "- [x] **3** First"))
    store, session = desk.session()
    with store:
        session.say("user", "meanwhile")
        session.set("branch", "else")
    assert desk.apply() == ["task 3: todo → done"]


def test_an_apply_that_ignores_the_base_event_is_caught(desk, monkeypatch):
    """The control of the conflict: compared with what is now, the other's change would be undone in silence."""
    desk.edit(("> Make it work", "> Make it work, quickly"))
    store, session = desk.session()
    with store:
        session.goal = "Something else"
    with pytest.raises(Conflict):
        desk.apply()
    monkeypatch.setattr(applying, "_check_unmoved", lambda *_: None)
    assert desk.apply() == ["goal: Make it work, quickly"]


def test_the_same_addition_on_two_pages_is_made_twice_and_on_one_page_once(desk):
    """What was applied is known by the event that its page was made at."""
    older = desk.page().with_name("older.md")
    older.write_text(desk.page().read_text().replace("## Values", "- [ ] Third\n\n## Values"))
    store, session = desk.session()
    with store:
        session.say("user", "more")
    desk.edit(("## Values", "- [ ] Third\n\n## Values"))
    core = open_core(desk.url)
    try:
        made = [
            apply_view(core, core.tenant_id("default"), "ann", page).changes for page in (desk.page(), older, older)
        ]
    finally:
        core.close()
    assert made == [["new task: Third"], ["new task: Third"], []]


def test_a_new_value_that_somebody_else_has_set_since_is_a_conflict(desk):
    desk.edit(('- branch v1 = "fix/login"', '- branch v1 = "fix/login"\n- new.one = 1'))
    store, session = desk.session()
    with store:
        session.set("new.one", 2)
    with pytest.raises(Conflict):
        desk.apply()
    store, session = desk.session()
    with store:
        assert session.get("new.one") == 2


def test_what_is_typed_while_the_page_is_applied_stays(desk, monkeypatch):
    desk.edit(("> Make it work", "> Make it work, quickly"))
    record = applying.record

    def slowly(*args):
        desk.edit(("- [ ] **3** First", "- [x] **3** First"))
        return record(*args)

    monkeypatch.setattr(applying, "record", slowly)
    assert desk.apply() == ["goal: Make it work, quickly"]
    monkeypatch.undo()
    assert desk.apply() == ["task 3: todo → done"]


def test_a_page_of_another_history_is_a_conflict(desk):
    desk.edit((" at event 8 ", " at event 7 "))
    with pytest.raises(Conflict, match="another history"):
        desk.apply()


@pytest.mark.parametrize("kind", ["nothing", "scope"])
def test_a_page_of_no_session_here(desk, kind):
    with perdure.open(desk.url) as store:
        store.scope("shared").set("a", 1)
        scope = caller_of(store).write(lambda tx: tx.find_stream("scope", "shared"))
    text = desk.page().read_text()
    at = text.index(" uid ") + 5
    uid = scope.uid.hex() if kind == "scope" else "0" * 32
    desk.page().write_text(text[:at] + uid + text[at + 32 :])
    with pytest.raises(NotFound, match="no session"):
        desk.apply()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("**3** First", "**3** Renamed", "title of a task cannot"),
        ("- [ ] **3** First", "", "task 3 was taken off"),
        ("- [ ] **3** First", "- [>] **3** First", "does not become doing"),
        ("- [ ] **3** First", "- [!] **3** First", "blocked by something"),
        ("- [ ] **3** First", "- [?] **3** First", "a task stands as in"),
        ("- [ ] **3** First", "- [ ] **3** First\n  - note: just so", "when a task is moved"),
        ("- [ ] **3** First", "- [ ] **3** First\n- [ ] **3** First", "stands here twice"),
        ("- [ ] **3** First", "- [ ] **3** First\n- [ ] **99** X", "no task 99"),
        ("- [ ] **3** First", "- [ ] **3** First\n- [x] X", "a new task is todo"),
        ("- [ ] **3** First", "- [ ] **3** First\nhello", "a task stands as in"),
        ("- [ ] **3** First", "- [ ] **3** First\n- [ ] X\n  - needs: [99]", "no task 99"),
        ("- [ ] **3** First", "- [ ] **3** First\n- [ ] X\n  - priority: high", "whole number"),
        ("- [ ] **3** First", "- [ ] **3** First\n- [ ] X\n  - labels: [1]", "list of texts"),
        ("open: Use A", "superseded: Use A", "closed with what came of it"),
        ("  - because: B breaks", "  - because: other", "because of a decision cannot"),
        ("## Tasks", "- Use D\n\n## Tasks", "needs its because"),
        ('= "fix/login"', "= fix/login", "no value"),
        ('= "fix/login"', '= {"a": 1, "a": 2}', "no value"),
        ("deploy.done", "deploy.undone", "cannot be changed"),
        ("- title: Fix login", "- title: Other", "title of a session cannot"),
        ("## Values", "## Valves", "no such section"),
        ("perdure view 1", "perdure view 2", "format 2"),
        ("> Make it work", "Make it work", "lines that begin with >"),
        ("> Make it work", "> \\u{d800}", "no character"),
    ],
)
def test_what_cannot_be_is_invalid_with_its_line_and_nothing_is_applied(desk, old, new, says):
    desk.edit((old, new))
    if "Make it work" not in old:
        desk.edit(("> Make it work", "> Another goal"))
    at = desk.look()
    with pytest.raises((Invalid, NotFound), match=says) as caught:
        desk.apply()
    line = caught.value.path.removeprefix(f"{desk.page()}:").split(" ")[0]
    assert line.isdecimal()
    assert desk.look() == at


def test_the_same_event_gives_the_same_page_however_it_is_read(tmp_path):
    clock = FakeClock()
    with perdure.open(f"files:///{tmp_path}/state", clock=clock) as store:
        session = store.session("work", goal="g")
        session.set("brief", 1, ttl="1s")
        session.task("a").claim(ttl="1s")
        session.decide("x", because="y").close("z")
        clock.advance(3600)
        core = caller_of(store).core
        stream = find(core, "work", caller_of(store).tenant)
        now = core.read(gather, stream, tenant=caller_of(store).tenant)
        past = core.read(history.view, stream, now.head.seq, core, tenant=caller_of(store).tenant)
        then = past.core.read(gather, past.stream, tenant=past.tenant)
        assert now.same_as(then)


def test_a_page_of_any_store_is_applied(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        store.session("work").task("First")
        core, tenant = caller_of(store).core, caller_of(store).tenant
        write_to(core, tenant, tmp_path / "pages")
        page = tmp_path / "pages" / "work.md"
        page.write_text(page.read_text().replace("- [ ]", "- [x]"))
        assert apply_view(core, tenant, "ann", page).changes == ["task 2: todo → done"]
        assert "- [x] **2** First" in page.read_text()

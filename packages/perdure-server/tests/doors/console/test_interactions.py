"""Everything that people do in the console, in a real browser, while somebody else acts: on SQLite, two on PostgreSQL, too.

With PERDURE_ROUNDS all of them on both.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import perdure
from doors.console import scene
from doors.console.conftest import Console, copied, served
from perdure.stores.url import parse
from planes.tampering import Intruder

QUIET = "**/v1/console/live"  # a tab that hears nothing of what others do


@pytest.fixture(params=["sqlite", "postgres"])
def asking(request: pytest.FixtureRequest, tmp_path: Path, browser: Any) -> Iterator[Console]:
    """A store in which a run asks, another wants an approval, and a third is in doubt; on both databases."""
    url = f"sqlite:///{tmp_path}/asking.db" if request.param == "sqlite" else request.getfixturevalue("postgres_store")
    with perdure.open(url, actor="release-bot") as store:
        scene.drive(store, scene.release, "2.4.1", key="r")
    scene.leave_doubt(url)
    with served(url) as console:
        yield console


def run_of(url: str, agent: str) -> str:
    with perdure.open(url, read_only=True) as store:
        return next(iter(store.runs(agent=agent))).id


def card(page: Any, text: str) -> Any:
    return page.locator("article", has_text=text)


# -- the inbox -----------------------------------------------------------------------------------------------------------


def test_an_approval_shows_the_very_arguments_and_is_given_once(asking: Console, tab: Any) -> None:
    mine, other = tab(asking), tab(asking)
    other.context.route(QUIET, lambda route: route.abort())
    page, late = mine.at("/inbox"), other.at("/inbox")
    for each in (page, late):
        ask = card(each, "Deploy api 2.4.1")
        assert '"eu-west-1"' in ask.get_by_role("group", name="arguments").inner_text()
        assert "digest" in ask.inner_text()
    with perdure.open(asking.url, read_only=True) as store:
        name = next(iter(store.asks())).id
    assert card(page, "Deploy").get_by_text(f"perdure answer {name} approve").is_visible()
    card(page, "Deploy").get_by_role("button", name="approve").click()
    page.get_by_text("approve, by alice").wait_for()
    card(late, "Deploy").get_by_role("button", name="refuse").click()
    late.get_by_text("Somebody was first").wait_for()
    with perdure.open(asking.url, read_only=True) as store:
        (met,) = store.asks(state="met")
    assert (met.answer, met.met_by) == ("approve", "alice")
    other.faults.clear()  # its stream was cut on purpose


def test_a_doubt_shows_its_evidence_and_two_who_settle_see_who_was_first(asking: Console, tab: Any) -> None:
    mine, other = tab(asking), tab(asking)
    other.context.route(QUIET, lambda route: route.abort())
    page, late = mine.at("/inbox"), other.at("/inbox")
    with perdure.open(asking.url, read_only=True) as store:
        (effect,) = store.effects(in_doubt=True)
    doubt = card(page, "Did charge_card happen?")
    doubt.get_by_text(effect.sent_key).wait_for()  # the key that the other side saw
    doubt.get_by_text("effect.dispatched").wait_for()
    assert "12900" in doubt.get_by_role("group", name="arguments").inner_text()
    if asking.url.startswith("sqlite"):
        assert doubt.get_by_text("proved by its lock file").is_visible()
    card(late, "charge_card").wait_for()
    doubt.get_by_label("If it happened").fill('{"charge": "ch_1"}')
    doubt.get_by_role("button", name="It happened").click()
    page.get_by_text("settled as happened by alice").wait_for()
    card(late, "charge_card").get_by_label("the reason: how you know").fill("asked the bank")
    card(late, "charge_card").get_by_role("button", name="give up").click()
    late.get_by_text("settled by alice").wait_for()
    with perdure.open(asking.url, read_only=True) as store:
        after = store.effect(effect.id).record
    assert (after.state, after.result, after.settled_by) == ("committed", {"charge": "ch_1"}, "alice")
    other.faults.clear()


def test_an_answer_that_came_from_elsewhere_is_told_and_a_text_is_kept_meanwhile(own: Console, tab: Any) -> None:
    page = tab(own).at("/inbox")
    card(page, "Which customers").get_by_label("Your answer").fill("all of")
    with perdure.open(own.url, actor="bob") as store:
        name = next(each.id for each in store.asks() if "Merge" in each.question)
        store.answer(name, "hold")
    page.get_by_text("hold, by bob").wait_for()  # live, without a click
    card(page, "Merge pull request").wait_for(state="detached")
    assert card(page, "Which customers").get_by_label("Your answer").input_value() == "all of"


def test_what_is_no_json_settles_nothing(own: Console, tab: Any) -> None:
    page = tab(own).at("/inbox")
    doubt = card(page, "charge_card")
    doubt.get_by_label("If it happened").fill("{nonsense")
    doubt.get_by_text("This is not JSON").wait_for()
    assert doubt.get_by_role("button", name="It happened").is_disabled()


# -- a run ---------------------------------------------------------------------------------------------------------------


def test_ten_thousand_events_are_few_rows_and_the_state_follows_the_keys(empty: str, tab: Any) -> None:
    run = scene.fill_long(empty, 10_000)
    with served(empty) as console:
        page = tab(console).at(f"/runs/{run}")
        page.get_by_text("10,004 events").wait_for()
        page.get_by_text("After event 10004").wait_for()
        assert page.get_by_role("option").count() <= 300
        page.get_by_role("slider", name="Event").focus()
        page.keyboard.press("ArrowLeft")
        page.get_by_text("After event 10003").wait_for()
        page.wait_for_url("**?at=10003")
        page.get_by_role("listbox").focus()
        page.keyboard.press("Home")
        page.get_by_text("After event 1", exact=True).wait_for()
        assert page.get_by_text("0 steps, 0 effects").is_visible()  # folded there, not remembered
        assert page.get_by_role("option").count() <= 300
        page.goto(f"/runs/{run}?at=5000")
        page.get_by_text("After event 5000").wait_for()
        assert page.get_by_text(f"{5000 - 4:,} steps").is_visible()
        assert page.locator("[aria-selected=true] .seq").inner_text() == "5000"


LANES = "() => document.querySelector('canvas').dataset.lanes"
INK = """row => {
  const canvas = document.querySelector('canvas');
  const ratio = canvas.width / canvas.clientWidth;
  const y = Math.round((10 + row * 25 - 3) * ratio);
  const line = canvas.getContext('2d').getImageData(0, y, canvas.width, 1).data;
  return Array.from({length: canvas.width}, (_, x) => x > 150 * ratio && line[4 * x + 3] > 0).filter(Boolean).length > 5 * ratio;
}"""  # whether more than the cursor is drawn just above the line of a lane, right of its name


def test_branches_and_children_have_lanes_of_their_own(empty: str, tab: Any) -> None:
    run = scene.fill_branches(empty, ["auth", "billing", "search"])
    with served(empty) as console:
        page = tab(console).at(f"/runs/{run}")
        page.get_by_text("After event").wait_for()
        page.get_by_role("list", name="Children").get_by_role("link", name="audit-module").wait_for()
        assert page.evaluate(LANES) == "run|main|1|2|3|↳ audit-module"
        drawn = [page.evaluate(INK, row) for row in range(6)]
        assert all(drawn), drawn
        rows = page.get_by_role("option", name="search_code").all_inner_texts()
        assert [next(word for word in each.split() if word in "123") for each in rows] == ["1", "2", "3"]
        page.locator("canvas").click(
            position={"x": 400, "y": 85}
        )  # between two lanes: the event that is nearest in time
        page.wait_for_url("**?at=*")
        page.get_by_role("link", name="audit-module").click()
        page.get_by_role("heading", name="audit-module").wait_for()
        page.get_by_text("After event").wait_for()
        assert page.evaluate(LANES) == "run|step|effect|wait"  # a run that went one way: by kind


def test_control_a_lane_in_which_nothing_happened_has_no_ink(empty: str, tab: Any) -> None:
    with perdure.open(empty, actor="alice") as store:
        scene.drive(store, scene.research, "cookies", key="r")
    with served(empty) as console:
        page = tab(console).at(f"/runs/{run_of(empty, 'research')}")
        page.get_by_text("After event").wait_for()
        assert [page.evaluate(INK, row) for row in range(4)] == [True, True, False, False]


def test_many_branches_share_the_last_lane(empty: str, tab: Any) -> None:
    run = scene.fill_branches(empty, [f"part-{n}" for n in range(15)])
    with served(empty) as console:
        page = tab(console).at(f"/runs/{run}")
        page.get_by_role("list", name="Children").wait_for()
        names = page.evaluate(LANES).split("|")
    assert [*names[:2], *names[13:]] == ["run", "main", "4 more", "↳ audit-module"]
    assert len({*map(int, names[2:13])} & {*range(1, 16)}) == 11  # which of them come first is up to their threads


def test_a_fork_tells_before_the_click_what_it_would_do_twice(own: Console, tab: Any) -> None:
    run = run_of(own.url, "fix-issue")
    page = tab(own).at(f"/runs/{run}?at=3")
    page.get_by_role("button", name="Fork here").click()
    forecast = page.get_by_role("region", name="Fork at event 3")
    forecast.get_by_text("1 × held for approval").wait_for()
    assert forecast.get_by_text("2 × runs again").is_visible()
    assert forecast.get_by_text("2 × asked again").is_visible()
    forecast.get_by_label("without asking anybody").check()
    forecast.get_by_text("1 × done a second time").wait_for()
    forecast.get_by_label("without asking anybody").uncheck()
    forecast.get_by_label("The other result").fill('{"risk": "high"}')
    forecast.get_by_text(f'perdure fork run:{run} --at 3 --replace \'{{"risk": "high"}}\'').wait_for()
    forecast.get_by_role("button", name="Fork", exact=True).click()
    page.get_by_text("another result at").wait_for()
    with perdure.open(own.url, read_only=True) as store:
        assert next(iter(store.runs(agent="fix-issue"))).record.what_if is not None


def test_what_changed_since_an_event_is_shown(own: Console, tab: Any) -> None:
    page = tab(own).at(f"/runs/{run_of(own.url, 'fix-issue')}?at=5")
    page.get_by_text("What changed since event 5").click()
    page.get_by_role("heading", name="effects").wait_for()
    assert page.locator("details").get_by_text("open_pull_request").first.is_visible()


def test_a_run_is_cancelled_by_its_button_and_names_who_did_it(own: Console, tab: Any) -> None:
    run = run_of(own.url, "fix-issue")
    page = tab(own).at(f"/runs/{run}")
    page.get_by_text("Decide about this run").click()
    page.get_by_text(f"perdure cancel {run}").wait_for()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("run.cancelled").first.wait_for()
    with perdure.open(own.url, read_only=True) as store:
        last = store.run(run).timeline(last=1)[0]
    assert (last.kind, last.actor) == ("run.cancelled", "alice")


# -- sessions, effects, memory, the store ----------------------------------------------------------------------------------


def test_a_session_is_forked_with_what_the_fork_would_not_know(own: Console, tab: Any) -> None:
    page = tab(own).at("/sessions/issue-42")
    page.get_by_role("button", name="Fork here").nth(1).click()
    forecast = page.get_by_role("region", name="Fork after event")
    forecast.get_by_text("does them a second time").wait_for()
    assert forecast.get_by_text("open_pull_request").is_visible()
    forecast.get_by_label("Name of the fork").fill("try-b")
    forecast.get_by_role("button", name="Fork", exact=True).click()
    page.get_by_text("forked from").wait_for()
    page.get_by_role("link", name="compare").click()
    page.get_by_role("heading", name="Difference to try-b").wait_for()
    page.get_by_role("heading", name="said only here").wait_for()


def test_effects_are_found_by_an_argument_and_settled_by_plan(own: Console, tab: Any) -> None:
    with perdure.open(own.url, actor="carol") as store:
        session = store.session("issue-42")
        for n in range(3):
            with contextlib.suppress(perdure.InDoubt):
                session.act(unclear, f"order-{n}", key=f"o{n}")
    page = tab(own).at("/effects")
    page.get_by_label("Key, argument or actor").fill("order-1")
    page.get_by_label("Key, argument or actor").press("Enter")
    page.get_by_text("unclear").first.wait_for()
    page.wait_for_url("**text=order-1")
    page.get_by_text("charge_card").first.wait_for(state="detached")
    page.goto("/effects?tool=unclear&state=in_doubt")
    page.get_by_text("Settle all doubts that match (3)").click()
    page.get_by_label("Reason: how you know").fill("the shop says so")
    page.get_by_role("button", name="Plan").click()
    page.get_by_text("Plan: 3 effects of unclear").wait_for()
    page.reload()
    page.get_by_text("Plan: 3 effects of unclear will be settled as failed").wait_for()  # it outlives a reload
    with perdure.open(own.url, actor="bob") as store:  # somebody settles one of them meanwhile
        next(iter(store.effects(tool="unclear"))).settle(perdure.Happened())
    page.get_by_role("button", name="Execute the plan").click()
    page.get_by_text("2 settled, 1 somebody was first").wait_for()
    with perdure.open(own.url, read_only=True) as store:
        states = sorted(each.state.value for each in store.effects(tool="unclear"))
    assert states == ["committed", "failed", "failed"]


@perdure.tool(name="unclear")
def unclear(order: str) -> None:
    raise OSError(f"no answer about {order}")


DAMAGE = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'events'").fetchall():
    database.execute(f'DROP TRIGGER "{name}"')
database.execute("UPDATE events SET at = at + 1 WHERE seq = 4 AND stream = (SELECT id FROM streams WHERE name = 'issue-42')")
database.commit()
"""


def damage(url: str) -> None:
    """Change an event behind the store's back. Of SQLite in another process: ours has the file open."""
    if url.startswith("sqlite:"):
        subprocess.run([sys.executable, "-c", DAMAGE, url.removeprefix("sqlite:///")], check=True)
        return
    address = parse(url)
    with psycopg.connect(address.conninfo) as connection:
        connection.execute(f'SET search_path = "{address.schema}"')
        connection.execute("SET session_replication_role = replica")  # without the triggers that guard it
        found = "SELECT id FROM streams WHERE name = 'issue-42' AND kind = 'session'"
        connection.execute(f"UPDATE events SET at = at + 1 WHERE seq = 4 AND stream = ({found})")


def test_verify_says_that_all_is_well_and_names_the_first_event_that_is_not(own: Console, tab: Any) -> None:
    here = tab(own)
    page = here.at("/audit")
    page.get_by_role("button", name="Verify").click()
    page.get_by_text("Everything is as it was written").wait_for()
    damage(own.url)
    page.get_by_role("button", name="Verify").click()
    page.get_by_text("issue-42 event 4").first.wait_for()


def test_workers_are_a_tree_of_who_does_what(own: Console, tab: Any) -> None:
    with perdure.open(own.url, actor="worker-1") as store:
        scene.introduce_worker(store)
        page = tab(own).at("/workers")
        page.get_by_role("heading", name="supervisor 4700").wait_for()
        page.get_by_text("fix-issue, release").wait_for()
        page.goto("/health")
        page.get_by_text("every stream ends where its head says").wait_for()


def test_a_memory_says_where_it_came_from(own: Console, tab: Any) -> None:
    page = tab(own).at("/memory?q=cookies")
    memory = card(page, "Safari 17 drops them")
    memory.get_by_text("Why we believe this").click()
    memory.get_by_text("auth.py sets SameSite=None without Secure").wait_for()
    memory.get_by_role("link", name="session issue-42 #").click()
    page.get_by_text("folded from its log").wait_for()


# -- the tab itself ----------------------------------------------------------------------------------------------------------


def test_a_server_that_ends_is_told_and_comes_back_without_a_gap(empty: str, tab: Any) -> None:
    url = empty
    with perdure.open(url, actor="bot") as store:
        scene.drive(store, scene.asks_freely, "First?", key="1")
    with served(url) as console:
        here = tab(console)
        page = here.at("/inbox")
        card(page, "First?").wait_for()
        page.get_by_text("live", exact=True).wait_for()
    page.get_by_text("The server does not answer").wait_for()
    with perdure.open(url, actor="bot") as store:
        scene.drive(store, scene.asks_freely, "Second?", key="2")
    port = int(console.address.rpartition(":")[2])
    with served(url, port, console.serving.secret):
        card(page, "Second?").wait_for()
        page.get_by_text("The server does not answer").wait_for(state="detached")
        here.faults.clear()  # requests that nobody answered
        here.close()


def test_a_link_works_once_and_the_cookie_is_out_of_reach(shown: Console, tab: Any, browser: Any) -> None:
    here = tab(shown)
    (cookie,) = here.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    link = shown.link()
    for answer in ("Now", "Sign in"):
        context = browser.new_context()
        page = context.new_page()
        page.goto(link)
        page.get_by_role("heading", name=answer, exact=True).wait_for()
        context.close()


def test_pages_work_by_keyboard_alone(own: Console, tab: Any) -> None:
    page = tab(own).at("/")
    page.get_by_role("link", name="Merge pull request").wait_for()  # a key that comes before the rows finds none
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("() => document.activeElement.tagName") == "H1"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # the oldest thing that needs a person
    page.get_by_role("heading", name="Inbox").wait_for()
    page.wait_for_url("**/inbox?id=*")
    merge = card(page, "Merge pull request")
    merge.get_by_role("button", name="hold").wait_for()
    page.keyboard.press("Tab")  # from the card to its first link, then to its buttons
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.textContent") == "hold"
    page.keyboard.press("Enter")
    page.get_by_text("hold, by alice").wait_for()


def test_the_page_of_a_damaged_session_or_run_names_the_damage_and_the_way_out(
    filled: Path, tmp_path: Path, tab: Any
) -> None:
    url = f"sqlite:///{copied(filled, tmp_path)}"
    run = run_of(url, "fix-issue")
    for table in ("sessions", "runs"):
        Intruder(url).run(f"UPDATE {table} SET status = 'hurt'")
    with served(url) as console:
        here = tab(console)
        for path, name in (("/sessions/issue-42", "session issue-42"), (f"/runs/{run}", f"run {run}")):
            page = here.at(path)
            caution = page.get_by_text("Damaged:").first
            caution.wait_for()
            for said in (name, "perdure verify", "perdure quarantine"):
                assert said in caution.inner_text(), path
        page.get_by_role("listbox", name="Events").wait_for()
        page.get_by_role("heading", name="After event").wait_for()
        assert page.get_by_text("Damaged:").count() == 2  # of the page, and of the state beside its events

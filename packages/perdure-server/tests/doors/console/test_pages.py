"""Every page in a real browser: accessible, in the light and in the dark, at 320 px, and nothing that the store holds is run."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import perdure
from doors.console import scene
from doors.console.conftest import served

AXE = files("axe_playwright_python") / "axe.min.js"  # a package of the group dev
PAGES = (
    "/",
    "/inbox",
    "/runs",
    "/sessions",
    "/sessions/issue-42",
    "/effects",
    "/workers",
    "/health",
    "/audit",
    "/memory",
    "/settings",
)


# On a small screen: tables that are wider than their card, and cells without a head or out of sight.
HIDDEN = """() => [
  ...[...document.querySelectorAll(".table-box")].filter((box) => box.scrollWidth > box.clientWidth).map(() => "a table goes on"),
  ...[...document.querySelectorAll(".table td + td")].filter((cell) => cell.textContent.replace("–", "")).flatMap((cell) => {
    const head = getComputedStyle(cell, "::before").content;
    const named = [...cell.closest("table").tHead.rows[0].cells].some((each) => `"${each.textContent}"` === head);
    return named && cell.getBoundingClientRect().right <= innerWidth ? [] : [`a cell without its head: ${cell.outerHTML}`];
  }),
]"""


def all_pages(url: str) -> list[str]:
    """The fixed addresses, and the run with a story."""
    with perdure.open(url, read_only=True) as store:
        runs = [f"/runs/{run.id}" for run in store.runs(agent="fix-issue")]
    return [*PAGES, *runs, f"{runs[0]}?at=5"] if runs else list(PAGES)


def settle(page: Any) -> None:
    """Wait until what the page reads has come."""
    page.locator("main h1").wait_for()
    page.get_by_text("Reading…").first.wait_for(state="detached")
    page.get_by_text("Folding the log…").wait_for(state="detached")


def violations(page: Any, *rules: str) -> list[str]:
    only = {"runOnly": list(rules)} if rules else {}
    found = page.evaluate("options => axe.run(options)", {"resultTypes": ["violations"], **only})["violations"]
    return [f"{each['id']}: {[node['html'][:200] for node in each['nodes'][:3]]}" for each in found]


def test_every_page_is_accessible_in_light_and_dark_and_fits_a_small_screen(shown: Any, tab: Any) -> None:
    """All rules of axe in the light; in the dark only colours differ. Then the same page at 320 pixels."""
    here = tab(shown)
    axe = AXE.read_text("utf-8")
    wrong: list[str] = []
    for path in all_pages(shown.url):
        page = here.at(path)
        settle(page)
        page.evaluate(axe)
        wrong += [f"{path}: {each}" for each in violations(page)]
        page.emulate_media(color_scheme="dark")
        wrong += [f"{path} in the dark: {each}" for each in violations(page, "color-contrast")]
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": 320, "height": 640})
        wide, screen = page.evaluate("() => [document.documentElement.scrollWidth, innerWidth]")
        wrong += [f"{path}: {wide} pixels wide on a screen of {screen}"] if wide > screen else []
        wrong += [f"{path}: {hidden}" for hidden in page.evaluate(HIDDEN)]
        page.set_viewport_size({"width": 1280, "height": 720})
    assert not wrong, "\n".join(wrong)


def test_control_axe_finds_a_violation(shown: Any, tab: Any) -> None:
    page = tab(shown).at("/inbox")
    settle(page)
    page.evaluate(AXE.read_text("utf-8"))
    page.evaluate("() => document.querySelector('main').append(document.createElement('button'))")
    assert any("button-name" in each for each in violations(page))


def test_hostile_text_is_shown_and_never_run(tmp_path: Path, tab: Any) -> None:
    url = f"sqlite:///{tmp_path}/hostile.db"
    scene.fill_hostile(url)
    with perdure.open(url, read_only=True) as store:
        names = [each.name for each in store.sessions()]
        runs = [each.id for each in store.runs(limit=4)]
    with served(url) as console:
        here = tab(console)
        paths = [
            "/",
            "/inbox",
            "/runs",
            "/sessions",
            "/effects",
            "/audit",
            "/memory",
            *(f"/runs/{run}" for run in runs),
        ]
        paths += [f"/sessions/{_part(name)}" for name in names]
        for path in paths:
            page = here.at(path)
            settle(page)
            assert page.evaluate("() => window.pwned") is None, path
            assert page.locator("main :is(script, iframe, style, img, object)").count() == 0, path
        page = here.at("/inbox")
        settle(page)
        assert page.get_by_text(scene.HOSTILE[1]).first.is_visible()  # as text, as it was written
        assert page.get_by_text("⟨202E⟩gnp.exe").first.is_visible()  # and what would hide is shown
        for link in page.locator("main a").all():
            assert (link.get_attribute("href") or "").startswith("/")


@pytest.mark.skipif("PERDURE_ROUNDS" not in os.environ, reason="ten thousand strings in a browser: set PERDURE_ROUNDS")
def test_ten_thousand_hostile_strings_are_shown_and_never_run(tmp_path: Path, tab: Any) -> None:
    url = f"sqlite:///{tmp_path}/hostile.db"
    names = scene.fill_generated(url, 10_000)
    with served(url) as console:
        here = tab(console)
        for name in names:
            page = here.at(f"/sessions/{_part(name)}")
            settle(page)
            assert page.evaluate("() => window.pwned") is None, name
            assert page.locator("main :is(script, iframe, style, img, object, svg:not([aria-hidden]))").count() == 0, (
                name
            )
            for link in page.locator("main a").all():
                assert (link.get_attribute("href") or "").startswith("/")


def test_control_what_a_planted_tag_would_do_is_noticed(shown: Any, tab: Any) -> None:
    """The policy stops it and the tab notes that: the test above would fail if markup came through."""
    here = tab(shown)
    page = here.at("/")
    settle(page)
    with page.expect_event("console", lambda said: "Content Security Policy" in said.text):
        page.evaluate("() => { const i = new Image(); i.src = 'https://evil.example/x.png'; document.body.append(i); }")
    with pytest.raises(Exception, match="TrustedHTML"):
        page.evaluate("() => { document.querySelector('h1').innerHTML = '<b>markup</b>'; }")
    assert here.faults
    here.faults.clear()


def _part(name: str) -> str:
    from urllib.parse import quote

    return quote(name, safe="")

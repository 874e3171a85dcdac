"""Pictures of the console, of the scene that its tests look at.

`python packages/perdure-server/tests/doors/console/pictures.py` renews those of the guide (docs/console).
`… FOLDER` takes every page there, in the light and in the dark, wide and at 320 pixels, for the eye of a designer.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from playwright.sync_api import Page, sync_playwright

import perdure
from doors.console import scene
from doors.console.conftest import BROWSERS, served
from doors.console.test_pages import PAGES, settle

DOCS = Path(__file__).parents[5] / "docs" / "console"
WIDE, SMALL = (1120, 760), (320, 640)
PARTS = ("runs", "sessions", "effects", "workers", "health", "audit", "memory")


class Scene(NamedTuple):
    """The addresses of two runs: one with a story, one with branches."""

    story: str
    lanes: str


def come(page: Page, path: str, size: tuple[int, int] = WIDE, scheme: Any = "light") -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.emulate_media(color_scheme=scheme)
    page.goto(path)
    settle(page)
    page.wait_for_timeout(300)  # what is live joins


def of_guide(page: Page, of: Scene) -> None:
    """The pictures that docs/guide/console.md shows."""

    def take(name: str, path: str, size: tuple[int, int] = WIDE, scheme: str = "light", to: str = "") -> None:
        come(page, path, size, scheme)
        if to:
            page.locator(to).last.evaluate("each => each.scrollIntoView()")
        page.screenshot(path=str(DOCS / f"{name}.png"))

    take("now", "/")
    for part in PARTS:
        take(part, f"/{part}")
    take("settings", "/settings", (1120, 1080))
    take("session", "/sessions/issue-42")
    take("inbox", "/inbox", to="main .card:has(.pill.doubt)")
    take("inbox-320", "/inbox", SMALL)
    take("runs-320", "/runs", SMALL, to=".table-box")
    take("run", f"{of.story}?at=11")
    take("run-dark", f"{of.story}?at=11", scheme="dark")
    take("lanes", of.lanes, (1120, 860))
    come(page, f"{of.story}?at=3")
    page.get_by_role("button", name="Fork here").click()
    region = page.get_by_role("region", name="Fork at event 3")
    region.get_by_text("1 × held for approval").wait_for()
    region.evaluate("each => each.scrollIntoView()")
    page.screenshot(path=str(DOCS / "fork.png"))


def of_everything(page: Page, of: Scene, folder: Path) -> None:
    named = {**{path: path.strip("/").replace("/", "-") or "now" for path in PAGES}, of.story: "run", of.lanes: "lanes"}
    for path, name in named.items():
        for scheme in ("light", "dark"):
            come(page, path, scheme=scheme)
            page.screenshot(path=str(folder / f"{name}-{scheme}.png"))
        come(page, path, SMALL)
        page.screenshot(path=str(folder / f"{name}-320.png"), full_page=True)


def main(folder: Path | None) -> None:
    os.chdir(place := tempfile.mkdtemp())
    url = "sqlite:///agent.db"  # no path of this machine is in a picture
    scene.fill(url)
    lanes = scene.fill_branches(url, ["docs", "tests", "callers"])
    with perdure.open(url, read_only=True) as store:
        story = store.run(agent="fix-issue", key="issue-42").id
    found = next(filter(None, map(shutil.which, BROWSERS)))
    with perdure.open(url, actor="worker-1") as worker, served(url) as console, sync_playwright() as playwright:
        scene.introduce_worker(worker)
        browser = playwright.chromium.launch(executable_path=found, args=["--disable-dev-shm-usage", "--disable-gpu"])
        page = browser.new_context(base_url=console.address).new_page()
        page.goto(console.link())
        of = Scene(f"/runs/{story}", f"/runs/{lanes}")
        of_guide(page, of) if folder is None else of_everything(page, of, folder)
        page.goto("about:blank")  # its stream of events ends, so that the server can
        browser.close()
    shutil.rmtree(place)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None)

"""Pictures of the console, of the scene that its tests look at.

`python tests/doors/console/pictures.py` renews those of the guide (docs/console); `… FOLDER` takes every page there, in the light
and in the dark, wide and at 320 pixels, for the eye of a designer.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from playwright.sync_api import Page, sync_playwright

import perdure
from doors.console import scene
from doors.console.conftest import BROWSERS, served
from doors.console.test_pages import PAGES, settle

DOCS = Path(__file__).parents[3] / "docs" / "console"
WIDE = {"width": 1280, "height": 860}
SMALL = {"width": 320, "height": 900}
PARTS = ("now", "inbox", "runs", "sessions", "effects", "workers", "health", "audit", "memory", "settings")


def path_of(part: str) -> str:
    return "/" if part == "now" else f"/{part}"


def take(page: Page, path: str, to: Path, size: Any = WIDE, **media: Any) -> None:
    page.set_viewport_size(size)
    page.emulate_media(**{"color_scheme": "light", **media})
    page.goto(path)
    settle(page)
    page.wait_for_timeout(300)
    page.screenshot(path=str(to), full_page=size is SMALL)


def of_guide(page: Page, runs: dict[str, str]) -> None:
    """The pictures that docs/guide/console.md shows."""
    for part in PARTS:
        take(page, path_of(part), DOCS / f"{part}.png")
    take(page, "/sessions/issue-42", DOCS / "session.png")
    take(page, f"{runs['story']}?at=11", DOCS / "run.png")
    take(page, f"{runs['story']}?at=11", DOCS / "run-dark.png", color_scheme="dark")
    take(page, "/inbox", DOCS / "inbox-320.png", SMALL)
    take(page, runs["lanes"], DOCS / "lanes.png")


def of_everything(page: Page, runs: dict[str, str], folder: Path) -> None:
    for path in (*PAGES, runs["story"], runs["lanes"]):
        named = {runs[part]: part for part in runs}
        name = named.get(path) or path.strip("/").replace("/", "-") or "now"
        for scheme in ("light", "dark"):
            take(page, path, folder / f"{name}-{scheme}.png", color_scheme=scheme)
        take(page, path, folder / f"{name}-320.png", SMALL)


def main(folder: Path | None) -> None:
    place = Path(tempfile.mkdtemp())
    url = f"sqlite:///{place}/scene.db"
    scene.fill(url)
    lanes = scene.fill_branches(url, ["docs", "tests", "callers"])
    with perdure.open(url, read_only=True) as store:
        runs = {"lanes": f"/runs/{lanes}", "story": f"/runs/{store.run(agent='fix-issue', key='issue-42').id}"}
    found = next(filter(None, map(shutil.which, BROWSERS)))
    with served(url) as console, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--disable-dev-shm-usage", "--disable-gpu"])
        page = browser.new_context(base_url=console.address).new_page()
        page.goto(console.link())
        of_guide(page, runs) if folder is None else of_everything(page, runs, folder)
        browser.close()
    shutil.rmtree(place)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)

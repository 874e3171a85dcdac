"""A real browser, and the console served to it in this process. Without Chromium these tests are skipped, with the reason."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import uvicorn

from doors.console import scene
from perdure_server.console.local import LocalServing
from perdure_server.console.pages import Links, pages
from perdure_server.http.app import make_app

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
DATABASES = ("sqlite", "postgres") if "PERDURE_ROUNDS" in os.environ else ("sqlite",)
WAIT_MS = 30_000  # for what comes; a loaded machine may be slow, and nothing here is timed


class Console(NamedTuple):
    """A console that is served: its address, the store behind it, and links that sign a browser in."""

    address: str
    url: str
    serving: LocalServing
    links: Links

    def link(self) -> str:
        return f"{self.address}/enter?code={self.links.make(self.serving.secret)}"


@contextmanager
def served(url: str, port: int = 0, secret: str | None = None) -> Iterator[Console]:
    """The console of a store, until the block ends. secret: of one that was served before, so that its cookies stay good."""
    serving, links = LocalServing(url, tenant="default", actor="alice"), Links()
    serving.secret = secret or serving.secret
    listener = socket.create_server(("127.0.0.1", port))
    config = uvicorn.Config(
        make_app(serving, pages(serving, links)), log_config=None, lifespan="on", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        yield Console(f"http://127.0.0.1:{listener.getsockname()[1]}", url, serving, links)
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no browser among {', '.join(BROWSERS)}: on Debian, tools/system_parts.py installs one as root")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=found, args=["--disable-dev-shm-usage", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that is filled once; tests that change something take a copy."""
    folder = tmp_path_factory.mktemp("scene")
    scene.fill(f"sqlite:///{folder}/scene.db")
    return folder / "scene.db"


@pytest.fixture(scope="module")
def shown(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """The console of a store that tests only look at."""
    with served(f"sqlite:///{copied(filled, tmp_path_factory.mktemp('shown'))}") as console:
        yield console


@pytest.fixture(params=DATABASES)
def own(request: pytest.FixtureRequest, filled: Path, tmp_path: Path) -> Iterator[Console]:
    """The console of a store that a test may change."""
    if request.param == "sqlite":
        url = f"sqlite:///{copied(filled, tmp_path)}"
    else:
        url = request.getfixturevalue("postgres_store")
        scene.fill(url)
    with served(url) as console:
        yield console


@pytest.fixture(params=DATABASES)
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store that a test fills itself."""
    return f"sqlite:///{tmp_path}/own.db" if request.param == "sqlite" else request.getfixturevalue("postgres_store")


def copied(filled: Path, folder: Path) -> Path:
    """The store with the lock files that prove which process died."""
    for each in filled.parent.iterdir():
        (shutil.copytree if each.is_dir() else shutil.copy)(each, folder / each.name)
    return folder / filled.name


class Tab:
    """A page of a signed-in browser that notes everything that should not be: errors, foreign requests, dialogs."""

    def __init__(self, browser: Any, console: Console, **options: Any) -> None:
        self.console = console
        self.context = browser.new_context(base_url=console.address, **options)
        self.context.set_default_timeout(WAIT_MS)
        self.page = self.context.new_page()
        self.faults: list[str] = []
        self.page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        self.page.on("console", self._hear)
        self.page.on("dialog", lambda dialog: (self.faults.append("a dialog"), dialog.dismiss()))
        self.page.on("request", self._note)
        self.page.goto(console.link())

    def _hear(self, said: Any) -> None:
        if said.type == "error" and "status of 409" not in said.text:  # a conflict is shown in words
            self.faults.append(f"console: {said.text}")

    def _note(self, request: Any) -> None:
        if not request.url.startswith((self.console.address, "data:")):
            self.faults.append(f"a request to {request.url}")

    def at(self, path: str) -> Any:
        """Open an address and wait for its heading."""
        self.page.goto(path)
        self.page.locator("h1").wait_for()
        return self.page

    def close(self) -> None:
        self.context.close()


@pytest.fixture
def tab(browser: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Open tabs on a console; each must end without a fault, unless a test expects one and clears it."""
    opened: list[Tab] = []

    def make(console: Console, **options: Any) -> Tab:
        opened.append(Tab(browser, console, **options))
        return opened[-1]

    yield make
    faults = [fault for each in opened for fault in each.faults]
    for each in opened:
        each.close()
    assert not faults, "\n".join(faults)

"""The page of settings in a real browser: what a role may see of its tenant, tokens without their secrets, colours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import perdure
from doors.console.conftest import Console
from doors.console.test_pages import AXE, settle, violations
from doors.http.serving_kit import LiveServer, bearer, client, make_token
from perdure.planes.access import limits
from perdure.planes.access.tokens import CONTROL
from perdure.planes.memory import values
from perdure.runtime.callers import caller_of
from perdure_server.console.local import LocalServing
from perdure_server.console.pages import Links, pages
from perdure_server.http.app import make_app
from perdure_server.http.serving import Serving

THEME = "() => document.documentElement.dataset.theme"


class Served:
    """A server for a team: links that sign a browser in with a token."""

    def __init__(self, url: str, server: LiveServer, links: Links) -> None:
        self.url, self.address, self._links = url, server.address, links
        self.tokens = {role: make_token(url, role=role, actor=f"the-{role}") for role in ("admin", "viewer", "worker")}
        self.role = "admin"

    def link(self) -> str:
        return f"{self.address}/enter?code={self._links.make(self.tokens[self.role])}"


@pytest.fixture
def team(empty: str, browser: Any) -> Iterator[Served]:
    links = Links()
    make_token(empty)
    with perdure.open(empty, tenant=CONTROL) as store:
        caller_of(store).write(limits.set_limits, "default", {"runs": 1_000})
    with LiveServer(empty, pages=lambda serving, _address: pages(serving, links)) as server:
        yield Served(empty, server, links)


def test_an_admin_sees_limits_and_tokens_without_secrets_and_revokes_one(team: Served, tab: Any) -> None:
    page = tab(team).at("/settings")
    page.get_by_text("1,000 (now 0)").wait_for()
    row = page.get_by_role("row", name="the-worker")
    name = team.tokens["worker"].split("_")[1]
    row.get_by_text(f"perdure token revoke {name}").wait_for()
    content = page.content()
    assert all(text.split("_", 2)[2] not in content for text in team.tokens.values())
    assert name in content  # a control: the part that is no secret is there
    assert page.get_by_role("row", name="the-admin").get_by_role("button").count() == 0  # its own
    page.evaluate(AXE.read_text("utf-8"))
    assert violations(page) == []
    row.get_by_role("button", name="Revoke").click()
    row.wait_for(state="detached")
    with TestClient(make_app(Serving(team.url))) as http:
        answers = [http.get("/v1/whoami", headers=bearer(team.tokens[role])) for role in ("viewer", "worker")]
    assert [each.status_code for each in answers] == [200, 401]


def test_a_token_is_made_and_shown_once(team: Served, tab: Any) -> None:
    page = tab(team).at("/settings")
    page.get_by_text("Create a token").click()
    page.get_by_label("Role").select_option("operator")
    page.get_by_label("Actor that its events name").fill("dora")
    page.get_by_text("perdure token create --role operator --for dora --expires 90d --tenant default").wait_for()
    page.get_by_role("button", name="Create").click()
    text = page.get_by_text("is shown this once").inner_text().split()[0]
    page.get_by_role("row", name="dora").wait_for()
    with TestClient(make_app(Serving(team.url))) as http:
        who = http.get("/v1/whoami", headers=bearer(text)).json()
    assert (who["role"], who["actor"], who["rights"]) == ("operator", "dora", ["operate", "read"])
    page.reload()
    page.get_by_role("row", name="dora").wait_for()
    assert text not in page.content()


def test_a_viewer_sees_its_own_rights_and_no_tokens(team: Served, tab: Any) -> None:
    team.role = "viewer"
    here = tab(team)
    asked: list[str] = []
    here.page.on("request", lambda request: asked.append(request.url))
    page = here.at("/settings")
    settle(page)
    page.get_by_text("the-viewer").first.wait_for()
    assert page.get_by_role("heading", name="Tokens").count() == 0
    assert not [url for url in asked if "/v1/tokens" in url]
    assert [url for url in asked if "/v1/console/settings" in url]  # a control: requests are noted


def test_colours_are_kept_in_the_browser_and_follow_the_system_again(shown: Console, tab: Any) -> None:
    page = tab(shown).at("/settings")
    assert page.evaluate(THEME) is None
    page.get_by_role("radio", name="dark").check()
    page.goto("/runs")
    page.locator("h1").wait_for()
    assert page.evaluate(THEME) == "dark"
    assert page.evaluate("() => getComputedStyle(document.documentElement).backgroundColor") == "rgb(19, 21, 25)"
    page.goto("/settings")
    page.get_by_role("radio", name="dark").focus()
    page.keyboard.press("ArrowUp")  # by keyboard: light
    page.keyboard.press("ArrowUp")
    assert page.get_by_role("radio", name="system").is_checked()
    page.reload()
    page.locator("h1").wait_for()
    assert page.evaluate(THEME) is None


def test_a_console_for_one_person_makes_no_tokens(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agent.db"
    perdure.open(url, actor="alice").close()
    serving = LocalServing(url, tenant="default", actor="alice")
    wanted = {"role": "viewer", "actor": "bob"}
    with TestClient(make_app(serving), headers=bearer(serving.secret)) as http:
        assert http.get("/v1/console/settings").json()["limits"] is None
        for answer in (http.get("/v1/tokens"), http.post("/v1/tokens", json=wanted), http.delete("/v1/tokens/x")):
            assert (answer.status_code, answer.json()["path"]) == (403, "path")
            assert "perdure token" in answer.json()["hint"]
    with perdure.open(url, read_only=True) as store:
        assert caller_of(store).read(values.find_scope, "tokens") is None
    with client(url) as http:  # a control: a server for a team does
        assert http.post("/v1/tokens", json=wanted).status_code == 201
        assert http.get("/v1/console/settings").json()["limits"]["streams"] == 200

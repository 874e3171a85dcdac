"""The console's files, its policy and its sign-in, without a browser."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import perdure
from forked import Program
from perdure_server.console.local import LocalServing
from perdure_server.console.pages import ADDRESSES, Links, pages, static_files
from perdure_server.http.app import make_app

ROOT = Path(__file__).parents[5]
OURS = {"x-perdure-console": "1", "sec-fetch-site": "same-origin"}
SCRIPT_MAX_BYTES = 121_000


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/agent.db"
    with perdure.open(url, actor="alice") as store:
        store.session("a").say("user", "hello")
    return url


@pytest.fixture
def serving(url: str) -> LocalServing:
    return LocalServing(url, tenant="default", actor="alice")


@pytest.fixture
def links() -> Links:
    return Links()


@pytest.fixture
def client(serving: LocalServing, links: Links) -> Iterator[TestClient]:
    with TestClient(make_app(serving, pages(serving, links)), follow_redirects=False) as client:
        yield client


# -- files ---------------------------------------------------------------------------------------------------------------


def test_every_address_gives_the_page_under_a_strict_policy(client: TestClient) -> None:
    for address in ADDRESSES:
        answer = client.get(address.replace("{name}", "x%2Fy"))
        assert answer.status_code == 200, address
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert not [word for word in ("unsafe", "http", "*") if word in policy]
        assert "require-trusted-types-for 'script'" in policy
        assert not re.search(rb"<script(?![^>]*\bsrc=)|\son\w+=|style=", answer.content)  # nothing inline


def test_files_are_those_of_the_folder_and_no_others(client: TestClient) -> None:
    for path, (content, _) in static_files().items():
        assert client.get(f"/assets/{path}").content == content
    for path in ("../pages.py", "..%2Fpages.py", "vendor/SHA256SUMS", "nothing.mjs", "/etc/passwd", "%00"):
        assert client.get(f"/assets/{path}").status_code == 404


def test_scripts_are_small_make_no_markup_and_name_no_other_host() -> None:
    scripts = {path: content for path, (content, _) in static_files().items() if path.endswith(".mjs")}
    assert sum(map(len, scripts.values())) <= SCRIPT_MAX_BYTES
    for path, content in static_files().items():
        if not path.startswith("vendor/"):
            text = content[0].decode()
            assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(|new Function", text), (
                path
            )
            assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), path


def test_vendored_modules_are_those_that_were_reviewed(tmp_path: Path) -> None:
    check = [sys.executable, str(ROOT / "tools" / "vendor.py"), "--check"]
    assert subprocess.run(check, check=False, capture_output=True).returncode == 0


def test_control_a_changed_module_is_noticed(tmp_path: Path) -> None:
    import importlib.util

    found = importlib.util.spec_from_file_location("vendor", ROOT / "tools" / "vendor.py")
    assert found
    assert found.loader
    vendor = importlib.util.module_from_spec(found)
    found.loader.exec_module(vendor)
    (tmp_path / "a.mjs").write_text("export {}")
    (tmp_path / vendor.SUMS).write_text(vendor.listed(tmp_path))
    assert vendor.changed(tmp_path) == []
    (tmp_path / "a.mjs").write_text("export { }")
    assert len(vendor.changed(tmp_path)) == 2
    assert vendor.rewritten(b'import{h}from"preact";\n//# sourceMappingURL=x') == b'import{h}from"./preact.mjs";\n'


# -- signing in ------------------------------------------------------------------------------------------------------------


def test_a_link_becomes_a_cookie_once(client: TestClient, serving: LocalServing, links: Links) -> None:
    code = links.make(serving.secret)
    first = client.get(f"/enter?code={code}")
    assert (first.status_code, first.headers["location"]) == (303, "/")
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert serving.secret in cookie
    assert client.get("/v1/whoami").json()["actor"] == "alice"
    client.cookies.clear()
    second = client.get(f"/enter?code={code}")
    assert second.headers["location"] == "/?link=spent"
    assert "set-cookie" not in second.headers
    assert client.get("/v1/whoami").status_code == 401


def test_a_link_ends_after_some_minutes() -> None:
    now = [0.0]
    links = Links(lambda: now[0])
    code, other = links.make("a"), links.make("b")
    assert links.take(code) == "a"
    assert links.take(code) is None
    assert links.take("") is None
    now[0] = 601.0
    assert links.take(other) is None


def test_a_token_signs_in_from_our_own_page_alone(client: TestClient, serving: LocalServing) -> None:
    given: dict[str, Any] = {"json": {"token": serving.secret}}
    assert client.post("/enter", **given, headers={"sec-fetch-site": "same-origin"}).status_code == 403  # a form
    assert client.post("/enter", **given, headers={**OURS, "sec-fetch-site": "cross-site"}).status_code == 403
    assert client.post("/enter", json={"token": "pdr_wrong"}, headers=OURS).status_code == 401
    assert client.post("/enter", content=b"{", headers=OURS).status_code == 422
    assert client.post("/enter", content=b"x" * 5_000, headers=OURS).status_code == 413
    assert client.post("/enter", **given, headers=OURS).status_code == 204
    assert client.get("/v1/whoami").status_code == 200
    assert client.post("/leave", headers=OURS).status_code == 204
    assert client.get("/v1/whoami").status_code == 401


def test_another_site_changes_nothing_with_our_cookie(client: TestClient, serving: LocalServing, links: Links) -> None:
    client.get(f"/enter?code={links.make(serving.secret)}")
    for headers in ({"sec-fetch-site": "cross-site"}, {"origin": "https://evil.example"}, {}):
        assert client.post("/v1/console/verify", headers=headers).status_code == 403
    assert client.post("/v1/console/verify", headers=OURS).status_code == 202


def test_a_page_reads_nothing_without_a_token(client: TestClient) -> None:
    for path in ("now", "inbox", "runs", "sessions/a", "live", "verify", "provenance?scope=a&scope_kind=session&seq=1"):
        answer = client.get(f"/v1/console/{path}")
        assert (answer.status_code, answer.headers["content-type"]) == (401, "application/problem+json")


BAD = {
    "runs?status=odd": 422, "runs?limit=0": 422, "runs?unknown=1": 422, "runs?after=nonsense": 422, "runs/ffff": 404,
    "runs/ffff/at/1": 404, "runs/x%2F..%2Fy/outline": 404, "sessions/nobody": 404, "sessions/a?at=99": 422,
    "sessions/a/forecast?at=0": 422, "effects?state=odd": 422, "memories?status=odd": 422, "events?since=nonsense": 422,
    "provenance?scope=nobody&scope_kind=scope&seq=1": 404,
}  # fmt: skip


def test_bad_input_is_a_4xx_with_a_path(client: TestClient, serving: LocalServing) -> None:
    for path, status in BAD.items():
        answer = client.get(f"/v1/console/{path}", headers={"authorization": f"Bearer {serving.secret}"})
        assert (answer.status_code, bool(answer.json()["path"])) == (status, True), answer.text


# -- the command -------------------------------------------------------------------------------------------------------------


def test_the_command_prints_a_link_that_works_as_soon_as_it_is_there(url: str) -> None:
    with Program(
        "-m", "perdure", "console", "--store", url, "--actor", "carol", "--json", stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        link = json.loads(process.stdout.readline())["link"]
        assert link.startswith("http://127.0.0.1:")
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        assert b"Perdure" in opener.open(link, timeout=60).read()
        who = json.load(opener.open(link.partition("/enter")[0] + "/v1/whoami", timeout=60))
        assert who["actor"] == "carol"
        process.terminate()
        process.wait(60)
    with perdure.open(url, read_only=True) as store:
        assert len(store.actors()) == 1  # looking recorded nothing


def test_the_command_makes_no_store_and_no_tenant(tmp_path: Path, url: str) -> None:
    for words in (("--store", f"sqlite:///{tmp_path}/none.db"), ("--store", url, "--tenant", "nobody")):
        done = subprocess.run(
            [sys.executable, "-m", "perdure", "console", *words], check=False, capture_output=True, text=True
        )
        assert done.returncode != 0
        assert " no " in done.stderr
    assert not (tmp_path / "none.db").exists()

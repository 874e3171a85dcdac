"""The wall around a tenant and the rights of roles, cell by cell (P11); tokens that open nothing; requests of other sites."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import perdure
from doors.http.matrix import SECRET, Cell, body_of, cells, fill, finds_nothing, path_of
from doors.http.serving_kit import DirectClient, bearer, client, make_token
from perdure.planes.access.tokens import TokenRole
from perdure_server.http import app as http_app
from perdure_server.http import table
from perdure_server.http.app import TABLE, make_app
from perdure_server.http.serving import Serving

SKIPPED = {"follow", "console_live"}  # they never end: test_streams and the console's tests have their tokens


def file_of(url: str, tenant: str) -> str:
    return url.replace("{tenant}", tenant)


def ask(http: DirectClient, cell: Cell, parts: dict[str, str], tokens: dict[Any, str]) -> Any:
    headers = {} if cell.tenant == "none" else bearer(tokens[cell.tenant, cell.role])
    body = {"json": body_of(cell.route)} if cell.route.body is not None else {}
    return http.request(cell.route.method, path_of(cell.route, parts), headers=headers, **body)


def fault_of(cell: Cell, answer: Any) -> str:
    """The fault of an answer; nothing if it is the one that the table promises."""
    status = answer.status_code
    if status >= 500:
        return "it is our own fault"
    if not cell.let_in:
        return "" if status == (401 if cell.tenant == "none" else 403) else "it is let in"
    if status in (401, 403):
        return "it is refused"
    if finds_nothing(cell) and status != 404:
        return "a foreigner finds something"
    told = cell.tenant != "own" and (SECRET in answer.text or "bob" in answer.text)
    return "it tells of another tenant" if told else ""


def wrong_cells(url: str, asked: list[Cell]) -> list[str]:
    """The cells whose answer is not the one that the table promises."""
    parts = fill(file_of(url, "acme"))
    tokens = {
        (tenant, role): make_token(url, name, role.value)
        for tenant, name in (("own", "acme"), ("foreign", "globex"))
        for role in TokenRole
    }
    wrong = []
    with DirectClient(make_app(Serving(url))) as http:
        for cell in asked:
            answer = ask(http, cell, parts, tokens)
            if fault := fault_of(cell, answer):
                where = f"{cell.route.method} {cell.route.path} as {cell.role} of {cell.tenant}"
                wrong.append(f"{where}: {answer.status_code}, {fault}: {answer.text[:200]}")
    return wrong


EVERY = [cell for cell in cells(TABLE) if cell.route.name not in SKIPPED]
FOREIGN = [cell for cell in EVERY if cell.tenant == "foreign" and cell.role is TokenRole.ADMIN]


def test_each_route_for_each_role_of_each_tenant(tmp_path) -> None:
    wrong = wrong_cells(f"sqlite:///{tmp_path}/{{tenant}}.db", EVERY)
    assert not wrong, "\n".join(wrong[:20])
    assert len(EVERY) >= 600


def test_no_route_tells_a_foreigner_anything_in_one_database(postgres_store) -> None:
    wrong = wrong_cells(postgres_store, FOREIGN)
    assert not wrong, "\n".join(wrong[:20])
    assert len(FOREIGN) >= 90


def test_control_a_role_with_a_right_too_many_shows(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(http_app, "RIGHTS", {**table.RIGHTS, TokenRole.VIEWER: frozenset(table.Right)})
    asked = [cell for cell in EVERY if cell.role is TokenRole.VIEWER and cell.tenant == "foreign"]
    assert len(wrong_cells(f"sqlite:///{tmp_path}/{{tenant}}.db", asked)) > 30


def test_control_a_token_that_opens_another_tenant_shows(postgres_store, monkeypatch) -> None:
    opened: dict[str, Any] = {}

    async def one_store(self: Serving, tenant: str) -> Any:
        if not opened:
            opened["acme"] = await Serving._open(self, "acme")
        return opened["acme"]

    monkeypatch.setattr(Serving, "store", one_store)
    wrong = wrong_cells(postgres_store, [cell for cell in FOREIGN if cell.route.method == "GET"])
    assert any("a foreigner finds something" in each for each in wrong)
    assert any("it tells of another tenant" in each for each in wrong)


# -- tokens --------------------------------------------------------------------------------------------------------


@pytest.fixture
def single(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/a.db"


@pytest.mark.parametrize(
    "given",
    [
        None,
        "",
        "Bearer",
        "Basic YTpi",
        "Bearer x",
        "Bearer pdr_000000000000_" + "A" * 43 + "000000",
        "Bearer " + "x" * 5_000,
        "Bearer \xff\xfe",
    ],
)
def test_a_token_that_is_none_opens_nothing(single, given) -> None:
    with client(single) as http:
        http.headers.pop("authorization")
        answer = http.get("/v1/sessions", headers={} if given is None else {"Authorization": given.encode("latin-1")})
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")


def test_a_token_with_one_other_character_opens_nothing(single) -> None:
    text = make_token(single)
    with client(single) as http:
        for place in (4, 20, len(text) - 1):
            other = text[:place] + ("0" if text[place] != "0" else "1") + text[place + 1 :]
            assert http.get("/v1/sessions", headers=bearer(other)).status_code == 401


def test_a_token_expires(single) -> None:
    text = make_token(single, expires="1ms")
    with client(single) as http:
        assert http.get("/v1/sessions", headers=bearer(text)).status_code == 401


def test_one_file_is_served_for_one_tenant(single) -> None:
    text = make_token(single, tenant="globex")
    with client(single, tenant="default") as http:
        assert http.get("/v1/sessions", headers=bearer(text)).status_code == 401


def test_a_tenant_is_no_path(tmp_path) -> None:
    with pytest.raises(perdure.Invalid, match="cannot be the name of a file"):
        make_token(f"sqlite:///{tmp_path}/{{tenant}}.db", tenant="../etc")


# -- the cookie of the console -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://testserver"}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
    ],
)
def test_a_change_by_cookie_comes_from_our_own_pages(single, headers, status) -> None:
    text = make_token(single)
    with client(single) as http:
        http.headers.pop("authorization")
        http.cookies.set("perdure_token", text)
        assert http.put("/v1/sessions/s", json={}, headers=headers).status_code == status
        assert http.get("/v1/sessions").status_code == 200


def test_a_method_that_a_path_does_not_have_is_told_those_that_it_has(single) -> None:
    with client(single) as http:
        answer = http.request("DELETE", "/v1/sessions/s/turns")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD, POST")
        assert http.request("PATCH", "/v1/tokens").headers["allow"] == "GET, HEAD, POST"


# -- the document --------------------------------------------------------------------------------------------------


def test_the_committed_document_is_what_the_table_says() -> None:
    tool = Path(__file__).parents[5] / "tools" / "openapi.py"
    ran = subprocess.run([sys.executable, str(tool), "--check"], check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_token_is_made_once_for_its_key(tmp_path: Path) -> None:
    """A repetition tells its id and no text, and nothing that is kept has the text. Another tenant's key is another key."""
    url = f"sqlite:///{tmp_path}/{{tenant}}.db"
    body, key = {"role": "writer", "actor": "bot"}, {"Idempotency-Key": "k"}
    with client(url) as http:
        made = http.post("/v1/tokens", json=body, headers=key).json()
        again = http.post("/v1/tokens", json=body, headers=key)
        assert (again.status_code, again.json()["facts"]["id"]) == (409, made["record"]["id"])
        assert "the text was shown once; revoke it and make another" in again.json()["hint"]
        other = http.post("/v1/tokens", json=body | {"actor": "x"}, headers=key)
        assert (other.status_code, other.json()["title"]) == (422, "KeyReused")
        assert [each["actor"] for each in http.get("/v1/tokens").json()].count("bot") == 1
        assert http.get("/v1/sessions", headers=bearer(made["token"])).status_code == 200
        assert http.delete(f"/v1/tokens/{made['record']['id']}").json() == {"changed": True}
        assert http.post("/v1/tokens", json=body).status_code == 201  # the control: without a key, another one
    with client(url, tenant="globex") as http:
        assert http.post("/v1/tokens", json=body, headers=key).status_code == 201
    assert not any(made["token"].encode() in each.read_bytes() for each in tmp_path.iterdir() if each.is_file())

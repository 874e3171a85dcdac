"""Each tenant predicate of our statements, taken out in turn: behind the wall of PostgreSQL nothing more is seen (P11).

The statements are those that a furnished store and every route of the server run, with the parameters that they ran with; the
rest run with plain ones. The control runs the very same mutants without the wall: there they show what is another tenant's.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

import perdure
from doors.http.matrix import body_of, fill, path_of
from doors.http.serving_kit import bearer, make_token
from furnished import furnish
from perdure.handles.working import tree
from perdure.stores.postgres import PostgresConnection
from perdure.stores.postgres_wall import names_tenants
from perdure.stores.statements import Statements
from perdure_server.http.app import TABLE, make_app
from perdure_server.http.serving import Serving
from sources import module_name, sources
from stores.walled_store import Walled, walled

__all__ = ["walled"]

log = logging.getLogger(__name__)

PARAMETER = re.compile(r"(?<![:\w]):([a-z_]\w*)")
LAST = 1 << 40
PLAIN = {
    "limit": 1_000, "after": 0, "pos": 0, "seq": 0, "xid": 0, "blob": 0, "prefix": "", "end_pos": LAST, "end_xid": LAST,
    "end_blob": LAST, "upto": LAST,
}  # fmt: skip
NAMES: set[str] = set()  # statements that have run
ENDLESS = {"follow", "console_live"}

PREDICATE = re.compile(r"\+?\b(?:\w+\.)?tenant = %\(tenant\)s")
Asked = dict[str, dict[str, Any]]  # the text of a statement, and the parameters that it ran with


def every_route(url: str) -> None:
    """Each route once, for the tenant `acme`."""
    parts = fill(url)
    with TestClient(
        make_app(Serving(url)), headers=bearer(make_token(url, "acme")), raise_server_exceptions=False
    ) as http:
        for route in sorted(TABLE, key=lambda each: (each.method == "DELETE", each.method != "GET")):
            if route.name not in ENDLESS:
                body = {"json": body_of(route)} if route.body is not None else {}
                http.request(route.method, path_of(route, parts), **body)


@pytest.fixture
def asked(walled: Walled, monkeypatch: pytest.MonkeyPatch) -> Asked:
    """The statements with a tenant predicate that a tenant's work runs, in a store that another tenant has furnished, too."""
    found: Asked = {}
    plain = PostgresConnection.query

    def query(self: Any, statement: Any, params: Any) -> Any:
        rows = plain(self, statement, params)
        text = statement.text("postgres", params)
        if PREDICATE.search(text) and (rows or text not in found):  # parameters that find something tell more
            found[text] = dict(params)
            NAMES.add(statement.name)
        return rows

    for tenant in ("globex", "acme"):
        with perdure.open(walled.root, tenant=tenant) as store:
            if tenant == "acme":
                monkeypatch.setattr(PostgresConnection, "query", query)
            furnish(store)
            store.verify()
            tree(store)
    every_route(walled.root)
    monkeypatch.undo()
    return found


def the_rest(tenant: int) -> Asked:
    """The statements that nothing has run yet, with parameters that leave nothing out."""
    found: Asked = {}
    files = [each for each in sources(".sql") if each.parent.name != "migrations" and each.name != "about_words.sql"]
    for file in files:
        for statement in Statements(module_name(file.parent), file.name):
            names = PARAMETER.findall(statement.source_for("postgres"))
            params = {name: PLAIN.get(name) for name in names} | {"tenant": tenant}
            text = statement.text("postgres", params)
            if PREDICATE.search(text) and statement.name not in NAMES:
                found[text] = params
    return found


def mutants(text: str) -> list[str]:
    """A statement without each of its predicates in turn."""
    return [f"{text[: each.start()]}TRUE{text[each.end() :]}" for each in PREDICATE.finditer(text)]


def seen(raw: psycopg.Connection, text: str, params: dict[str, Any], *, named: bool) -> Counter[str]:
    """The rows that a statement gives, in whatever order; nothing is kept. named: the transaction names its tenant."""
    with raw.transaction(force_rollback=True):
        if named:
            raw.execute(names_tenants([params["tenant"]]))
        return Counter(map(repr, raw.execute(text, params).fetchall()))


def test_behind_the_wall_no_predicate_is_missed(walled: Walled, asked: Asked) -> None:
    taken_out = shown = untried = 0
    rest = the_rest(next(iter(asked.values()))["tenant"])
    with walled.connect(walled.app) as behind, walled.connect(walled.root) as around:
        for text, params in (asked | rest).items():
            try:
                whole = seen(behind, text, params, named=True)
            except psycopg.Error:
                assert text in rest, text  # a plain parameter is not what it takes
                untried += len(mutants(text))
                continue
            for mutant in mutants(text):
                taken_out += 1
                assert seen(behind, mutant, params, named=True) == whole, mutant
                shown += seen(around, mutant, params, named=False) != seen(around, text, params, named=False)
    log.info("%d predicates taken out, %d of them show without the wall, %d were not tried", taken_out, shown, untried)
    assert taken_out > 10 * untried
    assert shown > taken_out // 4, f"{shown} of {taken_out}"  # the control: without the wall they do show

"""The matrix of access, made from the table of routes: each route × each role × own, foreign and no tenant.

A cell says what a request must be answered: let in (whatever the verb then says), refused, or unknown. Requests name things
that exist in the own tenant, and the same names in the foreign one, where other things stand under them.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints
from urllib.parse import quote

import msgspec

import perdure
from perdure.model.refs import Ref
from perdure.planes.access.tokens import TokenRole
from perdure_server.http.table import RIGHTS, Route

TENANTS = ("own", "foreign", "none")
SECRET = "a secret of acme"  # in every text of the own tenant


class Cell(NamedTuple):
    route: Route
    role: TokenRole
    tenant: str

    @property
    def let_in(self) -> bool:
        return self.tenant != "none" and self.route.right in RIGHTS[self.role]


def cells(routes: tuple[Route, ...]) -> list[Cell]:
    return [Cell(route, role, tenant) for route in routes for role in TokenRole for tenant in TENANTS]


def fill(url: str) -> dict[str, str]:
    """Things in the tenant `acme`; gives the parts of paths that name them."""
    with perdure.open(url, tenant="acme", actor="bob") as store:
        session = store.session("acme-session", title=SECRET)
        turn = session.say("assistant", SECRET, calls=[perdure.Call("c1", "grep", {})])
        session.set("name", SECRET)
        decision = session.decide(SECRET, because=SECRET)
        task = session.task(SECRET)
        memory = session.remember(SECRET)
        checkpoint = session.checkpoint({"state": SECRET})
        artifact = session.attach("file", SECRET.encode())
        ask = session.ask(SECRET)
        effect = session.begin("mail", {"text": SECRET}, key="e")
        store.scope("acme-scope").set("name", SECRET)
        scoped = store.scope("acme-scope").remember(SECRET)

        def fix(run: Any) -> None: ...

        run = store.start(perdure.agent(fix), key="r", session="acme-session")
    del turn, scoped, checkpoint
    found = {
        "session": "acme-session", "scope": "acme-scope", "name": "name", "call": "c1", "task": str(task.id),
        "seq": str(decision.seq), "hash": artifact.hash, "ask": ask.id, "effect": effect.id, "run": run.id,
        "token": "0" * 12, "key": "k", "memory": str(memory.seq),
    }  # fmt: skip
    return {name: quote(value, safe="") for name, value in found.items()}


def path_of(route: Route, parts: dict[str, str]) -> str:
    named = {**parts, "seq": parts["memory"]} if "/memories/" in route.path else parts
    if route.name in MAKES:  # a foreigner may make a thing of its own, and must not find it afterwards under this name
        named = {**named, "session": "made", "scope": "made", "name": "made"}
    asked = {
        "recall": "?q=secret", "recall_in_scope": "?q=secret", "recall_across": "?q=secret",
        "list_referring_to": f"?uid={'0' * 32}&seq=1",
        "search": "?q=secret", "diff_sessions": "?at=1", "diff_runs": "?at=1",
        "console_memories": "?q=secret",
        "console_forecast": "?place=1", "console_turns": "?before=99",
        "console_provenance": f"?scope={parts['session']}&scope_kind=session&seq={parts['memory']}",
    }  # fmt: skip
    return route.path.format(**named) + asked.get(route.name, "")


@cache
def body_of(route: Route) -> dict[str, Any]:
    """A body that fits: the least that the record asks for."""
    hints = get_type_hints(route.body)
    fields = msgspec.structs.fields(route.body)
    wanted = [each.name for each in fields if each.required or each.name == "content"]
    return {name: _sample(hints[name], name) for name in wanted}


def _sample(hint: Any, name: str) -> Any:
    if get_origin(hint) is Literal:
        return get_args(hint)[0]
    if get_origin(hint) is list:
        return [_sample(get_args(hint)[0], name)]
    if hint is int or int in get_args(hint):
        return 1
    if hint is Ref:
        return ["0" * 32, 1]
    return {"ttl": "1h", "kind": "deploy.done", "expires": "1d"}.get(name, "sample")


MAKES = {
    "put_session",
    "put_scope",
    "put_subscription",
    "unsubscribe",
    "start_run",
    "create_token",
}  # name nothing that must be there


def finds_nothing(cell: Cell) -> bool:
    """Whether a foreigner's request must be told that there is no such thing."""
    return cell.tenant == "foreign" and bool(cell.route.parameters) and cell.route.name not in MAKES

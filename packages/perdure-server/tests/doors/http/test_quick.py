"""Quick requests: routes are found as Starlette finds them, and tokens are looked up after a request came (P11)."""

from __future__ import annotations

import asyncio

from starlette.routing import Match, Route

from perdure.errors import Unauthenticated
from perdure_server.http.app import TABLE
from perdure_server.http.route_index import FOUND, RouteIndex
from perdure_server.http.token_lookup import SharedGlance, TokenLookup


async def nothing(_request): ...


ROUTES = [Route(each.path, nothing, methods=[each.method]) for each in TABLE]
INDEX = RouteIndex(ROUTES)
NAMES = ("s", "a%2Fb", "turns", "work", "runs", "")


def one_after_the_other(scope):
    """As Starlette's router does it; where only methods do not match, those of all routes that match otherwise."""
    found = [(route.matches(scope)[0], route) for route in ROUTES]
    whole = next((route for match, route in found if match is Match.FULL), None)
    return whole or {method for match, route in found if match is Match.PARTIAL for method in route.methods} or None


def paths():
    for each in TABLE:
        for name in NAMES:
            path = "/".join(name if part.startswith("{") else part for part in each.path.split("/"))
            yield from (path, f"{path}/", f"{path}/x", path.replace("/v1", "/v2"))


def test_the_index_finds_what_starlette_finds():
    looked = {(path, method) for path in paths() for method in ("GET", "POST", "PUT", "DELETE", "HEAD", "PATCH")}
    for path, method in looked:
        scope = {"type": "http", "path": path, "method": method, "root_path": ""}
        assert INDEX.matches(scope)[1].get(FOUND) == one_after_the_other(scope), (method, path)
    assert len(looked) > 5_000


class Looks:
    """A store of tokens that answers when it is let; it remembers what it was asked."""

    def __init__(self):
        self.known, self.asked, self.gate = {"good"}, [], asyncio.Event()

    async def look(self, texts):
        self.asked.append(texts)
        known = {*self.known}
        await self.gate.wait()
        return [text if text in known else Unauthenticated("no") for text in texts]


async def _shared():
    looks = Looks()
    lookup = TokenLookup(looks.look)
    first = asyncio.create_task(lookup.find("good"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    looks.known.discard("good")  # revoked while the first look is under way
    later = [asyncio.create_task(lookup.find(text)) for text in ("good", "good", "bad", "worse")]
    await asyncio.sleep(0)
    later[3].cancel()
    looks.gate.set()
    answers = await asyncio.gather(first, *later, return_exceptions=True)
    return looks.asked, [type(each) for each in answers]


def test_requests_share_a_look_that_began_after_they_came():
    asked, answers = asyncio.run(_shared())
    assert asked == [["good"], ["good", "bad", "worse"]]
    assert answers == [str, Unauthenticated, Unauthenticated, Unauthenticated, asyncio.CancelledError]


async def _broken():
    async def look(_texts):
        raise OSError("away")

    lookup = TokenLookup(look)
    return await asyncio.gather(lookup.find("a"), lookup.find("b"), return_exceptions=True)


def test_a_store_that_is_away_is_told_to_each():
    assert [type(each) for each in asyncio.run(_broken())] == [OSError, OSError]


def test_control_a_look_that_is_under_way_would_let_a_revoked_token_in(monkeypatch):
    async def joined(self, text):
        if self._looking is None:
            self._looking = asyncio.create_task(self._look([text]))
        return (await asyncio.shield(self._looking))[0]

    monkeypatch.setattr(TokenLookup, "find", joined)
    _, answers = asyncio.run(_shared())
    assert answers[1] is str  # revoked before the request came, and let in


# -- glances -----------------------------------------------------------------------------------------------------------


class Revocable:
    """A token that a thread revokes while the event loop runs."""

    def __init__(self):
        self.holds, self.looks = True, 0

    def look(self):
        self.looks += 1
        return "holds" if self.holds else "revoked"


async def _in_one_turn(token):
    """Three requests that are queued at once; in the turn of the first, the token is revoked and a fourth is queued."""
    loop, shared, seen = asyncio.get_running_loop(), SharedGlance(token.look), []
    done = loop.create_future()

    def request(name):
        seen.append((name, shared.see()))

    def revoke_and_come():
        token.holds = False
        loop.call_soon_threadsafe(lambda: (request("later"), done.set_result(None)))

    for each in (lambda: request("first"), revoke_and_come, lambda: request("second"), lambda: request("third")):
        loop.call_soon(each)
    await done
    return seen


def test_requests_of_one_turn_share_a_glance_that_began_after_they_came():
    token = Revocable()
    assert asyncio.run(_in_one_turn(token)) == [
        ("first", "holds"), ("second", "holds"), ("third", "holds"), ("later", "revoked"),
    ]  # fmt: skip
    assert token.looks == 2


def test_control_a_glance_that_is_kept_longer_would_let_a_revoked_token_in(monkeypatch):
    monkeypatch.setattr(SharedGlance, "_forget", lambda _self: None)
    assert asyncio.run(_in_one_turn(Revocable()))[3] == ("later", "holds")


def test_a_glance_that_cannot_be_is_tried_again():
    async def looked():
        answers = iter([None, "seen"])
        shared = SharedGlance(lambda: next(answers))
        return [shared.see(), shared.see(), shared.see()]

    assert asyncio.run(looked()) == [None, "seen", "seen"]

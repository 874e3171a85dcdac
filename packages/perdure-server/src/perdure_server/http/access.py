"""Whom a request comes from: the token in its header, or in the cookie of the console. Callers: `app`. Keeps P11.

A cookie is sent by a browser whoever made it send the request. So a request with a cookie that changes something must come
from our own pages: the browser says so itself (`Sec-Fetch-Site`, `Origin`), which no foreign page can forge.
"""

from __future__ import annotations

from starlette.requests import Request

from perdure.errors import Refused, Unauthenticated
from perdure_server.http.serving import Serving, Visitor

COOKIE = "perdure_token"
SAFE_METHODS = ("GET", "HEAD")


async def identify(serving: Serving, request: Request) -> Visitor:
    """The holder of the token. Unauthenticated without one; Refused for a change that another site asked for."""
    given = request.headers.get("authorization")
    if given is not None:
        kind, _, text = given.partition(" ")
        if kind.lower() != "bearer" or not text:
            raise Unauthenticated("expected `Authorization: Bearer TOKEN`", path="authorization")
        return await serving.identify(text.strip())
    text = request.cookies.get(COOKIE, "")
    if not text:
        raise Unauthenticated(
            "a token is needed", path="authorization", hint="`perdure token create` makes one: Authorization: Bearer …"
        )
    if request.method not in SAFE_METHODS:
        check_own_site(request)
    return await serving.identify(text)


def check_own_site(request: Request) -> None:
    """Refused unless one of our own pages sent this request."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    own = f"{request.url.scheme}://{request.headers.get('host', '')}"
    if site == "same-origin" or (site is None and origin == own):
        return
    raise Refused("this request comes from another site", path="origin", hint="use a token in `Authorization`")

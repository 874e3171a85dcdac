"""The console's files and its sign-in, as routes for the application: plain files, a strict content policy, a cookie.

Pages hold nothing of the store and need no token. A browser signs in with a link that works once, or with a token; both become
a cookie that scripts cannot read and that no other site's request carries. Callers: `perdure serve`, `perdure console`.
Keeps P10: whatever the store holds, the browser runs only the files of this folder.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from perdure.errors import Error, Invalid, Refused, TooLarge
from perdure.model.ids import random_bytes
from perdure_server.http.access import COOKIE, check_own_site
from perdure_server.http.problems import response_to
from perdure_server.http.serving import Serving

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "X-Frame-Options": "DENY",
}
MEDIA = {".html": "text/html", ".css": "text/css", ".mjs": "text/javascript", ".svg": "image/svg+xml"}
ADDRESSES = (
    "/",
    "/inbox",
    "/runs",
    "/runs/{name}",
    "/sessions",
    "/sessions/{name}",
    "/effects",
    "/workers",
    "/health",
    "/audit",
    "/memory",
    "/settings",
)
OWN_HEADER = "x-perdure-console"  # which no form of another site can send
LINK_SECONDS = 600.0
BODY_MAX_BYTES = 4_096


class Links:
    """Links that sign a browser in, each once and within minutes. In memory: a server that ends forgets them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._open: dict[str, tuple[str, float]] = {}

    def make(self, token: str) -> str:
        """A code that stands for a token, once."""
        code = random_bytes(24).hex()
        self._open[code] = (token, self._clock() + LINK_SECONDS)
        return code

    def take(self, code: str) -> str | None:
        """The token behind a code, which is spent by this; None for any other code."""
        for own_code in [*self._open]:
            if hmac.compare_digest(own_code, code):
                token, until = self._open.pop(own_code)
                return token if self._clock() < until else None
        return None


class SignIn(msgspec.Struct, forbid_unknown_fields=True):
    """A token that a person pasted."""

    token: str


def static_files() -> dict[str, tuple[bytes, str]]:
    """Every file of the console by its path, with its media type. Read once: what is served is what was installed."""
    content: dict[str, tuple[bytes, str]] = {}

    def walk(folder: Any, above: PurePosixPath) -> None:
        for entry in folder.iterdir():
            place = above / entry.name
            if entry.is_dir():
                walk(entry, place)
            elif place.suffix in MEDIA:
                content[str(place)] = (entry.read_bytes(), MEDIA[place.suffix])

    walk(files("perdure_server.console") / "static", PurePosixPath())
    return content


def pages(serving: Serving, links: Links) -> list[BaseRoute]:
    """The routes of the console."""
    served = static_files()

    async def page(_request: Request) -> Response:
        content, media = served["index.html"]
        return Response(content, 200, {**HEADERS, "Cache-Control": "no-cache"}, media)

    async def asset(request: Request) -> Response:
        file = served.get(request.path_params["path"])
        if file is None:
            return Response(status_code=404, headers=HEADERS)
        return Response(file[0], 200, {**HEADERS, "Cache-Control": "no-cache"}, file[1])

    async def enter(request: Request) -> Response:
        """Exchange a link for a cookie."""
        token = links.take(request.query_params.get("code", ""))
        answer = RedirectResponse("/" if token else "/?link=spent", 303, HEADERS)
        if token is not None:
            _keep(answer, request, token)
        return answer

    async def sign_in(request: Request) -> Response:
        """Exchange a token for a cookie."""
        try:
            _check_ours(request)
            token = await _token_of(request)
            await serving.identify(token)
        except Error as error:
            return response_to(error)
        answer = Response(status_code=204, headers=HEADERS)
        _keep(answer, request, token)
        return answer

    async def sign_out(request: Request) -> Response:
        try:
            _check_ours(request)
        except Error as error:
            return response_to(error)
        answer = Response(status_code=204, headers=HEADERS)
        answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return answer

    return [
        *(Route(address, page, methods=["GET"]) for address in ADDRESSES),
        Route("/assets/{path:path}", asset, methods=["GET"]),
        Route("/enter", enter, methods=["GET"]),
        Route("/enter", sign_in, methods=["POST"]),
        Route("/leave", sign_out, methods=["POST"]),
    ]


def _check_ours(request: Request) -> None:
    """Refused for a request that one of our own pages did not send."""
    if OWN_HEADER not in request.headers:
        raise Refused("this request comes from another site", path=OWN_HEADER)
    check_own_site(request)


async def _token_of(request: Request) -> str:
    data = b""
    async for piece in request.stream():
        data += piece
        if len(data) > BODY_MAX_BYTES:
            raise TooLarge("the body is too large", path="body")
    try:
        return msgspec.json.decode(data, type=SignIn).token.strip()
    except msgspec.MsgspecError as error:
        raise Invalid(f"expected a token: {error}", path="body") from None


def _keep(answer: Response, request: Request, token: str) -> None:
    """The cookie: not for scripts, not for other sites, not over a plain connection where there is a better one."""
    answer.set_cookie(COOKIE, token, path="/", httponly=True, samesite="strict", secure=request.url.scheme == "https")

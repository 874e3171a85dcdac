"""The application: routes made from the table, each request checked, let in, carried out and answered.

The way of a request: limits → token → right → path, query and body → verb → answer. An error becomes a problem
(`problems`), and nothing of an unexpected error is shown to the client. Callers: `perdure serve`, the tests. Keeps P10, P11, P15.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import unquote_to_bytes

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from perdure.errors import Conflict, Error, Invalid, NotFound, Refused, Stale
from perdure.planes.conversation import feed
from perdure.version import VERSION
from perdure_server.console import routes as console_reads
from perdure_server.http import (
    access,
    administering,
    bodies,
    bound,
    contents,
    metrics,
    observing,
    openapi,
    operating,
    reading,
    streams,
    subscribing,
    wire,
    working,
    writing,
)
from perdure_server.http.answers import AliveAnswer
from perdure_server.http.call import HttpCall
from perdure_server.http.carrying import carry_out
from perdure_server.http.problems import TYPES, described, plain_response, response_to
from perdure_server.http.route_index import RouteIndex
from perdure_server.http.serving import Serving
from perdure_server.http.table import RIGHTS, ROUTES, Route

log = logging.getLogger("perdure.http")

TABLE: tuple[Route, ...] = tuple(ROUTES)  # complete: the modules with verbs were imported above
_MODULES = (
    console_reads,
    administering,
    bound,
    contents,
    metrics,
    observing,
    operating,
    reading,
    streams,
    subscribing,
    working,
    writing,
)

Endpoint = Callable[[Request], Awaitable[Response]]


def make_app(serving: Serving, pages: Sequence[BaseRoute] = (), routes: Sequence[Route] = TABLE) -> Starlette:
    """The application over open stores. pages: routes beside the table, such as the pages of the console.

    routes: the table, with the rows of other doors.
    """

    @asynccontextmanager
    async def life(_app: Starlette) -> AsyncIterator[None]:
        await serving.open()
        try:
            yield
        finally:
            await serving.close()

    made = [StarletteRoute(each.path, _endpoint(serving, each), methods=[each.method]) for each in routes]
    app = Starlette(
        routes=[*_open_routes(serving, routes), RouteIndex(made), *pages],
        exception_handlers={HTTPException: _refusal, Exception: _bug},
        lifespan=life,
    )
    app.router.redirect_slashes = False
    app.add_middleware(RawPath, serving=serving)
    app.state.serving = serving
    return app


class RawPath:
    """Routes by the path as it was sent: an encoded slash belongs to a name. Headers that every answer has are set here."""

    def __init__(self, app: ASGIApp, serving: Serving) -> None:
        self._app = app
        self._serving = serving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        scope["path"] = raw.partition(b"?")[0].decode("latin-1")

        async def answer(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_ALWAYS]
            await send(message)

        with self._serving.request():
            await self._app(scope, receive, answer)


_ALWAYS = ((b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer"))


# -- without a token -------------------------------------------------------------------------------------------------


def _open_routes(serving: Serving, routes: Sequence[Route]) -> list[BaseRoute]:
    """Routes that say nothing about what is stored."""

    async def alive(_request: Request) -> Response:
        """Whether the server answers and its store can be read."""
        try:
            await serving.control.read(feed.epoch_of)
        except Error as error:
            return response_to(error)
        return _json(AliveAnswer("ok", VERSION))

    async def spec(_request: Request) -> Response:
        return JSONResponse(openapi.document(routes))

    async def about_problem(request: Request) -> Response:
        found = described(request.path_params["name"])
        return JSONResponse(found) if found else response_to(NotFound("no such class of errors", path="path.name"))

    return [
        StarletteRoute("/healthz", alive, methods=["GET"]),
        StarletteRoute("/openapi.json", spec, methods=["GET"]),
        StarletteRoute(f"{TYPES}{{name}}", about_problem, methods=["GET"]),
    ]


# -- with one --------------------------------------------------------------------------------------------------------


def _endpoint(serving: Serving, route: Route) -> Endpoint:
    async def answer(request: Request) -> Response:
        try:
            found = await _answer(serving, route, request)
        except Error as error:
            found = response_to(error, status=_exact_status(route, request, error))
        except ClientDisconnect:
            found = Response(status_code=499)
        serving.admission.answered(found.status_code)
        return found

    return answer


def _exact_status(route: Route, request: Request, error: Error) -> int | None:
    """The status of the protocol where it is more exact than that of the error's class."""
    if type(error) is Stale and route.method == "GET":
        return 410  # a cursor of before a restore: it never comes back
    if type(error) is Conflict and ("if-match" in request.headers or "if-none-match" in request.headers):
        return 412
    return None


async def _answer(serving: Serving, route: Route, request: Request) -> Response:
    identity = await access.identify(serving, request)
    if route.right not in RIGHTS[identity.token.role]:
        raise Refused(
            f"the role {identity.token.role} may not {route.right}", path="authorization",
            hint="use a token with another role: `perdure token create --role …`",
        )  # fmt: skip
    call = HttpCall(serving, identity, _parts(request), request.headers)
    call.read = partial(bodies.read_body, request)
    if route.grows:
        await call.check_bytes(bodies.declared_size(request))
    bodies.read_conditions(route, call)
    given: dict[str, Any] = {}
    if route.query.__struct_fields__ or request.url.query:
        query = bodies.query_of(route, request)
        if route.query.__struct_fields__:
            given["query"] = query
    if route.body is not None:
        given["body"] = await bodies.body_of(route, request)
    found = await carry_out(route, call, given)
    if isinstance(found, Response):
        return found
    if found is None and route.method == "GET" and route.answer is not None and not _may_be_null(route):
        return Response(status_code=204)
    return _tagged(route, call, request, found)


def _tagged(route: Route, call: HttpCall, request: Request, found: Any) -> Response:
    """The answer with its ETag; 304 if the client has it already."""
    plain = wire.wired(found)
    tag = etag_of(plain, call.caller.core.epoch)
    if tag is None:
        answer = _plain_json(plain, route.status)
        answer.headers.update(wire.damage_of(found))
        return answer
    if route.method == "GET" and request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"ETag": tag, "Cache-Control": "no-store"})
    answer = _plain_json(plain, route.status)
    answer.headers["ETag"] = tag
    return answer


def etag_of(plain: Any, epoch: int) -> str | None:
    """The version of a session (its last event) or of a value, as If-Match takes it."""
    if not isinstance(plain, dict):
        return None
    if "last_seq" in plain:
        return f'"{epoch}-{plain["last_seq"]}"'
    return f'"{plain["version"]}"' if plain.keys() >= {"version", "updated_at"} else None


def _may_be_null(route: Route) -> bool:
    return type(None) in getattr(route.answer, "__args__", ())


def _parts(request: Request) -> dict[str, str]:
    """The parts of the path, decoded. Invalid for bytes that are no text."""
    found = {}
    for name, sent in request.path_params.items():
        try:
            found[name] = unquote_to_bytes(sent).decode()
        except UnicodeDecodeError:
            raise Invalid("the path is not UTF-8", path=f"path.{name}") from None
    return found


def _json(value: Any) -> Response:
    return _plain_json(wire.wired(value), 200)


def _plain_json(plain: Any, status: int) -> Response:
    return Response(wire.as_json(plain), status, {"Cache-Control": "no-store"}, "application/json")


# -- what went wrong -------------------------------------------------------------------------------------------------


async def _refusal(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    titles = {404: "NotFound", 405: "MethodNotAllowed"}
    return plain_response(error.status_code, titles.get(error.status_code, "Refused"), error.detail, error.headers)


async def _bug(_request: Request, error: Exception) -> Response:
    """An error that nobody expected: the log has it, the client learns that it is ours."""
    log.error("a request failed: %s", type(error).__name__, exc_info=error)
    told = Error("the server failed; its log says where", hint="this is a bug: report it with the time of the request")
    return response_to(told)


__all__ = ["TABLE", "make_app"]

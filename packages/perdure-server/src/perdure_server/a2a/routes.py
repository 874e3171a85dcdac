"""The routes of A2A: for each agent a card without a token, and JSON-RPC with one. Callers: `perdure serve --a2a`.

A request is let in as on every other route: body within its limit, token, tenant's rate. Then the SDK reads it. Keeps P10, P11.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from a2a.server.context import ServerCallContext
from a2a.server.routes.common import ServerCallContextBuilder
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
from a2a.types import a2a_pb2 as pb
from google.protobuf import json_format
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from perdure.errors import Error
from perdure.model.limits import check_name
from perdure.version import VERSION
from perdure_server.a2a.tasks import VISITOR, StoreTasks
from perdure_server.http import access, bodies
from perdure_server.http.problems import response_to
from perdure_server.http.serving import Serving

CARD = ".well-known/agent-card.json"
TEXT = "text/plain"


def routes_of(serving: Serving, agents: Sequence[str], base: str) -> list[BaseRoute]:
    """The routes for these agents. base: the URL under which clients reach the server."""
    return [route for agent in agents for route in _routes(serving, check_name(agent, "a2a"), base)]


def card_of(agent: str, base: str) -> pb.AgentCard:
    """The card of an agent: where it is, and that it takes a token."""
    url = f"{base.rstrip('/')}/a2a/{quote(agent, safe='')}"
    scheme = pb.SecurityScheme(http_auth_security_scheme=pb.HTTPAuthSecurityScheme(scheme="bearer"))
    return pb.AgentCard(
        name=agent, description=f"The agent {agent}, durable: its tasks outlive restarts.", version=VERSION,
        supported_interfaces=[pb.AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")],
        capabilities=pb.AgentCapabilities(streaming=True, push_notifications=False),
        security_schemes={"bearer": scheme},
        security_requirements=[pb.SecurityRequirement(schemes={"bearer": pb.StringList()})],
        default_input_modes=[TEXT], default_output_modes=[TEXT, "application/json"],
        skills=[pb.AgentSkill(id=agent, name=agent, description=f"Runs of {agent}.", tags=["perdure"])],
    )  # fmt: skip


class _Contexts(ServerCallContextBuilder):
    """The context of a request that was let in: its visitor."""

    def build(self, request: Request) -> ServerCallContext:
        """As the SDK asks for it."""
        return ServerCallContext(state={VISITOR: request.scope[VISITOR], "headers": dict(request.headers)})


def _routes(serving: Serving, agent: str, base: str) -> list[BaseRoute]:
    dispatcher = JsonRpcDispatcher(request_handler=StoreTasks(serving, agent), context_builder=_Contexts())
    card = json_format.MessageToDict(card_of(agent, base))

    async def show(_request: Request) -> Response:
        return JSONResponse(card)

    async def answer(request: Request) -> Response:
        try:
            visitor = await access.identify(serving, request)
            body = await bodies.read_body(request)
        except Error as error:
            return response_to(error)
        let_in = Request({**request.scope, VISITOR: visitor}, _replay(request, body))
        return await dispatcher.handle_requests(let_in)

    path = f"/a2a/{quote(agent, safe='')}"
    return [Route(f"{path}/{CARD}", show, methods=["GET"]), Route(path, answer, methods=["POST"])]


def _replay(request: Request, body: bytes) -> Any:
    """A body that was read already; after it, whether the client goes."""
    sent = False

    async def receive() -> Any:
        nonlocal sent
        if sent:
            return await request.receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive

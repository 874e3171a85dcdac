"""The tokens of a tenant, for its admins: no token of another tenant can be seen, made or revoked here. Keeps P11."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.errors import NotFound, Refused
from perdure.planes.access import tokens
from perdure.planes.access.tokens import TokenRecord
from perdure.runtime.callers import AsyncCaller
from perdure.verbs.declaring import Right
from perdure_server.http.answers import DoneAnswer
from perdure_server.http.call import HttpCall
from perdure_server.http.inputs import TokenInput
from perdure_server.http.table import DELETE, route


class TokenAnswer(msgspec.Struct, frozen=True):
    """A token that was made. token: its text, which is shown this once."""

    token: str
    record: TokenRecord


@route("GET", "/v1/tokens", Right.ADMIN, list[TokenRecord])
async def list_tokens(call: HttpCall) -> Any:
    """The tokens of this tenant that were not revoked, oldest first."""
    return await _control(call).read(tokens.listed, call.identity.token.tenant)


def _control(call: HttpCall) -> AsyncCaller:
    """The caller of the tenant that holds the tokens. Refused at a server for one person, which has another secret."""
    if not call.serving.keeps_tokens:
        hint = "use `perdure serve`; `perdure token` makes, lists and revokes its tokens"
        raise Refused("`perdure console` keeps no tokens", path="path", hint=hint)
    return call.serving.control.acting_as(call.store.actor)


@route("POST", "/v1/tokens", Right.ADMIN, TokenAnswer, status=201, takes_key=True)
async def create_token(call: HttpCall, body: TokenInput) -> Any:
    """Make a token for this tenant. Its text is in this answer and nowhere else.

    With a key it is made once: repeated, a conflict tells its id, so that it can be revoked. Without one, two calls make two.
    """
    control, tenant = _control(call), call.identity.token.tenant
    if call.key is None:
        text, made = await control.write(tokens.create, tenant, body.role, body.actor, body.expires)
    else:
        text, made = await control.write(tokens.create_once, tenant, body.role, body.actor, body.expires, call.key)
    return TokenAnswer(text, made)


@route(DELETE, "/v1/tokens/{token}", Right.ADMIN, DoneAnswer)
async def revoke_token(call: HttpCall) -> Any:
    """Revoke a token of this tenant."""
    control = _control(call)
    known = await control.read(tokens.listed, call.identity.token.tenant)
    if call.parts["token"] not in {each.id for each in known}:
        raise NotFound("this tenant has no such token", path="path.token")
    return DoneAnswer(await control.write(tokens.revoke, call.parts["token"]))

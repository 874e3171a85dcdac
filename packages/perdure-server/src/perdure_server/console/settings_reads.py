"""The read behind the console's page of settings: how much the caller's tenant may take, and when its log was last pruned.

Its tokens are read by `GET /v1/tokens`, whose right only admins have. Callers: the console's routes.
"""

from __future__ import annotations

from typing import Any

from perdure.cli.output import plain
from perdure.planes.execution import workers
from perdure_server.http.call import HttpCall


async def settings(call: HttpCall) -> dict[str, Any]:
    """The limits of the caller's tenant with what it uses of them, and the last pruning. keeps_tokens: whether tokens are
    made and revoked at this server.
    """
    serving = call.serving
    page = await call.store.events(kind="log.pruned", limit=1)
    return {
        "keeps_tokens": serving.keeps_tokens,
        "limits": plain(await serving.limits_of(call.identity.token.tenant)) if serving.keeps_tokens else None,
        "runs": await call.caller.read(workers.unfinished),
        "pruned": {"at": plain(page[0].at), "by": page[0].actor} if page else None,
    }

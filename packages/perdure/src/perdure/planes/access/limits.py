"""Limits of tenants: how much of a server one of them may take. Kept beside the tokens, read by the HTTP door (P15)."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.errors import Damaged, Invalid, Limited
from perdure.log.change import Stream
from perdure.model.limits import check_name
from perdure.planes.execution import runs, workers
from perdure.planes.execution.runs import RunRequest
from perdure.planes.memory import values
from perdure.stores.store import Reads
from perdure.stores.tx import Tx

SCOPE = "limits"
RUNS_AFTER_SECONDS = 10.0


class TenantLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The most that a tenant may have at once; None: no limit. requests: in a second, at a server.

    streams: event streams that are open at a server. runs: runs that are not over. bytes: bodies of events and blobs that are
    stored.
    """

    requests: int | None = None
    streams: int | None = 200
    runs: int | None = None
    bytes: int | None = None


DEFAULT = TenantLimits()


def limits_of(reads: Reads, tenant: str) -> TenantLimits:
    """The limits of a tenant: its own, or the default ones."""
    scope = values.find_scope(reads, SCOPE)
    entry = None if scope is None else values.entry(reads, scope, tenant)
    if entry is None:
        return DEFAULT
    try:
        return msgspec.convert(entry.value, TenantLimits)
    except msgspec.ValidationError as error:
        raise Damaged(f"the stored limits cannot be read: {error}", path=f"limits of {tenant}") from None


def set_limits(tx: Tx, tenant: str, given: dict[str, Any]) -> TenantLimits:
    """Change some limits of a tenant; those that are not named stay. Idempotent."""
    for name, most in given.items():
        if most is not None and (type(most) is not int or most < 0):
            raise Invalid(f"expected a number that is not negative, got {most!r}", path=name)
    changed = msgspec.structs.replace(limits_of(tx, check_name(tenant, "tenant")), **given)
    values.put(tx, values.open_scope(tx, SCOPE), tenant, msgspec.to_builtins(changed))
    return changed


def check_runs(reads: Reads, most: int) -> None:
    """Limited if so many runs of this tenant are not over."""
    unfinished = workers.unfinished(reads)
    if unfinished >= most:
        raise limited(f"{unfinished} runs are not over, at most {most} may be", "runs", RUNS_AFTER_SECONDS)


def start_run(tx: Tx, request: RunRequest, epoch: int, most: int | None) -> Stream:
    """Begin a run, or give the one that stands under its key. Limited if it is new and there are as many as may be."""
    if most is not None and (request.key is None or not runs.is_started(tx, request.agent, request.key)):
        check_runs(tx, most)
    return runs.start(tx, request, epoch)[0]


def limited(says: str, limit: str, seconds: float, hint: str = "come back later") -> Limited:
    """The refusal of a request beyond a limit: which one, and when to come back."""
    hint += f"; `perdure tenant limit --{limit}` raises it"
    return Limited(says, path="tenant", hint=hint, limit=limit, retry_after=round(seconds + 0.5, 1))

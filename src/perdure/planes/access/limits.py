"""Limits of tenants: how much of a server one of them may take. Kept beside the tokens, read by the HTTP door (P15)."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.errors import Damaged, Invalid
from perdure.model.limits import check_name
from perdure.planes.memory import values
from perdure.stores.store import Reads
from perdure.stores.tx import Tx

SCOPE = "limits"


class TenantLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The most that a tenant may have at once; None: no limit. requests: in a second, at a server.

    streams: event streams that are open at a server. runs: runs that are not over.
    """

    requests: int | None = None
    streams: int | None = 200
    runs: int | None = None


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
        raise Damaged(f"the stored limits are none: {error}", path=f"limits of {tenant}") from None


def set_limits(tx: Tx, tenant: str, given: dict[str, Any]) -> TenantLimits:
    """Change some limits of a tenant; those that are not named stay. Idempotent."""
    for name, most in given.items():
        if most is not None and (type(most) is not int or most < 0):
            raise Invalid(f"expected a number that is not negative, got {most!r}", path=name)
    changed = msgspec.structs.replace(limits_of(tx, check_name(tenant, "tenant")), **given)
    values.put(tx, values.open_scope(tx, SCOPE), tenant, msgspec.to_builtins(changed))
    return changed

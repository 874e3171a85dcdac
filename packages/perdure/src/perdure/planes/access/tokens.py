"""Tokens: opaque secrets that name a tenant, a role and an actor. Only a digest of the secret is kept (P11).

A token is an entry of the scope `tokens` in the control tenant, which no token opens: making and revoking one is recorded,
verified and moved like every other value (docs/decisions/0052). When it was last used is noted in `tokens/used`, at most
once an hour. Callers: the HTTP door, `perdure token`.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import re
from base64 import urlsafe_b64encode
from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec

from perdure.errors import Conflict, Damaged, NotFound, Unauthenticated
from perdure.model import ids
from perdure.model.instants import SECOND_US, to_datetime
from perdure.model.limits import check_name, check_one_of
from perdure.planes.execution import requests
from perdure.planes.memory import values
from perdure.planes.reading.durations import Duration, deadline, store_now
from perdure.stores.store import Reads
from perdure.stores.tx import Tx

CONTROL = "_control"  # the tenant that holds tokens and limits: no token opens it
SCOPE = "tokens"
USED = "tokens/used"
USED_EVERY_US = 3_600 * SECOND_US
LISTED_MAX = 1_000

_FORM = re.compile(r"pdr_([0-9a-f]{12})_([A-Za-z0-9_-]{43})([0-9a-f]{6})", re.ASCII)


class TokenRole(enum.StrEnum):
    """The part that the holder of a token plays. Which routes it opens is in `doors.http.table`."""

    VIEWER = "viewer"
    WRITER = "writer"
    OPERATOR = "operator"
    WORKER = "worker"
    AUDITOR = "auditor"
    ADMIN = "admin"


TokenRoleName: TypeAlias = Literal["viewer", "writer", "operator", "worker", "auditor", "admin"]


class TokenRecord(msgspec.Struct, frozen=True):
    """A token as lists show it: everything but the secret. `actor` is the name that its events carry."""

    id: str
    tenant: str
    role: TokenRole
    actor: str
    made_by: str
    made_at: datetime
    expires_at: datetime | None
    used_at: datetime | None = None
    expired: bool = False


class _StoredToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The value of a token's entry."""

    digest: str
    tenant: str
    role: TokenRole
    actor: str
    made_at: int
    expires_at: int | None


def create(
    tx: Tx, tenant: str, role: TokenRole | TokenRoleName, actor: str, expires: Duration | None = None
) -> tuple[str, TokenRecord]:
    """Make a token: its text, which is shown this once, and its record. expires: from now, such as "90d"."""
    chosen = check_one_of(TokenRole, role, "role")
    check_name(tenant, "tenant")
    if tenant == CONTROL:
        raise NotFound("no token opens the control tenant", path="tenant")
    check_name(actor, "actor")
    name, secret = ids.random_bytes(6).hex(), urlsafe_b64encode(ids.random_bytes(32)).decode().rstrip("=")
    text = f"pdr_{name}_{secret}"
    text += _check(text)
    token = _StoredToken(digest(text), tenant, chosen, actor, tx.store_now(), deadline(tx, expires, "expires"))
    values.put(tx, values.open_scope(tx, SCOPE), name, msgspec.to_builtins(token), expect=0)
    return text, _record(name, token, tx.actor, None, token.made_at)


def create_once(
    tx: Tx, tenant: str, role: TokenRole | TokenRoleName, actor: str, expires: Duration | None, key: str
) -> tuple[str, TokenRecord]:
    """Make a token, once for a key of this tenant. Again raises Conflict with its id: the mark holds no text, so nobody can show
    it a second time. Raises KeyReused.
    """
    scope, mark = values.open_scope(tx, SCOPE), hashlib.sha256(f"{tenant}\0{key}".encode()).hexdigest()
    request = {"role": str(role), "actor": actor, "expires": None if expires is None else str(expires)}
    earlier = requests.answered(tx, scope, mark, request)
    if earlier is not None:
        hint = "the text was shown once; revoke it and make another"
        raise Conflict(f"this request made the token {earlier.answer}", path="key", hint=hint, id=earlier.answer)
    text, record = create(tx, tenant, role, actor, expires)
    requests.keep(tx, scope, mark, request, record.id)
    return text, record


def find(reads: Reads, text: str) -> TokenRecord:
    """The token behind a text. Unauthenticated if it is malformed, unknown, expired or revoked: one answer for all."""
    return find_with_expiry(reads, text)[0]


def find_with_expiry(reads: Reads, text: str) -> tuple[TokenRecord, int | None]:
    """The token behind a text, and when it expires on the store's clock. Unauthenticated as `find`."""
    form = _FORM.fullmatch(text) if len(text) < 200 else None
    if form is None or _check(text[:-6]) != form[3]:
        raise unknown()
    stream = values.find_scope(reads, SCOPE)
    entry = values.entry(reads, stream, form[1]) if stream is not None else None
    if entry is None:
        raise unknown()
    token = _stored_token(entry.value, form[1])
    if not hmac.compare_digest(token.digest, digest(text)):
        raise unknown()
    record = _record(form[1], token, entry.actor, None, store_now(reads))
    if record.expired:
        raise unknown()
    return record, token.expires_at


def revoke(tx: Tx, name: str) -> bool:
    """Let a token open nothing any more; whether it did before. Idempotent."""
    return values.delete(tx, values.open_scope(tx, SCOPE), check_name(name, "token"))


def note_use(tx: Tx, name: str) -> None:
    """Write down that a token was used, at most once an hour."""
    scope = values.open_scope(tx, USED)
    last = values.entry(tx, scope, name)
    now_us = tx.store_now()
    if last is None or type(last.value) is not int or now_us - last.value >= USED_EVERY_US:
        values.put(tx, scope, name, now_us)


def listed(reads: Reads, tenant: str | None = None) -> list[TokenRecord]:
    """The tokens that were not revoked, oldest first; of one tenant or of all."""
    stream, used = values.find_scope(reads, SCOPE), values.find_scope(reads, USED)
    if stream is None:
        return []
    now_us = store_now(reads)
    entries = values.entries(reads, stream, limit=LISTED_MAX).whole()
    use_entries = [] if used is None else values.entries(reads, used, limit=LISTED_MAX).whole()
    uses = {entry.name: entry.value for entry in use_entries}
    records = [
        _record(entry.name, _stored_token(entry.value, entry.name), entry.actor, uses.get(entry.name), now_us)
        for entry in entries
    ]
    mine = (record for record in records if tenant in (None, record.tenant))
    return sorted(mine, key=lambda record: (record.made_at, record.id))


def _stored_token(value: Any, name: str) -> _StoredToken:
    try:
        return msgspec.convert(value, _StoredToken)
    except msgspec.ValidationError as error:
        raise Damaged(f"the stored token cannot be read: {error}", path=f"token {name}") from None


def _record(name: str, token: _StoredToken, made_by: str, used_us: Any, now_us: int) -> TokenRecord:
    over = token.expires_at is not None and token.expires_at <= now_us
    used_at = to_datetime(used_us) if type(used_us) is int else None
    ends_at = None if token.expires_at is None else to_datetime(token.expires_at)
    return TokenRecord(
        id=name, tenant=token.tenant, role=token.role, actor=token.actor, made_by=made_by, expired=over, used_at=used_at,
        made_at=to_datetime(token.made_at), expires_at=ends_at,
    )  # fmt: skip


def _check(text: str) -> str:
    """Six digits by which a scanner for leaked secrets, and the door, tell a token from a slip."""
    return hashlib.sha256(text.encode()).hexdigest()[:6]


def digest(text: str) -> str:
    """Random 256 bits need no slow hash: nobody guesses them."""
    return hashlib.sha256(b"perdure token\0" + text.encode()).hexdigest()


def unknown() -> Unauthenticated:
    """The one answer to every text that opens nothing."""
    return Unauthenticated(
        "this token is unknown, expired or revoked", path="authorization", hint="`perdure token create` makes a new one"
    )

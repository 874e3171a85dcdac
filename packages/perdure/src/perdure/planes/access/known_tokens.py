"""Tokens that a server has found before: good as long as the head of their stream stays where it was.

Making or revoking a token records an event in that stream, which moves its head. So one row, read at every request, says whether
all that is known still holds: a token that was revoked opens nothing from that commit on. Callers: the HTTP door. Keeps P11.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from perdure.errors import Unauthenticated
from perdure.planes.access import tokens
from perdure.planes.access.tokens import TokenRecord
from perdure.planes.reading.durations import store_now
from perdure.stores.statements import Statements
from perdure.stores.store import Head, Reads

Q = Statements("perdure.planes.access", "known_tokens.sql")

KNOWN_MAX = 10_000


class TokensLook(NamedTuple):
    """The stream of tokens at one moment: its head, and the store's clock."""

    head: Head
    now_us: int


def look(reads: Reads) -> TokensLook | None:
    """The stream of tokens as it is now; None if no token was ever made."""
    rows = reads.query(Q.tokens_head, tenant=reads.tenant, scope=tokens.SCOPE)
    return TokensLook((rows[0][0], bytes(rows[0][1])), store_now(reads)) if rows else None


class KnownTokens:
    """Tokens by the digests of their texts, as of one head."""

    __slots__ = ("_as_of",)

    def __init__(self) -> None:
        self._as_of: tuple[Head | None, dict[str, tuple[TokenRecord, int | None]]] = (None, {})

    def find(self, view: TokensLook, text: str) -> TokenRecord | None:
        """The token behind a text; None if it is not known, or does not open anything any more."""
        head, entries = self._as_of
        if head != view.head:
            return None
        record, expires_us = entries.get(tokens.digest(text), (None, None))
        return record if expires_us is None or expires_us > view.now_us else None

    def find_each(self, reads: Reads, texts: Sequence[str]) -> list[TokenRecord | Unauthenticated]:
        """The token behind each text, or why there is none; only those that are not known are read."""
        view = look(reads)  # first: a token that is revoked after this look is known as of a head that is gone
        return [tokens.unknown() if view is None else self._known_or_read(reads, view, text) for text in texts]

    def _known_or_read(self, reads: Reads, view: TokensLook, text: str) -> TokenRecord | Unauthenticated:
        cached = self.find(view, text)
        if cached is not None:
            return cached
        try:
            record, expires_us = tokens.find_with_expiry(reads, text)
        except Unauthenticated as error:
            return error
        head, others = self._as_of
        if head != view.head or len(others) >= KNOWN_MAX:
            others = {}
        others[tokens.digest(text)] = (record, expires_us)
        self._as_of = (view.head, others)
        return record

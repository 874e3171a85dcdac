"""Identities: random, made in one place, so that a simulation can replace the source of randomness."""

from __future__ import annotations

import os

UID_BYTES = 16

random_bytes = os.urandom


class Entropy:
    """Random bytes drawn from the system in blocks: one system call serves many salts. Not for use across a fork."""

    _BLOCK = 4096

    def __init__(self) -> None:
        self._block = b""
        self._used = 0

    def take(self, count: int) -> bytes:
        """The next `count` random bytes."""
        start = self._used
        if start + count > len(self._block):
            self._block, start = random_bytes(self._BLOCK), 0
        self._used = start + count
        return self._block[start : start + count]


def new_uid() -> bytes:
    """A new identity: 16 random bytes."""
    return random_bytes(UID_BYTES)

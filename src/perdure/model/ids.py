"""Identities: random, made in one place, so that a simulation can replace the source of randomness."""

from __future__ import annotations

import os

UID_BYTES = 16

random_bytes = os.urandom


class Entropy:
    """Random bytes drawn from the system in blocks: one system call serves many salts.

    A block is never shared across a fork: the child draws its own (a salt used twice would still commit, but could be guessed).
    """

    _BLOCK = 4096

    def __init__(self) -> None:
        self._pid = 0
        self._block = b""
        self._used = 0

    def take(self, count: int) -> bytes:
        """The next `count` random bytes."""
        if self._used + count > len(self._block) or self._pid != os.getpid():
            self._block, self._used, self._pid = random_bytes(self._BLOCK), 0, os.getpid()
        start = self._used
        self._used += count
        return self._block[start : start + count]


def new_uid() -> bytes:
    """A new identity: 16 random bytes."""
    return random_bytes(UID_BYTES)

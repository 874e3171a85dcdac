"""An embedding for tests: small, fast, the same everywhere, and of no great understanding.

Each word has a direction of its own, made from its digest, and a text has the sum of its words'. Words of one meaning can be
given one direction. Callers: the contract suite, tests, the bench.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from perdure.model.words import words


class HashedEmbedding:
    """A function of texts that gives each a vector. meanings: words (as `words` gives them) that mean another one."""

    def __init__(self, dims: int = 64, *, name: str = "hashed", meanings: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.dims = dims
        self.sha256 = hashlib.sha256(f"{name} {dims}".encode()).hexdigest()
        self.calls = 0  # how many texts it was asked for
        self._meanings = dict(meanings or {})

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        """The vector of each text; zero for one without words."""
        self.calls += len(texts)
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        total = [0.0] * self.dims
        for word in words(text):
            for i, number in enumerate(self._direction(self._meanings.get(word, word))):
                total[i] += number
        return total

    def _direction(self, word: str) -> list[float]:
        data = hashlib.shake_256(f"{self.name} {word}".encode()).digest(self.dims)
        return [byte - 127.5 for byte in data]

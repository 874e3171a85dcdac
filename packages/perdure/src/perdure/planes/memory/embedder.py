"""The function that makes vectors of texts, checked: whatever it gives is used only if it can be.

    open(url, embed=function)    a function of a list of texts that gives one vector each; its name, `sha256` and `dims`, where it
                                 has them, say which vectors belong together; `reads(text)`, if it has it, which texts it
                                 knows the language of: the others are found by words alone
    open(url)                    the extra's own (`minilm`), where that is installed; none else
    open(url, embed=False)       none

It is called outside of every transaction. A text whose vector points nowhere has none; a vector of another size, or something
that is no vector, is an error, and nothing is kept of that call. Callers: `vectors`, `search`, the handles.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

from perdure.errors import Error, Invalid, Unavailable
from perdure.planes.memory import minilm
from perdure.planes.memory.vector_bytes import cosines, pack

DIMS_MAX = 4_096
NAME_MAX_CHARS = 200

# Sentences that have to do with nothing in particular: how near a query is to them is how near it is to what does not answer it.
UNRELATED = (
    "The ferry leaves the island at noon.", "They bought three kilos of plums at the market.",
    "A violin needs new strings every few months.", "The committee met twice in October.",
    "Snow fell on the mountains overnight.", "They keep bees behind the old railway station.",
    "The museum is closed for repairs.", "My grandmother knitted this scarf.",
    "Wheat prices rose after the dry summer.", "The goalkeeper saved the last penalty.",
    "They painted the kitchen pale yellow.", "A comet will be visible before dawn.",
    "The tailor shortened the sleeves.", "Otters sleep while floating on their backs.",
    "The recipe calls for two eggs and a pinch of salt.", "The choir sang without an organ.",
)  # fmt: skip


class Embedder:
    """A function of texts that was given to a store. Threads may share it."""

    def __init__(self, function: Callable[[list[str]], Sequence[Sequence[float]]]) -> None:
        if not callable(function):
            hint = "a function of a list of texts that returns a vector for each"
            raise Invalid(f"expected a function, got {type(function).__name__}", path="embed", hint=hint)
        self._function = function
        name = getattr(function, "name", None) or getattr(function, "__qualname__", None) or type(function).__qualname__
        self.name = str(name)[:NAME_MAX_CHARS]
        self._mutex = threading.Lock()
        self._sentences: list[bytes] = []
        self._dims = 0

    @property
    def sha256(self) -> str:
        """The digest of the weights, as the function says it; empty when it does not."""
        return str(getattr(self._function, "sha256", ""))[:64]

    @property
    def number(self) -> int:
        """A number that stands for its name, digest and size, the same for every tenant and store."""
        digest = hashlib.sha256(f"{self.name}\0{self.sha256}\0{self.dims}".encode()).digest()
        return int.from_bytes(digest[:4]) % 2**31

    @property
    def dims(self) -> int:
        """How many numbers a vector has."""
        return self._dims or len(self._calibrated()[0])

    def reads(self, text: str) -> bool:
        """Whether a vector of this text means anything."""
        knows = getattr(self._function, "reads", None)
        return bool(text.strip()) and (knows is None or bool(knows(text)))

    def vectors(self, texts: Sequence[str]) -> list[list[float] | None]:
        """The vector of each text; None where it points nowhere. Unavailable if the function fails, Invalid if it gives other
        things than vectors of one size.
        """
        try:
            answer = self._function(list(texts))
            vectors = [[float(number) for number in vector] for vector in answer]
        except Error:
            raise
        except (TypeError, ValueError) as error:
            raise Invalid(f"{self.name} gave no vectors: {error}"[:300], path="embed") from error
        except Exception as error:
            hint = "a search by words works all the same"
            raise Unavailable(f"{self.name} failed: {error!r}"[:300], path="embed", hint=hint) from error
        if len(vectors) != len(texts):
            raise Invalid(f"{self.name} gave {len(vectors)} vectors for {len(texts)} texts", path="embed")
        return [self._checked(vector) for vector in vectors]

    def _checked(self, vector: list[float]) -> list[float] | None:
        if not 0 < len(vector) <= DIMS_MAX or (self._dims and len(vector) != self._dims):
            expected = self._dims or f"1 to {DIMS_MAX}"
            message = f"{self.name} gave a vector of {len(vector)} numbers, expected {expected}"
            raise Invalid(message, path="embed", hint="vectors of another size need another name")
        self._dims = self._dims or getattr(self._function, "dims", None) or len(vector)
        if len(vector) != self._dims:
            raise Invalid(f"{self.name} gave {len(vector)} numbers and says {self._dims}", path="embed")
        return vector if pack(vector) else None

    def unrelated(self, query: Sequence[float]) -> tuple[float, float]:
        """How near this query is to what has nothing to do with it: the mean, and how far that scatters."""
        near = cosines(query, self._calibrated())
        mean = sum(near) / len(near)
        return mean, math.sqrt(sum((cosine - mean) ** 2 for cosine in near) / len(near))

    def _calibrated(self) -> list[bytes]:
        with self._mutex:
            if not self._sentences:
                packed = [pack(vector) for vector in self.vectors(UNRELATED) if vector]
                self._sentences = [entry.numbers for entry in packed if entry]
                if not self._sentences:
                    message = f"{self.name} gives no plain sentence a vector: all are zero or not finite"
                    raise Invalid(message, path="embed")
            return self._sentences


def embedder_of(embed: Any) -> Embedder | None:
    """The embedding of a store, by the argument of `open`. None: the extra's, where it is installed. False: nothing."""
    if embed is False:
        return None
    if embed is None:
        return Embedder(minilm.installed()) if minilm.is_there() else None
    return embed if isinstance(embed, Embedder) else Embedder(embed)

"""The embedding that the extra `embed` brings: all-MiniLM-L6-v2 as int8, run by onnxruntime, with our own WordPiece.

The weights are the data wheel `perdure-minilm` (tools/minilm.py builds it). Nothing here is loaded before the first text is
embedded, and no vector of it is ever compared byte for byte: the kernels of CPUs differ. Callers: `embedding`.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from perdure.errors import Refused
from perdure.model.wordpiece import WordPiece

NAME, DIMS = "all-MiniLM-L6-v2-int8", 384
BATCH_TEXTS = 32
TOKENS_MAX = 256
_WHEEL, _RUNTIME = "perdure_minilm", ("onnxruntime", "numpy")


def is_there() -> bool:
    """Whether the extra is installed, with its weights. Loads nothing."""
    return all(find_spec(name) is not None for name in (_WHEEL, *_RUNTIME))


def installed() -> MiniLM:
    """The model of the data wheel. Refused, with what to install, when it is not there."""
    if not is_there():
        hint = "pip install 'perdure[embed]' perdure-minilm, or pass embed= a function of your own"
        raise Refused("the extra `embed` is not installed", path="embed", hint=hint)
    spec = find_spec(_WHEEL)
    assert spec is not None
    assert spec.origin is not None
    return MiniLM(Path(spec.origin).parent)


def is_latin(text: str) -> bool:
    """Whether at least half of a text's letters are Latin: of other scripts this model has seen next to nothing."""
    letters = [char for char in text if char.isalpha()]
    return 2 * sum(char < "\u0250" for char in letters) >= len(letters)


class MiniLM:
    """A function of texts that gives their vectors: 384 numbers each, of length 1. Threads may share it."""

    name = NAME
    dims = DIMS
    reads = staticmethod(is_latin)

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._mutex = threading.Lock()
        self._session: Any = None
        self._pieces: WordPiece | None = None
        self._sha256 = ""

    @property
    def sha256(self) -> str:
        """The digest of the weights."""
        with self._mutex:
            if not self._sha256:
                with (self._folder / "model.onnx").open("rb") as file:
                    self._sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            return self._sha256

    def __call__(self, texts: Sequence[str]) -> list[Sequence[float]]:
        """The vector of each text; an empty one gets that of nothing said."""
        session, pieces = self._loaded()
        encoded = [pieces.encode(text) for text in texts]
        vectors: list[Sequence[float]] = [()] * len(texts)
        by_length = sorted(range(len(texts)), key=lambda i: len(encoded[i]))  # so that little is padded
        for start in range(0, len(by_length), BATCH_TEXTS):
            numbers = by_length[start : start + BATCH_TEXTS]
            for i, vector in zip(numbers, _run(session, [encoded[i] for i in numbers]), strict=True):
                vectors[i] = vector
        return vectors

    def _loaded(self) -> tuple[Any, WordPiece]:
        with self._mutex:
            if self._session is None or self._pieces is None:
                import onnxruntime  # noqa: PLC0415 # pyright: ignore[reportMissingImports] - an extra, loaded where it is used

                options = onnxruntime.SessionOptions()
                options.intra_op_num_threads = 1  # a store's work goes on beside it
                options.log_severity_level = 3
                model = str(self._folder / "model.onnx")
                self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
                vocabulary = (self._folder / "vocab.txt").read_text(encoding="utf-8")
                self._pieces = WordPiece(vocabulary, tokens_max=TOKENS_MAX)
            return self._session, self._pieces


def _run(session: Any, encoded: list[list[int]]) -> Any:
    import numpy as np  # noqa: PLC0415 - as above

    width = max(map(len, encoded))
    ids = np.zeros((len(encoded), width), dtype=np.int64)
    mask = np.zeros_like(ids)
    for i, numbers in enumerate(encoded):
        ids[i, : len(numbers)] = numbers
        mask[i, : len(numbers)] = 1
    return session.run(["vector"], {"ids": ids, "mask": mask})[0]

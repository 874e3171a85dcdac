"""The labelled set: a coding history of sixteen sessions, and questions with the things that answer each. Apache-2.0.

`vectors.bin` holds the int8 vectors of its texts by all-MiniLM-L6-v2, so that it can be measured where no weights are; it
is data, made by `python -m perdure_evaluate.recall.question_set FOLDER`. Callers: `measures`, the bench, the tests.
"""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from perdure.errors import Invalid
from perdure.handles.sync.store import Store
from perdure.planes.memory.embedder import UNRELATED
from perdure.planes.memory.minilm import is_latin
from perdure.planes.memory.vector_bytes import pack

FOLDER = Path(__file__).parent
DIMS = 384
_KEY_BYTES = 8


class LabelledThing(NamedTuple):
    """One thing of the history: where, by whom or of which kind, and what."""

    id: str
    session: str
    kind: str
    text: str


class LabelledQuestion(NamedTuple):
    """A question, with the ids of what answers it."""

    text: str
    evidence: frozenset[str]


def history() -> list[LabelledThing]:
    """The whole history, in its order."""
    things: list[LabelledThing] = []
    session = ""
    for line in _lines("history.txt"):
        if line.startswith("== "):
            session = line[3:]
            continue
        name, kind, text = line.split(" ", 2)
        things.append(LabelledThing(name, session, kind, text))
    return things


def questions() -> list[LabelledQuestion]:
    """Every question."""
    parts = (line.split(" | ", 1) for line in _lines("questions.txt"))
    return [LabelledQuestion(text, frozenset(evidence.split())) for evidence, text in parts]


def _lines(name: str) -> list[str]:
    text = FOLDER.joinpath(name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def tell(store: Store, things: Sequence[LabelledThing]) -> dict[tuple[str, int], str]:
    """Say, decide and remember a history; the id of each thing by its session and number there."""
    ids: dict[tuple[str, int], str] = {}
    for thing in things:
        session = store.session(thing.session)
        if thing.kind in ("user", "assistant"):
            seq = session.say(thing.kind, thing.text).seq
        elif thing.kind == "tool":
            seq = session.say("assistant", f"$ {thing.text}").seq
        elif thing.kind == "decision":
            text, because = _decided(thing.text)
            seq = session.decide(text, because=because).seq
        else:
            seq = session.remember(thing.text, kind=thing.kind).seq
        ids[thing.session, seq] = thing.id
    return ids


class KeptVectors:
    """An embedding of the texts of this set alone, by the vectors that were made of them once."""

    name = "all-MiniLM-L6-v2-int8 (kept)"
    dims = DIMS
    reads = staticmethod(is_latin)

    def __init__(self) -> None:
        data = FOLDER.joinpath("vectors.bin").read_bytes()
        width = _KEY_BYTES + DIMS
        self.sha256 = hashlib.sha256(data).hexdigest()
        self._kept = {
            data[at : at + _KEY_BYTES]: array("b", data[at + _KEY_BYTES : at + width])
            for at in range(0, len(data), width)
        }

    def __call__(self, texts: Sequence[str]) -> list[Sequence[float]]:
        """The vector of each text. Invalid for a text that is not of this set."""
        missing = [text for text in texts if _key(text) not in self._kept]
        if missing:
            raise Invalid(f"no vector is kept of {missing[0][:60]!r}", path="embed")
        return [self._kept[_key(text)] for text in texts]


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()[:_KEY_BYTES]


def as_said(thing: LabelledThing) -> str:
    """A thing's text as the index reads it."""
    if thing.kind == "decision":
        return "\n".join(_decided(thing.text))
    return f"$ {thing.text}" if thing.kind == "tool" else thing.text


def _decided(text: str) -> tuple[str, str]:
    what, _, because = text.replace("原因：", "Because: ").partition("Because: ")
    return what.strip(), because or "it was said so"


def said_texts() -> list[str]:
    """Every text that is embedded when this set is searched."""
    return list(dict.fromkeys([*UNRELATED, *(question.text for question in questions()), *map(as_said, history())]))


def keep(folder: str) -> int:
    """Make vectors.bin with the weights in a folder; how many vectors it has."""
    from perdure.planes.memory.minilm import MiniLM  # noqa: PLC0415 - an extra

    texts = said_texts()
    vectors = MiniLM(folder)(texts)
    packed = [pack([float(number) for number in vector]) for vector in vectors]
    rows = [_key(text) + entry.numbers for text, entry in zip(texts, packed, strict=True) if entry]
    FOLDER.joinpath("vectors.bin").write_bytes(b"".join(rows))
    return len(rows)


if __name__ == "__main__":
    sys.stdout.write(f"{keep(sys.argv[1])}\n")

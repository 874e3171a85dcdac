"""The extra's own embedding. Its weights are in no repository: without them the tests that need them say so.

`python tools/minilm.py --cache DIR` makes them; PERDURE_MINILM=DIR, or perdure-minilm installed, runs what is here.
"""

from __future__ import annotations

import math
import os
from operator import mul
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.errors import Refused
from perdure.model.records.memories import ByVectors
from perdure.planes.memory import embedder, minilm


@pytest.fixture(scope="module")
def model() -> minilm.MiniLM:
    pytest.importorskip("onnxruntime", reason="the extra embed is not installed: pip install onnxruntime")
    folder = os.environ.get("PERDURE_MINILM")
    if folder is None and not minilm.is_there():
        pytest.skip("no weights: tools/minilm.py --cache DIR makes them, and PERDURE_MINILM=DIR names them")
    return minilm.installed() if folder is None else minilm.MiniLM(Path(folder))


def test_without_the_extra_there_is_no_embedding_and_it_is_said_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(minilm, "find_spec", lambda _: None)
    assert embedder.embedder_of(None) is None
    with pytest.raises(Refused) as refused:
        minilm.installed()
    assert "perdure[embed]" in refused.value.hint


def test_with_the_extra_it_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    spec = type("Spec", (), {"origin": str(tmp_path / "__init__.py")})()
    monkeypatch.setattr(minilm, "find_spec", lambda _: spec)
    found = embedder.embedder_of(None)
    assert found is not None
    assert found.name == minilm.NAME
    assert embedder.embedder_of(False) is None


@pytest.mark.parametrize(
    ("text", "known"), [("run the tests", True), ("订单很慢", False), ("Redis 挂了", True), ("123 !", True)]
)
def test_it_reads_latin_letters(text: str, known: bool) -> None:
    assert minilm.is_latin(text) is known


def test_near_in_meaning_is_near(model: minilm.MiniLM) -> None:
    texts = ["That is a happy person", "That is a very happy person", "That is a happy dog", "Today is a sunny day", ""]
    found = [list(map(float, vector)) for vector in model(texts)]
    assert all(math.isclose(sum(map(mul, each, each)), 1, abs_tol=1e-3) for each in found)
    near = [sum(map(mul, found[0], other)) for other in found]
    assert near[1] > 0.9 > near[2] > 0.6 > 0.4 > near[3]
    assert len(model.sha256) == 64


def test_it_is_found_by_meaning(model: minilm.MiniLM, tmp_path: Any) -> None:
    with perdure.open(f"sqlite:///{tmp_path}/a.db", embed=model) as store:
        session = store.session("s")
        session.remember("The test suite is started with make check")
        session.remember("Alice likes dark chocolate")
        hits = session.recall("how do I verify my changes?")
        assert hits.vectors is ByVectors.ALL
        assert "make check" in hits[0].memory.text
